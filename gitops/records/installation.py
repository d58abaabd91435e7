"""Record of the installation: the namespace `levelgate-system` and its ConfigMap `levelgate`.

The record holds the version of Levelgate, the name by which windows select the cluster, the configured sources, and the
hub that reconciles the cluster. A person suspends everything by an annotation on the ConfigMap.
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
"""Data field with the id of the hub that reconciles this cluster.

The field has a field manager of its own (`gitops.fleet.identity`).
"""

CLUSTER_RECORD: Final = "cluster"
"""Value of the label `internal.levelgate.dev/record` on a hub's record of a cluster (`gitops.fleet.cluster_record`)."""

FORMAT: Final = "1"
"""Version of the format of all records."""


def installation_body(
    version: str, cluster_name: str, source_names: Collection[str] | None, live: Object | None
) -> Object:
    """Return the manifest of the record. The manifest has no annotations, because these belong to people.

    Args:
        version: version of Levelgate that writes the record.
        cluster_name: name by which windows select the cluster.
        source_names: configured sources, or None to keep the sources in `live`. A process that runs only once passes
            None, because it does not replace the sources of the daemon.
        live: record in the cluster.
    """
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
    """Return the names of the sources in the daemon's configuration, or None if no daemon has recorded its sources."""
    names_text = ((installed or {}).get("data") or {}).get("sources")
    return None if names_text is None else frozenset(names_text.split())


def is_recorded(body: Object, live: Object | None) -> bool:
    """Return whether `live` has the data of `body`, apart from the field `HUB_FIELD`."""
    data: dict[str, str] = (live or {}).get("data") or {}
    return bool(body["data"] == {name: text for name, text in data.items() if name != HUB_FIELD})


def claiming_hub(installed: Object | None) -> str:
    """Return the id of the hub that reconciles this cluster, or an empty string if no hub does."""
    return str(((installed or {}).get("data") or {}).get(HUB_FIELD, ""))


def cluster_name(installed: Object | None) -> str:
    """Return the name by which windows select the cluster, from the record `installed`.

    The last process that wrote the record took the name from its configuration. If the record has no name, the name is
    `LOCAL`.
    """
    return str(((installed or {}).get("data") or {}).get("cluster", LOCAL))


async def find_sources_without_commit(
    cluster: Cluster, installed: Object | None, records: Sequence[tuple[str, SourceRecord]]
) -> list[tuple[str, SourceRecord]]:
    """Return the name and the record of each source without an accepted commit, ordered by name.

    The result contains the configured sources in `installed` and the sources with a recorded error, except the sources
    in `records`.

    Raises: ClusterError.
    """
    stored_records = await read_records_without_commit(cluster)
    names = {*(configured_sources(installed) or ()), *stored_records}.difference(name for name, _ in records)
    return [(name, stored_records.get(name, SourceRecord())) for name in sorted(names)]


def check_format(installed: Object | None) -> None:
    """Check that the running version of Levelgate can read the records of the cluster.

    Raises: NewerRecords if the format of the records is newer than `FORMAT`.
    """
    data = (installed or {}).get("data") or {}
    recorded_format = str(data.get("format", FORMAT))
    if not recorded_format.isdigit() or int(recorded_format) > int(FORMAT):
        raise NewerRecords(
            f"{title(INSTALLATION)}: the records in this cluster have format {recorded_format} of "
            f"levelgate {data.get('version')}, but this version reads format {FORMAT}: nothing was written; "
            f"use levelgate {data.get('version')} or newer"
        )


async def ensure_namespace(cluster: Cluster) -> bool:
    """Create the missing namespace of the records, and return whether the namespace was missing.

    Raises: ClusterError.
    """
    key = ObjectKey("", "Namespace", "", OWN_NAMESPACE)
    if await cluster.get(key, metadata_only=True) is not None:
        return False
    metadata = {"name": key.name, "labels": {well_known.MANAGED_BY: TOOL}}
    await cluster.apply({"apiVersion": "v1", "kind": key.kind, "metadata": metadata}, manager=PARENT_MANAGER)
    return True
