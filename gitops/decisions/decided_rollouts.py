"""Rollouts as the graph has decided them, for explanations and reports.

An explanation reads all items of a rollout, and asks gates about items whose turn it is not. So it works on a
collection of its own, and no decision depends on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

from applier.plan.model import ApplySetPlan
from gitops.decisions import rules
from gitops.decisions.definitions import definitions
from gitops.decisions.explanation import DecidedRollout
from gitops.decisions.live_view import Lookup
from gitops.decisions.permissions import bypassed_windows
from gitops.decisions.rollout_items import rollout_item
from gitops.decisions.rollout_members import (
    RolloutRules,
    membership,
    rollout_instances,
    rollout_rules,
    rollouts_with_members,
)
from gitops.decisions.rollout_records import unrecorded_cause
from gitops.decisions.rollout_steps import closed_waves
from gitops.decisions.rollout_targets import aimed_state
from gitops.decisions.set_plans import prospective_plan
from gitops.gates.instance_gates import InstanceGates
from gitops.queries import QueryGraph
from gitops.rollouts.collection import build_collection
from gitops.rollouts.state import RolloutState
from gitops.rollouts.targets import bake_times
from renderer.identity import ObjectKey


def decided_rollouts(graph: QueryGraph, states: Mapping[str, RolloutState]) -> Iterator[DecidedRollout]:
    """Yield the rollouts that decide about instances, in the order of their names.

    Args:
        states: decided state of each rollout, with the times of its decisions.
    """
    instances: dict[str, list[ObjectKey]] = {name: [] for name in rollouts_with_members(graph)}
    for instance in sorted(rollout_instances(graph)):
        if member := membership(graph, instance):
            instances[member.rollout].append(instance)
    for name, members in sorted(instances.items()):
        found = rollout_rules(graph, name)
        if found and not unrecorded_cause(graph, name):
            yield _decided_rollout(graph, name, found, states[name], members)


def _decided_rollout(
    graph: QueryGraph, name: str, found: RolloutRules, state: RolloutState, instances: Collection[ObjectKey]
) -> DecidedRollout:
    aimed = aimed_state(graph, name)
    assert aimed is not None
    items = {item.key: (instance, item) for instance in instances if (item := rollout_item(graph, instance))}
    keys = {key: instance for key, (instance, _) in items.items()}
    collection = build_collection(
        found.policy,
        bake_times(found.policy, aimed),
        (item for _, item in items.values()),
        now=graph.now,
        salt=",".join(map(str, aimed.targets.values())),
    )
    gates = InstanceGates(
        definitions(graph).current[found.kind].propagate_when or (),
        rules.gate_facts(graph, found.kind),
        collection,
        keys,
        Lookup[ObjectKey, ApplySetPlan](partial(prospective_plan, graph), "plans"),
        rules.window_periods(graph, found.kind),
        partial(bypassed_windows, graph),
    )
    windows = rules.wave_windows(graph, found.kind, found.declared_policy)
    return DecidedRollout(name, found.policy, collection, state, keys, gates, windows, closed_waves(graph, name))
