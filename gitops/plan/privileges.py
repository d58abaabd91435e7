"""Growing privileges: permissions that a change adds to an RBAC role or binding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gitops.plan.field_diff import format_value
from renderer.identity import GroupKind, group_kind

RBAC = "rbac.authorization.k8s.io"
ROLES = frozenset({GroupKind(RBAC, "Role"), GroupKind(RBAC, "ClusterRole")})
BINDINGS = frozenset({GroupKind(RBAC, "RoleBinding"), GroupKind(RBAC, "ClusterRoleBinding")})

_AGGREGATES: Final = f"{RBAC}/aggregate-to-"
"""Prefix of the labels by which the Kubernetes roles `admin`, `edit` and `view` aggregate the rules of other roles."""

Rule = tuple[str, str, str, str]
"""API group, resource (or URL), name (`*` for all objects), and verb."""


def describe_growth(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[str]:
    """Yield a phrase for each permission that only the new version of a role or binding grants."""
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
    """Yield each combination of API group, resource, name and verb that a role permits."""
    for rule in _dicts(role.get("rules")):
        names = _texts(rule.get("resourceNames")) or ["*"]
        for verb in _texts(rule.get("verbs")):
            for url in _texts(rule.get("nonResourceURLs")):
                yield "", url, "*", verb
            for group in _texts(rule.get("apiGroups")):
                for resource in _texts(rule.get("resources")):
                    yield from ((group, resource, name, verb) for name in names)


def _aggregated_selectors(role: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the selectors of the roles whose rules a role aggregates."""
    rule = (role or {}).get("aggregationRule")
    return _dicts(rule.get("clusterRoleSelectors")) if isinstance(rule, dict) else []


def _describe_selector(selector: Mapping[str, Any]) -> str:
    """Return a label selector as text, such as `team=shop`, with expressions as JSON."""
    equal = selector.get("matchLabels")
    pairs = [f"{name}={value}" for name, value in equal.items()] if isinstance(equal, dict) else []
    return (
        " and ".join([*pairs, *(format_value(requirement) for requirement in _dicts(selector.get("matchExpressions")))])
        or "any labels"
    )


def _aggregation_targets(role: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the built-in roles of Kubernetes that aggregate the rules of `role`."""
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
    """Return the subjects of a binding as text, such as `ServiceAccount prod/cart`."""
    texts = []
    for subject in _dicts((binding or {}).get("subjects")):
        name = "/".join(filter(None, (str(subject.get("namespace") or ""), str(subject.get("name")))))
        texts.append(f"{subject.get('kind')} {name}")
    return frozenset(texts)


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
