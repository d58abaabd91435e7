"""Groups of changes for people. In a group, equal changes of several instances or objects appear once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gitops.plan.report import PlannedAction, PlannedChange, Report
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import id_in_definition


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Instances whose changes differ only in the names of the instances."""

    instances: tuple[ObjectKey, ...]
    """Instances with these changes. Objects that the source declares itself have no instance."""

    changes: tuple[PlannedChange, ...]
    """Changes of the first instance."""

    @property
    def is_instance_deleted(self) -> bool:
        """Return whether the changes delete the object of an instance, and not only nodes of the instance."""
        return any(change.action is PlannedAction.DELETE and change.key in self.instances for change in self.changes)


def group_changes(report: Report) -> Iterator[ChangeGroup]:
    """Yield the group of the source's own objects, then the groups of instances in the order of the report."""
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
    """Changes of a group that differ only in the names of their objects."""

    change: PlannedChange
    """First of the equal changes."""

    keys: tuple[ObjectKey, ...]
    """Keys of all changed objects."""

    @property
    def node(self) -> str:
        """Return the id of the node, or the id of the collection if several items change."""
        return self.change.node if len(self.keys) < 2 else id_in_definition(self.change.node)


def fold_changes(changes: Iterable[PlannedChange]) -> Iterator[FoldedChange]:
    """Merge changes that differ only in the names of their objects. Yield the merged changes in the order of `changes`.

    A change of an instance, or of an object without a name, stays separate.
    """
    changes_by_likeness: dict[object, list[PlannedChange]] = {}
    for index, change in enumerate(changes):
        key = change.key
        likeness = _object_likeness(key, change) if key and key != change.instance else index
        changes_by_likeness.setdefault(likeness, []).append(change)
    for similar in changes_by_likeness.values():
        yield FoldedChange(similar[0], tuple(change.key for change in similar if change.key))


def _object_likeness(key: ObjectKey, change: PlannedChange) -> tuple[object, ...]:
    """Return a value for comparison. If changes differ only in the name of their object, their values are equal."""
    return (
        *(change.action, id_in_definition(change.node), change.level, change.kind),
        *(_describe_parts(key, change), change.immutable, change.users),
    )


def _instance_likeness(instance: ObjectKey, changes: Iterable[PlannedChange]) -> tuple[object, ...]:
    """Return a value for comparison.

    If the changes of two instances differ only in the names of the instances, the values are equal.
    """
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
    """Return `text` with `*` for the name of `subject`.

    Names of one or two letters stay, because many words contain them.
    """
    return text.replace(subject.name, "*") if len(subject.name) > 2 else text


def format_action_counts(changes: Iterable[PlannedChange]) -> str:
    """Return text such as `1 create, 2 update`, in the order of `PlannedAction`."""
    counts = Counter(change.action for change in changes)
    return ", ".join(f"{counts[action]} {action}" for action in PlannedAction if counts[action])
