"""What has happened between two passes, beside the writes, which are told as they are made: who is held, what has settled, which wave is over, what
is wrong in Git.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from applier.causes import Cause, Reason
from gitops.reconcile.context import Moved, ReconcileResult
from gitops.reconcile.set_summaries import SetSummary
from gitops.rollouts.state import OVERRIDDEN, DecisionRecord, WaveProgress
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(frozen=True, slots=True)
class InstancesHeld:
    """Instances that are held for the same cause, or one of them, at one of its nodes."""

    instances: tuple[ObjectKey, ...]
    node: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class InstancesFailed:
    """Instances in which the same is wrong, or one of them, at one of its nodes; no write has told it."""

    instances: tuple[ObjectKey, ...]
    node: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class ProblemFound:
    """What Git says cannot be taken as it stands; `source` is empty where several say it together."""

    source: str
    problem: str


@dataclass(frozen=True, slots=True)
class InstanceSettled:
    instance: ObjectKey


@dataclass(frozen=True, slots=True)
class WaveSettled:
    """A wave of a rollout has settled; `following` starts now, empty where it was the last one."""

    rollout: str
    wave: WaveProgress
    following: str


@dataclass(frozen=True, slots=True)
class RolloutHalted:
    rollout: str
    target: str
    why: str


@dataclass(frozen=True, slots=True)
class WindowOverridden:
    """Something is changed although a window is closed: by whom, why, and what. Of an object that is in no rollout its source stands in its place."""

    rollout: str
    decision: DecisionRecord


News = InstancesHeld | InstancesFailed | ProblemFound | InstanceSettled | WaveSettled | RolloutHalted | WindowOverridden


def news(before: ReconcileResult | None, after: ReconcileResult) -> Iterator[News]:
    """In the order in which a person wants to hear it. Before the first pass nothing has settled, and everything that is held is new."""
    moved = after.moved if after.touched is not None else _moved(before, after)
    settled = [key for key, (old, new) in moved.items() if old and not old.is_settled and new.is_settled]
    yield from (InstanceSettled(key) for key in sorted(settled))
    yield from _of_rollouts(before, after)
    yield from _of_sources(before, after)
    known = set(before.problems) if before else set()
    sources = {problem: state.catalog.source for state in after.sources for problem in state.catalog.problems}
    yield from (ProblemFound(sources.get(one, ""), str(one)) for one in after.problems if one not in known)
    yield from _failures(moved, after)
    together: dict[tuple[ObjectKey | None, str, Cause], list[ObjectKey]] = {}
    for key, (old, new) in moved.items():
        held = set(_holds(old)) if old else set()
        for node, cause in _holds(new):
            if (node, cause) not in held:
                together.setdefault((key if node else None, node, cause), []).append(key)
    yield from (InstancesHeld(tuple(keys), node, cause) for (_, node, cause), keys in together.items())


def _moved(before: ReconcileResult | None, after: ReconcileResult) -> Moved:
    """The accounts of everything that was or is not at rest, before and after."""
    old, new = before.ledger.accounts if before else {}, after.ledger.accounts
    restless = [*after.ledger.restless(), *(before.ledger.restless() if before else ())]
    keys = dict.fromkeys(one.plan.rendered.parent for one in restless)
    return {key: (old.get(key), new[key]) for key in keys if key in new}


def _failures(moved: Moved, after: ReconcileResult) -> Iterator[InstancesFailed]:
    """A failure that goes on is told once, whatever its message counts meanwhile."""
    known = {(one.set, one.node, Cause.from_error(one.error).reason) for one in after.results if one.error}
    together: dict[tuple[str, Cause], list[ObjectKey]] = {}
    for key, (old, new) in moved.items():
        told = {(node, cause.reason) for node, cause in _failing(old)} if old else set()
        for node, cause in _failing(new):
            if (node, cause.reason) not in told and (key, node, cause.reason) not in known:
                together.setdefault((node, cause), []).append(key)
    yield from (InstancesFailed(tuple(keys), node, cause) for (node, cause), keys in together.items())


def _failing(one: SetSummary) -> Iterator[tuple[str, Cause]]:
    return ((cause.node, replace(cause, dependents=())) for cause in one.rows if cause.reason.is_failure)


def _holds(one: SetSummary) -> Iterator[tuple[str, Cause]]:
    """Whoever waits for its turn is counted below, not told one by one."""
    for cause in one.holds:
        if not cause.reason.is_queued and cause.reason is not Reason.HALTED:
            yield cause.node, replace(cause, dependents=())


def _of_sources(before: ReconcileResult | None, after: ReconcileResult) -> Iterator[News]:
    """What was done to plain objects past a window."""
    for name, requests in after.propagation.source_requests.items():
        was = before.propagation.source_requests.get(name) if before else None
        noted = was.overrides if was else ()
        yield from (WindowOverridden(f"source {name}", one) for one in requests.overrides if one not in noted)


def _of_rollouts(before: ReconcileResult | None, after: ReconcileResult) -> Iterator[News]:
    if before is None:
        return
    for name, state in after.propagation.states.items():
        was = before.propagation.states.get(name)
        told = Counter((one.since, one.why) for one in was.halts) if was else Counter[tuple[object, str]]()
        for halt in state.halts:
            if (halt.since, halt.why) not in told:
                yield RolloutHalted(name, f"r{halt.target}" if halt.target else "the rollout", halt.why)
        noted = was.decisions if was else ()
        yield from (
            WindowOverridden(name, one) for one in state.decisions if one.what == OVERRIDDEN and one not in noted
        )
        waves = [wave for wave in state.waves if wave.total]
        for wave, following in zip(waves, chain((one.name for one in waves[1:]), [""]), strict=False):
            passed = state.passed.get(wave.name)
            if passed and len(waves) > 1 and passed != (was.passed.get(wave.name) if was else None):
                is_at_it = state.targets.get(wave.name) == passed  # else it counts for its next target already
                yield WaveSettled(name, wave if is_at_it else replace(wave, settled=wave.total), following)
