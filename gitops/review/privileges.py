"""Privileges that grow: rules of roles that allow more than before, and bindings that are new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from renderer.identity import GroupKind, group_kind

RBAC = "rbac.authorization.k8s.io"
ROLES = frozenset({GroupKind(RBAC, "Role"), GroupKind(RBAC, "ClusterRole")})
BINDINGS = frozenset({GroupKind(RBAC, "RoleBinding"), GroupKind(RBAC, "ClusterRoleBinding")})

Rule = tuple[str, str, str, str]
"""API group, resource (or URL), name or `*` for all, verb."""


def growth(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[str]:
    """What `new` allows and `old`, the same object before, did not, in words."""
    kind = group_kind(new)
    if kind in ROLES:
        before = set(_rules(old)) if old else set()
        more: dict[tuple[str, str, str], list[str]] = {}
        for rule in sorted(set(_rules(new))):
            if not any(_covers(known, rule) for known in before):
                more.setdefault(rule[:3], []).append(rule[3])
        yield from (_written(place, verbs) for place, verbs in more.items())
        if new.get("aggregationRule") and new.get("aggregationRule") != (old or {}).get("aggregationRule"):
            yield "all that roles with the labels of its aggregationRule allow"
    elif kind in BINDINGS:
        role = new.get("roleRef") or {}
        known = _subjects(old) if old and old.get("roleRef") == role else frozenset()
        for subject in sorted(_subjects(new) - known):
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


def _covers(known: Rule, asked: Rule) -> bool:
    return all(one in {"*", other} for one, other in zip(known, asked, strict=True))


def _written(place: tuple[str, str, str], verbs: Sequence[str]) -> str:
    group, resource, name = place
    what = f"{resource}.{group}" if group else resource
    return f"{', '.join(verbs)} {what}{'' if name == '*' else f' named {name}'}"


def _subjects(binding: Mapping[str, Any] | None) -> frozenset[str]:
    return frozenset(
        f"{one.get('kind')} {'/'.join(filter(None, (str(one.get('namespace') or ''), str(one.get('name')))))}"
        for one in _dicts((binding or {}).get("subjects"))
    )


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
