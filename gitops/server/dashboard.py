"""What can be seen of the last pass, as one value: metrics and pages are made from it and from nothing else.

The same records and words as `levelgate status`, `windows` and `explain` have; made once for each pass, and only where somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property

from applier.plan.model import ApplySetPlan
from applier.recorded_cluster import RecordedCluster
from gitops.explain.explainer import explain
from gitops.explain.explanation import CauseChain
from gitops.explain.overview import Overview
from gitops.reconcile.context import ReconcileResult
from gitops.records.instance_state import InstanceState
from gitops.records.references import Ref
from gitops.records.window_calendar import published as published_rules
from gitops.records.window_calendar import rules_in
from gitops.rollouts.source_rules import SourceRules
from gitops.server.recorded import recorded
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(frozen=True)
class Dashboard:
    """`plans` are the sets of instances that exist, by instance. `rules` have the windows in force, by source."""

    found: ReconcileResult
    at: datetime
    overview: Overview
    plans: Mapping[ObjectKey, ApplySetPlan]
    _cluster: RecordedCluster

    @classmethod
    async def of(cls, found: ReconcileResult, *, cluster: str, at: datetime) -> Dashboard:
        record = recorded(cluster, found)
        plans = {one.rendered.parent: one for one in found.plan.sets if one.parent and not one.rendered.is_source}
        return cls(found, at, await Overview.read(record, now=at), plans, record)

    @property
    def cluster(self) -> str:
        return self._cluster.name

    @cached_property
    def standings(self) -> Mapping[ObjectKey, InstanceState]:
        return {one.key: one for one in self.overview.instances}

    @cached_property
    def rules(self) -> tuple[SourceRules, ...]:
        return tuple(rules_in(published_rules(self.found.propagation.rules)))

    async def explain(self, key: ObjectKey, now: datetime) -> CauseChain:
        """Why an instance is not as Git says, in the words of `levelgate explain`."""
        kind = f"{key.kind}.{key.group}" if key.group else key.kind
        return await explain(self._cluster, Ref(kind.lower(), key.name), key.namespace, now=now)

    @property
    def by_definition(self) -> Iterator[tuple[str, str, InstanceState]]:
        """Each instance with its source and the name of its definition."""
        for key, standing in self.standings.items():
            if plan := self.plans.get(key):
                yield plan.rendered.source, plan.rendered.definition, standing
