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


def recorded(name: str, found: ReconcileResult) -> RecordedCluster:
    """What the pass did not read is absent."""
    return RecordedCluster(
        ClusterName(name), {**found.observed.objects, **dict(_concluded(found))}, found.observed.discovery
    )


def _concluded(found: ReconcileResult) -> Iterator[tuple[ObjectKey, Object]]:
    """What the pass wrote at its end. Where everything is suspended nothing was written: all stays as it was observed."""
    if found.propagation.stopped or found.now is None:
        return
    for rendered, parent, status in statuses(found.plan, found.sources, found.propagation, found.now):
        yield rendered.parent, {**parent, "status": status}
    for source in found.sources:
        key = source_parent(source.catalog.source)
        if (record := found.observed.objects.get(key)) is not None:
            said = source_record(source, found.ledger, SourceRecord.read(record), now=timestamp(found.now))
            yield key, {**record, "data": said.data()}
    for name, state in found.propagation.states.items():
        yield _config_map(rollout_key(name), ROLLOUT, state.data())
    yield _config_map(window_calendar.KEY, window_calendar.KEY.name, window_calendar.published(found.propagation.rules))


def _config_map(key: ObjectKey, record: str, data: dict[str, str]) -> tuple[ObjectKey, Object]:
    metadata = {"name": key.name, "namespace": OWN_NAMESPACE, "labels": {well_known.RECORD: record}}
    return key, {"apiVersion": "v1", "kind": key.kind, "metadata": metadata, "data": data}
