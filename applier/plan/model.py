"""Values of a plan: the action due on each node, and the actions due on the parent of each ApplySet.

A node without a permitted action carries its cause. `RefusedWrite` identifies a write that the server refused, so that an
equal write is not sent again too early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.applyset.inventory import Scope
from applier.causes import Cause
from applier.cluster import Object
from applier.errors import ClusterError
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.state.managed_fields import LostField
from applier.state.observed import label
from renderer import well_known
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode

RefusedWriteKey = tuple[ObjectKey, ObjectKey]
"""The parent of the set for which something is written, and the object."""


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """What was answered (`error`) to which `intent`, when the object was as `live` says (None: absent). See `essence`."""

    error: ClusterError
    intent: Any
    live: Mapping[str, Any] | None

    def is_same(self, intent: Any, live: Object | None) -> bool:
        """Would this be the same write on the same object?"""
        return bool(self.intent == intent) and self.live == refusal_relevant_state(live)


def refusal_relevant_state(live: Object | None) -> Mapping[str, Any] | None:
    """All of an object that a write may be refused because of: not its status, nor who wrote that, nor when."""
    if live is None:
        return None
    metadata = {
        name: value for name, value in live["metadata"].items() if name not in {"resourceVersion", "managedFields"}
    }
    entries = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in live["metadata"].get("managedFields") or ()
        if entry.get("subresource") != "status"
    ]
    return {**live, "status": None, "metadata": {**metadata, "managedFields": entries}}


class NodeAction(StrEnum):
    """What it takes to bring one object to its manifest.

    `adopt` takes an object that is in no set, `replace` deletes one that cannot be changed, so that it is created anew, `record` renews
    bookkeeping only, `look` reads before the first write, `unknown` cannot be told until the node is rendered.
    """

    CREATE = "create"
    UPDATE = "update"
    HEAL = "heal"
    REPLACE = "replace"
    ADOPT = "adopt"
    RECORD = "record"
    READ = "look"
    UNKNOWN = "unknown"
    NONE = "unchanged"

    def operation(self, *, is_applied: bool) -> Operation:
        """What the write does; of a set that `is_applied` nothing is new, so whatever differs is restored."""
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
    """What a write does, as gates see it. `heal` restores what was brought about before; `record` is bookkeeping, which nothing governs."""

    CREATE = "create"
    UPDATE = "update"
    PRUNE = "prune"
    HEAL = "heal"
    RECORD = "record"


class Barrier(StrEnum):
    """What a node waits for beside what it depends on: nothing; the levels before it; or these also where they wait at a gate (S0-9, S0-26)."""

    PATH = "Path"
    LEVEL = "Level"
    ALL = "All"


class DrainProgress(NamedTuple):
    """How far a set has been moved already: the highest `level` with a node that was, and `since` when the first was, as the server says."""

    level: int
    since: datetime


class CandidateChange(NamedTuple):
    """A write or deletion that could start now. `node` is the id of the node, empty outside of instances; `live` the object, None where there is
    none. `begun` is None where nothing of the set has been moved.
    """

    set: RenderedApplySet
    key: ObjectKey
    operation: Operation
    node_id: str = ""
    level: int | None = None
    drain_progress: DrainProgress | None = None
    live: Object | None = None


def _permit_all(_: CandidateChange) -> Cause | None:
    return None


@dataclass(frozen=True, slots=True)
class ChangePermissions:
    """What may start, as those say who look after time, pace and people. `check`: why a change may not start now, None when it may.

    `targets` are the revisions that instances were let move to; `suspended`: of these nothing is written at all. `barriers`
    are those of instances whose nodes wait for more than what they depend on.
    """

    check: Callable[[CandidateChange], Cause | None] = _permit_all
    targets: Mapping[ObjectKey, int] = field(default_factory=dict)
    suspended: Mapping[ObjectKey, Cause] = field(default_factory=dict)
    barriers: Mapping[ObjectKey, Barrier] = field(default_factory=dict)

    def with_recorded_answers(self, answers: list[PermissionAnswer]) -> ChangePermissions:
        """The same gates; what a plan asks them is noted, with the answer."""

        def check(change: CandidateChange) -> Cause | None:
            answers.append((change, self.check(change)))
            return answers[-1][1]

        return replace(self, check=check)

    def gives_same_answers(self, other: ChangePermissions, answers: Iterable[PermissionAnswer]) -> bool:
        """Is a plan that `other` gave these answers for the plan that these gates would make?"""
        is_same_otherwise = replace(self, check=_permit_all) == replace(other, check=_permit_all)
        return is_same_otherwise and all(self.check(change) == answer for change, answer in answers)


PermissionAnswer = tuple[CandidateChange, Cause | None]
"""What a plan asked its gates, and what they said."""


class NodePlan(NamedTuple):
    """One node: what it takes, whether that may happen now, and if not, why. `ready` and `healthy` speak of what is live, as
    its controller has seen it last.

    `sick` is why it is not healthy, for people; empty where its own status tells that. Fields of managers whose names begin with one of `takes` are
    taken over; a claim of any other manager is a conflict to report. `lost` are the fields that are to be healed, and who has them; `adoption` is
    what its source may adopt. `turns_at` is when its age alone makes it healthy, or ill (None: never); its health `health_reference` another
    object as well. `is_gone`: a Job that has completed and that its TTL took away; `live` is None then.
    """

    node: RenderedNode
    verb: NodeAction
    live: Object | None
    allowed: bool = False
    ready: bool = False
    healthy: bool = False
    blocked: Cause | None = None
    dependencies: tuple[str, ...] = ()
    forced_managers: tuple[str, ...] = ()
    lost_fields: tuple[LostField, ...] = ()
    adoption: Adoption = NO_ADOPTION
    unhealthy_message: str = ""
    recheck_at: datetime | None = None
    health_reference: ObjectKey | None = None
    is_ttl_removed: bool = False

    @property
    def exists(self) -> bool:
        """It is live, or is not missed any more."""
        return self.live is not None or self.is_ttl_removed

    @property
    def live_set_id(self) -> str:
        """The id of the set that its object is a member of; empty where it is of none, or is only referred to."""
        return label(self.live, well_known.PART_OF) if self.live and not self.node.external else ""

    @property
    def is_current(self) -> bool:
        return self.exists and self.verb in _APPLIED_ACTIONS

    @property
    def is_writable(self) -> bool:
        """It is known what it is to become, and nothing but time stands in the way."""
        return self.node.writable and not (self.blocked is not None and self.blocked.reason.is_failure)

    @property
    def is_held(self) -> bool:
        """A person has decided that it waits."""
        return self.blocked is not None and self.blocked.reason.is_hold

    @property
    def lacks_permission(self) -> bool:
        """It would be brought to its manifest if time, pace and people allowed it."""
        return self.blocked is not None and self.blocked.reason.is_missing_permission

    @property
    def is_applied_and_ready(self) -> bool:
        """Its dependents may start."""
        return self.is_current and self.ready


@dataclass(frozen=True, slots=True)
class ApplySetPlan:
    """One ApplySet: its nodes, its orphans, and what is due for its parent.

    `repairs` heal, from the applied pair, what waits at a gate, its deletion as well; `target` is the revision that it was let move to, 0 where
    nobody said, and `completed` the Jobs that its parent has to record. `stays` says why it is not moved to where Git wants it, `deadlock` that it
    never will be as things are, `error` why nothing of it may be touched, `stuck` why its parent could not be written in this pass, or may not go
    yet. An `untouched` set is one of which nothing is known but that it may still be wanted: its status stays as well. `left` is the source that
    nothing of wants it any more.
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
    exact_scope: Scope | None = None
    detach: bool = False
    finish_deletion: bool = False
    not_moved: Cause | None = None
    deadlock: Cause | None = None
    error: Cause | None = None
    parent_error: Cause | None = None
    is_unknown: bool = False
    former_source: str = ""

    @property
    def candidates_to_remove(self) -> tuple[PruneCandidate, ...]:
        """The orphans that do not stay, whatever they wait for."""
        return tuple(candidate for candidate in self.prune_candidates if candidate.outcome is not PruneOutcome.KEEP)

    @property
    def source(self) -> str:
        """The source that it belongs to, or did until it was to go."""
        return self.rendered.source or self.former_source

    @property
    def writes(self) -> tuple[NodePlan, ...]:
        nodes = (*self.nodes, *self.repairs)
        return tuple(
            node_plan
            for node_plan in nodes
            if node_plan.allowed and node_plan.verb not in {NodeAction.NONE, NodeAction.READ}
        )

    @property
    def has_member_changes(self) -> bool:
        """Does it write or delete members now?"""
        return bool(self.writes) or any(candidate.allowed for candidate in self.prune_candidates)

    @property
    def changes(self) -> Iterator[CandidateChange]:
        """What it writes and deletes now, as gates see it."""
        for rendered, node_plans in (
            (self.rendered, self.nodes),
            (self.rendered.applied_rendering or self.rendered, self.repairs),
        ):
            for node_plan in node_plans:
                if (
                    node_plan.allowed
                    and node_plan.node.key
                    and node_plan.verb not in {NodeAction.NONE, NodeAction.READ}
                ):
                    operation = node_plan.verb.operation(is_applied=rendered.is_applied)
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
        """What its parent is to become."""
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
        """Something of it waits at a gate, or is to go, and what was applied before is not known yet."""
        rendered = self.rendered
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
        """Keys to be read before anything can be said of them."""
        return self._unread_keys(external=False)

    @property
    def references_to_read(self) -> tuple[ObjectKey, ...]:
        """Keys of objects that are only referred to and have to be read."""
        return (
            *self._unread_keys(external=True),
            *(node_plan.health_reference for node_plan in self.nodes if node_plan.health_reference),
        )

    def _unread_keys(self, *, external: bool) -> tuple[ObjectKey, ...]:
        nodes_to_read = (
            node_plan.node for node_plan in (*self.nodes, *self.repairs) if node_plan.verb is NodeAction.READ
        )
        return tuple(node.key for node in nodes_to_read if node.key and node.external is external)

    @property
    def recheck_at(self) -> datetime | None:
        """When time alone makes something of it healthy, or ill; None: never."""
        return min((node_plan.recheck_at for node_plan in self.nodes if node_plan.recheck_at), default=None)

    @property
    def is_idle(self) -> bool:
        """Nothing of this set may be done now."""
        return not (
            self.has_member_changes or self.superset_scope or self.exact_scope or self.detach or self.finish_deletion
        )


@dataclass(frozen=True, slots=True)
class Plan:
    sets: tuple[ApplySetPlan, ...]

    @property
    def recheck_at(self) -> datetime | None:
        """When time alone makes something healthy, or ill; None: never."""
        return min((moment for set_plan in self.sets if (moment := set_plan.recheck_at)), default=None)

    @property
    def is_idle(self) -> bool:
        return all(set_plan.is_idle for set_plan in self.sets)

    @property
    def changes(self) -> Iterator[CandidateChange]:
        """What it writes and deletes now, as gates see it."""
        return (change for set_plan in self.sets for change in set_plan.changes)


@dataclass(frozen=True, slots=True)
class DeletionBrake:
    """How many deletions of one commit are too many: more than `deletions`, and more than `percent` of the source's live members."""

    deletions: int = 5
    percent: int = 20


DEFAULT_BRAKE = DeletionBrake()
"""The default."""


@dataclass(frozen=True, slots=True)
class PlanConstraints:
    """What our own records say beyond what is live: scopes of instances whose object may be gone, unreadable files, held pruning, the
    sources whose deletions a person approved for this commit, repairs that wait because others undo them again and again, and, by source,
    what it may adopt and when the brake holds its deletions. Sources that are `non_pruning_sources` have nothing of
    theirs deleted. `epoch` is the term
    of leadership, 0 where nobody leads. Of sets in `partial` only a part is planned: nothing of them is pruned, and their scope is not
    narrowed. What was `refused` is not written again as long as nothing has changed of it. `neighbours` are sources that are not planned
    here, by the ids of their sets, empty where nobody knows whose set it is; `claims` is what these want of ours, each with who does, `left`
    what Git no longer wants there, with the ids of the sets of instances among that: whoever wants it may have it.
    """

    scopes: Mapping[ObjectKey, Scope] = field(default_factory=dict)
    unreadable_files: Mapping[str, UnreadableFiles] = field(default_factory=dict)
    pruning_holds: Mapping[str, str] = field(default_factory=dict)
    approved_sources: frozenset[str] = frozenset()
    throttled_repairs: Mapping[ObjectKey, Cause] = field(default_factory=dict)
    adoptions: Mapping[str, Adoption] = field(default_factory=dict)
    brakes: Mapping[str, DeletionBrake] = field(default_factory=dict)
    non_pruning_sources: frozenset[str] = frozenset()
    epoch: int = 0
    partial_sets: frozenset[ObjectKey] = frozenset()
    refused_writes: Mapping[RefusedWriteKey, RefusedWrite] = field(default_factory=dict)
    foreign_sources: Mapping[str, str] = field(default_factory=dict)
    foreign_claims: Mapping[ObjectKey, ObjectKey] = field(default_factory=dict)
    relinquished_keys: frozenset[ObjectKey] = frozenset()
    relinquished_sets: frozenset[str] = frozenset()
