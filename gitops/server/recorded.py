"""The cluster as a pass left it, from memory: the commands that ask a cluster are asked here, so that the page says what they say.

Nothing is asked of the real one, however many people look. What the pass wrote at its end (statuses, records, the calendar) is computed again, as
it would be written.
"""

from __future__ import annotations

from collections.abc import Iterator

from applier.cluster import ClusterName, Object
from applier.recorded_cluster import RecordedCluster
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.statuses import source_record, statuses
from gitops.records import window_calendar
from gitops.records.cause_rows import timestamp
from gitops.records.rollout_records import ROLLOUT, rollout_key
from gitops.records.source_record import SourceRecord
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, ObjectKey, source_parent


def reconstruct_cluster(name: str, result: ReconcileResult) -> RecordedCluster:
    """What the pass did not read is absent."""
    return RecordedCluster(
        ClusterName(name), {**result.observed.objects, **dict(_written_objects(result))}, result.observed.discovery
    )


def _written_objects(result: ReconcileResult) -> Iterator[tuple[ObjectKey, Object]]:
    """What the pass wrote at its end. Where everything is suspended nothing was written: all stays as it was observed."""
    if result.propagation.stopped or result.now is None:
        return
    for rendered, parent, status in statuses(result.plan, result.sources, result.propagation, result.now):
        yield rendered.parent, {**parent, "status": status}
    for source in result.sources:
        key = source_parent(source.catalog.source)
        if (record := result.observed.objects.get(key)) is not None:
            new_record = source_record(
                source, result.ledger, SourceRecord.from_object(record), now=timestamp(result.now)
            )
            yield key, {**record, "data": new_record.data()}
    for name, state in result.propagation.states.items():
        yield _config_map(rollout_key(name), ROLLOUT, state.data())
    yield _config_map(
        window_calendar.CONFIGMAP_KEY,
        window_calendar.CONFIGMAP_KEY.name,
        window_calendar.calendar_data(result.propagation.rules),
    )


def _config_map(key: ObjectKey, record: str, data: dict[str, str]) -> tuple[ObjectKey, Object]:
    metadata = {"name": key.name, "namespace": OWN_NAMESPACE, "labels": {well_known.RECORD: record}}
    return key, {"apiVersion": "v1", "kind": key.kind, "metadata": metadata, "data": data}
