"""Processes that divide the sources: who holds what as they come and go, at a clock that the test moves (I6, threats-and-faults 5.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from applier.kube.cluster import KubeCluster
from applier.sandbox.api import Sandbox
from applier.sandbox.faults import Fault, Faulty, Refuse
from applier.sandbox.transport import cluster_of
from applier.sandbox.wire import Request, Response
from gitops.daemon.division import Division, holder_among
from gitops.daemon.shards import Shards
from gitops.leadership import LEASE, Leadership, NotLeading, holder_of, leases_of
from tests.gitops.daemon.test_division import NAMES, source
from tests.gitops.test_leadership import Time

SHARDS = 8


@dataclass
class Replica:
    shards: Shards
    end: str = ""
    changed: int = 0
    task: asyncio.Task[None] | None = None
    busy: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self.busy.set()
        self.shards.idle = self._idle
        try:
            await self.shards.acquire(lambda _: None, patient=True)
            await self.shards.hold()
        except NotLeading as error:
            self.end = str(error)

    async def _idle(self) -> None:
        await self.busy.wait()

    @property
    def sources(self) -> set[str]:
        """What it may write now."""
        mine = {name for name in NAMES if self.shards.has(name)}
        try:
            self.shards.check()
        except NotLeading:
            return set()
        return mine


@dataclass
class Replicas:
    time: Time
    sandbox: Sandbox
    cluster: KubeCluster
    found: dict[str, Replica] = field(default_factory=dict)
    depends: tuple[str, ...] = ()

    def division(self) -> Division:
        return Division.of([source(name, *self.depends if name == NAMES[-1] else ()) for name in NAMES], SHARDS)

    async def start(self, name: str, division: Division | None = None, cluster: KubeCluster | None = None) -> Replica:
        shards = Shards(
            cluster or self.cluster, name, self.time, lambda: self.time.seconds, lambda: division or self.division()
        )
        found = self.found[name] = Replica(shards)
        found.task = asyncio.create_task(found.run())
        await self.time.pass_by(0)
        return found

    def divided(self, *names: str) -> None:
        """Each source belongs to one of these, and each has some."""
        all_of = [self.found[name].sources for name in names]
        assert sorted(one for sources in all_of for one in sources) == list(NAMES)
        assert all(all_of)

    async def leases(self, holder: str) -> list[str]:
        return [one["metadata"]["name"] for one in await leases_of(self.cluster) if holder_of(one) == holder]

    async def rob(self, holder: str, name: str) -> None:
        """Somebody else has taken this Lease."""
        assert name in await self.leases(holder)
        await self.cluster.merge(LEASE._replace(name=name), {"spec": {"holderIdentity": "z"}}, manager="z")

    def never_twice(self) -> None:
        seen: set[str] = set()
        for one in self.found.values():
            assert not seen & one.sources
            seen |= one.sources

    async def pass_by(self, seconds: int) -> None:
        for _ in range(seconds * 2):
            await self.time.pass_by(0.5)
            self.never_twice()

    async def kill(self, name: str) -> None:
        task = self.found.pop(name).task
        assert task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def replicas(names: Collection[str] = ()) -> AsyncIterator[Replicas]:
    time = Time()
    sandbox = Sandbox(clock=lambda: time.seconds)
    found = Replicas(time, sandbox, cluster_of(sandbox.answer))
    for name in names:
        await found.start(name)
    await found.pass_by(10)
    yield found
    for name in tuple(found.found):
        await found.kill(name)


async def test_all_is_divided_between_those_that_are_alive() -> None:
    async with replicas("abc") as world:
        world.divided("a", "b", "c")
        before = {name: one.sources for name, one in world.found.items()}
        await world.start("d")
        await world.pass_by(10)
        world.divided("a", "b", "c", "d")
        assert all(world.found[name].sources <= before[name] for name in "abc")


async def test_what_was_taken_after_a_look_is_left_to_who_has_it() -> None:
    """Processes that begin at once: what the list did not show yet may be somebody's by the time it is to be taken."""
    async with replicas() as world:
        looked, go = asyncio.Event(), asyncio.Event()

        async def late(request: Request) -> Response:
            response = await world.sandbox.answer(request)
            if request.method == "GET" and "/leases?" in request.target and not looked.is_set():
                looked.set()
                await go.wait()
            return response

        await world.start("b", cluster=cluster_of(late))
        await looked.wait()
        await world.start("a")
        await world.pass_by(3)
        before = world.found["a"].sources
        assert before
        go.set()
        await world.pass_by(10)
        assert (world.found["a"].end, world.found["b"].end) == ("", "")
        assert world.found["a"].sources == before
        world.divided("a", "b")


async def test_one_that_falls_silent_is_replaced_once_its_leases_have_run_out() -> None:
    """Takeover within the duration of a Lease and two looks; before that nobody else writes what it held."""
    async with replicas("abc") as world:
        held = world.found["a"].sources
        await world.kill("a")
        await world.pass_by(12)
        assert not held & (world.found["b"].sources | world.found["c"].sources)
        await world.pass_by(8)
        world.divided("b", "c")
        names = {one["metadata"]["name"] for one in await leases_of(world.cluster)}
        assert len([name for name in names if name.startswith("levelgate-replica-")]) == 2


async def test_one_that_ends_in_order_is_replaced_at_once() -> None:
    async with replicas("abc") as world:
        leaving = world.found["a"]
        await world.kill("a")
        await leaving.shards.release()
        await world.pass_by(5)
        world.divided("b", "c")


async def test_nothing_is_given_back_while_a_pass_is_under_way() -> None:
    """Rebalancing doubles nothing: the write in flight ends first, and no pass begins with what is leaving."""
    async with replicas("a") as world:
        first = world.found["a"]
        assert first.sources == set(NAMES)
        first.busy.clear()
        second = await world.start("b")
        await world.pass_by(30)
        assert second.sources == set()
        assert first.sources < set(NAMES)
        first.busy.set()
        await world.pass_by(6)
        world.divided("a", "b")


async def test_who_cannot_renew_ends_and_writes_nothing() -> None:
    """Its own clock stops it before anybody else may begin."""
    async with replicas("b") as world:
        faulty = Faulty(world.sandbox.answer, sleep=world.time.sleep)
        cut_off = await world.start("a", cluster=cluster_of(faulty.answer, sleep=world.time.sleep))
        await world.pass_by(10)
        world.divided("a", "b")
        faulty.faults = [Fault(Refuse(403))]
        await world.pass_by(11)
        assert cut_off.sources == set()
        assert "was not renewed for 10 seconds" in cut_off.end
        await world.pass_by(10)
        assert world.found["b"].sources == set(NAMES)


@pytest.mark.parametrize("prefix", ["levelgate-replica-", "levelgate-shard-"])
async def test_who_has_lost_one_of_its_leases_ends(prefix: str) -> None:
    async with replicas("ab") as world:
        await world.rob("a", next(name for name in await world.leases("a") if name.startswith(prefix)))
        await world.pass_by(6)
        assert (world.found["a"].end, world.found["b"].end) == ("z has taken the lead", "")


async def test_what_is_about_to_be_given_back_is_asked_about_as_well() -> None:
    """The pass under way may be writing what belongs to it."""
    async with replicas("a") as world:
        first = world.found["a"]
        first.busy.clear()
        await world.start("b")
        await world.pass_by(6)
        leaving = [
            name for name in await world.leases("a") if holder_among(name, "ab") == "b" and "replica" not in name
        ]
        await world.rob("a", leaving[0])
        await world.pass_by(4)
        with pytest.raises(NotLeading):
            first.shards.check()


async def test_who_is_outdone_goes_on_above_what_was_written_whatever_it_holds() -> None:
    async with replicas("a") as world:
        shards = world.found["a"].shards
        last = shards.epoch + 5
        await shards.outdo(last)
        assert shards.epoch == last + 1
        terms = {one["spec"].get("leaseTransitions") for one in await leases_of(world.cluster)}
        assert {term for term in terms if term and term > 1} == {last + 1}


async def test_those_that_divide_otherwise_wait_for_each_other() -> None:
    """A configuration that reaches one process earlier than the other: nobody takes what another one may count as its own."""
    async with replicas("ab") as world:
        other = Division.of([source(name, *(NAMES[:1] if name == NAMES[1] else ())) for name in NAMES], SHARDS)
        newcomer = await world.start("c", other)
        await world.pass_by(20)
        assert newcomer.sources == set()
        with pytest.raises(NotLeading, match="holds no shard"):
            newcomer.shards.check()
        for name in "ab":
            await world.kill(name)
        await world.pass_by(20)
        assert newcomer.sources == set(NAMES)


async def test_a_change_of_the_division_gives_everything_back_first() -> None:
    async with replicas("ab") as world:
        world.depends = NAMES[:1]
        await world.pass_by(10)
        world.divided("a", "b")
        together = [{NAMES[0], NAMES[-1]} & one.sources for one in world.found.values()]
        assert sorted(map(len, together)) == [0, 2]


async def test_under_another_division_nothing_begins_before_what_is_under_way_is_over() -> None:
    """A source may fall to another shard, which this process holds too, or another one."""
    async with replicas("ab") as world:
        first = world.found["a"]
        first.busy.clear()
        world.depends = NAMES[:1]
        await world.pass_by(10)
        assert [one.sources for one in world.found.values()] == [set(), set()]
        first.busy.set()
        await world.pass_by(10)
        world.divided("a", "b")


async def test_those_that_divide_give_all_back_once_one_does_all_of_the_work() -> None:
    async with replicas("ab") as world:
        (first,) = [name for name in "ab" if LEASE.name in await world.leases(name)]
        (other,) = set("ab") - {first}
        await world.rob(first, LEASE.name)
        await world.pass_by(6)
        assert world.found[first].end
        assert (world.found[other].end, world.found[other].sources) == ("", set())


async def test_one_that_does_all_of_the_work_waits_for_those_that_divide_it_and_they_for_it() -> None:
    """`--shards` beside a process without it, or `run --once`."""
    async with replicas("ab") as world:
        alone = Leadership(world.cluster, "alone", world.time, lambda: world.time.seconds)
        waiting = asyncio.create_task(alone.acquire(lambda _: None, patient=True))
        hasty = Leadership(world.cluster, "hasty", world.time, lambda: world.time.seconds)
        refused = asyncio.create_task(hasty.acquire(lambda _: None, patient=False))
        await world.pass_by(20)
        assert not waiting.done()
        with pytest.raises(NotLeading, match="works on cluster sandbox"):
            await refused
        for name in "ab":
            await world.kill(name)
        await world.pass_by(20)
        assert waiting.done()
        holding = asyncio.create_task(alone.hold())
        late = await world.start("c")
        await world.pass_by(20)
        assert late.sources == set()
        holding.cancel()
        await alone.release()
        await world.pass_by(6)
        assert late.sources == set(NAMES)
