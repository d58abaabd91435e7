"""The daemon's work end to end, on the sandbox and a clock of its own: events and commits go in, passes over what they touch come out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from applier.errors import ClusterError
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.scope import WidenScope
from gitops.reconcile.reconciler import Reconciler
from gitops.rollouts.state import TargetRevision
from renderer.identity import ObjectKey
from tests.support.clock import START, LoopClock, StillClock, VirtualLoop
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.operation import operating
from tests.support.platform import CONFIG_MAPS, OWN

RECORD = f"{OWN}/source-platform"


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b", "c")) as found:
        found.start()
        yield found


def exists(fleet: LinkPlatform, name: str) -> bool:
    listed = fleet.request("GET", CONFIG_MAPS)["items"]
    return name in {one["metadata"]["name"] for one in listed}


def test_an_event_is_answered_by_a_pass_over_its_instance(fleet: LinkPlatform) -> None:
    """S2-10, S4-6, S4-9, S4-11: drift on a child, and a status that something waits for."""

    async def story() -> None:
        async with operating(fleet) as found:
            fleet.request("DELETE", f"{CONFIG_MAPS}/b-app")
            assert set(await found.until(lambda: exists(fleet, "b-app"))) == {frozenset({"b"})}
            fleet.ready("c", ready=False)
            assert set(await found.until(lambda: fleet.status("c")["state"] != "ACTIVE")) == {frozenset({"c"})}
            fleet.ready("c")
            assert set(await found.until(lambda: fleet.status("c")["state"] == "ACTIVE")) == {frozenset({"c"})}

    fleet.call(story())


def test_who_waits_for_readiness_holds_no_worker(fleet: LinkPlatform) -> None:
    """S2-13, S2-14, S4-16: the pass ends, and the one worker that there is heals another instance; the watch brings the first one back."""

    async def story() -> None:
        async with operating(fleet, max_concurrent=1) as found:
            fleet.ready("a", ready=False)
            await found.until(lambda: fleet.status("a")["state"] != "ACTIVE")
            fleet.request("DELETE", f"{CONFIG_MAPS}/b-app")
            passes = await found.until(lambda: exists(fleet, "b-app"))
            assert any(names and "b" in names for names in passes)
            assert fleet.status("a")["state"] != "ACTIVE"
            fleet.ready("a")
            await found.until(lambda: fleet.status("a")["state"] == "ACTIVE")

    fleet.call(story())


def test_a_commit_touches_the_instances_that_it_changes(fleet: LinkPlatform) -> None:
    async def story() -> None:
        async with operating(fleet) as found:
            fleet.written = {"b": {"text": "two"}}
            fleet.push()
            found.follower.poll("platform")

            def told() -> bool:
                fleet.ready("b")
                commit = fleet.request("GET", RECORD)["data"]["applied"]
                return bool(fleet.catalog and commit == fleet.catalog.commit)

            assert set(await found.until(told)) == {frozenset({"b"})}
            (deed,) = (one for one in _deeds(fleet) if one["action"] == "updated" and one["node"] == "app")
            assert deed["object"].endswith("b-app")

    fleet.call(story())


def _deeds(fleet: LinkPlatform) -> list[dict[str, Any]]:
    passes = json.loads(fleet.request("GET", RECORD)["data"]["passes"])
    return [deed for one in passes for deed in one.get("deeds", ())]


def test_a_commit_to_a_plain_object_is_fully_applied_by_a_pass_over_it_alone(fleet: LinkPlatform) -> None:
    """Commit to first write does not wait for a look at everything else; its record follows."""
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    fleet.plain = {"settings": {**settings, "data": {"mode": "one"}}}
    fleet.push()

    async def story() -> None:
        async with operating(fleet) as found:
            await found.until(lambda: exists(fleet, "settings"))
            fleet.plain = {"settings": {**settings, "data": {"mode": "two"}}}
            fleet.push()
            found.follower.poll("platform")
            path = f"{CONFIG_MAPS}/settings"
            assert None not in await found.until(lambda: fleet.request("GET", path)["data"] == {"mode": "two"})
            fleet.request("DELETE", path)
            assert None not in await found.until(lambda: exists(fleet, "settings"))
            fleet.clock.moment += timedelta(seconds=2)
            found.follower.poll()
            await found.until(lambda: fleet.request("GET", RECORD)["data"]["own"] == fleet.state.catalog.commit)

    fleet.call(story())


def test_the_record_follows_a_small_commit_within_a_third_of_a_second_and_a_stream_of_them_once_a_second() -> None:
    """The daemon writes it when 0.1 seconds have passed, and then not before a second has."""
    loop = VirtualLoop()
    clock = cast(StillClock, LoopClock(loop, START))
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    with LinkPlatform(names=(), clock=clock, new_loop=lambda: loop) as fleet:
        fleet.plain = {"settings": {**settings, "data": {"number": "0"}}}
        fleet.push()

        def is_reported() -> bool:
            return bool(fleet.request("GET", RECORD)["data"]["own"] == fleet.state.catalog.commit)

        async def story() -> None:
            async with operating(fleet) as found:
                await asyncio.sleep(10)
                for is_early in (True, False, False):
                    fleet.plain = {"settings": {**settings, "data": {"number": str(fleet.commits)}}}
                    fleet.push()
                    found.follower.poll("platform")
                    await asyncio.sleep(0.3)
                    assert is_reported() == is_early
                    await asyncio.sleep(0 if is_early else 0.8)
                    assert is_reported()

        fleet.call(story())


def test_a_new_definition_is_for_a_whole_pass(fleet: LinkPlatform) -> None:
    async def story() -> None:
        async with operating(fleet) as found:
            fleet.push("two")
            found.follower.poll("platform")
            passes = await found.until(lambda: fleet.at("two") == ["a"])
            assert None in passes

    fleet.call(story())


def test_many_events_are_worked_on_side_by_side_and_none_twice_at_once(fleet: LinkPlatform) -> None:
    """S2-3, S2-12, Q1: as many passes as there may be, each of other instances."""

    async def story() -> None:
        async with operating(fleet, max_concurrent=4) as found:
            for name in fleet.names:
                fleet.request("DELETE", f"{CONFIG_MAPS}/{name}-app")
            passes = await found.until(lambda: all(exists(fleet, f"{name}-app") for name in fleet.names))
            assert None not in passes
            assert frozenset().union(*(one for one in passes if one)) == {"a", "b", "c"}

    fleet.call(story())


def test_what_is_refused_is_tried_again_and_held_against_no_other(fleet: LinkPlatform) -> None:
    """I9."""

    async def story() -> None:
        fleet.faulty.faults = [InjectedFault(RefusedRequest(403), verb="patch", name="b-app", times=6)]
        async with operating(fleet) as found:
            for name in ("b", "c"):
                fleet.request("DELETE", f"{CONFIG_MAPS}/{name}-app")
            await found.until(lambda: exists(fleet, "c-app"))
            await found.until(lambda: exists(fleet, "b-app"))

    fleet.call(story())


def test_what_is_refused_again_is_no_news_to_its_rollout(fleet: LinkPlatform) -> None:
    """I7: how far a rollout is, is told at the end of a pass; at its beginning what was refused before counts as under way."""
    fleet.faulty.faults = [InjectedFault(RefusedRequest(403), verb="patch", name="b-app", times=100)]
    fleet.restart()
    fleet.push("two")
    for _ in range(3):
        fleet.step()
        fleet.ready("a", "c")
    (wave,) = fleet.rollout().waves
    assert wave.failed == 1
    path = f"{OWN}/rollout-links.{GROUP}"
    before = fleet.request("GET", path)["metadata"]["resourceVersion"]
    assert any(result.error for result in fleet.step().results)
    assert fleet.request("GET", path)["metadata"]["resourceVersion"] == before


def test_a_cluster_that_does_not_answer_is_asked_again_later(fleet: LinkPlatform) -> None:
    failures = [ClusterError("down")] * 3

    class Failing(Reconciler):
        """Its passes over parts fail for a while."""

        async def reconcile_roots(self, roots: Collection[ObjectKey]) -> ReconcileResult | WidenScope:
            if failures:
                raise failures.pop()
            return await super().reconcile_roots(roots)

    async def story() -> None:
        told: list[str] = []
        async with operating(fleet, Failing, notice=lambda _, text: told.append(text)) as found:
            fleet.request("DELETE", f"{CONFIG_MAPS}/b-app")
            await found.until(lambda: exists(fleet, "b-app"))
            assert [text for text in told if "trying again" in text] == ["down; trying again"] * 3

    fleet.call(story())


def test_what_begins_with_nothing_changed_writes_nothing(fleet: LinkPlatform) -> None:
    async def story() -> None:
        async with operating(fleet) as found:
            before = fleet.writes
            for _ in range(20):
                fleet.clock.moment += timedelta(minutes=1)
                found.follower.reconcile_all()
                await found.until(lambda: None in found.passes)
            assert fleet.writes == before

    fleet.call(story())


def test_a_rollout_goes_on_by_passes_over_those_that_move(fleet: LinkPlatform) -> None:
    """2.6: a readiness costs a look at the instance and at who is let move by that; those that wait hear of it later, by one look at everything."""
    fleet.push(paced={"shape": {"linear": {"n": 1}}, "progressDeadline": "10000h"})  # time flies here

    def awaited() -> tuple[int, list[str]]:
        """What those that wait are told: how many may be in flight or settled, and for whom they wait."""
        (wave,) = fleet.rollout().waves
        return wave.limit, [one.name for one in wave.ahead.others]

    async def story() -> None:
        async with operating(fleet) as found:
            fleet.push("two")
            found.follower.poll("platform")
            await found.until(lambda: fleet.waits()["c"] == "PaceReached")
            await found.until(lambda: awaited() == (1, ["default/a"]))
            fleet.ready("a")
            assert reached("b", await found.until(lambda: fleet.at("two") == ["a", "b"])) is not None
            await found.until(lambda: awaited() == (2, ["default/b"]))
            fleet.ready("b")
            assert reached("c", await found.until(lambda: fleet.at("two") == ["a", "b", "c"])) is not None
            fleet.ready("c")
            await found.until(lambda: set(fleet.waits().values()) == {"Settled"})
            await found.until(lambda: fleet.rollout().completed == TargetRevision(2))

    fleet.call(story())


def reached(name: str, passes: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """The first of the passes that looked at this instance; None where that was one over everything."""
    return next(one for one in passes if one is None or name in one)
