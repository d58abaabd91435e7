"""The hub's record of each cluster, ConfigMap `cluster-NAME`: who it is, how Git declared it, how it stands, and what it has of each source.

Each record is written over the version that was read; who loses a race reads again. It outlives the declaration in Git, so that a removal is
finished after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Final

from applier.cluster import Cluster, ClusterName, Object, Reader, parse_cluster_name
from applier.errors import StaleWrite
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.fleet_objects import clusters_in
from gitops.fleet.reach import ReachState
from gitops.records.installation import CLUSTER_RECORD, ensure_namespace
from gitops.records.stored_json import dump_json, load_mapping
from gitops.rollouts.source_rules import stored_documents
from gitops.timestamps import parse_timestamp, timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

HUB_MANAGER: Final = "levelgate-hub"
"""Field manager of the records of a hub, in its own cluster and in others."""

_PREFIX: Final = "cluster-"
MAX_WRITE_TRIES: Final = 5
"""Versions of a record that are read before somebody else counts as writing without end."""

_CURRENT_STATES: Final = frozenset({ReachState.ENGAGED, ReachState.DEGRADED})


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """One source in one cluster, as its last pass has left it. `commit` is the one being worked on, `state` the worst `DisplayState` of its sets.

    `waits_for` is the worst cause of what is not settled, as `Reason: message`, and `until` the earliest end of a hold; empty and None where
    nothing waits.
    """

    commit: str
    state: str
    instances: int
    failed: int
    waits_for: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What the hub keeps of a cluster. `uid` is that of its `kube-system`, `state` a `ReachState`, `message` why it is not Engaged.

    `declared` is the `Cluster` as Git said it last: `{file, line, manifest}`. `forgotten` says who gave up the removal of a cluster, and why.
    """

    uid: str
    state: str
    since: datetime | None
    message: str
    declared: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, SourceSummary] = field(default_factory=dict)
    forgotten: str = ""

    @property
    def is_current(self) -> bool:
        """Return whether the cluster answers, so that what was recorded of its sources still holds."""
        return self.state in _CURRENT_STATES

    @property
    def spec(self) -> ClusterSpec | None:
        """The cluster as Git said it last; None where it was never recorded, or can no longer be read."""
        return next(clusters_in(stored_documents({"rules": [self.declared]} if self.declared else {})), None)

    def data(self) -> dict[str, str]:
        """As stored; equal records give equal text."""
        sources = {name: _summary_row(summary) for name, summary in self.sources.items()}
        return {
            "uid": self.uid,
            "state": self.state,
            "since": timestamp(self.since) if self.since else "",
            "message": self.message,
            "declared": dump_json(self.declared) if self.declared else "",
            "sources": dump_json(sources) if sources else "",
            "forgotten": self.forgotten,
        }


NEW_RECORD: Final = ClusterRecord("", "", None, "")
"""The record of a cluster that the hub has not met."""


@dataclass(frozen=True, slots=True)
class StoredClusterRecord:
    """A record as the hub has it; `live` is the ConfigMap, over whose version the next one is written."""

    record: ClusterRecord
    live: Object


def declared_document(spec: ClusterSpec) -> Mapping[str, Any]:
    """Return a cluster of Git as its record stores it."""
    return {"file": spec.origin.file, "line": spec.origin.line, "manifest": spec.manifest}


def cluster_record_key(name: ClusterName) -> ObjectKey:
    """ConfigMap `cluster-eu-1`; of `provider#eu-1` it is `cluster-provider.eu-1`, since a name has no `#`."""
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{_PREFIX}{name.replace('#', '.')}")


async def read_cluster_records(hub: Reader) -> dict[ClusterName, StoredClusterRecord]:
    """Return all that the hub keeps, by name. Raises ClusterError."""
    selector = f"{well_known.RECORD}={CLUSTER_RECORD}"
    found = await hub.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=selector)
    named = ((_name_of(live), live) for live in found)
    return {name: StoredClusterRecord(_parse(live), live) for name, live in sorted(named, key=_sort_key) if name}


async def read_cluster_record(hub: Reader, name: ClusterName) -> StoredClusterRecord | None:
    """Return the record of one cluster; None where the hub has not met it. Raises ClusterError."""
    live = await hub.get(cluster_record_key(name))
    return None if live is None else StoredClusterRecord(_parse(live), live)


async def write_cluster_record(
    hub: Cluster, name: ClusterName, record: ClusterRecord, before: StoredClusterRecord | None
) -> StoredClusterRecord:
    """Write it over the version that was read, None where there was none; what else stands there stays. Raises StaleWrite, ClusterError."""
    live = before.live if before else None
    written = await write_hub_record(hub, cluster_record_key(name), CLUSTER_RECORD, record.data(), live)
    return StoredClusterRecord(_parse(written), written)


async def write_hub_record(
    hub: Cluster, key: ObjectKey, kind: str, data: Mapping[str, str], before: Object | None
) -> Object:
    """Write `data` into a record of a hub, over the version that was read; None where there was none. Raises StaleWrite, ClusterError."""
    if before is None:
        await ensure_namespace(hub)
        before = await hub.apply(record_configmap(key, kind), manager=HUB_MANAGER)
        if before.get("data"):
            raise StaleWrite(f"{key}: somebody else has written it; read it again")
    patch = {"metadata": {"resourceVersion": before["metadata"]["resourceVersion"]}, "data": dict(data)}
    written = await hub.merge(key, patch, manager=HUB_MANAGER)
    if written is None:
        raise StaleWrite(f"{key} was deleted")
    return written


async def change_cluster_record(
    hub: Cluster, name: ClusterName, change: Callable[[ClusterRecord | None], ClusterRecord | None]
) -> ClusterRecord | None:
    """Change a record over the version that was read, again where somebody else was faster. Return the record before.

    `change` gets None where there is no record, and gives None where none is to be written. Raises ClusterError.
    """
    for remaining in range(MAX_WRITE_TRIES, 0, -1):
        stored = await read_cluster_record(hub, name)
        before = stored.record if stored else None
        if (record := change(before)) is None:
            return before
        try:
            await write_cluster_record(hub, name, record, stored)
        except StaleWrite:
            if remaining == 1:
                raise
        else:
            return before
    raise AssertionError("unreachable")


def record_configmap(key: ObjectKey, record: str) -> Object:
    """Return a record of a hub with nothing in it yet."""
    metadata = {"name": key.name, "namespace": key.namespace, "labels": {well_known.RECORD: record}}
    return {"apiVersion": "v1", "kind": key.kind, "metadata": metadata}


def _name_of(live: Object) -> ClusterName | None:
    """Return None of a record that no cluster can have."""
    text = str(live["metadata"]["name"]).removeprefix(_PREFIX).replace(".", "#", 1)
    try:
        return parse_cluster_name(text)
    except ValueError:
        return None


def _sort_key(named: tuple[ClusterName | None, Object]) -> str:
    return named[0] or ""


def _parse(live: Object) -> ClusterRecord:
    """Read a record; what cannot be read of it counts as missing, since the hub writes it again."""
    data = live.get("data") or {}
    return ClusterRecord(
        uid=str(data.get("uid", "")),
        state=str(data.get("state", "")),
        since=parse_timestamp(data.get("since")),
        message=str(data.get("message", "")),
        declared=load_mapping(data.get("declared", "")),
        sources=dict(_parse_summaries(load_mapping(data.get("sources", "")))),
        forgotten=str(data.get("forgotten", "")),
    )


def _summary_row(summary: SourceSummary) -> dict[str, Any]:
    return {
        "commit": summary.commit,
        "state": summary.state,
        "instances": summary.instances,
        "failed": summary.failed,
        "waitsFor": summary.waits_for,
        "until": timestamp(summary.until) if summary.until else "",
    }


def _parse_summaries(rows: Mapping[str, Any]) -> Iterator[tuple[str, SourceSummary]]:
    for name, row in rows.items():
        match row:
            case {"commit": str(commit), "state": str(state), "instances": int(instances), "failed": int(failed)}:
                waits_for, until = str(row.get("waitsFor", "")), parse_timestamp(row.get("until"))
                yield name, SourceSummary(commit, state, instances, failed, waits_for, until)
