"""Our own namespace, and the ConfigMap `levelgate` in it: which version looks after this cluster, by which name windows select it, which sources are
followed, which hub drives it from afar, and whether a person has stopped it altogether.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from applier.applyset.inventory import TOOL
from applier.cluster import PARENT_MANAGER, Cluster, Object
from gitops.errors import NewerRecords
from gitops.records.source_record import SourceRecord, read_records_without_commit
from gitops.text import title
from gitops.windows.window import LOCAL
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, ObjectKey

INSTALLATION: Final = ObjectKey("", "ConfigMap", OWN_NAMESPACE, "levelgate")

HUB_FIELD: Final = "hub"
"""Field of its data with the id of the hub that this cluster belongs to. It has a manager of its own (`gitops.fleet.identity`)."""

CLUSTER_RECORD: Final = "cluster"
"""Value of the label `internal.levelgate.dev/record` of a hub's record of each of its clusters (`gitops.fleet.cluster_record`)."""

FORMAT: Final = "1"
"""Number of the form in which records are kept."""


def installation_body(
    version: str, cluster_name: str, source_names: Collection[str] | None, live: Object | None
) -> Object:
    """As it is to be; what people annotate stays theirs. Who `follows` no sources for good (None) leaves what was said of them `before`."""
    recorded_names = configured_sources(live) if source_names is None else source_names
    source_data = {} if recorded_names is None else {"sources": " ".join(sorted(recorded_names))}
    return {
        "apiVersion": "v1",
        "kind": INSTALLATION.kind,
        "metadata": {
            "name": INSTALLATION.name,
            "namespace": INSTALLATION.namespace,
            "labels": {well_known.RECORD: "installation"},
        },
        "data": {"version": version, "format": FORMAT, "cluster": cluster_name, **source_data},
    }


def configured_sources(installed: Object | None) -> frozenset[str] | None:
    """The names of the sources that the daemon is configured with; None where no daemon has said so."""
    names_text = ((installed or {}).get("data") or {}).get("sources")
    return None if names_text is None else frozenset(names_text.split())


def is_recorded(body: Object, live: Object | None) -> bool:
    """Does the cluster have what `installation_body` says? Which hub it belongs to is no part of that."""
    data: dict[str, str] = (live or {}).get("data") or {}
    return bool(body["data"] == {name: text for name, text in data.items() if name != HUB_FIELD})


def claiming_hub(installed: Object | None) -> str:
    """Return the id of the hub that drives this cluster; empty where none does."""
    return str(((installed or {}).get("data") or {}).get(HUB_FIELD, ""))


def cluster_name(installed: Object | None) -> str:
    """Return the name by which windows select this cluster, as whoever wrote here last was configured."""
    return str(((installed or {}).get("data") or {}).get("cluster", LOCAL))


async def find_sources_without_commit(
    cluster: Cluster, installed: Object | None, records: Sequence[tuple[str, SourceRecord]]
) -> list[tuple[str, SourceRecord]]:
    """Sources of which no commit was ever taken, by name, with what is told of them: those that the daemon follows, and those that somebody tried to
    read once. Raises ClusterError.
    """
    stored_records = await read_records_without_commit(cluster)
    names = {*(configured_sources(installed) or ()), *stored_records}.difference(name for name, _ in records)
    return [(name, stored_records.get(name, SourceRecord())) for name in sorted(names)]


def check_format(installed: Object | None) -> None:
    """May this version write to the cluster? Raises NewerRecords where a later one keeps records there that this one would misread."""
    data = (installed or {}).get("data") or {}
    recorded_format = str(data.get("format", FORMAT))
    if not recorded_format.isdigit() or int(recorded_format) > int(FORMAT):
        raise NewerRecords(
            f"{title(INSTALLATION)}: the records in this cluster are of format {recorded_format}, kept by "
            f"levelgate {data.get('version')}, and this version knows format {FORMAT}: nothing was written; use that version or a newer one"
        )


async def ensure_namespace(cluster: Cluster) -> bool:
    """Make the namespace of Levelgate's own records exist. Return whether it was created. Raises ClusterError."""
    key = ObjectKey("", "Namespace", "", OWN_NAMESPACE)
    if await cluster.get(key, metadata_only=True) is not None:
        return False
    metadata = {"name": key.name, "labels": {well_known.MANAGED_BY: TOOL}}
    await cluster.apply({"apiVersion": "v1", "kind": key.kind, "metadata": metadata}, manager=PARENT_MANAGER)
    return True
