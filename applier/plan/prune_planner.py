"""Prune candidates of one set, with what holds them beside other members. Pure.

`prune` orders the candidates among themselves. This module adds what the plan knows: nodes that are not written yet,
incomplete reads, pruning holds, refused deletions and missing permissions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from applier.applyset import inventory
from applier.applyset.inventory import ForeignSet, Scope
from applier.applyset.member import Member
from applier.causes import Cause
from applier.plan import prune
from applier.plan.constraints import PlanConstraints
from applier.plan.model import CandidateChange, ChangePermissions, NodePlan, Operation
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.state.observed import Observed
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
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
        protections = [
            prune.PruneProtection(node_plan.node.id, node_plan.node.group_kind, node_plan.node.key)
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

    def wanted_members(self, rendered: RenderedApplySet) -> list[ObjectKey]:
        """Return the live members of a set that a set wants."""
        return [key for key in self.observed.members.get(rendered.id, ()) if key in self.wanting_sets]

    def is_listed(self, scope: Scope) -> bool:
        """Return whether all kinds of a scope were listed, or have no objects."""
        return all(kind in self.observed.listed or self.observed.has_none_of(kind) for kind in scope.kinds)

    def _hold_message(self, rendered: RenderedApplySet, current_scope: Scope) -> str:
        """Return why nothing of a set may be deleted; empty where it may. A source needs complete lists of all sets."""
        if rendered.is_source and (message := self.constraints.pruning_holds.get(rendered.source)):
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
