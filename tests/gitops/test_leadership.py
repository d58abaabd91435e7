"""Who may write: the Lease, its takeover, and that nobody writes who may not (I6, threats-and-faults 5.3)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from applier.cluster import Cluster, Object
from applier.errors import Denied
from applier.fenced_cluster import FencedCluster
from applier.kube import connect
from applier.kube.cluster import KubeCluster
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from gitops.clock import Clock, SystemClock
from gitops.leadership import LEASE_KEY, LEASE_TIMES, Leadership, NotLeading, is_process_gone, own_identity
from renderer.identity import ObjectKey
from tests.support.clock import VirtualLoop
from tests.support.fault_injector import (
    ConnectionReset,
    DelayedRequest,
    FaultInjector,
    InjectedFault,
    RefusedRequest,
)

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


class Time:
    """One clock for all processes. `stopped` are those that sleep on whatever the time is, as after SIGSTOP."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return datetime(2026, 11, 20, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def shown(self, minutes: int) -> Clock:
        """What a machine goes by whose clock is so much ahead."""
        return Ahead(self, timedelta(minutes=minutes))

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.seconds + seconds, future))
        await future

    async def pass_by(self, seconds: float) -> None:
        """So much time, step by step, and all that happens in it."""
        end = self.seconds + seconds
        while True:
            for _ in range(50):
                await asyncio.sleep(0)
            due = [one for one in self._sleepers if one[0] <= end and not one[1].done()]
            if not due:
                break
            at, future = min(due, key=lambda one: one[0])
            self.seconds = max(self.seconds, at)
            self._sleepers.remove((at, future))
            future.set_result(None)
        self.seconds = end


@dataclass(frozen=True)
class Ahead:
    time: Time
    by: timedelta

    def now(self) -> datetime:
        return self.time.now() + self.by

    async def sleep(self, seconds: float) -> None:
        await self.time.sleep(seconds)


@dataclass
class Process:
    """One that wants to lead, and what became of it."""

    leads: Leadership
    waited_for: list[str] = field(default_factory=list)
    is_leader: bool = False
    end: str = ""

    async def run(self, *, patient: bool = True) -> None:
        try:
            await self.leads.acquire(self.waited_for.append, patient=patient)
            self.is_leader = True
            await self.leads.hold(lambda: True)
        except NotLeading as error:
            self.is_leader, self.end = False, str(error)


@asynccontextmanager
async def processes(
    *names: str, time: Time, cluster: KubeCluster, patient: bool = True
) -> AsyncIterator[list[tuple[Process, asyncio.Task[None]]]]:
    """Those that want to lead, one after another."""
    found = []
    for name in names:
        one = Process(Leadership(cluster, name, time, LEASE_TIMES, lambda: time.seconds))
        found.append((one, asyncio.create_task(one.run(patient=patient))))
        await time.pass_by(0)
    yield found
    for _, task in found:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def holder(lease: Object | None) -> str:
    assert lease
    return str(lease["spec"]["holderIdentity"])


@pytest.fixture
def sandbox() -> KubeCluster:
    return cluster_of(Sandbox().answer)


async def test_one_leads_and_the_other_waits_until_it_falls_silent(sandbox: KubeCluster) -> None:
    """A killed holder is followed after the time that its Lease lasts, counted from the last change that was seen."""
    time = Time()
    async with processes("one", "two", time=time, cluster=sandbox) as ((one, first), (two, _)):
        await time.pass_by(60)
        assert (one.is_leader, two.is_leader, two.waited_for) == (True, False, ["one"])
        first.cancel()
        await time.pass_by(14)
        assert (two.is_leader, two.waited_for) == (False, ["one"])
        await time.pass_by(6)
        assert two.is_leader
        assert (await sandbox.get(LEASE_KEY) or {})["spec"]["leaseTransitions"] == 2


@pytest.mark.parametrize("minutes", [-5, 5, 60])
async def test_clocks_that_are_minutes_apart_count_for_nothing(sandbox: KubeCluster, minutes: int) -> None:
    """Row "clock jump, different clock" (I6): nobody takes a Lease for dead because of the times in it, nor for alive."""
    time = Time()
    async with processes("one", time=time, cluster=sandbox) as ((one, first),):
        two = Process(Leadership(sandbox, "two", time.shown(minutes), LEASE_TIMES, lambda: time.seconds))
        second = asyncio.create_task(two.run())
        await time.pass_by(60)
        assert (one.is_leader, two.is_leader) == (True, False)
        first.cancel()
        await time.pass_by(21)
        assert two.is_leader
        second.cancel()


async def test_who_gives_the_lead_back_is_followed_at_once(sandbox: KubeCluster) -> None:
    time = Time()
    async with processes("one", "two", time=time, cluster=sandbox) as ((one, first), (two, _)):
        await time.pass_by(10)
        first.cancel()
        await one.leads.release()
        await time.pass_by(2)
        assert two.is_leader


@pytest.mark.parametrize(("ended_epoch", "leads"), [(1, True), (0, False)])
async def test_the_term_that_the_same_work_held_before_is_not_waited_for(
    sandbox: KubeCluster, ended_epoch: int, leads: bool
) -> None:
    """A cluster that hung comes back with the Lease of this process in it; a term that the process may still hold is another matter."""
    time = Time()
    async with processes("one", time=time, cluster=sandbox) as ((_, first),):
        await time.pass_by(1)
        first.cancel()
        again = Process(Leadership(sandbox, "one", time, LEASE_TIMES, lambda: time.seconds, ended_epoch=ended_epoch))
        second = asyncio.create_task(again.run())
        await time.pass_by(0)
        assert again.is_leader is leads
        if leads:
            assert again.leads.epoch == 2
        second.cancel()


async def test_the_lead_is_given_back_also_where_a_renewal_was_broken_off(sandbox: KubeCluster) -> None:
    """Its answer was not waited for, so the version that is known is an old one; nobody has to wait for the Lease to run out."""
    time = Time()
    one, two = (Leadership(sandbox, name, time, LEASE_TIMES, lambda: time.seconds) for name in ("one", "two"))
    assert await one.try_acquire(await one.read_lease())
    await sandbox.merge(
        LEASE_KEY, {"spec": {"renewTime": "2026-11-20T00:00:01.000000Z"}}, manager="levelgate-leadership"
    )
    await one.release()
    assert holder(await sandbox.get(LEASE_KEY)) == ""
    assert await one.try_acquire(await one.read_lease())
    assert await two.try_acquire(await two.read_lease())
    await one.release()
    assert holder(await sandbox.get(LEASE_KEY)) == "two"


def test_a_server_that_does_not_answer_is_not_waited_for_at_the_end() -> None:
    """A graceful stop takes less than ten seconds: then the Lease has to run out."""
    faulty = FaultInjector(Sandbox().answer)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        lead = Leadership(cluster_of(faulty.answer), "one", SystemClock(), LEASE_TIMES, runner.get_loop().time)

        async def story() -> float:
            assert await lead.try_acquire(await lead.read_lease())
            faulty.faults = [InjectedFault(DelayedRequest(1e6))]
            begun = runner.get_loop().time()
            await lead.release()
            return runner.get_loop().time() - begun

        assert runner.run(story()) == 1
        assert not lead.leads


async def test_who_was_stopped_for_too_long_writes_nothing_any_more(sandbox: KubeCluster) -> None:
    """I6: SIGSTOP for longer than the Lease, then SIGCONT: it has not heard of anything yet, and its own clock forbids the write."""
    time = Time()
    async with processes("one", time=time, cluster=sandbox) as ((one, task),):
        writes = FencedCluster(sandbox, one.leads.check)
        await writes.apply(CONFIG_MAP, manager="levelgate")
        task.cancel()  # it hears nothing while it is stopped
        time.seconds += 9.9
        found = await writes.apply(CONFIG_MAP, manager="levelgate")
        time.seconds += 0.1
        key, uid = ObjectKey.from_manifest(found), found["metadata"]["uid"]
        with pytest.raises(NotLeading, match="was not renewed for 10 seconds"):
            await writes.apply(CONFIG_MAP, manager="levelgate")
        with pytest.raises(NotLeading):
            await writes.merge(key, {"data": {"a": "1"}}, manager="levelgate")
        with pytest.raises(NotLeading):
            await writes.delete(key, uid=uid, resource_version=None)
        assert await writes.get(key) == found


@pytest.mark.parametrize("user", ["", "somebody"])
async def test_a_write_that_was_put_off_is_not_tried_again_by_who_leads_no_more(user: str) -> None:
    """I6: between two tries of one write the process is stopped for longer than the Lease."""
    time = Time()
    faulty = FaultInjector(Sandbox().answer, [InjectedFault(RefusedRequest(429), verb="patch", plural="configmaps")])

    async def stopped(_: float) -> None:
        time.seconds += 60

    cluster = cluster_of(faulty.answer, sleep=stopped)
    async with processes("one", time=time, cluster=cluster) as ((one, task),):
        task.cancel()
        writes: Cluster = FencedCluster(cluster, one.leads.check)
        writes = writes.with_user(user) if user else writes
        with pytest.raises(NotLeading):
            await writes.apply(CONFIG_MAP, manager="levelgate")
        assert len(faulty.injected) == 1


async def test_who_cannot_renew_gives_up_before_another_may_lead() -> None:
    """Ten seconds of errors end it; the other waits fifteen."""
    time = Time()
    faulty = FaultInjector(
        Sandbox().answer, [InjectedFault(RefusedRequest(500), verb="patch", plural="leases", skip=2)]
    )
    cluster = cluster_of(faulty.answer, sleep=time.sleep)
    async with processes("one", time=time, cluster=cluster) as ((one, _),):
        await time.pass_by(9)
        assert one.is_leader
        await time.pass_by(3)
        assert (one.is_leader, one.end[:17]) == (False, "the lease was not")


async def test_a_renewal_whose_answer_is_lost_costs_nothing_while_the_server_restarts() -> None:
    """Row "API server restart": it has carried out the renewal and cannot tell, and knows of no rights when it has just started."""
    time = Time()
    faulty = FaultInjector(Sandbox().answer)
    cluster = cluster_of(faulty.answer, sleep=time.sleep)
    async with processes("one", time=time, cluster=cluster) as ((one, _),):
        await time.pass_by(4)
        faulty.faults = [
            InjectedFault(ConnectionReset(carried_out=True), verb="patch", plural="leases", times=1),
            InjectedFault(RefusedRequest(403), verb="get", plural="leases", times=2),
        ]
        await time.pass_by(60)
        assert (one.is_leader, len(faulty.injected)) == (True, 3)


async def test_who_stands_by_waits_for_a_server_that_restarts() -> None:
    """Row "API server restart": nobody could renew anything in that minute; then one of them leads."""
    time = Time()
    faulty = FaultInjector(Sandbox().answer)
    async with processes("one", "two", time=time, cluster=cluster_of(faulty.answer, sleep=time.sleep)) as (one, two):
        await time.pass_by(10)
        faulty.faults = [InjectedFault(RefusedRequest(500), plural="leases")]
        await time.pass_by(60)
        assert [each.is_leader for each, _ in (one, two)] == [False, False]
        assert not two[1].done()
        faulty.faults = []
        await time.pass_by(20)
        assert two[0].is_leader


async def test_who_has_read_no_lease_yet_says_that_it_cannot() -> None:
    time = Time()
    faulty = FaultInjector(Sandbox().answer, [InjectedFault(RefusedRequest(403), plural="leases")])
    one = Process(Leadership(cluster_of(faulty.answer), "one", time, LEASE_TIMES, lambda: time.seconds))
    with pytest.raises(Denied):
        await one.run()


@pytest.mark.parametrize("edit", ["taken", "deleted"])
async def test_who_lost_the_lease_stops_for_good(sandbox: KubeCluster, edit: str) -> None:
    time = Time()
    async with processes("one", time=time, cluster=sandbox) as ((one, task),):
        lease = await sandbox.get(LEASE_KEY)
        assert lease
        if edit == "taken":
            await sandbox.merge(LEASE_KEY, {"spec": {"holderIdentity": "somebody"}}, manager="kubectl-edit")
        else:
            await sandbox.delete(LEASE_KEY, uid=lease["metadata"]["uid"], resource_version=None)
        await time.pass_by(3)
        assert task.done()
        assert "has taken the lease" in one.end
        with pytest.raises(NotLeading):
            one.leads.check()


async def test_who_is_not_patient_is_told_who_works(sandbox: KubeCluster) -> None:
    """`run --once` beside a daemon that is alive."""
    time = Time()
    async with (
        processes("one", time=time, cluster=sandbox),
        processes("two", time=time, cluster=sandbox, patient=False) as ((two, _),),
    ):
        await time.pass_by(3)
        assert two.end == "one already works on cluster sandbox; stop that process, or let it continue"


@pytest.mark.cluster
async def test_of_many_that_begin_at_once_one_leads(kubeconfig: object) -> None:
    """On the real server: the version that was read decides who of them writes."""
    time = Time()
    cluster = await connect(kubeconfig=str(kubeconfig))
    if lease := await cluster.get(LEASE_KEY):
        await cluster.merge(LEASE_KEY, {"spec": {"holderIdentity": ""}}, manager="test")
        assert lease
    leaders = [Leadership(cluster, f"p{number}", time, LEASE_TIMES, lambda: time.seconds) for number in range(8)]
    tasks = [asyncio.create_task(one.acquire(lambda _: None, patient=True)) for one in leaders]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    assert len(done) == 1
    (leader,) = (one for one, task in zip(leaders, tasks, strict=True) if task in done)
    assert holder(await cluster.get(LEASE_KEY)) == leader.identity
    await leader.release()
    await cluster.close()


def test_a_process_of_this_machine_that_does_not_run_is_gone() -> None:
    """Nobody has to wait for it; whether one of another machine runs cannot be told."""
    running = own_identity()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = running.replace(running.rpartition("_")[2], f"{child.pid}-{_started(child.pid)}")
    assert not is_process_gone(running)
    assert not is_process_gone(other)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_process_gone(other)  # killed, and nobody has asked how it ended
    child.communicate()
    assert is_process_gone(other)
    assert is_process_gone(
        running.replace(running.rpartition("-")[2], "1")
    )  # the number of the process was given again
    assert not is_process_gone(other.replace(other.split("_")[1], "another-machine"))
    assert not is_process_gone("")


def _started(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]


def test_an_identity_is_that_of_this_process() -> None:
    assert str(os.getpid()) in own_identity()
