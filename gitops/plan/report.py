"""The report of a plan, its hash, and its restriction to named objects.

A report may be public, so all values of Secrets are masked. Invariant: if two reports compare equal content with an
equal state, the reports differ only in times, and their `hash` is equal.

The hash covers the changes, their order and the rules in force. While a plan waits for approval, times, requests of
people and the progress of rollouts change. So the hash leaves them out. A mask does not identify the masked value. So
the hash also covers the files that declare changed Secrets.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from applier.causes import Reason
from applier.state.structural_diff import FieldDiff
from gitops.durations import format_duration
from gitops.records.references import Ref
from renderer.catalog.catalog import Catalog
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, digest
from renderer.kinds import SECRET
from renderer.phrasing import format_count
from renderer.render.model import id_in_definition
from renderer.schema.plurals import plural


class PlannedAction(StrEnum):
    """Planned outcome for one object."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    ADOPT = "adopt"
    RELEASE = "release"
    """Levelgate removes its marks and leaves the object."""

    KEEP = "keep"
    """Levelgate leaves an object that Git does not declare."""

    UNKNOWN = "unknown"
    """The outcome depends on values of an earlier level."""

    FAILED = "failed"
    """The object cannot be applied as declared."""

    @property
    def is_change(self) -> bool:
        """Return whether the action is known to change the cluster."""
        return self not in {PlannedAction.KEEP, PlannedAction.UNKNOWN, PlannedAction.FAILED}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Reason why a change does not start at once."""

    reason: Reason
    message: str
    name: str
    """Name of the window, wave, person or object that causes the obstacle, or an empty string."""

    until: datetime | None = None
    """Earliest end of the obstacle, or None if the end is unknown."""

    is_of_items: bool = False
    """True if the pace of a collection's items is the obstacle, and not the pace of instances."""

    is_unplanned: bool = False
    """True if no change of the plan can end the obstacle, but only another change in the cluster."""

    @property
    def is_turn(self) -> bool:
        """Return whether the obstacle is the turn to move, for which an instance waits with all of its nodes."""
        return self.reason.is_queued or self.reason in {Reason.PROGRESSING, Reason.BAKING}


@dataclass(frozen=True, slots=True)
class InterimChange:
    """Change of an object before the final change, at the present revision of the object's instance.

    The move of the instance ends the interim state. If the interim change heals a held object, the end of the hold ends
    the healed state.
    """

    revision: int
    action: PlannedAction
    diff: tuple[FieldDiff, ...]
    obstacles: tuple[Obstacle, ...] = ()
    message: str = ""
    """Reason for the action, or a note on the action, as in `PlannedChange.message`."""

    is_heal: bool = False

    @property
    def description(self) -> str:
        return f"healed at r{self.revision}" if self.is_heal else f"at r{self.revision} until it moves"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """Planned outcome for one object, with obstacles, and with the earlier steps of a change in several steps."""

    action: PlannedAction
    """Final outcome. For an object that changes in two steps, the outcome of both steps together."""

    key: ObjectKey | None
    """Key of the object, or None while the name of the object is unknown."""

    kind: str
    instance: ObjectKey | None = None
    """Instance under which a report shows the change, or None for an object that belongs to no instance."""

    node: str = ""
    """Id of the node in the definition."""

    level: int | None = None
    """Level of the node, or None for a live object without a recorded level."""

    file: str = ""
    """File that declares the object, or the definition with the node."""

    line: int = 0
    """Number of the line in `file`, or 0 if unknown."""

    diff: tuple[FieldDiff, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    immutable: tuple[str, ...] = ()
    """Paths of fields that the server refuses to change. Because of these fields, Levelgate replaces the object."""

    users: tuple[str, ...] = ()
    """Live objects that Levelgate deletes before this object."""

    message: str = ""
    """Reason for `keep`, `unknown` or `failed`, or a note on another action."""

    interim: tuple[InterimChange, ...] = ()
    """Earlier changes of the object, in order. Earlier changes do not count in the summary."""

    later_action: PlannedAction | None = None
    """Remaining action after the interim changes, or None if no action remains."""

    later_diff: tuple[FieldDiff, ...] = ()
    """Remaining diff after the interim changes."""

    is_undone: bool = False
    """True if the later action reverts the interim change."""

    readers: tuple[ObjectKey, ...] = ()
    """Objects that Levelgate deletes before this object only because they read this object by `externalRef`."""

    @property
    def is_change(self) -> bool:
        """Return whether the final change or an interim change modifies the cluster.

        If the outcome of an object is unknown, a change of the object's template counts.
        """
        changes = self.action.is_change or (self.action is PlannedAction.UNKNOWN and bool(self.diff))
        return changes or any(interim_change.action.is_change for interim_change in self.interim)

    @property
    def parts(self) -> tuple[PlannedChange, ...]:
        """Return each interim change, and then the remaining change, as a separate `PlannedChange`."""
        if not self.interim:
            return (self,)
        interim_parts = tuple(
            replace(
                self,
                action=interim_change.action,
                diff=interim_change.diff,
                obstacles=interim_change.obstacles,
                message="; ".join(filter(None, (interim_change.description, interim_change.message))),
                users=(),
                readers=(),
            )
            for interim_change in self.interim
        )
        return (
            (*interim_parts, replace(self, action=self.later_action, diff=self.later_diff))
            if self.later_action
            else interim_parts
        )

    @property
    def ref(self) -> str:
        """Return text such as `Deployment.apps/prod/cart`, or only the kind if the name is unknown."""
        return str(self.key) if self.key else self.kind

    @property
    def until(self) -> datetime | None:
        """Return the earliest time at which all obstacles with a known end can have ended."""
        return max((obstacle.until for obstacle in self.obstacles if obstacle.until), default=None)


class WarningKind(StrEnum):
    """Kind of a hazard that a plan reports to its reviewer."""

    OPERATOR_FIRST = "OperatorGoesFirst"
    MASS_DELETION = "MassDeletion"
    HISTORY = "HistoryRewritten"
    BREAKING_SCHEMA = "BreakingSchema"
    FOREIGN_OBJECT = "ForeignObject"
    NAMESPACE_GOES = "NamespaceGoes"
    PRIVILEGES = "PrivilegesGrow"
    HOLDS_BACK = "HoldsBack"
    RULES = "RulesChange"
    SELECTS_NOTHING = "SelectsNothing"
    NOT_COMPARED = "NotCompared"
    STILL_READ = "StillRead"


@dataclass(frozen=True, slots=True, order=True)
class PlanWarning:
    """Warning of a hazard in a sentence, with the file and line that cause the hazard."""

    hazard: WarningKind
    message: str
    ref: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class RevisionMove:
    """New revision of a definition, with the number of instances and the policies that set the pace of their move."""

    name: str
    old: int
    """Number of the old revision, or 0 for a new definition."""

    new: int
    instances: int
    policy: str = ""

    @property
    def instance_count_text(self) -> str:
        return format_count(self.instances, "instance")


@dataclass(frozen=True, slots=True)
class WindowCapacity:
    """Time that a window leaves for a step, and the time that the step needs."""

    open_for: timedelta
    """Time from the start of the step to the last start that a window permits."""

    needs: timedelta
    """Duration of the last run of the step. If none is recorded, the longest duration that the policies permit."""

    is_recorded: bool = False
    """True if `needs` is a recorded duration."""

    @property
    def is_enough(self) -> bool:
        return self.needs <= self.open_for

    def __str__(self) -> str:
        required = (
            f"about {format_duration(self.needs)}, as it took last"
            if self.is_recorded
            else f"{format_duration(self.needs)} at most"
        )
        verdict = "long enough" if self.is_enough else "too short, the rest continues when it opens again"
        return f"open for {format_duration(self.open_for)}, needs {required}: {verdict}"


@dataclass(frozen=True, slots=True)
class HalfwayEnd:
    """Instances or objects in which some levels may stay old if a window with this `drain` closes."""

    drain: str
    refs: tuple[str, ...]

    def __str__(self) -> str:
        return f"may end half-way when it closes (drain {self.drain}):"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Changes that start together."""

    summary: str
    """Title of the step, such as `wave prod, window monday:`."""

    refs: tuple[str, ...]
    """Names of the instances or objects, in the order of the changes."""

    at: datetime | None = None
    """Earliest start, or None if the step starts at once or the start is unknown."""

    prerequisite: str = ""
    """Condition for the start, as text for people."""

    window_capacity: WindowCapacity | None = None
    """Capacity of the window for the step, or None if no window closes after the start or the start is unknown."""

    halfway: HalfwayEnd | None = None
    """Instances that a closing window may stop between two levels, or None if the window lets all instances finish."""


@dataclass(frozen=True, slots=True)
class Report:
    """Plan of one source for people and programs."""

    source: str
    head: str
    """Id of the commit, or an empty string for a working tree without a commit."""

    at: datetime
    base: str = ""
    """Id of the base commit, or an empty string for a plan against a cluster."""

    against: str = "git"
    """Compared state: `git`, `cluster prod-eu` or `snapshot of cluster prod-eu`."""

    hash: str = ""
    changes: tuple[PlannedChange, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    moves: tuple[RevisionMove, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    problems: tuple[Problem, ...] = ()
    unchanged: int = 0
    """Number of objects without a change."""

    knows_deletions: bool = True
    """False if the plan does not know which source of the cluster the commit belongs to."""

    @property
    def summary(self) -> Mapping[str, int]:
        """Return the number of changes by action, and the number of unchanged objects."""
        counts = Counter(str(change.action) for change in self.changes)
        return {**{str(action): counts[action] for action in PlannedAction}, "unchanged": self.unchanged}

    @property
    def problem_count(self) -> int:
        """Return the sum of the problems in the repository and the impossible changes."""
        return len(self.problems) + self.summary["failed"]

    @property
    def has_changes(self) -> bool:
        return any(change.is_change for change in self.changes)


HASH_DIGITS = 16
"""Number of hexadecimal digits of a plan hash."""


def plan_hash(
    head: Catalog, changes: Sequence[PlannedChange], moves: Iterable[RevisionMove], problems: Iterable[Problem]
) -> str:
    """Return the hash of a plan, with `HASH_DIGITS` digits."""
    change_rows = [_change_row(change) for change in changes if not change.is_undone]
    files = sorted(set(_secret_file_digests(head, changes)))
    rules = sorted(digest(rule.manifest) for rule in head.rules)
    move_rows = [[move.name, move.old, move.new] for move in moves]
    problem_rows = [[problem.path, problem.message] for problem in problems]
    return digest([head.source, change_rows, files, rules, move_rows, problem_rows])[:HASH_DIGITS]


def is_same(expected: str, actual: str) -> bool:
    """Return whether two hashes are equal in all digits. A prefix does not count, because a prefix is easy to forge."""
    return expected.strip().lower() == actual


def _change_row(change: PlannedChange) -> list[Any]:
    diff = [[field_diff.path, field_diff.old, field_diff.new] for field_diff in change.diff]
    return [change.action, change.ref, str(change.instance or ""), change.node, change.level, diff, change.immutable]


def _secret_file_digests(head: Catalog, changes: Iterable[PlannedChange]) -> Iterator[str]:
    """Yield the digest of each file that declares a changed Secret. The digest covers the content, not the path."""
    for change in changes:
        if change.kind == str(SECRET) and (content := head.contents.get(change.file)):
            yield hashlib.sha256(content.data).hexdigest()


def filter_report(report: Report, refs: Sequence[Ref], namespace: str = "") -> Report:
    """Return the report, restricted to the changes of the instances, nodes or objects that `refs` name.

    If `refs` is empty, all changes stay. The hash remains the hash of the whole plan. An empty `namespace` matches
    every namespace.
    """
    if not refs:
        return report
    selected = tuple(change for change in report.changes if any(_is_selected(change, ref, namespace) for ref in refs))
    return replace(report, changes=selected, steps=(), warnings=(), moves=(), unchanged=0)


def _is_selected(change: PlannedChange, ref: Ref, namespace: str) -> bool:
    if _matches_ref(change.instance, ref, namespace):
        return ref.node in {"", change.node, id_in_definition(change.node)}
    return not ref.node and _matches_ref(change.key, ref, namespace)


def _matches_ref(key: ObjectKey | None, ref: Ref, namespace: str) -> bool:
    if key is None or key.name != ref.name or (namespace and key.namespace and key.namespace != namespace):
        return False
    kind, type_name = key.kind.lower(), ref.type.lower()
    return type_name in {name for kind_name in (kind, plural(kind)) for name in (kind_name, f"{kind_name}.{key.group}")}
