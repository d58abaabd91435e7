"""What a reviewer is warned of before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from applier.causes import Reason
from applier.plan.model import NodeAction
from gitops.plan import rules
from gitops.plan.masking import SecretMasks
from gitops.plan.operators import find_deleted_operators
from gitops.plan.privileges import describe_growth
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange, PlanWarning, WarningKind
from gitops.plan.start_times import qualified_name
from gitops.reconcile.context import Preview
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.kinds import NAMESPACE
from renderer.phrasing import format_count, join_names
from renderer.render.model import RenderedNode


def collect_warnings(preview: Preview, changes: Sequence[PlannedChange], masks: SecretMasks) -> Iterator[PlanWarning]:
    yield from _mass_deletions(changes)
    yield from _deleted_namespaces(changes)
    yield from _foreign_objects(changes)
    yield from _breaking_schemas(preview, masks)
    yield from _held_rollouts(preview, changes)
    yield from find_deleted_operators(changes, preview.due.situation.observed.objects)
    yield from _privileges(preview, changes, masks)
    yield from _changed_rules(preview, masks)
    yield from _denied_dry_runs(preview, masks)


def _mass_deletions(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    messages = [
        obstacle.message
        for change in changes
        for obstacle in change.obstacles
        if obstacle.reason is Reason.BRAKE_ENGAGED
    ]
    for message in dict.fromkeys(messages):
        yield PlanWarning(WarningKind.MASS_DELETION, message)


def _denied_dry_runs(preview: Preview, masks: SecretMasks) -> Iterator[PlanWarning]:
    if denied := preview.due.denied:
        consequence = "so what the cluster would refuse of them or fill in is not known"
        message = masks.mask_text(str(next(iter(denied.values()))))
        yield PlanWarning(
            WarningKind.NOT_COMPARED,
            f"{format_count(len(denied), 'object')} could not be tried by dry run, {consequence}: {message}",
        )


def _deleted_namespaces(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    for change in changes:
        if change.key and change.key.group_kind == NAMESPACE and change.action is PlannedAction.DELETE:
            yield _warning_about(
                change, WarningKind.NAMESPACE_GOES, f"namespace {change.key.name} goes, with everything in it"
            )


def _foreign_objects(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    for change in changes:
        if change.action is PlannedAction.FAILED and change.message.startswith(
            (Reason.OWNED_ELSEWHERE, Reason.CONFLICT)
        ):
            yield _warning_about(change, WarningKind.FOREIGN_OBJECT, change.message)
        if change.action is PlannedAction.ADOPT:
            yield _warning_about(change, WarningKind.FOREIGN_OBJECT, f"{change.ref} exists and is taken over")


def _held_rollouts(preview: Preview, changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    """Instances that get their turn and then stop at a node, while others of their rollout wait for theirs."""
    rollouts: dict[str, list[ObjectKey]] = {}
    waiting: set[ObjectKey] = set()
    stopped: dict[ObjectKey, tuple[PlannedChange, Obstacle]] = {}
    free_instances = {change.instance for change in changes if change.node and not change.obstacles}
    for change in changes:
        if change.instance is None or not change.node:
            continue
        for obstacle in change.obstacles:
            if obstacle.reason.is_queued:
                waiting.add(change.instance)
            elif obstacle.reason.is_missing_permission and change.instance in free_instances:
                stopped.setdefault(change.instance, (change, obstacle))
    for key, record in preview.first.propagation.remembered.items():
        rollouts.setdefault(str((record.get("rollout") or {}).get("name") or ""), []).append(key)
    for name, members in sorted(rollouts.items()):
        waiting_names = [qualified_name(key) for key in members if key in waiting]
        for key in members if name and waiting_names else ():
            if key in stopped:
                change, obstacle = stopped[key]
                until = f" until {obstacle.until:%Y-%m-%dT%H:%MZ}" if obstacle.until else ""
                message = (
                    f"{qualified_name(key)} stops at {change.node}{until} "
                    f"and can hold back {join_names(waiting_names)}; {well_known.PRIORITY} can put it last"
                )
                yield PlanWarning(WarningKind.HOLDS_BACK, message, str(key), change.file, change.line)


def _breaking_schemas(preview: Preview, masks: SecretMasks) -> Iterator[PlanWarning]:
    """Definitions that stay at their last revision because the new one would break what is stored, and whose instances those are."""
    for rendered in preview.due.bundle.sources.values():
        for problem in rendered.problems:
            kinds = [
                kind for kind, definition in preview.due.bundle.definitions.items() if str(kind) in problem.message
            ]
            keys = sorted(key for key in preview.due.bundle.instances if key.group_kind in kinds)
            message = masks.mask_text(problem.message) + (f"; its instances: {join_names(keys)}" if keys else "")
            yield PlanWarning(WarningKind.BREAKING_SCHEMA, message, "", problem.file, problem.line)


def _privileges(preview: Preview, changes: Sequence[PlannedChange], masks: SecretMasks) -> Iterator[PlanWarning]:
    locations = {change.key: (change.file, change.line) for change in changes}
    for key, node, old in _written_nodes(preview):
        additions = list(describe_growth(old, node.manifest))
        if additions:
            message = masks.mask_text(f"{key} allows more: {join_names(additions, separator='; ')}")
            file, line = locations.get(masks.mask_key(key), (node.origin.file, node.origin.line))
            yield PlanWarning(WarningKind.PRIVILEGES, message, str(key), file, line)


def _changed_rules(preview: Preview, masks: SecretMasks) -> Iterator[PlanWarning]:
    for source, base_rules in preview.accepted.items():
        for warning in rules.find_rule_changes(base_rules, preview.due.situation.conditions.rules[source].accepted):
            yield replace(warning, message=masks.mask_text(warning.message))


def _written_nodes(preview: Preview) -> Iterator[tuple[ObjectKey, RenderedNode, Mapping[str, object] | None]]:
    """Nodes that are written, with the live object."""
    for set_plan in preview.due.plan.sets:
        for node_plan in set_plan.nodes:
            if (
                node_plan.node.key
                and node_plan.node.writable
                and node_plan.verb not in {NodeAction.NONE, NodeAction.RECORD}
            ):
                yield node_plan.node.key, node_plan.node, node_plan.live


def _warning_about(change: PlannedChange, hazard: WarningKind, message: str) -> PlanWarning:
    return PlanWarning(hazard, message, change.ref, change.file, change.line)
