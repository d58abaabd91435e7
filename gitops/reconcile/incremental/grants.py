"""Who may move now, by what passes over parts found: each rollout goes on with the collection that the last pass over everything left.

Parts count (`ClusterState.put`), this grants: one at a time, and what it grants is counted before anybody else may
ask. Work does not grow with the number
of instances, a logarithm aside. Whatever is more than letting instances move, such as a halt or a wave that is passed, is left to a pass over
everything, which counts from scratch. Decides, and changes nothing but the collections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from applier.causes import Cause
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import Observed
from gitops.decisions import suspension
from gitops.decisions.explanation import DecidedRollout, explain_instances, with_move_causes
from gitops.decisions.inputs import DecisionInputs, DecisionRules
from gitops.decisions.window_verdicts import WindowVerdicts
from gitops.gates.instance_gates import InstanceGates
from gitops.reconcile.incremental.cluster_state import ClusterState
from gitops.reconcile.incremental.scope import WidenScope
from gitops.rollouts import closed_windows
from gitops.rollouts.advance import RolloutStep, decide_grants, reserve
from gitops.rollouts.outlook import progress_of
from gitops.rollouts.state import RolloutState
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(frozen=True, slots=True)
class GrantResult:
    """`targets` of instances that may move, once the `states` of all rollouts that were asked are stored, as far as they decide."""

    targets: Mapping[ObjectKey, int]
    states: Mapping[str, RolloutState]


def granted(whole: ClusterState, conditions: DecisionRules, observed: Observed) -> GrantResult | WidenScope:
    """Ask the rollouts in which something counts otherwise since they were asked last. `observed` knows the record of the installation."""
    if wait := suspension.installation_suspension(observed, conditions.reading.now):
        return WidenScope(wait.message)
    targets: dict[ObjectKey, int] = {}
    states: dict[str, RolloutState] = {}
    for name in sorted(whole.rollouts_to_recompute):
        asked = _Asked(whole, conditions, whole.rollouts[name])
        decision = asked.decide()
        if why := asked.is_more_than_moves(decision):
            return WidenScope(f"{why} in the rollout {name}")
        targets |= {asked.rollout.keys[one]: number for one, number in decision.grants.items()}
        states[name] = asked.reserved(decision)
    return GrantResult(targets, states)


def retold(whole: ClusterState, conditions: DecisionRules) -> Sequence[ApplySetPlan]:
    """Instances that stay where they are for another reason, or with other words, than when everything was looked at, by what parts found since."""
    asked = [_Asked(whole, conditions, one).now for one in whole.rollouts.values()]
    found = explain_instances(asked, whole.plans, conditions.reading.now)
    plans = [whole.plans[key] for one in asked for key in one.keys.values()]
    now = with_move_causes(Plan(tuple(replace(one, not_moved=None) for one in plans)), found.blocked)
    return [one for before, one in zip(plans, now.sets, strict=True) if one.not_moved != before.not_moved]


@dataclass(frozen=True)
class _Asked:
    """A rollout that is asked again, under the conditions that are now."""

    whole: ClusterState
    conditions: DecisionRules
    rollout: DecidedRollout

    @property
    def now(self) -> DecidedRollout:
        """With what it remembers, its gates and windows as they are now."""
        here, one = self.at(), self.rollout
        kind = next(iter(one.keys.values())).group_kind
        gates = InstanceGates(
            one.gates.gates,
            here.facts(kind),
            one.collection,
            one.keys,
            self.whole.plans,
            here.closings(kind),
            lambda key: WindowVerdicts(self.at(key)).overridden_windows(key),
        )
        shut = dict(closed_windows.find_closed_waves(one.policy, one.windows, here.now))
        return one._replace(state=self.whole.propagation.states[one.name], gates=gates, closed=shut)

    def decide(self) -> RolloutStep:
        one = self.now
        one.collection.advance_to(self.conditions.reading.now)
        return decide_grants(
            one.policy,
            one.collection,
            one.state,
            now=self.conditions.reading.now,
            closed=one.closed,
            pace=one.gates.pace(one.policy),
            find_obstacle=lambda name: self.window(one.keys[name]) or one.gates.find_wait(name),
        )

    def at(self, *instances: ObjectKey) -> DecisionInputs:
        """What is known of these instances, under the conditions that are now."""
        plan = Plan(tuple(self.whole.plans[key] for key in instances))
        stored = self.whole.known.archive.stored_revisions
        whole = self.whole
        return DecisionInputs(self.conditions, whole.bundle, plan, whole.observed, stored, whole.propagation)

    def window(self, key: ObjectKey) -> Cause | None:
        """Why the calendar keeps an instance: a window may have closed since everything was looked at."""
        verdicts = WindowVerdicts(self.at(key))
        rendered = self.whole.plans[key].rendered
        verdict = verdicts.of_instance(rendered)
        return None if verdict.is_open else verdicts.blocked(verdict, key, rendered.source)

    def is_more_than_moves(self, decision: RolloutStep) -> str:
        """What else it decides; empty where that is nothing."""
        before = self.whole.propagation.states[self.rollout.name]
        after = decision.state
        if decision.starts:
            return "new instances start"
        if (before.halts, before.passed, before.completed) != (after.halts, after.passed, after.completed):
            return "a wave ends"
        return "break-glass is in force" if any(self._under_glass(decision)) else ""

    def _under_glass(self, decision: RolloutStep) -> Iterator[bool]:
        """Those let move past windows that their gates ask for, or that govern them: that has to be recorded."""
        for name in decision.grants:
            key = self.rollout.keys[name]
            yield bool(self.at(key).asked[key].break_glass_reason)

    def reserved(self, decision: RolloutStep) -> RolloutState:
        """Count what was granted from now on; the rollout as it is to be stored."""
        one = self.rollout
        reserve(one.collection, decision, now=self.conditions.reading.now)
        return replace(decision.state, waves=progress_of(one.policy, one.collection.wave_counters, decision.state))
