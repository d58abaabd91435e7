"""Who works on which sources, where several processes divide them (rendezvous hashing). Pure.

Sources that depend on each other are one group, and a group is worked on by one process: its definitions, rollouts, grants and deletions are
decided by one at a time. Groups fall to shards, of which there is a fixed number, and shards to the processes that are alive. Of a group and of a
shard each candidate has a weight that nothing else has a part in; the heaviest has it. So when one joins or leaves, only what falls to it moves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from gitops.compose import SourceConfig
from gitops.leadership import LEASE
from gitops.passes.share import COMMON
from gitops.passes.sources import SourceState
from renderer.catalog import Catalog
from renderer.identity import digest
from renderer.values import dataclass


@dataclass(frozen=True, slots=True)
class Division:
    """Into so many `shards`. `groups` has the name of the group of each source, which is the first of the names in it."""

    shards: int
    groups: Mapping[str, str]

    @classmethod
    def of(cls, sources: Collection[SourceConfig], shards: int) -> Division:
        """Sources that depend on each other, be it through others, are together."""
        groups = {one.name: one.name for one in sources}
        for one in sources:
            for other in one.depends_on:
                first, second = sorted((groups[one.name], groups[other]))
                groups = {name: first if group == second else group for name, group in groups.items()}
        return cls(shards, groups)

    @property
    def leases(self) -> tuple[str, ...]:
        """The names of what can be held: a Lease for each shard, and that of the lead, which is for what is common."""
        return (LEASE.name, *(f"{LEASE.name}-shard-{number}" for number in range(self.shards)))

    @property
    def mark(self) -> str:
        """Two processes may share the work if they mean the same by it."""
        return digest([self.shards, dict(self.groups)])

    def lease_of(self, source: str) -> str | None:
        """The Lease under which a source is worked on; None for one that is not known."""
        if source == COMMON:
            return LEASE.name
        group = self.groups.get(source)
        return _heaviest(group, self.leases[1:]) if group else None

    def apart(self, states: Sequence[SourceState]) -> list[SourceState]:
        """As they are, but for sources that have instances of definitions of another group: nothing of these is written. Two processes would decide
        about one rollout.
        """
        return [
            replace(one, suspend=one.suspend or self._strange(one.catalog, [other.catalog for other in states]))
            for one in states
        ]

    def _strange(self, catalog: Catalog, others: Iterable[Catalog]) -> str:
        """What is wrong; empty where nothing is."""
        own = self.groups.get(catalog.source)
        used = catalog.kinds_used - catalog.definitions.keys()
        for other in others:
            if self.groups.get(other.source) != own:
                for kind in sorted(used & {*other.definitions, *other.broken}):
                    return (
                        f"it has instances of {kind}, which source {other.source} defines, and with --shards another process may work on that: "
                        f"let {catalog.source} say dependsOn: [{other.source}]"
                    )
        return ""


def holder_among(lease: str, replicas: Collection[str]) -> str:
    """Which of the processes that are alive is to hold this."""
    return _heaviest(lease, replicas)


def _heaviest(of: str, candidates: Collection[str]) -> str:
    return max(candidates, key=lambda one: (hashlib.sha256(f"{of}\0{one}".encode()).digest(), one))
