"""What a reviewer is warned of before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from applier.causes import Reason
from applier.plan.model import NodeAction
from gitops.plan import rules
from gitops.plan.masking import SecretMasks
from gitops.plan.operators import operators_first
from gitops.plan.privileges import growth
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange, PlanWarning, WarningKind
from gitops.plan.start_times import place
from gitops.reconcile.context import Preview
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.kinds import NAMESPACE
from renderer.phrasing import counted, listed
from renderer.render.model import RenderedNode


def cautions(preview: Preview, changes: Sequence[PlannedChange], masks: SecretMasks) -> Iterator[PlanWarning]:
    yield from _mass_deletion(changes)
    yield from _namespaces(changes)
    yield from _foreign(changes)
    yield from _broken(preview, masks)
    yield from _held_back(preview, changes)
    yield from operators_first(changes, preview.due.situation.observed.objects)
    yield from _privileges(preview, changes, masks)
    yield from _rules(preview, masks)
    yield from _denied(preview, masks)


def _mass_deletion(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    braked = [gate.message for change in changes for gate in change.gates if gate.reason is Reason.BRAKE_ENGAGED]
    for message in dict.fromkeys(braked):
        yield PlanWarning(WarningKind.MASS_DELETION, message)


def _denied(preview: Preview, masks: SecretMasks) -> Iterator[PlanWarning]:
    if denied := preview.due.denied:
        untold = "so what the cluster would refuse of them or fill in is not known"
        why = masks.text(str(next(iter(denied.values()))))
        yield PlanWarning(
            WarningKind.NOT_COMPARED, f"{counted(len(denied), 'object')} could not be tried by dry run, {untold}: {why}"
        )


def _namespaces(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    for change in changes:
        if change.key and change.key.group_kind == NAMESPACE and change.action is PlannedAction.DELETE:
            yield _about(change, WarningKind.NAMESPACE_GOES, f"namespace {change.key.name} goes, with everything in it")


def _foreign(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    for change in changes:
        if change.action is PlannedAction.FAILED and change.why.startswith((Reason.OWNED_ELSEWHERE, Reason.CONFLICT)):
            yield _about(change, WarningKind.FOREIGN_OBJECT, change.why)
        if change.action is PlannedAction.ADOPT:
            yield _about(change, WarningKind.FOREIGN_OBJECT, f"{change.ref} exists and is taken over")


def _held_back(preview: Preview, changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    """Instances that get their turn and then stop at a node, while others of their rollout wait for theirs."""
    rollouts: dict[str, list[ObjectKey]] = {}
    waiting: set[ObjectKey] = set()
    stopped: dict[ObjectKey, tuple[PlannedChange, Obstacle]] = {}
    free = {change.instance for change in changes if change.node and not change.gates}
    for change in changes:
        if change.instance is None or not change.node:
            continue
        for gate in change.gates:
            if gate.reason.is_turn:
                waiting.add(change.instance)
            elif gate.reason.is_gate and change.instance in free:
                stopped.setdefault(change.instance, (change, gate))
    for key, known in preview.first.propagation.remembered.items():
        rollouts.setdefault(str((known.get("rollout") or {}).get("name") or ""), []).append(key)
    for name, members in sorted(rollouts.items()):
        behind = [place(key) for key in members if key in waiting]
        for key in members if name and behind else ():
            if key in stopped:
                change, gate = stopped[key]
                until = f" until {gate.until:%Y-%m-%dT%H:%MZ}" if gate.until else ""
                message = f"{place(key)} stops at {change.node}{until} and can hold back {listed(behind)}; {well_known.PRIORITY} can put it last"
                yield PlanWarning(WarningKind.HOLDS_BACK, message, str(key), change.file, change.line)


def _broken(preview: Preview, masks: SecretMasks) -> Iterator[PlanWarning]:
    """Definitions that stay at their last revision because the new one would break what is stored, and whose instances those are."""
    for rendered in preview.due.bundle.sources.values():
        for problem in rendered.problems:
            kinds = [kind for kind, one in preview.due.bundle.definitions.items() if str(kind) in problem.message]
            keys = sorted(key for key in preview.due.bundle.instances if key.group_kind in kinds)
            message = masks.text(problem.message) + (f"; its instances: {listed(keys)}" if keys else "")
            yield PlanWarning(WarningKind.BREAKING_SCHEMA, message, "", problem.file, problem.line)


def _privileges(preview: Preview, changes: Sequence[PlannedChange], masks: SecretMasks) -> Iterator[PlanWarning]:
    places = {change.key: (change.file, change.line) for change in changes}
    for key, node, old in _written(preview):
        more = list(growth(old, node.manifest))
        if more:
            message = masks.text(f"{key} allows more: {listed(more, separator='; ')}")
            file, line = places.get(masks.key(key), (node.origin.file, node.origin.line))
            yield PlanWarning(WarningKind.PRIVILEGES, message, str(key), file, line)


def _rules(preview: Preview, masks: SecretMasks) -> Iterator[PlanWarning]:
    for source, before in preview.accepted.items():
        for one in rules.changed(before, preview.due.situation.conditions.rules[source].accepted):
            yield replace(one, message=masks.text(one.message))


def _written(preview: Preview) -> Iterator[tuple[ObjectKey, RenderedNode, Mapping[str, object] | None]]:
    """Nodes that are written, with the live object."""
    for one in preview.due.plan.sets:
        for plan in one.nodes:
            if plan.node.key and plan.node.writable and plan.verb not in {NodeAction.NONE, NodeAction.RECORD}:
                yield plan.node.key, plan.node, plan.live


def _about(change: PlannedChange, hazard: WarningKind, message: str) -> PlanWarning:
    return PlanWarning(hazard, message, change.ref, change.file, change.line)
