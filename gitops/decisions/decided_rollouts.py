"""Rollouts as the graph has decided them, for explanations and reports.

An explanation reads all items of a rollout, and asks gates about items whose turn it is not. So it works on a
collection of its own, and no decision depends on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from gitops.decisions import rules
from gitops.decisions.explanation import DecidedRollout
from gitops.decisions.rollout_items import rollout_item
from gitops.decisions.rollout_members import (
    RolloutRules,
    instances_of,
    membership,
    rollout_rules,
    rollouts_with_members,
)
from gitops.decisions.rollout_records import unrecorded_cause
from gitops.decisions.rollout_steps import closed_waves, instance_gates
from gitops.decisions.rollout_targets import aimed_state, shuffle_salt
from gitops.queries import QueryGraph
from gitops.rollouts.collection import build_collection
from gitops.rollouts.state import RolloutState
from gitops.rollouts.targets import bake_times
from renderer.identity import ObjectKey


def decided_rollouts(
    graph: QueryGraph, states: Mapping[str, RolloutState], among: Collection[ObjectKey]
) -> Iterator[DecidedRollout]:
    """Yield the rollouts that decide about instances, in the order of their names.

    Args:
        states: decided state of each rollout, with the times of its decisions.
        among: instances that the rollouts count.
    """
    members = defaultdict[str, list[ObjectKey]](list)
    for instance in sorted(among):
        if found := membership(graph, instance):
            members[found.rollout].append(instance)
    for name in sorted(members.keys() & rollouts_with_members(graph)):
        in_force = rollout_rules(graph, name)
        if in_force and not unrecorded_cause(graph, name):
            counted = instances_of(graph, name)
            own = [instance for instance in members[name] if instance in counted]
            yield _decided_rollout(graph, name, in_force, states.get(name), own)


def _decided_rollout(
    graph: QueryGraph, name: str, found: RolloutRules, state: RolloutState | None, members: Collection[ObjectKey]
) -> DecidedRollout:
    aimed = aimed_state(graph, name)
    assert aimed is not None
    items = {item.key: (instance, item) for instance in members if (item := rollout_item(graph, instance))}
    keys = {key: instance for key, (instance, _) in items.items()}
    collection = build_collection(
        found.policy,
        bake_times(found.policy, aimed),
        (item for _, item in items.values()),
        now=graph.now,
        salt=shuffle_salt(graph, name) or "",
    )
    gates = instance_gates(graph, found, collection, keys)
    windows = rules.wave_windows(graph, found.kind, found.declared_policy)
    return DecidedRollout(
        name, found.policy, collection, state or aimed, keys, gates, windows, closed_waves(graph, name)
    )
