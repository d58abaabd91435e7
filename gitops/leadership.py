"""One process writes to a cluster: the one that holds the Lease `levelgate`. The others wait, and take over when it falls silent.

A Lease is no fence: a process that was stopped for a minute wakes up and believes that it still holds it. So whoever leads asks its own clock
before every write whether its last renewal is young enough (`check`), and gives up for good before anybody else may take over. The clock of
another machine counts for nothing: a Lease is dead when it has not changed for as long as it lasts. Source: Kubernetes, "Leases"; client-go's
leader election, whose durations these are.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn
from uuid import uuid4

from applier.cluster import Cluster, Object
from applier.errors import ClusterError, StaleWrite
from gitops.clock import Clock
from gitops.errors import GitopsError
from gitops.records.installation import ensure_namespace
from renderer import keys
from renderer.identity import ObjectKey
from renderer.render import OWN_NAMESPACE

LEASE: Final = ObjectKey("coordination.k8s.io", "Lease", OWN_NAMESPACE, "levelgate")
_MANAGER: Final = "levelgate-leadership"


class NotLeading(GitopsError):
    """This process may not write, now or any more: another one leads, or the Lease could not be renewed in time."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long a Lease lasts unchanged, how often it is renewed, and after how long without that its holder gives up."""

    lasts: float = 15.0
    renewed: float = 2.0
    gives_up: float = 10.0


@dataclass
class Leadership:
    """Of one process. `clock` sleeps and tells people the time, `elapsed` is a clock that only goes forward, `identity` who this is."""

    cluster: Cluster
    identity: str
    clock: Clock
    elapsed: Callable[[], float] = time.monotonic
    timing: Timing = Timing()
    _deadline: float = 0.0
    _lease: Object | None = None

    async def acquire(self, waits: Callable[[str], None], *, patient: bool) -> None:
        """Until this process leads. `waits` hears once of each holder that is waited for; who is not `patient` waits only for one that is silent.

        Raises NotLeading where another process is at work, ClusterError where the Lease cannot be read or written.
        """
        version, since, told = "", 0.0, ""
        while True:
            lease = await self._read()
            holder, before = _holder(lease), version
            version = lease["metadata"]["resourceVersion"]
            if version != before:
                since = self.elapsed()
                if before and holder and not patient:
                    raise NotLeading(f"{holder} works on cluster {self.cluster.name}: stop it, or leave the work to it")
            if (not holder or self._is_silent(lease, since) or is_gone(holder)) and await self._taken(lease):
                return
            if holder != told:
                waits(holder)
                told = holder
            await self.clock.sleep(self.timing.renewed)

    async def hold(self) -> NoReturn:
        """Renew the Lease until that fails for too long. Raises NotLeading, never returns."""
        while True:
            await self.clock.sleep(self.timing.renewed)
            self.check()
            assert self._lease
            try:
                await self._write(self._lease)
            except StaleWrite:
                found = await self._read()
                if _holder(found) != self.identity:
                    self._deadline = 0.0
                    raise NotLeading(f"{_holder(found) or 'somebody'} has taken the lead") from None
                self._lease = found
            except ClusterError:
                continue  # `check` ends it

    @property
    def epoch(self) -> int:
        """The term: grows with every process that begins to lead."""
        return _epoch(self._lease) if self._lease else 0

    async def outdo(self, epoch: int) -> None:
        """Somebody has written in this later epoch. If this process holds the Lease all the same, then a Lease was deleted and its count began anew:
        go on above it. Raises NotLeading where another one holds it, ClusterError where it cannot be read or written.
        """
        lease = await self._read()
        if _holder(lease) != self.identity:
            self._deadline = 0.0
            raise NotLeading(f"{_holder(lease) or 'somebody'} has written since; this process does not lead any more")
        await self._write(lease, epoch=epoch + 1)

    def check(self) -> None:
        """Raises NotLeading unless this process certainly leads now."""
        if not self.leads:
            raise NotLeading(f"the lead was not renewed for {self.timing.gives_up:g} seconds; nothing more is written")

    @property
    def leads(self) -> bool:
        """Does it certainly lead now?"""
        return self.elapsed() < self._deadline

    async def release(self) -> None:
        """Let the next one lead at once. What goes wrong costs only time."""
        if self._lease is None or not self.leads:
            return
        self._deadline = 0.0
        try:
            await self.cluster.merge(LEASE, _body(self._lease, {"holderIdentity": ""}), manager=_MANAGER)
        except ClusterError:
            return

    def _is_silent(self, lease: Object, since: float) -> bool:
        """Has it stayed as it is for as long as it lasts?"""
        lasts = (lease.get("spec") or {}).get("leaseDurationSeconds") or self.timing.lasts
        return self.elapsed() - since >= float(lasts)

    async def _taken(self, lease: Object) -> bool:
        try:
            await self._write(lease, epoch=_epoch(lease) + 1)
        except StaleWrite:
            return False
        return True

    async def _read(self) -> Object:
        """The Lease; made where there is none, with nobody in it, so that two who make it at once do not both hold it."""
        if found := await self.cluster.get(LEASE):
            return found
        await ensure_namespace(self.cluster)
        metadata = {"name": LEASE.name, "namespace": LEASE.namespace, "labels": {keys.RECORD: "leadership"}}
        return await self.cluster.apply(
            {"apiVersion": "coordination.k8s.io/v1", "kind": LEASE.kind, "metadata": metadata}, manager=_MANAGER
        )

    async def _write(self, lease: Object, *, epoch: int = 0) -> None:
        """Write it over the version that was read; `epoch` where a term begins. Raises StaleWrite where another one stands there."""
        sent, now = self.elapsed(), self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self.timing.lasts),
            "renewTime": now,
        }
        if epoch:
            spec |= {"acquireTime": now, "leaseTransitions": epoch}
        written = await self.cluster.merge(LEASE, _body(lease, spec), manager=_MANAGER)
        if written is None:
            raise StaleWrite(f"{LEASE} was deleted")
        self._lease, self._deadline = written, sent + self.timing.gives_up


def _holder(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _epoch(lease: Object) -> int:
    return int((lease.get("spec") or {}).get("leaseTransitions") or 0)


def _body(lease: Object, spec: dict[str, Any]) -> Object:
    """A change of the Lease as it was read, and of no other."""
    return {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}


def own_identity() -> str:
    """`HOST_PLACE_PID-START`, where PLACE is this boot of the machine and the space of its process ids; a random name where that is not told."""
    host = socket.gethostname()
    place, started = _place(), _started(os.getpid())
    return f"{host}_{place}_{os.getpid()}-{started}" if place and started else f"{host}_{uuid4()}"


def is_gone(identity: str) -> bool:
    """Was this a process of the same machine that certainly does not run any more? Then nobody has to wait for it."""
    match identity.split("_"):
        case [_, place, process] if place and place == _place():
            number, _, started = process.partition("-")
            return number.isdecimal() and _started(int(number)) != started
    return False


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _started(process: int) -> str:
    """When a process began, in ticks since boot; empty where there is none, or only its exit code is left (proc(5))."""
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in {"Z", "X"} else fields[18]
