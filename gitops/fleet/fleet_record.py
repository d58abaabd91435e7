"""The hub's record of each source, ConfigMap `fleet-SOURCE`: which clusters and placements are in force, and the numbers of its revisions."""

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
    """What the hub keeps of a source. `accepted` are the clusters and placements in force, `numbers` None where none was ever recorded."""

    accepted: StoredRules
    numbers: RevisionNumbers | None

    def data(self) -> dict[str, str]:
        """As stored; equal records give equal text."""
        numbers = {} if self.numbers is None else {"revisions": dump_json(self.numbers.as_json())}
        return {"accepted": dump_json(self.accepted), **numbers}


NEW_FLEET_RECORD: Final = FleetRecord({}, None)


@dataclass(frozen=True, slots=True)
class StoredFleetRecord:
    """A record as the hub has it; `live` is the ConfigMap, over whose version the next one is written."""

    record: FleetRecord
    live: Object


def fleet_record_key(source: str) -> ObjectKey:
    """ConfigMap `fleet-SOURCE`."""
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{_PREFIX}{source}")


async def read_fleet_records(hub: Reader) -> dict[str, StoredFleetRecord]:
    """Return all of them, by source. Raises ClusterError."""
    selector = f"{well_known.RECORD}={FLEET_RECORD}"
    found = await hub.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=selector)
    return {live["metadata"]["name"].removeprefix(_PREFIX): _parse(live) for live in found}


async def read_accepted(hub: Reader) -> dict[str, StoredRules]:
    """Return the clusters and placements in force, by source. Raises ClusterError."""
    return {source: stored.record.accepted for source, stored in (await read_fleet_records(hub)).items()}


async def read_numbers(hub: Reader) -> dict[str, RevisionNumbers]:
    """Return the numbers of revisions that are on record, by source. Raises ClusterError."""
    return recorded_numbers(await read_fleet_records(hub))


def recorded_numbers(records: Mapping[str, StoredFleetRecord]) -> dict[str, RevisionNumbers]:
    """Return the numbers in these records, by source."""
    found = {source: stored.record.numbers for source, stored in records.items()}
    return {source: numbers for source, numbers in found.items() if numbers is not None}


async def write_fleet_record(
    hub: Cluster, source: str, record: FleetRecord, before: StoredFleetRecord | None
) -> StoredFleetRecord:
    """Write it over the version that was read, None where there was none. Raises StaleWrite, ClusterError."""
    live = before.live if before else None
    return _parse(await write_hub_record(hub, fleet_record_key(source), FLEET_RECORD, record.data(), live))


def _parse(live: Object) -> StoredFleetRecord:
    data = live.get("data") or {}
    numbers = parse_numbers(load_mapping(data["revisions"])) if "revisions" in data else None
    return StoredFleetRecord(FleetRecord(load_mapping(data.get("accepted", "")), numbers), live)
