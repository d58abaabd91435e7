"""What comes of a commit at once, where instances wait for their turn to move to another revision, and what comes in their turn.

Values of an instance's own change go at once, and drift is healed, with the definition that it runs; a new one may be made with the revision that
completed last. What the new revision changes comes later. So there are two prospects, of instances where they stay and where they go: what both do
alike to an object is done at once, and all else in two steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from applier.causes import Cause
from applier.cluster import Object
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan
from gitops.plan.changes import gate_of, intended
from gitops.plan.field_diff import differences, made
from gitops.plan.masking import SecretMasks
from gitops.plan.report import FieldDiff, InterimChange, PlannedAction, PlannedChange
from gitops.reconcile.context import EventualPlan, Preview
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode

_GONE = frozenset({PlannedAction.DELETE, PlannedAction.RELEASE})
_NEW = frozenset({PlannedAction.CREATE, PlannedAction.ADOPT, PlannedAction.REPLACE})

Place = tuple[ObjectKey, ObjectKey]
"""The parent of a set, and an object."""


class InterimChanges:
    """Of each change, whether it is done at once or in the turn of an instance, and what is done before it then. Keys are masked."""

    def __init__(self, preview: Preview, staying: EventualPlan, masks: SecretMasks) -> None:
        self._masks = masks
        self._stays, self._frozen = preview.first.propagation.stays, preview.first.propagation.frozen
        self._instances = {**preview.due.bundle.instances, **staying.bundle.instances}
        self._source = next(one.rendered.parent for one in staying.plan.sets if one.rendered.is_source)
        self._first = dict(self._fates(staying, without=self._frozen))
        self._last = dict(self._fates(preview.due))
        self._at_first, self._at_last = dict(self._objects(staying)), dict(self._objects(preview.due))

    def _fates(self, prospect: EventualPlan, *, without: Collection[ObjectKey] = ()) -> Iterator[tuple[Place, object]]:
        """What becomes of objects; of the sets `without` nothing does."""
        for one in prospect.plan.sets:
            if one.rendered.parent not in without:
                for node in (plan.node for plan in one.nodes):
                    if node.key and not node.external:
                        fate = node.hash if node.writable else (node.waiting, node.error)
                        yield (one.rendered.parent, self._masks.key(node.key)), fate
                for orphan in one.orphans:
                    yield (one.rendered.parent, self._masks.key(orphan.member.key)), orphan.fate

    def _objects(self, prospect: EventualPlan) -> Iterator[tuple[ObjectKey, Object]]:
        """What is wanted, as a server would have it where one was asked."""
        for node in (plan.node for one in prospect.plan.sets for plan in one.nodes):
            if node.key and node.writable:
                _, there = prospect.answers.get(node.key, (None, node.manifest))
                yield self._masks.key(node.key), there

    def gate(self, one: ApplySetPlan, key: ObjectKey) -> Cause | None:
        """Why what is due is not done to this object yet; None where the same is done at once."""
        parent = one.rendered.parent
        if not self._is_late(parent, self._masks.key(key)):
            return None
        waits = self._waiting(key if one.rendered.is_source else parent)
        return self._stays[waits] if waits else None

    def _is_late(self, parent: ObjectKey, key: ObjectKey) -> bool:
        return self._first.get((parent, key)) != self._last.get((parent, key))

    def _waiting(self, key: ObjectKey | None) -> ObjectKey | None:
        """This instance, or one that it is nested in, where that waits for its turn."""
        while key and not (key in self._stays and (key in self._frozen or self._is_elsewhere(key))):
            rendered = self._instances.get(key)
            key = rendered.owner if rendered else None
        return key

    def merged(self, due: Sequence[PlannedChange], staying: Sequence[PlannedChange]) -> Iterator[PlannedChange]:
        """In the order of what is `due`; what comes to nothing in the end comes last."""
        told = {(change.key, change.instance) for change in due}
        first = {(change.key, change.instance): change for change in staying}
        moved = {change.key: place for place, change in first.items() if place not in told}
        for change in due:
            place = change.key, change.instance
            yield self._in_steps(change, first.pop(place if place in first else moved.get(change.key, place), None))
        yield from filter(None, map(self._undone, first.values()))

    def _in_steps(self, change: PlannedChange, first: PlannedChange | None) -> PlannedChange:
        key, instance = change.key, change.instance
        waits = self._waiting(instance or key)
        if key is None:
            return change
        if not self._is_late(instance if change.node and instance else self._source, key):
            change = replace(change, gates=first.gates) if first else change
            return self._before(change, change, key) if key == instance and self._is_elsewhere(key) else change
        if waits is None or first is None or _is_nothing(first):
            return change
        then = change.action
        if first.action in _GONE:
            then = PlannedAction.CREATE
        elif then in _NEW and first.action.is_change:
            then = PlannedAction.UPDATE
        return self._before(change, first, waits, then)

    def _is_elsewhere(self, instance: ObjectKey) -> bool:
        """Is it at another revision than the one that it is to move to?"""
        found = self._instances.get(instance)
        return found is not None and found.revision != found.target_revision

    def _undone(self, first: PlannedChange) -> PlannedChange | None:
        """What is done to an object that in the end is as it is now; or that goes in the end, and is no member of the set before."""
        waits = self._waiting(first.instance or first.key)
        is_wanted = first.key in self._at_last
        if waits is None or first.key is None or not first.action.is_change or (is_wanted and _is_nothing(first)):
            return None
        action = then = PlannedAction.UPDATE if is_wanted else PlannedAction.DELETE
        if first.action in _GONE:
            action, then = PlannedAction.REPLACE, PlannedAction.CREATE
        is_undone = action is not PlannedAction.DELETE or first.action is PlannedAction.CREATE
        gates = (gate_of(self._stays[waits]),)
        change = replace(first, action=action, diff=(), gates=gates, why="", is_undone=is_undone)
        return self._before(change, first, waits, then)

    def _before(
        self, change: PlannedChange, first: PlannedChange, instance: ObjectKey, then: PlannedAction | None = None
    ) -> PlannedChange:
        """The change with what comes `first`, at the revision of this instance; `then` is left for its turn."""
        rest = self._rest(first.key or instance, change.diff, then)
        revision = self._instances[instance].revision
        early = InterimChange(revision, first.action, first.diff, first.gates, first.why)
        return replace(
            change, meanwhile=(early,), then=None if then is PlannedAction.UPDATE and not rest else then, rest=rest
        )

    def _rest(self, key: ObjectKey, whole: tuple[FieldDiff, ...], then: PlannedAction | None) -> tuple[FieldDiff, ...]:
        first, last = self._at_first.get(key), self._at_last.get(key)
        if last and then is PlannedAction.CREATE:
            return made(self._masks.object(last))
        if first and last and then in {PlannedAction.UPDATE, PlannedAction.REPLACE}:
            return differences(self._masks.object(first), self._masks.object(last))
        return whole if then else ()


def add_repairs(changes: Sequence[PlannedChange], preview: Preview, masks: SecretMasks) -> Iterator[PlannedChange]:
    """The changes; what waits at a gate, or may not be deleted yet, is brought back to what was applied meanwhile, where somebody changed it."""
    repairs = {
        masks.key(plan.node.key): (one.rendered.applied_rendering, plan)
        for one in preview.first.plan.sets
        for plan in one.repairs
        if one.rendered.applied_rendering and plan.node.key
    }
    wanted = {plan.node.key: plan.node for one in preview.due.plan.sets for plan in one.nodes if plan.node.writable}
    for change in _with_lost(changes, repairs):
        if change.key not in repairs:
            yield change
            continue
        before, plan = repairs[change.key]
        action = PlannedAction.UPDATE if plan.live else PlannedAction.CREATE
        wrong = intended(plan.live, plan.node.manifest, masks) if plan.live else made(masks.object(plan.node.manifest))
        early = InterimChange(before.revision, action, wrong, heals=True)
        later = wanted.get(plan.node.key)
        rest = differences(masks.object(plan.node.manifest), masks.object(later.manifest)) if later else change.diff
        then = PlannedAction.UPDATE if change.action is PlannedAction.CREATE else change.action
        found = replace(change, meanwhile=(early, *change.meanwhile))
        yield found if change.meanwhile else replace(found, then=then, rest=rest)


def _with_lost(
    changes: Sequence[PlannedChange], repairs: Mapping[ObjectKey, tuple[RenderedApplySet, NodePlan]]
) -> Iterator[PlannedChange]:
    """Before an instance that goes, but not yet, what somebody deleted of it: that is made again, and goes with it."""
    told, lost = {change.key for change in changes}, dict[ObjectKey, list[tuple[ObjectKey, RenderedNode]]]()
    for key, (before, plan) in repairs.items():
        if key not in told and plan.verb is NodeAction.CREATE:
            lost.setdefault(before.parent, []).append((key, plan.node))
    for change in changes:
        for key, node in lost.get(change.key, ()) if change.key and change.action in _GONE else ():
            place = (str(node.group_kind), change.key, node.id, node.level, node.origin.file, node.origin.line)
            yield PlannedChange(change.action, key, *place, gates=change.gates)
        yield change


def _is_nothing(change: PlannedChange) -> bool:
    """Does it stay as it is, but for what we record on it?"""
    return change.action is PlannedAction.KEEP or (change.action is PlannedAction.UPDATE and not change.diff)
