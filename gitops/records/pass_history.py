"""The last passes of a source that did something, as its record keeps them: what was done to which object, which gates were met, who ordered what.

A pass that did nothing, met nothing new and heard of nothing new leaves no trace, so that a world at rest causes no write. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
MAX_TOTAL_BYTES: Final = 256 * 1024
"""Bytes of all passes together, where the record has room for them; the oldest go first."""

MAX_LISTED_PER_PASS: Final = 300
"""Objects, and gates, that one pass tells; the rest is counted."""


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """What was done to an object of a set, or with an `error` could not be. `level` is None for parents of sets."""

    set: str
    object: str
    action: str
    level: int | None = None
    node: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class RecordedObstacle:
    """A closed gate, or a person's word, in the way of a set, or of one of its nodes."""

    set: str
    reason: str
    message: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One pass: when it was, at which commit, the state of the source after it. `more` deeds are not listed. `words` are what people ordered, and
    what was done past a window.
    """

    at: datetime
    commit: str = ""
    state: str = ""
    deeds: tuple[RecordedAction, ...] = ()
    more: int = 0
    met: tuple[RecordedObstacle, ...] = ()
    words: tuple[DecisionRecord, ...] = ()


SetObstacle = tuple[ObjectKey, Cause]
"""A set, and what holds it or one of its nodes."""


@dataclass(frozen=True, slots=True)
class PassActivity:
    """What a pass did and met, of all sources; `mine` tells whether the set of this parent belongs to the source in question."""

    results: Sequence[Result]
    is_own: Callable[[ObjectKey], bool]
    obstacles: Sequence[SetObstacle] = ()
    decisions: Sequence[DecisionRecord] = ()
    states: Mapping[str, RolloutState] = field(default_factory=dict)


def parse_passes(text: str) -> tuple[PassRecord, ...]:
    """The oldest first. What cannot be read counts as nothing: it only tells."""
    try:
        return msgspec.json.decode(text, type=tuple[PassRecord, ...]) if text else ()
    except msgspec.DecodeError:
        return ()


def append_pass(
    text: str, activity: PassActivity, *, commit: str, state: str, now: datetime, max_bytes: int = MAX_TOTAL_BYTES
) -> str:
    """The passes with this one, if it is worth to be told: bounded in number and size, to `room` bytes where the record has no more. What stands in
    passes that are dropped for it, it tells itself: or the next pass would take that for new, and so on for ever.
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
    """What this pass has to tell beyond those that are `kept` of the `known` ones."""
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
    """Of this source; what fails as it failed before is not told again. What belongs to an instance that it deletes is the source's as well."""
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
    """What people said, what halted and what was proposed of it, and what was done past a window, since the last pass that is kept; each once."""
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
        and (since is None or decision.at.replace(microsecond=0) >= since)
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


def _encode_record(record: PassRecord) -> str:
    fields = asdict(record, dict_factory=_drop_empty)
    return orjson.dumps(
        fields, default=timestamp, option=orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
    ).decode()


def _drop_empty(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value not in (None, "", ())}
