"""Changes for reviewers, from the preview of a reconciliation: field diffs, masked, with the obstacles of each change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any

from applier.applyset import adoption
from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.errors import ClusterError, Immutable
from applier.plan.model import ApplySetPlan, Barrier, CandidateChange, NodeAction, NodePlan, Operation, Plan
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.state.observed import annotation, is_terminating, label
from applier.state.structural_diff import FieldDiff
from gitops.plan.dependency_waits import add_dependency_waits
from gitops.plan.field_diff import creation_diff, diff_objects, field_value, intended_diff
from gitops.plan.foreign_sources import ForeignSources
from gitops.plan.masking import SecretMasks, has_snapshot_masks
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange
from gitops.reconcile.context import EventualPlan
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

FindTurn = Callable[[ApplySetPlan, ObjectKey], Cause | None]

BaseManifests = Mapping[tuple[ObjectKey, str], Manifest]
"""What nodes were in the base that could not be rendered to their end there, by set and id."""


@dataclass
class ChangeCollector:
    """Of one prospect. `turn` says why something is not done to an object before its instance has its turn; nothing but healing is done to the
    instances in `frozen`. `unresolved`, without a cluster, are nodes of the base whose values nobody knows: what equals them is unchanged. `levels`
    are those of the source's own objects, where the preview has only some of them. `refused` is what the schemas of the commit itself refuse. Data of
    objects in `hidden` are not known. `files` are those of the commit.
    `deletions` say why objects that somebody deleted are still there. `unchanged` counts, once all changes are made.
    """

    eventual_plan: EventualPlan
    masks: SecretMasks
    neighbours: ForeignSources
    barriers: Mapping[ObjectKey, Barrier]
    files: Collection[str]
    deletions: Mapping[ObjectKey, Cause]
    turn: FindTurn = lambda _, __: None
    frozen: Collection[ObjectKey] = ()
    unresolved: BaseManifests | None = None
    levels: Mapping[ObjectKey, int] = field(default_factory=dict)
    refused: Mapping[ObjectKey, ClusterError] = field(default_factory=dict)
    hidden: Collection[ObjectKey] = ()
    unchanged: int = 0

    def __post_init__(self) -> None:
        self._observed = self.eventual_plan.situation.observed
        self._declared_at = {
            node.key: node.origin for applyset in self.eventual_plan.bundle.sources.values() for node in applyset.nodes
        }
        self._failing = {
            node_plan.node.key
            for set_plan in self.eventual_plan.plan.sets
            for node_plan in set_plan.nodes
            if node_plan.node.error
        }
        self._users = {
            candidate.member.key: candidate.users
            for set_plan in self.eventual_plan.plan.sets
            for candidate in set_plan.prune_candidates
        }

    def collect(self) -> tuple[PlannedChange, ...]:
        """The source's own objects, then instances, each with its own object: written before its nodes, deleted after them."""
        return tuple(
            add_dependency_waits(
                self._ordered_changes(),
                self.eventual_plan.plan,
                self._users_of,
                self.barriers,
                self.unresolved,
                self.masks.mask_text,
            )
        )

    def _ordered_changes(self) -> list[PlannedChange]:
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
        if set_plan.error and set_plan.error.reason.is_failure and not set_plan.nodes:
            key, message = set_plan.rendered.parent, self.masks.mask_text(set_plan.error.message)
            if key.group_kind not in self.neighbours.hidden_kinds and key not in self._failing:
                yield PlannedChange(
                    PlannedAction.FAILED,
                    key,
                    str(key.group_kind),
                    None if set_plan.rendered.is_source else key,
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
        if node_plan.action in {NodeAction.NONE, NodeAction.RECORD} and not (
            node_plan.live and is_terminating(node_plan.live)
        ):
            return None
        rendered_node = node_plan.node
        action, message = self._action(set_plan, node_plan)
        if (
            action is PlannedAction.UNKNOWN
            and (self.unresolved or {}).get((set_plan.rendered.parent, rendered_node.id)) == rendered_node.manifest
        ):
            return None
        origin = self._source_location(set_plan, rendered_node)
        candidate_change = (
            CandidateChange(
                set_plan.rendered,
                rendered_node.key,
                _operation(set_plan, node_plan),
                _node_id(set_plan, rendered_node.id),
                rendered_node.level,
                live=node_plan.live,
            )
            if rendered_node.key
            else None
        )
        failure = self._observed.failures.get(rendered_node.key) if rendered_node.key else None
        difference = self._diff(set_plan, node_plan, action)
        if rendered_node.key in self.hidden:
            difference = tuple(field_diff for field_diff in difference if not field_diff.path.startswith("data"))
        if (
            action is PlannedAction.UPDATE
            and not (difference or message)
            and self._is_recorded_only(set_plan, node_plan)
        ):
            return None
        return PlannedChange(
            action,
            rendered_node.key and self.masks.mask_key(rendered_node.key),
            str(rendered_node.group_kind),
            self._instance(set_plan, rendered_node.key),
            _node_id(set_plan, rendered_node.id),
            self._level(set_plan, rendered_node.key, rendered_node.level),
            origin.file,
            origin.line,
            difference,
            self._obstacles_of(set_plan, candidate_change, node_plan, action)
            if candidate_change and action.is_change
            else (),
            tuple(cause.field for cause in failure.causes) if isinstance(failure, Immutable) else (),
            message=self.masks.mask_text("; ".join(filter(None, (message, self._describe_override(candidate_change))))),
        )

    def _describe_override(self, candidate_change: CandidateChange | None) -> str:
        """Who lets a change past a window that is closed, and why; empty where nobody does."""
        entry = self.eventual_plan.overrides(candidate_change) if candidate_change else None
        return f"passes closed windows by the break-glass of {entry.by}: {entry.why}" if entry else ""

    def _source_location(self, set_plan: ApplySetPlan, node: RenderedNode) -> SourceLocation:
        """Where the commit says it: of what a definition of another source makes, or a revision before, that is the instance."""
        if set_plan.rendered.is_source or node.origin.file in self.files:
            return node.origin
        instance = set_plan.rendered
        while instance.owner and (enclosing := self.eventual_plan.bundle.instances.get(instance.owner)):
            instance = enclosing
        return self._declared_at.get(instance.parent, node.origin)

    def _is_recorded_only(self, set_plan: ApplySetPlan, node_plan: NodePlan) -> bool:
        """Of what does not differ: is it written only to record what it was written from? A member is, if the server was asked, or could not be
        asked as what is there is masked.
        """
        return has_snapshot_masks(node_plan.live) or (
            node_plan.node.key in self.eventual_plan.answers and node_plan.live_set_id == set_plan.rendered.id
        )

    def _action(self, set_plan: ApplySetPlan, node_plan: NodePlan) -> tuple[PlannedAction, str]:
        if owner := self.neighbours.hidden_kinds.get(node_plan.node.group_kind):
            advice = f"no revision of it that this version can read is recorded in the cluster; run levelgate explain source/{owner}"
            return PlannedAction.UNKNOWN, f"its definition is in source {owner}, and {advice}"
        deletion = self.deletions.get(node_plan.node.key) if node_plan.node.key else None
        if node_plan.node.error:
            return PlannedAction.FAILED, "; ".join([node_plan.node.error, *([deletion.message] if deletion else [])])
        if node_plan.node.waiting:
            return (
                PlannedAction.UNKNOWN,
                f"waits for {', '.join(node_plan.node.waiting)}{self._describe_unknown_children(node_plan.node)}",
            )
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
            return (
                PlannedAction.UPDATE,
                f"handed over by {annotation(node_plan.live or {}, well_known.INSTANCE) or 'a source'}",
            )
        return _ACTIONS[node_plan.action], lost

    def _describe_unknown_children(self, node: RenderedNode) -> str:
        """What nobody can count of a nested instance that is not known yet."""
        definition = self.eventual_plan.bundle.definitions.get(node.group_kind)
        if definition is None:
            return ""
        return (
            f"; the outcome for its {join_names([child.id for child in definition.nodes], limit=5)} is known only then"
        )

    def _diff(self, set_plan: ApplySetPlan, node_plan: NodePlan, action: PlannedAction) -> tuple[FieldDiff, ...]:
        key, manifest = node_plan.node.key, node_plan.node.manifest
        match action:
            case PlannedAction.CREATE:
                return creation_diff(self.masks.mask_object(manifest))
            case PlannedAction.UNKNOWN if old := (self.unresolved or {}).get(
                (set_plan.rendered.parent, node_plan.node.id)
            ):
                return diff_objects(self.masks.mask_object(old), self.masks.mask_object(manifest))
            case PlannedAction.REPLACE if node_plan.live:
                return intended_diff(node_plan.live, manifest, self.masks)
        answer = self.eventual_plan.answers.get(key) if key else None
        if answer is None:
            return (
                intended_diff(node_plan.live, manifest, self.masks)
                if node_plan.live and action is PlannedAction.UPDATE
                else ()
            )
        live, _ = answer
        diff = diff_objects(*map(self.masks.mask_object, answer))
        if action is not PlannedAction.ADOPT:
            return diff
        removed_paths = {
            path.removeprefix(".")
            for path in adoption.undeclared_fields(live, manifest, node_plan.adoption.manager_prefixes)
        }
        masked_live = self.masks.mask_object(live)
        removed = (
            (path, field_value(masked_live, path))
            for path in sorted(removed_paths.difference(field_diff.path for field_diff in diff))
        )
        return (
            *diff,
            *(FieldDiff(path, "(set by its previous owner)" if old is None else old) for path, old in removed),
        )

    def _handovers(self, set_plan: ApplySetPlan) -> Iterator[PlannedChange]:
        """Members that are no longer wanted here, and that another source waits for."""
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
        candidate_change = CandidateChange(
            set_plan.rendered,
            member.key,
            Operation.PRUNE,
            _node_id(set_plan, member.node_id),
            member.level,
            live=self._observed.objects.get(member.key),
        )
        action = _PRUNE_ACTIONS[candidate.outcome]
        hold_obstacles = [obstacle_of(candidate.blocked)] if candidate.blocked and candidate.is_held else []
        if action is PlannedAction.KEEP:
            message = self.masks.mask_text(candidate.blocked.message) if candidate.blocked else ""
            return self._member_change(set_plan, member, action, obstacles=tuple(hold_obstacles), message=message)
        hold_obstacles += self._turn_obstacles(set_plan, member.key)
        if action is PlannedAction.RELEASE:
            return self._member_change(set_plan, member, action, obstacles=tuple(hold_obstacles))
        causes = (
            () if member.is_terminating else self.eventual_plan.hindrances(candidate_change)
        )  # somebody did it already
        deletion = self.deletions.get(member.key)
        hold_obstacles += [obstacle_of(deletion)] if deletion else []
        obstacles = tuple(dict.fromkeys([*hold_obstacles, *map(obstacle_of, causes)]))
        notes = (
            self._describe_deleted_children(member.key),
            self.masks.mask_text(self._describe_override(candidate_change)),
        )
        return self._member_change(
            set_plan,
            member,
            action,
            obstacles=obstacles,
            users=tuple(sorted(map(str, self._users_of(member.key)))),
            readers=candidate.going_readers,
            message=self.masks.mask_text(deletion.message) if deletion else "; ".join(filter(None, notes)),
        )

    def _describe_deleted_children(self, key: ObjectKey) -> str:
        """What goes with an instance of which nobody knows without a cluster what it is made of."""
        definition = self.eventual_plan.bundle.definitions.get(key.group_kind)
        if definition is None or key in self.eventual_plan.situation.plans:
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
        """What becomes of a live member that its set no longer wants."""
        file, line = _recorded_location(self._observed.objects.get(member.key))
        return PlannedChange(
            action,
            member.key,
            str(member.key.group_kind),
            self._instance(set_plan, member.key),
            _node_id(set_plan, member.node_id),
            self._level(set_plan, member.key, member.level),
            file,
            line,
            obstacles=obstacles,
            users=users,
            readers=readers,
            message=message,
        )

    def _users_of(self, key: ObjectKey) -> Sequence[ObjectKey]:
        return self._users.get(key, ())

    def _obstacles_of(
        self, set_plan: ApplySetPlan, candidate_change: CandidateChange, node_plan: NodePlan, action: PlannedAction
    ) -> tuple[Obstacle, ...]:
        """What people have said of it, its turn, and the gates. What is replaced is created again, and has to be allowed to."""
        hold_obstacles = [obstacle_of(node_plan.blocked)] if node_plan.blocked and node_plan.is_held else []
        if deletion := self.deletions.get(candidate_change.key):
            hold_obstacles.append(obstacle_of(deletion))
        judged_changes = (
            (candidate_change, candidate_change._replace(operation=Operation.CREATE))
            if action is PlannedAction.REPLACE
            else (candidate_change,)
        )
        return tuple(
            dict.fromkeys(
                [
                    *hold_obstacles,
                    *self._turn_obstacles(set_plan, candidate_change.key),
                    *map(obstacle_of, chain.from_iterable(map(self.eventual_plan.hindrances, judged_changes))),
                ]
            )
        )

    def _turn_obstacles(self, set_plan: ApplySetPlan, key: ObjectKey) -> list[Obstacle]:
        cause = self.turn(set_plan, key)
        return [obstacle_of(cause)] if cause else []

    def _level(self, set_plan: ApplySetPlan, key: ObjectKey | None, level: int | None) -> int | None:
        return self.levels.get(key, level) if set_plan.rendered.is_source and key else level

    def _instance(self, set_plan: ApplySetPlan, key: ObjectKey | None) -> ObjectKey | None:
        """The instance that a change is shown with: its own object is one of the source's."""
        if not set_plan.rendered.is_source:
            return set_plan.rendered.parent
        return key if key in self.eventual_plan.situation.plans else None


def blocked_deletions(plan: Plan) -> Mapping[ObjectKey, Cause]:
    """Return why objects that somebody deleted are still there, where that is not a matter of time alone."""
    nodes = ((node.node.key, node.blocked) for one in plan.sets for node in one.nodes)
    candidates = (
        (one.member.key, one.blocked)
        for set_plan in plan.sets
        for one in set_plan.prune_candidates
        if one.member.is_terminating
    )
    return {
        key: cause
        for key, cause in chain(nodes, candidates)
        if key and cause and cause.reason is Reason.DELETION_BLOCKED
    }


def _operation(set_plan: ApplySetPlan, node_plan: NodePlan) -> Operation:
    return node_plan.action.operation(is_applied=set_plan.rendered.is_applied)


def _node_id(set_plan: ApplySetPlan, node_id: str) -> str:
    return "" if set_plan.rendered.is_source else node_id


def obstacle_of(cause: Cause) -> Obstacle:
    name = cause.references[0].name if cause.references else ""
    is_of_items = not (cause.details.get("position") or {"wave": "any"})["wave"]
    return Obstacle(cause.reason, cause.message, name, cause.until, is_of_items)


def _describe_lost_fields(node_plan: NodePlan) -> str:
    """Return what others changed and is healed, and what stays a conflict after that."""
    healed = join_names(node_plan.lost_fields, limit=3, separator="; ")
    contested = join_names(node_plan.contested_fields, limit=3, separator="; ")
    return f"{healed}; {Reason.CONFLICT}: {contested}, and stays so" if contested else healed


def _recorded_location(live: Mapping[str, Any] | None) -> tuple[str, int]:
    file, _, line = annotation(live or {}, well_known.FILE).rpartition(":")
    return file, int(line) if line.isdecimal() else 0
