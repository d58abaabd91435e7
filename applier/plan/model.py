"""Values of a plan: the action due on each node, and the actions due on the parent of each ApplySet.

If the action of a node is not permitted, the plan of the node contains the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.applyset.inventory import Scope
from applier.causes import Cause
from applier.cluster import Object
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY, ConflictPolicy
from applier.state.managed_fields import LostField
from applier.state.observed import label
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode


class NodeAction(StrEnum):
    """Action that makes a live object equal its manifest.

    - `adopt` takes over an object that is in no set.
    - `replace` deletes an object that cannot be changed, so that it is created again.
    - `record` renews only the bookkeeping of Levelgate on the object.
    - `read` reads the object before its first write.
    - `unknown` stands for an action that depends on missing data.
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
        """Return the operation as which windows and gates select this action.

        If the set `is_applied`, no object of the set is new. Then every write, even a creation, restores applied
        content.
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
    """Kind of a write, as windows and gates select it.

    `heal` restores applied content. `record` writes only bookkeeping of Levelgate, and needs no permission.
    """

    CREATE = "create"
    UPDATE = "update"
    PRUNE = "prune"
    HEAL = "heal"
    RECORD = "record"


class Barrier(StrEnum):
    """Rule for the nodes that a node waits for besides its dependencies (S0-9, S0-26).

    `Path` adds no nodes. `Level` adds the nodes of earlier levels that no gate holds. `All` adds every node of earlier
    levels.
    """

    PATH = "Path"
    LEVEL = "Level"
    ALL = "All"


class DrainProgress(NamedTuple):
    """Progress of a set to its target, as its live objects show it.

    `level` is the highest level with a moved node, or -1 if no node has moved. `since` is the server's time of the
    first move. The progress covers the objects in `keys`. If `keys` is None, the progress covers all objects of the
    set.
    """

    level: int
    since: datetime
    keys: Set[ObjectKey] | None

    @classmethod
    def without_level(cls, since: datetime) -> DrainProgress:
        """Return the progress of a set that began at `since`, before any of its own nodes was written."""
        return cls(-1, since, None)

    def of_key(self, key: ObjectKey) -> DrainProgress | None:
        """Return this progress if it covers the object `key`, or None otherwise."""
        return self if self.keys is None or key in self.keys else None


class CandidateChange(NamedTuple):
    """Write or deletion that could start now.

    `node_id` is empty outside of instances. If the object does not exist, `live` is None. If no object of the set has
    moved, `drain_progress` is None.
    """

    set: RenderedApplySet
    key: ObjectKey
    operation: Operation
    node_id: str
    level: int | None
    drain_progress: DrainProgress | None = None
    live: Object | None = None


def _permit_all(_: CandidateChange) -> Cause | None:
    return None


@dataclass(frozen=True, slots=True)
class ChangePermissions:
    """Answers of windows, gates, pace and requests to the changes of a plan.

    `check` returns the cause for which a change may not start now, or None if the change may start. `targets` maps
    instances to the revisions granted to the instances. `suspended` maps parents to the cause for which no object of
    the set is written. `barriers` maps instances to the rule for the nodes that a node waits for besides its
    dependencies. The default rule is `Path`.
    """

    check: Callable[[CandidateChange], Cause | None] = _permit_all
    targets: Mapping[ObjectKey, int] = field(default_factory=dict)
    suspended: Mapping[ObjectKey, Cause] = field(default_factory=dict)
    barriers: Mapping[ObjectKey, Barrier] = field(default_factory=dict)

    def with_recorded_answers(self, answers: list[PermissionAnswer]) -> ChangePermissions:
        """Return equal permissions that append each checked change and its answer to `answers`."""

        def check(change: CandidateChange) -> Cause | None:
            answers.append((change, self.check(change)))
            return answers[-1][1]

        return replace(self, check=check)

    def gives_same_answers(self, other: ChangePermissions, answers: Iterable[PermissionAnswer]) -> bool:
        """Return whether these permissions yield the plan that `other` yielded.

        `answers` are the changes that `other` was asked about, each with the answer of `other`.
        """
        is_same_otherwise = replace(self, check=_permit_all) == replace(other, check=_permit_all)
        return is_same_otherwise and all(self.check(change) == answer for change, answer in answers)


PermissionAnswer = tuple[CandidateChange, Cause | None]
"""A change that a plan asked permission for, and the cause that denied it, or None."""


class NodePlan(NamedTuple):
    """Plan of one node: its action, whether the action may start now, and the cause if the action may not start.

    `ready` and `healthy` describe the live object, as its controller last observed the object. `unhealthy_message` is a
    text for people. The text is empty if the status of the object contains an explanation.

    `conflict_policy` decides from which managers the write takes over fields. A claim of any other manager is a
    conflict. `lost_fields` are to be healed, each with its present owners. `contested_fields` stay with their present
    owners in the same write, and are reported as a conflict after the write. `adoption` is the rule for the objects
    that the source may adopt.

    At `recheck_at` the health changes by age alone. If `recheck_at` is None, the health never changes by age. The
    health also depends on the object `health_reference`. If the node is a completed Job that its TTL removed,
    `is_ttl_removed` is true and `live` is None.
    """

    node: RenderedNode
    action: NodeAction
    live: Object | None
    allowed: bool = False
    ready: bool = False
    healthy: bool = False
    blocked: Cause | None = None
    dependencies: tuple[str, ...] = ()
    conflict_policy: ConflictPolicy = DEFAULT_CONFLICT_POLICY
    lost_fields: tuple[LostField, ...] = ()
    contested_fields: tuple[LostField, ...] = ()
    adoption: Adoption = NO_ADOPTION
    unhealthy_message: str = ""
    recheck_at: datetime | None = None
    health_reference: ObjectKey | None = None
    is_ttl_removed: bool = False

    @property
    def exists(self) -> bool:
        """Return whether the object is live, or was a completed Job that its TTL removed."""
        return self.live is not None or self.is_ttl_removed

    @property
    def live_set_id(self) -> str:
        """Return the id of the set that the live object is a member of.

        Return an empty text if the object is in no set, or if the node is external.
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
    """Plan of one ApplySet: its nodes, its prune candidates, and the actions due on its parent.

    `repairs` heal, from the applied snapshot, the objects whose change or deletion lacks permission. `target_revision`
    is the granted revision, or 0 without a grant. `completion_record` lists the completed Jobs to record on the parent.
    `first_scope` is the scope that a new instance records with its first write. For all other sets, `first_scope` is
    None.

    `not_moved` is the cause for which the set does not move to its target. `deadlock` is the cause for which the set
    can never move in the present state. While a set has an `error`, no object of the set may be written. `parent_error`
    is the reason why the parent could not be written in this reconciliation, or may not be deleted yet. `deletion` is
    the cause for which a parent that is being deleted still exists. If time alone ends the deletion, `deletion` is
    None.

    A set that `is_unknown` may still be wanted, so its status is not written. A set that `is_lost` has members, but
    neither a live instance nor a declaration. `begun_at` is the start of a change. The start has to be recorded because
    the members alone will not show it later. `former_source` is the source whose set no longer wants this set.
    """

    rendered: RenderedApplySet
    parent: Object | None
    current_scope: Scope
    nodes: tuple[NodePlan, ...] = ()
    prune_candidates: tuple[PruneCandidate, ...] = ()
    repairs: tuple[NodePlan, ...] = ()
    target_revision: int = 0
    completion_record: str = ""
    superset_scope: Scope | None = None
    first_scope: Scope | None = None
    exact_scope: Scope | None = None
    detach: bool = False
    finish_deletion: bool = False
    not_moved: Cause | None = None
    deadlock: Cause | None = None
    error: Cause | None = None
    parent_error: Cause | None = None
    deletion: Cause | None = None
    is_unknown: bool = False
    is_lost: bool = False
    begun_at: datetime | None = None
    former_source: str = ""

    @property
    def candidates_to_remove(self) -> tuple[PruneCandidate, ...]:
        """Return the prune candidates that are to be removed, now or later."""
        return tuple(candidate for candidate in self.prune_candidates if candidate.outcome is not PruneOutcome.KEEP)

    @property
    def source(self) -> str:
        """Return the source of the set, or of its former owner if the set is no longer wanted."""
        return self.rendered.source or self.former_source

    @property
    def writes(self) -> tuple[NodePlan, ...]:
        """Return the node plans, repairs included, that write now."""
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
        """Yield the writes and deletions that start now, as windows and gates select them."""
        for rendered, node_plans in (
            (self.rendered, self.nodes),
            (self.rendered.applied_rendering or self.rendered, self.repairs),
        ):
            for node_plan in node_plans:
                if (
                    node_plan.allowed
                    and node_plan.node.key
                    and node_plan.action not in {NodeAction.NONE, NodeAction.READ}
                ):
                    operation = node_plan.action.operation(is_applied=rendered.is_applied)
                    yield CandidateChange(
                        rendered, node_plan.node.key, operation, self._node_id(node_plan.node.id), node_plan.node.level
                    )
        for candidate in self.prune_candidates:
            if candidate.allowed and candidate.outcome is PruneOutcome.DELETE:
                member = candidate.member
                yield CandidateChange(
                    self.rendered, member.key, Operation.PRUNE, self._node_id(member.node_id), member.level
                )

    @property
    def parent_intent(self) -> tuple[object, ...]:
        """Return the changes that are due on the parent, as a value to compare."""
        return (
            self.superset_scope,
            self.exact_scope,
            self.target_revision,
            self.completion_record,
            self.detach,
            self.finish_deletion,
        )

    def _node_id(self, node: str) -> str:
        return "" if self.rendered.is_source else node

    @property
    def needs_applied_snapshot(self) -> bool:
        """Return whether a change or deletion lacks permission while the applied snapshot has not been read yet."""
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
        """Return the keys of nodes whose objects have to be read before an action can be decided."""
        return self._unread_keys(external=False)

    @property
    def references_to_read(self) -> tuple[ObjectKey, ...]:
        """Return the keys of further objects to read.

        These objects are external objects, objects that the health of nodes depends on, and the parents of lost sets.
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
        """Return when time alone next changes the health of a node, or None if it never does."""
        return min((node_plan.recheck_at for node_plan in self.nodes if node_plan.recheck_at), default=None)

    @property
    def is_idle(self) -> bool:
        """Return whether no action of this set may start now."""
        return not (
            self.has_member_changes or self.superset_scope or self.exact_scope or self.detach or self.finish_deletion
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of one reconciliation for all sets."""

    sets: tuple[ApplySetPlan, ...]

    @property
    def recheck_at(self) -> datetime | None:
        """Return when time alone next changes the health of a node, or None if it never does."""
        return min((moment for set_plan in self.sets if (moment := set_plan.recheck_at)), default=None)

    @property
    def is_idle(self) -> bool:
        """Return whether no action may start now."""
        return all(set_plan.is_idle for set_plan in self.sets)

    @property
    def changes(self) -> Iterator[CandidateChange]:
        """Yield the writes and deletions that start now, as windows and gates select them."""
        return (change for set_plan in self.sets for change in set_plan.changes)
