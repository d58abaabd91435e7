"""When the changes of a plan start, if it is merged now: what goes at once, what comes after it, and what waits for the calendar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import NamedTuple

from applier.causes import Reason
from gitops.plan.report import InterimChange, Obstacle, PlannedAction, PlannedChange, PlanStep
from gitops.plan.window_capacity import WindowCapacities
from gitops.reconcile.context import Preview
from gitops.rollouts.advance import approvals_missing
from gitops.rollouts.policy import Policy
from gitops.rollouts.state import RolloutState
from renderer.identity import ObjectKey

_GOES = {PlannedAction.DELETE: "deleted", PlannedAction.RELEASE: "released"}


class _Turn(NamedTuple):
    """The turn of an instance that moves to another revision: the number of its `wave` in the rollout."""

    rollout: str
    policy: Policy
    wave: int

    @property
    def name(self) -> str:
        """`wave prod`; empty where its rollout has no waves."""
        return f"wave {self.policy.all_waves[self.wave].name}" if self.policy.waves else ""


class _When(NamedTuple):
    """Changes with one of these start together. `rank` puts what goes at once first, then rollouts, then what waits."""

    rank: int
    at: datetime | None
    wave: int
    after: str
    what: str


def schedule_steps(preview: Preview, changes: Sequence[PlannedChange]) -> Iterator[PlanStep]:
    """In the order in which they can start."""
    found: dict[_When, list[PlannedChange]] = {}
    rooms = WindowCapacities(preview)
    starts = _Starts(preview, rooms, changes)
    gone = {change.key for change in changes if change.action is PlannedAction.DELETE}
    first = [change for change in changes if not _held(change) and not _is_later_item(change)]
    free = {change.instance for change in first if change.node}
    turns = {change.instance for change in first if change.gates}
    for change in changes:
        instance = change.instance
        held = _held(change)
        for early in change.meanwhile:
            if early.action.is_change:
                found.setdefault(_early(early), []).append(change)
        if not change.action.is_change or (not change.gates and instance in turns):
            continue  # what waits for the turn of its instance alone starts with it
        if held and all(gate.reason is Reason.DEPENDENCY_NOT_READY and not gate.is_unplanned for gate in held):
            continue  # and so does what waits for another change
        if instance in free and _is_later_item(change):
            continue  # or for other items of its collection
        when = starts.of(change, leaves=instance in gone, alone=instance in free)
        found.setdefault(when, []).append(change)
    for when in sorted(found, key=_order):
        begins = when.at or (None if when.rank else preview.due.situation.now)
        room = rooms.of(found[when], begins) if begins else None
        names = dict.fromkeys(place(one.instance) if one.instance else one.ref for one in found[when])
        yield PlanStep(when.what, tuple(names), when.at, when.after, room)


def place(key: ObjectKey) -> str:
    """`prod/cart`."""
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def _early(meanwhile: InterimChange) -> _When:
    """When something is brought to what its instance is at until its turn."""
    gate = max(meanwhile.gates, key=lambda one: one.until.timestamp() if one.until else 0.0, default=None)
    what = meanwhile.what.replace("its turn", "their turn")
    if gate is None:
        return _When(0, None, 0, "", _titled(what))
    return _When(2, gate.until, 0, "" if gate.until else _after([_sentence(gate)]), _titled(what, _named(gate)))


def _order(when: _When) -> tuple[float, int, int, int, str, str]:
    """What starts at the same time comes wave by wave."""
    unknown = 0.0 if when.rank < 2 else inf
    begins, rank = (when.at.timestamp(), 0) if when.at else (unknown, when.rank)
    return begins, rank, when.wave, when.rank, when.after, when.what


def _held(change: PlannedChange) -> list[Obstacle]:
    """What holds it beside its turn."""
    return [gate for gate in change.gates if not gate.is_turn]


def _is_later_item(change: PlannedChange) -> bool:
    """Does it wait for other items of its collection alone?"""
    return bool(change.gates) and all(gate.is_of_items for gate in change.gates)


class _Starts:
    """When changes of one plan can start."""

    def __init__(self, preview: Preview, rooms: WindowCapacities, changes: Sequence[PlannedChange]) -> None:
        self._preview = preview
        self._turns = {change.instance: _turn(preview, rooms, change.instance) for change in changes if change.instance}
        self._ends: dict[_Turn, list[datetime | None]] = {}
        for change in changes:
            if change.instance and (turn := self._turns[change.instance]):
                passed = {Reason.HELD, Reason.SUSPENDED}  # by the others of its rollout
                self._ends.setdefault(turn, []).extend(g.until for g in _held(change) if g.reason not in passed)

    def of(self, change: PlannedChange, *, leaves: bool, alone: bool) -> _When:
        """`alone`: other nodes of its instance are not held."""
        turn = self._turns.get(change.instance) if change.instance else None
        wave, name = (turn.wave, turn.name) if turn else (0, "")
        goes = _GOES.get(change.action, "") if not change.instance else "deleted" if leaves else ""
        if not change.gates:
            return _When(0, None, wave, "", _titled(goes or name))
        if held := _held(change):
            gate = max(held, key=lambda one: one.until.timestamp() if one.until else 0.0)
            node = f"node {change.node}" if change.node and alone and not leaves else ""
            after = "; ".join(filter(None, ("" if gate.until else _sentence(gate), _after(self._before(change, turn)))))
            what = (goes, name) if gate.is_unplanned else (goes, name, node, _named(gate))
            return _When(2, self._earliest(change, turn), wave, after, _titled(*what))
        gate = change.gates[0]
        before = [_sentence(gate)] if gate.reason is not Reason.WAVE_NOT_REACHED else self._before(change, turn)
        return _When(1, self._earliest(change, turn), wave, _after(before), _titled(name))

    def _earliest(self, change: PlannedChange, turn: _Turn | None) -> datetime | None:
        """When all its gates can be open, as far as that is known: its turn comes later by what holds the waves before its own."""
        earlier = self._ends_before(turn)
        known = [end for end in earlier if end]
        if len(known) < len(earlier):
            return None
        now = self._preview.due.situation.now
        late = max((end - now for end in known), default=timedelta())
        opens = [
            gate.until + late if gate.is_turn else max(gate.until, *known, now) for gate in change.gates if gate.until
        ]
        return max([*opens, *known], default=None)

    def _before(self, change: PlannedChange, turn: _Turn | None) -> list[str]:
        """What has to happen before the wave of a change begins."""
        if turn is None or not turn.wave:
            return []
        state = self._preview.first.propagation.states.get(turn.rollout, RolloutState())
        waves = turn.policy.all_waves
        earlier, target = {wave.name for wave in waves[: turn.wave]}, state.targets.get(waves[turn.wave].name)
        missing = approvals_missing(turn.policy, state, target) if target else turn.policy.approvals
        approvals = [
            f"an approval after {point}" + (f" ({' or '.join(point.by)})" if point.by else "")
            for point in missing
            if point.after_wave in earlier
        ]
        waits = any(self._waves_before(turn)) or any(gate.reason is Reason.WAVE_NOT_REACHED for gate in change.gates)
        return [*(["the wave before it"] if waits else []), *approvals]

    def _ends_before(self, turn: _Turn | None) -> list[datetime | None]:
        """Until when, at least, waves before its own are held."""
        return [end for other in self._waves_before(turn) for end in self._ends[other]] if turn else []

    def _waves_before(self, turn: _Turn) -> Iterator[_Turn]:
        return (one for one in self._ends if one[:2] == turn[:2] and one.wave < turn.wave)


def _turn(preview: Preview, rooms: WindowCapacities, instance: ObjectKey) -> _Turn | None:
    """None where it moves to no other revision: then it waits for nobody's turn."""
    rendered = preview.first.bundle.instances.get(instance)
    if rendered is None or not rendered.definition or rendered.applied == rendered.target_revision:
        return None
    policy = rooms.policy(instance)
    names = [wave.name for wave in policy.all_waves]
    return _Turn(
        rendered.definition, policy, names.index(policy.wave_of(rendered.manifest["metadata"].get("labels") or {}))
    )


def _titled(*words: str) -> str:
    said = ", ".join(filter(None, words))
    return f"{said}:" if said else ""


def _after(what: Sequence[str]) -> str:
    return f"after {' and '.join(what)}" if what else ""


def _sentence(gate: Obstacle) -> str:
    """What is said of a gate, without what differs from instance to instance."""
    if gate.is_unplanned:
        return f"after {gate.name}"
    words = {
        Reason.PACE_REACHED: "those before them",
        Reason.BRAKE_ENGAGED: "once a person approves the commit",
    }
    return words.get(gate.reason, f"{gate.reason}: {gate.message}")


def _named(gate: Obstacle) -> str:
    words = {Reason.WINDOW_CLOSED: "window", Reason.NEVER_OPENS: "window"}
    return " ".join(filter(None, (words.get(gate.reason, str(gate.reason)), gate.name)))
