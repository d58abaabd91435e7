"""Warnings for reviewers: operators that are removed before their objects, growing privileges, changed windows and policies.

An operator is a workload whose service account may change objects of a custom group. Those objects may need it to be
cleaned up, so it has to go last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from applier.causes import Reason
from applier.plan.model import NodeAction
from applier.state.structural_diff import FieldDiff
from gitops.plan.field_diff import diff_objects, format_value
from gitops.plan.masking import SecretMasks
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange, PlanWarning, WarningKind
from gitops.reconcile.context import Preview
from gitops.rollouts.source_rules import StoredRules
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, group_kind
from renderer.kinds import NAMESPACE
from renderer.phrasing import format_count, join_names
from renderer.render.model import RenderedNode

_MAX_LISTED_FIELDS = 5


def find_rule_changes(base_rules: StoredRules, head_rules: StoredRules) -> Iterator[PlanWarning]:
    """One for each rule in force that was another before; both are accepted rules as they are stored."""
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
        return "is new" if old_rule is None else "goes"
    diffs = diff_objects(old_rule["manifest"], new_rule["manifest"])
    return (
        f"changes: {join_names(map(_describe_field, diffs), limit=_MAX_LISTED_FIELDS, separator='; ')}" if diffs else ""
    )


def _describe_field(field_diff: FieldDiff) -> str:
    """YAML 1.1 reads the name `n` as false."""
    old, new = ("none" if value is None else format_value(value) for value in (field_diff.old, field_diff.new))
    return f"{field_diff.path} {old} -> {new}".replace("linear.false", "linear.n").replace(
        '"linear":{"false"', '"linear":{"n"'
    )


RBAC = "rbac.authorization.k8s.io"
ROLES = frozenset({GroupKind(RBAC, "Role"), GroupKind(RBAC, "ClusterRole")})
BINDINGS = frozenset({GroupKind(RBAC, "RoleBinding"), GroupKind(RBAC, "ClusterRoleBinding")})

_AGGREGATES: Final = f"{RBAC}/aggregate-to-"
"""By a label that begins so the roles `admin`, `edit` and `view` of Kubernetes gather the rules of others."""

Rule = tuple[str, str, str, str]
"""API group, resource (or URL), name or `*` for all, verb."""


def describe_growth(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[str]:
    """What `new` allows and `old`, the same object before, did not, in words."""
    kind = group_kind(new)
    if kind in ROLES:
        old_rules = set(_rules(old)) if old else set()
        added: dict[tuple[str, str, str], list[str]] = {}
        for rule in sorted(set(_rules(new))):
            if not any(_covers(old_rule, rule) for old_rule in old_rules):
                added.setdefault(rule[:3], []).append(rule[3])
        yield from (_describe_rule(target, verbs) for target, verbs in added.items())
        old_selectors = _aggregated_selectors(old)
        yield from (
            f"all that roles with {_describe_selector(selector)} allow"
            for selector in _aggregated_selectors(new)
            if selector not in old_selectors
        )
        yield from (
            f"its rules become part of {name}" for name in sorted(_aggregation_targets(new) - _aggregation_targets(old))
        )
    elif kind in BINDINGS:
        role = new.get("roleRef") or {}
        old_subjects = _subjects(old) if old and old.get("roleRef") == role else frozenset()
        for subject in sorted(_subjects(new) - old_subjects):
            yield f"{subject} gets {role.get('kind')} {role.get('name')}"


def _rules(role: Mapping[str, Any]) -> Iterator[Rule]:
    for rule in _dicts(role.get("rules")):
        names = _texts(rule.get("resourceNames")) or ["*"]
        for verb in _texts(rule.get("verbs")):
            for url in _texts(rule.get("nonResourceURLs")):
                yield "", url, "*", verb
            for group in _texts(rule.get("apiGroups")):
                for resource in _texts(rule.get("resources")):
                    yield from ((group, resource, name, verb) for name in names)


def _aggregated_selectors(role: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The selectors of other roles whose rules it gets."""
    rule = (role or {}).get("aggregationRule")
    return _dicts(rule.get("clusterRoleSelectors")) if isinstance(rule, dict) else []


def _describe_selector(selector: Mapping[str, Any]) -> str:
    """`team=shop`; the requirements of a selector that has others as they are written."""
    equal = selector.get("matchLabels")
    pairs = [f"{name}={value}" for name, value in equal.items()] if isinstance(equal, dict) else []
    return (
        " and ".join([*pairs, *(format_value(requirement) for requirement in _dicts(selector.get("matchExpressions")))])
        or "any labels"
    )


def _aggregation_targets(role: Mapping[str, Any] | None) -> set[str]:
    labels = ((role or {}).get("metadata") or {}).get("labels")
    label_items = labels.items() if isinstance(labels, dict) else ()
    return {
        name.removeprefix(_AGGREGATES)
        for name, value in label_items
        if name.startswith(_AGGREGATES) and value == "true"
    }


def _covers(granted: Rule, requested: Rule) -> bool:
    return all(
        granted_part in {"*", requested_part} for granted_part, requested_part in zip(granted, requested, strict=True)
    )


def _describe_rule(target: tuple[str, str, str], verbs: Sequence[str]) -> str:
    group, resource, name = target
    resource_name = f"{resource}.{group}" if group else resource
    return f"{', '.join(verbs)} {resource_name}{'' if name == '*' else f' named {name}'}"


def _subjects(binding: Mapping[str, Any] | None) -> frozenset[str]:
    return frozenset(
        f"{subject.get('kind')} {'/'.join(filter(None, (str(subject.get('namespace') or ''), str(subject.get('name')))))}"
        for subject in _dicts((binding or {}).get("subjects"))
    )


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


_WORKLOADS = frozenset(GroupKind("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet"))
_MAX_LISTED = 3

LiveObjects = Mapping[ObjectKey, Mapping[str, Any]]


def find_deleted_operators(changes: Sequence[PlannedChange], live: LiveObjects) -> Iterator[PlanWarning]:
    """One for each workload that goes, as far as it is known what is live."""
    deleted = {change.key: change for change in changes if change.key and change.action is PlannedAction.DELETE}
    for key, change in deleted.items():
        groups = set(_operated_groups(key, live)) if key.group_kind in _WORKLOADS else ()
        served = sorted(other for other in live if other.group in groups and _is_custom(other.group))
        unordered = [other for other in served if other in deleted and str(other) not in change.users]
        remaining = [other for other in served if other not in deleted]
        if unordered:
            dependency_annotation = (
                f"config.kubernetes.io/depends-on: apps/namespaces/{key.namespace}/{key.kind}/{key.name}"
            )
            message = (
                f"{key} manages {join_names(unordered, limit=_MAX_LISTED)}, "
                f"and may be deleted before their finalizers are processed; give them {dependency_annotation}"
            )
            yield PlanWarning(WarningKind.OPERATOR_FIRST, message, str(key), change.file, change.line)
        if remaining:
            message = f"{key} manages {join_names(remaining, limit=_MAX_LISTED)}, which remain"
            yield PlanWarning(WarningKind.OPERATOR_FIRST, message, str(key), change.file, change.line)


def _operated_groups(workload: ObjectKey, live: LiveObjects) -> Iterator[str]:
    spec: Any = (live.get(workload) or {}).get("spec") or {}
    account = ((spec.get("template") or {}).get("spec") or {}).get("serviceAccountName")
    if not account:
        return
    for key, binding in live.items():
        if key.group_kind in BINDINGS and _has_subject(binding, workload.namespace, account):
            role = binding.get("roleRef") or {}
            for other, rules in live.items():
                if other.group_kind in ROLES and (other.kind, other.name) == (role.get("kind"), role.get("name")):
                    yield from (group for rule in rules.get("rules") or () for group in rule.get("apiGroups") or ())


def _has_subject(binding: Mapping[str, Any], namespace: str, account: str) -> bool:
    expected = ("ServiceAccount", namespace, account)
    subjects = binding.get("subjects") or ()
    return any((subject.get("kind"), subject.get("namespace"), subject.get("name")) == expected for subject in subjects)


def _is_custom(group: str) -> bool:
    return "." in group and not group.endswith(".k8s.io")


def collect_warnings(preview: Preview, changes: Sequence[PlannedChange], masks: SecretMasks) -> Iterator[PlanWarning]:
    return chain(
        _mass_deletions(changes),
        _deleted_namespaces(changes),
        _foreign_objects(changes),
        _still_read(preview, changes, masks),
        _breaking_schemas(preview, masks),
        _held_rollouts(preview, changes),
        find_deleted_operators(changes, preview.due.situation.observed.objects),
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
    """One for each object that goes while something that stays reads it by `externalRef`."""
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
        waiting_names = [key.qualified_name for key in members if key in waiting]
        for key in members if name and waiting_names else ():
            if key in stopped:
                change, obstacle = stopped[key]
                until = f" until {obstacle.until:%Y-%m-%dT%H:%MZ}" if obstacle.until else ""
                message = (
                    f"{key.qualified_name} stops at {change.node}{until} "
                    f"and can hold back {join_names(waiting_names)}; {well_known.PRIORITY} can place it last"
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
        for warning in find_rule_changes(base_rules, preview.due.situation.conditions.rules[source].accepted):
            yield replace(warning, message=masks.mask_text(warning.message))


def _written_nodes(preview: Preview) -> Iterator[tuple[ObjectKey, RenderedNode, Mapping[str, object] | None]]:
    """Nodes that are written, with the live object."""
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
