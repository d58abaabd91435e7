"""Changes as people read them: by instance, in the order in which they happen, and instances with the same change once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gitops.plan.report import PlannedAction, PlannedChange, Report
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import id_in_definition


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """The `instances` whose `changes` are alike, of which those of the first are given; none for the objects of the source itself."""

    instances: tuple[ObjectKey, ...]
    changes: tuple[PlannedChange, ...]

    @property
    def is_instance_deleted(self) -> bool:
        """Is the instance itself deleted?"""
        return any(change.action is PlannedAction.DELETE and change.key in self.instances for change in self.changes)


def group_changes(report: Report) -> Iterator[ChangeGroup]:
    """The source's own objects first, then instances in the order in which they stand in the report."""
    source_changes = [change for change in report.changes if change.instance is None]
    if source_changes:
        yield ChangeGroup((), tuple(source_changes))
    by_instance: dict[ObjectKey, list[PlannedChange]] = {}
    for change in report.changes:
        if change.instance is not None:
            by_instance.setdefault(change.instance, []).append(change)
    instances_by_likeness: dict[object, list[ObjectKey]] = {}
    for instance, changes in by_instance.items():
        instances_by_likeness.setdefault((instance.group_kind, _instance_likeness(instance, changes)), []).append(
            instance
        )
    for instances in instances_by_likeness.values():
        yield ChangeGroup(tuple(instances), tuple(by_instance[instances[0]]))


@dataclass(frozen=True, slots=True)
class FoldedChange:
    """Changes within a group that differ in nothing but the names of their objects: the first of them, and the objects of all."""

    change: PlannedChange
    keys: tuple[ObjectKey, ...]

    @property
    def node(self) -> str:
        """Of several items of a collection, that of the collection."""
        return self.change.node if len(self.keys) < 2 else id_in_definition(self.change.node)


def fold_changes(changes: Iterable[PlannedChange]) -> Iterator[FoldedChange]:
    """What is alike once, in the order in which it first stands there. What has no name yet stands alone."""
    changes_by_likeness: dict[object, list[PlannedChange]] = {}
    for index, change in enumerate(changes):
        key = change.key
        likeness = _object_likeness(key, change) if key and key != change.instance else index
        changes_by_likeness.setdefault(likeness, []).append(change)
    for similar in changes_by_likeness.values():
        yield FoldedChange(similar[0], tuple(change.key for change in similar if change.key))


def _object_likeness(key: ObjectKey, change: PlannedChange) -> tuple[object, ...]:
    return (
        *(change.action, id_in_definition(change.node), change.level, change.kind),
        *(_describe_parts(key, change), change.immutable, change.users),
    )


def _instance_likeness(instance: ObjectKey, changes: Iterable[PlannedChange]) -> tuple[object, ...]:
    """Equal for changes that a reader needs to see only once: names aside, as far as they come from the instance's own."""
    return tuple(
        (
            *(
                change.action,
                change.node,
                change.level,
                change.kind,
                _describe_parts(instance, change),
                change.immutable,
            ),
            _without_name(instance, repr(change.users).replace(f"/{instance.namespace}/", "/*/")),
        )
        for change in changes
    )


def _describe_parts(subject: ObjectKey, change: PlannedChange) -> str:
    parts = [
        (part.diff, [(obstacle.reason, obstacle.name) for obstacle in part.obstacles], part.message)
        for part in change.parts
    ]
    return _without_name(subject, repr(parts))


def _without_name(subject: ObjectKey, text: str) -> str:
    """A name of one or two letters is part of too much."""
    return text.replace(subject.name, "*") if len(subject.name) > 2 else text


def format_action_counts(changes: Iterable[PlannedChange]) -> str:
    """`2 update, 1 create`, in the order of `PlannedAction`."""
    counts = Counter(change.action for change in changes)
    return ", ".join(f"{counts[action]} {action}" for action in PlannedAction if counts[action])
