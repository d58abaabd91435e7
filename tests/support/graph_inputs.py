"""Inputs of a graph from what a reconciliation knows, or from files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from applier.applyset.inventory import Scope
from applier.causes import Cause
from applier.cluster import Discovery
from applier.errors import ClusterError, Denied
from applier.plan.constraints import PlanConstraints
from applier.plan.deletion_brake import DEFAULT_BRAKE
from applier.plan.model import ChangePermissions
from applier.state.observed import Observed
from gitops.decisions import (
    declarations,
    definitions,
    instances,
    live,
    people,
    permissions,
    plan_inputs,
    planned,
    resources,
    rollout_items,
    rollout_records,
    rules,
)
from gitops.decisions.declarations import Declaration, Root
from gitops.decisions.inputs import DecisionInputs
from gitops.decisions.live import ListExtent
from gitops.decisions.plan_inputs import ForeignSets, PruneApproval, SourceSettings
from gitops.decisions.planned import RecordedScope
from gitops.decisions.rollout_members import rollout_instances
from gitops.queries import Query, QueryGraph
from gitops.queries.graph import Transaction
from gitops.reconcile.context import Context
from gitops.rollouts.requests import RolloutRequest
from gitops.rollouts.state import RolloutState
from renderer.catalog.catalog import Catalog, load
from renderer.catalog.file_content import DeclaredObject
from renderer.identity import GroupKind, ObjectKey
from renderer.label_selector import Selection
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.instances import FromGit, InstanceOwner, InstanceRendering
from renderer.render.revisions import StoredRevisions
from renderer.render.world import ClusterView


def load_texts(source: str, files: Mapping[str, str], previous: Catalog | None = None) -> Catalog:
    """Return the catalog of a source with these files."""
    texts = {name: text.encode() for name, text in files.items()}
    return load(texts, source=source, previous=previous or Catalog())


def new_graph() -> QueryGraph:
    return QueryGraph(datetime(2026, 1, 1, tzinfo=UTC), elapsed=lambda: 0.0)


def set_observed(transaction: Transaction, before: Observed, after: Observed) -> None:
    """Set what has changed from one observation to the next."""
    live.set_objects(transaction, (obj for key, obj in after.objects.items() if before.objects.get(key) is not obj))
    for key in (before.objects.keys() | before.absent) - after.objects.keys() - after.absent:
        transaction.drop(live.live.at(key))
        transaction.drop(live.is_absent.at(key))
    live.set_absent(transaction, after.absent)
    for kind in before.listed | after.listed:
        extent = ListExtent.WHOLE if kind in after.whole else ListExtent.MARKED
        transaction.set(live.listing.at(kind), extent if kind in after.listed else ListExtent.UNLISTED)
    transaction.set(live.discovery.at(), after.discovery)
    transaction.set(live.failures.at(), after.failures)
    transaction.set(live.unreadable.at(), after.unreadable)


@dataclass
class GraphFeed:
    """Graph that follows what a reconciliation knows, step by step."""

    graph: QueryGraph = field(default_factory=new_graph)
    observed: Observed = field(default_factory=lambda: Observed(Discovery({})))
    _kinds: set[GroupKind] = field(default_factory=set)
    declared: Mapping[Declaration, DeclaredObject] = field(default_factory=dict)
    _live: set[ObjectKey] = field(default_factory=set)
    _instances: set[ObjectKey] = field(default_factory=set)
    _selections: set[Selection] = field(default_factory=set)
    _parents: set[ObjectKey] = field(default_factory=set)
    _turns: set[ObjectKey] = field(default_factory=set)
    _rollouts: set[str] = field(default_factory=set)
    _progressing: set[ObjectKey] = field(default_factory=set)

    @contextmanager
    def following(self, catalogs: Sequence[Catalog], known: Context) -> Iterator[Transaction]:
        """Set what has changed since the last call. The caller may set further inputs in the same transaction."""
        stored = known.archive.stored_revisions
        with self.graph.transaction() as transaction:
            set_observed(transaction, self.observed, known.observed)
            self.set_catalogs(transaction, catalogs, stored)
            self.set_declarations(transaction, catalogs)
            self.set_instances(transaction, stored, known.propagation.places, known.gated)
            self.set_selections(transaction, known.observed.selected)
            yield transaction
        self.observed = known.observed

    def set_catalogs(self, transaction: Transaction, catalogs: Sequence[Catalog], stored: StoredRevisions) -> None:
        """Set the catalogs without their objects, and the stored revisions."""
        transaction.set(definitions.sources.at(), tuple(catalog.source for catalog in catalogs))
        for catalog in catalogs:
            transaction.set(definitions.catalog.at(catalog.source), definitions.without_objects(catalog))
        self._kinds.update(*(catalog.kinds_used for catalog in catalogs), stored.revisions, stored.refused)
        for kind in self._kinds:
            transaction.set(definitions.stored_revisions.at(kind), tuple(stored.revisions.get(kind, ())))
            transaction.set(definitions.store_error.at(kind), stored.refused.get(kind, ""))

    def set_instances(
        self,
        transaction: Transaction,
        stored: StoredRevisions,
        places: Mapping[ObjectKey, RevisionPlacement],
        gated: Collection[ObjectKey],
    ) -> None:
        """Set what rollouts and records tell about instances."""
        self._instances |= {*stored.applied, *places, *gated}
        for key in self._instances:
            transaction.set(resources.applied_snapshot.at(key), stored.applied.get(key))
            transaction.set(instances.placement.at(key), places.get(key, RevisionPlacement()))
            transaction.set(instances.is_gated.at(key), key in gated)

    def follow_files(self, catalogs: Sequence[Catalog], world: ClusterView) -> None:
        """Set catalogs, and the live objects and records of a cluster that was just listed whole."""
        with self.graph.transaction() as transaction:
            transaction.set(live.discovery.at(), Discovery({}))
            live.set_absent(transaction, self._live - world.live.keys())
            live.set_objects(transaction, (dict(obj) for obj in world.live.values()))
            self.set_catalogs(transaction, catalogs, world.stored)
            self.set_declarations(transaction, catalogs)
            self.set_instances(transaction, world.stored, world.places, world.gated)
        self._live |= world.live.keys()

    def set_plan_inputs(
        self,
        transaction: Transaction,
        sources: Iterable[str],
        constraints: PlanConstraints,
        *,
        to_final_state: bool,
    ) -> None:
        """Set what plans follow besides renderings and live objects."""
        for source in sources:
            settings = SourceSettings(
                constraints.adoption_of(source),
                constraints.conflict_policy_of(source),
                constraints.brakes.get(source, DEFAULT_BRAKE),
                prunes=source not in constraints.non_pruning_sources,
            )
            approval = PruneApproval(source in constraints.approved_sources, constraints.pruning_holds.get(source, ""))
            transaction.set(plan_inputs.source_settings.at(source), settings)
            transaction.set(plan_inputs.prune_approval.at(source), approval)
        self._parents |= {*constraints.scopes, *constraints.unlabelled_scopes}
        self._parents |= {parent for parent, _ in constraints.refused_writes}
        for parent in self._parents:
            scope, owner = constraints.scopes.get(parent), constraints.scope_sources.get(parent, "")
            transaction.set(planned.recorded_scope.at(parent), RecordedScope(scope, owner) if scope else None)
            transaction.set(plan_inputs.unlabelled_scope.at(parent), constraints.unlabelled_scopes.get(parent, Scope()))
            refused = {key: write for (owner, key), write in constraints.refused_writes.items() if owner == parent}
            transaction.set(plan_inputs.refused_writes.at(parent), refused)
        foreign = ForeignSets(
            constraints.foreign_sources,
            constraints.foreign_claims,
            constraints.relinquished_keys,
            constraints.relinquished_sets,
        )
        transaction.set(plan_inputs.foreign_sets.at(), foreign)
        transaction.set(plan_inputs.throttled_repairs.at(), constraints.throttled_repairs)
        transaction.set(plan_inputs.partial_sets.at(), constraints.partial_sets)
        transaction.set(plan_inputs.orphaned_keys.at(), constraints.orphaned_keys)
        transaction.set(plan_inputs.epoch.at(), constraints.epoch)
        transaction.set(plan_inputs.is_to_final_state.at(), to_final_state)

    def set_decision_inputs(self, transaction: Transaction, here: DecisionInputs) -> None:
        """Set what decisions follow besides plans: the clock, rules, configuration and sources of other processes."""
        conditions = here.conditions
        transaction.now = here.now
        transaction.set(rules.is_clock_skewed.at(), conditions.reading.is_skewed)
        transaction.set(rules.cluster_name.at(), conditions.cluster)
        for source, found in conditions.rules.items():
            transaction.set(rules.source_rules.at(source), found)
            transaction.set(rules.governors.at(source), tuple(sorted(conditions.governors.get(source, ()))))
        for source in here.bundle.sources:
            transaction.set(people.suspended_by_configuration.at(source), conditions.suspended.get(source, ""))
            transaction.set(people.prerequisites.at(source), tuple(conditions.depends_on.get(source, ())))
            transaction.set(permissions.record_error.at(source), conditions.unrecorded_sources.get(source))
        transaction.set(rules.external_facts.at(), conditions.externals)
        for kind in self._kinds | conditions.suspended_kinds.keys():
            transaction.set(people.foreign_suspension.at(kind), conditions.suspended_kinds.get(kind))

    @contextmanager
    def assuming(self, supposed: ChangePermissions) -> Iterator[None]:
        """Let plans follow these permissions during the block, and not the queries."""
        with self.graph.transaction() as transaction:
            transaction.set(plan_inputs.assumed_permissions.at(), supposed)
        yield
        with self.graph.transaction() as transaction:
            transaction.set(plan_inputs.assumed_permissions.at(), None)

    def set_rollouts(
        self,
        transaction: Transaction,
        states: Mapping[str, RolloutState],
        requests: Mapping[str, tuple[RolloutRequest, ...]],
        granted: Mapping[ObjectKey, int],
        names: Iterable[str] = (),
    ) -> None:
        """Set the records of all rollouts, among them those with these names, and the grants that they have stored."""
        self._rollouts |= {*states, *requests, *names}
        for name in self._rollouts:
            transaction.set(rollout_records.rollout_state.at(name), states.get(name))
            transaction.set(rollout_records.rollout_requests.at(name), tuple(requests.get(name, ())))
        self._turns |= granted.keys()
        for key in self._turns:
            transaction.set(plan_inputs.granted_revision.at(key), granted.get(key, 0))

    def set_unrecorded(self, transaction: Transaction, errors: Mapping[str, ClusterError]) -> None:
        """Set the errors because of which decisions of rollouts cannot be stored."""
        for name in self._rollouts | errors.keys():
            cause = Cause.from_error(errors[name]) if name in errors else None
            transaction.set(rollout_records.unrecorded_cause.at(name), cause)

    def observe_progress(self) -> None:
        """Take the observations of all items into their progress, as after a restart of the process."""
        with self.graph.transaction() as transaction:
            for key in self._progressing:
                transaction.drop(rollout_items.item_progress.at(key))
        now = self.graph.now
        found = {key: rollout_items.progress_change(self.graph, key) for key in rollout_instances(self.graph)}
        with self.graph.transaction() as transaction:
            for key, change in found.items():
                if change:
                    transaction.set(rollout_items.item_progress.at(key), change.progress_at(now))
        self._progressing |= found.keys()

    def set_selections(self, transaction: Transaction, found: Mapping[Selection, Any]) -> None:
        """Set the results of selections: keys, or the error of a refused list."""
        self._selections |= found.keys()
        for selection in self._selections:
            keys = found.get(selection)
            result = str(keys) if isinstance(keys, (str, Denied)) else None if keys is None else tuple(keys)
            transaction.set(resources.selected.at(selection), result)

    def set_declarations(self, transaction: Transaction, catalogs: Iterable[Catalog]) -> None:
        """Set the declared objects of all sources."""
        found: dict[Declaration, DeclaredObject] = {}
        for catalog in catalogs:
            for declared in catalog.objects:
                metadata = declared.manifest["metadata"]
                name = catalog.source, declared.group_kind, metadata.get("namespace") or "", metadata["name"]
                ordinal = next(number for number in count() if Declaration(*name, number) not in found)
                found[Declaration(*name, ordinal)] = declared
        for place in self.declared.keys() | found.keys():
            transaction.set(declarations.declaration.at(place), found.get(place))
        self.declared = found


def changed(graph: QueryGraph, roots: Any) -> Iterable[Any]:
    """Bring the roots up to date, and return their answers. Raises: Fault of a query."""
    answers = list(graph.changed(roots))
    for answer in answers:
        if answer.fault is not None:
            raise answer.fault
    return answers


def observe_directives(graph: QueryGraph, read: Query[..., Any], *args: Any) -> None:
    """Set the first observation of each directive that the result of a query needs and that no record tells."""
    while unread := [key for key in graph.answer(read, *args).unread if key.family is people.first_observation]:
        with graph.transaction() as transaction:
            for key in unread:
                transaction.set(key, graph.now)


class OneInstance:
    """Graph with one instance of the definition `apps`, and the last commit of its source."""

    ROOT = Root("platform", ObjectKey("kro.run", "App", "default", "shop"))
    RENDERING = InstanceRendering(ROOT.key, 1, InstanceOwner.of_source("platform"), FromGit.DECLARED)

    def __init__(self, definition: str) -> None:
        self.feed = GraphFeed()
        self.catalog = Catalog()
        self._definition = definition
        with self.graph.transaction() as transaction:
            transaction.set(live.discovery.at(), Discovery({}))

    @property
    def graph(self) -> QueryGraph:
        return self.feed.graph

    def commit(self, **spec: Any) -> None:
        """Declare the instance with the fields *spec*."""
        instance = {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "App",
            "metadata": {"name": "shop", "namespace": "default"},
            "spec": spec,
        }
        files = {"apps.yaml": self._definition.encode(), "shop.json": json.dumps(instance).encode()}
        self.catalog = load(files, source="platform", previous=self.catalog)
        assert self.catalog.problems == ()
        with self.graph.transaction() as transaction:
            self.feed.set_catalogs(transaction, [self.catalog], StoredRevisions())
            self.feed.set_declarations(transaction, [self.catalog])
