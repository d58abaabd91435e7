"""Several processes divide the sources of one cluster, each shard fenced by a Lease of its own (threats-and-faults 5.3).

Each process has a Lease `levelgate-replica-...` that says that it is alive, and how it divides. Every two seconds it looks at the Leases of all: of
what falls to it, it takes what nobody holds; what falls to somebody else it gives back, once the passes under way are over. So each shard has at
most one holder whatever the processes believe of each other, and for moments none. The rules of `gitops.leadership` are those of each Lease: every
write asks whether all that is held certainly is, and who has lost one ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Final, NoReturn

from applier.cluster import Cluster, Object
from applier.errors import ClusterError, StaleWrite
from applier.observed import annotation
from gitops.clock import Clock
from gitops.daemon.division import Division, holder_among
from gitops.leadership import KIND, LEASE, Leadership, Leases, NotLeading, Timing, holder_of, leases_of
from gitops.passes.sources import SourceState
from renderer.identity import OWN_NAMESPACE, ObjectKey, digest
from renderer.values import dataclass

_DIVISION: Final = "internal.levelgate.dev/division"
_REPLICA: Final = f"{LEASE.name}-replica-"


@dataclass
class _Held:
    lead: Leadership
    holding: asyncio.Task[NoReturn]


@dataclass
class Shards:
    """What one process holds. `division` is how it would divide now, `changed` is called when there is more to do, `idle` waits until no pass is
    under way that began before; `told` hears what is taken and given back.
    """

    cluster: Cluster
    identity: str
    clock: Clock
    elapsed: Callable[[], float]
    division: Callable[[], Division]
    changed: Callable[[], None] = lambda: None
    idle: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    told: Callable[[str], None] = lambda _: None
    timing: Timing = field(default_factory=Timing)
    _held: dict[str, _Held] = field(default_factory=dict)
    _parting: dict[str, _Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.divided = self.division()
        self._leases = Leases(self.elapsed)
        own = ObjectKey(*KIND, OWN_NAMESPACE, f"{_REPLICA}{digest(self.identity)[:12]}")
        self._replica = self._leadership(own)

    def has(self, source: str) -> bool:
        """Does this process work on the source?"""
        return self.divided.lease_of(source) in self._held

    def apart(self, states: Sequence[SourceState]) -> Sequence[SourceState]:
        """See `Division.apart`."""
        return self.divided.apart(states)

    @property
    def stands_by(self) -> bool:
        """Is it one of those that are alive?"""
        return self._replica.leads

    @property
    def leads(self) -> bool:
        """Does it hold anything?"""
        return bool(self._held)

    def check(self) -> None:
        """Raises NotLeading unless all that this process holds is certainly its own, and it holds anything."""
        if not self._all:
            raise NotLeading("this process holds no shard; nothing is written")
        for one in self._all:
            one.lead.check()

    @property
    def epoch(self) -> int:
        """The latest term of all that it holds: terms of different Leases are compared on the parents of sets that went from one to another."""
        return max((one.lead.epoch for one in self._held.values()), default=0)

    async def outdo(self, epoch: int) -> None:
        """As `Leadership.outdo`, of all that it holds."""
        for one in tuple(self._held.values()):
            await one.lead.outdo(epoch)

    async def acquire(self, waits: Callable[[str], None], *, patient: bool) -> None:
        """Be one of those that are alive; there is nothing to wait for. Raises ClusterError."""
        while not await self._replica.take(await self._replica.read()):
            await self.clock.sleep(self.timing.renewed)

    async def hold(self) -> NoReturn:
        """Take and give back as processes come and go. Raises NotLeading where it has lost what it held."""
        alive = asyncio.ensure_future(self._replica.hold())
        try:
            while True:
                for task in (alive, *(one.holding for one in self._all)):
                    if task.done():
                        task.result()
                with suppress(ClusterError):
                    await self._look()
                await self.clock.sleep(self.timing.renewed)
        finally:
            alive.cancel()
            for one in self._all:
                one.holding.cancel()

    async def release(self) -> None:
        """Let the others have everything at once; nothing may be under way any more."""
        await asyncio.gather(*(one.lead.release() for one in self._all))
        self._held.clear()
        await self._replica.release()

    @property
    def _all(self) -> tuple[_Held, ...]:
        """What it holds, and what it is about to give back."""
        return (*self._held.values(), *self._parting.values())

    async def _look(self) -> None:
        if (now := self.division()) != self.divided:
            await self._give_back(tuple(self._held))
            self.divided, self._replica.about = now, {_DIVISION: now.mark}
        self._leases.note(await leases_of(self.cluster))
        replicas = await self._replicas()
        marks = {annotation(one, _DIVISION) for one in replicas.values()}
        lead = self._leases.found.get(LEASE.name)
        alone = lead is not None and not self._leases.is_free(lead) and holder_of(lead) not in replicas
        mine = {name for name in self.divided.leases if holder_among(name, replicas.keys()) == self.identity}
        await self._give_back(self._held.keys() - (() if alone else mine))
        if not alone and marks == {self.divided.mark}:
            for name in sorted(mine - self._held.keys()):
                await self._take(name)

    async def _replicas(self) -> Mapping[str, Object]:
        """The processes that are alive, by identity. Leases of those that are not are taken away."""
        found: dict[str, Object] = {}
        for name, lease in self._leases.found.items():
            if not name.startswith(_REPLICA):
                continue
            if holder_of(lease) == self.identity or not self._leases.is_free(lease):
                found[holder_of(lease)] = lease
            else:
                metadata = lease["metadata"]
                with suppress(StaleWrite):
                    await self.cluster.delete(
                        ObjectKey.of(lease), uid=metadata["uid"], resource_version=metadata["resourceVersion"]
                    )
        return found

    async def _take(self, name: str) -> None:
        lead = self._leadership(ObjectKey(*KIND, OWN_NAMESPACE, name))
        if known := self._leases.found.get(name):
            lease, is_free = known, self._leases.is_free(known)
        else:  # whether somebody who was faster is alive, the next look can tell
            is_free = not holder_of(lease := await lead.read())
        if not is_free:
            return
        if await lead.take(lease):
            self._held[name] = _Held(lead, asyncio.ensure_future(lead.hold()))
            self.told(f"works on {name}")
            self.changed()

    async def _give_back(self, names: Collection[str]) -> None:
        """No pass that begins now works on these; they are released once those are over that may have begun with them."""
        for name in names:
            self._parting[name] = self._held.pop(name)
        if names:
            await self.idle()
        for name in sorted(names):
            one = self._parting.pop(name)
            one.holding.cancel()
            await one.lead.release()
            self.told(f"leaves {name} to another process")

    def _leadership(self, lease: ObjectKey) -> Leadership:
        about = {_DIVISION: self.divided.mark} if lease.name.startswith(_REPLICA) else {}
        return Leadership(self.cluster, self.identity, self.clock, self.elapsed, self.timing, lease, about)
