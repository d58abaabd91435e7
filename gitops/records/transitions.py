"""What has changed between what a record said before a pass and what it says after it: the stuff of events and notifications. Pure.

A transition is told once, by whoever writes the record that makes it known; what that record said already is none. So nothing is told again after a
restart, and a world at rest tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from applier.causes import EventReason, Reason
from applier.cluster import Object
from applier.execute.results import Result
from gitops.records import pass_history
from gitops.records.cause_rows import CauseRow
from gitops.records.instance_state import DisplayState
from gitops.records.source_record import SourceRecord
from gitops.rollouts.state import HALTED, OVERRIDDEN, PROPOSED
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent
from renderer.levelgate_status import LevelgateStatus
from renderer.phrasing import listed

MOST: Final = 100
"""Transitions that one pass tells; warnings come first."""

_UNTOLD: Final = frozenset(
    {Reason.PROGRESSING, Reason.BAKING, Reason.PACE_REACHED, Reason.WAVE_NOT_REACHED, Reason.DEPENDENCY_NOT_READY}
    | {Reason.WAITING_FOR_DATA, Reason.HALTED, Reason.SETTLED}
)
"""Of these no instance tells by itself: time ends them, or the rollout tells it once for all."""

_WRONG: Final = frozenset(
    {
        Reason.DELETION_BLOCKED,
        Reason.BRAKE_ENGAGED,
        Reason.HISTORY_REWRITTEN,
        Reason.UNSIGNED,
        Reason.GATE_ERROR,
        Reason.DEADLOCKED,
    }
)
"""Beside failures: somebody has to act."""

_DONE: Final = {
    "created": EventReason.UPDATED,
    "updated": EventReason.UPDATED,
    "healed": EventReason.HEALED,
    "deleted": EventReason.PRUNED,
    "released": EventReason.PRUNED,
    "adopted": EventReason.ADOPTED,
    "taken over": EventReason.ADOPTED,
}
_LISTED: Final = 3


@dataclass(frozen=True, slots=True)
class Transition:
    """`word` is a `Happening`, or where something went wrong the `Reason`; `key`, `version` and `uid` are those of the instance or of the record of
    the source. `commit` is that of the source, `reason` why something is blocked; `state` is how all of the source is, where it tells;
    `others` counts those for which this one speaks, too.
    """

    word: EventReason | Reason
    message: str
    key: ObjectKey
    version: str
    uid: str
    source: str
    commit: str
    reason: Reason | None = None
    state: str = ""
    others: int = 0

    @property
    def is_of_source(self) -> bool:
        return self.key == source_parent(self.source)

    @property
    def is_warning(self) -> bool:
        return isinstance(self.word, Reason) or self.word is EventReason.BREAK_GLASS_USED


@dataclass(frozen=True, slots=True)
class TransitionSubject:
    """Whom transitions are about: an instance, or the record of a source."""

    parent: Object
    source: str
    commit: str
    state: str = ""

    def __call__(self, word: EventReason | Reason, message: str, reason: Reason | None = None) -> Transition:
        key, metadata = ObjectKey.of(self.parent), self.parent["metadata"]
        version, uid = self.parent["apiVersion"], metadata.get("uid", "")
        return Transition(word, message, key, version, uid, self.source, self.commit, reason, self.state)


def of_instance(
    about: TransitionSubject, before: Mapping[str, Any], after: Mapping[str, Any], results: Sequence[Result]
) -> Iterator[Transition]:
    """`before` and `after` are statuses, `results` what was done in its set."""
    yield from _done(about, results)
    old, new = LevelgateStatus.read(before).blocked, LevelgateStatus.read(after).blocked
    yield from _blocked(about, old, new)
    if _propagated(after) == Reason.SETTLED != _propagated(before):
        yield about(EventReason.SETTLED, "it is as Git says, and healthy")
    if _propagated(after) == Reason.NOT_IN_GIT != _propagated(before):
        yield about(Reason.NOT_IN_GIT, "no source holds this instance; commit it, or delete it")


def of_source(
    about: TransitionSubject, before: SourceRecord, after: SourceRecord, results: Sequence[Result]
) -> Iterator[Transition]:
    """`results` is what was done in the source's own set."""
    if after.target != before.target:
        yield about(EventReason.UPDATED, f"goes to commit {after.target[:12]}")
    yield from _done(about, results)
    yield from _blocked(about, before.causes, after.causes)
    if after.state == DisplayState.SETTLED and (before.state, before.target) != (after.state, after.target):
        yield about(EventReason.SETTLED, f"all of commit {after.target[:12]} is as Git says, and healthy")
    if after.passes != before.passes:
        for word in pass_history.read(after.passes)[-1].words:
            told = f"{word.subject}, by {word.by}: {word.why or 'no reason given'}"
            if word.what == OVERRIDDEN:
                yield about(EventReason.BREAK_GLASS_USED, told)
            elif word.what == HALTED:
                yield about(Reason.HALTED, told)
            elif word.what == PROPOSED:
                yield about(Reason.HALTED, f"{word.subject}: {word.why}")


def bounded(found: Iterable[Transition]) -> tuple[Transition, ...]:
    """At most `MOST`, the warnings first, and for each source one that tells how many more there are."""
    ordered = sorted(found, key=lambda one: not one.is_warning)
    left = groupby(sorted(ordered[MOST:], key=_source), _source)
    return (*ordered[:MOST], *(_for_all(list(group)) for _, group in left))


def _for_all(found: Sequence[Transition]) -> Transition:
    """The worst of them speaks for the others."""
    worst, more = found[0], len(found) - 1
    told = f"{worst.message} (and {more} more that are not told one by one)"
    return replace(worst, message=told, others=more) if more else worst


def _source(one: Transition) -> str:
    return one.source


def _done(about: TransitionSubject, results: Sequence[Result]) -> Iterator[Transition]:
    """One for each kind of thing that was done, however many objects it was done to."""
    found: dict[EventReason, list[str]] = {}
    for one in results:
        if one.error is None and one.action in _DONE:
            why = f" ({one.lost[0]})" if one.lost else ""
            found.setdefault(_DONE[one.action], []).append(f"{one.key.kind}/{one.key.name} {one.action}{why}")
    for word, told in found.items():
        yield about(word, listed(told, most=_LISTED))


def _blocked(
    about: TransitionSubject, before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
) -> Iterator[Transition]:
    """What stands in the way now and did not before; and that nothing does any more."""
    old = {(one.node, one.reason) for one in map(CauseRow.read, before) if one.reason not in _UNTOLD}
    new = [one for one in map(CauseRow.read, after) if one.reason not in _UNTOLD]
    for one in new:
        if (one.node, one.reason) not in old:
            node = f"node {one.node}: " if one.node else ""
            is_wrong = one.reason.is_failure or one.reason in _WRONG
            word = one.reason if is_wrong else EventReason.BLOCKED
            yield about(word, f"{node}{one.message}" if is_wrong else f"{one.reason}: {node}{one.message}", one.reason)
    if old and not new:
        yield about(EventReason.UNBLOCKED, "nothing stands in its way any more")


def _propagated(status: Mapping[str, Any]) -> str:
    told = {one.get("type"): one.get("reason", "") for one in status.get("conditions") or ()}
    return told.get("Propagated") or told.get("InstanceManaged") or ""
