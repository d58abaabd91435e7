"""What may be finished in a closed window, because it was begun before it closed. Gates, holds and pace are judged elsewhere."""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime

from applier.causes import Reason
from applier.plan.model import CandidateChange, DrainProgress, Operation
from gitops.windows.verdict import WindowVerdict
from gitops.windows.window import Drain
from renderer.identity import GroupKind


def finishes_change(
    verdict: WindowVerdict, change: CandidateChange, instance_kinds: Container[GroupKind], now: datetime
) -> bool:
    """Return whether a change that a window closes belongs to what its set has begun, as far as the scope reaches.

    A deletion counts as a level of its own. The object of another instance is no part of what a source has begun: its
    write needs `Rollout`, and its deletion always waits.
    """
    if change.drain_progress is None or not _is_in_time(verdict, change.drain_progress, now):
        return False
    is_prune = change.operation is Operation.PRUNE
    is_instance = change.set.is_source and change.key.group_kind in instance_kinds
    match verdict.drain:
        case Drain.LEVEL:
            is_on_level = change.level is not None and change.level <= change.drain_progress.level
            return is_on_level and not is_prune and not is_instance
        case Drain.INSTANCE:
            return not is_instance
    return not (is_prune and is_instance)


def finishes_instance(verdict: WindowVerdict, progress: DrainProgress | None, now: datetime) -> bool:
    """Return whether an instance, with those nested in it, may be brought to its end because it has begun."""
    reaches_it = verdict.drain is None or verdict.drain >= Drain.INSTANCE
    return reaches_it and progress is not None and _is_in_time(verdict, progress, now)


def describe_overrun(verdict: WindowVerdict, progress: DrainProgress | None, now: datetime) -> str:
    """Return that something was begun and not finished within the limit; empty where that is not so."""
    if progress is None or verdict.drain_until is None or now < verdict.drain_until:
        return ""
    if verdict.closed_at and progress.since >= verdict.closed_at:
        return ""
    return f"what has begun stays half-way, as its overrunLimit ended at {verdict.drain_until:%Y-%m-%dT%H:%MZ}"


def _is_in_time(verdict: WindowVerdict, progress: DrainProgress, now: datetime) -> bool:
    """Return whether anything that was begun may be finished now: until the limit, or in the last part of a window."""
    if verdict.closed_at and progress.since >= verdict.closed_at:
        return False
    if verdict.drain is None:
        return verdict.reason is Reason.WINDOW_CLOSED
    return verdict.drain.is_limited and not (verdict.drain_until and now >= verdict.drain_until)
