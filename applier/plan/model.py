"""Values of a plan: the action due on each node, and the actions due on the parent of each ApplySet.

If the action of a node is not permitted, the plan of the node contains the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.applyset.inventory import Scope
from applier.causes import Cause
from applier.cluster import Object
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY, ConflictPolicy
from applier.state.managed_fields import LostField
from applier.state.observed import label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, is_same
from renderer.render.model import RenderedApplySet, RenderedNode, is_same_node, is_same_set


class NodeAction(StrEnum):
    """Action that makes a live object equal its manifest.

    - `adopt` takes over an object that is in no set.
    - `replace` deletes an object that the server cannot update, so that Levelgate creates the object again.
    - `record` renews only the bookkeeping of Levelgate on the object.
    - `read` reads the object before its first write.
    - `unknown` represents an action that depends on missing data.
    """

    CREATE = "create"
    UPDATE = "update"
    HEAL = "heal"
    REPLACE = "replace"
    ADOPT = "adopt"
    RECORD = "record"
    READ = "read"
    UNKNOWN = "unknown"
    NONE = "unchanged"

    def operation(self, *, is_applied: bool) -> Operation:
        """Return the operation under which windows and gates select this action.

        If the set is applied (`is_applied`), no object of the set is new. Then every write, even a creation, restores
        applied content.
        """
        match self:
            case NodeAction.HEAL:
                return Operation.HEAL
            case NodeAction.RECORD:
                return Operation.RECORD
            case NodeAction.CREATE if not is_applied:
                return Operation.CREATE
        return Operation.HEAL if is_applied else Operation.UPDATE


_APPLIED_ACTIONS: Final = (NodeAction.NONE, NodeAction.RECORD)


class Operation(StrEnum):
    """Kind of write, by which windows and gates select writes.

    `heal` restores applied content. `record` writes only bookkeeping of Levelgate, and needs no permission.
    """

    CREATE = "create"
    UPDATE = "update"
    PRUNE = "prune"
    HEAL = "heal"
    RECORD = "record"


class Barrier(StrEnum):
    """Rule that decides which nodes, besides its dependencies, a node waits for (S0-9, S0-26).

    `Path` adds no nodes. `Level` adds the nodes of earlier levels that no gate holds. `All` adds every node of earlier
    levels.
    """

    PATH = "Path"
    LEVEL = "Level"
    ALL = "All"


class DrainProgress(NamedTuple):
    """Progress of a set toward its target, as the live objects of the set show the progress."""

    level: int
    """Highest level with a moved node, or -1 if no node has moved."""
    since: datetime
    """Time of the first move, by the clock of the server."""
    keys: Set[ObjectKey] | None
    """Objects that the progress covers, or None for all objects of the set."""

    @classmethod
    def without_level(cls, since: datetime) -> DrainProgress:
        """Return the progress of a set that began at `since`, before the first write of its own nodes."""
        return cls(-1, since, None)

    def of_key(self, key: ObjectKey) -> DrainProgress | None:
        """Return this progress if it covers the object `key`, or None."""
        return self if self.keys is None or key in self.keys else None


class CandidateChange(NamedTuple):
    """Write or deletion that could start now."""

    set: RenderedApplySet
    key: ObjectKey
    operation: Operation
    node_id: str
    """Id of the node, or an empty string outside of instances."""
    level: int | None
    drain_progress: DrainProgress | None = None
    """Progress of the set, or None if the set has not begun to move or the progress does not cover the object."""
    live: Object | None = None
    """Live object, or None if the object does not exist."""


def _permit_all(_: CandidateChange) -> Cause | None:
    return None


@dataclass(frozen=True, slots=True)
class ChangePermissions:
    """Permissions that windows, gates, the pace and requests give to the changes of a plan."""

    check: Callable[[CandidateChange], Cause | None] = _permit_all
    """Function that returns the cause that bars a change now, or None if the change may start."""
    targets: Mapping[ObjectKey, int] = field(default_factory=dict)
    """Granted revision of each instance, by key of the instance."""
    suspended: Mapping[ObjectKey, Cause] = field(default_factory=dict)
    """Cause that keeps Levelgate from writing any object of a set, by parent of the set."""
    barriers: Mapping[ObjectKey, Barrier] = field(default_factory=dict)
    """Rule that decides which nodes, besides its dependencies, a node waits for, by instance. The default is `Path`."""


class NodePlan(NamedTuple):
    """Plan of one node: its action, and either the permission to start now or the cause that bars the action."""

    node: RenderedNode
    action: NodeAction
    live: Object | None
    allowed: bool = False
    ready: bool = False
    """True if the live object is ready, by its last status."""
    healthy: bool = False
    """True if the live object is healthy, by its last status."""
    blocked: Cause | None = None
    dependencies: tuple[str, ...] = ()
    conflict_policy: ConflictPolicy = DEFAULT_CONFLICT_POLICY
    """Policy that decides from which managers the write takes over fields. A claim of any other manager is a conflict.
    """
    lost_fields: tuple[LostField, ...] = ()
    """Fields to heal, each with its present owners."""
    contested_fields: tuple[LostField, ...] = ()
    """Fields that stay with their present owners. After the write, Levelgate reports each of these fields as a
    conflict.
    """
    adoption: Adoption = NO_ADOPTION
    """Rule that decides which objects the source may adopt."""
    unhealthy_message: str = ""
    """Text for people about the health, or an empty string if the status of the object contains an explanation."""
    recheck_at: datetime | None = None
    """Time at which the health changes by age alone, or None if the health never changes by age."""
    health_reference: ObjectKey | None = None
    """Further object that the health depends on, or None."""
    is_ttl_removed: bool = False
    """True if the node is a completed Job that its TTL removed. Then `live` is None."""

    @property
    def exists(self) -> bool:
        """Return whether the object is live, or is a completed Job that its TTL removed."""
        return self.live is not None or self.is_ttl_removed

    @property
    def live_set_id(self) -> str:
        """Return the id of the set that has the live object as a member.

        If the object is in no set, or if the node is external, return an empty string.
        """
        return label(self.live, well_known.PART_OF) if self.live and not self.node.external else ""

    @property
    def is_applied(self) -> bool:
        """Return whether the live object equals the manifest."""
        return self.exists and self.action in _APPLIED_ACTIONS

    @property
    def is_writable(self) -> bool:
        """Return whether the manifest is known, and no failure prevents the write."""
        return self.node.writable and not (self.blocked is not None and self.blocked.reason.is_failure)

    @property
    def is_held(self) -> bool:
        """Return whether only a gate, a window, the pace or a person holds the node."""
        return self.blocked is not None and self.blocked.reason.is_hold

    @property
    def lacks_permission(self) -> bool:
        """Return whether only a permission of a window, a gate, the pace or a person is missing."""
        return self.blocked is not None and self.blocked.reason.is_missing_permission

    @property
    def is_applied_and_ready(self) -> bool:
        """Return whether the node is applied and ready, so that its dependents may start."""
        return self.is_applied and self.ready


@dataclass(frozen=True, slots=True)
class ApplySetPlan:
    """Plan of one ApplySet: its nodes, its prune candidates, and the actions due on its parent."""

    rendered: RenderedApplySet
    parent: Object | None
    current_scope: Scope
    nodes: tuple[NodePlan, ...] = ()
    prune_candidates: tuple[PruneCandidate, ...] = ()
    repairs: tuple[NodePlan, ...] = ()
    """Nodes to heal from the applied snapshot, because the change or deletion of their objects lacks permission."""
    target_revision: int = 0
    """Granted revision, or 0 if no revision is granted."""
    completion_record: str = ""
    """Completed Jobs to record on the parent."""
    superset_scope: Scope | None = None
    """Scope to write to the parent before any member, or None."""
    first_scope: Scope | None = None
    """Scope that a new instance records with its first write, or None for all other sets."""
    exact_scope: Scope | None = None
    """Scope to which Levelgate narrows the scope on the parent, or None."""
    detach: bool = False
    """True if Levelgate removes its finalizer from a terminating instance that is still wanted."""
    finish_deletion: bool = False
    """True if Levelgate removes its finalizer from a terminating instance, because no member is left."""
    not_moved: Cause | None = None
    """Cause that keeps the set from moving to its target, or None if the set may move."""
    deadlock: Cause | None = None
    """Cause that keeps the set from ever moving in the present state, or None if the set can move."""
    error: Cause | None = None
    """Cause that bars every write to the objects of the set, or None."""
    parent_error: Cause | None = None
    """Cause of a failed write of the parent, or cause that bars the deletion of the parent, or None."""
    deletion: Cause | None = None
    """Cause that delays the deletion of a terminating parent, or None if nothing delays the deletion."""
    is_unknown: bool = False
    """True if the set may still be wanted, so that Levelgate does not write its status."""
    is_lost: bool = False
    """True if the set has members, but neither a live instance nor a declaration."""
    begun_at: datetime | None = None
    """Time to record as the start of a change, or None. Later, the members alone may no longer show this time."""
    former_source: str = ""
    """Source whose set no longer wants this set, or an empty string."""
    former_nodes: tuple[NodePlan, ...] = ()
    """Nodes of the applied snapshot whose objects the set no longer renders, or empty while the snapshot is unread.

    The gates that hold the deletion of these objects read these nodes. Levelgate writes no node of this list.
    """

    @property
    def candidates_to_remove(self) -> tuple[PruneCandidate, ...]:
        """Return the prune candidates that are to be removed, now or later."""
        return tuple(candidate for candidate in self.prune_candidates if candidate.outcome is not PruneOutcome.KEEP)

    @property
    def source(self) -> str:
        """Return the source of the set. If no set wants this set any more, return the former source."""
        return self.rendered.source or self.former_source

    @property
    def writes(self) -> tuple[NodePlan, ...]:
        """Return the node plans that write now, including repairs."""
        nodes = (*self.nodes, *self.repairs)
        return tuple(
            node_plan
            for node_plan in nodes
            if node_plan.allowed and node_plan.action not in {NodeAction.NONE, NodeAction.READ}
        )

    @property
    def has_member_changes(self) -> bool:
        """Return whether the plan writes or deletes members now."""
        return bool(self.writes) or any(candidate.allowed for candidate in self.prune_candidates)

    @property
    def changes(self) -> Iterator[CandidateChange]:
        """Yield the writes and deletions that start now, in the form in which windows and gates select them."""
        for rendered, node_plans in (
            (self.rendered, self.nodes),
            (self.rendered.applied_rendering or self.rendered, self.repairs),
        ):
            for node_plan in node_plans:
                is_due = node_plan.allowed and node_plan.action not in {NodeAction.NONE, NodeAction.READ}
                if is_due and (change := self._change_of(rendered, node_plan)):
                    yield change
        for candidate in self.prune_candidates:
            if candidate.allowed and candidate.outcome is PruneOutcome.DELETE:
                yield self.prune_change(candidate, None)

    def node_change(self, node_plan: NodePlan) -> CandidateChange | None:
        """Return the change of a node, with its live object, or None if the name of the object is not known."""
        change = self._change_of(self.rendered, node_plan)
        return change and change._replace(live=node_plan.live)

    def prune_change(self, candidate: PruneCandidate, live: Object | None) -> CandidateChange:
        """Return the deletion of a member that the set no longer wants."""
        member = candidate.member
        node_id = self.node_id(member.node_id)
        return CandidateChange(self.rendered, member.key, Operation.PRUNE, node_id, member.level, live=live)

    def node_id(self, node: str) -> str:
        """Return the id of a node of an instance, or an empty string for a node of a source."""
        return "" if self.rendered.is_source else node

    def _change_of(self, rendered: RenderedApplySet, node_plan: NodePlan) -> CandidateChange | None:
        """Return the change of a node of `rendered`, or None if the name of its object is not known."""
        node, operation = node_plan.node, node_plan.action.operation(is_applied=rendered.is_applied)
        if not node.key:
            return None
        return CandidateChange(rendered, node.key, operation, self.node_id(node.id), node.level)

    @property
    def parent_intent(self) -> tuple[object, ...]:
        """Return the changes that are due on the parent, as a comparable value."""
        return (
            self.superset_scope,
            self.exact_scope,
            self.target_revision,
            self.completion_record,
            self.detach,
            self.finish_deletion,
        )

    @property
    def needs_applied_snapshot(self) -> bool:
        """Return whether a change or deletion lacks permission, and Levelgate has not read the applied snapshot yet."""
        rendered = self.rendered
        if self.is_lost:
            return rendered.applied_rendering is None  # the snapshot has the deletion policy
        if self.is_unknown:
            return self.not_moved is not None and rendered.applied_rendering is None
        if (
            not rendered.applied
            or rendered.is_applied
            or rendered.held_reason
            or rendered.applied_rendering is not None
        ):
            return False
        return any(node_plan.lacks_permission for node_plan in self.nodes) or any(
            candidate.allowed or candidate.lacks_permission for candidate in self.prune_candidates
        )

    @property
    def keys_to_read(self) -> tuple[ObjectKey, ...]:
        """Return the keys of nodes whose objects Levelgate has to read before it can decide on an action."""
        return self._unread_keys(external=False)

    @property
    def references_to_read(self) -> tuple[ObjectKey, ...]:
        """Return the keys of further objects to read.

        The result contains external objects, objects that the health of nodes depends on, and the parents of lost
        sets.
        """
        return (
            *((self.rendered.parent,) if self.is_lost else ()),
            *self._unread_keys(external=True),
            *(node_plan.health_reference for node_plan in self.nodes if node_plan.health_reference),
        )

    def _unread_keys(self, *, external: bool) -> tuple[ObjectKey, ...]:
        nodes_to_read = (
            node_plan.node for node_plan in (*self.nodes, *self.repairs) if node_plan.action is NodeAction.READ
        )
        return tuple(node.key for node in nodes_to_read if node.key and node.external is external)

    @property
    def recheck_at(self) -> datetime | None:
        """Return the next time at which the health of a node changes by age alone, or None."""
        return min((node_plan.recheck_at for node_plan in self.nodes if node_plan.recheck_at), default=None)

    @property
    def is_idle(self) -> bool:
        """Return whether no action of this set may start now."""
        return not (
            self.has_member_changes or self.superset_scope or self.exact_scope or self.detach or self.finish_deletion
        )


def is_same_node_plan(before: NodePlan, after: NodePlan) -> bool:
    """Return whether two plans are equal. Python's `==` alone treats `1` and `True` in JSON as equal."""
    return before is after or (
        before == after and is_same_node(before.node, after.node) and is_same(before.live, after.live)
    )


def is_same_set_plan(before: ApplySetPlan | None, after: ApplySetPlan | None) -> bool:
    """Return whether two plans are equal. Python's `==` alone treats `1` and `True` in JSON as equal."""
    return before is after or (
        before is not None
        and after is not None
        and before == after
        and is_same_set(before.rendered, after.rendered)
        and is_same(before.parent, after.parent)
        and all(
            map(
                is_same_node_plan,
                (*before.nodes, *before.repairs, *before.former_nodes),
                (*after.nodes, *after.repairs, *after.former_nodes),
            )
        )
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of one reconciliation for all sets."""

    sets: tuple[ApplySetPlan, ...]

    @property
    def recheck_at(self) -> datetime | None:
        """Return the next time at which the health of a node changes by age alone, or None."""
        return min((moment for set_plan in self.sets if (moment := set_plan.recheck_at)), default=None)

    @property
    def is_idle(self) -> bool:
        """Return whether no action may start now."""
        return all(set_plan.is_idle for set_plan in self.sets)

    @property
    def changes(self) -> Iterator[CandidateChange]:
        """Yield the writes and deletions that start now, in the form in which windows and gates select them."""
        return (change for set_plan in self.sets for change in set_plan.changes)
