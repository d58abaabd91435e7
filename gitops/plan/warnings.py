"""Warnings of a plan for reviewers, collected from the preview and the changes of the plan.

The module `privileges` has the warnings about roles, and the module `operators` has the warnings about operators.
`unmatched_rules` warns about selectors without a match, and `foreign_sources` warns about claims of other sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from applier.causes import Reason
from applier.plan.model import NodeAction
from applier.state.structural_diff import FieldDiff
from gitops.plan.field_diff import diff_objects, format_value
from gitops.plan.masking import SecretMasks
from gitops.plan.operators import find_deleted_operators
from gitops.plan.privileges import describe_growth
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange, PlanWarning, WarningKind
from gitops.reconcile.preview import Preview
from gitops.rollouts.source_rules import StoredRules
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.kinds import NAMESPACE
from renderer.phrasing import format_count, join_names
from renderer.render.model import RenderedNode

_MAX_LISTED_FIELDS = 5


def find_rule_changes(base_rules: StoredRules, head_rules: StoredRules) -> Iterator[PlanWarning]:
    """Yield a warning for each new, changed or removed rule, and each new, changed or removed iCalendar file."""
    old, new = _rules_by_name(base_rules), _rules_by_name(head_rules)
    for name in sorted(old.keys() | new.keys()):
        old_value, new_value = old.get(name), new.get(name)
        location = new_value or old_value or {}
        if change_text := _describe_change(old_value, new_value):
            yield PlanWarning(
                WarningKind.RULES, f"{' '.join(name)} {change_text}", name[1], location["file"], location["line"]
            )
    old_value, new_value = (stored.get("calendars") or {} for stored in (base_rules, head_rules))
    for file in sorted(old_value.keys() | new_value.keys()):
        if old_value.get(file) != new_value.get(file):
            yield PlanWarning(WarningKind.RULES, f"iCalendar file {file} changes", file, file, 1)


def _rules_by_name(stored: StoredRules) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (rule["manifest"]["kind"], rule["manifest"]["metadata"]["name"]): rule for rule in stored.get("rules") or ()
    }


def _describe_change(old_rule: Mapping[str, Any] | None, new_rule: Mapping[str, Any] | None) -> str:
    if old_rule is None or new_rule is None:
        return "is new" if old_rule is None else "is removed"
    diffs = diff_objects(old_rule["manifest"], new_rule["manifest"])
    return (
        f"changes: {join_names(map(_describe_field, diffs), limit=_MAX_LISTED_FIELDS, separator='; ')}" if diffs else ""
    )


def _describe_field(field_diff: FieldDiff) -> str:
    """Return `path old -> new`. YAML 1.1 reads the key `n` of a linear pace as false, so the text restores `n`."""
    old, new = ("none" if value is None else format_value(value) for value in (field_diff.old, field_diff.new))
    return f"{field_diff.path} {old} -> {new}".replace("linear.false", "linear.n").replace(
        '"linear":{"false"', '"linear":{"n"'
    )


def collect_warnings(preview: Preview, changes: Sequence[PlannedChange], masks: SecretMasks) -> Iterator[PlanWarning]:
    """Yield all warnings of a preview, except those from a comparison with another source or with the base commit."""
    return chain(
        _mass_deletions(changes),
        _deleted_namespaces(changes),
        _foreign_objects(changes),
        _still_read(preview, changes, masks),
        _breaking_schemas(preview, masks),
        _held_rollouts(preview, changes),
        find_deleted_operators(changes, preview.due.observed.objects),
        _privileges(preview, changes, masks),
        _changed_rules(preview, masks),
        _denied_dry_runs(preview, masks),
    )


def _mass_deletions(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    for message in dict.fromkeys(
        obstacle.message
        for change in changes
        for obstacle in change.obstacles
        if obstacle.reason is Reason.BRAKE_ENGAGED
    ):
        yield PlanWarning(WarningKind.MASS_DELETION, message)


def _denied_dry_runs(preview: Preview, masks: SecretMasks) -> Iterator[PlanWarning]:
    if denied := preview.due.denied:
        consequence = "so refusals and defaults of the cluster are not known"
        message = masks.mask_text(str(next(iter(denied.values()))))
        yield PlanWarning(
            WarningKind.NOT_COMPARED,
            f"{format_count(len(denied), 'object')} could not be tried by dry run, {consequence}: {message}",
        )


def _still_read(preview: Preview, changes: Sequence[PlannedChange], masks: SecretMasks) -> Iterator[PlanWarning]:
    """Yield a warning for each deleted object that a remaining instance reads by `externalRef`."""
    changes_by_key = {change.key: change for change in changes if change.action is PlannedAction.DELETE}
    for set_plan in preview.due.plan.sets:
        for candidate in set_plan.prune_candidates:
            cause, change = candidate.still_read_cause, changes_by_key.get(candidate.member.key)
            if cause and change:
                yield _warning_about(change, WarningKind.STILL_READ, masks.mask_text(cause.message))


def _deleted_namespaces(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    for change in changes:
        if change.key and change.key.group_kind == NAMESPACE and change.action is PlannedAction.DELETE:
            yield _warning_about(
                change, WarningKind.NAMESPACE_GOES, f"namespace {change.key.name} is deleted, with everything in it"
            )


def _foreign_objects(changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    for change in changes:
        if change.action is PlannedAction.FAILED and change.message.startswith(
            (Reason.OWNED_ELSEWHERE, Reason.CONFLICT)
        ):
            yield _warning_about(change, WarningKind.FOREIGN_OBJECT, change.message)
        if change.action is PlannedAction.ADOPT:
            yield _warning_about(change, WarningKind.FOREIGN_OBJECT, f"{change.ref} exists and is adopted")


def _held_rollouts(preview: Preview, changes: Sequence[PlannedChange]) -> Iterator[PlanWarning]:
    """Yield a warning for each instance that starts, then stops at a held node, and so makes other instances wait."""
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
        waiting_names = [key.qualified_name for key in members if key in waiting]
        for key in members if name and waiting_names else ():
            if key in stopped:
                change, obstacle = stopped[key]
                until = f" until {obstacle.until:%Y-%m-%dT%H:%MZ}" if obstacle.until else ""
                message = (
                    f"{key.qualified_name} stops at {change.node}{until} "
                    f"and can hold back {join_names(waiting_names)}; set {well_known.PRIORITY} to place it last"
                )
                yield PlanWarning(WarningKind.HOLDS_BACK, message, str(key), change.file, change.line)


def _breaking_schemas(preview: Preview, masks: SecretMasks) -> Iterator[PlanWarning]:
    """Yield a warning for each definition whose new revision is rejected because it would break instances."""
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
        for warning in find_rule_changes(base_rules, preview.due.state.known.conditions.rules[source].accepted):
            yield replace(warning, message=masks.mask_text(warning.message))


def _written_nodes(preview: Preview) -> Iterator[tuple[ObjectKey, RenderedNode, Mapping[str, object] | None]]:
    """Yield each node whose content the plan writes, with the key of the node and the live object."""
    for set_plan in preview.due.plan.sets:
        for node_plan in set_plan.nodes:
            if (
                node_plan.node.key
                and node_plan.node.writable
                and node_plan.action not in {NodeAction.NONE, NodeAction.RECORD}
            ):
                yield node_plan.node.key, node_plan.node, node_plan.live


def _warning_about(change: PlannedChange, hazard: WarningKind, message: str) -> PlanWarning:
    return PlanWarning(hazard, message, change.ref, change.file, change.line)
