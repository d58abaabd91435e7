"""Changes in two steps: a step at once, and a step when an instance moves to another revision of its definition.

While an instance waits for its turn in a rollout, the instance still changes at its present revision. Levelgate applies
new values of the instance and heals drift. A new instance may start at the revision whose rollout completed last. The
move to the new revision follows later. So a preview has two prospects: the state before instances move, and the state
after they move. An object that is equal in both prospects changes at once. An object that differs changes in two steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from applier.causes import Cause
from applier.cluster import Object
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan
from applier.state.structural_diff import FieldDiff
from gitops.plan.field_diff import creation_diff, diff_objects, intended_diff
from gitops.plan.masking import SecretMasks
from gitops.plan.obstacles import obstacle_of
from gitops.plan.report import InterimChange, PlannedAction, PlannedChange
from gitops.reconcile.preview import EventualPlan, Preview
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode

_REMOVING_ACTIONS = frozenset({PlannedAction.DELETE, PlannedAction.RELEASE})
_CREATING_ACTIONS = frozenset({PlannedAction.CREATE, PlannedAction.ADOPT, PlannedAction.REPLACE})

SetObjectKey = tuple[ObjectKey, ObjectKey]
"""Parent of a set, and a masked object key."""


@dataclass
class InterimChanges:
    """Division of changes into changes at once and changes at the turn of an instance. All keys are masked."""

    preview: Preview
    unmoved_plan: EventualPlan
    masks: SecretMasks

    @cached_property
    def _stays(self) -> Mapping[ObjectKey, Cause]:
        return self.preview.first.propagation.stays

    @cached_property
    def _frozen(self) -> Collection[ObjectKey]:
        return self.preview.first.propagation.frozen

    @cached_property
    def _instances(self) -> Mapping[ObjectKey, RenderedApplySet]:
        return {**self.preview.due.bundle.instances, **self.unmoved_plan.bundle.instances}

    @cached_property
    def _source(self) -> ObjectKey:
        return next(set_plan.rendered.parent for set_plan in self.unmoved_plan.plan.sets if set_plan.rendered.is_source)

    @cached_property
    def _outcomes_before_move(self) -> Mapping[SetObjectKey, object]:
        return dict(self._outcomes(self.unmoved_plan, excluded=self._frozen))

    @cached_property
    def _outcomes_after_move(self) -> Mapping[SetObjectKey, object]:
        return dict(self._outcomes(self.preview.due))

    @cached_property
    def _objects_before_move(self) -> Mapping[ObjectKey, Object]:
        return dict(self._expected_objects(self.unmoved_plan))

    @cached_property
    def _objects_after_move(self) -> Mapping[ObjectKey, Object]:
        return dict(self._expected_objects(self.preview.due))

    def _outcomes(
        self, eventual_plan: EventualPlan, *, excluded: Collection[ObjectKey] = ()
    ) -> Iterator[tuple[SetObjectKey, object]]:
        """Yield a comparable outcome for each object, but skip sets whose parents are in `excluded`."""
        for set_plan in eventual_plan.plan.sets:
            if set_plan.rendered.parent not in excluded:
                for node in (node_plan.node for node_plan in set_plan.nodes):
                    if node.key and not node.external:
                        outcome = node.hash if node.writable else (node.waiting, node.error)
                        yield (set_plan.rendered.parent, self.masks.mask_key(node.key)), outcome
                for candidate in set_plan.prune_candidates:
                    yield (set_plan.rendered.parent, self.masks.mask_key(candidate.member.key)), candidate.outcome

    def _expected_objects(self, eventual_plan: EventualPlan) -> Iterator[tuple[ObjectKey, Object]]:
        """Yield each desired object: the answer of its dry run, or its manifest if it had no dry run."""
        for node in (node_plan.node for set_plan in eventual_plan.plan.sets for node_plan in set_plan.nodes):
            if node.key and node.writable:
                _, expected_object = eventual_plan.answers.get(node.key, (None, node.manifest))
                yield self.masks.mask_key(node.key), expected_object

    def find_turn(self, set_plan: ApplySetPlan, key: ObjectKey) -> Cause | None:
        """Return the cause that delays a change until the instance moves, or None if the change starts at once."""
        parent = set_plan.rendered.parent
        if not self._waits_for_move(parent, self.masks.mask_key(key)):
            return None
        waiting_key = self._waiting_instance(key if set_plan.rendered.is_source else parent)
        return self._stays[waiting_key] if waiting_key else None

    def _waits_for_move(self, parent: ObjectKey, key: ObjectKey) -> bool:
        return self._outcomes_before_move.get((parent, key)) != self._outcomes_after_move.get((parent, key))

    def _waiting_instance(self, key: ObjectKey | None) -> ObjectKey | None:
        """Return the nearest instance that waits for its turn to move: `key` or an instance that contains it.

        If no such instance waits, return None.
        """
        while key and not (key in self._stays and (key in self._frozen or self._is_moving(key))):
            rendered = self._instances.get(key)
            key = rendered.owner if rendered else None
        return key

    def merge(
        self, final_changes: Sequence[PlannedChange], early_changes: Sequence[PlannedChange]
    ) -> Iterator[PlannedChange]:
        """Yield the changes of both prospects, merged, in the order of `final_changes`.

        If the final state leaves an object unchanged, the early change of the object follows last.

        Args:
            final_changes: changes in the state after all instances move.
            early_changes: changes in the state before instances move.
        """
        final_places = {(change.key, change.instance) for change in final_changes}
        early_by_place = {(change.key, change.instance): change for change in early_changes}
        place_by_key = {change.key: place for place, change in early_by_place.items() if place not in final_places}
        for change in final_changes:
            place = change.key, change.instance
            yield self._split_into_steps(
                change,
                early_by_place.pop(place if place in early_by_place else place_by_key.get(change.key, place), None),
            )
        yield from filter(None, map(self._undone_change, early_by_place.values()))

    def _split_into_steps(self, change: PlannedChange, early_change: PlannedChange | None) -> PlannedChange:
        """Return `change`, with `early_change` as its interim change if the two changes differ."""
        key, instance = change.key, change.instance
        waiting_key = self._waiting_instance(instance or key)
        if key is None:
            return change
        if not self._waits_for_move(instance if change.node and instance else self._source, key):
            # The object is equal before and after the move. Nothing is left for the turn, so obstacles of the turn do
            # not count.
            change = replace(change, obstacles=early_change.obstacles) if early_change else change
            return self._with_interim(change, change, key) if key == instance and self._is_moving(key) else change
        if waiting_key is None or early_change is None or _is_no_change(early_change):
            return change
        later_action = change.action  # from the present state; below: from the state after the early change
        if early_change.action in _REMOVING_ACTIONS:
            later_action = PlannedAction.CREATE
        elif later_action in _CREATING_ACTIONS and early_change.action.is_change:
            later_action = PlannedAction.UPDATE
        return self._with_interim(change, early_change, waiting_key, later_action)

    def _is_moving(self, instance: ObjectKey) -> bool:
        """Return whether the revision of the instance differs from its target."""
        rendered = self._instances.get(instance)
        return rendered is not None and rendered.revision != rendered.target_revision

    def _undone_change(self, early_change: PlannedChange) -> PlannedChange | None:
        """Return an early change that the move reverts, as a change in two steps, or None if nothing is left to show.

        An early change happens before the move of the instance. If the object is a member after the move, the move
        restores the object's present content. Otherwise, the move deletes the object.
        """
        waiting_key = self._waiting_instance(early_change.instance or early_change.key)
        is_wanted = early_change.key in self._objects_after_move
        if (
            waiting_key is None
            or early_change.key is None
            or not early_change.action.is_change
            or (is_wanted and _is_no_change(early_change))
        ):
            return None
        action = later_action = PlannedAction.UPDATE if is_wanted else PlannedAction.DELETE
        if early_change.action in _REMOVING_ACTIONS:
            action, later_action = PlannedAction.REPLACE, PlannedAction.CREATE
        is_undone = action is not PlannedAction.DELETE or early_change.action is PlannedAction.CREATE
        change = replace(
            early_change,
            action=action,
            diff=(),
            obstacles=(obstacle_of(self._stays[waiting_key]),),
            message="",
            is_undone=is_undone,
        )
        return self._with_interim(change, early_change, waiting_key, later_action)

    def _with_interim(
        self,
        change: PlannedChange,
        early_change: PlannedChange,
        instance: ObjectKey,
        later_action: PlannedAction | None = None,
    ) -> PlannedChange:
        """Return the change with `early_change` as its interim change, at the present revision of `instance`."""
        later_diff = self._later_diff(early_change.key or instance, change.diff, later_action)
        interim = InterimChange(
            self._instances[instance].revision,
            early_change.action,
            early_change.diff,
            early_change.obstacles,
            early_change.message,
        )
        return replace(
            change,
            interim=(interim,),
            later_action=None if later_action is PlannedAction.UPDATE and not later_diff else later_action,
            later_diff=later_diff,
        )

    def _later_diff(
        self, key: ObjectKey, full_diff: tuple[FieldDiff, ...], later_action: PlannedAction | None
    ) -> tuple[FieldDiff, ...]:
        object_before, object_after = self._objects_before_move.get(key), self._objects_after_move.get(key)
        if object_after and later_action is PlannedAction.CREATE:
            return creation_diff(self.masks.mask_object(object_after))
        if object_before and object_after and later_action in {PlannedAction.UPDATE, PlannedAction.REPLACE}:
            return diff_objects(self.masks.mask_object(object_before), self.masks.mask_object(object_after))
        return full_diff if later_action else ()


def add_repairs(changes: Sequence[PlannedChange], preview: Preview, masks: SecretMasks) -> Iterator[PlannedChange]:
    """Yield the changes, with the healing of each held object as an interim change.

    While an object waits at a gate or for its own deletion, Levelgate heals drift to the applied snapshot.
    """
    repairs = {
        masks.mask_key(node_plan.node.key): (set_plan.rendered.applied_rendering, node_plan)
        for set_plan in preview.first.plan.sets
        for node_plan in set_plan.repairs
        if set_plan.rendered.applied_rendering and node_plan.node.key
    }
    wanted_nodes = {
        node_plan.node.key: node_plan.node
        for set_plan in preview.due.plan.sets
        for node_plan in set_plan.nodes
        if node_plan.node.writable
    }
    for change in _with_deleted_members(changes, repairs):
        if change.key not in repairs:
            yield change
            continue
        applied_rendering, node_plan = repairs[change.key]
        action = PlannedAction.UPDATE if node_plan.live else PlannedAction.CREATE
        repair_diff = (
            intended_diff(node_plan.live, node_plan.node.manifest, masks)
            if node_plan.live
            else creation_diff(masks.mask_object(node_plan.node.manifest))
        )
        interim = InterimChange(applied_rendering.revision, action, repair_diff, is_heal=True)
        wanted_node = wanted_nodes.get(node_plan.node.key)
        later_diff = (
            diff_objects(masks.mask_object(node_plan.node.manifest), masks.mask_object(wanted_node.manifest))
            if wanted_node
            else change.diff
        )
        later_action = PlannedAction.UPDATE if change.action is PlannedAction.CREATE else change.action
        repaired = replace(change, interim=(interim, *change.interim))
        yield repaired if change.interim else replace(repaired, later_action=later_action, later_diff=later_diff)


def _with_deleted_members(
    changes: Sequence[PlannedChange], repairs: Mapping[ObjectKey, tuple[RenderedApplySet, NodePlan]]
) -> Iterator[PlannedChange]:
    """Yield the changes, and before the held deletion of an instance, deletions of its missing members.

    A missing member does not exist in the cluster. Until the instance is deleted, healing creates the missing member
    again.
    """
    changed_keys, deleted_members = (
        {change.key for change in changes},
        dict[ObjectKey, list[tuple[ObjectKey, RenderedNode]]](),
    )
    for key, (applied_rendering, node_plan) in repairs.items():
        if key not in changed_keys and node_plan.action is NodeAction.CREATE:
            deleted_members.setdefault(applied_rendering.parent, []).append((key, node_plan.node))
    for change in changes:
        for key, node in (
            deleted_members.get(change.key, ()) if change.key and change.action in _REMOVING_ACTIONS else ()
        ):
            yield PlannedChange(
                change.action,
                key,
                str(node.group_kind),
                instance=change.key,
                node=node.id,
                level=node.level,
                file=node.origin.file,
                line=node.origin.line,
                obstacles=change.obstacles,
            )
        yield change


def _is_no_change(change: PlannedChange) -> bool:
    """Return whether the content of the object stays the same."""
    return change.action is PlannedAction.KEEP or (change.action is PlannedAction.UPDATE and not change.diff)
