"""Indexes over the members of all sets, which the order of deletions depends on.

The module is pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from applier.applyset import inventory
from applier.applyset.inventory import ForeignSet, Scope
from applier.applyset.member import Member, MembersByHash
from applier.cluster import Object
from applier.plan import prune_decision
from applier.plan.constraints import PlanConstraints
from applier.plan.prune_candidate import PruneOutcome
from applier.plan.prune_readers import Leaving, MemberSet, ReadOrder, find_leaving
from applier.state.observed_view import ObservedView
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet


class PruneIndexes(Protocol):
    """Facts about all sets that the deletions of one set depend on."""

    @property
    def dependents(self) -> MembersByHash:
        """Return the live members of all sets, by the hash of each key that must outlive the members.

        The dependencies of a member must outlive the member. If Levelgate is to delete a member, the objects that the
        member reads must outlive the member too.
        """

    @property
    def going_first(self) -> MembersByHash:
        """Return the members to delete before each object that they read, by the hash of that object."""

    def staying_readers(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return the keys of the objects that stay and read the object `key`."""

    @property
    def are_scopes_listed(self) -> bool:
        """Return whether the lists of all kinds in the scopes of all sets are complete."""

    def sets_that_may_want(self, instance: ObjectKey, source: str) -> Sequence[ObjectKey]:
        """Return the parents of the sets of `source` whose unrendered part may declare `instance`.

        No rendered node declares the instance.
        """


@dataclass(frozen=True)
class ObservedPruneIndexes:
    """Indexes over all sets of a plan. Implements `PruneIndexes`."""

    observed: ObservedView
    wanting_sets: Mapping[ObjectKey, Sequence[str]]
    """Ids of the sets that want each object, by key of the object."""
    sets: Mapping[str, RenderedApplySet]
    """All sets of the plan, by id."""
    constraints: PlanConstraints
    instances: Collection[ObjectKey]
    """Keys of the rendered instances."""
    former_reads: Mapping[ObjectKey, frozenset[str]]
    """Hashes of the keys that the applied snapshot of a member reads, by member. Members of an earlier version of
    Levelgate do not record these keys.
    """

    @cached_property
    def dependents(self) -> MembersByHash:
        """Return the live members of all sets, by the hash of each key that must outlive the members.

        The dependencies of a member must outlive the member. If Levelgate is to delete a member, the objects that the
        member reads must outlive the member too.
        """
        found = dict(prune_decision.index_dependents(self.observed, self.sets))
        for read, readers in self.going_first.items():
            known = found.get(read, ())
            found[read] = (*known, *(reader for reader in readers if reader not in known))
        return found

    @property
    def going_first(self) -> MembersByHash:
        """Return the members to delete before each object that they read, by the hash of that object."""
        return self.read_order.going_first

    def staying_readers(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return the keys of the objects that stay and read the object `key`."""
        return self.read_order.staying_readers(key)

    @cached_property
    def are_scopes_listed(self) -> bool:
        """Return whether the lists of all kinds in the scopes of all sets are complete."""
        parents = (self.observed.objects.get(rendered.parent) for rendered in self.sets.values())
        return all(is_listed(self.observed, current_scope_of(parent)) for parent in parents)

    def sets_that_may_want(self, instance: ObjectKey, source: str) -> Sequence[ObjectKey]:
        """Return the parents of the sets of `source` whose unrendered part may declare `instance`."""
        sets = (rendered for rendered in self.sets.values() if rendered.source == source)
        return [rendered.parent for rendered in sets if may_want(rendered, instance)]

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
        readers = {read: tuple(sorted(found, key=lambda member: member.key)) for read, found in recorded.items()}
        return ReadOrder(leaving, readers, self._wanted_readers())

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
        if rendered.error or rendered.held_reason:
            return True
        if any(node.key is None and node.id == member.node_id for node in rendered.nodes):
            return True
        unreadable_files = self.constraints.unreadable_files.get(rendered.source) if rendered.is_source else None
        if unreadable_files and unreadable_files.protects(member.source_file):
            return True
        policy = prune_decision.RemovalPolicy(keeping_source=keeping_source(rendered, self.constraints))
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


def current_scope_of(parent: Object | None) -> Scope:
    """Return the scope on the parent of a set. A missing parent, or the parent of a foreign tool, has no scope."""
    try:
        return inventory.read_scope(parent) if parent else Scope()
    except ForeignSet:
        return Scope()


def is_listed(observed: ObservedView, scope: Scope) -> bool:
    """Return whether the lists of all kinds in `scope` are complete. A kind without objects counts as listed."""
    return all(kind in observed.listed or observed.has_none_of(kind) for kind in scope.kinds)


def keeping_source(rendered: RenderedApplySet, constraints: PlanConstraints) -> str:
    """Return the source of `rendered` if the source deletes nothing (`prune: false`), or an empty string."""
    return rendered.source if rendered.source in constraints.non_pruning_sources else ""


def may_want(rendered: RenderedApplySet, instance: ObjectKey) -> bool:
    """Return whether the unrendered part of `rendered` may declare `instance`, which no rendered node declares."""
    return bool(rendered.error or rendered.held_reason) or any(
        node.group_kind == instance.group_kind and (node.key is None or node.error or node.waiting)
        for node in rendered.nodes
    )
