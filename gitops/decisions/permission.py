"""May a change start now? A person's word comes first, then the rollout, then the gates of the node, then the calendar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from applier.causes import Cause, Reason
from applier.plan.model import CandidateChange, Operation
from gitops.decisions.drains import describe_overrun, finishes_change
from gitops.decisions.inputs import DecisionInputs
from gitops.decisions.window_verdicts import WindowVerdicts, instance_of
from gitops.gates.evaluate import GateFacts
from gitops.gates.node_gates import NodeGates
from gitops.rollouts.policy import DEFAULT_POLICY, Policy
from gitops.rollouts.state import DecisionRecord
from gitops.windows.verdict import WindowPeriod, WindowVerdict
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey

_CONTENT: Final = frozenset({Operation.CREATE, Operation.UPDATE, Operation.PRUNE})
"""What a hold and a rollout hold back; healing goes on."""


@dataclass(frozen=True, repr=False)
class ChangeJudge:
    """By object: who is `suspended` and `held` by a person; by instance who is `frozen` where it is, and why one `stays`.

    `source_holds` are the sources that a person holds, `policies` those of instances.
    """

    situation: DecisionInputs
    verdicts: WindowVerdicts
    suspended: Mapping[ObjectKey, Cause]
    held: Mapping[ObjectKey, Cause]
    source_holds: Mapping[str, Cause]
    frozen: frozenset[ObjectKey]
    stays: Mapping[ObjectKey, Cause]
    policies: Mapping[ObjectKey, Policy]
    _nodes: dict[ObjectKey, NodeGates | None] = field(default_factory=dict)
    _worlds: dict[GroupKind, tuple[GateFacts, Mapping[str, WindowPeriod]]] = field(default_factory=dict)
    _closed_sources: dict[str, str] = field(default_factory=dict)

    def __call__(self, change: CandidateChange) -> Cause | None:
        """Why not; None when it may."""
        return next(self._hindrances(change, in_turn=True), None)

    def for_plan(self, situation: DecisionInputs) -> ChangeJudge:
        """The same decisions about another plan of the same instances."""
        return replace(self, situation=situation, verdicts=WindowVerdicts(situation), _nodes={})

    def all_causes(self, change: CandidateChange) -> Iterator[Cause]:
        """All that stands in the way of a change, whoever comes first; but for whether its instance has its turn, and what was begun already."""
        return self._hindrances(change, in_turn=False)

    def _hindrances(self, change: CandidateChange, *, in_turn: bool) -> Iterator[Cause]:
        """One after the other, each worked out when it is asked for; `in_turn`: also what a rollout has said of this very change."""
        instance = instance_of(change)
        if instance in self.suspended:
            yield self.suspended[instance]
        if change.operation is Operation.RECORD:
            return
        if change.operation in _CONTENT:
            if held := self.held.get(instance) or self.source_holds.get(self.verdicts.source_of(change)):
                yield held
            if in_turn and instance in self.frozen and not change.set.is_source:
                yield self.stays.get(instance) or Cause(Reason.PACE_REACHED, "waits for its queue position")
            if closed := self._closed(change.set.source):
                yield Cause(Reason.GATE_ERROR, closed)
            if wait := self._at_node(change):
                yield self._told(wait, instance, self.verdicts.source_of(change))
        verdict = self.verdicts.of(change)
        if not verdict.is_open and not (in_turn and self._drains(verdict, change)):
            cause = self.verdicts.blocked(verdict, instance, self.verdicts.source_of(change))
            note = describe_overrun(verdict, change.drain_progress, self.situation.now)
            yield replace(cause, message=f"{cause.message}; {note}") if note else cause

    def _closed(self, source: str) -> str:
        if source not in self._closed_sources:
            self._closed_sources[source] = self.situation.conditions.closed(source)
        return self._closed_sources[source]

    def _at_node(self, change: CandidateChange) -> Cause | None:
        """The gates of the definition for this node. Deleting a whole instance is somebody's word, and passes them (S1-21)."""
        found = self._asked_of(change)
        return found.find_wait(change.node_id, change.operation, change.live) if found else None

    def override_record(self, change: CandidateChange) -> DecisionRecord | None:
        """For the record: that a change is made although windows are closed that govern it, or that its gate asks for."""
        found = self._asked_of(change) if change.operation in _CONTENT else None
        names = found.overridden_windows(change.node_id, change.operation, change.live) if found else ()
        return self.verdicts.under_glass(
            change, [found.windows[name].window for name in sorted(names)] if found else ()
        )

    def _asked_of(self, change: CandidateChange) -> NodeGates | None:
        return self._gates_of(change.set.parent) if change.node_id and not change.set.is_source else None

    def _told(self, wait: Cause, instance: ObjectKey, source: str) -> Cause:
        if wait.reason not in {Reason.WINDOW_CLOSED, Reason.NEVER_OPENS}:
            return wait
        windows = self.situation.closings(instance.group_kind)
        closed_sources = {windows[one.name].source for one in wait.references if one.kind == "Window"}
        return self.verdicts.refused(wait, instance, source, closed_sources)

    def _gates_of(self, instance: ObjectKey) -> NodeGates | None:
        """Those of the nodes of an instance; None where it is not one that is rendered."""
        if instance not in self._nodes:
            here, kind = self.situation, instance.group_kind
            if kind not in self._worlds:
                self._worlds[kind] = here.facts(kind), here.closings(kind)
            is_rendered = instance in here.bundle.instances and instance in here.plans
            policy = self.policies.get(instance, DEFAULT_POLICY)
            self._nodes[instance] = (
                NodeGates(here.plans[instance], policy, *self._worlds[kind], self.verdicts.overridden_windows(instance))
                if is_rendered
                else None
            )
        return self._nodes[instance]

    def _drains(self, verdict: WindowVerdict, change: CandidateChange) -> bool:
        """Return whether the change finishes what was begun before the window closed."""
        return finishes_change(verdict, change, self.situation.bundle.definitions, self.situation.now)
