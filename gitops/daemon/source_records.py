"""Access of the fetcher to the records of sources in the cluster, outside of reconciliations.

The fetcher reads the records before the first reconciliation. So a pin is in force from the start, and Levelgate
applies no other commit of a pinned source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Final

from applier.cluster import CONTENT_MANAGER, STATUS_MANAGER, Cluster, Object
from applier.errors import ClusterError
from applier.state.observed import annotation
from gitops.clock import Clock
from gitops.errors import SourceError
from gitops.reconcile.context import ReconcileResult
from gitops.records.cause_rows import MAX_MESSAGE_CHARACTERS
from gitops.records.installation import ensure_namespace
from gitops.records.instance_state import describe_suspension
from gitops.records.source_record import UnreadableSource, initial_source_body, is_approval
from gitops.records.source_requests import Pin, pin_of
from gitops.timestamps import timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import source_parent

_NUMBER: Final = re.compile(r"\d+")


@dataclass(slots=True)
class SourceRecords:
    """Records of the sources of one cluster."""

    cluster: Cluster
    clock: Clock
    _pins: dict[str, Pin | None] = field(default_factory=dict)
    _first_lookups: dict[str, Object | None] = field(default_factory=dict)
    _reported: dict[str, UnreadableSource | None] = field(default_factory=dict)

    async def load_missing(self, sources: Iterable[str]) -> None:
        """Read the record of each of `sources` whose pin is unknown, because no earlier read has taken place."""
        for name in sources:
            if name not in self._pins:
                try:
                    record = self._first_lookups[name] = await self.cluster.get(source_parent(name))
                except ClusterError:
                    continue  # the next reconciliation reports the error of the cluster
                self._pins[name] = pin_of(record, self.clock.now())
                self._reported[name] = UnreadableSource.from_record(record) if record else None

    async def get_record(self, source: str) -> Object | None:
        """Return the record of a source.

        The first call returns the record from `load_missing`. Each later call reads the record again.

        Raises: ClusterError.
        """
        if source in self._first_lookups:
            return self._first_lookups.pop(source)
        return await self.cluster.get(source_parent(source))

    def pin(self, source: str) -> Pin | None:
        """Return the last known pin of a source."""
        return self._pins.get(source)

    @property
    def next_pin_expiry(self) -> datetime | None:
        """Return the time at which the next pin expires, or None if no pin has an end."""
        return min((pin.until for pin in self._pins.values() if pin and pin.until), default=None)

    def find_changed_pins(self, sources: Iterable[str], result: ReconcileResult) -> set[str]:
        """Return the `sources` whose pin begins, ends or changes with the `result` of a reconciliation."""
        changed_sources = set[str]()
        for name in self._pins.keys() & set(sources):
            if not result.observed.is_known(source_parent(name)):
                del self._pins[name]  # the reconciliation has not read the record, so the next poll does
                continue
            pin = pin_of(result.observed.objects.get(source_parent(name)), self.clock.now())
            if pin != self._pins[name]:
                self._pins[name] = pin
                changed_sources.add(name)
        return changed_sources

    async def expire_approval(self, source: str, record: Object | None, previous_commit: str, commit: str) -> None:
        """When the source leaves an approved commit, remove the approval. Raises: ClusterError.

        If the branch later returns to the commit, a person has to approve the commit again.
        """
        approval = annotation(record, well_known.APPROVED_COMMIT) if record else ""
        if (
            previous_commit == commit
            or not is_approval(approval, previous_commit)
            or await describe_suspension(self.cluster, self.clock.now())
        ):
            return
        await self._annotate(source, {well_known.APPROVED_COMMIT: None, well_known.APPROVE_REASON: None})

    async def report_error(self, source: str, error: SourceError | None) -> None:
        """Record the error of a source and the time since which the source has been unreadable.

        If `error` is None, delete the error. From the record, `levelgate status` reports the age of the source's state.
        """
        previous = self._reported.get(source)
        since = previous.since if previous else timestamp(self.clock.now())
        unreadable = UnreadableSource(since, str(error)[:MAX_MESSAGE_CHARACTERS]) if error else None
        if unreadable == previous or (unreadable and previous and is_same_message(unreadable.why, previous.why)):
            return
        with suppress(ClusterError):  # the next poll tries again
            if await describe_suspension(self.cluster, self.clock.now()):
                return
            if unreadable:
                await self._ensure_parent(source)
            if await self._annotate(source, {well_known.UNREADABLE: unreadable.encode() if unreadable else None}):
                self._reported[source] = unreadable

    async def _ensure_parent(self, source: str) -> None:
        """Create the record of a source before its first reconciliation, so that people see its error."""
        key = source_parent(source)
        if await self.cluster.get(key, metadata_only=True) is None:
            await ensure_namespace(self.cluster)
            await self.cluster.apply(initial_source_body(source), manager=CONTENT_MANAGER)

    async def _annotate(self, source: str, annotations: Mapping[str, str | None]) -> Object | None:
        patch = {"metadata": {"annotations": annotations}}
        return await self.cluster.merge(source_parent(source), patch, manager=STATUS_MANAGER)


def is_same_message(first: str, second: str) -> bool:
    """Return whether two messages differ at most in numbers.

    A different number, such as a count of missing bytes, does not justify a write and another reconciliation.
    """
    return _NUMBER.sub("0", first) == _NUMBER.sub("0", second)
