"""Changes as people read them: by instance, in the order in which they happen, and instances with the same change once."""

from __future__ import annotations

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
    def goes(self) -> bool:
        """Is the instance itself deleted?"""
        return any(change.action is PlannedAction.DELETE and change.key in self.instances for change in self.changes)


def grouped(report: Report) -> Iterator[ChangeGroup]:
    """The source's own objects first, then instances in the order in which they stand in the report."""
    own = [change for change in report.changes if change.instance is None]
    if own:
        yield ChangeGroup((), tuple(own))
    by_instance: dict[ObjectKey, list[PlannedChange]] = {}
    for change in report.changes:
        if change.instance is not None:
            by_instance.setdefault(change.instance, []).append(change)
    alike: dict[object, list[ObjectKey]] = {}
    for instance, changes in by_instance.items():
        alike.setdefault((instance.group_kind, _likeness(instance, changes)), []).append(instance)
    for instances in alike.values():
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


def folded(changes: Iterable[PlannedChange]) -> Iterator[FoldedChange]:
    """What is alike once, in the order in which it first stands there. What has no name yet stands alone."""
    found: dict[object, list[PlannedChange]] = {}
    for number, change in enumerate(changes):
        key = change.key
        likeness = _of_object(key, change) if key and key != change.instance else number
        found.setdefault(likeness, []).append(change)
    for alike in found.values():
        yield FoldedChange(alike[0], tuple(change.key for change in alike if change.key))


def _of_object(key: ObjectKey, change: PlannedChange) -> tuple[object, ...]:
    return (
        *(change.action, id_in_definition(change.node), change.level, change.kind),
        *(_told(key, change), change.immutable, change.users),
    )


def _likeness(instance: ObjectKey, changes: Iterable[PlannedChange]) -> tuple[object, ...]:
    """Equal for changes that a reader needs to see only once: names aside, as far as they come from the instance's own."""
    return tuple(
        (
            *(change.action, change.node, change.level, change.kind, _told(instance, change), change.immutable),
            _unnamed(instance, repr(change.users).replace(f"/{instance.namespace}/", "/*/")),
        )
        for change in changes
    )


def _told(named: ObjectKey, change: PlannedChange) -> str:
    parts = [(one.diff, [(gate.reason, gate.name) for gate in one.gates], one.why) for one in change.parts]
    return _unnamed(named, repr(parts))


def _unnamed(named: ObjectKey, told: str) -> str:
    """A name of one or two letters is part of too much."""
    return told.replace(named.name, "*") if len(named.name) > 2 else told


def by_action(changes: Iterable[PlannedChange]) -> str:
    """`2 update, 1 create`, in the order of `Action`."""
    counts = dict.fromkeys(PlannedAction, 0)
    for change in changes:
        counts[change.action] += 1
    return ", ".join(f"{count} {action}" for action, count in counts.items() if count)
