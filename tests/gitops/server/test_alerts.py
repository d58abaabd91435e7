"""Each alert of `deploy/` fires where a daemon has its fault, and none of them where it has not (docs/operations.md, "Measure it")."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, Final, cast

import pytest
import yaml

from applier.causes import Cause, Reason
from applier.execute.results import Result
from gitops.errors import SourceError
from gitops.fleet.reach import ReachState
from renderer import well_known
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.monitoring.alert_rules import Between, Scrape
from tests.support.monitoring.fleet_scene import StandingFleet, fleet_scene
from tests.support.monitoring.metrics import DEPLOY, KEY
from tests.support.monitoring.scene import FREEZE, HOURS, Scene, planned, scene
from tests.support.platform import MERGE

PASSES: Final = timedelta(minutes=5)
OVERDUE: Final = {"LevelgateStandsStill"}
"""What fires besides where nothing passes for a day."""


@cache
def rules() -> dict[str, str]:
    found = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())
    return {rule["alert"]: rule["expr"] for group in found["groups"] for rule in group["rules"]}


async def scraped(seen: Scene) -> Scrape:
    return Scrape(seen.fleet.clock.seconds(), await seen.metrics())


def fired(vector: Mapping[frozenset[tuple[str, str]], float]) -> list[dict[str, str]]:
    return sorted((dict(labels) for labels in vector), key=str)


async def firing(seen: Scene, befall: Callable[[Scene], Awaitable[None]]) -> dict[str, set[str]]:
    """The alerts that fire five minutes after this befell it, with the values of their labels."""
    before = await scraped(seen)
    await befall(seen)
    if seen.fleet.clock.seconds() - before.at > PASSES.total_seconds():
        before = await scraped(seen)  # Prometheus has looked meanwhile
    seen.fleet.clock.moment += PASSES
    both = Between(before, await scraped(seen))
    found = {name: both.firing(expression) for name, expression in rules().items()}
    return {name: {value for labels in vector for _, value in labels} for name, vector in found.items() if vector}


@pytest.fixture
async def seen() -> AsyncIterator[Scene]:
    """All has settled."""
    async with scene(names=("i0", "i1")) as found:
        answers(found)["patch", 403] = 1
        await found.started()
        await found.step()
        yield found


def answers(seen: Scene) -> Counter[tuple[str, int]]:
    """Those of the API server so far."""
    return cast(Counter[tuple[str, int]], seen.seen.metrics._collector.hub.answers())


async def nothing(seen: Scene) -> None:
    await seen.step()


async def waits_for_a_window(seen: Scene) -> None:
    seen.fleet.push("two", prod=HOURS, freeze=FREEZE)
    await seen.step(timedelta(hours=6))
    assert "levelgate_next_opening_timestamp_seconds{" in await seen.metrics()


async def waits_for_days(seen: Scene) -> None:
    await waits_for_a_window(seen)
    await seen.step(timedelta(hours=25))


async def works(seen: Scene) -> None:
    """A few repairs, conflicts, a refusal here and there."""
    for _ in range(20):
        seen.seen.record_action(Result(KEY, KEY, "healed"))
    answers(seen).update({("patch", 409): 500, ("patch", 403): 5, ("get", 404): 500})
    await seen.step()


@pytest.mark.parametrize("befalls", [nothing, waits_for_a_window, waits_for_days, works])
async def test_nobody_is_woken_where_nothing_is_wrong(seen: Scene, befalls: Callable[[Scene], Awaitable[None]]) -> None:
    """surface 3.2: nobody is paged by a closed window."""
    assert await firing(seen, befalls) == {}


async def leads_no_more(seen: Scene) -> None:
    seen.seen.monitor.leads = lambda: False


async def stands_still(seen: Scene) -> None:
    seen.fleet.clock.moment += timedelta(minutes=30)


async def hangs(_: Scene) -> None:
    """No pass ends."""


async def passes_fail(seen: Scene) -> None:
    for _ in range(4):
        with suppress(ValueError), seen.seen.stage("pass"):
            raise ValueError("x")


async def is_unreadable(seen: Scene) -> None:
    seen.seen.monitor.errors = lambda: {"platform": SourceError("https://git.test", "no answer")}


async def is_refused(seen: Scene) -> None:
    seen.seen.monitor.refused = lambda: "levelgate.yaml:3: no such key"


def refusing(plural: str, seen: Scene) -> None:
    """The server takes no more of these."""
    seen.fleet.faulty.faults = [InjectedFault(RefusedRequest(403), "patch", plural, "default")]


async def an_instance_fails(seen: Scene) -> None:
    refusing("deployments", seen)
    seen.fleet.push("two")
    await seen.step()


async def a_plain_object_fails(seen: Scene) -> None:
    refusing("configmaps", seen)
    metadata = {"name": "plain", "namespace": "default"}
    seen.fleet.plain["plain.json"] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    seen.fleet.push()
    await seen.step()


async def a_member_is_left_behind(seen: Scene) -> None:
    """Somebody takes its label off, then Git drops it, and the next search finds it."""
    metadata = {"name": "plain", "namespace": "default"}
    seen.fleet.plain["plain.json"] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    seen.fleet.push()
    await seen.step()
    path = "/api/v1/namespaces/default/configmaps/plain"
    seen.fleet.request("PATCH", path, {"metadata": {"labels": {well_known.PART_OF: None}}}, MERGE)
    del seen.fleet.plain["plain.json"]
    seen.fleet.push()
    seen.fleet.reconciler.left_behind.is_due = True
    await seen.step()


async def is_halted(seen: Scene) -> None:
    seen.fleet.push("two")
    seen.fleet.order(halt="INC-7")
    await seen.step()


def waits(reason: Reason) -> Callable[[Scene], Awaitable[None]]:
    async def befall(seen: Scene) -> None:
        found = await seen.step()
        blocked = Cause(reason, "so it is")
        sets = [one if one.rendered.is_source else replace(one, not_moved=blocked) for one in found.plan.sets]
        seen.seen.record_pass(planned(found, sets))

    return befall


async def lags(seen: Scene) -> None:
    """Nobody knows until when."""
    for name in ("i0", "i1"):
        seen.fleet.annotate(name, suspend="INC-7")
    seen.fleet.push("two")
    await seen.step()
    seen.fleet.clock.moment += timedelta(days=1)


async def lags_past_an_opening(seen: Scene) -> None:
    """It should have gone on a while ago."""
    await waits_for_a_window(seen)
    seen.fleet.clock.moment += timedelta(days=4)


async def fights(seen: Scene) -> None:
    for _ in range(101):
        seen.seen.record_action(Result(KEY, KEY, "healed"))


async def is_denied(seen: Scene) -> None:
    answers(seen)["patch", 403] += 100


FAULTS: Final[Mapping[str, tuple[Callable[[Scene], Awaitable[None]], set[str], set[str]]]] = {
    "LevelgateHasNoLeader": (leads_no_more, set(), set()),
    "LevelgateStandsStill": (stands_still, set(), set()),
    "LevelgatePassesFail": (passes_fail, {"pass"}, set()),
    "LevelgateSourceUnreadable": (is_unreadable, {"platform"}, set()),
    "LevelgateConfigurationRefused": (is_refused, set(), set()),
    "LevelgateInstancesFailed": (an_instance_fails, {"platform", "links.g.test"}, {"LevelgateRolloutHalted"}),
    "LevelgateSourceFailed": (a_plain_object_fails, {"platform", "Failed"}, set()),
    "LevelgateMembersLeftBehind": (a_member_is_left_behind, {"platform"}, set()),
    "LevelgateRolloutHalted": (is_halted, {"platform", "links.g.test"}, set()),
    "LevelgateNeedsApproval": (waits(Reason.APPROVAL_REQUIRED), {"platform", "ApprovalRequired"}, set()),
    "LevelgateNeverOpens": (waits(Reason.GATE_ERROR), {"platform"}, set()),
    "LevelgateLags": (lags, {"platform"}, OVERDUE),
    "LevelgateFightsOverDrift": (fights, set(), set()),
    "LevelgateIsRefused": (is_denied, {"patch"}, set()),
}
"""What befalls, the labels that the alert has then, and which alerts fire beside it."""


@pytest.mark.parametrize("alert", FAULTS)
async def test_an_alert_fires_where_its_fault_is(seen: Scene, alert: str) -> None:
    befall, labels, besides = FAULTS[alert]
    found: dict[str, Any] = await firing(seen, befall)
    assert found.keys() == {alert, *besides}
    assert found[alert] == labels


async def test_who_never_gets_through_a_first_pass_is_told_of() -> None:
    """It leads and is alive, so no other alert fires; and where it is restarted, its metrics are away for a moment."""
    async with scene(names=("i0",)) as seen:
        assert await firing(seen, hangs) == {"LevelgateStandsStill": set()}
        restarted = Between(await scraped(seen), Scrape(seen.fleet.clock.seconds() + 60, ""))
        assert restarted.firing(rules()["LevelgateStandsStill"])


async def test_an_opening_that_is_over_excuses_nobody(seen: Scene) -> None:
    assert await firing(seen, lags_past_an_opening) == {"LevelgateLags": {"platform"}, "LevelgateStandsStill": set()}


STATES: Final = {
    "LevelgateClusterUnreachable": ReachState.UNREACHABLE,
    "LevelgateClusterDegraded": ReachState.DEGRADED,
    "LevelgateClusterNotRemoved": ReachState.REMOVED,
}
"""Alerts of a fleet, and the state of a cluster that each is about."""


def test_every_alert_has_its_fault() -> None:
    assert {*FAULTS, *STATES} == rules().keys()


@asynccontextmanager
async def hub_of(states: Mapping[str, ReachState]) -> AsyncIterator[tuple[Scene, StandingFleet]]:
    """The hub of these clusters, in which all has settled: in the hub's own cluster, and in those that answer."""
    async with fleet_scene(states, names=("i0", "i1")) as (seen, standing):
        await seen.started()
        found = await seen.step()
        for name, state in states.items():
            if state in {ReachState.ENGAGED, ReachState.DEGRADED}:
                standing.observers[name].report_pass(found)
        yield seen, standing


@pytest.mark.parametrize("alert", STATES)
async def test_a_cluster_that_a_person_has_to_look_at_is_named_once(alert: str) -> None:
    """It has had no pass for long, or never: that is no second alert, and the others cause none."""
    async with hub_of({"eu-1": ReachState.ENGAGED, "eu-2": ReachState.PAUSED, "us-1": STATES[alert]}) as (seen, _):
        assert await firing(seen, nothing) == {alert: {"us-1"}}


async def test_a_cluster_whose_work_stands_still_is_named() -> None:
    async def go_on(seen: Scene) -> None:
        await seen.step(timedelta(minutes=30))

    async with hub_of({"eu-1": ReachState.ENGAGED}) as (seen, _):
        assert await firing(seen, go_on) == {"LevelgateStandsStill": {"eu-1"}}


async def test_no_cluster_hides_the_alert_of_another_one() -> None:
    """In eu-1 an instance fails, in us-1 a plain object of the same source: each alert is of one of them."""
    async with hub_of({"eu-1": ReachState.ENGAGED, "us-1": ReachState.ENGAGED}) as (seen, standing):
        for name, befall in {"eu-1": an_instance_fails, "us-1": a_plain_object_fails}.items():
            async with scene(names=("i0", "i1")) as member:
                member.fleet.clock.moment = seen.fleet.clock.moment
                await member.started()
                await befall(member)
                standing.observers[name].report_pass(await member.step())
        found = await scraped(seen)
    both = Between(found, found)
    assert fired(both.firing(rules()["LevelgateSourceFailed"])) == [
        {"cluster": "us-1", "source": "platform", "state": "Failed"}
    ]
    assert fired(both.firing(rules()["LevelgateInstancesFailed"])) == [
        {"cluster": "eu-1", "source": "platform", "definition": "links.g.test"}
    ]


async def test_an_opening_in_one_cluster_excuses_no_other_one() -> None:
    """Both are a day behind; of eu-1 it is known until when."""
    lag = 'levelgate_source_lag_seconds{{cluster="{}",source="platform"}} 90000\n'
    opening = 'levelgate_next_opening_timestamp_seconds{cluster="eu-1",source="platform"} 2000\n'
    found = Scrape(1000.0, lag.format("eu-1") + lag.format("us-1") + opening)
    assert fired(Between(found, found).firing(rules()["LevelgateLags"])) == [{"cluster": "us-1", "source": "platform"}]
