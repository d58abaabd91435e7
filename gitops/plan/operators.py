"""Warnings about operators that a commit deletes before their custom objects.

An operator is a workload whose service account may change objects of a custom API group. A custom object may have a
finalizer that only the operator removes. So the operator has to be deleted after the custom objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gitops.plan.privileges import BINDINGS, ROLES
from gitops.plan.report import PlannedAction, PlannedChange, PlanWarning, WarningKind
from renderer.identity import GroupKind, ObjectKey
from renderer.phrasing import join_names

_WORKLOADS = frozenset(GroupKind("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet"))
_MAX_LISTED = 3

LiveObjects = Mapping[ObjectKey, Mapping[str, Any]]


def find_deleted_operators(changes: Sequence[PlannedChange], live: LiveObjects) -> Iterator[PlanWarning]:
    """Yield a warning for each deleted operator that deleted or remaining custom objects still need."""
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
            message = (
                f"{key} manages {join_names(remaining, limit=_MAX_LISTED)}, which remain; "
                "delete them in an earlier commit"
            )
            yield PlanWarning(WarningKind.OPERATOR_FIRST, message, str(key), change.file, change.line)


def _operated_groups(workload: ObjectKey, live: LiveObjects) -> Iterator[str]:
    """Yield the API groups that the roles of a workload's service account name."""
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
