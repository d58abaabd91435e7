"""The records of a fleet on the hub: who the clusters are and how they stand, and which clusters and placements are in force.

What changes often is written rarely: at most once in `WRITE_INTERVAL_SECONDS` for each record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Final, TypedDict

from applier.cluster import Cluster, ClusterName, Reader
from applier.errors import ClusterError, StaleWrite
from gitops.clock import Clock, wait_for_any
from gitops.fleet.cluster_record import (
    HUB_MANAGER,
    NEW_RECORD,
    ClusterRecord,
    SourceSummary,
    StoredClusterRecord,
    cluster_record_key,
    read_cluster_record,
    read_cluster_records,
    record_configmap,
    write_cluster_record,
)
from gitops.records.installation import ensure_namespace
from gitops.records.stored_json import dump_json, load_mapping
from gitops.rollouts.source_rules import StoredRules
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

WRITE_INTERVAL_SECONDS: Final = 2.0
"""Seconds between two writes of one record, but for who a cluster is, which is written at once."""

FLEET_RECORD: Final = "fleet"
"""Value of the label `internal.levelgate.dev/record` of what is in force of a source: ConfigMap `fleet-SOURCE`."""

_PREFIX: Final = "fleet-"
_MAX_TRIES: Final = 5

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


async def read_accepted(hub: Reader) -> dict[str, StoredRules]:
    """Return the clusters and placements in force, by source. Raises ClusterError."""
    selector = f"{well_known.RECORD}={FLEET_RECORD}"
    found = await hub.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=selector)
    return {
        live["metadata"]["name"].removeprefix(_PREFIX): load_mapping((live.get("data") or {}).get("accepted", ""))
        for live in found
    }


@dataclass
class FleetRecorder:
    """Writes the records of one hub. Only the process that leads writes them, and people who accept or forget a cluster.

    Hold `identifying` between the look at the records of all clusters and the write of who one of them is.
    """

    hub: Cluster
    clock: Clock
    notice: Callable[[str, str], None]
    identifying: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _stored: dict[ClusterName, StoredClusterRecord] = field(default_factory=dict, init=False)
    _changes: dict[ClusterName, RecordChange] = field(default_factory=dict, init=False)
    _summarize: dict[ClusterName, Summarize] = field(default_factory=dict, init=False)
    _accepted: Mapping[str, StoredRules] = field(default_factory=dict, init=False)
    _stored_accepted: dict[str, StoredRules] = field(default_factory=dict, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def load(self) -> dict[ClusterName, ClusterRecord]:
        """Read the records that the hub has. Raises ClusterError."""
        self._stored, self._stored_accepted = await read_cluster_records(self.hub), await read_accepted(self.hub)
        return {name: stored.record for name, stored in self._stored.items()}

    @property
    def accepted(self) -> dict[str, StoredRules]:
        """The clusters and placements in force, by source, as they were stored last."""
        return dict(self._stored_accepted)

    @property
    def records(self) -> dict[ClusterName, ClusterRecord]:
        """The records of the clusters, as far as this process has read or written them, with what is to be written soon."""
        return {name: self.record_of(name) for name in self._stored.keys() | self._changes.keys()}

    def record_of(self, name: ClusterName) -> ClusterRecord:
        """Return the same of one cluster; `NEW_RECORD` where there is nothing."""
        record = self._stored[name].record if name in self._stored else NEW_RECORD
        return _changed(record, self._pending(name))

    def keep_accepted(self, accepted: Mapping[str, StoredRules]) -> None:
        """Store what is in force now."""
        self._accepted = accepted
        if accepted != self._stored_accepted:
            self._wake.set()

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
        for remaining in range(_MAX_TRIES, 0, -1):
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
        for source in sorted(self._accepted.keys() | self._stored_accepted.keys()):
            accepted = self._accepted.get(source, {})
            if accepted != self._stored_accepted.get(source, {}):
                try:
                    await self._write_accepted(source, accepted)
                except ClusterError as error:
                    self.notice("fleet", f"the clusters and placements of source {source} cannot be stored: {error}")

    async def _write_accepted(self, source: str, accepted: StoredRules) -> None:
        key = ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{_PREFIX}{source}")
        await ensure_namespace(self.hub)
        body = {**record_configmap(key, FLEET_RECORD), "data": {"accepted": dump_json(accepted)}}
        await self.hub.apply(body, manager=HUB_MANAGER)
        self._stored_accepted[source] = accepted


def _changed(record: ClusterRecord, change: RecordChange) -> ClusterRecord:
    changed = replace(record, **change)
    return replace(changed, since=record.since) if changed.state == record.state and record.since else changed
