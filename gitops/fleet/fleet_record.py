"""Records of sources on the hub, one ConfigMap `fleet-SOURCE` each.

A record contains the clusters and placements in force, and the revision numbers of the source's definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from applier.cluster import Cluster, Object, Reader
from gitops.fleet.cluster_record import write_hub_record
from gitops.fleet.revision_numbers import RevisionNumbers, parse_numbers
from gitops.records.stored_json import dump_json, load_mapping
from gitops.rollouts.source_rules import StoredRules
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

FLEET_RECORD: Final = "fleet"
"""Value of the label `internal.levelgate.dev/record`."""

_PREFIX: Final = "fleet-"


@dataclass(frozen=True, slots=True)
class FleetRecord:
    """Record of one source."""

    accepted: StoredRules
    """Clusters and placements of the source that are in force."""
    numbers: RevisionNumbers | None
    """Revision numbers of the source, or None if no revision has a recorded number."""

    def data(self) -> dict[str, str]:
        """Return the `data` of the record's ConfigMap. Equal records have equal `data`."""
        numbers = {} if self.numbers is None else {"revisions": dump_json(self.numbers.as_json())}
        return {"accepted": dump_json(self.accepted), **numbers}


NEW_FLEET_RECORD: Final = FleetRecord({}, None)
"""Record of a source without recorded data."""


@dataclass(frozen=True, slots=True)
class StoredFleetRecord:
    """Record with its live ConfigMap. The next write replaces exactly this version of the ConfigMap."""

    record: FleetRecord
    live: Object


def fleet_record_key(source: str) -> ObjectKey:
    """Return the key of the ConfigMap `fleet-SOURCE` for a source."""
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{_PREFIX}{source}")


async def read_fleet_records(hub: Reader) -> dict[str, StoredFleetRecord]:
    """Return the records of all sources, by source.

    Raises: ClusterError if the hub does not return the records.
    """
    selector = f"{well_known.RECORD}={FLEET_RECORD}"
    found = await hub.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=selector)
    return {live["metadata"]["name"].removeprefix(_PREFIX): _parse(live) for live in found}


async def read_accepted(hub: Reader) -> dict[str, StoredRules]:
    """Return the clusters and placements in force, by source.

    Raises: ClusterError if the hub does not return the records.
    """
    return {source: stored.record.accepted for source, stored in (await read_fleet_records(hub)).items()}


async def read_numbers(hub: Reader) -> dict[str, RevisionNumbers]:
    """Return the recorded numbers of revisions, by source.

    Raises: ClusterError if the hub does not return the records.
    """
    return recorded_numbers(await read_fleet_records(hub))


def recorded_numbers(records: Mapping[str, StoredFleetRecord]) -> dict[str, RevisionNumbers]:
    """Return the revision numbers in the records, by source. Omit a source without numbers."""
    found = {source: stored.record.numbers for source, stored in records.items()}
    return {source: numbers for source, numbers in found.items() if numbers is not None}


async def write_fleet_record(
    hub: Cluster, source: str, record: FleetRecord, before: StoredFleetRecord | None
) -> StoredFleetRecord:
    """Replace the record `before`. If `before` is None, create the record.

    Raises: StaleWrite if another process has changed the record, ClusterError if the hub rejects the write.
    """
    live = before.live if before else None
    return _parse(await write_hub_record(hub, fleet_record_key(source), FLEET_RECORD, record.data(), live))


def _parse(live: Object) -> StoredFleetRecord:
    data = live.get("data") or {}
    numbers = parse_numbers(load_mapping(data["revisions"])) if "revisions" in data else None
    return StoredFleetRecord(FleetRecord(load_mapping(data.get("accepted", "")), numbers), live)
