"""Views of objects for expressions: conversions from JSON values to values of the types in the schema of a kind.

A value of type `number` becomes a double even if the JSON value is a whole number. Texts of the formats `byte`,
`date-time` and `duration` become bytes, timestamps and durations (Kubernetes documentation, "Common Expression
Language", type integration). A value that does not have the form of its type stays unchanged. A view converts only
fields that an expression reads, so most objects need no view.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from renderer.cel import compile_expression
from renderer.cel.types import BYTES, DYN, Record, Scalar, StaticList, StaticMap, Type, element_of
from renderer.errors import ExpressionError
from renderer.template.template import Path

View = Callable[[Any], Any]
FieldPath = tuple[str, ...]


def views_of(scope: Mapping[str, Type], reads: Iterable[FieldPath]) -> dict[str, View]:
    """Return the view of each variable in `scope`, except variables that need no conversion.

    Args:
        reads: The paths that expressions read, each with the variable as its first step.
    """
    paths = list(reads)
    views = {name: view_of(kind, (path[1:] for path in paths if path[0] == name)) for name, kind in scope.items()}
    return {name: view for name, view in views.items() if view}


def view_of(kind: Type, reads: Iterable[FieldPath]) -> View | None:
    """Return the conversion for values of type `kind`, or None if no value needs a conversion.

    Args:
        reads: The paths that expressions read inside the values.
    """
    return _view(kind, frozenset(reads), ())


def holds_bytes(kind: Type, place: Path) -> bool:
    """Return whether `place` in an object of type `kind` holds bytes or a map of bytes, written as base64 in JSON."""
    for step in place:
        kind = kind.fields.get(str(step), DYN) if isinstance(kind, Record) else element_of(kind)
    return kind == BYTES or element_of(kind) == BYTES


def _view(kind: Type, reads: frozenset[FieldPath], enclosing: tuple[Type, ...]) -> View | None:
    """Return the conversion for values of type `kind`, or None if no value needs a conversion.

    If a record contains itself, the conversion leaves the inner record unchanged.

    Args:
        enclosing: The records around `kind`.
    """
    if not reads:
        return None
    match kind:
        case Scalar(name=name):
            return _scalar_view(name)
        case StaticList(element=element):
            item = _view(element, _without_first_step(reads), enclosing)
            return item and _list_view(item)
        case StaticMap(value=value):
            item = _view(value, _without_first_step(reads), enclosing)
            return item and _map_view(item)
        case Record(fields=fields) if not any(kind is outer for outer in enclosing):
            views = {
                name: _view(fields[name], _reads_below(reads, name), (*enclosing, kind))
                for name in _names_read(fields, reads)
            }
            needed_views = {name: view for name, view in views.items() if view}
            return _fields_view(needed_views) if needed_views else None
    return None


def _names_read(fields: Mapping[str, Type], reads: frozenset[FieldPath]) -> Iterable[str]:
    return fields if () in reads else sorted({read[0] for read in reads} & fields.keys())


def _reads_below(reads: frozenset[FieldPath], name: str) -> frozenset[FieldPath]:
    """Return the reads below the field `name`. A read of a whole value is a read of all its fields."""
    return frozenset(read[1:] for read in reads if not read or read[0] == name)


def _without_first_step(reads: frozenset[FieldPath]) -> frozenset[FieldPath]:
    return frozenset(read[1:] for read in reads)


def _list_view(item: View) -> View:
    return lambda value: [item(element) for element in value] if isinstance(value, list) else value


def _map_view(item: View) -> View:
    return lambda value: {name: item(element) for name, element in value.items()} if isinstance(value, dict) else value


def _fields_view(views: Mapping[str, View]) -> View:
    def see(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {**value, **{name: view(value[name]) for name, view in views.items() if name in value}}

    return see


@cache
def _scalar_view(name: str) -> View | None:
    match name:
        case "double":
            return _view_double
        case "bytes":
            return _view_bytes
        case "timestamp" | "duration":
            return _time_view(name)
    return None


def _view_double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _view_bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except binascii.Error:
        return value


def _time_view(function: str) -> View:
    program = compile_expression(f"{function}(text)")

    def see(value: Any) -> Any:
        try:
            return program.evaluate({"text": value}) if isinstance(value, str) else value
        except ExpressionError:
            return value

    return see
