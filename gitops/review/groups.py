"""Changes as people read them: by instance, in the order in which they happen, and instances with the same change once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gitops.review.report import Action, Change, Report
from renderer.identity import ObjectKey


@dataclass(frozen=True, slots=True)
class Group:
    """The `instances` whose `changes` are alike, of which those of the first are given; none for the objects of the source itself."""

    instances: tuple[ObjectKey, ...]
    changes: tuple[Change, ...]

    @property
    def goes(self) -> bool:
        """Is the instance itself deleted?"""
        return any(change.action is Action.DELETE and change.key in self.instances for change in self.changes)


def grouped(report: Report) -> Iterator[Group]:
    """The source's own objects first, then instances in the order in which they stand in the report."""
    own = [change for change in report.changes if change.instance is None]
    if own:
        yield Group((), tuple(own))
    by_instance: dict[ObjectKey, list[Change]] = {}
    for change in report.changes:
        if change.instance is not None:
            by_instance.setdefault(change.instance, []).append(change)
    alike: dict[object, list[ObjectKey]] = {}
    for instance, changes in by_instance.items():
        alike.setdefault((instance.group_kind, _likeness(instance, changes)), []).append(instance)
    for instances in alike.values():
        yield Group(tuple(instances), tuple(by_instance[instances[0]]))


def _likeness(instance: ObjectKey, changes: Iterable[Change]) -> tuple[object, ...]:
    """Equal for changes that a reader needs to see only once: names aside, as far as they come from the instance's own."""
    return tuple(
        (change.action, change.node, change.level, change.kind, _told(instance, change), change.immutable)
        for change in changes
    )


def _told(instance: ObjectKey, change: Change) -> str:
    told = repr((change.diff, [(gate.reason, gate.name) for gate in change.gates], change.why))
    return told.replace(instance.name, "*") if len(instance.name) > 2 else told


def counted(changes: Iterable[Change]) -> str:
    """`2 update, 1 create`, in the order of `Action`."""
    counts = dict.fromkeys(Action, 0)
    for change in changes:
        counts[change.action] += 1
    return ", ".join(f"{count} {action}" for action, count in counts.items() if count)
