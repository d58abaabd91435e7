"""One process writes to a cluster: the one that holds the Lease `levelgate`. The others wait, and take over when it falls silent.

A Lease is no fence: a process that was stopped for a minute wakes up and believes that it still holds it. So whoever leads asks its own clock
before every write whether its last renewal is young enough (`check`), and gives up for good before anybody else may take over. The clock of
another machine counts for nothing: a Lease is dead when it has not changed for as long as it lasts. Source: Kubernetes, "Leases"; client-go's
leader election, whose durations these are.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar
from uuid import uuid4

from applier.cluster import Cluster, Object
from applier.errors import ClusterError, StaleWrite
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.records.installation import ensure_namespace
from gitops.timestamps import micro_timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

T = TypeVar("T")

LEASE_KIND: Final = GroupKind("coordination.k8s.io", "Lease")
LEASE_KEY: Final = ObjectKey(*LEASE_KIND, OWN_NAMESPACE, "levelgate")
LEASE_RECORD: Final = "leadership"
"""Value of the label `internal.levelgate.dev/record` of every Lease of ours."""

_MANAGER: Final = "levelgate-leadership"


class NotLeading(GitopsError):
    """This process may not write, now or any more: another one leads, or the Lease could not be renewed in time."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds after which a Lease that has not changed is nobody's, between two renewals, and without a renewal after
    which its holder gives up. The last is shorter than the first: the holder stops before anybody else begins.
    """

    duration_seconds: float
    renew_interval_seconds: float
    renew_deadline_seconds: float


LEASE_TIMES: Final = LeaseTimes(15.0, 2.0, 10.0)

FLEET_LEASE_TIMES: Final = LeaseTimes(30.0, 5.0, 20.0)
"""Of the Leases in the clusters of a fleet: there are many of them, and the way there is longer."""

RELEASE_TIMEOUT_SECONDS: Final = 1.0
"""Seconds that it may take to give a Lease back."""


@dataclass
class Leadership:
    """Of one process. `clock` sleeps and tells people the time, `elapsed` is a clock that only goes forward, `identity` who this is.
    `stands_by`: it has seen that another one leads. `ended_epoch` is the term that the same work has held before; it is over, and nobody
    waits for it. 0: there was none.
    """

    cluster: Cluster
    identity: str
    clock: Clock
    times: LeaseTimes
    elapsed: Callable[[], float] = time.monotonic
    ended_epoch: int = 0
    stands_by: bool = field(default=False, init=False)
    _deadline: float = 0.0
    _lease: Object | None = None

    async def acquire(self, on_wait: Callable[[str], None], *, patient: bool) -> None:
        """Until this process leads. `waits` hears once of each holder that is waited for; who is not `patient` waits only for one that is silent.

        Raises NotLeading where another process is at work, ClusterError where the Lease cannot be read or written; who is patient and has read it
        once waits for the server to come back.
        """
        lease, reported_holder = _Seen(self.elapsed, self.times), ""
        while True:
            try:
                holder = await self._find_holder(lease, patient=patient)
                if not holder and await self.try_acquire(lease.found):
                    return
            except ClusterError:
                if not (patient and lease.found):
                    raise
            else:
                self.stands_by = bool(holder)
                if holder != reported_holder:
                    on_wait(holder)
                    reported_holder = holder
            await self.clock.sleep(self.times.renew_interval_seconds)

    async def _find_holder(self, lease: _Seen, *, patient: bool) -> str:
        """Who has to be waited for; empty: nobody."""
        active_holder = lease.note(await self.read_lease())
        if holder_of(lease.found) == self.identity and 0 < _epoch(lease.found) <= self.ended_epoch:
            return ""
        if active_holder and not patient:
            raise NotLeading(f"{active_holder} works on cluster {self.cluster.name}; stop that process, or let it work")
        return "" if lease.is_free else holder_of(lease.found)

    async def hold(self, is_turning: Callable[[], bool]) -> NoReturn:
        """Renew the Lease until that fails for too long, or the event loop that works turns no more.

        Raises NotLeading, never returns.
        """
        while True:
            await self.clock.sleep(self.times.renew_interval_seconds)
            self.check()
            if not is_turning():
                raise NotLeading("the work hangs, so the lease is not renewed any more and another process takes over")
            with suppress(ClusterError):  # `check` ends it
                await self._renew()

    async def _renew(self) -> None:
        assert self._lease
        try:
            await self._write_lease(self._lease)
        except StaleWrite:  # by somebody else, or by ourselves, and the answer was lost
            lease = await self.read_lease()
            if holder_of(lease) != self.identity:
                self._deadline = 0.0
                raise NotLeading(f"{holder_of(lease) or 'another process'} has taken the lease") from None
            await self._write_lease(lease)

    @property
    def epoch(self) -> int:
        """The term: grows with every process that begins to lead."""
        return _epoch(self._lease) if self._lease else 0

    async def outdo(self, epoch: int) -> None:
        """Somebody has written in this later epoch. If this process holds the Lease all the same, then a Lease was deleted and its count began anew:
        go on above it. Raises NotLeading where another one holds it, ClusterError where it cannot be read or written.
        """
        lease = await self.read_lease()
        if holder_of(lease) != self.identity:
            self._deadline = 0.0
            raise NotLeading(f"{holder_of(lease) or 'another process'} has written since; this process no longer leads")
        await self._write_lease(lease, epoch=epoch + 1)

    def check(self) -> None:
        """Raises NotLeading unless this process certainly leads now."""
        if not self.leads:
            raise NotLeading(
                f"the lease was not renewed for {self.times.renew_deadline_seconds:g} seconds; nothing more is written"
            )

    @property
    def leads(self) -> bool:
        """Does it certainly lead now?"""
        return self.elapsed() < self._deadline

    async def release(self) -> None:
        """Let the next one lead at once. What goes wrong costs only time, and not much of this process's: a server that does not answer is not waited
        for.
        """
        if self._lease is None or not self.leads:
            return
        self._deadline = 0.0
        with suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT_SECONDS):
                try:
                    await self._clear_holder(self._lease)
                except StaleWrite:  # our own renewal may have been broken off after it was sent
                    if holder_of(lease := await self.read_lease()) == self.identity:
                        await self._clear_holder(lease)

    async def _clear_holder(self, lease: Object) -> None:
        await self.cluster.merge(LEASE_KEY, _lease_patch(lease, {"holderIdentity": ""}), manager=_MANAGER)

    async def try_acquire(self, lease: Object) -> bool:
        """Begin a term over this version of the Lease; False where another one was faster. Raises ClusterError."""
        try:
            await self._write_lease(lease, epoch=_epoch(lease) + 1)
        except StaleWrite:
            return False
        return True

    async def read_lease(self) -> Object:
        """The Lease; made where there is none, with nobody in it, so that two who make it at once do not both hold it."""
        if lease := await self.cluster.get(LEASE_KEY):
            return lease
        await ensure_namespace(self.cluster)
        metadata = {
            "name": LEASE_KEY.name,
            "namespace": LEASE_KEY.namespace,
            "labels": {well_known.RECORD: LEASE_RECORD},
        }
        return await self.cluster.apply(
            {"apiVersion": "coordination.k8s.io/v1", "kind": LEASE_KIND.kind, "metadata": metadata}, manager=_MANAGER
        )

    async def _write_lease(self, lease: Object, *, epoch: int = 0) -> None:
        """Write it over the version that was read; `epoch` where a term begins. Raises StaleWrite where another one stands there."""
        sent_at, now = self.elapsed(), micro_timestamp(self.clock.now())
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self.times.duration_seconds),
            "renewTime": now,
        }
        if epoch:
            spec |= {"acquireTime": now, "leaseTransitions": epoch}
        written = await self.cluster.merge(LEASE_KEY, _lease_patch(lease, spec), manager=_MANAGER)
        if written is None:
            raise StaleWrite(f"{LEASE_KEY} was deleted")
        self._lease, self._deadline = written, sent_at + self.times.renew_deadline_seconds


@dataclass
class _Seen:
    """The Lease as one process has seen it, and since when it stands so, by the clock of that process. A Lease is silent when it has not changed
    for as long as it lasts.
    """

    elapsed: Callable[[], float]
    times: LeaseTimes
    found: Object = field(default_factory=dict)
    _since: float = 0.0

    def note(self, lease: Object) -> str:
        """Take in how it stands now. Return its holder if it was renewed or taken since the last look; empty: it was not."""
        before, self.found = self.found, lease
        if before and before["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"]:
            return ""
        self._since = self.elapsed()
        return holder_of(lease) if before else ""

    @property
    def is_free(self) -> bool:
        """Does nobody hold it, as far as that can be known?"""
        holder, lasts = (
            holder_of(self.found),
            (self.found.get("spec") or {}).get("leaseDurationSeconds") or self.times.duration_seconds,
        )
        return not holder or self.elapsed() - self._since >= float(lasts) or is_process_gone(holder)


async def run_while_held(hold: Coroutine[Any, Any, NoReturn], work: Coroutine[Any, Any, T]) -> T:
    """What the work comes to, which is broken off where `lead`, the `hold` of a Lease, ends. Raises NotLeading then."""
    hold_task, work_task = asyncio.ensure_future(hold), asyncio.ensure_future(work)
    try:
        await asyncio.wait({hold_task, work_task}, return_when=asyncio.FIRST_COMPLETED)
        return work_task.result() if work_task.done() else hold_task.result()
    finally:
        for task in (work_task, hold_task):
            task.cancel()
        await asyncio.gather(work_task, hold_task, return_exceptions=True)


def holder_of(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _epoch(lease: Object) -> int:
    return int((lease.get("spec") or {}).get("leaseTransitions") or 0)


def _lease_patch(lease: Object, spec: dict[str, Any]) -> Object:
    """A change of the Lease as it was read, and of no other."""
    return {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}


def own_identity() -> str:
    """`HOST_PLACE_PID-START`, where PLACE is this boot of the machine and the space of its process ids; a random name where that is not told."""
    host = socket.gethostname()
    machine, start = _machine_identity(), _process_start(os.getpid())
    return f"{host}_{machine}_{os.getpid()}-{start}" if machine and start else f"{host}_{uuid4()}"


def is_process_gone(identity: str) -> bool:
    """Was this a process of the same machine that certainly does not run any more? Then nobody has to wait for it."""
    match identity.split("_"):
        case [_, machine, process] if machine and machine == _machine_identity():
            number, _, start = process.partition("-")
            return number.isdecimal() and _process_start(int(number)) != start
    return False


def _machine_identity() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _process_start(process: int) -> str:
    """When a process began, in ticks since boot; empty where there is none, or only its exit code is left (proc(5))."""
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in {"Z", "X"} else fields[18]
