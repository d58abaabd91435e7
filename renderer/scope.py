"""Which names an expression may use, and which fields of the instance it may read; every mistake with what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from renderer.cel import Program

_SCHEMA_FIELDS = ("apiVersion", "kind", "metadata", "spec")


def mistakes(program: Program, scope: frozenset[str], *, own_id: str, spec: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the names of one expression.

    `scope` are the names that may be used, `own_id` the resource that it stands in (empty where it may name itself), `spec` the OpenAPI
    schema of the instance's spec.
    """
    for name in sorted(program.names - scope):
        yield f"${{{program.text}}}: {_unknown_name(name, scope, own_id)}"
    for read in program.reads:
        if read not in program.optional_reads and (message := _unknown_field(read, spec)):
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


def _unknown_field(read: tuple[str, ...], spec: Mapping[str, Any]) -> str:
    """A path below `schema` that the instance does not have; empty if it may have it."""
    if read[0] != "schema" or len(read) < 2:
        return ""
    if read[1] not in _SCHEMA_FIELDS:
        return f"no field {read[1]!r} in schema{suggestion(read[1], _SCHEMA_FIELDS)}"
    if read[1] != "spec":
        return ""
    current = spec
    for depth, field in enumerate(read[2:], start=2):
        properties = current.get("properties")
        if not isinstance(properties, Mapping) or field.startswith("["):
            return ""
        if field not in properties:
            return f"no field {field!r} in {'.'.join(read[:depth])}{suggestion(field, properties)}"
        current = properties[field]
    return ""
