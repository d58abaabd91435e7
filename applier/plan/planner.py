"""What one pass should do, decided from the rendering and from what was observed. Pure.

`nodes` decides what may be written, `applier.plan.prune` what may be deleted, this module what is due for each set as a whole and its parent,
`brake` what waits for a person. What is not done says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import filterfalse

from applier.applyset import completed_jobs, inventory, kro
from applier.applyset.adoption import NEVER
from applier.applyset.inventory import ForeignSet, Scope
from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.cluster import CONTENT, Object
from applier.plan import prune
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.deletion_brake import brake
from applier.plan.model import (
    BRAKE,
    Answered,
    ApplySetPlan,
    Barrier,
    CandidateChange,
    ChangePermissions,
    DeletionBrake,
    NodeAction,
    NodePlan,
    Operation,
    Plan,
    PlanConstraints,
)
from applier.plan.node_planner import NodePlanner
from applier.plan.plan_cache import SetPlanInputs, SharedPlanInputs
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.state.managed_fields import apply_entry
from applier.state.observed import Observed, annotation, is_terminating, label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, applyset_id
from renderer.phrasing import listed
from renderer.render.model import RenderedApplySet, Rendering

__all__ = [
    "BRAKE",
    "Answered",
    "ApplySetPlan",
    "Barrier",
    "CandidateChange",
    "ChangePermissions",
    "DeletionBrake",
    "NodeAction",
    "NodePlan",
    "Operation",
    "Plan",
    "PlanConstraints",
    "plan",
]


def plan(
    bundle: Rendering,
    observed: Observed,
    records: PlanConstraints | None = None,
    gates: ChangePermissions | None = None,
    comparisons: ComparisonCache | None = None,
    *,
    to_the_end: bool = False,
) -> Plan:
    """Decide everything that is due, allowed or not, for all sets of the bundle and for live instances that nothing wants any more.

    `comparisons`, those of earlier plans, only save work. A plan `to_the_end` shows what goes once all that can be written is written; else what
    is still to be written protects what it uses until then. It names no commit to approve: what is merged may get another id.
    """
    records, gates, comparisons = (
        records or PlanConstraints(),
        gates or ChangePermissions(),
        comparisons or ComparisonCache(),
    )
    comparisons.turn()
    decided = _Planner(bundle, observed, records, gates, comparisons, to_the_end).plan()
    commits = {} if to_the_end else bundle.commits
    held = {
        source: why
        for source in bundle.sources
        if source not in records.approved
        and (why := brake(decided, observed, source, records.brakes.get(source, BRAKE), commits.get(source, "")))
    }
    if not held:
        return decided
    records = replace(records, hold_pruning={**held, **records.hold_pruning})
    return _Planner(bundle, observed, records, gates, comparisons, to_the_end).plan()


@dataclass
class _Planner:
    bundle: Rendering
    observed: Observed
    records: PlanConstraints
    gates: ChangePermissions
    comparisons: ComparisonCache
    to_the_end: bool

    def __post_init__(self) -> None:
        self.wanted: dict[ObjectKey, list[str]] = {}
        contested: set[ObjectKey] = set()
        for rendered in self.bundle.sets:
            for node in rendered.nodes:
                if node.key and not node.external:
                    sets = self.wanted.setdefault(node.key, [])
                    sets.append(rendered.id)
                    if len(sets) > 1:
                        contested.add(node.key)
        for key, claimant in self.records.claims.items():
            self.wanted.setdefault(key, [applyset_id(claimant)])
        self.sets = {rendered.id: rendered for rendered in (*self.bundle.sets, *self._unwanted_instances())}
        kinds = frozenset(key.group_kind for key in self.bundle.instances)
        self.asked: list[Answered] = []
        gates = self.gates.noting(self.asked)
        self.judge = NodePlanner(
            self.observed, self.wanted, self.sets, kinds, self.bundle.commits, self.records, gates, self.comparisons
        )
        common = self.comparisons.carried.under(
            SharedPlanInputs.of(self.observed, self.records, kinds, self.to_the_end)
        )
        refused = frozenset(parent for parent, _ in self.records.refused)
        self.around = SetPlanInputs(common, self.observed, self.gates, self.wanted, frozenset(contested), refused)

    @cached_property
    def dependents(self) -> Mapping[str, tuple[Member, ...]]:
        return prune.dependents(self.observed, self.sets)

    def plan(self) -> Plan:
        """Sets from owner to member, so that an instance's set knows whether its owner lets it go."""
        going: dict[ObjectKey, PruneCandidate] = {}
        standing: dict[ObjectKey, Cause] = {}
        left: dict[ObjectKey, str] = {}
        sets = []
        for rendered in self.sets.values():
            decided = self._planned(rendered, going.get(rendered.parent), standing.get(rendered.parent))
            if not rendered.source:
                decided = replace(decided, former_source=left.get(rendered.parent, ""))
            going |= {orphan.member.key: orphan for orphan in decided.orphans if orphan.fate is PruneOutcome.DELETE}
            standing |= prune.protected_keys(decided.orphans)
            if decided.is_unknown and decided.not_moved:
                standing |= dict.fromkeys(self.observed.members.get(rendered.id, ()), decided.not_moved)
            left |= {orphan.member.key: decided.source for orphan in decided.orphans}
            sets.append(decided)
        return Plan(tuple(sets))

    def _planned(self, rendered: RenderedApplySet, going: PruneCandidate | None, stands: Cause | None) -> ApplySetPlan:
        """The plan of a set; of an instance that is wanted the one of before, where nothing of it has changed."""
        if rendered.parent not in self.bundle.instances:
            return self._finished(rendered, going, stands)
        if carried := self.comparisons.carry(rendered, self.around):
            return carried
        self.asked.clear()
        found = self._finished(rendered, None, None)
        self.comparisons.carried.keep(found, self.around, tuple(self.asked))
        return found

    def _finished(self, rendered: RenderedApplySet, going: PruneCandidate | None, stands: Cause | None) -> ApplySetPlan:
        return self._unless_stuck(self._begun(self._set(rendered, going, stands)))

    def _begun(self, plan: ApplySetPlan) -> ApplySetPlan:
        """Before the first write of a set in an epoch the epoch is put on its parent, and only there where nobody else has written: so who was
        overtaken without knowing it learns it there.
        """
        if plan.parent is None or inventory.epoch_of(plan.parent) >= self.records.epoch or not plan.touches:
            return plan
        waiting = tuple(orphan.held_back("the parent is written first") for orphan in plan.orphans)
        return replace(
            plan,
            nodes=tuple(node._replace(allowed=False) for node in plan.nodes),
            repairs=tuple(node._replace(allowed=False) for node in plan.repairs),
            orphans=waiting,
            superset=plan.superset or plan.current,
            completed=plan.completed or annotation(plan.parent, well_known.COMPLETED),
        )

    def _unless_stuck(self, plan: ApplySetPlan) -> ApplySetPlan:
        """A parent that could not be written is not written again in the same pass, and nothing that its scope must cover. Nor is one that was
        refused.
        """
        key = plan.rendered.parent
        failure = self.observed.failures.get(key)
        if failure is None and (refused := self.records.refused.get((key, key))):
            failure = refused.error if refused.is_same(plan.due_for_parent, plan.parent) else None
        if failure is None:
            return plan
        stuck = Cause.by_failure(failure)
        return replace(plan, superset=None, exact=None, detach=False, finish=False, parent_error=stuck)

    def _unwanted_instances(self) -> Iterator[RenderedApplySet]:
        """Live instances of our sets that Git or their parent no longer want, as sets with nothing desired; found from parent to child."""
        left = self.observed.parents.keys() - self.bundle.instances.keys()
        pending = [rendered.id for rendered in self.bundle.sets] if left else []
        while pending:
            for key in self.observed.members.get(pending.pop(), ()):
                if key in left:
                    before = self.bundle.leaving.get(key)
                    unwanted = (
                        replace(before, nodes=(), applied_rendering=before) if before else RenderedApplySet(parent=key)
                    )
                    pending.append(unwanted.id)
                    yield unwanted

    def _set(self, rendered: RenderedApplySet, going: PruneCandidate | None, stands: Cause | None) -> ApplySetPlan:
        parent = self.observed.objects.get(rendered.parent)
        heirs_of = self.records.adoption.get(rendered.source, NEVER).heirs_of
        try:
            current = inventory.read_scope(parent, heirs_of=heirs_of) if parent else Scope()
        except ForeignSet as error:
            theirs = parent is not None and inventory.tool_of(parent) == kro.TOOL
            return ApplySetPlan(rendered, parent, Scope(), error=Cause(Reason.CONFLICT, str(error)), is_unknown=theirs)
        if not (parent and label(parent, well_known.PARENT_ID) and inventory.is_intact(parent)):
            current = current | self.records.scopes.get(rendered.parent, Scope())
        if not (rendered.is_source or rendered.parent in self.bundle.instances):
            return self._unwanted(rendered, parent, current, going, stands)
        hidden = None if parent or rendered.is_source else self.observed.unreadable.get(rendered.parent.group_kind)
        if hidden:
            return ApplySetPlan(rendered, None, current, error=Cause.by_failure(hidden))
        if why := self.gates.suspended.get(rendered.parent):
            nodes = self.judge.nodes(rendered, ready_to_write=False)
            return ApplySetPlan(rendered, parent, current, nodes, target=inventory.target_of(parent), error=why)
        if rendered.error:
            return ApplySetPlan(rendered, parent, current, error=Cause(Reason.RENDER_FAILED, rendered.error))
        if rendered.held_reason:
            return self._held(rendered, parent, current)
        if not rendered.is_source and parent and is_terminating(parent):
            return self._detaching(rendered, parent, current)
        return self._working(rendered, parent, current)

    def _unwanted(
        self,
        rendered: RenderedApplySet,
        parent: Object | None,
        current: Scope,
        going: PruneCandidate | None,
        stands: Cause | None,
    ) -> ApplySetPlan:
        """An instance that is not rendered. Only if its owner lets it go its members go; while it, or what uses it, may not be deleted yet it is
        healed, and else it may still be wanted, and stays as it is.
        """
        if parent and stands and not self.to_the_end:
            before = None if is_terminating(parent) else rendered.applied_rendering
            repairs = self.judge.repairs(before, ready_to_write=True) if before else ()
            return ApplySetPlan(rendered, parent, current, repairs=repairs, not_moved=stands, is_unknown=True)
        if parent is None or going is None:
            return ApplySetPlan(rendered, parent, current, is_unknown=True)
        return (
            self._deleting(rendered, parent, current)
            if is_terminating(parent)
            else self._leaving(rendered, parent, current)
        )

    def _held(self, rendered: RenderedApplySet, parent: Object | None, current: Scope) -> ApplySetPlan:
        """A set at its applied pair: what is missing or was changed by hand is healed, nothing is moved and nothing pruned."""
        why = Cause(Reason.RENDER_FAILED, rendered.held_reason)
        covered = parent is not None and not is_terminating(parent) and bool(label(parent, well_known.PARENT_ID))
        completed, is_recorded = self._completed(rendered, parent)
        nodes = self.judge.nodes(rendered, ready_to_write=covered and is_recorded, held=why)
        superset = current if covered and not is_recorded else None
        return ApplySetPlan(rendered, parent, current, nodes, completed=completed, superset=superset, error=why)

    def _completed(self, rendered: RenderedApplySet, parent: Object | None) -> tuple[str, bool]:
        """What the parent has to record of Jobs that have completed, and whether it does."""
        found = completed_jobs.record(rendered, self.observed, is_part=rendered.parent in self.records.partial)
        return found, found == (annotation(parent, well_known.COMPLETED) if parent else "")

    def _detaching(self, rendered: RenderedApplySet, parent: Object, current: Scope) -> ApplySetPlan:
        """Deleted by hand, still wanted: children stay, the finalizer goes once the scope is on record, the object is created again."""
        recorded = self.records.scopes.get(rendered.parent, Scope()) >= current
        detach = recorded and _has_finalizer(parent)
        nodes = self.judge.nodes(rendered, ready_to_write=False)
        orphans = self._orphans(rendered, nodes, current) if self.to_the_end else ()
        return ApplySetPlan(
            rendered, parent, current, nodes, orphans, target=inventory.target_of(parent), detach=detach
        )

    def _leaving(self, rendered: RenderedApplySet, parent: Object, current: Scope) -> ApplySetPlan:
        """An instance that its owner is about to delete: its members follow once it is deleted, if it may be."""
        found = self._orphans(rendered, (), current, release=annotation(parent, well_known.DELETION_POLICY) == "orphan")
        return ApplySetPlan(
            rendered, parent, current, orphans=tuple(orphan.held_back("goes with its instance") for orphan in found)
        )

    def _deleting(self, rendered: RenderedApplySet, parent: Object, current: Scope) -> ApplySetPlan:
        """Nobody wants the instance any more: prune with nothing desired, then let it go (S0-17)."""
        found = self._orphans(rendered, (), current, release=annotation(parent, well_known.DELETION_POLICY) == "orphan")
        moving = [key for key in self.observed.members.get(rendered.id, ()) if key in self.wanted]
        why = f"it goes once others have taken over what they want of it: {listed(moving, most=3)}"
        stuck = Cause(Reason.DEPENDENCY_NOT_READY, why, at=moving[0]) if moving else None
        finish = not (found or moving) and self._is_listed(current) and _has_finalizer(parent)
        return ApplySetPlan(rendered, parent, current, orphans=found, finish=finish, parent_error=stuck)

    def _working(self, rendered: RenderedApplySet, parent: Object | None, current: Scope) -> ApplySetPlan:
        desired = self._scope_of(rendered)
        if rendered.applied_rendering:
            desired |= self._scope_of(rendered.applied_rendering)
        target = self.gates.targets.get(rendered.parent) or inventory.target_of(parent)
        covered = current >= desired and parent is not None and bool(label(parent, well_known.PARENT_ID))
        covered = covered and parent is not None and inventory.is_intact(parent)
        if not rendered.is_source and parent is not None:
            covered = covered and inventory.tool_of(parent) == inventory.TOOL
            covered = covered and _has_finalizer(parent) and target == inventory.target_of(parent)
        completed, is_recorded = self._completed(rendered, parent)
        covered = covered and is_recorded
        nodes = self.judge.nodes(rendered, ready_to_write=covered)
        superset = current | desired if not covered and (rendered.is_source or _is_ours(parent)) else None
        orphans = self._orphans(rendered, nodes, current)
        repairs = self._repairs(rendered, nodes, orphans, covered=covered)
        busy = superset is not None or any(
            node.allowed and node.verb is not NodeAction.NONE for node in (*nodes, *repairs)
        )
        if busy:
            orphans = tuple(orphan.held_back("pruned after everything is applied") for orphan in orphans)
        exact = None
        whole = rendered.parent not in self.records.partial
        if parent is not None and not busy and not orphans and whole and self._is_listed(current):
            live = inventory.scope_of(self.observed.members.get(rendered.id, ()), rendered.parent)
            waiting = (node for node in rendered.nodes if node.key is None and not node.external)
            unplaced = Scope(frozenset(node.group_kind for node in waiting))
            wanted = desired | live | unplaced
            exact = wanted if wanted != current else None
        return ApplySetPlan(
            rendered,
            parent,
            current,
            nodes,
            orphans,
            repairs,
            target,
            completed,
            superset,
            exact,
        )

    def _repairs(
        self,
        rendered: RenderedApplySet,
        nodes: tuple[NodePlan, ...],
        orphans: tuple[PruneCandidate, ...],
        *,
        covered: bool,
    ) -> tuple[NodePlan, ...]:
        if rendered.applied_rendering is None:
            return ()
        gated = {node.node.key for node in nodes if node.is_gated and node.node.key}
        gated |= {orphan.member.key for orphan in orphans if orphan.is_gated}
        found = self.judge.repairs(rendered.applied_rendering, ready_to_write=covered)
        return tuple(plan for plan in found if plan.node.key in gated)

    def _is_listed(self, scope: Scope) -> bool:
        return all(kind in self.observed.listed or self.observed.has_none_of(kind) for kind in scope.kinds)

    def _orphans(
        self, rendered: RenderedApplySet, nodes: tuple[NodePlan, ...], current: Scope, *, release: bool = False
    ) -> tuple[PruneCandidate, ...]:
        if rendered.parent in self.records.partial:
            return ()
        if self.wanted.keys() >= set(self.observed.members.get(rendered.id, ())):
            return ()
        unsettled = [
            prune.PruneProtection(plan.node.id, plan.node.group_kind, plan.node.key)
            for plan in nodes
            if not (plan.is_current or (self.to_the_end and plan.is_writable))
        ]
        held = self.records.hold_pruning.get(rendered.source, "") if rendered.is_source else ""
        scopes = [current] if not rendered.is_source else [self._current_of(other) for other in self.sets.values()]
        if not held and (self.observed.unreadable or not all(map(self._is_listed, scopes))):
            held = "not every kind of the inventory could be listed; nothing is deleted on an incomplete view"
        found = prune.prune_candidates(
            rendered,
            self.observed,
            wanted=self.wanted,
            unsettled=unsettled,
            dependents=self.dependents,
            unreadable=self.records.unreadable.get(rendered.source) if rendered.is_source else None,
            hold=held,
            release=release,
            keeper=rendered.source if rendered.source in self.records.keeping else "",
        )
        return tuple(self._unless_stopped(rendered, orphan) for orphan in found)

    def _unless_stopped(self, rendered: RenderedApplySet, orphan: PruneCandidate) -> PruneCandidate:
        """An orphan that could not be deleted in this pass, that was refused before, or that may not be deleted now, stays; also where it would not
        be deleted yet: it is the same as long as a gate holds it.
        """
        member = orphan.member
        live = self.observed.objects[member.key]
        failure = self.observed.failures.get(member.key)
        if failure is None and (refused := self.records.refused.get((rendered.parent, member.key))):
            failure = refused.error if refused.is_same(None, live) else None
        if failure:
            return replace(orphan, allowed=False, blocked=Cause.by_failure(failure))
        if not (orphan.is_shielded or (orphan.allowed and orphan.fate is PruneOutcome.DELETE)):
            return orphan
        change = CandidateChange(rendered, member.key, Operation.PRUNE, member.node, member.level, live=live)
        blocked = self.gates.check(change)
        return replace(orphan, fate=PruneOutcome.DELETE, allowed=False, blocked=blocked) if blocked else orphan

    def _scope_of(self, rendered: RenderedApplySet) -> Scope:
        """Where what the set owns may live, as far as that is known; not what it only refers to, nor a kind of which nothing ever lives."""
        found = inventory.scope_of(
            (node.key for node in rendered.nodes if node.key and not node.external), rendered.parent
        )
        return replace(found, kinds=frozenset(filterfalse(self.observed.is_only_answered, found.kinds)))

    def _current_of(self, rendered: RenderedApplySet) -> Scope:
        parent = self.observed.objects.get(rendered.parent)
        try:
            return inventory.read_scope(parent) if parent else Scope()
        except ForeignSet:
            return Scope()


def _is_ours(parent: Object | None) -> bool:
    """May its set be written? That of another tool only once the instance itself has been adopted."""
    if parent is None:
        return False
    return inventory.tool_of(parent) in {"", inventory.TOOL} or apply_entry(parent, CONTENT) is not None


def _has_finalizer(parent: Object) -> bool:
    return well_known.FINALIZER in (parent["metadata"].get("finalizers") or ())
