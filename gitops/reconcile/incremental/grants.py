"""Rollouts between two looks at everything: what parts and time have changed in them, and who may move now.

The graph counts, and decides with everything that parts have found. Only one caller at a time asks who may move, and
what is granted is stored before the next question. Whatever is more than letting instances move, such as a halt or a
wave that is passed, is left to a look at everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import Observed
from gitops.decisions import suspension
from gitops.decisions.decided_rollouts import decided_rollouts
from gitops.decisions.explanation import DecidedRollout, explain_instances, with_move_causes
from gitops.decisions.moments import is_item_due
from gitops.decisions.people import instance_directives
from gitops.decisions.rollout_items import ITEM_ENDS
from gitops.decisions.rollout_members import rollout_rules
from gitops.decisions.rollout_steps import ROLLOUT_STEPS, DecidedStep, rollout_step, wave_counters
from gitops.queries import QueryGraph
from gitops.reconcile.graph_step import changed_answers
from gitops.reconcile.incremental.cluster_state import ClusterState, RecountedRollouts, WaveCounts
from gitops.reconcile.incremental.scope import WidenScope
from gitops.rollouts.state import RolloutState
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(frozen=True, slots=True)
class GrantResult:
    """Instances that may move to a revision, once the `states` of all rollouts that were asked are stored."""

    targets: Mapping[ObjectKey, int]
    states: Mapping[str, RolloutState]


def recount(graph: QueryGraph) -> RecountedRollouts:
    """Return what counts otherwise since the last call. Raises: Fault of a query."""
    names = {answer.key for answer in changed_answers(graph, ROLLOUT_STEPS) if not answer.is_gone}
    ended = frozenset(answer.key for answer in changed_answers(graph, ITEM_ENDS) if not answer.is_gone)
    rules = {name: found for name in sorted(names) if (found := rollout_rules(graph, name))}
    counts = {name: WaveCounts(found.policy, wave_counters(graph, name)) for name, found in rules.items()}
    return RecountedRollouts(counts, ended, graph.next_moment_of(is_item_due))


def miscounted(graph: QueryGraph, rollouts: Iterable[DecidedRollout]) -> tuple[str, ...]:
    """Return the rollouts that the graph counts otherwise than a collection that is made anew: a fault of Levelgate."""
    return tuple(one.name for one in rollouts if one.collection.wave_counters != wave_counters(graph, one.name))


def granted(whole: ClusterState, graph: QueryGraph, observed: Observed) -> GrantResult | WidenScope:
    """Ask the rollouts that count otherwise since they were asked last. Raises: Fault of a query.

    Args:
        observed: observation with the record of the installation.
    """
    if wait := suspension.installation_suspension(observed, graph.now):
        return WidenScope(wait.message)
    targets: dict[ObjectKey, int] = {}
    states: dict[str, RolloutState] = {}
    for name in sorted(whole.rollouts_to_recompute):
        step, before = rollout_step(graph, name), whole.propagation.states.get(name)
        if step is None or before is None:
            return WidenScope(f"the rollout {name} is new, or decides nothing any more")
        if why := _is_more_than_moves(graph, before, step):
            return WidenScope(f"{why} in the rollout {name}")
        targets |= step.grants
        states[name] = step.state.dated(graph.now)
    return GrantResult(targets, states)


def _is_more_than_moves(graph: QueryGraph, before: RolloutState, step: DecidedStep) -> str:
    """Return what a rollout decides besides letting instances move, or an empty text."""
    after = step.state
    if step.starts:
        return "new instances start"
    if (before.halts, before.passed, before.completed) != (after.halts, after.passed, after.completed):
        return "a wave ends"
    # The use of a break-glass has to be recorded.
    is_under_glass = any(instance_directives(graph, key).break_glass_reason for key in step.grants)
    return "break-glass is in force" if is_under_glass else ""


def retold(whole: ClusterState, graph: QueryGraph) -> Sequence[ApplySetPlan]:
    """Return the plans of instances that wait for another reason, or in other words, than when they were told last."""
    rollouts = list(decided_rollouts(graph, whole.propagation.states, whole.instances))
    found = explain_instances(rollouts, whole.plans, graph.now)
    plans = [whole.plans[key] for one in rollouts for key in one.keys.values()]
    now = with_move_causes(Plan(tuple(replace(one, not_moved=None) for one in plans)), found.blocked)
    return [one for before, one in zip(plans, now.sets, strict=True) if one.not_moved != before.not_moved]
