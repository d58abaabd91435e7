"""Steps of rollouts as queries: the instances that may move now, and the state to store before they move.

A step never contains the present time. The times of its decisions are `UNDATED` until the shell stores the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from applier.causes import Cause
from applier.plan.model import ApplySetPlan
from applier.state.observed import annotation
from gitops.decisions import live, rules
from gitops.decisions.definitions import definitions, planned_source_names, source_commit
from gitops.decisions.live_view import Lookup
from gitops.decisions.people import instance_directives, source_of
from gitops.decisions.permissions import bypassed_windows, make_override_record
from gitops.decisions.rollout_items import CountedItems, uncounted_instances
from gitops.decisions.rollout_members import RolloutRules, rollout_names_by_identity, rollout_rules, rollouts
from gitops.decisions.rollout_records import rollout_requests, rollout_state, unrecorded_cause
from gitops.decisions.rollout_targets import aimed_state
from gitops.decisions.set_plans import prospective_plan
from gitops.gates.instance_gates import InstanceGates
from gitops.queries import QueryGraph, Roots, query, recompute_at
from gitops.rollouts.advance import RolloutStep, counters_after, decide_grants
from gitops.rollouts.closed_windows import find_closed_waves
from gitops.rollouts.collection import Counters, RolloutItems
from gitops.rollouts.outlook import progress_of
from gitops.rollouts.requests import apply_requests, apply_requests_blind, with_git_halt
from gitops.rollouts.state import UNDATED, DecisionRecord, RolloutState, is_same_state
from gitops.rollouts.targets import bake_times
from gitops.windows.verdict import start_state
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.well_known import HALT


@dataclass(frozen=True, slots=True)
class DecidedStep:
    """Decision of one rollout. The state has to be stored before an instance in `grants` or `starts` moves."""

    grants: Mapping[ObjectKey, int]
    """Number of the target revision for each instance that may move now, in the order of the rollout."""
    starts: Mapping[ObjectKey, int]
    """Number of the last completed revision for each new instance that starts there without a grant."""
    state: RolloutState
    """State to store, with `UNDATED` as the time of each new decision."""


def _is_same_step(before: DecidedStep | None, after: DecidedStep | None) -> bool:
    if before is None or after is None:
        return before is after
    return before == after and is_same_state(before.state, after.state)


@query
def closed_waves(graph: QueryGraph, rollout: str) -> Mapping[str, Cause]:
    """Return the cause for each wave of a rollout whose own windows are closed now, by name of the wave."""
    found = rollout_rules(graph, rollout)
    if found is None or not any(wave.windows for wave in found.policy.waves):
        return {}
    windows = rules.wave_windows(graph, found.kind, found.declared_policy)
    named = {name for wave in found.policy.waves for name in wave.windows if name in windows}
    for name in named:
        recompute_at(graph, start_state(windows[name], graph.now).until)
    return dict(find_closed_waves(found.policy, windows, graph.now))


def instance_gates(
    graph: QueryGraph, found: RolloutRules, items: RolloutItems, keys: Mapping[str, ObjectKey]
) -> InstanceGates:
    """Return the gates of a definition across its instances.

    Args:
        keys: instances by the key of their item.
    """
    return InstanceGates(
        definitions(graph).current[found.kind].propagate_when or (),
        rules.gate_facts(graph, found.kind),
        items,
        keys,
        Lookup[ObjectKey, ApplySetPlan](partial(prospective_plan, graph), "plans"),
        rules.window_periods(graph, found.kind),
        partial(bypassed_windows, graph),
    )


def _override_records(
    graph: QueryGraph, gates: InstanceGates, items: CountedItems, granted: Iterable[str]
) -> Iterator[DecisionRecord]:
    """Yield a record for each granted item that moves although a gate of its definition asks for closed windows."""
    for key in granted:
        if names := sorted(gates.overridden_windows(key)):
            instance = items.instance_of(key)
            yield make_override_record(
                instance_directives(graph, instance),
                f"move {instance}",
                [gates.windows[name].window for name in names],
                commit=source_commit(graph, source_of(graph, instance)).commit,
                now=UNDATED,
            )


@query
def _true_externals(graph: QueryGraph, kind: GroupKind) -> frozenset[str]:
    """Return the names of the external facts that gates of a definition read and that are true."""
    names = {name for gate in definitions(graph).current[kind].gates for name in gate.externals}
    facts = rules.gate_facts(graph, kind).externals or {} if names else {}
    return frozenset(name for name in names if name in facts and facts[name].answer)


def _asked_state(graph: QueryGraph, rollout: str, found: RolloutRules, items: CountedItems) -> RolloutState:
    """Return the state of a rollout with a target for each wave, after halts in Git and requests of people."""
    state = aimed_state(graph, rollout)
    assert state is not None
    definition = definitions(graph)
    # Of a definition that another process reconciles, nobody here knows what Git says of a halt now.
    if definition.owners[found.kind] in planned_source_names(graph):
        document = definition.current[found.kind].document.value
        state = with_git_halt(state, annotation(document, HALT), now=UNDATED)
    failed = {wave: counters.failed for wave, counters in items.wave_counters.items()}
    return apply_requests(state, rollout_requests(graph, rollout), found.policy, failed, now=UNDATED)


def _step(graph: QueryGraph, rollout: str, found: RolloutRules) -> DecidedStep:
    """Return the decision of a rollout with instances."""
    policy, aimed = found.policy, aimed_state(graph, rollout)
    assert aimed is not None
    items = CountedItems(graph, rollout, policy, bake_times(policy, aimed))
    state = _asked_state(graph, rollout, found, items)
    has_gates = bool(definitions(graph).current[found.kind].propagate_when)
    gates = instance_gates(graph, found, items, Lookup(items.instance_of, "items")) if has_gates else None
    if uncounted_instances(graph, rollout):
        step = RolloutStep({}, {}, state)  # Health that nobody knows may be a failure.
    else:
        step = decide_grants(
            policy,
            items,
            state,
            now=UNDATED,
            closed=closed_waves(graph, rollout),
            pace=gates.pace(policy) if gates else None,
            find_obstacle=gates.find_wait if gates else _find_no_obstacle,
        )
    overrides = _override_records(graph, gates, items, step.grants) if gates else ()
    state = step.state.with_decision(*overrides)
    progress = progress_of(policy, counters_after(items, step), state)
    points = map(str, policy.approvals)
    return DecidedStep(
        {items.instance_of(key): number for key, number in step.grants.items()},
        {items.instance_of(key): number for key, number in step.starts.items()},
        state.with_progress(progress, points, _true_externals(graph, found.kind), UNDATED),
    )


def _find_no_obstacle(_item: str) -> None:
    return None


@query
def _is_unreadable(graph: QueryGraph, rollout: str) -> bool:
    """Return whether a rollout may have instances that the API server does not let Levelgate read."""
    names = (
        definition.name for kind, definition in definitions(graph).current.items() if kind in live.unreadable(graph)
    )
    return any(rollout == name or rollout.startswith(f"{name}.") for name in names)


def _state_without_items(graph: QueryGraph, rollout: str) -> RolloutState | None:
    """Return the state to store for a rollout without instances, or None for a rollout without a record."""
    state, rollout_asked = rollout_state(graph, rollout), rollout_requests(graph, rollout)
    if state and (name := rollout_names_by_identity(graph).get(state.of)):
        successor = rollout_state(graph, name)
        # The definition has a new name. Its state is kept under the new name before it is dropped here.
        if successor and successor.of == state.of:
            state = RolloutState()
    if rollout_asked and not _is_unreadable(graph, rollout):
        return apply_requests_blind(state or RolloutState(), rollout_asked, now=UNDATED)
    return state


@query
def wave_counters(graph: QueryGraph, rollout: str) -> Mapping[str, Counters]:
    """Return the counters of the waves of a rollout before its present decision, by name of the wave."""
    found, aimed = rollout_rules(graph, rollout), aimed_state(graph, rollout)
    if found is None or aimed is None:
        return {}
    return CountedItems(graph, rollout, found.policy, bake_times(found.policy, aimed)).wave_counters


@query(same=_is_same_step)
def rollout_step(graph: QueryGraph, rollout: str) -> DecidedStep | None:
    """Return the decision of a rollout, or None for a rollout that decides nothing.

    A rollout without instances answers requests. If its definition has a new name, the record under the old name gets
    an empty state.
    """
    if unrecorded_cause(graph, rollout):
        return None
    if found := rollout_rules(graph, rollout):
        return _step(graph, rollout, found)
    state = _state_without_items(graph, rollout)
    return DecidedStep({}, {}, state) if state else None


ROLLOUT_STEPS: Final = Roots("rollout_steps", order=10, members=rollouts, result=rollout_step)
"""Decisions of all rollouts."""
