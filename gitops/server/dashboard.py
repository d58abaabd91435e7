"""The last reconciliation as one value, the only source of metrics and pages.

The value contains the records and the sentences of `levelgate status`, `windows` and `explain`. The first request by a
person or by Prometheus after a reconciliation creates the value. All reads of the cluster come from memory, so that
viewers cause no request to the API server. The reconciliation does not read the records that it writes at its end, so
this module computes these records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property

from applier.cluster import ClusterName, Object
from applier.plan.model import ApplySetPlan
from applier.recorded_cluster import RecordedCluster
from gitops.explain.explainer import explain
from gitops.explain.explanation import CauseChain
from gitops.explain.overview import Overview
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.statuses import source_record, statuses
from gitops.records import window_calendar
from gitops.records.instance_state import InstanceState
from gitops.records.references import Ref
from gitops.records.rollout_records import ROLLOUT, encode_rollout, rollout_key
from gitops.records.source_record import SourceRecord
from gitops.records.window_calendar import calendar_data, parse_rules
from gitops.rollouts.source_rules import SourceRules
from gitops.timestamps import timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, ObjectKey, source_parent


def reconstruct_cluster(name: ClusterName, result: ReconcileResult) -> RecordedCluster:
    """Return the state of the cluster `name` after the reconciliation.

    The result contains only objects that the reconciliation has read or written.
    """
    return RecordedCluster(
        name, {**result.observed.objects, **dict(_written_objects(result))}, result.observed.discovery
    )


def _written_objects(result: ReconcileResult) -> Iterator[tuple[ObjectKey, Object]]:
    """Yield the records that the reconciliation writes at its end. During a suspension of everything, yield nothing."""
    if result.propagation.stopped or result.now is None:
        return
    for rendered, parent, status in statuses(result.plan, result.sources, result.propagation, result.now):
        yield rendered.parent, {**parent, "status": status}
    for source in result.sources:
        key = source_parent(source.catalog.source)
        if (record := result.observed.objects.get(key)) is not None:
            before = SourceRecord.from_object(record)
            new_record = source_record(
                source, result.ledger, before, result.propagation, before.left_behind, now=timestamp(result.now)
            )
            yield key, {**record, "data": new_record.data()}
    for name, state in result.propagation.states.items():
        yield _config_map(rollout_key(name), ROLLOUT, encode_rollout(state))
    yield _config_map(
        window_calendar.CONFIGMAP_KEY,
        window_calendar.CONFIGMAP_KEY.name,
        window_calendar.calendar_data(result.propagation.rules),
    )


def _config_map(key: ObjectKey, record: str, data: dict[str, str]) -> tuple[ObjectKey, Object]:
    metadata = {"name": key.name, "namespace": OWN_NAMESPACE, "labels": {well_known.RECORD: record}}
    return key, {"apiVersion": "v1", "kind": key.kind, "metadata": metadata, "data": data}


@dataclass(frozen=True)
class Dashboard:
    """State of a cluster after a reconciliation, for pages and metrics."""

    found: ReconcileResult
    """Result of the reconciliation."""
    at: datetime
    overview: Overview
    plans: Mapping[ObjectKey, ApplySetPlan]
    """Plan of each existing instance."""
    _cluster: RecordedCluster

    @classmethod
    async def from_result(cls, result: ReconcileResult, *, cluster: ClusterName, at: datetime) -> Dashboard:
        """Return the dashboard of the reconciliation with the result `result`.

        Args:
            at: end of the reconciliation.
        """
        recorded_cluster = reconstruct_cluster(cluster, result)
        plans = {
            set_plan.rendered.parent: set_plan
            for set_plan in result.plan.sets
            if set_plan.parent and not set_plan.rendered.is_source
        }
        return cls(result, at, await Overview.from_cluster(recorded_cluster, now=at), plans, recorded_cluster)

    @property
    def cluster(self) -> ClusterName:
        return self._cluster.name

    @cached_property
    def instance_states(self) -> Mapping[ObjectKey, InstanceState]:
        return {instance_state.key: instance_state for instance_state in self.overview.instances}

    @cached_property
    def rules(self) -> tuple[SourceRules, ...]:
        """Return the windows and policies in force, by source."""
        return tuple(parse_rules(calendar_data(self.found.propagation.rules)))

    async def explain(self, key: ObjectKey, now: datetime) -> CauseChain:
        """Return the causes of the differences between an instance and Git, as `levelgate explain` does."""
        kind = f"{key.kind}.{key.group}" if key.group else key.kind
        return await explain(self._cluster, Ref(kind.lower(), key.name), key.namespace, now=now)

    @property
    def by_definition(self) -> Iterator[tuple[str, str, InstanceState]]:
        """Yield each instance with its source and the name of its definition."""
        for key, instance_state in self.instance_states.items():
            if plan := self.plans.get(key):
                yield plan.rendered.source, plan.rendered.definition, instance_state
