"""Records of clusters on the hub, one ConfigMap `cluster-NAME` each.

A record contains the identity of a cluster, the declaration in Git, the state, and a summary of each source in the
cluster. After a commit removes the declaration, the record remains. So the hub can finish the removal after a restart.
Each write replaces exactly the version that the process has read. If another process has written in between, the write
fails with StaleWrite.
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
"""Field manager of the hub's records, both on the hub and in every cluster of the fleet."""

_PREFIX: Final = "cluster-"
MAX_WRITE_TRIES: Final = 5
"""Number of attempts to write a record. If all attempts conflict with another writer, the conflict is an error."""

_CURRENT_STATES: Final = frozenset({ReachState.ENGAGED, ReachState.DEGRADED})
"""States in which the cluster answers."""


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """State of one source in one cluster after the last reconciliation in that cluster."""

    commit: str
    """Commit that the cluster has reached or is moving to."""
    state: str
    """Worst `DisplayState` of the source's sets."""
    instances: int
    failed: int
    waits_for: str
    """Worst cause, as `Reason: message`, or an empty string if nothing waits."""
    until: datetime | None
    """Earliest end of a hold in UTC, or None if no hold has an end."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """Record of one cluster."""

    uid: str
    """UID of the cluster's namespace `kube-system`."""
    state: str
    """Value of `ReachState`, or an empty string before the first connection."""
    since: datetime | None
    """Start of the state in UTC."""
    message: str
    """Reason for any state except Engaged."""
    declared: Mapping[str, Any] = field(default_factory=dict)
    """Last `Cluster` object in Git, as `{file, line, manifest}`."""
    sources: Mapping[str, SourceSummary] = field(default_factory=dict)
    forgotten: str = ""
    """`PERSON: REASON` if a person has given up the removal of the cluster, or an empty string."""

    @property
    def is_current(self) -> bool:
        """Return whether the cluster answers, so that the recorded summaries of its sources are up to date."""
        return self.state in _CURRENT_STATES

    @property
    def spec(self) -> ClusterSpec | None:
        """Return the last declaration of the cluster in Git, or None if no valid declaration is recorded."""
        return next(clusters_in(stored_documents({"rules": [self.declared]} if self.declared else {})), None)

    def data(self) -> dict[str, str]:
        """Return the `data` of the record's ConfigMap. Equal records have equal `data`."""
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
"""Record of a cluster before the first connection."""


@dataclass(frozen=True, slots=True)
class StoredClusterRecord:
    """Record with its live ConfigMap. The next write replaces exactly this version of the ConfigMap."""

    record: ClusterRecord
    live: Object


def declared_document(spec: ClusterSpec) -> Mapping[str, Any]:
    """Return the value of the field `declared` in the record of the cluster `spec`."""
    return {"file": spec.origin.file, "line": spec.origin.line, "manifest": spec.manifest}


def cluster_record_key(name: ClusterName) -> ObjectKey:
    """Return the key of the ConfigMap for a cluster's record, such as `cluster-eu-1` for the cluster `eu-1`.

    The name of an object cannot contain `#`, so the ConfigMap of `provider#eu-1` is `cluster-provider.eu-1`.
    """
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{_PREFIX}{name.replace('#', '.')}")


async def read_cluster_records(hub: Reader) -> dict[ClusterName, StoredClusterRecord]:
    """Return the records of all clusters, by name.

    Raises: ClusterError if the hub does not return the records.
    """
    selector = f"{well_known.RECORD}={CLUSTER_RECORD}"
    found = await hub.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=selector)
    named = ((_name_of(live), live) for live in found)
    return {name: StoredClusterRecord(_parse(live), live) for name, live in sorted(named, key=_sort_key) if name}


async def read_cluster_record(hub: Reader, name: ClusterName) -> StoredClusterRecord | None:
    """Return the record of one cluster, or None if the cluster has no record.

    Raises: ClusterError if the hub does not return the record.
    """
    live = await hub.get(cluster_record_key(name))
    return None if live is None else StoredClusterRecord(_parse(live), live)


async def write_cluster_record(
    hub: Cluster, name: ClusterName, record: ClusterRecord, before: StoredClusterRecord | None
) -> StoredClusterRecord:
    """Replace the record `before`. If `before` is None, create the record.

    Raises: StaleWrite if another process has changed the record, ClusterError if the hub rejects the write.
    """
    live = before.live if before else None
    written = await write_hub_record(hub, cluster_record_key(name), CLUSTER_RECORD, record.data(), live)
    return StoredClusterRecord(_parse(written), written)


async def write_hub_record(
    hub: Cluster, key: ObjectKey, kind: str, data: Mapping[str, str], before: Object | None
) -> Object:
    """Set `data` in a record's ConfigMap with the version `before`. If `before` is None, create the ConfigMap.

    Keys of the ConfigMap that `data` does not contain remain.

    Args:
        kind: value of the label `internal.levelgate.dev/record`.

    Raises: StaleWrite if another process has written or deleted the record, ClusterError if the hub rejects the write.
    """
    if before is None:
        await ensure_namespace(hub)
        before = await hub.apply(record_configmap(key, kind), manager=HUB_MANAGER)
        if before.get("data"):
            raise StaleWrite(f"{key}: another process has changed the record; read the record again")
    patch = {"metadata": {"resourceVersion": before["metadata"]["resourceVersion"]}, "data": dict(data)}
    written = await hub.merge(key, patch, manager=HUB_MANAGER)
    if written is None:
        raise StaleWrite(f"{key}: another process has deleted the record; read the record again")
    return written


async def change_cluster_record(
    hub: Cluster, name: ClusterName, change: Callable[[ClusterRecord | None], ClusterRecord | None]
) -> ClusterRecord | None:
    """Read a record, write the record that `change` returns, and return the previous record.

    After a conflict with another writer, call `change` again with the newer record.

    Args:
        change: function that receives the record, or None if the record is missing. If the function returns None, the
            record stays unchanged.

    Raises: ClusterError if the hub rejects a read or write.
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
    """Return the ConfigMap of a record, without data.

    Args:
        record: kind of the record, the value of the label `internal.levelgate.dev/record`.
    """
    metadata = {"name": key.name, "namespace": key.namespace, "labels": {well_known.RECORD: record}}
    return {"apiVersion": "v1", "kind": key.kind, "metadata": metadata}


def _name_of(live: Object) -> ClusterName | None:
    """Return the name of the cluster that a record is about, or None if the name is not valid for a cluster."""
    text = str(live["metadata"]["name"]).removeprefix(_PREFIX).replace(".", "#", 1)
    try:
        return parse_cluster_name(text)
    except ValueError:
        return None


def _sort_key(named: tuple[ClusterName | None, Object]) -> str:
    return named[0] or ""


def _parse(live: Object) -> ClusterRecord:
    """Parse a record. An unreadable field counts as missing, because the hub writes the field again."""
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
