"""Leader election by the Lease `levelgate`: only its holder writes to the cluster, and other processes stand by.

A Lease alone is not a fence. A process that the system suspended for a minute resumes, and believes that it still
leads. So the leader checks its own monotonic clock before every write (`check`), and stops writing before another
process may become the leader.

Clocks of other machines do not count. If a process sees no change of a Lease for the duration of the Lease, the
process treats the Lease as expired.

Source: Kubernetes, "Leases"; the durations of client-go's leader election.
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
"""Value of the label `internal.levelgate.dev/record` on every Lease of Levelgate."""

_MANAGER: Final = "levelgate-leadership"


class NotLeading(GitopsError):
    """Error of a write that Levelgate does not send, because this process may no longer lead."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Durations of a Lease in seconds.

    The deadline is shorter than the duration, so that a leader stops before the next leader starts.
    """

    duration_seconds: float
    """Time without a change after which other processes treat the Lease as expired."""
    renew_interval_seconds: float
    """Time between two renewals."""
    renew_deadline_seconds: float
    """Time without a renewal after which the leader no longer writes."""


LEASE_TIMES: Final = LeaseTimes(15.0, 2.0, 10.0)

FLEET_LEASE_TIMES: Final = LeaseTimes(30.0, 5.0, 20.0)
"""Times in the clusters of a fleet. A fleet has many Leases and slower requests, so the times are longer."""

RELEASE_TIMEOUT_SECONDS: Final = 1.0
"""Maximum number of seconds for which `release` waits for the server."""


@dataclass
class Leadership:
    """Leadership of one process in one cluster: the Lease, its term, and the time of the last renewal."""

    cluster: Cluster
    identity: str
    clock: Clock
    times: LeaseTimes
    elapsed: Callable[[], float] = time.monotonic
    """Monotonic clock in seconds."""
    ended_epoch: int = 0
    """Last term that this process held before, or 0. The process does not wait for the end of a term of its own."""
    stands_by: bool = field(default=False, init=False)
    """True once this process has waited for another leader."""
    _deadline: float = 0.0
    _lease: Object | None = None

    async def acquire(self, on_wait: Callable[[str], None], *, patient: bool) -> None:
        """Wait until this process leads.

        Args:
            on_wait: function that receives the identity of each holder that this process waits for.
            patient: True to wait also for an active leader and, after the first read of the Lease, for an API server
                that does not answer. Otherwise the process waits only for a Lease to expire.

        Raises: NotLeading if an active leader exists and the process is not patient, ClusterError if the Lease cannot
        be read or written.
        """
        lease, reported_holder = _ObservedLease(self.elapsed, self.times), ""
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

    async def _find_holder(self, lease: _ObservedLease, *, patient: bool) -> str:
        """Return the holder to wait for, or an empty string if the Lease is free."""
        active_holder = lease.note(await self.read_lease())
        if holder_of(lease.found) == self.identity and 0 < _epoch(lease.found) <= self.ended_epoch:
            return ""
        if active_holder and not patient:
            raise NotLeading(
                f"{active_holder} already works on cluster {self.cluster.name}; stop that process, or let it continue"
            )
        return "" if lease.is_free else holder_of(lease.found)

    async def hold(self, is_turning: Callable[[], bool]) -> NoReturn:
        """Renew the Lease until renewals fail for too long, or the working event loop hangs.

        Args:
            is_turning: function that returns whether the working event loop still runs.

        Raises: NotLeading.
        """
        while True:
            await self.clock.sleep(self.times.renew_interval_seconds)
            self.check()
            if not is_turning():
                raise NotLeading(
                    "the work hangs, so this process stops renewing the lease, and another process takes over"
                )
            with suppress(ClusterError):  # `check` raises NotLeading after the deadline.
                await self._renew()

    async def _renew(self) -> None:
        """Write the Lease. After a conflict, read the Lease again, and write it if this process is still the holder."""
        assert self._lease
        try:
            await self._write_lease(self._lease)
        except StaleWrite:  # Another process wrote the Lease, or the response to this process was lost.
            lease = await self.read_lease()
            if holder_of(lease) != self.identity:
                self._deadline = 0.0
                raise NotLeading(
                    f"{holder_of(lease) or 'another process'} has taken the lease; this process no longer leads"
                ) from None
            await self._write_lease(lease)

    @property
    def epoch(self) -> int:
        """Return the number of the term. Each process that starts to lead increases the number."""
        return _epoch(self._lease) if self._lease else 0

    async def outdo(self, epoch: int) -> None:
        """Continue in a term above `epoch`, the number of a term in which a process has written to this cluster.

        If a client deletes the Lease, the count of terms starts again. Then `epoch` can exceed the term of this
        process.

        Raises: NotLeading if another process holds the Lease, ClusterError if the Lease cannot be read or written.
        """
        lease = await self.read_lease()
        if holder_of(lease) != self.identity:
            self._deadline = 0.0
            raise NotLeading(
                f"{holder_of(lease) or 'another process'} has taken the lease; this process no longer leads"
            )
        await self._write_lease(lease, epoch=epoch + 1)

    def check(self) -> None:
        """Check that this process certainly leads.

        Raises: NotLeading.
        """
        if not self.leads:
            raise NotLeading(
                f"the lease was not renewed for {self.times.renew_deadline_seconds:g} seconds; this process stops"
            )

    @property
    def leads(self) -> bool:
        """Return whether this process certainly leads."""
        return self.elapsed() < self._deadline

    async def release(self) -> None:
        """Release the Lease, so that the next process leads at once.

        If the release fails, the next process starts later. The call waits for the server for at most
        `RELEASE_TIMEOUT_SECONDS`.
        """
        if self._lease is None or not self.leads:
            return
        self._deadline = 0.0
        with suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT_SECONDS):
                try:
                    await self._clear_holder(self._lease)
                except StaleWrite:  # A cancelled renewal of this process may have been written.
                    if holder_of(lease := await self.read_lease()) == self.identity:
                        await self._clear_holder(lease)

    async def _clear_holder(self, lease: Object) -> None:
        await self.cluster.merge(LEASE_KEY, _lease_patch(lease, {"holderIdentity": ""}), manager=_MANAGER)

    async def try_acquire(self, lease: Object) -> bool:
        """Start a term over the version `lease` of the Lease, or return False if another process was faster.

        Raises: ClusterError.
        """
        try:
            await self._write_lease(lease, epoch=_epoch(lease) + 1)
        except StaleWrite:
            return False
        return True

    async def read_lease(self) -> Object:
        """Return the Lease. If the Lease is missing, create the Lease without a holder.

        If two processes create the Lease at the same time, neither process holds the Lease yet. So the two processes
        cannot both become the leader.

        Raises: ClusterError.
        """
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
        """Write the Lease over the version `lease`. With an `epoch` other than 0, start the term `epoch`.

        Raises: StaleWrite on a conflict.
        """
        # The deadline counts from the request: the server may write at once, and other processes count from that write.
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
class _ObservedLease:
    """The Lease as this process last read it, with the time of the last observed change.

    The time is in seconds of the monotonic clock of this process.
    """

    elapsed: Callable[[], float]
    times: LeaseTimes
    found: Object = field(default_factory=dict)
    _since: float = 0.0

    def note(self, lease: Object) -> str:
        """Store `lease` as read now.

        Return the holder if the Lease has changed since the last call, or an empty string.
        """
        before, self.found = self.found, lease
        if before and before["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"]:
            return ""
        self._since = self.elapsed()
        return holder_of(lease) if before else ""

    @property
    def is_free(self) -> bool:
        """Return whether the Lease is free.

        A free Lease has no holder, has expired, or has a holder that was a process on this machine and has ended.
        """
        holder = holder_of(self.found)
        duration = (self.found.get("spec") or {}).get("leaseDurationSeconds") or self.times.duration_seconds
        return not holder or self.elapsed() - self._since >= float(duration) or is_process_gone(holder)


async def run_while_held(hold: Coroutine[Any, Any, NoReturn], work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If `hold`, which renews a Lease, ends first, cancel `work`.

    Raises: NotLeading once the renewal has ended.
    """
    hold_task, work_task = asyncio.ensure_future(hold), asyncio.ensure_future(work)
    try:
        await asyncio.wait({hold_task, work_task}, return_when=asyncio.FIRST_COMPLETED)
        return work_task.result() if work_task.done() else hold_task.result()
    finally:
        for task in (work_task, hold_task):
            task.cancel()
        await asyncio.gather(work_task, hold_task, return_exceptions=True)


def holder_of(lease: Object) -> str:
    """Return the identity of the holder of `lease`, or an empty string if `lease` has no holder."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _epoch(lease: Object) -> int:
    return int((lease.get("spec") or {}).get("leaseTransitions") or 0)


def _lease_patch(lease: Object, spec: dict[str, Any]) -> Object:
    """Return a patch of `lease` that the server rejects if another client has changed the Lease."""
    return {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}


def own_identity() -> str:
    """Return `HOST_MACHINE_PID-START`, in which MACHINE is the boot id and the PID namespace.

    On a system that does not report MACHINE, return the host and a random name.
    """
    host = socket.gethostname()
    machine, start = _machine_identity(), _process_start(os.getpid())
    return f"{host}_{machine}_{os.getpid()}-{start}" if machine and start else f"{host}_{uuid4()}"


def is_process_gone(identity: str) -> bool:
    """Return whether `identity` belongs to a process on this machine that has certainly ended."""
    match identity.split("_"):
        case [_, machine, process] if machine and machine == _machine_identity():
            number, _, start = process.partition("-")
            return number.isdecimal() and _process_start(int(number)) != start
    return False


def _machine_identity() -> str:
    """Return the boot id with the PID namespace, or an empty string if the system does not report both."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _process_start(process: int) -> str:
    """Return the start of a process in ticks since boot (proc(5)), or an empty string if the process has ended.

    A zombie has ended too.
    """
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in {"Z", "X"} else fields[18]
