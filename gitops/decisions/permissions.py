"""Permissions of changes as queries: may a change start now?

A word of a person comes first, then the turn of the instance in its rollout, then gates of the node, then windows. A
permission never says why an instance does not have its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import Final, NamedTuple

from applier.causes import Cause, Reason
from applier.errors import ClusterError
from applier.plan.model import Barrier, CandidateChange, ChangePermissions, DrainProgress, Operation
from gitops.decisions import live, rules
from gitops.decisions.definitions import definitions, source_commit
from gitops.decisions.drains import describe_overrun, finishes_change, finishes_instance
from gitops.decisions.holds import own_hold, source_hold
from gitops.decisions.instances import instance_set, is_wanted
from gitops.decisions.live_view import Lookup
from gitops.decisions.moments import recompute_at_edge
from gitops.decisions.people import (
    first_observed,
    instance_directives,
    is_planned_instance,
    object_directives,
    source_directives,
    source_of,
    suspension,
)
from gitops.decisions.plan_inputs import granted_revision
from gitops.decisions.rules import NO_PASSING, Passing, TargetKey, labels_of
from gitops.decisions.source_sets import source_set
from gitops.decisions.standalone_plans import drain_progress_finder, standalone_plan
from gitops.gates.node_gates import NodeGates
from gitops.queries import Input, QueryGraph, has_passed, query, recompute_at
from gitops.rollouts.closed_windows import closed_window_cause, format_window_name
from gitops.rollouts.directives import NO_DIRECTIVES, Directives
from gitops.rollouts.policy import DEFAULT_POLICY, Policy
from gitops.rollouts.state import OVERRIDDEN, UNDATED, DecisionRecord
from gitops.windows.verdict import WindowVerdict
from gitops.windows.window import Window
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent
from renderer.kinds import CRD
from renderer.render.model import RenderedApplySet, id_in_definition

record_error: Final[Input[[str], ClusterError | None]] = Input("record_error", initial=None, starts_unread=False)
"""Error because of which the record of a source cannot tell the use of a break-glass, or None."""

_CONTENT: Final = frozenset({Operation.CREATE, Operation.UPDATE, Operation.PRUNE})
"""Operations that a hold, a rollout and a gate hold back. Healing goes on."""


# -- Break-glass


def instance_of(change: CandidateChange) -> ObjectKey:
    """Return the instance that a change belongs to. The object of an instance belongs to it, and not to the source."""
    return change.key if change.set.is_source else change.set.parent


def make_override_record(
    directives: Directives, what: str, windows: Iterable[Window], *, commit: str, now: datetime
) -> DecisionRecord:
    """Return the entry in the log of a rollout or source for an action that bypasses `windows`.

    Args:
        directives: directives with the break-glass.
        what: action and its object.
        commit: commit that the source brings about, which declares the break-glass if no person set it on the live
            object.
        now: time of the action in UTC.
    """
    named = ", ".join(map(format_window_name, windows))
    by = directives.break_glass_by or f"commit {commit[:12]}"
    return DecisionRecord(now, OVERRIDDEN, f"{what} bypassing {named}", by, directives.break_glass_reason, commit)


def _own_directives(graph: QueryGraph, key: ObjectKey, source: str) -> Directives:
    """Return the directives of an instance or of a plain object of a source, with the wider break-glass."""
    if is_planned_instance(graph, key):
        return instance_directives(graph, key)
    return object_directives(graph, key).with_wider_break_glass(source_directives(graph, source))


def _break_glass_since(graph: QueryGraph, key: ObjectKey, source: str, directives: Directives) -> datetime:
    """Return the time in UTC of the first observation of a break-glass for an object.

    If the object has no directive of its own, the record of its source tells the time.
    """
    has_own = is_planned_instance(graph, key) or object_directives(graph, key) is not NO_DIRECTIVES
    carrier = key if has_own else source_parent(source)
    return first_observed(graph, carrier, "breakGlass", str(directives.break_glass_until))


def _unrecorded_reason(graph: QueryGraph, key: ObjectKey, source: str) -> ClusterError | None:
    """Return the error because of which no record can tell that an object passes windows, or None.

    The rollout of an instance records it, and the source records it for any other object.
    """
    return None if is_planned_instance(graph, key) else record_error(graph, source)


@query
def passing(graph: QueryGraph, key: ObjectKey, source: str) -> Passing:
    """Return the break-glass that lets an object pass windows. A break-glass in Git passes only those of its source."""
    directives = _own_directives(graph, key, source)
    if not directives.break_glass_reason or _unrecorded_reason(graph, key, source):
        return NO_PASSING
    since = _break_glass_since(graph, key, source, directives)
    until = directives.windows_overridden_until(since)
    recompute_at_edge(graph, until)
    return Passing(until, everywhere=bool(directives.break_glass_by))


@query
def bypassed_windows(graph: QueryGraph, instance: ObjectKey) -> frozenset[str]:
    """Return the names of the windows that a break-glass bypasses where a gate of the instance asks for them."""
    source = source_of(graph, instance)
    until, everywhere = passing(graph, instance, source)
    if until is None or has_passed(graph, until):
        return frozenset()
    periods = rules.window_periods(graph, instance.group_kind)
    return frozenset(
        name
        for name, period in periods.items()
        if not period.window.forbids_break_glass and (everywhere or period.source == source)
    )


def _with_refusal(graph: QueryGraph, cause: Cause, key: ObjectKey, source: str, sources: Iterable[str]) -> Cause:
    """Return the cause of closed windows, with the reason why a break-glass of the object does not help.

    Args:
        sources: sources of the closed windows.
    """
    directives = _own_directives(graph, key, source)
    if not directives.break_glass_reason:
        return cause
    recompute_at_edge(graph, directives.break_glass_until)
    since = _break_glass_since(graph, key, source, directives)
    refusal = directives.break_glass_refusal(since, graph.now)
    if not refusal and (error := _unrecorded_reason(graph, key, source)):
        refusal = f"its use cannot be recorded: {error}"
    if not refusal and not directives.break_glass_by and any(one != source for one in sources):
        refusal = "declared in Git it bypasses windows of its own source only; annotate the live object"
    refusal = refusal or "a window that governs it forbids that (breakGlass: Forbidden)"
    return replace(cause, message=f"{cause.message}; break-glass refused: {refusal}")


# -- Windows


def _closed_cause(graph: QueryGraph, verdict: WindowVerdict, key: ObjectKey, source: str) -> Cause:
    """Return the cause of a closed verdict for an object."""
    closed_sources = {window.source for window in verdict.closed_windows}
    return _with_refusal(graph, closed_window_cause(verdict), key, source, closed_sources)


def instance_verdict(graph: QueryGraph, rendered: RenderedApplySet) -> WindowVerdict:
    """Return whether the windows permit an instance to move now."""
    operation = Operation.UPDATE if rendered.applied else Operation.CREATE
    key, source = rendered.parent, rendered.source
    target = TargetKey(key.group_kind, key.namespace, rendered.definition, "", labels_of(rendered.manifest))
    return rules.window_verdict(graph, target, operation, source, passing(graph, key, source))


def finishes_begun_instance(graph: QueryGraph, rendered: RenderedApplySet, verdict: WindowVerdict) -> bool:
    """Return whether an instance may be brought to its end although windows are closed, because it has begun."""
    recompute_at(graph, verdict.drain_until)
    return finishes_instance(verdict, instance_progress(graph, rendered.parent), graph.now)


@query
def instance_progress(graph: QueryGraph, instance: ObjectKey) -> DrainProgress | None:
    """Return the progress of a wanted instance toward its target, or None if nothing of it has moved."""
    rendered = instance_set(graph, instance)
    return drain_progress_finder(graph).find_progress(rendered) if rendered else None


@query
def source_drain_progress(graph: QueryGraph, source: str) -> DrainProgress | None:
    """Return the progress of a source's own objects toward the present commit, or None if nothing of it has moved."""
    return drain_progress_finder(graph).find_progress(source_set(graph, source))


@query
def instance_window_cause(graph: QueryGraph, instance: ObjectKey) -> Cause | None:
    """Return the cause of the windows that keep a wanted instance from moving now, or None.

    An instance that is new within another one moves on, if the other one began before the window closed.
    """
    rendered = instance_set(graph, instance)
    if rendered is None:
        return None
    if reason := rules.closed_reason(graph, rendered.source):
        return Cause(Reason.GATE_ERROR, reason)
    verdict = instance_verdict(graph, rendered)
    is_new_within = rendered.is_nested and not rendered.applied
    if verdict.is_open or (is_new_within and finishes_begun_instance(graph, rendered, verdict)):
        return None
    return _closed_cause(graph, verdict, instance, rendered.source)


# -- Changes


class Turn(NamedTuple):
    """Turn of an instance in its rollout."""

    cause: Cause | None
    """Cause that bars all changes of the content of the instance, because it does not have its turn, or None."""
    restated_revision: int
    """Number of the target revision that the instance has to carry again although no rollout grants it now, or 0."""


IN_TURN: Final = Turn(None, 0)


@dataclass
class SetChecks:
    """Checks of the changes of one set, in one evaluation of its plan."""

    graph: QueryGraph
    parent: ObjectKey
    turn: Turn

    def find_cause(self, change: CandidateChange) -> Cause | None:
        """Return the first cause that bars a change now, or None if the change may start."""
        return next(self._causes(change, finishes_begun=True), None)

    def all_causes(self, change: CandidateChange) -> tuple[Cause, ...]:
        """Return all causes that bar a change, also of a change that would finish in a closed window what it began."""
        return tuple(self._causes(change, finishes_begun=False))

    def _causes(self, change: CandidateChange, *, finishes_begun: bool) -> Iterator[Cause]:
        graph, key = self.graph, instance_of(change)
        if cause := suspension(graph, key):
            yield cause
        if change.operation is Operation.RECORD:
            return
        source = self._source_of(change)
        if change.operation in _CONTENT:
            if cause := own_hold(graph, key) or source_hold(graph, source):
                yield cause
            if self.turn.cause:
                yield self.turn.cause
            if reason := rules.closed_reason(graph, change.set.source):
                yield Cause(Reason.GATE_ERROR, reason)
            if cause := self._gate_cause(change, source):
                yield cause
        if cause := self._window_cause(change, source, finishes_begun=finishes_begun):
            yield cause

    def window_verdict_at(self, change: CandidateChange, moment: datetime) -> WindowVerdict:
        """Return what the windows say of a change at a moment in UTC."""
        return rules.window_verdict_at(self.graph, *self._window_question(change), moment)

    def _source_of(self, change: CandidateChange) -> str:
        """Return the source of a change. An instance that goes away goes from the source that holds it."""
        return change.set.source or source_of(self.graph, self.parent)

    def _window_question(self, change: CandidateChange) -> tuple[TargetKey, Operation, str, Passing]:
        """Return what windows have to know of a change: target, operation, source, and the break-glass."""
        graph, source = self.graph, self._source_of(change)
        return _window_target(graph, change), change.operation, source, passing(graph, instance_of(change), source)

    def bypassed_windows_of(self, change: CandidateChange) -> tuple[Window, ...]:
        """Return the closed windows that a break-glass lets a change bypass: those that govern it, then those of gates."""
        graph, key = self.graph, instance_of(change)
        source = self._source_of(change)
        if change.operation is Operation.RECORD or not _own_directives(graph, key, source).break_glass_reason:
            return ()
        verdict = rules.window_verdict(graph, *self._window_question(change))
        windows = [period.window for period in verdict.overridden]
        if change.operation in _CONTENT and _may_wait_at_gate(change) and (gates := self._gates):
            names = gates.overridden_windows(change.node_id, change.operation, change.live)
            gated = (gates.windows[name].window for name in sorted(names))
            windows += [window for window in gated if window not in windows]
        return tuple(windows)

    def override_record(self, change: CandidateChange) -> DecisionRecord | None:
        """Return the `UNDATED` record of a change that bypasses closed windows, or None."""
        windows = self.bypassed_windows_of(change)
        if not windows:
            return None
        graph, key = self.graph, instance_of(change)
        source = self._source_of(change)
        directives, commit = _own_directives(graph, key, source), source_commit(graph, source).commit
        what = f"{change.operation} {change.key}"
        return make_override_record(directives, what, windows, commit=commit, now=UNDATED)

    @cached_property
    def _gates(self) -> NodeGates | None:
        """Gates of the nodes of the set, or None for a set that Git does not want and for the set of a source."""
        plan = standalone_plan(self.graph, self.parent)
        if plan is None or plan.rendered.is_source or not is_wanted(self.graph, self.parent):
            return None
        kind, policy = self.parent.group_kind, rules.policy_of(self.graph, self.parent)
        return NodeGates(
            plan,
            policy if isinstance(policy, Policy) else DEFAULT_POLICY,
            rules.gate_facts(self.graph, kind),
            rules.window_periods(self.graph, kind),
            bypassed_windows(self.graph, self.parent),
        )

    def _gate_cause(self, change: CandidateChange, source: str) -> Cause | None:
        """Return the cause of the gates of a node, and of the pace of its collection.

        The deletion of a whole instance is a word of a person, and passes the gates (S1-21).
        """
        if not _may_wait_at_gate(change) or self._gates is None:
            return None
        cause = self._gates.find_wait(change.node_id, change.operation, change.live)
        if cause is None or cause.reason not in {Reason.WINDOW_CLOSED, Reason.NEVER_OPENS}:
            return cause
        periods = self._gates.windows
        closed_sources = {periods[one.name].source for one in cause.references if one.kind == "Window"}
        return _with_refusal(self.graph, cause, self.parent, source, closed_sources)

    def _window_cause(self, change: CandidateChange, source: str, *, finishes_begun: bool) -> Cause | None:
        """Return the cause of the windows that are closed for a change.

        Args:
            finishes_begun: whether a change may finish in a closed window what it began before.
        """
        graph, key = self.graph, instance_of(change)
        verdict = rules.window_verdict(graph, *self._window_question(change))
        if verdict.is_open:
            return None
        recompute_at(graph, verdict.drain_until)
        begun = change._replace(drain_progress=self._progress_of(change))
        if finishes_begun and finishes_change(verdict, begun, definitions(graph).current, graph.now):
            return None
        cause = _closed_cause(graph, verdict, key, source)
        overrun = describe_overrun(verdict, begun.drain_progress, graph.now)
        return replace(cause, message=f"{cause.message}; {overrun}") if overrun else cause

    def _progress_of(self, change: CandidateChange) -> DrainProgress | None:
        """Return the progress of the set, if it covers the object of a change that a window closes."""
        return change.drain_progress


class SourceNodeChecks(SetChecks):
    """Checks of the changes of single nodes of a source.

    The plan of such a node tells no progress, which reads all nodes of the source, and which a closed window alone needs.
    """

    def _progress_of(self, change: CandidateChange) -> DrainProgress | None:
        progress = source_drain_progress(self.graph, change.set.source)
        return progress.of_key(change.key) if progress else None


def _may_wait_at_gate(change: CandidateChange) -> bool:
    """Return whether gates or a pace may apply to a node, without a look at the plan of its set."""
    if not change.node_id or change.set.is_source:
        return False
    rendered = change.set
    gates = {**rendered.gates, **(rendered.applied_rendering.gates if rendered.applied_rendering else {})}
    return "/" in change.node_id or id_in_definition(change.node_id) in gates


def _window_target(graph: QueryGraph, change: CandidateChange) -> TargetKey:
    """Return the object of a change as windows select it."""
    rendered, kind, namespace = change.set, change.key.group_kind, change.key.namespace
    current = definitions(graph).current
    if not rendered.is_source:
        owner = current.get(rendered.parent.group_kind)
        name = rendered.definition or (owner.name if owner else "")
        labels = labels_of(rendered.manifest or live.live(graph, rendered.parent))
        return TargetKey(kind, namespace, name, id_in_definition(change.node_id), labels)
    if definition := current.get(kind):
        instance = instance_set(graph, change.key)
        manifest = instance.manifest if instance and instance.manifest else change.live
        return TargetKey(kind, namespace, definition.name, "", labels_of(manifest))
    if kind != CRD:
        return TargetKey(kind, namespace, "", "", ())
    names = (one.name for one in current.values() if one.crd["metadata"]["name"] == change.key.name)
    return TargetKey(kind, namespace, next(names, ""), "", ())


def permissions_of(checks: SetChecks) -> ChangePermissions:
    """Return the permissions for the changes of one set."""
    graph, parent, turn = checks.graph, checks.parent, checks.turn

    def barrier_of(key: ObjectKey) -> Barrier | None:
        policy = rules.policy_of(graph, key)
        return policy.barrier if isinstance(policy, Policy) else None

    def target_of(key: ObjectKey) -> int | None:
        return granted_revision(graph, key) or (turn.restated_revision if key == parent else 0) or None

    return ChangePermissions(
        checks.find_cause,
        Lookup(target_of, "granted revisions"),
        Lookup(partial(suspension, graph), "suspensions"),
        Lookup(barrier_of, "barriers"),
    )
