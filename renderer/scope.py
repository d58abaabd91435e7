"""Which names an expression may use, and which fields of the instance it may read; every mistake with what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from renderer.cel import Program

_NAME = re.compile(r"[a-z][a-zA-Z0-9]*")
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void while "
    "apiVersion context dependency dependencies each externalRef externalReference externalRefs externalReferences graph instance item items "
    "kind kro metadata object resource resourcegraphdefinition resourceGraphDefinition resources root runtime schema self serviceAccountName "
    "spec status this variables vars version".split()
)
_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_METADATA = {
    **dict.fromkeys(("name", "namespace", "uid", "generateName", "resourceVersion", "creationTimestamp"), _TEXT),
    **dict.fromkeys(("labels", "annotations"), _TEXTS),
    "generation": {"type": "integer"},
    "deletionTimestamp": _TEXT,
    "deletionGracePeriodSeconds": {"type": "integer"},
    "finalizers": {"type": "array", "items": _TEXT},
    "ownerReferences": {"type": "array"},
    "managedFields": {"type": "array"},
}
"""ObjectMeta, as far as expressions may name its fields."""


def instance_schema(spec: Mapping[str, Any], *, namespaced: bool) -> dict[str, Any]:
    """The OpenAPI schema of what expressions see as `schema`: an instance without its status."""
    metadata = {name: field for name, field in _METADATA.items() if namespaced or name != "namespace"}
    described = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object", "properties": metadata}}
    return {"type": "object", "properties": {**described, "spec": spec}}


def with_conditions(instance: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the conditions of its status, which only conditions may read."""
    properties = {
        **instance["properties"],
        "status": {"type": "object", "properties": {"conditions": {"type": "array"}}},
    }
    return {**instance, "properties": properties}


OBJECT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": {"type": "object", "properties": _METADATA, "x-kubernetes-preserve-unknown-fields": True},
    },
    "x-kubernetes-preserve-unknown-fields": True,
}
"""What is known of any Kubernetes object: its identity and metadata. Everything else is open."""


def not_a_name(name: Any) -> str:
    """Why this cannot name a resource or an iterator; empty if it can."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{name!r} must be lowerCamelCase: a small letter, then letters and digits"
    return f"{name!r} is a reserved word; choose another name" if name in _RESERVED else ""


def mistakes(program: Program, scope: frozenset[str], *, own_id: str, instance: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the names of one expression.

    `scope` are the names that may be used, `own_id` the resource that it stands in (empty where it may name itself), `instance` the OpenAPI
    schema of `schema`.
    """
    for name in sorted(program.names - scope):
        yield f"${{{program.text}}}: {_unknown_name(name, scope, own_id)}"
    for read in program.reads:
        if read[0] == "schema" and read not in program.optional_reads and (message := unknown_field(read, instance)):
            yield f"${{{program.text}}}: {message}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, or the list of them; as the end of a sentence."""
    known = sorted(known)
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}" if known else ""


def _unknown_name(name: str, scope: frozenset[str], own_id: str) -> str:
    if name == own_id:
        return f"{name!r} is this resource itself; self references are only allowed in readyWhen"
    return f"no resource or variable {name!r} in scope{suggestion(name, scope)}"


def unknown_field(read: tuple[str, ...], described: Mapping[str, Any]) -> str:
    """What is wrong with a path below a variable that is `described` by an OpenAPI schema; empty if it may have that field."""
    current = described
    for depth, field in enumerate(read[1:], start=1):
        properties = current.get("properties")
        if not isinstance(properties, Mapping) or field.startswith("["):
            return ""
        if field not in properties and current.get("x-kubernetes-preserve-unknown-fields"):
            return ""
        if field not in properties:
            return f"no field {field!r} in {'.'.join(read[:depth])}{suggestion(field, properties)}"
        current = properties[field]
    return ""
