"""Prune candidates of one set, with what holds them beside other members. Pure.

`prune` orders the candidates among themselves. This module adds what the plan knows: nodes that are not written yet,
incomplete reads, pruning holds, refused deletions and missing permissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from applier.applyset import inventory
from applier.applyset.inventory import ForeignSet, Scope
from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.plan import prune
from applier.plan.constraints import PlanConstraints
from applier.plan.model import CandidateChange, ChangePermissions, NodePlan, Operation
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.state.observed import Observed, is_terminating
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.kinds import CRD, NAMESPACE
from renderer.phrasing import join_names
from renderer.render.model import RenderedApplySet


@dataclass(frozen=True)
class PrunePlanner:
    """The planner of deletions. `wanting_sets` maps a key to the ids of sets that want it; `sets` are all, by id."""

    observed: Observed
    wanting_sets: Mapping[ObjectKey, Sequence[str]]
    sets: Mapping[str, RenderedApplySet]
    constraints: PlanConstraints
    permissions: ChangePermissions
    to_final_state: bool

    @cached_property
    def dependents(self) -> Mapping[str, tuple[Member, ...]]:
        """Return the live members of all sets by the dependencies that they record."""
        return prune.index_dependents(self.observed, self.sets)

    def plan_candidates(
        self, rendered: RenderedApplySet, nodes: tuple[NodePlan, ...], current_scope: Scope, *, release: bool = False
    ) -> tuple[PruneCandidate, ...]:
        """Return the members that the set no longer wants. With *release* they are kept, without our metadata."""
        if rendered.parent in self.constraints.partial_sets:
            return ()
        if self.wanting_sets.keys() >= set(self.observed.members.get(rendered.id, ())):
            return ()
        waiting_ids = _ids_behind_deletions(nodes)
        protections = [
            prune.PruneProtection(
                node_plan.node.id, node_plan.node.group_kind, node_plan.node.key, node_plan.node.id in waiting_ids
            )
            for node_plan in nodes
            if not (node_plan.is_applied or (self.to_final_state and node_plan.is_writable))
        ]
        candidates = prune.prune_candidates(
            rendered,
            self.observed,
            desired_keys=self.wanting_sets,
            protections=protections,
            dependents=self.dependents,
            unreadable=self.constraints.unreadable_files.get(rendered.source) if rendered.is_source else None,
            hold_message=self._hold_message(rendered, current_scope),
            release=release,
            keeping_source=rendered.source if rendered.source in self.constraints.non_pruning_sources else "",
        )
        return tuple(self._with_obstacles(rendered, candidate) for candidate in candidates)

    def departing_members(self, rendered: RenderedApplySet) -> tuple[PruneCandidate, ...]:
        """Return the members of a set of which nothing is pruned that somebody deletes, and that no set wants."""
        members = (Member.from_object(self.observed.objects[key]) for key in self.observed.members.get(rendered.id, ()))
        return tuple(
            prune.departing_candidate(member, self.observed)
            for member in members
            if member.is_terminating and member.key not in self.wanting_sets
        )

    def find_lost_cause(self, rendered: RenderedApplySet) -> Cause | None:
        """Return why the members of an instance that is gone stay, though nothing is rendered of it; None where they go.

        What cannot be read or rendered may want it, or may be the instance that it is nested in.
        """
        source, parent = rendered.source, rendered.parent
        unreadable = self.constraints.unreadable_files.get(source)
        obstacle = ""
        if parent in self.constraints.foreign_claims:
            obstacle = f"{self.constraints.foreign_claims[parent]} has taken it over"
        elif not self.observed.is_known(parent) and not self.observed.has_none_of(parent.group_kind):
            obstacle = "it is known whether it exists"
        elif unreadable and unreadable.unreadable:
            obstacle = f"{join_names(sorted(unreadable.unreadable), limit=3)} can be read"
        elif unrendered := [
            one.parent for one in self.sets.values() if one.source == source and _may_want(one, parent)
        ]:
            obstacle = f"{join_names(unrendered, limit=3)} can be rendered"
        if not obstacle:
            return None
        message = f"{parent} is gone; what it owned stays until {obstacle}"
        return Cause(Reason.DEPENDENCY_NOT_READY, message, object_key=parent)

    def wanted_members(self, rendered: RenderedApplySet) -> list[ObjectKey]:
        """Return the live members of a set that a set wants."""
        return [key for key in self.observed.members.get(rendered.id, ()) if key in self.wanting_sets]

    def is_listed(self, scope: Scope) -> bool:
        """Return whether all kinds of a scope were listed, or have no objects."""
        return all(kind in self.observed.listed or self.observed.has_none_of(kind) for kind in scope.kinds)

    def _hold_message(self, rendered: RenderedApplySet, current_scope: Scope) -> str:
        """Return why nothing of a set may be deleted; empty where it may. A source needs complete lists of all sets."""
        is_lost = not rendered.is_source and rendered.parent not in self.observed.objects
        if (rendered.is_source or is_lost) and (message := self.constraints.pruning_holds.get(rendered.source)):
            return message
        scopes = map(self._current_scope_of, self.sets.values()) if rendered.is_source else (current_scope,)
        if self.observed.unreadable or not all(map(self.is_listed, scopes)):
            return "not every kind of the inventory could be listed; nothing is deleted on an incomplete view"
        return ""

    def _with_obstacles(self, rendered: RenderedApplySet, candidate: PruneCandidate) -> PruneCandidate:
        """Return the candidate with the refusal, or the missing permission, that prevents its deletion.

        A candidate that other members still hold is asked about as well: its cause is the same while a gate holds it.
        """
        member = candidate.member
        live = self.observed.objects[member.key]
        failure = self.observed.failures.get(member.key) or self.constraints.refusal(
            rendered.parent, member.key, None, live
        )
        if failure:
            return replace(candidate, allowed=False, blocked=Cause.from_error(failure))
        if not (candidate.is_protected or (candidate.allowed and candidate.outcome is PruneOutcome.DELETE)):
            return candidate
        change = CandidateChange(rendered, member.key, Operation.PRUNE, member.node_id, member.level, live=live)
        cause = self.permissions.check(change)
        return replace(candidate, outcome=PruneOutcome.DELETE, allowed=False, blocked=cause) if cause else candidate

    def _current_scope_of(self, rendered: RenderedApplySet) -> Scope:
        parent = self.observed.objects.get(rendered.parent)
        try:
            return inventory.read_scope(parent) if parent else Scope()
        except ForeignSet:
            return Scope()


def _ids_behind_deletions(nodes: Iterable[NodePlan]) -> frozenset[str]:
    """Return the nodes that cannot be written before a Namespace or CRD is gone, itself included; *nodes* by level."""
    found: set[str] = set()
    for node_plan in nodes:
        live = node_plan.live
        is_deleted_container = (
            node_plan.node.group_kind in {NAMESPACE, CRD} and live is not None and is_terminating(live)
        )
        if is_deleted_container or not found.isdisjoint(node_plan.node.depends_on):
            found.add(node_plan.node.id)
    return frozenset(found)


def _may_want(rendered: RenderedApplySet, instance: ObjectKey) -> bool:
    """Return whether what cannot be rendered of a set may want an instance that nothing rendered wants."""
    return bool(rendered.error or rendered.held_reason) or any(
        node.group_kind == instance.group_kind and (node.key is None or node.error or node.waiting)
        for node in rendered.nodes
    )
