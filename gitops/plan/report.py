"""The report of a plan, its hash, and its restriction to named objects.

A report may be public: values of Secrets are masked before. Invariant: two plans of equal content against equal state
differ in times only, and have the same `hash`.

The hash covers the changes, their order, and the rules that say when. It leaves out times, requests of people and the
progress of rollouts, which change while a plan waits. Where a Secret is part of a change, the content of its file counts,
which every reader of the repository knows.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
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
    """What becomes of an object. `release` takes our mark off and leaves it; `keep` is no longer in Git, and stays as it is; `unknown` cannot be told
    before an earlier level exists; `failed` cannot be done as the commit says.
    """

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    ADOPT = "adopt"
    RELEASE = "release"
    KEEP = "keep"
    UNKNOWN = "unknown"
    FAILED = "failed"

    @property
    def is_change(self) -> bool:
        """Would the cluster be another afterwards, as far as can be told?"""
        return self not in {PlannedAction.KEEP, PlannedAction.UNKNOWN, PlannedAction.FAILED}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What holds a change: `name` of the window, wave or person behind it, empty where there is none; `until`: the earliest time at which it can
    open, None where that is not known; `is_of_items`: the pace of the items of one collection, not that of instances; `is_unplanned`: it waits for
    nothing that the plan does, but for what the cluster has to become.
    """

    reason: Reason
    message: str
    name: str
    until: datetime | None = None
    is_of_items: bool = False
    is_unplanned: bool = False

    @property
    def is_turn(self) -> bool:
        """That its instance does not have its turn, which is one for all of the instance."""
        return self.reason.is_queued or self.reason in {Reason.PROGRESSING, Reason.BAKING}


@dataclass(frozen=True, slots=True)
class InterimChange:
    """What becomes of an object at a `revision` that its instance has, before what the commit wants of it: what differs then, what holds even that,
    and `why` as of a change. It is so until the instance has its turn to move; where it `is_heal`, until nothing holds the change any more.
    """

    revision: int
    action: PlannedAction
    diff: tuple[FieldDiff, ...]
    obstacles: tuple[Obstacle, ...] = ()
    message: str = ""
    is_heal: bool = False

    @property
    def description(self) -> str:
        return f"healed at r{self.revision}" if self.is_heal else f"at r{self.revision} until it moves"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One object. `instance` is empty for objects of the source itself, `node` is the id in its definition, `level` None where an object records
    none. `file` and `line` say where it comes from, or its definition. `immutable` are paths that the server does not change, which is why it is
    replaced. `users`, of a deletion, are the live objects that go before it; of these `readers` are there because something reads by
    `externalRef`. `why` tells of what is kept, unknown or fails. `meanwhile` is
    what comes before it, in order, of which nothing is counted; `then` is what is left to be done afterwards (None: nothing) and `rest` what differs
    then; `is_undone` where the object then is as it was before.
    """

    action: PlannedAction
    key: ObjectKey | None
    kind: str
    instance: ObjectKey | None = None
    node: str = ""
    level: int | None = None
    file: str = ""
    line: int = 0
    diff: tuple[FieldDiff, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    immutable: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    message: str = ""
    interim: tuple[InterimChange, ...] = ()
    later_action: PlannedAction | None = None
    later_diff: tuple[FieldDiff, ...] = ()
    is_undone: bool = False
    readers: tuple[ObjectKey, ...] = ()

    @property
    def is_change(self) -> bool:
        """Would the cluster be another afterwards, or meanwhile? What is not knowable yet is, where the commit changes what it is made from."""
        changes = self.action.is_change or (self.action is PlannedAction.UNKNOWN and bool(self.diff))
        return changes or any(interim_change.action.is_change for interim_change in self.interim)

    @property
    def parts(self) -> tuple[PlannedChange, ...]:
        """In the order in which they happen: what comes at once, and the rest in its turn."""
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
        """`Deployment.apps/prod/cart`; the kind alone where the name is not known yet."""
        return str(self.key) if self.key else self.kind

    @property
    def until(self) -> datetime | None:
        """The earliest time at which all its gates can be open, as far as that is known."""
        return max((obstacle.until for obstacle in self.obstacles if obstacle.until), default=None)


class WarningKind(StrEnum):
    """What a reviewer is warned of."""

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
    """One hazard, in a sentence, and where it comes from."""

    hazard: WarningKind
    message: str
    ref: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class RevisionMove:
    """A definition that changes: `name`, the revisions, 0 for none before, how many instances it has, and the policy that paces them."""

    name: str
    old: int
    new: int
    instances: int
    policy: str = ""

    @property
    def instance_count_text(self) -> str:
        return format_count(self.instances, "instance")


@dataclass(frozen=True, slots=True)
class WindowCapacity:
    """For how long after its start a step may go on before a window closes, and how long it `needs`: as long as it took last, where that
    `is_recorded`, else as long as its policies let it take.
    """

    open_for: timedelta
    needs: timedelta
    is_recorded: bool = False

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
    """What may stay with some levels new and others old, by its reference, when a window closes that has this `drain`."""

    drain: str
    refs: tuple[str, ...]

    def __str__(self) -> str:
        return f"may end half-way when it closes (drain {self.drain}):"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """What starts together. `at` is the earliest time, None for at once or where it is not known; `after` says what has to happen before; `what` is
    a sentence, `refs` the instances or objects, in their order. `room` is None where no window closes after the start, or that is not known.
    `halfway` is what a window that closes may leave between two levels; None where it lets all be finished.
    """

    summary: str
    refs: tuple[str, ...]
    at: datetime | None = None
    prerequisite: str = ""
    window_capacity: WindowCapacity | None = None
    halfway: HalfwayEnd | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """`base` and `head` are commits (empty where the cluster, or a working tree without a commit, is meant); `against` names what the head was
    compared with: `cluster prod-eu`, `git`, `snapshot FILE`. `hash` is over everything that matters, and never over times. `knows_deletions` is
    False where nobody said which source of the cluster this is.
    """

    source: str
    head: str
    at: datetime
    base: str = ""
    against: str = "git"
    hash: str = ""
    changes: tuple[PlannedChange, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    moves: tuple[RevisionMove, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    problems: tuple[Problem, ...] = ()
    unchanged: int = 0
    knows_deletions: bool = True
    summary: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        counts = Counter(str(change.action) for change in self.changes)
        summary = {**{str(action): counts[action] for action in PlannedAction}, "unchanged": self.unchanged}
        object.__setattr__(self, "summary", summary)

    @property
    def problem_count(self) -> int:
        """How many mistakes it names: what no reader of the repository could read, and what cannot be done."""
        return len(self.problems) + self.summary["failed"]

    @property
    def has_changes(self) -> bool:
        return any(change.is_change for change in self.changes)


HASH_DIGITS = 16


def plan_hash(
    head: Catalog, changes: Sequence[PlannedChange], moves: Iterable[RevisionMove], problems: Iterable[Problem]
) -> str:
    """DIGITS hexadecimal digits."""
    change_rows = [_change_row(change) for change in changes if not change.is_undone]
    files = sorted(set(_secret_file_digests(head, changes)))
    rules = sorted(digest(rule.manifest) for rule in head.rules)
    move_rows = [[move.name, move.old, move.new] for move in moves]
    problem_rows = [[problem.path, problem.message] for problem in problems]
    return digest([head.source, change_rows, files, rules, move_rows, problem_rows])[:HASH_DIGITS]


def is_same(expected: str, actual: str) -> bool:
    """Is the plan that somebody agreed to this one? Fewer digits than all would be easy to meet by chance, or on purpose."""
    return expected.strip().lower() == actual


def _change_row(change: PlannedChange) -> list[Any]:
    diff = [[field_diff.path, field_diff.old, field_diff.new] for field_diff in change.diff]
    return [change.action, change.ref, str(change.instance or ""), change.node, change.level, diff, change.immutable]


def _secret_file_digests(head: Catalog, changes: Iterable[PlannedChange]) -> Iterator[str]:
    """What stands in them, as a digest; not where they lie."""
    for change in changes:
        if change.kind == str(SECRET) and (content := head.contents.get(change.file)):
            yield hashlib.sha256(content.data).hexdigest()


def filter_report(report: Report, refs: Sequence[Ref], namespace: str = "") -> Report:
    """The changes of these instances, their nodes or these objects; the hash stays that of the whole plan. All of it without `refs`."""
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
