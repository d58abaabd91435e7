"""Operators that a plan takes away: workloads whose service account may change objects of a custom group.

Objects of that group may need their operator to be cleaned up, so it has to go after them; and those that stay have nobody to look after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gitops.plan.privileges import BINDINGS, ROLES
from gitops.plan.report import PlannedAction, PlannedChange, PlanWarning, WarningKind
from renderer.identity import GroupKind, ObjectKey
from renderer.phrasing import listed

_WORKLOADS = frozenset(GroupKind("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet"))
_FEW = 3

Live = Mapping[ObjectKey, Mapping[str, Any]]


def operators_first(changes: Sequence[PlannedChange], live: Live) -> Iterator[PlanWarning]:
    """One for each workload that goes, as far as it is known what is live."""
    going = {change.key: change for change in changes if change.key and change.action is PlannedAction.DELETE}
    for key, change in going.items():
        groups = set(_groups(key, live)) if key.group_kind in _WORKLOADS else ()
        served = sorted(other for other in live if other.group in groups and _is_custom(other.group))
        early = [other for other in served if other in going and key not in _uses(going, other)]
        stays = [other for other in served if other not in going]
        if early:
            after = f"config.kubernetes.io/depends-on: apps/namespaces/{key.namespace}/{key.kind}/{key.name}"
            message = f"{key} looks after {listed(early, most=_FEW)}, and may be gone before they are cleaned up; give them {after}"
            yield PlanWarning(WarningKind.OPERATOR_FIRST, message, str(key), change.file, change.line)
        if stays:
            message = f"{key} looks after {listed(stays, most=_FEW)}, which stay"
            yield PlanWarning(WarningKind.OPERATOR_FIRST, message, str(key), change.file, change.line)


def _uses(going: Mapping[ObjectKey, PlannedChange], key: ObjectKey) -> set[ObjectKey]:
    """What an object records that it uses, and what therefore goes after it."""
    return {other for other, change in going.items() if str(key) in change.users}


def _groups(workload: ObjectKey, live: Live) -> Iterator[str]:
    spec: Any = (live.get(workload) or {}).get("spec") or {}
    account = ((spec.get("template") or {}).get("spec") or {}).get("serviceAccountName")
    if not account:
        return
    for key, binding in live.items():
        if key.group_kind in BINDINGS and _binds(binding, workload.namespace, account):
            role = binding.get("roleRef") or {}
            for other, rules in live.items():
                if other.group_kind in ROLES and (other.kind, other.name) == (role.get("kind"), role.get("name")):
                    yield from (group for rule in rules.get("rules") or () for group in rule.get("apiGroups") or ())


def _binds(binding: Mapping[str, Any], namespace: str, account: str) -> bool:
    wanted = ("ServiceAccount", namespace, account)
    subjects = binding.get("subjects") or ()
    return any((one.get("kind"), one.get("namespace"), one.get("name")) == wanted for one in subjects)


def _is_custom(group: str) -> bool:
    return "." in group and not group.endswith(".k8s.io")
