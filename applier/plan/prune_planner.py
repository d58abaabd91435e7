"""Prune candidates of one set, and the causes other than dependent members that hold a candidate.

The module is pure. `prune_decision` orders the candidates among themselves. This module adds the causes that only the
plan knows: unwritten nodes, incomplete reads, pruning holds, refused deletions and missing permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial

from applier.applyset import inventory
from applier.applyset.inventory import ForeignSet, Scope
from applier.applyset.member import Member, MembersByHash
from applier.causes import Cause, Reason
from applier.plan import prune_decision
from applier.plan.constraints import PlanConstraints
from applier.plan.model import CandidateChange, ChangePermissions, DrainProgress, NodePlan, Operation
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome, PruneProtection
from applier.plan.prune_readers import Leaving, MemberSet, ReadOrder, find_leaving
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
    sets: Mapping[str, RenderedApplySet]
    """All sets of the plan, by id."""
    constraints: PlanConstraints
    permissions: ChangePermissions
    to_final_state: bool
    instances: Collection[ObjectKey]
    """Keys of the rendered instances."""
    former_reads: Mapping[ObjectKey, frozenset[str]]
    """Hashes of the keys that the applied snapshot of a member reads, by member. Members of an earlier version of
    Levelgate do not record these keys.
    """
    drain_progress: Callable[[RenderedApplySet], DrainProgress | None]
    """Function that returns the progress of a set toward its target."""

    @cached_property
    def dependents(self) -> MembersByHash:
        """Return the live members of all sets, by the hash of each key that must outlive the members.

        The dependencies of a member must outlive the member. If Levelgate is to delete a member, the objects that the
        member reads must outlive the member too.
        """
        found = dict(prune_decision.index_dependents(self.observed, self.sets))
        for read, readers in self.read_order.going_first.items():
            known = found.get(read, ())
            found[read] = (*known, *(reader for reader in readers if reader not in known))
        return found

    @cached_property
    def read_order(self) -> ReadOrder:
        """Return the constraints that reads by `externalRef` impose on the order of deletions.

        The constraints also cover members of sets that the plan does not cover.
        """
        recorded: dict[str, list[Member]] = {}
        for keys in self.observed.members.values():
            for member in (
                Member.from_object(self.observed.objects[key]) for key in keys if key not in self.wanting_sets
            ):
                for read in member.reads | self.former_reads.get(member.key, frozenset()):
                    recorded.setdefault(read, []).append(member)
        leaving = find_leaving(self._member_sets()) if recorded else Leaving({}, {})
        return ReadOrder(leaving, {read: tuple(found) for read, found in recorded.items()}, self._wanted_readers())

    def _wanted_readers(self) -> Mapping[str, Collection[ObjectKey]]:
        """Return the keys of rendered nodes, by the hash of each key that the nodes read."""
        found: dict[str, set[ObjectKey]] = {}
        for rendered in self.sets.values():
            if any(node.external for node in rendered.nodes):
                for key, reads in rendered.member_reads.items():
                    for read in reads:
                        found.setdefault(read, set()).add(key)
        return found

    def _member_sets(self) -> Iterator[MemberSet]:
        """Yield the members that each set loses or keeps.

        Owners come before the sets of their members. Sets that the plan does not cover come last.
        """
        for set_id, rendered in self.sets.items():
            is_unwanted = not (rendered.is_source or rendered.parent in self.instances)
            live = self._members_of(set_id)
            unwanted = [member for member in live if member.key not in self.wanting_sets]
            kept = {member.key for member in unwanted if self._is_kept(rendered, member)}
            staying = [
                member for member in live if member.key in kept or (is_unwanted and member.key in self.wanting_sets)
            ]
            yield MemberSet(
                None if rendered.is_source else rendered.parent,
                is_unwanted,
                tuple(member for member in unwanted if member.key not in kept),
                tuple(staying),
            )
        for set_id in sorted(self.observed.members.keys() - self.sets.keys()):
            leaving = (member for member in self._members_of(set_id) if self._leaves_foreign_set(set_id, member))
            yield MemberSet(None, is_unwanted=False, leaving=tuple(leaving), staying=())

    def _members_of(self, set_id: str) -> list[Member]:
        return [Member.from_object(self.observed.objects[key]) for key in self.observed.members.get(set_id, ())]

    def _is_kept(self, rendered: RenderedApplySet, member: Member) -> bool:
        """Return whether `member`, which no set wants, stays for good or may still be wanted.

        If the rendering of the set is incomplete, or its file cannot be read, the member may still be wanted. If the
        source or an annotation forbids the deletion, or nothing proves that Levelgate wrote the member, the member
        stays for good.
        """
        if rendered.error or rendered.held_reason or rendered.parent in self.constraints.partial_sets:
            return True
        if any(node.key is None and node.id == member.node_id for node in rendered.nodes):
            return True
        unreadable_files = self.constraints.unreadable_files.get(rendered.source) if rendered.is_source else None
        if unreadable_files and unreadable_files.protects(member.source_file):
            return True
        policy = prune_decision.RemovalPolicy(keeping_source=self._keeping_source(rendered))
        candidate = prune_decision.decide_outcome(member, self.observed, policy)
        return candidate.outcome is PruneOutcome.KEEP

    def _leaves_foreign_set(self, set_id: str, member: Member) -> bool:
        """Return whether the set `set_id`, which the plan does not cover, deletes `member`.

        No planned set may want `member`. Either the deletion has begun, or the record of the foreign source
        relinquishes `member`.
        """
        is_relinquished = (
            member.key in self.constraints.relinquished_keys or set_id in self.constraints.relinquished_sets
        )
        return member.key not in self.wanting_sets and (member.is_terminating or is_relinquished)

    def _keeping_source(self, rendered: RenderedApplySet) -> str:
        """Return the source of `rendered` if the source deletes nothing (`prune: false`), or an empty string."""
        return rendered.source if rendered.source in self.constraints.non_pruning_sources else ""

    def plan_candidates(
        self, rendered: RenderedApplySet, nodes: tuple[NodePlan, ...], current_scope: Scope, *, release: bool = False
    ) -> tuple[PruneCandidate, ...]:
        """Return the members that the set `rendered` no longer wants.

        Args:
            nodes: plans of the set's nodes. Unwritten nodes protect members.
            release: true if the members stay in the cluster, without the metadata of Levelgate.
        """
        if rendered.parent in self.constraints.partial_sets:
            return ()
        if self.wanting_sets.keys() >= set(self.observed.members.get(rendered.id, ())):
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
            dependents=self.dependents,
            unreadable=self.constraints.unreadable_files.get(rendered.source) if rendered.is_source else None,
            policy=prune_decision.RemovalPolicy(
                release, self.constraints.orphaned_keys, self._keeping_source(rendered), hold_message
            ),
        )
        drain_progress = cache(partial(self.drain_progress, rendered))
        return tuple(
            replace(
                self._with_obstacles(rendered, candidate, drain_progress),
                going_readers=tuple(
                    reader.key for reader in self.read_order.going_first.get(key_hash(candidate.member.key), ())
                ),
                staying_readers=self.read_order.staying_readers(candidate.member.key),
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
        elif unrendered := [
            one.parent for one in self.sets.values() if one.source == source and _may_want(one, parent)
        ]:
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
        return all(kind in self.observed.listed or self.observed.has_none_of(kind) for kind in scope.kinds)

    def _hold_message(self, rendered: RenderedApplySet, current_scope: Scope) -> str:
        """Return the reason why no member of `rendered` may be deleted, or an empty string if deletions are allowed.

        The first matching cause decides: a pruning hold of the source, or an incomplete list of a kind. The set of an
        instance needs complete lists of the kinds in `current_scope`. The set of a source needs complete lists of the
        kinds of all sets.
        """
        is_lost = not rendered.is_source and rendered.parent not in self.observed.objects
        if (rendered.is_source or is_lost) and (message := self.constraints.pruning_holds.get(rendered.source)):
            return message
        scopes = map(self._current_scope_of, self.sets.values()) if rendered.is_source else (current_scope,)
        if self.observed.unreadable or not all(map(self.is_listed, scopes)):
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

    def _current_scope_of(self, rendered: RenderedApplySet) -> Scope:
        parent = self.observed.objects.get(rendered.parent)
        try:
            return inventory.read_scope(parent) if parent else Scope()
        except ForeignSet:
            return Scope()


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


def _may_want(rendered: RenderedApplySet, instance: ObjectKey) -> bool:
    """Return whether the unrendered part of `rendered` may declare `instance`, which no rendered node declares."""
    return bool(rendered.error or rendered.held_reason) or any(
        node.group_kind == instance.group_kind and (node.key is None or node.error or node.waiting)
        for node in rendered.nodes
    )
