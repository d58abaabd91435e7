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
from gitops.records.cause_rows import MAX_MESSAGE, timestamp
from gitops.rollouts.state import HALTED, OURSELVES, OVERRIDDEN, PROPOSED, DecisionRecord, RolloutState
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

KEPT: Final = 50
LARGEST: Final = 256 * 1024
"""Bytes of all passes together, where the record has room for them; the oldest go first."""

MOST: Final = 300
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


Hold = tuple[ObjectKey, str, Cause]
"""A set, one of its nodes (empty: the set itself), and what holds it."""


@dataclass(frozen=True, slots=True)
class PassActivity:
    """What a pass did and met, of all sources; `mine` tells whether the set of this parent belongs to the source in question."""

    results: Sequence[Result]
    mine: Callable[[ObjectKey], bool]
    holds: Sequence[Hold] = ()
    words: Sequence[DecisionRecord] = ()
    states: Mapping[str, RolloutState] = field(default_factory=dict)


def read(text: str) -> tuple[PassRecord, ...]:
    """The oldest first. What cannot be read counts as nothing: it only tells."""
    try:
        return msgspec.json.decode(text, type=tuple[PassRecord, ...]) if text else ()
    except msgspec.DecodeError:
        return ()


def noted(text: str, happened: PassActivity, *, commit: str, state: str, now: datetime, room: int = LARGEST) -> str:
    """The passes with this one, if it is worth to be told: bounded in number and size, to `room` bytes where the record has no more. What stands in
    passes that are dropped for it, it tells itself: or the next pass would take that for new, and so on for ever.
    """
    known = read(text)
    last = known[-1] if known else None
    is_same = last is not None and (last.commit, last.state) == (commit, state)
    found = _pass(happened, known, known, commit=commit, state=state, now=now)
    room = min(room, LARGEST)
    if is_same and not (found.deeds or found.words or found.met) and len(text.encode()) <= room:
        return text
    stored = msgspec.json.decode(text, type=tuple[msgspec.Raw, ...]) if known else ()
    before = [bytes(one).decode() for one in stored]
    for first in range(max(0, len(known) + 1 - KEPT), len(known) + 1):
        if first:
            found = _pass(happened, known, known[first:], commit=commit, state=state, now=now)
        told = f"[{','.join([*before[first:], _text(found)])}]"
        if len(told.encode()) <= room:
            break
    return told


def _pass(
    happened: PassActivity,
    known: Sequence[PassRecord],
    kept: Sequence[PassRecord],
    *,
    commit: str,
    state: str,
    now: datetime,
) -> PassRecord:
    """What this pass has to tell beyond those that are `kept` of the `known` ones."""
    same = [one for one in kept if one.commit == commit]
    deeds = list(_deeds(happened, known, same))
    told = {(one.set, one.node, one.reason) for passed in same for one in passed.met}
    crowded = any(len(one.met) == MOST for one in same)
    met = [
        RecordedObstacle(str(key), str(cause.reason), cause.message[:MAX_MESSAGE], node)
        for key, node, cause in happened.holds
        if not crowded and not cause.reason.is_turn and (str(key), node, str(cause.reason)) not in told
    ]
    return PassRecord(
        now.replace(microsecond=0),
        commit,
        state,
        tuple(islice(deeds, MOST)),
        max(0, len(deeds) - MOST),
        tuple(islice(met, MOST)),
        tuple(_words(happened, known, same)),
    )


def _deeds(happened: PassActivity, known: Sequence[PassRecord], same: Sequence[PassRecord]) -> Iterator[RecordedAction]:
    """Of this source; what fails as it failed before is not told again. What belongs to an instance that it deletes is the source's as well."""
    going: set[str] = set()
    if not all(happened.mine(one.set) for one in happened.results):
        going |= {deed.object for passed in known for deed in passed.deeds if deed.action == "deleted"}
    failed = {(deed.object, deed.action, deed.error) for passed in same for deed in passed.deeds if deed.error}
    for one in happened.results:
        if one.is_bookkeeping or not (str(one.set) in going or happened.mine(one.set)):
            continue
        error = str(one.error)[:MAX_MESSAGE] if one.error else ""
        deed = RecordedAction(str(one.set), str(one.key), one.action, one.level, one.node, error)
        if one.action == "deleted":
            going.add(deed.object)
        if not error or (deed.object, deed.action, deed.error) not in failed:
            yield deed


def _words(happened: PassActivity, known: Sequence[PassRecord], same: Sequence[PassRecord]) -> Iterator[DecisionRecord]:
    """What people said, what halted and what was proposed of it, and what was done past a window, since the last pass that is kept; each once."""
    told = {(one.what, one.subject, one.by, one.why) for passed in same for one in passed.words}
    since = known[-1].at if known else None
    decided = [
        one
        for state in happened.states.values()
        for one in state.decisions
        if (one.by != OURSELVES or one.what in {OVERRIDDEN, HALTED, PROPOSED})
        and (since is None or one.at.replace(microsecond=0) >= since)
    ]
    yield from (one for one in decided if (one.what, one.subject, one.by, one.why) not in told)
    heard = {(what, subject) for what, subject, _, _ in told}
    yield from (one for one in happened.words if (one.what, one.subject) not in heard)


def _text(one: PassRecord) -> str:
    found = asdict(one, dict_factory=_told)
    return orjson.dumps(
        found, default=timestamp, option=orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
    ).decode()


def _told(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value not in (None, "", ())}
