"""Which instances move to which revision, now: every rollout decides, on how its instances are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import cached_property

from applier.causes import Cause, Reason
from applier.plan.drain_progress import DrainProgressFinder
from applier.state.observed import annotation, is_terminating
from gitops.decisions.drains import finishes_instance
from gitops.decisions.explanation import DecidedRollout
from gitops.decisions.inputs import DecisionInputs
from gitops.decisions.window_verdicts import WindowVerdicts
from gitops.gates.instance_gates import InstanceGates
from gitops.gates.pace import apply_pace
from gitops.rollouts import closed_windows, items
from gitops.rollouts.advance import decide_grants, next_decision, reserve
from gitops.rollouts.collection import RolloutItem, build_collection
from gitops.rollouts.outlook import progress_of
from gitops.rollouts.policy import Policy
from gitops.rollouts.requests import apply_requests, apply_requests_blind, with_git_halt
from gitops.rollouts.state import DecisionRecord, RolloutState, TargetRevision
from gitops.rollouts.targets import assign_targets, bake_times, newest_target
from gitops.windows.verdict import WindowPeriod, WindowVerdict
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.model import RenderedApplySet
from renderer.well_known import HALT

Labels = Mapping[str, str]


@dataclass(repr=False)
class RolloutDecisions:
    """What the rollouts of a pass come to. `targets` were let move, `holds` which are held by a person; the `frozen` have no pair of their own to
    be healed from. `unruled`: no rollout can be told, and why. `wake_ups` are times at which something may change, `edges` those at which gates and
    windows do. The rest as in `Decision`.
    """

    situation: DecisionInputs
    verdicts: WindowVerdicts
    suspended: Mapping[ObjectKey, Cause]
    places: dict[ObjectKey, RevisionPlacement] = field(init=False)
    targets: dict[ObjectKey, int] = field(init=False)
    states: dict[str, RolloutState] = field(init=False)
    rollouts: list[DecidedRollout] = field(default_factory=list)
    holds: dict[ObjectKey, Cause] = field(default_factory=dict)
    frozen: set[ObjectKey] = field(default_factory=set)
    unruled: dict[ObjectKey, Cause] = field(default_factory=dict)
    policies: dict[ObjectKey, Policy] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    wake_ups: set[datetime] = field(default_factory=set)
    edges: set[datetime] = field(default_factory=set)

    def __post_init__(self) -> None:
        before = self.situation.before
        self.places = dict(before.places)
        self.targets = dict(before.gates.targets)
        self.states = dict(self.situation.states)
        rollouts = self._rollouts()
        of = {
            name: policy.rollout_of(str(next(iter(members)).group_kind)) for name, (policy, members) in rollouts.items()
        }
        for name, (policy, members) in sorted(rollouts.items()):
            if why := self.situation.conditions.unrecorded.get(name):
                self.unruled |= dict.fromkeys(members, Cause.from_error(why))
                self.frozen |= members.keys()
            else:
                self._rollout(name, policy, members, of[name])
        self._forget_former(of)
        for name, asked_of in self.situation.requests.items():
            if name not in rollouts and not any(name == one or name.startswith(f"{one}.") for one in self._hidden):
                self.states[name] = apply_requests_blind(self.states[name], asked_of, now=self.situation.now)

    def _remembered(self, name: str, of: str) -> RolloutState:
        """What is remembered of a rollout. A definition is its kind (rulings, *One catalog per cluster*): one of another kind that has the same name
        remembers nothing of this one, and one that has got another name goes on.
        """
        found = self.states.get(name)
        if found and found.of in {"", of}:
            return found
        return next((state for _, state in sorted(self.states.items()) if state.of == of), RolloutState())

    def _forget_former(self, of: Mapping[str, str]) -> None:
        """Records under names that definitions had before, once what they said is stored under the new one."""
        stored = self.situation.conditions.states
        moved = {one for name, one in of.items() if name in stored and stored[name].of == one}
        former = {name: RolloutState() for name, state in stored.items() if name not in of and state.of in moved}
        self.states |= former

    @property
    def _hidden(self) -> Iterator[str]:
        """Definitions of which nobody can tell how their instances are."""
        here = self.situation
        return (one.name for kind, one in here.bundle.definitions.items() if kind in here.observed.unreadable)

    def _rollouts(self) -> Mapping[str, tuple[Policy, dict[ObjectKey, Labels]]]:
        """Instances, with their labels, by the rollout that they are in: those of one definition under one policy."""
        here, found = self.situation, dict[str, tuple[Policy, dict[ObjectKey, Labels]]]()
        known: dict[tuple[GroupKind, frozenset[tuple[str, str]]], Policy | Problem] = {}
        names = self._names
        for key, rendered in here.bundle.instances.items():
            kind = key.group_kind
            definition = here.bundle.definitions.get(kind)
            if definition is None or not here.stored.revisions.get(kind) or key not in here.plans:
                continue
            if here.plans[key].parent is None and kind in here.observed.unreadable:
                continue
            labels: Labels = rendered.manifest["metadata"].get("labels") or {}
            alike = kind, frozenset(labels.items())
            if alike not in known:
                known[alike] = here.policy(kind, definition.name, labels)
            policy = known[alike]
            if isinstance(policy, Problem):
                self.problems.append(policy)
                self.unruled[key] = Cause(Reason.GATE_ERROR, policy.message)
                self.frozen.add(key)
                continue
            self.policies[key] = policy
            found.setdefault(policy.rollout_of(names[kind]), (policy, {}))[1][key] = labels
        return found

    @property
    def _names(self) -> Mapping[GroupKind, str]:
        """What the rollouts of a kind are called: as its definition. Of several of one name the others have their kind after it."""
        found, taken = dict[GroupKind, str](), set[str]()

        def is_new(kind: GroupKind) -> bool:
            return self.states.get(definitions[kind].name, RolloutState()).of != str(kind)

        definitions = self.situation.bundle.definitions
        for kind in sorted(definitions, key=lambda kind: (is_new(kind), kind)):
            name = definitions[kind].name
            found[kind] = f"{name}.{kind.kind.lower()}" if name in taken else name
            taken.add(name)
        return found

    def _rollout(self, name: str, policy: Policy, members: Mapping[ObjectKey, Labels], of: str) -> None:
        here, now = self.situation, self.situation.now
        kind = next(iter(members)).group_kind
        definition = here.bundle.definitions[kind]
        written = definition.propagate_when
        windows = here.wave_windows(kind, policy)
        policy = apply_pace(policy, written)
        is_paced = policy.is_explicit or any(gate.sets_pace for gate in written or ())
        state = assign_targets(
            policy, replace(self._remembered(name, of), of=of), newest_target(here.stored.revisions[kind]), now=now
        )
        baking = bake_times(policy, state)
        shut = dict(closed_windows.find_closed_waves(policy, windows, now))
        found: dict[ObjectKey, RolloutItem] = {}
        for key, labels in members.items():
            wave = policy.wave_of(labels)
            found[key] = self._item(key, policy, labels, state.targets[wave], baking[wave], paced=is_paced)
        keys = {item.key: key for key, item in found.items()}
        salt = ",".join(map(str, state.targets.values()))
        collection = build_collection(policy, baking, found.values(), now=now, salt=salt)
        closings, past = here.closings(kind), self.verdicts.overridden_windows
        gates = InstanceGates(written or (), here.facts(kind), collection, keys, here.plans, closings, past)
        failed = {wave: members.counters.failed for wave, members in collection.waves.items()}
        if here.bundle.owners[kind] in here.bundle.sources:  # of others nobody knows what Git says of a halt now
            state = with_git_halt(state, annotation(definition.document.value, HALT), now=now)
        state = apply_requests(state, here.requests.get(name, ()), policy, failed, now=now)
        decision = decide_grants(
            policy, collection, state, now=now, closed=shut, pace=gates.pace(policy), find_obstacle=gates.find_wait
        )
        wake_at = next_decision(collection, state, decision, shut)
        reserve(collection, decision, now=now)
        passed = filter(
            None, (self._past_gates(keys[one], gates.overridden_windows(one), closings) for one in decision.grants)
        )
        decision = replace(decision, state=decision.state.with_decision(*passed))
        progress = progress_of(policy, collection.wave_counters, decision.state)
        facts = here.conditions.externals or {}
        known = {one for gate in definition.gates for one in gate.externals if one in facts and facts[one].answer}
        self.states[name] = decision.state.with_progress(progress, map(str, policy.approvals), known, now)
        self.targets |= {keys[item]: number for item, number in {**decision.starts, **decision.grants}.items()}
        rollout = DecidedRollout(name, policy, collection, decision.state, keys, gates, windows, shut)
        self.rollouts.append(rollout)
        for one, key in keys.items():
            self._place(key, collection[one], rollout.target(one), rollout.state.completed)
        self.edges |= {one for one in (gates.wake_at, *(wait.until for wait in shut.values())) if one}
        if wake_at:
            (self.wake_ups if wake_at > now else self.edges).add(wake_at)

    def _item(
        self, key: ObjectKey, policy: Policy, labels: Labels, target: TargetRevision, bake: timedelta, *, paced: bool
    ) -> RolloutItem:
        """One instance as its rollout sees it, held by whatever holds it."""
        here = self.situation
        asked, one = here.asked[key], here.plans[key]
        held = (
            asked.active_hold(policy, here.now, since=here.since(key, "hold", asked.hold_reason))
            if asked.hold_reason
            else None
        )
        held = held or here.source_holds.get(one.source)
        if held:
            self.holds[key] = held
        unreadable = here.conditions.closed(one.rendered.source)
        verdict = self.verdicts.of_instance(one.rendered)
        shut = Cause(Reason.GATE_ERROR, unreadable) if unreadable else None
        if shut is None and not verdict.is_open and not self._is_part_of_begun(one.rendered, verdict):
            shut = self.verdicts.blocked(verdict, key, one.rendered.source)
        item = RolloutItem(
            one.rendered.parent.qualified_name,
            labels=labels,
            priority=asked.priority,
            granted=self.targets.get(key) == target.revision,
            held=self.suspended.get(key) or held,
            blocked=shut,
        )
        return items.observe_item(item, one, target, is_creation_paced=paced, now=here.now, bake=bake)

    def _is_part_of_begun(self, rendered: RenderedApplySet, verdict: WindowVerdict) -> bool:
        """Return whether an instance is new in one that had begun before the window closed."""
        if rendered.applied or not rendered.is_nested:
            return False
        progress = self._drain_progress.find_progress(rendered)
        return finishes_instance(verdict, progress, self.situation.now)

    @cached_property
    def _drain_progress(self) -> DrainProgressFinder:
        return DrainProgressFinder.of_rendering(self.situation.bundle, self.situation.observed)

    def _past_gates(
        self, key: ObjectKey, names: Iterable[str], windows: Mapping[str, WindowPeriod]
    ) -> DecisionRecord | None:
        """For the record: that an instance moves although a gate of its definition asks for these windows."""
        source = self.situation.plans[key].rendered.source
        return self.verdicts.override_record(
            key, f"move {key}", source, [windows[name].window for name in sorted(names)]
        )

    def _place(
        self, key: ObjectKey, member: RolloutItem, target: TargetRevision, completed: TargetRevision | None
    ) -> None:
        """Where an instance is rendered at from here on. One that was made at what had `completed` is made there to its end."""
        rendered, one = self.situation.bundle.instances[key], self.situation.plans[key]
        if member.updated and not one.target_revision and rendered.applied == target.revision:
            self.targets[key] = target.revision  # made anew by hand: it says again where it is
        if one.target_revision and one.parent and is_terminating(one.parent):
            self.targets.setdefault(key, one.target_revision)  # and that it was let move
        own = self.targets.get(key) or one.target_revision or rendered.applied
        self.places[key] = RevisionPlacement(target.revision if member.granted else own, target.revision)
        started = not rendered.applied and completed is not None and own == completed.revision
        is_elsewhere = not (member.updated or started) and own not in {rendered.applied, self.targets.get(key, -1)}
        if not member.granted and (is_elsewhere or not own) and not self._finishes_move(rendered):
            self.frozen.add(key)

    def _finishes_move(self, rendered: RenderedApplySet) -> bool:
        """Return whether an instance goes on to the revision that it began with, although it waits for a newer one."""
        verdict = self.verdicts.of_instance(rendered)
        if verdict.is_open or not rendered.applied:
            return False
        return finishes_instance(verdict, self._drain_progress.find_progress(rendered), self.situation.now)
