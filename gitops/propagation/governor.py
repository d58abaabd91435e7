"""What may move and what may be written, now: rollouts, windows and people's words, put together for one pass.

A rendering needs to know which revision each instance is at, a rollout needs to know how each instance is: so the pass renders and plans, asks
`Governor.decide`, and renders and plans again while that lets more move. Nothing is written before it grants nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from applier.observed import Observed, annotation
from applier.plan import Barrier, Change, Effect, Gates, Plan
from applier.reasons import Blocked, Reason
from gitops.propagation import closed, items, suspension
from gitops.propagation.assignment import aim, bakes, newest
from gitops.propagation.collection import Item, collected
from gitops.propagation.deadlock import Awaited
from gitops.propagation.explain import progress_of, waits
from gitops.propagation.gates import Change as TargetRevision
from gitops.propagation.gates import Facts, paced
from gitops.propagation.instance_gates import CollectionGates
from gitops.propagation.judge import Closing, Reading, Verdict, in_window, judge, not_startable, startable
from gitops.propagation.node_gates import NodeGates
from gitops.propagation.orders import Request, carried_out, unanswerable
from gitops.propagation.people import Asked, first_seen
from gitops.propagation.policy import DEFAULT, Policy, governing
from gitops.propagation.rollout import Decision, decide, reserve
from gitops.propagation.rules import SourceRules
from gitops.propagation.state import State
from gitops.propagation.state import Target as Aim
from gitops.propagation.waits import Wait
from gitops.propagation.window import Drain, Target, Window
from renderer import keys
from renderer.errors import Problem
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD
from renderer.model import Bundle, RenderedSet
from renderer.render import Place
from renderer.revision import Stored

_CONTENT: Final = frozenset({Effect.CREATE, Effect.UPDATE, Effect.PRUNE})
"""What a hold and a rollout hold back; healing goes on."""
_ITEM: Final = "Instance"
_NODE: Final = "Node"


@dataclass(frozen=True, slots=True)
class Propagation:
    """What was decided. `places` and `gates` are for the rendering and the plan, `states` are the rollouts by name, `remembered` what the status of
    an instance has to remember of its way, `rules` those in force by source, `awaited` who waits for whom. `wake_at`: when to look again although
    nothing happened. `stopped`: a person has suspended everything, so nothing at all may be written.
    """

    places: Mapping[ObjectKey, Place] = field(default_factory=dict)
    gates: Gates = field(default_factory=Gates)
    frozen: frozenset[ObjectKey] = frozenset()
    states: Mapping[str, State] = field(default_factory=dict)
    remembered: Mapping[ObjectKey, Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    wake_at: datetime | None = None
    problems: tuple[Problem, ...] = ()
    stopped: Blocked | None = None
    awaited: Awaited = field(default_factory=dict)

    def after(self, plan: Plan) -> Propagation:
        """With the time at which something of the final plan may change: what waits says so itself."""
        causes = [
            *(one.stays for one in plan.sets),
            *(node.blocked for one in plan.sets for node in one.nodes),
            *(orphan.blocked for one in plan.sets for orphan in one.orphans),
        ]
        moments = {self.wake_at, *(cause.until for cause in causes if cause)} - {None}
        return replace(self, wake_at=min(filter(None, moments), default=None))

    def decides_as(self, other: Propagation) -> bool:
        """Would a pass do the same?"""
        return (self.places, self.gates.targets, self.frozen) == (other.places, other.gates.targets, other.frozen)


@dataclass(frozen=True, slots=True)
class Governor:
    """`rules` by source, `states` of rollouts by name as they are stored, and what people ask of them; one `reading` of the clock for the whole
    pass.
    """

    rules: Mapping[str, SourceRules]
    states: Mapping[str, State]
    reading: Reading
    cluster: str = ""
    requests: Mapping[str, tuple[Request, ...]] = field(default_factory=dict)

    def begin(self, observed: Observed, stored: Stored) -> Propagation:
        """Where instances are, before anything is rendered. Its gates are open: it is asked to learn how things are, not to act."""
        at = {key: pair.revision for key, pair in stored.applied.items()}
        for key, obj in observed.objects.items():
            if (text := annotation(obj, keys.TARGET)).isdecimal():
                at[key] = int(text)
        return Propagation({key: Place(number) for key, number in at.items()})

    def standing_still(self, bundle: Bundle, observed: Observed) -> Propagation | None:
        """What holds while a person has suspended everything; None where nobody has."""
        if not (wait := suspension.everything(observed, self.reading.now)):
            return None
        why = wait.blocked(_ITEM)
        gates = Gates(lambda _: why, suspended={one.parent: why for one in bundle.sets})
        return Propagation(gates=gates, wake_at=why.until, stopped=why)

    def decide(
        self, bundle: Bundle, plan: Plan, observed: Observed, stored: Stored, before: Propagation
    ) -> Propagation:
        """What may move now, given how everything is; `before` is what this pass has decided so far."""
        return _Deciding(self, bundle, plan, observed, stored, before).propagation()


@dataclass
class _Deciding:
    governor: Governor
    bundle: Bundle
    plan: Plan
    observed: Observed
    stored: Stored
    before: Propagation

    def __post_init__(self) -> None:
        self.now = self.governor.reading.now
        self.plans = {one.rendered.parent: one for one in self.plan.sets if not one.rendered.is_source}
        self.asked = {key: Asked.of(one.rendered.manifest, one.parent) for key, one in self.plans.items()}
        self.wider = suspension.Suspensions(
            suspension.sources(self.bundle, self.observed),
            suspension.definitions(self.bundle, self.observed),
            self.asked,
            self.plans,
            self.bundle,
        )
        self.suspended = dict(self.wider.waits(self.now))
        self.places = dict(self.before.places)
        self.targets = dict(self.before.gates.targets)
        self.stays: dict[ObjectKey, Blocked] = {}
        self.frozen: set[ObjectKey] = set()
        self.states = {**self.governor.states, **self.before.states}
        self.remembered: dict[ObjectKey, dict[str, Any]] = {}
        self.holds: dict[ObjectKey, Blocked] = {}
        self.problems = [problem for rules in self.governor.rules.values() for problem in rules.problems]
        self.moments: set[datetime] = set()
        self.policies: dict[ObjectKey, Policy] = {}
        self.nodes: dict[ObjectKey, NodeGates] = {}
        self.awaited: dict[ObjectKey, frozenset[ObjectKey]] = {}
        self.verdicts = _Windows(self)

    def propagation(self) -> Propagation:
        for key, asked in self.asked.items():
            self._remember_asked(key, asked)
        rollouts = self._rollouts()
        for name, (policy, members) in sorted(rollouts.items()):
            self._rollout(name, policy, members)
        for name, asked_of in self._unheard().items():
            if name not in rollouts:
                self.states[name] = unanswerable(self.states[name], asked_of, now=self.now)
        suspended = {key: wait.blocked(_ITEM) for key, wait in self.suspended.items()}
        check = _Check(self, suspended, dict(self.holds), frozenset(self.frozen), dict(self.stays))
        barriers = {key: policy.barrier for key, policy in self.policies.items() if policy.barrier is not Barrier.PATH}
        everyone = (*self.asked.values(), *self.wider.definitions.values(), *self.wider.sources.values())
        moments = {*self.moments, *(until for one in everyone for until in one.ends if until > self.now)}
        return Propagation(
            self.places,
            Gates(check, self.targets, self.stays, suspended, barriers),
            frozenset(self.frozen),
            self.states,
            self.remembered,
            {source: rules.accepted for source, rules in self.governor.rules.items()},
            min(moments, default=None),
            tuple(sorted(set(self.problems))),
            awaited=self.awaited,
        )

    def _unheard(self) -> Mapping[str, tuple[Request, ...]]:
        """Orders that this pass has not carried out yet: each is carried out once, however often it is decided again."""
        return {} if self.before.states else self.governor.requests

    def _remember_asked(self, key: ObjectKey, asked: Asked) -> None:
        """Since when something is asked for, so that it can lapse."""
        said = {"hold": asked.hold, "breakGlass": asked.glass and str(asked.glass_until)}
        found = {
            name: {"said": word, "since": self._since(key, name, word).isoformat()}
            for name, word in said.items()
            if word
        }
        if found:
            self.remembered.setdefault(key, {})["asked"] = found

    def _since(self, key: ObjectKey, name: str, word: str) -> datetime:
        status = (self.plans[key].parent or {}).get("status") or {}
        return first_seen(status, name, word, self.now)

    def _rollouts(self) -> Mapping[str, tuple[Policy, list[ObjectKey]]]:
        """Instances by the rollout that they are in: those of one definition under one policy."""
        found: dict[str, tuple[Policy, list[ObjectKey]]] = {}
        for key, rendered in self.bundle.instances.items():
            kind = key.group_kind
            definition = self.bundle.definitions.get(kind)
            if definition is None or not self.stored.revisions.get(kind) or key not in self.plans:
                continue
            rules = self.governor.rules.get(self.bundle.owners.get(kind, ""))
            labels = rendered.manifest["metadata"].get("labels") or {}
            policy = governing(rules.policies, definition.name, labels) if rules else DEFAULT
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
        kind = members[0].group_kind
        written = self.bundle.definitions[kind].propagate_when
        policy = paced(policy, written)
        state = aim(policy, self.states.get(name, State()), newest(self.stored.revisions[kind]), now=self.now)
        baking = bakes(policy, state)
        shut = dict(self._closed_waves(policy, kind))
        by_name = {items.name_of(key): key for key in members}
        aims: dict[ObjectKey, Aim] = {}
        found: list[Item] = []
        for key in members:
            wave = policy.wave_of(self.bundle.instances[key].manifest["metadata"].get("labels") or {})
            aims[key] = state.targets[wave]
            found.append(self._item(key, policy, aims[key], baking[wave]))
        salt = ",".join(map(str, state.targets.values()))
        collection = collected(policy, baking, found, now=self.now, salt=salt)
        gates = CollectionGates(written or (), self.facts(kind), collection, by_name, self.plans, self.closings(kind))
        for item in found:
            if not item.moved and (closed_by := gates.wait(item.key)):
                collection.put(replace(item, blocked=item.blocked or closed_by))
        failed = {wave: members.counters.failed for wave, members in collection.waves.items()}
        state = carried_out(state, self._unheard().get(name, ()), policy, failed, now=self.now)
        decision = decide(policy, collection, state, now=self.now, closed=shut, pace=gates.pace(policy))
        reserve(collection, decision, now=self.now)
        self.states[name] = replace(decision.state, waves=progress_of(policy, collection, decision.state))
        self._let_move(decision, by_name)
        reasons = gates.told(policy, waits(policy, collection, decision.state, now=self.now, closed=shut))
        self.moments |= {moment for moment in (gates.wake_at,) if moment}
        for member in collection:
            key = by_name[member.key]
            self.remembered.setdefault(key, {})["rollout"] = {"name": name, "wave": collection.wave_of(member.key).name}
            self._place(key, member, aims[key], reasons)
        for names, waiting in _by_what(reasons).items():
            others = frozenset(by_name[name] for name in names)
            self.awaited |= {by_name[name]: others for name in waiting}
        if decision.wake_at is not None:
            self.moments.add(decision.wake_at)

    def facts(self, kind: GroupKind) -> Facts:
        """What the gates of a definition may read of the world."""
        revisions = self.stored.revisions.get(kind)
        windows = {name: in_window(window, self.now) for name, window in self._windows(kind).items()}
        return Facts(self.now, TargetRevision(revisions[-1].number if revisions else 0), windows)

    def closings(self, kind: GroupKind) -> dict[str, Closing]:
        """Since when `inWindow` of each window is as it is, and when it changes next."""
        return {name: not_startable(window, self.now) for name, window in self._windows(kind).items()}

    def _windows(self, kind: GroupKind) -> Mapping[str, Window]:
        rules = self.governor.rules.get(self.bundle.owners.get(kind, ""))
        return rules.windows if rules else {}

    def node_gates(self, instance: ObjectKey) -> NodeGates | None:
        """The gates of the nodes of an instance; None where it is not one that is rendered."""
        if instance not in self.nodes:
            kind = instance.group_kind
            if instance not in self.bundle.instances or instance not in self.plans:
                return None
            policy = self.policies.get(instance, DEFAULT)
            self.nodes[instance] = NodeGates(self.plans[instance], policy, self.facts(kind), self.closings(kind))
        return self.nodes[instance]

    def _item(self, key: ObjectKey, policy: Policy, target: Aim, bake: timedelta) -> Item:
        asked, one = self.asked[key], self.plans[key]
        held = asked.held(policy, self.now, since=self._since(key, "hold", asked.hold))
        if held:
            self.holds[key] = held.blocked(_ITEM)
        rules = self.governor.rules.get(one.rendered.source)
        verdict = self.verdicts.of_instance(one.rendered)
        shut = Blocked(Reason.GATE_ERROR, rules.closed) if rules and rules.closed else None
        if shut is None and not verdict.open:
            shut = closed.blocked(verdict)
        return items.item(
            one,
            target,
            now=self.now,
            bake=bake,
            priority=asked.priority,
            held=self.suspended.get(key) or held,
            blocked=Wait.of(shut) if shut else None,
            granted=self.targets.get(key) == target.revision,
        )

    def _let_move(self, decision: Decision, by_name: Mapping[str, ObjectKey]) -> None:
        for name, number in {**decision.starts, **decision.grants}.items():
            self.targets[by_name[name]] = number

    def _place(self, key: ObjectKey, member: Item, target: Aim, reasons: Mapping[str, Wait]) -> None:
        wait = reasons.get(member.key)
        rendered, one = self.bundle.instances[key], self.plans[key]
        if member.updated and not one.target and rendered.applied == target.revision:
            self.targets[key] = target.revision  # made anew by hand: it says again where it is
        own = self.targets.get(key) or one.target or rendered.applied
        self.places[key] = Place(target.revision if member.granted else own, target.revision)
        if member.granted:
            self.remembered.setdefault(key, {})["progress"] = items.stored_progress(member, target, self.policies[key])
        elif (not member.updated and own not in {rendered.applied, self.targets.get(key, -1)}) or not own:
            self.frozen.add(key)
        told = wait is None or wait.reason is Reason.PROGRESSING or (member.granted and wait == member.blocked)
        if wait and not told and one.error is None:
            self.stays[key] = wait.blocked(_ITEM, reasons)

    def _closed_waves(self, policy: Policy, kind: GroupKind) -> Iterator[tuple[str, Wait]]:
        """Waves whose own windows are not all open."""
        rules = self.governor.rules.get(self.bundle.owners.get(kind, ""))
        for wave in policy.waves:
            for name in wave.windows:
                window = rules.windows.get(name) if rules else None
                state = startable(window, self.now) if window else None
                if state is None:
                    yield (
                        wave.name,
                        Wait(Reason.GATE_ERROR, f"wave {wave.name} names window {name}, which does not exist"),
                    )
                elif not state.open:
                    reason = Reason.WINDOW_CLOSED if state.until else Reason.NEVER_OPENS
                    assert window
                    because = (closed.because(not_startable(window, self.now)),)
                    message = f"wave {wave.name} waits for {closed.named(window)}"
                    yield wave.name, Wait(reason, message, state.until, because=because)


@dataclass
class _Windows:
    """Verdicts of this pass, each judged once."""

    deciding: _Deciding
    _known: dict[tuple[Any, ...], Verdict] = field(default_factory=dict)

    def of_instance(self, rendered: RenderedSet) -> Verdict:
        """May the instance be moved?"""
        effect = Effect.UPDATE if rendered.applied else Effect.CREATE
        key, labels = rendered.parent, rendered.manifest["metadata"].get("labels") or {}
        target = Target(key.group_kind, key.namespace, self.deciding.governor.cluster, rendered.definition, "", labels)
        return self.judged(target, effect, rendered.source, key)

    def of(self, change: Change, instance: ObjectKey | None) -> Verdict:
        """May this change be made?"""
        return self.judged(self._target(change), change.effect, change.set.source, instance)

    def judged(self, target: Target, effect: Effect, source: str, instance: ObjectKey | None) -> Verdict:
        asked = self.deciding.asked.get(instance) if instance else None
        glass = None
        if asked and asked.glass and instance:
            since = self.deciding._since(instance, "breakGlass", str(asked.glass_until))
            glass = asked.past_windows_until(since)
        labels = tuple(sorted((target.labels or {}).items()))
        place = (target.kind, target.namespace, target.rgd, target.node, labels, effect, source, glass)
        if place not in self._known:
            governor = self.deciding.governor
            rules = governor.rules
            own = [rules[source]] if source in rules else list(rules.values())
            verdict = judge([one.for_windows(glass) for one in own], target, effect, governor.reading)
            self._known[place] = verdict
            if not verdict.open:
                self.deciding.moments.add(verdict.next_edge)
        return self._known[place]

    def _target(self, change: Change) -> Target:
        """The object of a change as windows select it."""
        deciding, rendered = self.deciding, change.set
        kind, namespace, cluster = change.key.group_kind, change.key.namespace, deciding.governor.cluster
        definitions = deciding.bundle.definitions
        if not rendered.is_source:
            parent = deciding.observed.objects.get(rendered.parent)
            manifest = rendered.manifest or parent or {"metadata": {}}
            owner = definitions.get(rendered.parent.group_kind)
            name = rendered.definition or (owner.name if owner else "")
            return Target(kind, namespace, cluster, name, change.node, manifest["metadata"].get("labels") or {})
        if definition := definitions.get(kind):
            instance = deciding.bundle.instances.get(change.key)
            manifest = instance.manifest if instance and instance.manifest else change.live or {"metadata": {}}
            return Target(kind, namespace, cluster, definition.name, labels=manifest["metadata"].get("labels") or {})
        names = (one.name for one in definitions.values() if one.crd["metadata"]["name"] == change.key.name)
        return Target(kind, namespace, cluster, next(names, "") if kind == CRD else "")


@dataclass(frozen=True)
class _Check:
    """Why a change may not start now; None when it may. The person's word comes first, then the rollout, then the calendar."""

    deciding: _Deciding
    suspended: Mapping[ObjectKey, Blocked]
    held: Mapping[ObjectKey, Blocked]
    frozen: frozenset[ObjectKey]
    stays: Mapping[ObjectKey, Blocked]

    def __call__(self, change: Change) -> Blocked | None:
        instance = self._instance(change)
        if instance in self.suspended:
            return self.suspended[instance]
        if change.effect is Effect.RECORD:
            return None
        if change.effect in _CONTENT:
            if instance in self.held:
                return self.held[instance]
            if instance in self.frozen and not change.set.is_source:
                return self.stays.get(instance) or Blocked(Reason.PACE_REACHED, "waits for its turn")
            rules = self.deciding.governor.rules.get(change.set.source)
            if rules and rules.closed:
                return Blocked(Reason.GATE_ERROR, rules.closed)
            if wait := self._at_node(change):
                return wait.blocked(_NODE)
        verdict = self.deciding.verdicts.of(change, instance)
        if verdict.open or self._drains(verdict, change):
            return None
        return closed.blocked(verdict)

    def _at_node(self, change: Change) -> Wait | None:
        """The gates of the definition for this node. Deleting a whole instance is somebody's word, and passes them (S1-21)."""
        found = self.deciding.node_gates(change.set.parent) if change.node and not change.set.is_source else None
        return found.wait(change.node, change.effect, change.live) if found else None

    def _instance(self, change: Change) -> ObjectKey:
        return change.key if change.set.is_source else change.set.parent

    def _drains(self, verdict: Verdict, change: Change) -> bool:
        """May what was begun before the window closed be finished? Deletions are not begun anew."""
        if change.begun is None or change.effect is Effect.PRUNE:
            return False
        if verdict.drain is None:
            return verdict.reason is Reason.WINDOW_CLOSED
        if verdict.drain_until and self.deciding.now >= verdict.drain_until:
            return False
        if verdict.drain is Drain.LEVEL:
            return change.level is not None and change.level <= change.begun
        return verdict.drain is Drain.ROLLOUT


def _by_what(reasons: Mapping[str, Wait]) -> Mapping[tuple[str, ...], list[str]]:
    """Items that wait for other items alone, by these; what looks again after a time waits for that as well."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, wait in reasons.items():
        if wait.by and (wait.reason is not Reason.GATE_CLOSED or wait.not_before is None):
            found.setdefault(wait.by, []).append(name)
    return found
