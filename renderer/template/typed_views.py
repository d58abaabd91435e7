"""Views of objects for expressions: conversions from JSON values to values of the types in the schema of a kind.

A value of type `number` becomes a double even if the JSON value is a whole number. Texts of the formats `byte`,
`date-time` and `duration` become bytes, timestamps and durations (Kubernetes documentation, "Common Expression
Language", type integration). A value that does not have the form of its type stays unchanged. A view converts only
fields that an expression reads, so most objects need no view.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Protocol

from renderer.cel import Program, compile_expression
from renderer.cel.types import BYTES, DYN, Record, Scalar, StaticList, StaticMap, Type, element_of
from renderer.errors import ExpressionError
from renderer.frozen import dataclass
from renderer.template.template import Path

FieldPath = tuple[str, ...]


class View(Protocol):
    """Conversion of the JSON values of one type to the values that expressions read."""

    def convert(self, value: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class DoubleView:
    """Conversion of whole numbers to doubles."""

    def convert(self, value: Any) -> Any:
        return float(value) if type(value) is int else value


@dataclass(frozen=True, slots=True)
class BytesView:
    """Conversion of base64 to bytes."""

    def convert(self, value: Any) -> Any:
        try:
            return base64.b64decode(value, validate=True) if isinstance(value, str) else value
        except binascii.Error:
            return value


@dataclass(frozen=True, slots=True)
class TimeView:
    """Conversion of texts to timestamps or durations."""

    program: Program
    """The conversion of the variable `text`."""

    def convert(self, value: Any) -> Any:
        try:
            return self.program.evaluate({"text": value}) if isinstance(value, str) else value
        except ExpressionError:
            return value


@dataclass(frozen=True, slots=True)
class ListView:
    """Conversion of lists."""

    item: View

    def convert(self, value: Any) -> Any:
        return [self.item.convert(element) for element in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class MapView:
    """Conversion of maps."""

    item: View
    """The conversion of each value of a map."""

    def convert(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: self.item.convert(element) for name, element in value.items()}


@dataclass(frozen=True, slots=True)
class FieldsView:
    """Conversion of objects."""

    fields: Mapping[str, View]
    """The conversion of each field that needs one, by name."""

    def convert(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {**value, **{name: view.convert(value[name]) for name, view in self.fields.items() if name in value}}


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
            return item and ListView(item)
        case StaticMap(value=value):
            item = _view(value, _without_first_step(reads), enclosing)
            return item and MapView(item)
        case Record(fields=fields) if not any(kind is outer for outer in enclosing):
            views = {
                name: _view(fields[name], _reads_below(reads, name), (*enclosing, kind))
                for name in _names_read(fields, reads)
            }
            needed_views = {name: view for name, view in views.items() if view}
            return FieldsView(needed_views) if needed_views else None
    return None


def _names_read(fields: Mapping[str, Type], reads: frozenset[FieldPath]) -> Iterable[str]:
    return fields if () in reads else sorted({read[0] for read in reads} & fields.keys())


def _reads_below(reads: frozenset[FieldPath], name: str) -> frozenset[FieldPath]:
    """Return the reads below the field `name`. A read of a whole value is a read of all its fields."""
    return frozenset(read[1:] for read in reads if not read or read[0] == name)


def _without_first_step(reads: frozenset[FieldPath]) -> frozenset[FieldPath]:
    return frozenset(read[1:] for read in reads)


@cache
def _scalar_view(name: str) -> View | None:
    match name:
        case "double":
            return DoubleView()
        case "bytes":
            return BytesView()
        case "timestamp" | "duration":
            return TimeView(compile_expression(f"{name}(text)"))
    return None
