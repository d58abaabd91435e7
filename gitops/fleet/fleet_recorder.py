"""The records of a fleet on the hub: who the clusters are and how they stand, and beside them those of the sources.

What changes often is written rarely: at most once in `WRITE_INTERVAL_SECONDS` for each record.
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
"""Seconds between two writes of one record, but for who a cluster is, which is written at once."""


Summarize = Callable[[], Mapping[str, SourceSummary]]


class RecordChange(TypedDict, total=False):
    """The fields of a `ClusterRecord` that are to be others. Where `state` stays, so does `since`."""

    uid: str
    state: str
    since: datetime
    message: str
    declared: Mapping[str, Any]
    sources: Mapping[str, SourceSummary]
    forgotten: str


@dataclass
class FleetRecorder:
    """Writes the records of one hub: those of its clusters, and by `sources` those of its sources.

    Only the process that leads writes them, and people who accept or forget a cluster.
    Hold `identifying` between the look at the records of all clusters and the write of who one of them is.
    """

    hub: Cluster
    clock: Clock
    notice: Callable[[str, str], None]
    identifying: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    sources: FleetRecords = field(init=False)
    _stored: dict[ClusterName, StoredClusterRecord] = field(default_factory=dict, init=False)
    _changes: dict[ClusterName, RecordChange] = field(default_factory=dict, init=False)
    _summarize: dict[ClusterName, Summarize] = field(default_factory=dict, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self.sources = FleetRecords(self.hub, self.clock, self.notice, self._wake.set)

    async def load(self) -> dict[ClusterName, ClusterRecord]:
        """Read the records that the hub has. Raises ClusterError."""
        self._stored = await read_cluster_records(self.hub)
        await self.sources.load()
        return {name: stored.record for name, stored in self._stored.items()}

    @property
    def records(self) -> dict[ClusterName, ClusterRecord]:
        """The records of the clusters, as far as this process has read or written them, with what is to be written soon."""
        return {name: self.record_of(name) for name in self._stored.keys() | self._changes.keys()}

    def record_of(self, name: ClusterName) -> ClusterRecord:
        """Return the same of one cluster; `NEW_RECORD` where there is nothing."""
        record = self._stored[name].record if name in self._stored else NEW_RECORD
        return _changed(record, self._pending(name))

    def update(self, name: ClusterName, change: RecordChange) -> None:
        """Change the record of a cluster soon."""
        self._changes[name] = {**self._changes.get(name, {}), **change}
        self._wake.set()

    def update_sources(self, name: ClusterName, summarize: Summarize) -> None:
        """Say soon what a cluster has of each source. A pass costs nothing by it: `summarize` is called when that is written."""
        self._summarize[name] = summarize
        self.update(name, {})

    async def write(self, name: ClusterName, change: RecordChange) -> ClusterRecord:
        """Change the record of a cluster now, after what was to be changed soon, and return it. Raises ClusterError."""
        async with self._writing:
            return await self._write_with_pending(name, change)

    async def _write_with_pending(self, name: ClusterName, change: RecordChange) -> ClusterRecord:
        """Where the hub does not take it, what was to be written soon still is. Raises ClusterError."""
        pending = self._take(name)
        try:
            return await self._write(name, {**pending, **change})
        except ClusterError:
            self._changes[name] = {**pending, **self._changes.get(name, {})}
            raise

    def _pending(self, name: ClusterName) -> RecordChange:
        """Return what is to be changed soon."""
        change = self._changes.get(name, {})
        return {**change, "sources": self._summarize[name]()} if name in self._summarize else change

    def _take(self, name: ClusterName) -> RecordChange:
        """Return what is to be changed soon, which whoever asks writes."""
        change = self._pending(name)
        self._changes.pop(name, None)
        self._summarize.pop(name, None)
        return change

    async def _write(self, name: ClusterName, change: RecordChange) -> ClusterRecord:
        before = NEW_RECORD
        for remaining in range(MAX_WRITE_TRIES, 0, -1):
            # A record that somebody has deleted is written again as it was: who the cluster is must not be lost with it.
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
        """Read the record of a cluster anew; None where there is none. Raises ClusterError."""
        self._stored.pop(name, None)
        if found := await read_cluster_record(self.hub, name):
            self._stored[name] = found
        return found.record if found else None

    async def delete(self, name: ClusterName) -> None:
        """Forget a cluster. Raises ClusterError."""
        async with self._writing:
            self._take(name)
            if (await self.refresh(name)) is not None:
                uid = self._stored[name].live["metadata"]["uid"]
                await self.hub.delete(cluster_record_key(name), uid=uid, resource_version=None)
                del self._stored[name]

    async def run(self, stop: asyncio.Event) -> None:
        """Write what changes, until `stop` is set; what has changed by then is written, too."""
        while not stop.is_set():
            await wait_for_any(self._wake.wait(), stop.wait())
            await self.flush()
            await wait_for_any(self.clock.sleep(WRITE_INTERVAL_SECONDS), stop.wait())

    async def flush(self) -> None:
        """Write what has changed. What the hub does not take is tried again with the next change."""
        self._wake.clear()
        for name in list(self._changes):
            async with self._writing:  # what is deleted meanwhile is not written again
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
