"""When the changes of a plan start, if it is merged now: what goes at once, what comes after it, and what waits for the calendar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from applier.reasons import Reason
from gitops.passes.known import Preview
from gitops.propagation.policy import ALL
from gitops.review.report import Action, Change, Gate, Step
from gitops.review.room import Rooms
from renderer.identity import ObjectKey

_OF_ROLLOUT = frozenset({Reason.PACE_REACHED, Reason.WAVE_NOT_REACHED, Reason.PROGRESSING, Reason.BAKING})


class _When(NamedTuple):
    """Changes with one of these start together. `rank` puts what goes at once first, then rollouts, then what waits."""

    rank: int
    at: datetime | None
    after: str
    what: str


def steps(preview: Preview, changes: Sequence[Change]) -> Iterator[Step]:
    """In the order in which they can start."""
    found: dict[_When, list[Change]] = {}
    rooms = Rooms(preview)
    gone = {change.key for change in changes if change.action is Action.DELETE}
    free = {change.instance for change in changes if change.node and not _held(change)}
    turns = {change.instance for change in changes if change.gates and not _held(change)}
    for change in changes:
        instance = change.instance
        if not change.action.is_change or (not change.gates and instance in turns):
            continue  # what waits for the turn of its instance alone starts with it
        for when in _when(preview, change, leaves=instance in gone, alone=instance in free):
            found.setdefault(when, []).append(change)
    for when in sorted(found, key=_order):
        begins = when.at or (None if when.rank else preview.situation.now)
        room = rooms.of(found[when], begins) if begins else None
        names = dict.fromkeys(place(one.instance) if one.instance else one.ref for one in found[when])
        yield Step(when.what, tuple(names), when.at, when.after, room)


def place(key: ObjectKey) -> str:
    """`prod/cart`."""
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def _order(when: _When) -> tuple[int, float, str, str]:
    return when.rank, when.at.timestamp() if when.at else 0.0, when.after, when.what


def _held(change: Change) -> list[Gate]:
    """What holds it beside its turn."""
    return [gate for gate in change.gates if gate.reason not in _OF_ROLLOUT]


def _when(preview: Preview, change: Change, *, leaves: bool, alone: bool) -> Iterable[_When]:
    """`alone`: other nodes of its instance are not held."""
    wave = _wave(preview, change.instance)
    if not change.gates:
        return [_When(0, None, "", "deleted:" if leaves else f"wave {wave}:" if wave else "")]
    if held := _held(change):
        gate = max(held, key=lambda one: one.until.timestamp() if one.until else 0.0)
        node = f"node {change.node}, " if change.node and alone and not leaves else ""
        return [_When(2, gate.until, "" if gate.until else _sentence(gate), f"{node}{_named(gate)}:")]
    gate = change.gates[0]
    return [_When(1, gate.until, f"after {_sentence(gate)}", f"wave {wave}:" if wave else "")]


def _wave(preview: Preview, instance: ObjectKey | None) -> str:
    remembered = preview.first.propagation.remembered.get(instance, {}) if instance else {}
    name = str((remembered.get("rollout") or {}).get("wave") or "")
    return "" if name == ALL else name


def _sentence(gate: Gate) -> str:
    """What is said of a gate, without what differs from instance to instance."""
    words = {
        Reason.PACE_REACHED: "those before them",
        Reason.WAVE_NOT_REACHED: "the wave before it",
        Reason.BRAKE_ENGAGED: "once a person approves the commit",
    }
    return words.get(gate.reason, f"{gate.reason}: {gate.message}")


def _named(gate: Gate) -> str:
    words = {Reason.WINDOW_CLOSED: "window", Reason.NEVER_OPENS: "window"}
    return " ".join(filter(None, (words.get(gate.reason, str(gate.reason)), gate.name)))
