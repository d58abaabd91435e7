"""What a pass knows, from its first look at the cluster to its end, and what one pass leaves for the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime

from applier.cluster import Object
from applier.errors import ClusterError
from applier.execute.results import Result
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import Observed
from gitops.clock import Clock
from gitops.decisions.decision import Decision
from gitops.decisions.inputs import DecisionRules
from gitops.reconcile.earlier_objects import EarlierObjects
from gitops.reconcile.set_summaries import SetSummaries, SetSummary
from gitops.reconcile.sources import SourceState
from gitops.records.installation import INSTALLATION
from gitops.records.left_behind import LeftBehind
from gitops.records.revisions import RevisionArchive
from gitops.records.rollout_records import Rollouts
from gitops.records.source_record import SourceRecord
from gitops.rollouts.source_rules import SourceRules, StoredRules, resolve_rules
from gitops.windows.verdict import TrustedTime, make_trusted_time
from renderer.catalog.catalog import Catalog
from renderer.definition.kind_schemas import KindSchemas
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent
from renderer.render.model import Rendering

Moved = Mapping[ObjectKey, tuple[SetSummary | None, SetSummary]]
"""The accounts of sets, before and after something has happened."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What a pass found, decided and did. `changed` counts writes of content, parents and status.

    `bundle` and `plan` are what it looked at; `observed`, `propagation` and the `ledger` are of everything, also after a pass over a part, and follow
    the parts that come later. Of such a pass `touched` are the sets that it looked at, and `moved` their accounts before and after; `latest` gives
    everything as it is known since. `sources` are those that it was given, `now` is the time that it went by; a preview has neither. `holds_pruning`
    where it deleted nothing of some source, as in the pass that finds the members of a lost record again. `miscounted` are rollouts that
    the graph counted wrongly, which is a fault of this program. `left_behind` are members without their label that Git no longer wants, by
    source; a pass over a part does not look for any.
    """

    bundle: Rendering
    plan: Plan
    observed: Observed
    results: tuple[Result, ...]
    propagation: Decision = field(default_factory=Decision)
    status_errors: tuple[ClusterError, ...] = ()
    ledger: SetSummaries = field(default_factory=SetSummaries)
    touched: tuple[ApplySetPlan, ...] | None = None
    moved: Moved = field(default_factory=dict)
    latest: Callable[[], ReconcileResult] | None = None
    sources: tuple[SourceState, ...] = ()
    now: datetime | None = None
    holds_pruning: bool = False
    miscounted: tuple[str, ...] = ()
    left_behind: Mapping[str, LeftBehind] = field(default_factory=dict)

    @property
    def sets(self) -> tuple[ApplySetPlan, ...]:
        """What it looked at itself."""
        return self.plan.sets if self.touched is None else self.touched

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with what Git says."""
        return (*self.bundle.problems, *self.propagation.problems)

    @property
    def changed(self) -> int:
        return sum(1 for result in self.results if result.error is None)

    @property
    def is_conclusive(self) -> bool:
        """Would another pass find what this one knows? It wrote nothing, or it is complete and what it wrote at its end are the records of sources
        and of the installation, on which nothing else rests.
        """
        told = {INSTALLATION, *(source_parent(state.catalog.source) for state in self.sources)}
        is_told = all(one.key in told for one in self.results if one.is_report)
        return not self.changed or (self.is_complete and is_told)

    @property
    def is_complete(self) -> bool:
        """It went on until nothing more was allowed, by what the server answered, and nothing failed or was kept from deletion."""
        return self.plan.is_idle and not self.holds_pruning and not any(result.error for result in self.results)


@dataclass(frozen=True, slots=True)
class Context:
    """What a pass knows so far. `calendar` is the ConfigMap `windows` as it is, `records` what our own records say beyond what is live, `settled`
    are sources whose own objects were brought to this commit before: what differs since is drift. Instances in `gated` wait at a gate and are
    rendered at their applied pair as well. `foretold` are objects that others refer to, as this commit makes them, where all is decided to the end.
    A preview, which reads one source alone, knows its `neighbours` by their records, by name, and `elsewhere`, as catalogs, what the cluster has of
    those that matter to it (`gitops.reconcile.foreign_sources`). `earlier` are the plain objects of sources, as they were applied last, where
    something of them is held.
    """

    observed: Observed
    archive: RevisionArchive
    rollouts: Rollouts
    calendar: Object | None
    conditions: DecisionRules
    propagation: Decision
    records: PlanConstraints
    settled: frozenset[str] = frozenset()
    gated: frozenset[ObjectKey] = frozenset()
    foretold: Mapping[ObjectKey, Object] = field(default_factory=dict)
    neighbours: Mapping[str, SourceRecord] = field(default_factory=dict)
    elsewhere: tuple[Catalog, ...] = ()
    earlier: EarlierObjects = field(default_factory=dict)

    def with_rollouts(self, rollouts: Rollouts) -> Context:
        """With these records of rollouts, and what people ask there."""
        states = rollouts.states(self.now)
        conditions = replace(self.conditions, states=states, requests=rollouts.requests)
        return replace(self, rollouts=rollouts, conditions=conditions)

    @property
    def now(self) -> datetime:
        return self.conditions.reading.now


@dataclass(slots=True)
class ReconcileCache:
    """What one pass leaves for the next: contents of records, which never change, the time, which never goes back, how the cluster's CRDs describe
    their kinds, the rules of each source with what they were read from, and objects: what has not changed since is told by its identity.
    """

    archive: RevisionArchive = field(default_factory=RevisionArchive)
    objects: Mapping[ObjectKey, Object] = field(default_factory=dict)
    types: KindSchemas = field(default_factory=KindSchemas)
    reading: TrustedTime | None = None
    rules: dict[str, tuple[Catalog, StoredRules, SourceRules]] = field(default_factory=dict)

    def read(self, clock: Clock, server_time: datetime | None) -> TrustedTime:
        """The time by which to judge now."""
        self.reading = make_trusted_time(clock.now(), self.reading and self.reading.now, server_time)
        return self.reading

    def rules_of(self, catalog: Catalog, stored: StoredRules) -> SourceRules:
        """Those in force. To read a window costs more than to judge by it, so that is done once for each commit."""
        known = self.rules.get(catalog.source)
        if known is None or known[0] is not catalog or known[1] != stored:
            known = self.rules[catalog.source] = catalog, stored, resolve_rules(catalog, stored)
        return known[2]
