"""Is a window long enough for what a plan starts in it? (the comment on a pull request, docs/plans.md)"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from gitops.cli.plan_text import text
from gitops.plan import planner
from gitops.plan.report import Report, WindowCapacity
from gitops.plan.report_json import as_json
from gitops.plan.report_markdown import format_comment
from gitops.plan.window_capacity import WindowCapacities
from gitops.text import TimeFormat
from gitops.windows.window import LOCAL
from renderer import well_known
from tests.support.git.commits import planned, previewed
from tests.support.link_platform import LinkPlatform
from tests.support.platform import MERGE
from tests.support.properties.plans import rule
from tests.support.properties.repositories import plain

CANARY = {"tier": "canary"}
MONDAY = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * 1"}}


def room(report: Report) -> WindowCapacity | None:
    """Of the step that waits for the calendar."""
    (found,) = [step.window_capacity for step in report.steps if step.at]
    return found


def files(
    image: str, instances: int, window: object, policy: object, note: str = "", **windows: object
) -> dict[str, str]:
    """The first instance is the canary, and may have an annotation."""
    canary = {"labels": CANARY, "annotations": {note: "INC-7"} if note else {}}
    fleet = LinkPlatform(names=tuple(f"i{number}" for number in range(instances)), written={"i0": {"metadata": canary}})
    fleet.push(image)
    assert fleet.catalog
    found = {file: content.data.decode() for file, content in fleet.catalog.contents.items()}
    rules = {"propagationwindow": window, "propagationpolicy": policy, **windows}
    for name, spec in rules.items():
        kind = "PropagationPolicy" if name == "propagationpolicy" else "PropagationWindow"
        manifest = {"apiVersion": "levelgate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        found[f"{name}.json"] = json.dumps(manifest)
    return found


def report_of(
    window: dict[str, object], policy: object, instances: int = 5, note: str = "", **windows: object
) -> Report:
    whole = {**MONDAY, **window}
    base, head = (files(image, instances, whole, policy, note, **windows) for image in ("one", "two"))
    return planned(base, head)


@pytest.mark.parametrize(
    ("policy", "minutes"),
    [
        ({"shape": {"linear": {"n": 5}}}, 20),
        ({"shape": {"linear": {"n": 2}}}, 60),
        ({"shape": {"linear": {"n": 2}}, "bake": "20m"}, 120),
        ({"shape": {"linear": {"n": 2}}, "bake": "30m"}, 150),
        ({"shape": {"exponential": {"factor": 2}}}, 80),
        ({"shape": {"linear": {"n": 5}}, "progressDeadline": "45m"}, 90),
    ],
)
def test_batches_bake_and_deadlines_count(policy: object, minutes: int) -> None:
    """Two levels of each of five instances, with the progress deadline for each level: nothing is recorded."""
    found = room(report_of({"duration": "2h"}, policy))
    assert found == WindowCapacity(timedelta(hours=2), timedelta(minutes=minutes))
    assert found.is_enough is (minutes <= 120)


def test_a_step_has_a_capacity_only_where_a_window_closes_after_its_start() -> None:
    base, head = ({"a.json": plain("a", text=text)} for text in ("one", "two"))
    changes, monday = planned(base, head).changes, datetime(2026, 11, 23, 10, tzinfo=UTC)
    assert WindowCapacities(previewed(base, head)).capacity_for(changes, monday) is None
    allow = {**MONDAY, "duration": "2h", "selector": {"kinds": ["ConfigMap"]}}
    window = {"w.json": rule("PropagationWindow", allow)}
    found = WindowCapacities(previewed({**base, **window}, {**head, **window})).capacity_for(changes, monday)
    assert found
    assert (found.open_for, found.is_recorded) == (timedelta(hours=1), False)


def test_what_is_left_of_a_window_is_counted_to_its_last_start() -> None:
    """In the cutoff nothing is started."""
    found = room(report_of({"duration": "2h", "cutoff": "90m"}, {"shape": {"linear": {"n": 2}}}))
    assert found == WindowCapacity(timedelta(minutes=30), timedelta(hours=1))
    assert not found.is_enough


def test_of_several_windows_the_one_counts_that_closes_first() -> None:
    """One of five may start nothing from ten on."""
    deny = {"kind": "Deny", "timeZone": "UTC", "schedule": {"cron": "0 10 * * 1"}, "duration": "8h"}
    closes = {**deny, "selector": {"instances": {"matchLabels": CANARY}}}
    found = report_of({"duration": "2h"}, {"shape": {"linear": {"n": 5}}}, closes=closes)
    assert room(found) == WindowCapacity(timedelta(hours=1), timedelta(minutes=20))


def test_a_wave_starts_no_earlier_than_the_one_before_it_may() -> None:
    """docs/plans.md: what holds one wave moves those after it, also where these wait for no window of their own."""
    canary = {"matchLabels": CANARY}
    report = report_of(
        {"duration": "2h", "selector": {"instances": canary}}, {"waves": [{"name": "canary", "selector": canary}]}
    )
    first, second = report.steps
    assert [first.summary, second.summary] == ["wave canary, window propagationwindow:", "wave rest:"]
    assert first.at is not None
    assert (second.at, second.prerequisite) == (first.at, "after the wave before it")


OTHERS = {"selector": {"instances": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}}


@pytest.mark.parametrize("note", ["", well_known.SUSPEND, well_known.HOLD])
def test_when_a_wave_starts_is_not_known_where_one_before_it_may_never(note: str) -> None:
    """Its own window tells nothing then; one that is held or suspended is passed by the others."""
    canary = {"matchLabels": CANARY}
    never = {"schedule": {"once": [{"start": "2020-01-01T00:00", "end": "2020-01-02T00:00"}]}}
    selector = {"instances": {"matchLabels": {"tier": "none"}} if note else canary}
    waves = {"waves": [{"name": "canary", "selector": canary}]}
    report = report_of({**never, "selector": selector}, waves, note=note, monday={**MONDAY, "duration": "2h", **OTHERS})
    (last,) = (step for step in report.steps if step.summary.startswith("wave rest"))
    assert (last.at is not None, last.prerequisite) == (bool(note), "after the wave before it")


def test_a_wave_waits_for_approvals_after_those_before_it_and_no_others() -> None:
    selectors = [{"matchLabels": CANARY}, {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}]
    waves = [{"name": name, "selector": one} for name, one in zip(("canary", "prod"), selectors, strict=True)]
    approvals = [{"after": {"wave": name}} for name in ("canary", "prod")]
    report = report_of({"duration": "2h", "selector": {"namespaces": ["x"]}}, {"waves": waves, "approvals": approvals})
    assert [(step.summary, step.prerequisite) for step in report.steps] == [
        ("wave canary:", ""),
        ("wave prod:", "after the wave before it and an approval after canary"),
    ]


def test_all_forms_tell_it() -> None:
    report = report_of({"duration": "15m"}, {"shape": {"linear": {"n": 5}}})
    said = "window open for 15m, needs 20m at most: too short, the rest continues when it opens again"
    assert said in " ".join(click.unstyle(" ".join(text(report, TimeFormat(utc=True)))).split())
    assert said in format_comment(report)
    (step,) = [step for step in as_json(report)["steps"] if step["at"]]
    assert step["window"] == {"open": 900, "needs": 1200, "recorded": False, "enough": False}


def test_where_no_window_closes_there_is_nothing_to_tell() -> None:
    with LinkPlatform(names=("a",)) as fleet:
        fleet.start()
        fleet.push("two")
        found = fleet.call(
            planner.plan_against_cluster(fleet.cluster, fleet.state, clock=fleet.clock, cluster_name=LOCAL)
        )
    assert [step.window_capacity for step in found.steps] == [None]


FIXED = {
    "id": "fixed",
    "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fixed"}, "data": {"a": "b"}},
}


def moved(fleet: LinkPlatform, **rules: Any) -> None:
    """To `two`, an hour after all else was made, in four minutes from its first write to being healthy."""
    fleet.start(**rules)
    fleet.clock.moment += timedelta(hours=1)
    fleet.push("two")
    fleet.step()
    fleet.clock.moment += timedelta(minutes=4)
    fleet.ready("a")
    fleet.step()


def planned_now(fleet: LinkPlatform) -> WindowCapacity | None:
    fleet.push("three", monday={**MONDAY, "duration": "2h"})
    return room(
        fleet.call(planner.plan_against_cluster(fleet.cluster, fleet.state, clock=fleet.clock, cluster_name=LOCAL))
    )


def test_what_is_recorded_counts_before_deadlines() -> None:
    """The last move took four minutes, whenever what it left alone was made; of an instance that lost its health since nothing is known."""
    with LinkPlatform(names=("a",), more=[FIXED]) as fleet:
        moved(fleet)
        assert planned_now(fleet) == WindowCapacity(timedelta(hours=2), timedelta(minutes=4), is_recorded=True)
        fleet.ready("a", ready=False)
        fleet.step()
        assert planned_now(fleet) == WindowCapacity(timedelta(hours=2), timedelta(minutes=20))


def test_what_was_written_since_is_not_what_took_so_long() -> None:
    """A repair, for example, that costs no health: nobody knows how long all of it would take."""
    path = "/api/v1/namespaces/default/configmaps/fixed"
    with LinkPlatform(names=("a",), more=[FIXED]) as fleet:
        moved(fleet)
        fleet.request("PATCH", f"{path}?fieldManager=kubectl-edit", {"data": {"a": "c"}}, MERGE)
        fleet.step(timedelta(minutes=1))
        assert fleet.request("GET", path)["data"] == {"a": "b"}
        assert planned_now(fleet) == WindowCapacity(timedelta(hours=2), timedelta(minutes=20))


def test_what_lost_its_health_while_it_baked_says_nothing_of_the_next_time() -> None:
    with LinkPlatform(names=("a",)) as fleet:
        moved(fleet, pace={"bake": "30m"})
        for ready, after in ((False, 1), (True, 1), (True, 31)):
            fleet.clock.moment += timedelta(minutes=after)
            fleet.ready("a", ready=ready)
            fleet.step()
        assert fleet.waits() == {"a": "Settled"}
        assert planned_now(fleet) == WindowCapacity(timedelta(hours=2), timedelta(minutes=50))


@pytest.mark.parametrize(
    ("drain", "names"), [("None", ["i0"]), ("Unit", ["i0"]), ("Level", ["i0"]), ("Instance", []), ("Rollout", [])]
)
def test_what_may_end_halfway_is_named(drain: str, names: list[str]) -> None:
    """In text, in markdown and in JSON; nothing of it where the window lets instances be finished."""
    found = report_of({"duration": "15m", "drain": drain}, None, instances=1)
    step = next(one for one in as_json(found)["steps"] if one["at"])
    refs = [f"default/{name}" for name in names]
    assert step["halfway"] == ({"drain": drain, "refs": refs} if names else None)
    note = f"may end half-way when it closes (drain {drain}): "
    shown = " ".join(click.unstyle(" ".join(text(found, TimeFormat(utc=True)))).split())
    assert [note in whole for whole in (shown, format_comment(found))] == [bool(names)] * 2
