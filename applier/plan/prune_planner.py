"""Prune candidates of one set, and the causes other than dependent members that hold a candidate.

The module is pure. `prune_decision` orders the candidates among themselves. This module adds the causes that only the
plan knows: unwritten nodes, incomplete reads, pruning holds, refused deletions and missing permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from applier.applyset.inventory import Scope
from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.plan import prune_decision
from applier.plan.constraints import PlanConstraints
from applier.plan.model import CandidateChange, ChangePermissions, DrainProgress, NodePlan, Operation
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome, PruneProtection
from applier.plan.prune_indexes import PruneIndexes, is_listed, keeping_source
from applier.state.observed import is_terminating
from applier.state.observed_view import ObservedView
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, key_hash
from renderer.kinds import CRD, NAMESPACE
from renderer.phrasing import join_names
from renderer.render.model import RenderedApplySet


@dataclass(frozen=True)
class PrunePlanner:
    """Planner of the deletions of all sets, in an order that respects dependencies and reads."""

    observed: ObservedView
    wanting_sets: Mapping[ObjectKey, Sequence[str]]
    """Ids of the sets that want each object, by key of the object."""
    indexes: PruneIndexes
    constraints: PlanConstraints
    permissions: ChangePermissions
    to_final_state: bool
    drain_progress: Callable[[RenderedApplySet], DrainProgress | None]
    """Function that returns the progress of a set toward its target."""

    def plan_candidates(
        self, rendered: RenderedApplySet, nodes: tuple[NodePlan, ...], current_scope: Scope, *, release: bool = False
    ) -> tuple[PruneCandidate, ...]:
        """Return the members that the set `rendered` no longer wants.

        Args:
            nodes: plans of the set's nodes. Unwritten nodes protect members.
            release: true if the members stay in the cluster, without the metadata of Levelgate.
        """
        if all(key in self.wanting_sets for key in self.observed.members.get(rendered.id, ())):
            return ()
        waiting_ids = _ids_behind_deletions(nodes)
        hold_message = self._hold_message(rendered, current_scope)
        protections = [
            PruneProtection(
                node_plan.node.id, node_plan.node.group_kind, node_plan.node.key, node_plan.node.id in waiting_ids
            )
            for node_plan in nodes
            if not (node_plan.is_applied or (self.to_final_state and node_plan.is_writable))
        ]
        candidates = prune_decision.prune_candidates(
            rendered,
            self.observed,
            desired_keys=self.wanting_sets,
            protections=protections,
            dependents=self.indexes.dependents,
            unreadable=self.constraints.unreadable_files.get(rendered.source) if rendered.is_source else None,
            policy=prune_decision.RemovalPolicy(
                release, self.constraints.orphaned_keys, keeping_source(rendered, self.constraints), hold_message
            ),
        )
        drain_progress = cache(partial(self.drain_progress, rendered))
        return tuple(
            replace(
                self._with_obstacles(rendered, candidate, drain_progress),
                going_readers=tuple(
                    reader.key for reader in self.indexes.going_first.get(key_hash(candidate.member.key), ())
                ),
                staying_readers=self.indexes.staying_readers(candidate.member.key),
            )
            for candidate in candidates
        )

    def departing_members(self, rendered: RenderedApplySet) -> tuple[PruneCandidate, ...]:
        """Return the members of `rendered` that another client is deleting and no set wants.

        The method serves sets that Levelgate does not prune.
        """
        members = (Member.from_object(self.observed.objects[key]) for key in self.observed.members.get(rendered.id, ()))
        return tuple(
            prune_decision.departing_candidate(member, self.observed)
            for member in members
            if member.is_terminating and member.key not in self.wanting_sets
        )

    def find_lost_cause(self, rendered: RenderedApplySet) -> Cause | None:
        """Return the cause that keeps the members of `rendered` in the cluster, or None if Levelgate prunes them.

        The first matching cause decides:

        1. Another source has taken over the instance.
        2. Levelgate does not know whether the instance exists.
        3. A file of the source cannot be read, so the file may declare the instance.
        4. A set of the source is not rendered, so the set may declare the instance, or an instance around it.

        Args:
            rendered: set of an instance that is neither live nor rendered.
        """
        source, parent = rendered.source, rendered.parent
        unreadable = self.constraints.unreadable_files.get(source)
        obstacle = ""
        if parent in self.constraints.foreign_claims:
            obstacle = f"{self.constraints.foreign_claims[parent]} has taken over the instance"
        elif not self.observed.is_known(parent) and not self.observed.has_none_of(parent.group_kind):
            obstacle = "Levelgate knows whether the instance exists"
        elif unreadable and unreadable.unreadable:
            obstacle = f"{join_names(sorted(unreadable.unreadable), limit=3)} can be read"
        elif unrendered := self.indexes.sets_that_may_want(parent, source):
            # An unrendered set may declare the instance.
            obstacle = f"{join_names(unrendered, limit=3)} can be rendered"
        if not obstacle:
            return None
        message = f"{parent} is gone; its members stay until {obstacle}"
        return Cause(Reason.DEPENDENCY_NOT_READY, message, object_key=parent)

    def wanted_members(self, rendered: RenderedApplySet) -> list[ObjectKey]:
        """Return the keys of live members of `rendered` that this set or another set still wants."""
        return [key for key in self.observed.members.get(rendered.id, ()) if key in self.wanting_sets]

    def is_listed(self, scope: Scope) -> bool:
        """Return whether the lists of all kinds in `scope` are complete. A kind without objects counts as listed."""
        return is_listed(self.observed, scope)

    def _hold_message(self, rendered: RenderedApplySet, current_scope: Scope) -> str:
        """Return the reason why no member of `rendered` may be deleted, or an empty string if deletions are allowed.

        The first matching cause decides: a pruning hold of the source, or an incomplete list of a kind. The set of an
        instance needs complete lists of the kinds in `current_scope`. The set of a source needs complete lists of the
        kinds of all sets.
        """
        is_lost = not rendered.is_source and rendered.parent not in self.observed.objects
        if (rendered.is_source or is_lost) and (message := self.constraints.pruning_holds.get(rendered.source)):
            return message
        is_complete = self.indexes.are_scopes_listed if rendered.is_source else self.is_listed(current_scope)
        if self.observed.unreadable or not is_complete:
            return "Levelgate could not list every kind in the inventory, and deletes nothing until all lists succeed"
        return ""

    def _with_obstacles(
        self,
        rendered: RenderedApplySet,
        candidate: PruneCandidate,
        drain_progress: Callable[[], DrainProgress | None],
    ) -> PruneCandidate:
        """Return `candidate` with the refusal, or the missing permission, that prevents its deletion.

        If a desired node protects the candidate, the method checks permission too. So while a gate holds the
        candidate, the cause stays the same.
        """
        member = candidate.member
        live = self.observed.objects[member.key]
        failure = self.observed.failures.get(member.key) or self.constraints.refusal(
            rendered.parent, member.key, None, live
        )
        if failure:
            return replace(candidate, allowed=False, blocked=Cause.from_error(failure))
        if not (candidate.awaits_unwritten_node or (candidate.allowed and candidate.outcome is PruneOutcome.DELETE)):
            return candidate
        progress = drain_progress()
        progress_of_key = progress.of_key(member.key) if progress else None
        change = CandidateChange(
            rendered, member.key, Operation.PRUNE, member.node_id, member.level, progress_of_key, live
        )
        cause = self.permissions.check(change)
        return replace(candidate, outcome=PruneOutcome.DELETE, allowed=False, blocked=cause) if cause else candidate


def _ids_behind_deletions(nodes: Iterable[NodePlan]) -> frozenset[str]:
    """Return the ids of nodes that wait for the deletion of a Namespace or CRD.

    The result contains the terminating Namespace or CRD, and its direct and indirect dependents.

    Args:
        nodes: plans of nodes in level order.
    """
    found: set[str] = set()
    for node_plan in nodes:
        live = node_plan.live
        is_deleted_container = (
            node_plan.node.group_kind in {NAMESPACE, CRD} and live is not None and is_terminating(live)
        )
        if is_deleted_container or not found.isdisjoint(node_plan.node.depends_on):
            found.add(node_plan.node.id)
    return frozenset(found)
