"""Rules for the body of a resource: a template, or a reference to an object that Levelgate only reads.

The rules are those of kro's graph validation. The functions note all mistakes, so that the author sees all mistakes
together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from renderer import well_known
from renderer.definition.problem_collector import ProblemCollector, join_path
from renderer.identity import GroupKind, group_kind
from renderer.kinds import CRD, RGD
from renderer.label_selector import EXPRESSION_OPERATORS

_API_VERSION: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v?[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_FORBIDDEN_KEYS: Final = ("kro.run/", "internal.kro.run/", "internal.levelgate.dev/", "applyset.kubernetes.io/")
_REFERENCE_FIELDS: Final = ("apiVersion", "kind", "metadata")
_REFERENCE_METADATA: Final = ("name", "selector", "namespace")


def check_template(body: Any, path: str, collector: ProblemCollector) -> GroupKind | None:
    """Return the kind of a template's objects, or None if the kind is unreadable. Note all mistakes."""
    kind = _check_identity(body, path, collector)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if isinstance(metadata, dict):
        if "name" not in metadata:
            collector.fail(f"{path}.metadata.name", "missing; give the object a name")
        check_keys(metadata, path, collector)
    if kind == CRD:
        _check_crd(body, path, collector)
    if kind == RGD:
        collector.fail(f"{path}.kind", "a definition cannot be a resource; commit the definition as a file")
    return kind


def check_reference(body: Any, path: str, collector: ProblemCollector) -> GroupKind | None:
    """Return the kind of an `externalRef`, or None if the kind is unreadable. Note all mistakes.

    A reference selects objects by name or by labels, and has no other fields.

    Args:
        body: The content of `externalRef`, without null fields.
    """
    kind = _check_identity(body, path, collector)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict):
        return kind
    collector.check_unknown_fields(path, body, _REFERENCE_FIELDS)
    collector.check_unknown_fields(f"{path}.metadata", metadata, _REFERENCE_METADATA)
    if ("name" in metadata) == ("selector" in metadata):
        collector.fail(f"{path}.metadata", "must have exactly one of name and selector")
    elif "selector" in metadata:
        _check_selector(metadata["selector"], f"{path}.metadata.selector", collector)
    return kind


def _check_identity(body: Any, path: str, collector: ProblemCollector) -> GroupKind | None:
    if not isinstance(body, dict):
        collector.fail(path, "must be a Kubernetes object with apiVersion, kind and metadata")
        return None
    problems_before = len(collector.problems)
    for field, pattern in (("apiVersion", _API_VERSION), ("kind", _KIND)):
        value = body.get(field)
        if not isinstance(value, str) or not value:
            collector.fail(f"{path}.{field}", "missing; write a fixed value")
        elif "${" in value:
            collector.fail(f"{path}.{field}", "contains an expression; write a fixed value")
        elif not pattern.fullmatch(value):
            example = "v1 or apps/v1" if field == "apiVersion" else "Deployment"
            collector.fail(f"{path}.{field}", f"{value!r} is not valid; write a value such as {example}")
    if not isinstance(body.get("metadata"), dict):
        collector.fail(f"{path}.metadata", "missing; add a mapping with at least a name")
    return group_kind(body) if len(collector.problems) == problems_before else None


def check_keys(metadata: dict[str, Any], path: str, collector: ProblemCollector) -> None:
    """Note a mistake for each label and annotation that a definition may not set."""
    for place, message in find_forbidden_keys(metadata):
        collector.fail(f"{path}.{place}", message)


def find_forbidden_keys(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield labels and annotations that a definition may not set, as (path below the object, message).

    Callers check rendered objects too, because one expression may yield the whole map of labels.
    """
    for place in ("labels", "annotations"):
        for key in metadata[place] if isinstance(metadata.get(place), dict) else ():
            if key.startswith(_FORBIDDEN_KEYS) or (
                key.startswith("levelgate.dev/") and key not in well_known.WRITTEN_BY_PEOPLE
            ):
                yield (
                    f"metadata.{place}[{key}]",
                    f"keys of {key.partition('/')[0]}/ are not for templates; remove the key",
                )
    annotations = metadata["annotations"] if isinstance(metadata.get("annotations"), dict) else {}
    policy = annotations.get(well_known.CONFLICTS, "")
    if policy and "${" not in str(policy) and (reason := well_known.describe_bad_value(well_known.CONFLICTS, policy)):
        yield f"metadata.annotations[{well_known.CONFLICTS}]", reason


def _check_crd(body: dict[str, Any], path: str, collector: ProblemCollector) -> None:
    """Note a mistake for each expression of a CRD outside of the CRD's metadata.

    Levelgate must know the kind that the CRD defines before an instance exists.
    """
    for place in _find_expressions({name: value for name, value in body.items() if name != "metadata"}, ""):
        collector.fail(
            join_path(path, place),
            "a CustomResourceDefinition may contain expressions under metadata only; write a fixed value",
        )


def _find_expressions(value: Any, path: str) -> Iterator[str]:
    match value:
        case str() if "${" in value:
            yield path
        case dict():
            for key, item in value.items():
                yield from _find_expressions(item, f"{path}.{key}" if path else str(key))
        case list():
            for index, item in enumerate(value):
                yield from _find_expressions(item, f"{path}[{index}]")


def _check_selector(selector: Any, path: str, collector: ProblemCollector) -> None:
    """Note a mistake for each part of `selector` with a wrong shape.

    Values may be expressions. Therefore Levelgate checks values after evaluation.
    """
    if isinstance(selector, str) and selector.startswith("${"):
        return
    if not isinstance(selector, dict):
        collector.fail(path, "must be a mapping with matchLabels or matchExpressions")
        return
    collector.check_unknown_fields(path, selector, ("matchLabels", "matchExpressions"))
    for field, kind, expectation in (("matchLabels", dict, "a mapping"), ("matchExpressions", list, "a list")):
        if selector.get(field) is not None and not isinstance(selector[field], kind):
            collector.fail(f"{path}.{field}", f"must be {expectation}")
    expressions = selector.get("matchExpressions")
    for index, expression in enumerate(expressions if isinstance(expressions, list) else ()):
        place = f"{path}.matchExpressions[{index}]"
        if not isinstance(expression, dict):
            collector.fail(place, "must be a mapping with key, operator and values")
        elif expression.get("operator") not in EXPRESSION_OPERATORS:
            collector.fail(f"{place}.operator", f"must be one of {', '.join(EXPRESSION_OPERATORS)}")
