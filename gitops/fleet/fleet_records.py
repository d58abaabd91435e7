"""Writer of the hub's records of sources, and issuer of revision numbers.

Invariant: the hub records a number before a cluster uses the number.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Final

from applier.cluster import Cluster, ClusterName, Reader
from applier.errors import ClusterError, Invalid, StaleWrite
from gitops.clock import Clock, wait_for_any
from gitops.fleet.cluster_record import MAX_WRITE_TRIES
from gitops.fleet.fleet_record import (
    NEW_FLEET_RECORD,
    FleetRecord,
    StoredFleetRecord,
    read_fleet_records,
    recorded_numbers,
    write_fleet_record,
)
from gitops.fleet.revision_numbers import (
    MAX_NUMBER,
    NumbersBySource,
    RevisionNumbers,
    find_number,
    issue_number,
    merge_numbers,
    numbers_in,
)
from gitops.records.applied_packs import KIND
from gitops.records.revisions import DEFINITION
from gitops.rollouts.source_rules import StoredRules
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind
from renderer.render.model import NewRevision

NUMBERING_INTERVAL_SECONDS: Final = 2.0
"""Seconds between two writes of new numbers. All requests between two writes share the later write."""

LEARNING_SECONDS: Final = 10.0
"""Longest wait, in seconds, for the numbers of all clusters before the hub issues the first number of a source."""


async def read_stored_numbers(cluster: Reader) -> dict[str, RevisionNumbers]:
    """Return the numbers of the revisions that a cluster stores, by source.

    Raises: ClusterError if the cluster cannot list the revisions.
    """
    selector = f"{well_known.RECORD}={DEFINITION}"
    return numbers_in(await cluster.list(KIND, OWN_NAMESPACE, selector=selector, metadata_only=True))


@dataclass
class FleetRecords:
    """Writer of the records `fleet-SOURCE` of one hub."""

    hub: Cluster
    clock: Clock
    notice: Callable[[str, str], None]
    on_change: Callable[[], None]
    """Function to call when `flush` has a change to write."""
    _stored: dict[str, StoredFleetRecord] = field(default_factory=dict, init=False)
    _accepted: Mapping[str, StoredRules] = field(default_factory=dict, init=False)
    _numbers: NumbersBySource = field(default_factory=dict, init=False)
    _current: Mapping[str, Mapping[GroupKind, str]] = field(default_factory=dict, init=False)
    _requests: dict[object, Sequence[NewRevision]] = field(default_factory=dict, init=False)
    _awaited: set[ClusterName] = field(default_factory=set, init=False)
    """Clusters with unknown revision numbers.

    While a cluster is in this set, no record gets a learned number. The numbers in a record must be complete for the
    whole fleet.
    """
    _heard: set[ClusterName] = field(default_factory=set, init=False)
    _all_heard: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _numbering: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _numbered_at: float = field(default=-math.inf, init=False)

    async def load(self) -> None:
        """Read all records.

        Raises: ClusterError if the hub does not return the records.
        """
        await self._reload()
        self._accepted = self.accepted

    @property
    def accepted(self) -> dict[str, StoredRules]:
        """Return the clusters and placements in the stored records, by source."""
        return {source: stored.record.accepted for source, stored in self._stored.items()}

    def keep(self, accepted: Mapping[str, StoredRules], current: Mapping[str, Mapping[GroupKind, str]]) -> None:
        """Set the clusters and placements to store, by source. Drop revision numbers that are no longer needed.

        If a kind is no longer in Git, keep only the highest number of the kind.

        Args:
            current: digests of definitions in Git, by source and kind. A definition that does not build has an empty
                digest.
        """
        self._accepted, self._current = accepted, current
        self._numbers = {
            source: numbers.without_contents_but_of(current[source]) if source in current else numbers
            for source, numbers in self._numbers.items()
        }
        self._flush_if_due()

    def expect(self, name: ClusterName) -> None:
        """Make the first number of a source wait for the numbers of the cluster `name`."""
        if name not in self._heard:
            self._awaited.add(name)
            self._all_heard.clear()

    def hear(self, name: ClusterName, numbers: NumbersBySource) -> None:
        """Add the revision numbers of a cluster, and end the wait for the cluster.

        Args:
            numbers: revision numbers by source, empty for an unreadable cluster.
        """
        self._heard.add(name)
        self._awaited.discard(name)
        self._numbers = merge_numbers(self._numbers, numbers)
        if not self._awaited:
            self._all_heard.set()
            self._flush_if_due()

    async def wait_until_heard(self, sources: Iterable[str]) -> None:
        """Wait for the numbers of all clusters, for at most `LEARNING_SECONDS`.

        If the record of each source already has numbers, return at once.
        """
        if self._awaited and any(self._recorded_numbers(source) is None for source in sources):
            await wait_for_any(self._all_heard.wait(), self.clock.sleep(LEARNING_SECONDS))
            self._awaited.clear()

    async def number(self, revisions: Sequence[NewRevision]) -> Mapping[GroupKind, int]:
        """Return the numbers of one cluster's `revisions`.

        First, wait until the hub or a cluster has recorded each number.

        Raises: StaleWrite if Git has changed a definition meanwhile, Invalid if the cluster stores a number above
        `MAX_NUMBER`, ClusterError if the hub rejects the record.
        """
        if foreign := next((revision for revision in revisions if revision.number > MAX_NUMBER), None):
            raise Invalid(
                f"a ControllerRevision of {foreign.kind} in the cluster has the revision {foreign.number - 1}, "
                f"but the hub issues no number above {MAX_NUMBER}; delete the ControllerRevision"
            )
        await self.wait_until_heard(revision.source for revision in revisions)
        request = object()
        self._requests[request] = revisions
        try:
            async with self._numbering:
                if not all(map(self._find, revisions)):
                    await self._wait_for_turn()
                    await self._write(self._with_requests)
                    self._numbered_at = asyncio.get_running_loop().time()
        finally:
            del self._requests[request]
        numbers = {revision.kind: self._find(revision) for revision in revisions}
        if outdated := sorted(str(kind) for kind, number in numbers.items() if not number):
            raise StaleWrite(f"Git has changed {', '.join(outdated)} meanwhile; the outdated revision gets no number")
        return numbers

    async def flush(self) -> None:
        """Write all changed records. After a failed write, the next change triggers another write."""
        for source in self._sources:
            try:
                await self._write(partial(self._wanted_of, source))
            except ClusterError as error:
                self.notice("fleet", f"the clusters and placements of source {source} cannot be stored: {error}")

    @property
    def _sources(self) -> list[str]:
        return sorted({*self._accepted, *self._stored, *self._numbers})

    def _wanted(self, source: str) -> FleetRecord:
        numbers = self._recorded_numbers(source) if self._awaited else self._numbers.get(source)
        return FleetRecord(self._accepted.get(source, {}), numbers)

    def _wanted_of(self, source: str) -> Mapping[str, FleetRecord]:
        return {source: self._wanted(source)}

    def _flush_if_due(self) -> None:
        if any(self._is_due(source) for source in self._sources):
            self.on_change()

    def _is_due(self, source: str) -> bool:
        stored = self._stored.get(source)
        return self._wanted(source) != (stored.record if stored else NEW_FLEET_RECORD)

    def _recorded_numbers(self, source: str) -> RevisionNumbers | None:
        stored = self._stored.get(source)
        return stored.record.numbers if stored else None

    def _is_current(self, revision: NewRevision) -> bool:
        """Return whether Git has the content of `revision` now. If the digest in Git is unknown, return True."""
        return self._current.get(revision.source, {}).get(revision.kind) in (None, "", revision.digest)

    def _find(self, revision: NewRevision) -> int:
        return find_number(self._numbers, revision, is_current=self._is_current(revision))

    def _with_requests(self) -> Mapping[str, FleetRecord]:
        """Return the records with numbers for all requested revisions whose content is still in Git."""
        numbers = self._numbers
        requested = [
            revision for revisions in self._requests.values() for revision in revisions if self._is_current(revision)
        ]
        for revision in requested:
            numbers = issue_number(numbers, revision)
        sources = {revision.source for revision in requested}
        return {name: replace(self._wanted(name), numbers=numbers[name]) for name in sorted(sources)}

    async def _wait_for_turn(self) -> None:
        due_in = self._numbered_at + NUMBERING_INTERVAL_SECONDS - asyncio.get_running_loop().time()
        if due_in > 0:
            await self.clock.sleep(due_in)

    async def _write(self, wanted: Callable[[], Mapping[str, FleetRecord]]) -> None:
        """Write the records that `wanted` returns. After a conflict, read all records and call `wanted` again."""
        async with self._writing:
            for remaining in range(MAX_WRITE_TRIES, 0, -1):
                try:
                    for source, record in wanted().items():
                        await self._write_record(source, record)
                    return
                except StaleWrite:
                    if remaining == 1:
                        raise
                    await self._reload()

    async def _write_record(self, source: str, record: FleetRecord) -> None:
        stored = self._stored.get(source)
        if record == (stored.record if stored else NEW_FLEET_RECORD):
            return
        self._stored[source] = await write_fleet_record(self.hub, source, record, stored)
        if record.numbers is not None:
            self._numbers = merge_numbers(self._numbers, {source: record.numbers})

    async def _reload(self) -> None:
        self._stored = await read_fleet_records(self.hub)
        self._numbers = merge_numbers(self._numbers, recorded_numbers(self._stored))
