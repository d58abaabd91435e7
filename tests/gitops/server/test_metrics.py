"""Metrics: what they say, that their number does not grow with objects, and that documents and dashboards name those that there are."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from applier.causes import Cause, Reason
from applier.cluster import parse_cluster_name
from applier.execute.results import Result
from gitops.daemon.workqueue import WorkQueue
from gitops.errors import SourceError
from gitops.instrumentation import STAGES
from gitops.server.dashboard import Dashboard
from gitops.server.metrics import Metrics
from gitops.server.monitor import Monitor
from tests.support.clock import START, StillClock
from tests.support.monitoring.metrics import KEY, ROOT, multiplied, series, values
from tests.support.monitoring.scene import FREEZE, HOURS, Scene, planned, scene

OPERATIONS = ROOT / "docs" / "operations.md"


async def test_before_the_first_pass_there_is_little_to_say() -> None:
    async with scene(leads=False) as seen:
        text = await seen.metrics()
    assert values(text, "levelgate_leader") == {(): 0}
    assert values(text, "levelgate_build_info") == {("0.1.0",): 1}
    assert values(text, "levelgate_instances") == {}


async def test_a_wrong_count_of_a_rollout_is_told() -> None:
    """2.6: the recount wins, and a mismatch is a fault to be seen."""
    async with scene() as seen:
        seen.fleet.push()
        found = await seen.step()
        assert values(await seen.metrics(), "levelgate_rollout_miscounts_total") == {(): 0}
        seen.seen.record_pass(replace(found, miscounted=("links.g.test",)))
        assert values(await seen.metrics(), "levelgate_rollout_miscounts_total") == {(): 1}


async def test_work_that_waits_is_counted_and_timed() -> None:
    """S2-2: the depth of the queue and the age of what has waited longest."""
    now, woken = [10.0], list[bool]()
    queue = WorkQueue[str](lambda _: "cluster", lambda: woken.append(True), lambda: now[0])
    monitor = Monitor(parse_cluster_name("cluster"), "0.1.0", StillClock(), leads=lambda: True)
    metrics = Metrics(monitor, dict, queue=lambda: (len(queue), queue.oldest_age_seconds))
    queue.add("a")
    now[0] = 12.0
    queue.add("b")
    now[0] = 13.5
    text = (await metrics.render(START)).decode()
    assert values(text, "levelgate_queue_depth") == {(): 2}
    assert values(text, "levelgate_queue_oldest_seconds") == {(): 3.5}


async def test_every_stage_is_there_from_the_start() -> None:
    async with scene() as seen:
        text = await seen.metrics()
    assert values(text, "levelgate_stage_duration_seconds_count") == dict.fromkeys([(stage,) for stage in STAGES], 0)


async def test_a_fleet_that_waits_for_a_window() -> None:
    async with scene(names=("i0", "i1")) as seen:
        await seen.started()
        seen.fleet.push("two", prod=HOURS, freeze=FREEZE)
        await seen.step(timedelta(hours=6))
        text = await seen.metrics()
    assert values(text, "levelgate_instances") == {("links.g.test", "platform", "Held"): 2}
    assert values(text, "levelgate_blocked")[("WindowClosed", "platform")] >= 1
    assert values(text, "levelgate_windows") == {
        ("Allow", "platform", "inactive"): 1,
        ("Deny", "platform", "inactive"): 1,
    }
    (opening,) = values(text, "levelgate_next_opening_timestamp_seconds").values()
    assert opening > seen.fleet.clock.seconds()
    assert values(text, "levelgate_source_lag_seconds")[("platform",)] >= 0
    assert values(text, "levelgate_source_state") == {("platform", "Held"): 1}
    assert values(text, "levelgate_api_requests_total") == {("200", "list"): 3, ("409", "patch"): 1}
    assert values(text, "levelgate_stage_duration_seconds_count")[("pass",)] == seen.seen.monitor.changes.number


async def test_a_source_that_lags_and_cannot_be_read() -> None:
    """Revision lag, Git, windows and rollouts while nothing moves; and what each says once that is over."""
    async with scene(names=("i0", "i1")) as seen:
        await seen.started()
        at_rest = await seen.metrics()
        seen.fleet.push("two", prod=HOURS, freeze=FREEZE, hours={**HOURS, "timeZone": "Asia/Tokyo"})
        await seen.step(timedelta(hours=48))
        seen.fleet.clock.moment += timedelta(minutes=5)
        seen.seen.monitor.errors = lambda: {"platform": SourceError("https://git.test", "no answer")}
        text = await seen.metrics()
        openings = [one.until for standing in (await board(seen)).overview.instances for one in standing.display_causes]
    for told, number in ((at_rest, 0.0), (text, 300.0)):
        assert values(told, "levelgate_source_lag_seconds") == {("platform",): number}
    assert values(at_rest, "levelgate_source_readable") == {("platform",): 1}
    assert values(text, "levelgate_source_readable") == {("platform",): 0}
    assert values(at_rest, "levelgate_leader") == {(): 1}
    assert values(text, "levelgate_last_pass_timestamp_seconds") == {(): seen.fleet.clock.seconds() - 300}
    assert values(text, "levelgate_windows")["Deny", "platform", "active"] == 1
    first = min(one.timestamp() for one in openings if one)
    assert values(text, "levelgate_next_opening_timestamp_seconds") == {("platform",): first}
    of_rollout = {state: count for (_, state), count in values(text, "levelgate_rollout_instances").items()}
    assert of_rollout["Waiting"] == 2
    assert of_rollout["Settled"] == 0
    assert {state: count for (_, state), count in values(at_rest, "levelgate_rollout_instances").items()}.get(
        "Settled", 2
    ) == 2


async def board(seen: Scene) -> Dashboard:
    found = await seen.seen.monitor.dashboard()
    assert found is not None
    return found


async def test_the_earliest_opening_is_told_and_what_is_kept_is_counted() -> None:
    async with scene(names=("i0", "i1")) as seen:
        await seen.started()
        found = await seen.step()
        times = iter((START + timedelta(hours=9), START + timedelta(hours=2)))
        sets = [
            one if one.rendered.is_source else replace(one, not_moved=Cause(Reason.HELD, "so it is", until=next(times)))
            for one in found.plan.sets
        ]
        seen.seen.record_pass(planned(found, sets))
        text = await seen.metrics()
    assert values(text, "levelgate_next_opening_timestamp_seconds") == {
        ("platform",): (START + timedelta(hours=2)).timestamp()
    }
    metrics = Metrics(seen.seen.monitor, dict, lambda: {"renderings": 7})
    assert values((await metrics.render(START)).decode(), "levelgate_cache_entries") == {("renderings",): 7}


async def test_what_is_wrong_with_a_source_itself_is_counted_too() -> None:
    async with scene(names=("i0",)) as seen:
        await seen.started()
        seen.fleet.rules["broken.yaml"] = "kind: [unclosed\n"
        seen.fleet.push()
        await seen.step()
        assert values(await seen.metrics(), "levelgate_blocked") == {("RenderFailed", "platform"): 1}


async def test_drift_and_what_was_done_are_counted() -> None:
    async with scene() as seen:
        for action in ("healed", "created", "finalizer removed"):
            seen.seen.record_action(Result(KEY, KEY, action))
        text = await seen.metrics()
    assert values(text, "levelgate_drift_healed_total") == {(): 1}
    assert values(text, "levelgate_actions_total") == {
        ("created", "done"): 1,
        ("finalizer_removed", "done"): 1,
        ("healed", "done"): 1,
    }


async def test_a_stage_that_fails_is_counted_and_goes_on_failing() -> None:
    async with scene() as seen:
        with pytest.raises(ValueError, match="x"), seen.seen.stage("fetch", source="a"):
            raise ValueError("x")
        text = await seen.metrics()
    assert values(text, "levelgate_stage_failures_total")[("fetch",)] == 1


async def test_a_thousand_instances_have_no_more_series_than_two() -> None:
    """Labels are bounded: Prometheus pays for each series."""
    async with scene(names=("i0", "i1")) as seen:
        await seen.started()
        found = await seen.step()
        seen.seen.record_pass(multiplied(found, 2))
        two = series(await seen.metrics())
        seen.seen.record_pass(multiplied(found, 1000))
        text = await seen.metrics()
    assert sum(values(text, "levelgate_instances").values()) >= 1000
    assert series(text) == two


async def test_names_are_conventional() -> None:
    """Prometheus, "Metric and label naming": a prefix, base units, `_total` for counters."""
    async with scene() as seen:
        text = await seen.metrics()
    families = [one for one in text_string_to_metric_families(text) if one.name.startswith("levelgate_")]
    assert len(families) > 5
    for one in families:
        assert re.fullmatch(r"levelgate_[a-z_]+", one.name)
        assert not re.search(r"(milliseconds|minutes|kilobytes|_ms)$", one.name)
        assert one.documentation


async def test_every_metric_is_documented_and_there_are_no_others() -> None:
    async with scene(names=("i0",), has_fleet=True) as seen:
        await seen.started()
        seen.seen.metrics.record_webhook("github", "accepted")
        seen.seen.record_action(Result(KEY, KEY, "healed"))
        text = await seen.metrics()
    table = re.findall(r"^\| `(levelgate_\w+)` \|", OPERATIONS.read_text(), flags=re.MULTILINE)
    assert set(table) == set(names_in(text))


def names_in(text: str) -> set[str]:
    """As they are asked for: with `_total`, histograms without their suffixes."""
    families = (one for one in text_string_to_metric_families(text) if one.name.startswith("levelgate_"))
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
