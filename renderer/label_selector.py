"""Objects chosen by their labels: what an `externalRef` with a selector asks of the cluster.

The text form of the requirements is that of the API's `labelSelector` parameter, in one canonical order, so that two references that ask for
the same are one question (Kubernetes documentation, "Labels and Selectors").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from renderer.errors import RendererError
from renderer.identity import GroupKind, Manifest, group_kind

_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE: Final = re.compile(rf"({_NAME})?")
_SEPARATOR: Final = re.compile(r",(?![^(]*\))")
_REQUIREMENT: Final = re.compile(
    r"\s*(!?)\s*([^\s=!,()]+)\s*(?:(==?|!=)\s*([^\s=!,()]*)|\s(in|notin)\s*\(([^()]*)\))?\s*"
)
OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "", "DoesNotExist": "!"}


class SelectorError(RendererError):
    """A label selector that the API server would refuse; the text names the part that is wrong."""


class Selection(NamedTuple):
    """All objects of a kind in one namespace (None: in every namespace, or outside of them) with these labels; no requirement selects all."""

    group_kind: GroupKind
    namespace: str | None
    labels: str

    @property
    def requirements(self) -> tuple[str, ...]:
        """One by one, each as in `labels`."""
        return tuple(_SEPARATOR.split(self.labels)) if self.labels else ()

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Is an object of its kind one of those, with these labels in this namespace?"""
        return self.namespace in {None, namespace} and all(
            _is_met(requirement, labels) for requirement in self.requirements
        )

    def __str__(self) -> str:
        namespace_text = f" in {self.namespace}" if self.namespace else ""
        return f"{self.group_kind} objects{namespace_text} with {self.labels or 'any labels'}"

    @classmethod
    def from_reference(cls, reference: Manifest) -> Selection:
        """What a rendered reference selects. Raises SelectorError."""
        metadata = reference["metadata"]
        namespace = metadata.get("namespace") or None
        if namespace is not None and not isinstance(namespace, str):
            raise SelectorError("metadata.namespace must be a text; leave it out to select in all namespaces")
        requirements = sorted(_parse_requirements(metadata["selector"] or {}))
        return cls(group_kind(reference), namespace, ",".join(requirements))


def _is_met(requirement: str, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet one requirement, in any form that the API server reads."""
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        raise SelectorError(
            f"{requirement!r} is not a requirement of labels; write `key=value`, `key in (a, b)` or `!key`"
        )
    absent, key, operator, value, word, listed = match.groups()
    if word:
        is_listed = labels.get(key) in {item.strip() for item in listed.split(",")}
        return is_listed if word == "in" else not is_listed
    if operator:
        return (labels.get(key) == value) is (operator != "!=")
    return (key in labels) is not bool(absent)


def _parse_requirements(selector: Any) -> Iterator[str]:
    if not isinstance(selector, Mapping):
        raise SelectorError("metadata.selector must be a mapping with matchLabels or matchExpressions")
    for key, value in _mapping(selector, "matchLabels").items():
        yield f"{_check_key(key)}={_check_value(key, value)}"
    expressions = selector.get("matchExpressions") or ()
    for expression in expressions if isinstance(expressions, list | tuple) else (expressions,):
        if not isinstance(expression, Mapping):
            raise SelectorError("metadata.selector.matchExpressions must be a list of key, operator and values")
        yield _format_requirement(expression)


def _mapping(selector: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = selector.get(field) or {}
    if not isinstance(value, Mapping):
        raise SelectorError(f"metadata.selector.{field} must be a mapping from labels to their values")
    return value


def _format_requirement(expression: Mapping[str, Any]) -> str:
    key, operator, values = (
        _check_key(expression.get("key")),
        expression.get("operator"),
        expression.get("values") or [],
    )
    match operator:
        case "Exists" | "DoesNotExist":
            if values:
                raise SelectorError(f"the label {key}: {operator} takes no values")
            return f"{OPERATORS[operator]}{key}"
        case "In" | "NotIn":
            if not isinstance(values, list) or not values:
                raise SelectorError(f"the label {key}: {operator} needs a list of values")
            return f"{key} {OPERATORS[operator]} ({','.join(sorted(_check_value(key, value) for value in values))})"
    raise SelectorError(f"the label {key}: operator {operator!r} is none of {', '.join(OPERATORS)}")


def _check_key(key: Any) -> str:
    if isinstance(key, str) and _KEY.fullmatch(key):
        return key
    raise SelectorError(f"{key!r} is not the name of a label")


def _check_value(key: Any, value: Any) -> str:
    if isinstance(value, str) and _VALUE.fullmatch(value):
        return value
    raise SelectorError(f"{value!r} cannot be the value of the label {key}; a label is a text of at most 63 characters")
