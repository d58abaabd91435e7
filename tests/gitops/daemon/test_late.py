"""Statuses that the server answers late: who is woken by that, and that nobody else is; in virtual time, and counted in passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from applier.cluster import Cluster, Object
from applier.sandbox.endpoints.transport import RequestHandler, cluster_of
from applier.sandbox.wire import Request, Response
from gitops.daemon.event_router import EventRouter
from gitops.daemon.follower import Follower
from gitops.reconcile.context import ReconcileResult
from gitops.source import Mirror
from tests.support.clock import START, LoopClock, StillClock, VirtualLoop
from tests.support.fault_injector import DelayedRequest, InjectedFault
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.operation import CommittedMirror
from tests.support.platform import CONFIG_MAPS, MERGE

LINKS = f"/apis/{GROUP}/v1/namespaces/default/links"
LATE = 3.0
"""Seconds; longer than anybody waits for a status."""


@dataclass
class Late(LinkPlatform):
    """A status is written late, by faults, or, of those in `silent`, at once and answered late. `passes` says of each at which instances it looked,
    None where at everything.
    """

    silent: frozenset[str] = frozenset()
    passes: list[frozenset[str] | None] = field(default_factory=list)

    def connect(self, door: RequestHandler) -> Cluster:
        return cluster_of(door, concurrency=2 * len(self.names))

    async def answer(self, request: Request) -> Response:
        response = await super().answer(request)
        path = request.target.partition("?")[0]
        if request.method == "PATCH" and path in {f"{LINKS}/{name}/status" for name in self.silent}:
            await asyncio.sleep(LATE)
        return response

    def passed(self, found: ReconcileResult) -> None:
        names = frozenset(one.rendered.parent.name for one in found.sets if not one.rendered.is_source)
        self.passes.append(None if found.touched is None else names)

    async def rest(self) -> list[frozenset[str] | None]:
        """Until nothing more is due; answers the passes since the last time."""
        await asyncio.sleep(30)
        found, self.passes = self.passes, []
        return found


@pytest.fixture
def fleet() -> Iterator[Late]:
    loop = VirtualLoop()
    clock = cast(StillClock, LoopClock(loop, START))
    names = ("i00", "i01", "i02", "i03")
    schema = {"text": "string | default=one", "reads": 'string | default=""'}
    with Late(names=names, gates=[], more=[note("one")], schema=schema, clock=clock, new_loop=lambda: loop) as found:
        yield found


@asynccontextmanager
async def following(fleet: Late) -> AsyncIterator[Follower]:
    mirrors = {"platform": cast(Mirror, CommittedMirror(fleet))}
    loop = asyncio.get_running_loop()
    follower = Follower(mirrors, fleet.reconciler, fleet.clock, elapsed=loop.time, on_pass=fleet.passed)
    async with EventRouter(fleet.reconciler, follower.enqueue, lambda _: None) as follower.event_router:
        running = asyncio.ensure_future(follower.run_forever())
        fleet.push()
        follower.poll("platform")
        await fleet.rest()
        fleet.ready(*fleet.names)
        await fleet.rest()
        yield follower
        follower.stop.set()
        follower.reconcile_all()
        await running


def slow(name: str = "*") -> InjectedFault:
    return InjectedFault(DelayedRequest(LATE), verb="patch", plural="links", name=name, subresource="status")


def note(text: str) -> Object:
    """A resource that is ready as soon as it is written."""
    return config_map("note", {"text": text})


def config_map(name: str, data: dict[str, str]) -> Object:
    metadata = {"name": f"${{schema.metadata.name}}-{name}"}
    return {"id": name, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}}


READS = [
    {
        "id": "other",
        "includeWhen": ["${schema.spec.reads != ''}"],
        "externalRef": {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Link",
            "metadata": {"name": "${schema.spec.reads}", "namespace": "default"},
        },
    },
    config_map("copy", {"state": "${other.status.state} at ${string(other.status.levelgate.applied.revision)}"}),
]


def commit(fleet: Late, follower: Follower, *resources: Object) -> None:
    fleet.more = [*resources]
    fleet.push()
    follower.poll("platform")


@pytest.mark.parametrize("is_written", [False, True], ids=["written late", "answered late"])
def test_a_status_that_is_answered_late_and_says_nothing_new_asks_for_no_pass(fleet: Late, is_written: bool) -> None:
    """Not by its answer, and not by its event, which may come before that."""

    async def story() -> None:
        async with following(fleet) as follower:
            fleet.faulty.faults, fleet.silent = ([], frozenset(fleet.names)) if is_written else ([slow()], frozenset())
            commit(fleet, follower, note("two"))
            assert await fleet.rest() == [None, None]
            assert {applied(fleet, name) for name in fleet.names} == {2}

    fleet.call(story())


def applied(fleet: Late, name: str) -> int:
    revision: int = fleet.status(name)["levelgate"]["applied"]["revision"]
    return revision


def test_what_changes_while_a_status_is_being_written_is_said_after_it(fleet: Late) -> None:
    async def story() -> None:
        async with following(fleet) as follower:
            fleet.faulty.faults = [slow("i00")]
            commit(fleet, follower, note("two"))
            await asyncio.sleep(LATE / 3)
            commit(fleet, follower, note("three"))
            await fleet.rest()
            assert applied(fleet, "i00") == 3

    fleet.call(story())


def test_what_others_write_into_a_status_that_is_being_written_is_put_right(fleet: Late) -> None:
    """Its event looks like that of the write; the answer tells them apart."""

    async def story() -> None:
        async with following(fleet) as follower:
            fleet.silent = frozenset({"i00"})
            commit(fleet, follower, note("two"))
            await asyncio.sleep(LATE / 3)
            fleet.request("PATCH", f"{LINKS}/i00/status", {"status": {"state": "BROKEN"}}, MERGE)
            await fleet.rest()
            assert fleet.status("i00")["state"] == "ACTIVE"

    fleet.call(story())


def test_an_applied_pair_that_is_answered_late_is_stored_once(fleet: Late) -> None:
    """I11: later passes over its instance know it, as all that is written."""

    async def story() -> None:
        async with following(fleet) as follower:
            fleet.faulty.faults = [
                InjectedFault(DelayedRequest(LATE), plural="controllerrevisions", verb=verb)
                for verb in ("patch", "delete")
            ]
            fleet.written = {"i00": {"text": "two"}}
            commit(fleet, follower, note("one"))
            await fleet.rest()
            for _ in range(2):
                fleet.request("DELETE", f"{CONFIG_MAPS}/i00-note")
                assert frozenset({"i00"}) in await fleet.rest()
            assert [fault.verb for fault in fleet.faulty.injected] == ["patch"]

    fleet.call(story())


def test_who_reads_a_status_that_says_nothing_new_to_others_hears_of_it(fleet: Late) -> None:
    fleet.written = {"i01": {"reads": "i00"}}
    fleet.more = [note("one"), *READS]

    async def story() -> None:
        async with following(fleet) as follower:
            fleet.faulty.faults = [slow("i00")]
            commit(fleet, follower, note("two"), *READS)
            await fleet.rest()
            copy = fleet.request("GET", f"{CONFIG_MAPS}/i01-copy")
            assert copy["data"] == {"state": "ACTIVE at 2"}

    fleet.call(story())


def test_who_reads_a_status_that_is_answered_late_hears_of_it(fleet: Late) -> None:
    """T2: its own writes are no news to the daemon, and a pass over the instance would write nothing."""
    fleet.more, fleet.written = [*READS], {"i01": {"reads": "i00"}}

    async def story() -> None:
        async with following(fleet):
            fleet.faulty.faults = [slow("i00")]
            fleet.ready("i00", ready=False)
            await fleet.rest()
            copy = fleet.request("GET", f"{CONFIG_MAPS}/i01-copy")
            assert copy["data"] == {"state": "IN_PROGRESS at 1"}

    fleet.call(story())


def test_what_an_instance_says_late_counts_for_its_source(fleet: Late) -> None:
    """S4-9: whether it is healthy is told by its status."""

    async def story() -> None:
        async with following(fleet):
            fleet.faulty.faults = [slow("i00")]
            for is_ready, state in ((False, "Progressing"), (True, "Settled")):
                fleet.ready("i00", ready=is_ready)
                await fleet.rest()
                assert fleet.record().state == state

    fleet.call(story())


def test_what_others_say_of_an_instance_is_heard_while_its_status_is_being_written(fleet: Late) -> None:
    """S4-10."""

    async def story() -> None:
        async with following(fleet):
            fleet.faulty.faults = [slow("i00")]
            fleet.ready("i00", ready=False)
            await asyncio.sleep(LATE / 3)
            fleet.passes.clear()
            fleet.annotate("i00", hold="INC-7")
            await asyncio.sleep(0.01)
            assert fleet.passes

    fleet.call(story())


def test_a_gate_that_reads_a_status_is_asked_anew_when_it_is_answered(fleet: Late) -> None:
    first = "l.metadata.name == 'i00' && l.status.levelgate.applied.revision == 2"

    async def story() -> None:
        async with following(fleet) as follower:
            fleet.faulty.faults = [slow("i00")]
            fleet.gates = [f"${{each.metadata.name == 'i00' || links.exists(l, {first})}}"]
            commit(fleet, follower, note("two"))
            await fleet.rest()
            assert {applied(fleet, name) for name in fleet.names} == {2}

    fleet.call(story())
