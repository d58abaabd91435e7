"""What a pass rested on is watched: what others do gives a hint, what the pass did itself gives none (apply-and-prune 2.9, S4-5, S4-6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from applier.cluster import Discovery, Object, WatchEvent
from applier.read import watches
from applier.sandbox.wire import Response
from applier.state.observed import Observed
from gitops.daemon.event_router import EventRouter, is_new_version, without_content
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.interests import Roots
from gitops.reconcile.incremental.scope import WidenScope
from gitops.reconcile.reconciler import Reconciler
from renderer import well_known
from tests.support.fault_injector import EndedWatch, InjectedFault, RefusedRequest
from tests.support.link_platform import LinkPlatform
from tests.support.platform import CONFIG_MAPS


def config_map(version: str) -> Object:
    metadata = {"name": "a", "namespace": "default", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.mark.parametrize(
    ("known", "version", "deleted", "expected"),
    [
        ("7", "7", False, False),
        ("7", "8", False, True),
        ("7", "8", True, True),
        ("", "8", False, True),
        ("", "8", True, False),
    ],
)
def test_what_is_news(known: str, version: str, deleted: bool, expected: bool) -> None:
    """Own writes are not: their answers are what was observed. Versions are compared for equality alone."""
    observed = Observed(Discovery({})).with_objects([config_map(known)] if known else [])
    assert is_new_version(WatchEvent(config_map(version), deleted), observed) is expected


def test_the_event_of_a_member_is_kept_without_content() -> None:
    """A deployment of 10,000 objects causes 10,000 events before its pass ends."""
    member, labels = config_map("7"), {well_known.PART_OF: "a set"}
    member["metadata"] |= {"labels": labels, "annotations": {"a": "text"}, "managedFields": [{"manager": "m"}]}
    router = EventRouter(cast("Reconciler", None), lambda _: None, lambda _: None)
    router.begin_pass()
    router._changed(WatchEvent(member, deleted=True))
    bare = config_map("7")
    [(kept, _)] = router._heard.values()
    assert kept == WatchEvent({**bare, "metadata": {**bare["metadata"], "labels": labels}}, deleted=True)


@pytest.mark.parametrize("labels", [{}, {well_known.PART_OF: "a set", well_known.PARENT_ID: "another"}])
def test_the_event_of_a_parent_or_record_is_kept_whole(labels: dict[str, str]) -> None:
    """Its status may be in flight, so that the event is compared with what was observed."""
    change = WatchEvent({**config_map("7"), "metadata": {**config_map("7")["metadata"], "labels": labels}})
    assert without_content(change) is change


@dataclass
class Watched:
    """A fleet under attention; `hints` counts."""

    fleet: LinkPlatform
    attention: EventRouter = field(init=False)
    hints: int = 0
    woken: Roots = None
    notices: list[str] = field(default_factory=list)

    def wake(self, roots: Roots) -> None:
        self.hints += 1
        self.woken = roots

    async def step(self) -> bool:
        """A pass; answers whether it changed anything, after everything that it did has been heard of."""
        self.attention.begin_pass()
        found = await self.fleet.reconciler.reconcile([self.fleet.state])
        await self.attention.end_pass(found)
        await self.quiet()
        return bool(found.changed)

    async def settle(self) -> None:
        for _ in range(10):
            if not await self.step():
                return
        raise AssertionError("it does not settle")

    async def quiet(self) -> None:
        """Until all that has happened is heard: a watch needs a few turns of the loop."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def hinted(self) -> bool:
        await self.quiet()
        found, self.hints = self.hints > 0, 0
        return found


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        found.start()
        yield found


@asynccontextmanager
async def watched(fleet: LinkPlatform) -> AsyncIterator[Watched]:
    found = Watched(fleet)
    async with EventRouter(fleet.reconciler, found.wake, found.notices.append) as found.attention:
        await found.settle()
        await found.hinted()
        yield found


def behind(fleet: LinkPlatform, *faults: InjectedFault) -> None:
    fleet.faulty.faults = faults
    fleet.restart()


def test_what_others_do_gives_a_hint(fleet: LinkPlatform) -> None:
    """S4-10: what is created, changed or deleted among members, instances and records."""

    async def story() -> None:
        async with watched(fleet) as found:
            for act in (
                lambda: fleet.request("DELETE", f"{CONFIG_MAPS}/a-app"),
                lambda: fleet.ready("a", ready=False),
                lambda: fleet.annotate("a", hold="INC-7"),
                lambda: fleet.order(halt="INC-7"),
            ):
                act()
                assert await found.hinted()
                await found.settle()
                await found.hinted()
                assert not await found.hinted()

    fleet.call(story())


def test_a_request_that_only_the_answer_to_a_report_has_shown_gives_a_hint(fleet: LinkPlatform) -> None:
    """A person asks while the record of the source is being written, so the answer is newer than the event."""

    async def story() -> None:
        async with watched(fleet) as found:
            whole = fleet.reconciler.whole
            assert whole
            fleet.put(fleet.record_path(), sync_requested_at="2026-11-20T12:00:00Z")
            answer = fleet.find(fleet.record_path())
            assert answer
            whole.record_stored_records(whole.known.rollouts, [answer])
            assert await found.hinted()
            assert found.woken is None
            await found.settle()
            await found.hinted()
            assert not await found.hinted()

    fleet.call(story())


def test_what_concerns_nobody_gives_none(fleet: LinkPlatform) -> None:
    async def story() -> None:
        async with watched(fleet) as found:
            other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}
            fleet.request("POST", CONFIG_MAPS, other)
            fleet.request("DELETE", f"{CONFIG_MAPS}/other")
            assert not await found.hinted()

    fleet.call(story())


def test_a_pass_does_not_wake_itself(fleet: LinkPlatform) -> None:
    """A change of the whole fleet, up to where it waits for readiness: one pass that writes, one that sees that it is done."""

    async def story() -> None:
        async with watched(fleet) as found:
            fleet.push("two")
            found.hints = 0
            assert await found.step()
            while await found.step():
                pass
            assert found.hints == 0

    fleet.call(story())


def test_a_watch_that_breaks_is_begun_again_and_gives_a_hint(
    fleet: LinkPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T8: what happened in between is not told, so everything is read."""
    monkeypatch.setattr(watches, "FIRST_RETRY_SECONDS", 0)

    async def story() -> None:
        behind(fleet, InjectedFault(EndedWatch(), verb="watch", times=3))
        async with watched(fleet) as found:
            fleet.request("DELETE", f"{CONFIG_MAPS}/b-app")
            assert await found.hinted()

    fleet.call(story())


def test_what_may_not_be_watched_is_looked_at(fleet: LinkPlatform) -> None:
    async def story() -> None:
        behind(fleet, InjectedFault(RefusedRequest(403), verb="watch", plural="deployments"))
        async with watched(fleet) as found:
            assert found.attention.is_blind
            (told,) = found.notices
            assert told.startswith("Deployment.apps cannot be watched, and is polled")

    fleet.call(story())


def test_what_a_part_writes_wakes_who_reads_it(fleet: LinkPlatform) -> None:
    """T2: a whole pass would have rendered the readers anew; a part looks at its own alone, and its own writes are no news."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    copy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}-copy"}}
    fleet.more = [
        {"id": "settings", "externalRef": reference},
        {"id": "copy", "template": {**copy, "data": {"mode": "${settings.data.mode}"}}},
    ]
    fleet.plain = {"settings": {**reference, "data": {"mode": "one"}}}

    async def story() -> None:
        fleet.push()
        async with watched(fleet) as found:
            fleet.plain = {"settings": {**reference, "data": {"mode": "two"}}}
            fleet.push()
            due = fleet.reconciler.accept([fleet.state])
            assert not isinstance(due, WidenScope)
            found.attention.begin_pass(due)
            part = await fleet.reconciler.reconcile_roots(due)
            assert isinstance(part, ReconcileResult)
            await found.attention.end_pass(part, due)
            assert await found.hinted()
            assert {key.name for key in found.woken or ()} == {"a", "b"}
            for root in found.woken or ():
                assert isinstance(await fleet.reconciler.reconcile_roots([root]), ReconcileResult)
        copies = [fleet.request("GET", f"{CONFIG_MAPS}/{name}-copy")["data"]["mode"] for name in ("a", "b")]
        assert copies == ["two", "two"]

    fleet.call(story())


def test_a_start_reads_everything_once(fleet: LinkPlatform) -> None:
    """What the first pass rests on is watched before it reads, by what the last process has recorded."""

    async def story() -> None:
        async with watched(fleet) as found:
            known = found.attention._subjects
        fleet.restart()
        found = Watched(fleet)
        async with EventRouter(fleet.reconciler, found.wake, found.notices.append) as found.attention:
            await found.attention.expect([fleet.state])
            assert found.attention._subjects == known
            assert await found.hinted()
            assert not await found.step()
            assert not await found.hinted()

    fleet.call(story())


def test_a_cluster_that_does_not_answer_holds_up_the_first_pass_for_a_moment_only(
    fleet: LinkPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitops.daemon.event_router.BEGINNING", 0.01)

    async def story() -> None:
        async def silent(_: object) -> Response:
            await asyncio.Event().wait()
            raise AssertionError

        found = Watched(fleet)
        fleet.restart(silent)
        async with EventRouter(fleet.reconciler, found.wake, found.notices.append) as found.attention:
            await found.attention.expect([fleet.state])
        assert (found.hints, found.notices) == (0, [])

    fleet.call(story())
