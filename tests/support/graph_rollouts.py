"""Decisions of rollouts in a graph, compared with those from scratch."""

from __future__ import annotations

from gitops.decisions import placements
from gitops.decisions.decision import Decision
from gitops.decisions.explanation import DecidedRollout
from gitops.decisions.inputs import DecisionInputs
from gitops.decisions.rollout_items import CountedItems, rollout_item
from gitops.decisions.rollout_members import (
    policy_conflicts,
    rollout_rules,
    rollouts,
    rollouts_with_members,
    unruled_cause,
)
from gitops.decisions.rollout_steps import rollout_step
from gitops.decisions.rollouts import RolloutDecisions
from gitops.decisions.window_verdicts import WindowVerdicts
from gitops.queries import QueryGraph
from gitops.reconcile.graph_inputs import GraphInputs
from gitops.rollouts.collection import RolloutItems
from gitops.rollouts.state import is_same_state
from renderer.identity import ObjectKey


def assert_rollouts(inputs: GraphInputs, here: DecisionInputs, decision: Decision) -> None:
    """Assert that the graph decides about all rollouts what is decided from scratch."""
    graph = inputs.graph
    # From scratch, nothing is known of what the process has observed itself.
    with graph.transaction() as transaction:
        inputs.forget_progress(transaction)
    inputs.observe_progress()
    expected = RolloutDecisions(here, WindowVerdicts(here), dict(here.suspensions.waits(here.now)))
    assert {one.name for one in expected.rollouts} == rollouts_with_members(graph) - here.conditions.unrecorded.keys()
    for one in expected.rollouts:
        _assert_counts(graph, one)
    targets = _assert_steps(graph, here, expected)
    restated = placements.restated_revisions(graph)
    # An instance whose file cannot be read keeps the target that it carries, so it need not carry the target again.
    held = {key for key, rendered in here.bundle.instances.items() if rendered.held_reason}
    assert {**restated, **targets}.items() >= {
        key: number for key, number in expected.targets.items() if key not in held
    }.items()
    assert expected.targets.items() >= {**restated, **targets}.items()
    assert {key: why for key in here.bundle.instances if (why := unruled_cause(graph, key))} == expected.unruled
    assert set(policy_conflicts(graph)) == set(expected.problems)
    granted = inputs.granted
    with graph.transaction() as transaction:
        inputs.set_granted(transaction, expected.targets)
    for key in here.bundle.instances:
        decided = placements.decided_placement(graph, key)
        if key in expected.policies and key not in expected.unruled:
            assert decided == expected.places[key]
    assert {key for key in here.bundle.instances if placements.is_frozen(graph, key)} == expected.frozen
    with graph.transaction() as transaction:
        inputs.set_granted(transaction, granted)


def _assert_counts(graph: QueryGraph, expected: DecidedRollout) -> None:
    """Assert that the graph has the items of a rollout, and counts them in the same way."""
    rules, step = rollout_rules(graph, expected.name), rollout_step(graph, expected.name)
    assert rules
    assert step
    assert rules.policy == expected.policy
    moving = {*step.grants, *step.starts}
    for name, key in expected.keys.items():
        if key not in moving:
            assert rollout_item(graph, key) == expected.collection[name]
    if not moving:
        items = CountedItems(graph, expected.name, rules.policy, expected.collection.bakes)
        assert _counts(items) == _counts(expected.collection)
        assert {name: items.instance_of(name) for name in expected.keys} == expected.keys


def _counts(items: RolloutItems) -> object:
    """Return all that decisions read of items."""
    pending = {
        name: (list(wave.eligible), list(wave.repairs), list(wave.newcomers)) for name, wave in items.waves.items()
    }
    states = {item.key: (items.state_of(item.key), items.wave_of(item.key)) for item in items}
    return items.wave_counters, pending, states


def _assert_steps(graph: QueryGraph, here: DecisionInputs, expected: RolloutDecisions) -> dict[ObjectKey, int]:
    """Assert that the graph decides the same states, and return the target of each instance with its grants."""
    targets = dict(here.before.gates.targets)
    assert rollouts(graph) >= expected.states.keys() - here.conditions.unrecorded.keys()
    for name, state in expected.states.items():
        step = rollout_step(graph, name)
        if step is None:
            assert state == here.states.get(name)
        else:
            assert is_same_state(step.state.dated(here.now), state)
            targets |= {**step.starts, **step.grants}
    return targets
