"""Whether windows leave enough room for changes: `availability` of a source's default policy, over the coming year.

Wanted are so many hours in every period, counting only pieces that are long enough to do something in. Where the least is found is known ahead: a
period that begins when a piece ends or gets too short, or that ends when a piece begins or gets long enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from applier.plan.model import Operation
from gitops.rollouts.policy import Availability
from gitops.rollouts.source_rules import SourceRules
from gitops.windows.verdict import TrustedTime, judge
from gitops.windows.window import WindowTarget
from renderer.frozen import dataclass

AHEAD: Final = timedelta(days=366)
_MOMENT: Final = timedelta(seconds=1)

Piece = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Shortage:
    """What these windows govern may change for `open_for` in the period from `begins`, which is less than is wanted."""

    windows: tuple[str, ...]
    begins: datetime
    open_for: timedelta


def shortages(rules: SourceRules, targets: Iterable[WindowTarget], now: datetime) -> Iterator[Shortage]:
    """The worst period of each set of windows that governs some target, if that is too little; nothing where the policy asks for nothing."""
    wanted = rules.default_policy.windows.availability
    if wanted is None:
        return
    alike: dict[tuple[str, ...], WindowTarget] = {}
    for target in targets:
        names = tuple(window.name for window in rules.windows.values() if window.governs(target, Operation.UPDATE))
        alike.setdefault(names, target)
    for names, target in sorted(alike.items()):
        begins, found = least(list(_pieces(rules, target, now, now + AHEAD)), wanted, now, now + AHEAD)
        if found < wanted.at_least:
            yield Shortage(names, begins, found)


def least(pieces: Sequence[Piece], wanted: Availability, now: datetime, until: datetime) -> tuple[datetime, timedelta]:
    """The first of the periods within these times that have the least in them, and how much that is."""
    candidates = {now}
    for opens, closes in pieces:
        candidates |= {closes, closes - wanted.contiguous + _MOMENT}
        candidates |= {opens - wanted.per, opens + wanted.contiguous - _MOMENT - wanted.per}
    periods = sorted(begins for begins in candidates if now <= begins and begins + wanted.per <= until)
    return min(((begins, _within(pieces, wanted, begins)) for begins in periods or [now]), key=lambda found: found[1])


def _within(pieces: Sequence[Piece], wanted: Availability, begins: datetime) -> timedelta:
    """How long is open in the period that begins then, pieces that are too short in it left out."""
    ends = begins + wanted.per
    lengths = (min(closes, ends) - max(opens, begins) for opens, closes in pieces if opens < ends and closes > begins)
    return sum((length for length in lengths if length >= wanted.contiguous), timedelta())


def _pieces(rules: SourceRules, target: WindowTarget, now: datetime, until: datetime) -> Iterator[Piece]:
    """When something of this target may be started."""
    moment = now
    windows = [rules.for_windows(None)]
    while moment < until:
        verdict = judge(windows, target, Operation.UPDATE, TrustedTime(moment))
        following = min(verdict.until or until, until)
        if verdict.open:
            yield moment, following
        moment = following
