"""Planned changes of a preview, each with its masked field diff, its obstacles and the reason for its action.

A preview has up to two prospects: the state after all moves to a new revision, and the state before these moves. A
handover is the transfer of an object from a set to the set of another source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from applier.applyset import adoption
from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.errors import ClusterError, Immutable
from applier.plan.model import ApplySetPlan, Barrier, NodeAction, NodePlan, Operation
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome
from applier.state.observed import Observed, annotation, is_terminating, label
from applier.state.structural_diff import FieldDiff
from gitops.plan.comparison_base import ComparisonBase
from gitops.plan.dependency_waits import add_dependency_waits
from gitops.plan.field_diff import creation_diff, diff_objects, intended_diff, removal_diff
from gitops.plan.foreign_sources import ForeignSources
from gitops.plan.masking import SecretMasks, has_snapshot_masks
from gitops.plan.obstacles import FindTurn, ObstacleFinder, hold_obstacles
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange
from gitops.reconcile.preview import EventualPlan
from renderer import well_known
from renderer.errors import SourceLocation
from renderer.frozen import dataclass
from renderer.identity import Manifest, ObjectKey
from renderer.phrasing import join_names
from renderer.render.model import RenderedNode

_ACTIONS = {
    NodeAction.CREATE: PlannedAction.CREATE,
    NodeAction.UPDATE: PlannedAction.UPDATE,
    NodeAction.HEAL: PlannedAction.UPDATE,
    NodeAction.REPLACE: PlannedAction.REPLACE,
    NodeAction.ADOPT: PlannedAction.ADOPT,
    NodeAction.READ: PlannedAction.UNKNOWN,
    NodeAction.UNKNOWN: PlannedAction.UNKNOWN,
}
_PRUNE_ACTIONS = {
    PruneOutcome.DELETE: PlannedAction.DELETE,
    PruneOutcome.RELEASE: PlannedAction.RELEASE,
    PruneOutcome.KEEP: PlannedAction.KEEP,
}


@dataclass
class ChangeCollector:
    """Collector of a preview's changes: all changes, or only the changes before instances move to a new revision."""

    eventual_plan: EventualPlan
    masks: SecretMasks
    neighbours: ForeignSources
    comparison: ComparisonBase
    barriers: Mapping[ObjectKey, Barrier]
    """Barrier of each instance whose nodes wait for more than their dependencies."""

    files: Collection[str]
    """Paths of all files of the commit."""

    deletions: Mapping[ObjectKey, Cause]
    """Cause that blocks an unfinished deletion, by object with a `deletionTimestamp`."""

    refused: Mapping[ObjectKey, ClusterError]
    """Error with which the schemas of the same commit reject an object, by object."""

    turn: FindTurn = lambda _, __: None
    frozen: Collection[ObjectKey] = ()
    """Instances that receive no change except the healing of drift."""

    hidden: Collection[ObjectKey] = ()
    """Objects whose `data` is unknown. The diffs of these objects leave out the `data`."""

    unchanged: int = 0
    """Number of objects without a change. The number is complete after `collect` returns."""

    @cached_property
    def _observed(self) -> Observed:
        return self.eventual_plan.observed

    @cached_property
    def _obstacles(self) -> ObstacleFinder:
        return ObstacleFinder(self.eventual_plan, self.deletions, self.turn)

    @cached_property
    def _declared_at(self) -> Mapping[ObjectKey | None, SourceLocation]:
        sources = self.eventual_plan.bundle.sources.values()
        return {node.key: node.origin for applyset in sources for node in applyset.nodes}

    @cached_property
    def _failing(self) -> Collection[ObjectKey | None]:
        plans = (node_plan for set_plan in self.eventual_plan.plan.sets for node_plan in set_plan.nodes)
        return {node_plan.node.key for node_plan in plans if node_plan.node.error}

    @cached_property
    def _users(self) -> Mapping[ObjectKey, Sequence[ObjectKey]]:
        return {
            candidate.member.key: candidate.users
            for set_plan in self.eventual_plan.plan.sets
            for candidate in set_plan.prune_candidates
        }

    def collect(self) -> tuple[PlannedChange, ...]:
        """Return the changes: first the source's own objects, then each instance with its nodes.

        The object of a written instance precedes the nodes of the instance. The object of a deleted instance follows
        the nodes.
        """
        return tuple(
            add_dependency_waits(
                self._ordered_changes(),
                self.eventual_plan.plan,
                self._users_of,
                self.barriers,
                self.comparison.unresolved,
                self.masks.mask_text,
            )
        )

    def _ordered_changes(self) -> list[PlannedChange]:
        """Return all changes in the order of `collect`, without obstacles from waits for other objects."""
        source_changes: list[PlannedChange] = []
        by_instance: dict[ObjectKey, tuple[list[PlannedChange], list[PlannedChange], list[PlannedChange]]] = {}
        for set_plan in self.eventual_plan.plan.sets:
            for change in self._set_changes(set_plan):
                if not set_plan.rendered.is_source:
                    by_instance.setdefault(set_plan.rendered.parent, ([], [], []))[1].append(change)
                elif change.instance:
                    comes_last = change.action in _PRUNE_ACTIONS.values()
                    by_instance.setdefault(change.instance, ([], [], []))[2 if comes_last else 0].append(change)
                else:
                    source_changes.append(change)
        return [*source_changes, *(change for parts in by_instance.values() for part in parts for change in part)]

    def _set_changes(self, set_plan: ApplySetPlan) -> Iterator[PlannedChange]:
        """Yield a set's changes: the failure of a set without nodes, then nodes, prune candidates and handovers."""
        if set_plan.error and set_plan.error.reason.is_failure and not set_plan.nodes:
            key, message = set_plan.rendered.parent, self.masks.mask_text(set_plan.error.message)
            if key.group_kind not in self.neighbours.hidden_kinds and key not in self._failing:
                yield PlannedChange(
                    PlannedAction.FAILED,
                    key,
                    str(key.group_kind),
                    instance=None if set_plan.rendered.is_source else key,
                    message=message,
                )
        is_frozen = set_plan.rendered.parent in self.frozen
        for node_plan in set_plan.nodes:
            if not (node_plan.node.external or (is_frozen and _operation(set_plan, node_plan) is not Operation.HEAL)):
                if change := self._node_change(set_plan, node_plan):
                    yield change
                else:
                    self.unchanged += 1
        for candidate in () if is_frozen else set_plan.prune_candidates:
            yield self._prune_change(set_plan, candidate)
        yield from self._handovers(set_plan)

    def _node_change(self, set_plan: ApplySetPlan, node_plan: NodePlan) -> PlannedChange | None:
        """Return the change of a node, or None if a reader would see no difference."""
        if node_plan.action in {NodeAction.NONE, NodeAction.RECORD} and not (
            node_plan.live and is_terminating(node_plan.live)
        ):
            return None
        node = node_plan.node
        action, message = self._action(set_plan, node_plan)
        if action is PlannedAction.UNKNOWN and self._base_manifest(set_plan, node) == node.manifest:
            return None
        origin = self._source_location(set_plan, node)
        candidate_change = set_plan.node_change(node_plan)
        failure = self._observed.failures.get(node.key) if node.key else None
        difference = self._diff(set_plan, node_plan, action)
        if node.key in self.hidden:
            difference = tuple(field_diff for field_diff in difference if not field_diff.path.startswith("data"))
        is_same_content = action is PlannedAction.UPDATE and not difference and not message
        if is_same_content and self._is_recorded_only(set_plan, node_plan):
            return None
        obstacles: tuple[Obstacle, ...] = ()
        if candidate_change and action.is_change:
            obstacles = self._obstacles.of_node(set_plan, node_plan, candidate_change, action)
        return PlannedChange(
            action,
            node.key and self.masks.mask_key(node.key),
            str(node.group_kind),
            instance=self._instance(set_plan, node.key),
            node=set_plan.node_id(node.id),
            level=self._level(set_plan, node.key, node.level),
            file=origin.file,
            line=origin.line,
            diff=difference,
            obstacles=obstacles,
            immutable=tuple(cause.field for cause in failure.causes) if isinstance(failure, Immutable) else (),
            message=self.masks.mask_text(_join_notes(message, self._obstacles.describe_override(candidate_change))),
        )

    def _base_manifest(self, set_plan: ApplySetPlan, node: RenderedNode) -> Manifest | None:
        """Return the base commit's manifest of a node, or None if the node does not wait for values in the base."""
        return (self.comparison.unresolved or {}).get((set_plan.rendered.parent, node.id))

    def _source_location(self, set_plan: ApplySetPlan, node: RenderedNode) -> SourceLocation:
        """Return the file and line of the commit that declare a node.

        If the definition of the node belongs to another source or is an earlier revision, the commit does not contain
        the definition. In that case, return the location of the outermost instance.
        """
        if set_plan.rendered.is_source or node.origin.file in self.files:
            return node.origin
        instance = set_plan.rendered
        while instance.owner and (enclosing := self.eventual_plan.bundle.instances.get(instance.owner)):
            instance = enclosing
        return self._declared_at.get(instance.parent, node.origin)

    def _is_recorded_only(self, set_plan: ApplySetPlan, node_plan: NodePlan) -> bool:
        """Return whether an update that shows no difference changes only Levelgate's records on the object.

        If the object has masked values, a dry run is not possible, and the result is True. For any other object, the
        result is True only if the object is a member of the planned set and had a dry run.
        """
        return has_snapshot_masks(node_plan.live) or (
            node_plan.node.key in self.eventual_plan.answers and node_plan.live_set_id == set_plan.rendered.id
        )

    def _action(self, set_plan: ApplySetPlan, node_plan: NodePlan) -> tuple[PlannedAction, str]:
        """Return the action on a node, and the reason for the action or an empty string."""
        if owner := self.neighbours.hidden_kinds.get(node_plan.node.group_kind):
            gap = f"the definition of the kind is in source {owner}, and the cluster has no readable revision of it"
            return PlannedAction.UNKNOWN, f"{gap}; run levelgate explain source/{owner}"
        deletion = self.deletions.get(node_plan.node.key) if node_plan.node.key else None
        if node_plan.node.error:
            return PlannedAction.FAILED, _join_notes(node_plan.node.error, deletion.message if deletion else "")
        if node_plan.node.waiting:
            children = self._describe_unknown_children(node_plan.node)
            return PlannedAction.UNKNOWN, f"waits for {', '.join(node_plan.node.waiting)}{children}"
        if node_plan.blocked and node_plan.blocked.reason.is_failure:
            return PlannedAction.FAILED, f"{node_plan.blocked.reason}: {node_plan.blocked.message}"
        if node_plan.node.key and (refusal := self.refused.get(node_plan.node.key)):
            cause = Cause.from_error(refusal)
            return PlannedAction.FAILED, f"{cause.reason}: {cause.message}"
        if node_plan.live and is_terminating(node_plan.live):
            deletion = deletion or node_plan.blocked
            return PlannedAction.REPLACE, deletion.message if deletion else ""
        lost = _describe_lost_fields(node_plan) if node_plan.action is NodeAction.HEAL else ""
        if node_plan.action is NodeAction.UPDATE and node_plan.live_set_id not in {"", set_plan.rendered.id}:
            previous_owner = annotation(node_plan.live or {}, well_known.INSTANCE) or "a source"
            return PlannedAction.UPDATE, f"handed over by {previous_owner}"
        return _ACTIONS[node_plan.action], lost

    def _describe_unknown_children(self, node: RenderedNode) -> str:
        """Return a phrase that names the nodes of a nested instance that has no rendering, or an empty string."""
        definition = self.eventual_plan.bundle.definitions.get(node.group_kind)
        if definition is None:
            return ""
        names = join_names([child.id for child in definition.nodes], limit=5)
        return f"; the outcome for its {names} is known only then"

    def _diff(self, set_plan: ApplySetPlan, node_plan: NodePlan, action: PlannedAction) -> tuple[FieldDiff, ...]:
        """Return the masked field diff of a node, from its dry run or, if it has none, from its manifest."""
        key, manifest = node_plan.node.key, node_plan.node.manifest
        match action:
            case PlannedAction.CREATE:
                return creation_diff(self.masks.mask_object(manifest))
            case PlannedAction.UNKNOWN if old := self._base_manifest(set_plan, node_plan.node):
                return diff_objects(self.masks.mask_object(old), self.masks.mask_object(manifest))
            case PlannedAction.REPLACE if node_plan.live:
                return intended_diff(node_plan.live, manifest, self.masks)
        answer = self.eventual_plan.answers.get(key) if key else None
        if answer is None:
            is_update = action is PlannedAction.UPDATE
            return intended_diff(node_plan.live, manifest, self.masks) if node_plan.live and is_update else ()
        live, _ = answer
        diff = diff_objects(*map(self.masks.mask_object, answer))
        if action is not PlannedAction.ADOPT:
            return diff
        # Adoption also removes fields of the previous owner. A dry run does not show this removal.
        removed_paths = {
            path.removeprefix(".")
            for path in adoption.undeclared_fields(live, manifest, node_plan.adoption.manager_prefixes)
        }
        masked_live = self.masks.mask_object(live)
        return (*diff, *removal_diff(masked_live, removed_paths.difference(field_diff.path for field_diff in diff)))

    def _handovers(self, set_plan: ApplySetPlan) -> Iterator[PlannedChange]:
        """Yield a change for each member that the set of `set_plan` no longer wants and that another source claims."""
        wanted_keys, live = {node_plan.node.key for node_plan in set_plan.nodes}, self._observed.objects
        for key, name in self.neighbours.claims.items():
            if key not in wanted_keys and label(live.get(key, {}), well_known.PART_OF) == set_plan.rendered.id:
                yield self._member_change(
                    set_plan,
                    Member.from_object(live[key]),
                    PlannedAction.UPDATE,
                    message=f"handed over to source {name}",
                )

    def _prune_change(self, set_plan: ApplySetPlan, candidate: PruneCandidate) -> PlannedChange:
        member = candidate.member
        candidate_change = set_plan.prune_change(candidate, self._observed.objects.get(member.key))
        action = _PRUNE_ACTIONS[candidate.outcome]
        if action is PlannedAction.KEEP:
            message = self.masks.mask_text(candidate.blocked.message) if candidate.blocked else ""
            return self._member_change(set_plan, member, action, obstacles=hold_obstacles(candidate), message=message)
        if action is PlannedAction.RELEASE:
            obstacles = (*hold_obstacles(candidate), *self._obstacles.of_turn(set_plan, member.key))
            return self._member_change(set_plan, member, action, obstacles=obstacles)
        deletion = self.deletions.get(member.key)
        notes = (
            self._describe_deleted_children(member.key),
            self.masks.mask_text(self._obstacles.describe_override(candidate_change)),
        )
        return self._member_change(
            set_plan,
            member,
            action,
            obstacles=self._obstacles.of_prune(set_plan, candidate, candidate_change),
            users=tuple(sorted(map(str, self._users_of(member.key)))),
            readers=candidate.going_readers,
            message=self.masks.mask_text(deletion.message) if deletion else _join_notes(*notes),
        )

    def _describe_deleted_children(self, key: ObjectKey) -> str:
        """Return a phrase that names the nodes deleted with an instance, or "" if the plan lists these nodes."""
        definition = self.eventual_plan.bundle.definitions.get(key.group_kind)
        if definition is None or key in self.eventual_plan.plans:
            return ""
        return f"with its {join_names([child.id for child in definition.nodes], limit=5)}, as far as they exist"

    def _member_change(
        self,
        set_plan: ApplySetPlan,
        member: Member,
        action: PlannedAction,
        *,
        obstacles: tuple[Obstacle, ...] = (),
        users: tuple[str, ...] = (),
        readers: tuple[ObjectKey, ...] = (),
        message: str = "",
    ) -> PlannedChange:
        """Return the change of a live member that `set_plan` deletes, releases, keeps or hands over."""
        file, line = _recorded_location(self._observed.objects.get(member.key))
        return PlannedChange(
            action,
            member.key,
            str(member.key.group_kind),
            instance=self._instance(set_plan, member.key),
            node=set_plan.node_id(member.node_id),
            level=self._level(set_plan, member.key, member.level),
            file=file,
            line=line,
            obstacles=obstacles,
            users=users,
            readers=readers,
            message=message,
        )

    def _users_of(self, key: ObjectKey) -> Sequence[ObjectKey]:
        return self._users.get(key, ())

    def _level(self, set_plan: ApplySetPlan, key: ObjectKey | None, level: int | None) -> int | None:
        return self.comparison.levels.get(key, level) if set_plan.rendered.is_source and key else level

    def _instance(self, set_plan: ApplySetPlan, key: ObjectKey | None) -> ObjectKey | None:
        """Return the instance under which a report shows a change. An instance's object belongs to that instance."""
        if not set_plan.rendered.is_source:
            return set_plan.rendered.parent
        return key if key in self.eventual_plan.plans else None


def _operation(set_plan: ApplySetPlan, node_plan: NodePlan) -> Operation:
    return node_plan.action.operation(is_applied=set_plan.rendered.is_applied)


def _join_notes(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _describe_lost_fields(node_plan: NodePlan) -> str:
    """Return a phrase with the names of healed fields, and of fields that still conflict with another field manager."""
    healed = join_names(node_plan.lost_fields, limit=3, separator="; ")
    contested = join_names(node_plan.contested_fields, limit=3, separator="; ")
    return f"{healed}; {Reason.CONFLICT}: {contested}, which stays in conflict" if contested else healed


def _recorded_location(live: Mapping[str, Any] | None) -> tuple[str, int]:
    file, _, line = annotation(live or {}, well_known.FILE).rpartition(":")
    return file, int(line) if line.isdecimal() else 0
