"""Writer of the hub's records of clusters. The writer collects changes, and retries after conflicts.

The writer writes each record at most once in `WRITE_INTERVAL_SECONDS`, so frequent changes cause few writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Final, TypedDict

from applier.cluster import Cluster, ClusterName
from applier.errors import ClusterError, StaleWrite
from gitops.clock import Clock, wait_for_any
from gitops.fleet.cluster_record import (
    MAX_WRITE_TRIES,
    NEW_RECORD,
    ClusterRecord,
    SourceSummary,
    StoredClusterRecord,
    cluster_record_key,
    read_cluster_record,
    read_cluster_records,
    write_cluster_record,
)
from gitops.fleet.fleet_records import FleetRecords
from renderer.frozen import dataclass

WRITE_INTERVAL_SECONDS: Final = 2.0
"""Seconds between two writes of one record. Only the identity of a cluster does not wait for this interval."""


Summarize = Callable[[], Mapping[str, SourceSummary]]
"""Function that returns the summaries of a cluster's sources."""


class RecordChange(TypedDict, total=False):
    """New values of fields of a `ClusterRecord`. If `state` does not change, the record keeps its `since`."""

    uid: str
    state: str
    since: datetime
    message: str
    declared: Mapping[str, Any]
    sources: Mapping[str, SourceSummary]
    forgotten: str


@dataclass
class FleetRecorder:
    """Writer of one hub's records: the records of clusters, and through `sources` the records of sources.

    Only the leading process, `levelgate cluster accept` and `levelgate cluster forget` write records.
    """

    hub: Cluster
    clock: Clock
    notice: Callable[[str, str], None]
    identifying: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Lock that lets the hub identify only one cluster at a time.

    The caller holds the lock from the read of all records to the write of the identity.
    """
    sources: FleetRecords = field(init=False)
    """Writer of the records of sources."""
    _stored: dict[ClusterName, StoredClusterRecord] = field(default_factory=dict, init=False)
    _changes: dict[ClusterName, RecordChange] = field(default_factory=dict, init=False)
    _summarize: dict[ClusterName, Summarize] = field(default_factory=dict, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self.sources = FleetRecords(self.hub, self.clock, self.notice, self._wake.set)

    async def load(self) -> dict[ClusterName, ClusterRecord]:
        """Read all records, and return the records of clusters.

        Raises: ClusterError if the hub does not return the records.
        """
        self._stored = await read_cluster_records(self.hub)
        await self.sources.load()
        return {name: stored.record for name, stored in self._stored.items()}

    @property
    def records(self) -> dict[ClusterName, ClusterRecord]:
        """Return the records of clusters that this process has read or written, with pending changes included."""
        return {name: self.record_of(name) for name in self._stored.keys() | self._changes.keys()}

    def record_of(self, name: ClusterName) -> ClusterRecord:
        """Return the record of one cluster, with pending changes included. A missing record counts as `NEW_RECORD`."""
        record = self._stored[name].record if name in self._stored else NEW_RECORD
        return _changed(record, self._pending(name))

    def update(self, name: ClusterName, change: RecordChange) -> None:
        """Add a pending change to the record of a cluster. `run` writes the change soon."""
        self._changes[name] = {**self._changes.get(name, {}), **change}
        self._wake.set()

    def update_sources(self, name: ClusterName, summarize: Summarize) -> None:
        """Add pending summaries of a cluster's sources.

        Args:
            summarize: function that returns the summaries. The recorder calls the function only when it writes the
                record, so that each reconciliation stays cheap.
        """
        self._summarize[name] = summarize
        self.update(name, {})

    async def write(self, name: ClusterName, change: RecordChange) -> ClusterRecord:
        """Write `change` and the pending changes of a cluster's record at once, and return the written record.

        Raises: ClusterError if the hub rejects the write.
        """
        async with self._writing:
            return await self._write_with_pending(name, change)

    async def _write_with_pending(self, name: ClusterName, change: RecordChange) -> ClusterRecord:
        """Write the pending changes and `change`. After a failure, the pending changes remain pending."""
        pending = self._take(name)
        try:
            return await self._write(name, {**pending, **change})
        except ClusterError:
            self._changes[name] = {**pending, **self._changes.get(name, {})}
            raise

    def _pending(self, name: ClusterName) -> RecordChange:
        """Return the pending changes of a cluster."""
        change = self._changes.get(name, {})
        return {**change, "sources": self._summarize[name]()} if name in self._summarize else change

    def _take(self, name: ClusterName) -> RecordChange:
        """Remove and return the pending changes of a cluster. The caller must write the changes."""
        change = self._pending(name)
        self._changes.pop(name, None)
        self._summarize.pop(name, None)
        return change

    async def _write(self, name: ClusterName, change: RecordChange) -> ClusterRecord:
        before = NEW_RECORD
        for remaining in range(MAX_WRITE_TRIES, 0, -1):
            # If a person has deleted the record, the record is restored, because the identity of the cluster must not
            # be lost.
            stored = self._stored.get(name)
            before = stored.record if stored else before
            record = _changed(before, change)
            if stored and record == before:
                return before
            try:
                self._stored[name] = await write_cluster_record(self.hub, name, record, stored)
            except StaleWrite:
                if remaining == 1:
                    raise
                await self.refresh(name)
            else:
                return self._stored[name].record
        raise AssertionError("unreachable")

    async def refresh(self, name: ClusterName) -> ClusterRecord | None:
        """Read the record of a cluster again, and return the record, or None if the record is missing.

        Raises: ClusterError if the hub does not return the record.
        """
        self._stored.pop(name, None)
        if found := await read_cluster_record(self.hub, name):
            self._stored[name] = found
        return found.record if found else None

    async def delete(self, name: ClusterName) -> None:
        """Delete the record of a cluster and the pending changes of the record.

        Raises: ClusterError if the hub rejects the deletion.
        """
        async with self._writing:
            self._take(name)
            if (await self.refresh(name)) is not None:
                uid = self._stored[name].live["metadata"]["uid"]
                await self.hub.delete(cluster_record_key(name), uid=uid, resource_version=None)
                del self._stored[name]

    async def run(self, stop: asyncio.Event) -> None:
        """Write pending changes until `stop` is set. Then write the remaining pending changes."""
        while not stop.is_set():
            await wait_for_any(self._wake.wait(), stop.wait())
            await self.flush()
            await wait_for_any(self.clock.sleep(WRITE_INTERVAL_SECONDS), stop.wait())

    async def flush(self) -> None:
        """Write all pending changes. After a failed write, the next change triggers another write."""
        self._wake.clear()
        for name in list(self._changes):
            async with self._writing:  # If the record is deleted in between, no change is pending.
                if name not in self._changes:
                    continue
                try:
                    await self._write_with_pending(name, {})
                except ClusterError as error:
                    self.notice("fleet", f"the record of cluster {name} cannot be written: {error}")
        await self.sources.flush()


def _changed(record: ClusterRecord, change: RecordChange) -> ClusterRecord:
    changed = replace(record, **change)
    return replace(changed, since=record.since) if changed.state == record.state and record.since else changed
