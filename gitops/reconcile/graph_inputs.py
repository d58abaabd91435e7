"""Inputs of the decision graph of one cluster, set from what a reconciliation knows.

Each call sets only what differs from the call before, so that equal knowledge marks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TypeVar

from applier.applyset.inventory import Scope
from applier.causes import Cause
from applier.cluster import Object
from applier.errors import ClusterError, Denied
from applier.plan.constraints import PlanConstraints
from applier.plan.deletion_brake import DEFAULT_BRAKE
from applier.state.observed import Observed
from gitops.decisions import (
    actions,
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
    source_sets,
)
from gitops.decisions.declarations import Declaration
from gitops.decisions.definitions import SourceCommit
from gitops.decisions.inputs import DecisionRules
from gitops.decisions.live import ListExtent
from gitops.decisions.plan_inputs import ForeignSets, PruneApproval, SourceSettings
from gitops.decisions.planned import RecordedScope
from gitops.queries import Answer, QueryGraph, Transaction
from gitops.reconcile.context import Context
from gitops.rollouts.requests import RolloutRequest
from gitops.rollouts.state import RolloutState
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD
from renderer.label_selector import Selection
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.revisions import AppliedSnapshot, StoredRevisions

K = TypeVar("K")
V = TypeVar("V")


def _differences(before: Mapping[K, V], after: Mapping[K, V]) -> Iterator[tuple[K, V | None]]:
    """Yield each key whose value is another object, with the new value, or None for a key that is gone."""
    if before is after:
        return
    for key, value in after.items():
        if before.get(key) is not value:
            yield key, value
    for key in before.keys() - after.keys():
        yield key, None


def _place_of(source: str, declared: DeclaredObject) -> Declaration:
    metadata = declared.manifest["metadata"]
    return Declaration(source, declared.group_kind, metadata.get("namespace") or "", metadata["name"], 0)


def _new_graph() -> QueryGraph:
    graph = QueryGraph(datetime(1970, 1, 1, tzinfo=UTC), elapsed=perf_counter)
    instances.prepare(graph)
    return graph


def _declarations_of(catalog: Catalog) -> dict[Declaration, DeclaredObject]:
    """Return the objects that a catalog declares. Several objects of one key have different ordinals."""
    found: dict[Declaration, DeclaredObject] = {}
    for declared in catalog.objects:
        place = _place_of(catalog.source, declared)
        while place in found:
            place = place._replace(ordinal=place.ordinal + 1)
        found[place] = declared
    return found


@dataclass
class GraphInputs:
    """Graph of one cluster whose inputs follow what reconciliations know."""

    graph: QueryGraph = field(default_factory=_new_graph)
    objects: dict[ObjectKey, Object] = field(default_factory=dict)
    """Live objects of the graph."""
    absent: frozenset[ObjectKey] = frozenset()
    """Objects that were absent when they were read last."""
    placements: dict[ObjectKey, RevisionPlacement] = field(default_factory=dict)
    """Revision of each wanted instance, as the graph has decided it last."""
    granted: dict[ObjectKey, int] = field(default_factory=dict)
    """Grants of this reconciliation that are stored."""
    unread_objects: dict[ObjectKey | str, frozenset[ObjectKey]] = field(default_factory=dict)
    """Objects that have to be read before a set is planned, of each instance and source with such objects."""
    _unproven: frozenset[ObjectKey] = frozenset()
    """Objects that were absent in an earlier look, and that this look has not read again."""
    _doubted: frozenset[ObjectKey] = frozenset()
    """The unproven objects that the shell reads again."""
    _kinds_listed: frozenset[GroupKind] = frozenset()
    _catalogs: dict[str, Catalog] = field(default_factory=dict)
    _declared: dict[str, dict[Declaration, DeclaredObject]] = field(default_factory=dict)
    """Declared objects, by source."""
    _snapshots: dict[ObjectKey, AppliedSnapshot] = field(default_factory=dict)
    _kinds: set[GroupKind] = field(default_factory=set)
    _gated: Collection[ObjectKey] = ()
    _selected: Mapping[Selection, Any] = field(default_factory=dict)
    _constraints: PlanConstraints | None = None
    _parents: set[ObjectKey] = field(default_factory=set)
    _conditions: DecisionRules | None = None
    _rollouts: set[str] = field(default_factory=set)
    _waiting: set[ObjectKey] = field(default_factory=set)
    _progressing: set[ObjectKey] = field(default_factory=set)
    _applied_nodes: set[ObjectKey] = field(default_factory=set)

    @contextmanager
    def following(self, catalogs: Sequence[Catalog], known: Context) -> Iterator[Transaction]:
        """Set what has changed since the last call. The caller may set further inputs in the same transaction.

        The instances of sources that are known from their records alone are followed too.

        If the block raises an error, the graph may lack a change, so a new graph takes its place.
        """
        stored = known.archive.stored_revisions
        with self._whole_or_new(), self.graph.transaction() as transaction:
            self.set_observed(transaction, known.observed)
            self.set_catalogs(transaction, [*catalogs, *known.elsewhere], stored)
            recorded = frozenset(catalog.source for catalog in known.elsewhere)
            transaction.set(definitions.recorded_sources.at(), recorded)
            transaction.set(live.foretold.at(), known.foretold)
            self.set_instances(transaction, stored, known.gated)
            self.set_selections(transaction, known.observed.selected)
            yield transaction

    @contextmanager
    def following_part(
        self, catalogs: Sequence[Catalog], known: Context, seen: Collection[ObjectKey]
    ) -> Iterator[Transaction]:
        """Set what has changed, where *known* comes from a look at the instances *seen* alone. See `following`."""
        stored = known.archive.stored_revisions
        with self._whole_or_new(), self.graph.transaction() as transaction:
            self.update_observed(transaction, known.observed)
            self.set_catalogs(transaction, catalogs, stored)
            self.update_instances(transaction, known, seen)
            self.add_selections(transaction, known.observed.selected)
            yield transaction

    @contextmanager
    def _whole_or_new(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            vars(self).update(vars(GraphInputs()))
            raise

    def set_observed(self, transaction: Transaction, after: Observed) -> None:
        """Set what has changed from the last observation to *after*.

        What was absent before, and is not read yet in this look, stays absent until the shell has read it again. So a
        look that finds everything as it was changes nothing. See `doubt_absences`.
        """
        before = self.objects
        live.set_objects(transaction, (obj for key, obj in after.objects.items() if before.get(key) is not obj))
        live.set_absent(transaction, after.absent - self.absent)
        unproven = (self._unproven | self.absent) - after.absent - after.objects.keys()
        self._forget(transaction, (before.keys() - after.objects.keys() - after.absent) | (unproven & self._doubted))
        self.objects, self.absent = dict(after.objects), after.absent
        self._unproven, self._doubted = unproven - self._doubted, frozenset()
        for kind in self._kinds_listed | after.listed:
            extent = ListExtent.WHOLE if kind in after.whole else ListExtent.MARKED
            transaction.set(live.listing.at(kind), extent if kind in after.listed else ListExtent.UNLISTED)
        self._kinds_listed = after.listed
        transaction.set(live.discovery.at(), after.discovery)
        transaction.set(live.failures.at(), after.failures)
        transaction.set(live.unreadable.at(), after.unreadable)

    def update_observed(self, transaction: Transaction, seen: Observed) -> None:
        """Set what a look at some sets has found. What the look does not show stays as it is.

        Args:
            seen: observation with the members of the sets `seen.sets`, and with further objects.
        """
        objects = self.objects
        changed = [obj for key, obj in seen.objects.items() if objects.get(key) is not obj]
        members = {key for set_id in seen.sets or () for key in live.members_of(self.graph, set_id)}
        gone = {key for key in members if key.group_kind in seen.listed} - seen.objects.keys() - seen.absent
        live.set_objects(transaction, changed)
        live.set_absent(transaction, seen.absent - self.absent)
        self._forget(transaction, gone)
        objects.update((ObjectKey.from_manifest(obj), obj) for obj in changed)
        for key in gone | (seen.absent & objects.keys()):
            del objects[key]
        if not seen.absent <= self.absent or not self.absent.isdisjoint(seen.objects):
            self.absent = (self.absent | seen.absent) - seen.objects.keys()
        transaction.set(live.discovery.at(), seen.discovery)
        transaction.set(live.failures.at(), seen.failures)

    def _forget(self, transaction: Transaction, keys: Iterable[ObjectKey]) -> None:
        """Set that it is unknown whether the objects exist."""
        for key in keys:
            transaction.drop(live.live.at(key))
            transaction.drop(live.is_absent.at(key))

    def doubt_absences(self) -> frozenset[ObjectKey]:
        """Return the objects that were absent in an earlier look, for the shell to read them again.

        What the next observation does not prove absent again is unknown from then on.
        """
        self._doubted |= self._unproven
        return self._doubted

    def set_catalogs(self, transaction: Transaction, catalogs: Sequence[Catalog], stored: StoredRevisions) -> None:
        """Set the catalogs of all sources with the objects that they declare, and the stored revisions."""
        transaction.set(definitions.sources.at(), tuple(catalog.source for catalog in catalogs))
        for source in self._catalogs.keys() - {catalog.source for catalog in catalogs}:
            self._set_declarations(transaction, source, {})
            del self._catalogs[source]
        for catalog in catalogs:
            source = catalog.source
            changed = self._changed_objects(catalog)
            if changed is None:
                transaction.set(definitions.catalog.at(source), definitions.shared_content(catalog))
                self._set_declarations(transaction, source, _declarations_of(catalog))
                self._kinds |= catalog.kinds_used
            elif changed:
                for place, declared in changed:
                    transaction.set(declarations.declaration.at(place), declared)
                self._declared[source].update(changed)
            commit = SourceCommit(catalog.commit, catalog.author, catalog.message)
            transaction.set(definitions.source_commit.at(source), commit)
            self._catalogs[source] = catalog
        self._kinds.update(stored.revisions, stored.refused)
        for kind in self._kinds:
            transaction.set(definitions.stored_revisions.at(kind), tuple(stored.revisions.get(kind, ())))
            transaction.set(definitions.store_error.at(kind), stored.refused.get(kind, ""))

    def _changed_objects(self, catalog: Catalog) -> list[tuple[Declaration, DeclaredObject]] | None:
        """Return the objects that a catalog declares otherwise than before, or None if it differs in more than them."""
        before = self._catalogs.get(catalog.source)
        if before is catalog:
            return []
        pairs = catalog.changed_objects(before) if before else None
        if pairs is None:
            return None
        found, declared = list[tuple[Declaration, DeclaredObject]](), self._declared[catalog.source]
        for old, new in pairs:
            place = _place_of(catalog.source, old)
            if old is not new:
                if place != _place_of(catalog.source, new) or place.kind == CRD or declared.get(place) is not old:
                    return None
                found.append((place, new))
        return found

    def _set_declarations(
        self, transaction: Transaction, source: str, found: dict[Declaration, DeclaredObject]
    ) -> None:
        for place, changed in _differences(self._declared.get(source, {}), found):
            transaction.set(declarations.declaration.at(place), changed)
        self._declared[source] = found

    def set_instances(self, transaction: Transaction, stored: StoredRevisions, gated: Collection[ObjectKey]) -> None:
        """Set what records tell about instances, and which instances wait at a gate."""
        for key, snapshot in _differences(self._snapshots, stored.applied):
            transaction.set(resources.applied_snapshot.at(key), snapshot)
        for key in {*self._gated, *gated}:
            transaction.set(instances.is_gated.at(key), key in gated)
        self._snapshots, self._gated = dict(stored.applied), gated

    def update_instances(self, transaction: Transaction, known: Context, seen: Collection[ObjectKey]) -> None:
        """Set what records tell about the instances *seen*, and which of them wait at a gate."""
        applied = known.archive.stored_revisions.applied
        for key in seen:
            transaction.set(resources.applied_snapshot.at(key), applied.get(key))
            transaction.set(instances.is_gated.at(key), key in known.gated)
            if snapshot := applied.get(key):
                self._snapshots[key] = snapshot
            else:
                self._snapshots.pop(key, None)

    def set_placements(self, transaction: Transaction, placements: Mapping[ObjectKey, RevisionPlacement]) -> None:
        """Set the revisions of all instances that are wanted."""
        for key in self.placements.keys() - placements.keys():
            transaction.drop(instances.placement.at(key))
            del self.placements[key]
        self.update_placements(transaction, placements)

    def update_placements(self, transaction: Transaction, placements: Mapping[ObjectKey, RevisionPlacement]) -> None:
        """Set the revisions of some instances that are wanted."""
        for key, placement in placements.items():
            transaction.set(instances.placement.at(key), placement)
        self.placements.update(placements)

    def set_applied_nodes(self, transaction: Transaction, applied: Mapping[ObjectKey, bool]) -> None:
        """Set whether the present content of objects of sources was applied before. See `is_node_applied`."""
        for key, is_applied in applied.items():
            transaction.set(source_sets.is_node_applied.at(key), is_applied)
        self._applied_nodes |= applied.keys()

    def forget_applied_nodes(self, transaction: Transaction) -> None:
        """Let the records of sources tell what was applied."""
        for key in self._applied_nodes:
            transaction.drop(source_sets.is_node_applied.at(key))
        self._applied_nodes.clear()

    def set_outlook(self, transaction: Transaction, causes: Mapping[ObjectKey, Cause]) -> None:
        """Set why instances wait for their turn, in place of what was set before."""
        for key in self._waiting - causes.keys():
            transaction.drop(actions.turn_cause.at(key))
        for key, cause in causes.items():
            transaction.set(actions.turn_cause.at(key), cause)
        self._waiting = set(causes)

    def set_selections(self, transaction: Transaction, found: Mapping[Selection, Any]) -> None:
        """Set the results of selections: keys, or the error of a refused list."""
        for selection in self._selected.keys() - found.keys():
            transaction.set(resources.selected.at(selection), None)
        self._selected = {}
        self.add_selections(transaction, found)

    def add_selections(self, transaction: Transaction, found: Mapping[Selection, Any]) -> None:
        """Set the results of some selections. See `set_selections`."""
        for selection, keys in found.items():
            result = str(keys) if isinstance(keys, (str, Denied)) else None if keys is None else tuple(keys)
            transaction.set(resources.selected.at(selection), result)
        self._selected = {**self._selected, **found}

    def set_decision_inputs(self, transaction: Transaction, known: Context, granted: Mapping[ObjectKey, int]) -> None:
        """Set what plans and decisions follow besides renderings and live objects. See `set_granted` for *granted*."""
        conditions = known.conditions
        self.set_constraints(transaction, known.records)
        self.set_conditions(transaction, conditions)
        self.set_rollouts(transaction, conditions.states, known.rollouts.requests, conditions.unrecorded)
        self.set_granted(transaction, granted)

    def set_constraints(self, transaction: Transaction, constraints: PlanConstraints) -> None:
        """Set what plans follow besides renderings and live objects."""
        for source in self._catalogs:
            settings = SourceSettings(
                constraints.adoption_of(source),
                constraints.conflict_policy_of(source),
                constraints.brakes.get(source, DEFAULT_BRAKE),
                prunes=source not in constraints.non_pruning_sources,
            )
            approval = PruneApproval(source in constraints.approved_sources, constraints.pruning_holds.get(source, ""))
            transaction.set(plan_inputs.source_settings.at(source), settings)
            transaction.set(plan_inputs.prune_approval.at(source), approval)
        self._set_parents(transaction, constraints)
        foreign = ForeignSets(
            constraints.foreign_sources,
            constraints.foreign_claims,
            constraints.relinquished_keys,
            constraints.relinquished_sets,
        )
        transaction.set(plan_inputs.foreign_sets.at(), foreign)
        transaction.set(plan_inputs.throttled_repairs.at(), constraints.throttled_repairs)
        transaction.set(plan_inputs.orphaned_keys.at(), constraints.orphaned_keys)
        transaction.set(plan_inputs.epoch.at(), constraints.epoch)
        self._constraints = constraints

    def _set_parents(self, transaction: Transaction, constraints: PlanConstraints) -> None:
        """Set the recorded scopes and the refused writes of sets."""
        before = self._constraints
        if before is None or before.scopes is not constraints.scopes:
            for key in {*(before.scopes if before else ()), *constraints.scopes}:
                scope, owner = constraints.scopes.get(key), constraints.scope_sources.get(key, "")
                transaction.set(planned.recorded_scope.at(key), RecordedScope(scope, owner) if scope else None)
        for key in {*(before.unlabelled_scopes if before else ()), *constraints.unlabelled_scopes}:
            transaction.set(plan_inputs.unlabelled_scope.at(key), constraints.unlabelled_scopes.get(key, Scope()))
        refused: dict[ObjectKey, dict[ObjectKey, Any]] = {}
        for (parent, key), write in constraints.refused_writes.items():
            refused.setdefault(parent, {})[key] = write
        for parent in self._parents | refused.keys():
            transaction.set(plan_inputs.refused_writes.at(parent), refused.get(parent, {}))
        self._parents = set(refused)

    def set_conditions(self, transaction: Transaction, conditions: DecisionRules) -> None:
        """Set what decisions follow besides plans: the clock, rules, configuration and sources of other processes."""
        # A part knows the time at which it began, and others may have let the clock go on since.
        transaction.now = max(self.graph.now, conditions.reading.now)
        transaction.set(rules.is_clock_skewed.at(), conditions.reading.is_skewed)
        transaction.set(rules.cluster_name.at(), conditions.cluster)
        for source, found in conditions.rules.items():
            transaction.set(rules.source_rules.at(source), found)
            transaction.set(rules.governors.at(source), tuple(sorted(conditions.governors.get(source, ()))))
        for source in self._catalogs:
            transaction.set(people.suspended_by_configuration.at(source), conditions.suspended.get(source, ""))
            transaction.set(people.prerequisites.at(source), tuple(conditions.depends_on.get(source, ())))
            transaction.set(permissions.record_error.at(source), conditions.unrecorded_sources.get(source))
        # The caller may change its mapping later, and the graph would not notice it in a value that both share.
        facts = conditions.externals
        transaction.set(rules.external_facts.at(), None if facts is None else dict(facts))
        for kind in self._kinds | conditions.suspended_kinds.keys():
            transaction.set(people.foreign_suspension.at(kind), conditions.suspended_kinds.get(kind))

    def set_rollouts(
        self,
        transaction: Transaction,
        states: Mapping[str, RolloutState],
        requests: Mapping[str, tuple[RolloutRequest, ...]],
        unrecorded: Mapping[str, ClusterError],
    ) -> None:
        """Set the records of all rollouts."""
        self._rollouts |= {*states, *requests, *unrecorded}
        for name in self._rollouts:
            transaction.set(rollout_records.rollout_state.at(name), states.get(name))
            transaction.set(rollout_records.rollout_requests.at(name), tuple(requests.get(name, ())))
            cause = Cause.from_error(unrecorded[name]) if name in unrecorded else None
            transaction.set(rollout_records.unrecorded_cause.at(name), cause)

    def add_rollouts(self, transaction: Transaction, names: Set[str]) -> None:
        """Set that rollouts of which no record was set have none."""
        for name in names - self._rollouts:
            transaction.set(rollout_records.rollout_state.at(name), None)
            transaction.set(rollout_records.rollout_requests.at(name), ())
        self._rollouts |= names

    def set_granted(self, transaction: Transaction, granted: Mapping[ObjectKey, int]) -> None:
        """Set the grants that are stored, in place of those before, and render each granted instance from its target."""
        for key in self.granted.keys() | granted.keys():
            number = granted.get(key, 0)
            transaction.set(plan_inputs.granted_revision.at(key), number)
            if number and number != self.granted.get(key):
                self.placements[key] = RevisionPlacement(number, number)
                transaction.set(instances.placement.at(key), self.placements[key])
        self.granted = dict(granted)

    def observed(self, ask: Callable[[], Answer[K, V]]) -> Answer[K, V]:
        """Ask until the answer lacks no first observation of a directive, and return the answer.

        Whatever the answer lacks is observed now. Raises: Fault of a query.
        """
        while unread := (answer := ask()).unread_of(people.first_observation):
            with self.graph.transaction() as transaction:
                for directive in unread:
                    transaction.set(people.first_observation.at(*directive), self.graph.now)
        if answer.fault is not None:
            raise answer.fault
        return answer

    def observe_progress(self) -> None:
        """Add what is observed of items to their progress."""
        now, graph = self.graph.now, self.graph
        while changes := [
            answer
            for answer in graph.changed(rollout_items.PROGRESS_CHANGES)
            if answer.value is not None or (answer.is_gone and answer.key in self._progressing)
        ]:
            with graph.transaction() as transaction:
                for answer in changes:
                    key = rollout_items.item_progress.at(answer.key)
                    if answer.value is None:
                        transaction.drop(key)
                        self._progressing.discard(answer.key)
                    else:
                        transaction.set(key, answer.value.progress_at(now))
                        self._progressing.add(answer.key)

    def forget_progress(self, transaction: Transaction) -> None:
        """Let the statuses of instances tell their progress."""
        for key in self._progressing:
            transaction.drop(rollout_items.item_progress.at(key))
        self._progressing.clear()
