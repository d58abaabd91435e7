"""Which instances move to which revision, now: every rollout decides, on how its instances are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from applier.reasons import Blocked, Reason
from gitops.propagation import closed, items
from gitops.propagation.assignment import aim, bakes, newest
from gitops.propagation.collection import Item, collected
from gitops.propagation.explain import progress_of, waits
from gitops.propagation.gates import paced
from gitops.propagation.instance_gates import CollectionGates
from gitops.propagation.orders import carried_out, unanswerable
from gitops.propagation.policy import Policy
from gitops.propagation.propagation import Counted
from gitops.propagation.rollout import decide, reserve
from gitops.propagation.situation import Situation
from gitops.propagation.state import State, Target
from gitops.propagation.verdicts import Verdicts
from gitops.propagation.waits import Wait
from renderer.errors import Problem
from renderer.identity import ObjectKey
from renderer.model import RenderedSet
from renderer.render import Place


@dataclass(repr=False)
class Moves:
    """What the rollouts of a pass come to. `targets` were let move, `stays` says why an instance does not, `holds` which are held by a person;
    the `frozen` have no pair of their own to be healed from. `wake_ups` are times at which something may change. The rest as in `Propagation`.
    """

    situation: Situation
    verdicts: Verdicts
    suspended: Mapping[ObjectKey, Wait]
    places: dict[ObjectKey, Place] = field(init=False)
    targets: dict[ObjectKey, int] = field(init=False)
    states: dict[str, State] = field(init=False)
    stays: dict[ObjectKey, Blocked] = field(default_factory=dict)
    holds: dict[ObjectKey, Blocked] = field(default_factory=dict)
    frozen: set[ObjectKey] = field(default_factory=set)
    policies: dict[ObjectKey, Policy] = field(default_factory=dict)
    remembered: dict[ObjectKey, dict[str, Any]] = field(default_factory=dict)
    counted: dict[ObjectKey, Counted] = field(default_factory=dict)
    awaited: dict[ObjectKey, frozenset[ObjectKey]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    wake_ups: set[datetime] = field(default_factory=set)

    def __post_init__(self) -> None:
        before = self.situation.before
        self.places = dict(before.places)
        self.targets = dict(before.gates.targets)
        self.states = {**self.situation.conditions.states, **before.states}
        rollouts = self._rollouts()
        for name, (policy, members) in sorted(rollouts.items()):
            self._rollout(name, policy, members)
        for name, asked_of in self.situation.requests.items():
            if name not in rollouts:
                self.states[name] = unanswerable(self.states[name], asked_of, now=self.situation.now)

    def _rollouts(self) -> Mapping[str, tuple[Policy, list[ObjectKey]]]:
        """Instances by the rollout that they are in: those of one definition under one policy."""
        here, found = self.situation, dict[str, tuple[Policy, list[ObjectKey]]]()
        for key, rendered in here.bundle.instances.items():
            kind = key.group_kind
            definition = here.bundle.definitions.get(kind)
            if definition is None or not here.stored.revisions.get(kind) or key not in here.plans:
                continue
            policy = here.policy(kind, definition.name, _labels(rendered))
            if isinstance(policy, Problem):
                self.problems.append(policy)
                self.stays[key] = Blocked(Reason.GATE_ERROR, policy.message)
                self.frozen.add(key)
                continue
            self.policies[key] = policy
            name = definition.name if policy.selector.instances is None else f"{definition.name}.{policy.name}"
            found.setdefault(name, (policy, []))[1].append(key)
        return found

    def _rollout(self, name: str, policy: Policy, members: list[ObjectKey]) -> None:
        here, now = self.situation, self.situation.now
        kind = members[0].group_kind
        written = here.bundle.definitions[kind].propagate_when
        windows = here.wave_windows(kind, policy)
        policy = paced(policy, written)
        state = aim(policy, self.states.get(name, State()), newest(here.stored.revisions[kind]), now=now)
        baking = bakes(policy, state)
        shut = dict(closed.waves(policy, windows, now))
        by_name = {items.name_of(key): key for key in members}
        waves = {key: policy.wave_of(_labels(here.bundle.instances[key])) for key in members}
        aims = {key: state.targets[wave] for key, wave in waves.items()}
        found = [self._item(key, policy, aims[key], baking[wave]) for key, wave in waves.items()]
        salt = ",".join(map(str, state.targets.values()))
        collection = collected(policy, baking, found, now=now, salt=salt)
        gates = CollectionGates(written or (), here.facts(kind), collection, by_name, here.plans, here.closings(kind))
        for item in found:
            if not item.moved and (closed_by := gates.wait(item.key)):
                collection.put(replace(item, blocked=item.blocked or closed_by))
        failed = {wave: members.counters.failed for wave, members in collection.waves.items()}
        state = carried_out(state, here.requests.get(name, ()), policy, failed, now=now)
        decision = decide(policy, collection, state, now=now, closed=shut, pace=gates.pace(policy))
        reserve(collection, decision, now=now)
        self.states[name] = replace(decision.state, waves=progress_of(policy, collection, decision.state))
        for item_name, number in {**decision.starts, **decision.grants}.items():
            self.targets[by_name[item_name]] = number
        reasons = gates.told(policy, waits(policy, collection, decision.state, now=now, closed=shut))
        for member in collection:
            key, wave_name = by_name[member.key], collection.wave_of(member.key).name
            self.counted[key] = Counted(name, wave_name, collection.counted(member.key))
            self.remembered[key] = {"rollout": {"name": name, "wave": wave_name}}
            self._place(key, member, aims[key], reasons)
        for names, waiting in _by_what(reasons).items():
            others = frozenset(by_name[name] for name in names)
            self.awaited |= {by_name[name]: others for name in waiting}
        self.wake_ups |= {moment for moment in (gates.wake_at, decision.wake_at) if moment}

    def _item(self, key: ObjectKey, policy: Policy, target: Target, bake: timedelta) -> Item:
        """One instance as its rollout sees it, held by whatever holds it."""
        here = self.situation
        asked, one = here.asked[key], here.plans[key]
        held = asked.held(policy, here.now, since=here.since(key, "hold", asked.hold))
        if held:
            self.holds[key] = held.blocked("Instance")
        unreadable = here.conditions.closed(one.rendered.source)
        verdict = self.verdicts.of_instance(one.rendered)
        shut = Blocked(Reason.GATE_ERROR, unreadable) if unreadable else None
        if shut is None and not verdict.open:
            shut = self.verdicts.blocked(verdict, key)
        return items.item(
            one,
            target,
            now=here.now,
            bake=bake,
            priority=asked.priority,
            held=self.suspended.get(key) or held,
            blocked=Wait.of(shut) if shut else None,
            granted=self.targets.get(key) == target.revision,
        )

    def _place(self, key: ObjectKey, member: Item, target: Target, reasons: Mapping[str, Wait]) -> None:
        """Where an instance is rendered at from here on, and why it is not where it is to go."""
        wait = reasons.get(member.key)
        rendered, one = self.situation.bundle.instances[key], self.situation.plans[key]
        if member.updated and not one.target and rendered.applied == target.revision:
            self.targets[key] = target.revision  # made anew by hand: it says again where it is
        own = self.targets.get(key) or one.target or rendered.applied
        self.places[key] = Place(target.revision if member.granted else own, target.revision)
        if member.granted:
            self.remembered[key]["progress"] = items.stored_progress(member, target, self.policies[key])
        elif (not member.updated and own not in {rendered.applied, self.targets.get(key, -1)}) or not own:
            self.frozen.add(key)
        told = wait is None or wait.reason is Reason.PROGRESSING or (member.granted and wait == member.blocked)
        if wait and not told and one.error is None:
            self.stays[key] = wait.blocked("Instance", reasons)


def _labels(rendered: RenderedSet) -> Mapping[str, str]:
    return rendered.manifest["metadata"].get("labels") or {}


def _by_what(reasons: Mapping[str, Wait]) -> Mapping[tuple[str, ...], list[str]]:
    """Items that wait for other items alone, by these; what looks again after a time waits for that as well."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, wait in reasons.items():
        if wait.by and (wait.reason is not Reason.GATE_CLOSED or wait.not_before is None):
            found.setdefault(wait.by, []).append(name)
    return found
