"""History of a source in its record: the latest reconciliations with actions, obstacles and requests.

A reconciliation without an action, a new obstacle or a new request adds nothing, so that a cluster at rest causes no
write. The functions of the module are pure.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec
import orjson

from applier.causes import Cause
from applier.execute.results import Result
from gitops.records.cause_rows import MAX_MESSAGE_CHARACTERS
from gitops.rollouts.state import CONTROLLER, HALTED, OVERRIDDEN, PROPOSED, DecisionRecord, RolloutState
from gitops.timestamps import timestamp
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

MAX_PASSES: Final = 50
"""Largest number of entries in a history. When the history is full, the oldest entries are dropped first."""
MAX_TOTAL_BYTES: Final = 256 * 1024
"""Limit in bytes of UTF-8 for all entries of a history. When the history is full, the oldest entries are dropped first.
"""

MAX_LISTED_PER_PASS: Final = 300
"""Largest number of actions, and of obstacles, that one entry lists. The entry counts further actions."""


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """Successful or failed action on an object of a set."""

    set: str
    """Key of the set's parent."""
    object: str
    action: str
    level: int | None = None
    """Level of the object's node, or None for the parent of a set."""
    node: str = ""
    error: str = ""
    """Message of the error with which the action failed, or an empty string for a successful action."""


@dataclass(frozen=True, slots=True)
class RecordedObstacle:
    """Closed gate or directive that blocks a set or one of its nodes."""

    set: str
    """Key of the set's parent."""
    reason: str
    message: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """Entry for a reconciliation of a source. The names of the fields are also the keys of the stored JSON."""

    at: datetime
    commit: str = ""
    state: str = ""
    """State of the source after the reconciliation."""
    deeds: tuple[RecordedAction, ...] = ()
    """Actions, at most `MAX_LISTED_PER_PASS`."""
    more: int = 0
    """Number of actions that the entry counts but does not list."""
    met: tuple[RecordedObstacle, ...] = ()
    """Obstacles that earlier entries of the same commit do not list."""
    words: tuple[DecisionRecord, ...] = ()
    """Requests of people, halts, proposed reverts, and changes under a break-glass."""


SetObstacle = tuple[ObjectKey, Cause]
"""Key of a set's parent, and a cause that blocks the set or a node of the set."""


@dataclass(frozen=True, slots=True)
class PassActivity:
    """Actions of one reconciliation on all sources, and the obstacles and decisions of the source with the history."""

    results: Sequence[Result]
    own_sets: Container[ObjectKey]
    """Parents of the sets that belong to the source with the history, according to Git."""
    recorded_sets: Container[ObjectKey]
    """Parents of the sets that the record of the source names."""
    obstacles: Sequence[SetObstacle] = ()
    decisions: Sequence[DecisionRecord] = ()
    states: Mapping[str, RolloutState] = field(default_factory=dict)

    def is_own(self, parent: ObjectKey) -> bool:
        """Return whether the set of `parent` belongs to the source with the history."""
        return parent in self.own_sets or parent in self.recorded_sets


def parse_passes(text: str) -> tuple[PassRecord, ...]:
    """Return the entries that `text` stores, oldest first.

    If `text` is unreadable, return no entry, because no decision depends on the history.
    """
    try:
        return msgspec.json.decode(text, type=tuple[PassRecord, ...]) if text else ()
    except msgspec.DecodeError:
        return ()


def append_pass(
    text: str, activity: PassActivity, *, commit: str, state: str, now: datetime, max_bytes: int = MAX_TOTAL_BYTES
) -> str:
    """Return the stored entries in `text`. If the present reconciliation has something new, add its entry.

    Drop the oldest entries to keep within `MAX_PASSES` and `max_bytes`. If an obstacle or request of a dropped entry
    still applies, the new entry repeats the obstacle or request. Otherwise the next reconciliation would count it as
    new and write an entry.

    Args:
        text: JSON of the stored entries.
        commit: reconciled commit.
        state: state of the source after the reconciliation.
        max_bytes: limit in bytes of UTF-8 for the returned text.
    """
    passes = parse_passes(text)
    last = passes[-1] if passes else None
    is_same = last is not None and (last.commit, last.state) == (commit, state)
    record = _make_record(activity, passes, passes, commit=commit, state=state, now=now)
    max_bytes = min(max_bytes, MAX_TOTAL_BYTES)
    if is_same and not (record.deeds or record.words or record.met) and len(text.encode()) <= max_bytes:
        return text
    raw_passes = msgspec.json.decode(text, type=tuple[msgspec.Raw, ...]) if passes else ()
    stored_texts = [bytes(raw_pass).decode() for raw_pass in raw_passes]
    # Each iteration drops one more of the oldest entries, until the remaining entries fit.
    for first_kept in range(max(0, len(passes) + 1 - MAX_PASSES), len(passes) + 1):
        if first_kept:
            record = _make_record(activity, passes, passes[first_kept:], commit=commit, state=state, now=now)
        encoded = f"[{','.join([*stored_texts[first_kept:], _encode_record(record)])}]"
        if len(encoded.encode()) <= max_bytes:
            break
    return encoded


def _make_record(
    activity: PassActivity,
    passes: Sequence[PassRecord],
    kept_passes: Sequence[PassRecord],
    *,
    commit: str,
    state: str,
    now: datetime,
) -> PassRecord:
    """Return the entry of the present reconciliation.

    The entry omits obstacles, failures and decisions that entries of the same commit in `kept_passes` list.
    """
    same_commit_passes = [kept_pass for kept_pass in kept_passes if kept_pass.commit == commit]
    actions = list(_new_actions(activity, passes, same_commit_passes))
    recorded = {
        (obstacle.set, obstacle.node, obstacle.reason)
        for same_commit_pass in same_commit_passes
        for obstacle in same_commit_pass.met
    }
    is_full = any(len(earlier_pass.met) == MAX_LISTED_PER_PASS for earlier_pass in same_commit_passes)
    obstacles = [
        RecordedObstacle(str(key), str(cause.reason), cause.message[:MAX_MESSAGE_CHARACTERS], cause.node)
        for key, cause in activity.obstacles
        if not is_full and not cause.reason.is_queued and (str(key), cause.node, str(cause.reason)) not in recorded
    ]
    return PassRecord(
        now.replace(microsecond=0),
        commit,
        state,
        tuple(islice(actions, MAX_LISTED_PER_PASS)),
        max(0, len(actions) - MAX_LISTED_PER_PASS),
        tuple(islice(obstacles, MAX_LISTED_PER_PASS)),
        tuple(_new_decisions(activity, passes, same_commit_passes)),
    )


def _new_actions(
    activity: PassActivity, passes: Sequence[PassRecord], same_commit_passes: Sequence[PassRecord]
) -> Iterator[RecordedAction]:
    """Yield the actions on the source's own sets, without failures that an entry in `same_commit_passes` lists.

    After the source has deleted an instance, the set of the instance no longer belongs to the source. The result
    includes actions on the members of such a set.
    """
    deleted_objects: set[str] = set()
    if not all(activity.is_own(result.set) for result in activity.results):
        deleted_objects |= {
            action.object for pass_record in passes for action in pass_record.deeds if action.action == "deleted"
        }
    failed = {
        (action.object, action.action, action.error)
        for pass_record in same_commit_passes
        for action in pass_record.deeds
        if action.error
    }
    for result in activity.results:
        if result.is_bookkeeping or not (str(result.set) in deleted_objects or activity.is_own(result.set)):
            continue
        error = str(result.error)[:MAX_MESSAGE_CHARACTERS] if result.error else ""
        action = RecordedAction(str(result.set), str(result.key), result.action, result.level, result.node, error)
        if result.action == "deleted":
            deleted_objects.add(action.object)
        if not error or (action.object, action.action, action.error) not in failed:
            yield action


def _new_decisions(
    activity: PassActivity, passes: Sequence[PassRecord], same_commit_passes: Sequence[PassRecord]
) -> Iterator[DecisionRecord]:
    """Yield the decisions since the last entry that are about requests, halts, proposed reverts or a break-glass.

    The result omits decisions that an entry in `same_commit_passes` lists, and decisions of the same second that an
    entry of another commit lists.
    """
    recorded_before = {
        (_second(decision.at), decision.what, decision.subject, decision.by, decision.why)
        for pass_record in passes
        for decision in pass_record.words
    }
    recorded = {
        (decision.what, decision.subject, decision.by, decision.why)
        for pass_record in same_commit_passes
        for decision in pass_record.words
    }
    since = passes[-1].at if passes else None
    decisions = [
        decision
        for state in activity.states.values()
        for decision in state.decisions
        if (decision.by != CONTROLLER or decision.what in {OVERRIDDEN, HALTED, PROPOSED})
        and (since is None or _second(decision.at) >= since)
        and (_second(decision.at), decision.what, decision.subject, decision.by, decision.why) not in recorded_before
    ]
    yield from (
        decision
        for decision in decisions
        if (decision.what, decision.subject, decision.by, decision.why) not in recorded
    )
    recorded_subjects = {(action, subject) for action, subject, _, _ in recorded}
    yield from (
        decision for decision in activity.decisions if (decision.what, decision.subject) not in recorded_subjects
    )


def _second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _encode_record(record: PassRecord) -> str:
    fields = asdict(record, dict_factory=_drop_empty)
    return orjson.dumps(
        fields, default=timestamp, option=orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
    ).decode()


def _drop_empty(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value not in (None, "", ())}
