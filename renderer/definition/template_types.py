"""Type check of templates: comparison of a template with the type of its objects, before an instance exists.

The rules are those of kro's static checks. Every field must exist. Literals, and expressions whose type is known, must
have the field's type. Null and an unknown type fit everywhere. An optional counts as its value. The check compares
lists and maps by their elements, and a map with known keys field by field. A map with known keys may lack fields of the
expected type, but must not contain additional fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from renderer.cel.types import (
    BYTES,
    DOUBLE,
    DYN,
    STRING,
    Dyn,
    Record,
    Scalar,
    StaticList,
    StaticMap,
    StaticOptional,
    Type,
    element_of,
)
from renderer.phrasing import join_names, suggestion, with_article
from renderer.schema.errors import child_path
from renderer.schema.validation import is_readable_as
from renderer.template.expressions import Expression, scan

TypeOf = Callable[[str, str], Type]
"""Function that returns the type of an expression at a path. The check does not report mistakes inside the expression.
"""

_TYPE_TEXTS: Final = {
    "string": "a string",
    "int": "an integer",
    "uint": "an integer",
    "integer": "an integer",
    "double": "a float",
    "number": "a float",
    "bool": "a boolean",
    "boolean": "a boolean",
    "list": "a list",
    "array": "a list",
    "map": "an object",
    "object": "an object",
    "bytes": "bytes",
    "optional": "an optional",
}
_ACCEPTED_TYPES: Final = {
    "string": frozenset(("string", "timestamp", "duration")),
    "int": frozenset(("int", "uint")),
    "bytes": frozenset(("bytes", "string")),
    "timestamp": frozenset(("timestamp", "string")),
    "duration": frozenset(("duration", "string")),
}
"""For each type of a field, the types whose values have the type of the field after conversion to JSON."""

_JSON_TYPES: Final = frozenset(("null", "bool", "int", "uint", "double", "string", "timestamp", "duration", "omit"))
_OPENAPI_TYPES: Final = {
    "string": frozenset(("string", "timestamp", "duration")),
    "integer": frozenset(("int", "uint")),
    "number": frozenset(("int", "uint", "double")),
    "boolean": frozenset(("bool",)),
    "array": frozenset(("list",)),
    "object": frozenset(("map",)),
}
_UNQUOTED_TYPES: Final = {"int": "integer", "double": "number", "bool": "boolean"}
"""OpenAPI types of literals without quotes, by the name of the type in CEL."""
_LITERAL_TYPES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "double",
    dict: "map",
    list: "list",
}


def find_misfits(value: Any, expected: Type, type_of: TypeOf, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the parts of `value` that do not fit `expected`, as (path below the template, message).

    Args:
        type_of: Function that the check calls once for each expression.
    """
    match value:
        case str():
            yield from _find_text_misfits(value, expected, type_of, path)
        case dict() if isinstance(expected, Record | StaticMap | Dyn):
            if isinstance(expected, Dyn):
                yield from _find_literal_misfits(value, expected, path)
            for name, item in value.items():
                place = child_path(path, str(name))
                field = _field_type(expected, name)
                if field is None:
                    yield place, f"no field {name!r}{_fields_hint(name, expected)}"
                yield from find_misfits(item, field or DYN, type_of, place)
        case list() if isinstance(expected, StaticList | Dyn):
            if isinstance(expected, Dyn):
                yield from _find_literal_misfits(value, expected, path)
            for index, item in enumerate(value):
                yield from find_misfits(item, element_of(expected), type_of, f"{path}[{index}]")
        case dict() | list():
            yield from _find_literal_misfits(value, expected, path)
            yield from find_misfits(value, DYN, type_of, path)
        case _:
            yield from _find_literal_misfits(value, expected, path)


def describe_misfit(text: str, given: Type, expected: Type) -> str:
    """Return the reason why values of type `given` never fit `expected`, or an empty text if a value may fit."""
    difference = next(_differences(given, expected), None)
    if difference is None:
        return ""
    place, given_part, expected_part = difference
    where = f" {place}" if place else ""
    if expected_part is None:
        alternative = (
            "base64.encode(...) or string(...)" if given_part == BYTES else "string(...) or one of its methods"
        )
        return f"${{{text}}}:{where} is {format_type(given_part)}, which cannot be a field; use {alternative}"
    if isinstance(expected_part, str):
        return f"${{{text}}}:{where and where + ':'} {expected_part}"
    hint = "" if place else _conversion_hint(text, given_part, expected_part)
    return f"${{{text}}}:{where} is {_describe_need(given_part, expected_part)}{hint}"


def _describe_need(given: Type, expected: Type) -> str:
    return f"{format_type(given)}, where {format_type(expected)} is needed"


def format_type(kind: Type) -> str:
    """Return the name that messages use for a type, with its article."""
    if isinstance(kind, Dyn) and kind.only:
        return " or ".join(sorted(_TYPE_TEXTS.get(name, name) for name in kind.only))
    return _TYPE_TEXTS.get(str(kind)) or with_article(str(kind))


def _find_text_misfits(text: str, expected: Type, type_of: TypeOf, path: str) -> Iterator[tuple[str, str]]:
    parts = scan(text)
    match parts:
        case (Expression(text=inner),):
            inner = inner.strip()
            if message := describe_misfit(inner, type_of(inner, path), expected):
                yield path, message
            return
    expressions = [part.text.strip() for part in parts if isinstance(part, Expression)]
    for inner in expressions:
        given = type_of(inner, path)
        if not isinstance(given, Dyn) and given != STRING:
            hint = f"; write {inner}.orValue('')" if isinstance(given, StaticOptional) else f"; write string({inner})"
            yield path, f"${{{inner}}}: is {_describe_need(given, STRING)}{hint}"
    if not expressions:
        yield from _find_literal_misfits(text, expected, path)
    elif next(_differences(STRING, expected), None):
        yield path, f"{text} is {_describe_need(STRING, expected)}"


def _find_literal_misfits(value: Any, expected: Type, path: str) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    given = Scalar(_LITERAL_TYPES[type(value)])
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    fits = (expected == DOUBLE and str(given) == "int") or (is_whole and str(expected) == "int")
    if not fits and next(_differences(given, expected), None):
        yield path, f"{_shorten(value)} is {_describe_need(given, expected)}{_quotes_hint(value, expected)}"


_Difference = tuple[str, Type, Type | str | None]
"""One difference: the place inside the value, the type at the place, and the needed type.

In place of the needed type, the third part may be a text with the reason, or None if no field can contain the value.
"""


def _differences(given: Type, expected: Type, place: str = "") -> Iterator[_Difference]:
    """Yield the parts of `given` whose values cannot be of the type of the same part of `expected`."""
    match given:
        case StaticOptional(value=held):
            yield from _differences(held, expected, place)
        case Dyn(only=only):
            if only and not any(_may_be(name, expected) for name in only):
                yield place, given, expected
        case Scalar():
            yield from _scalar_differences(given, expected, place)
        case _:
            yield from _container_differences(given, expected, place)


def _scalar_differences(given: Scalar, expected: Type, place: str) -> Iterator[_Difference]:
    if given.name in ("null", "omit") or given == expected == BYTES:
        return
    if given == BYTES and isinstance(expected, Scalar):
        yield place, given, expected
    elif given.name not in _JSON_TYPES and given.name not in ("list", "map"):
        yield place, given, None
    elif not _accepts(expected, given):
        yield place, given, expected


def _container_differences(given: StaticList | StaticMap | Record, expected: Type, place: str) -> Iterator[_Difference]:
    match given, expected:
        case ((StaticList(element=held) | StaticMap(value=held)), Dyn()) if _holds_bytes(held):
            yield f"{place}[]", BYTES, None
        case StaticList(element=given_type), StaticList(element=expected_type):
            yield from _differences(given_type, expected_type, f"{place}[]")
        case StaticMap(value=given_type), StaticMap(value=expected_type):
            yield from _differences(given_type, expected_type, f"{place}[]")
        case Record(), Record() | StaticMap():
            yield from _field_differences(given, expected, place)
        case StaticMap(value=given_type), Record(fields=fields, open=is_open):
            if fields and not is_open and all(next(_differences(given_type, field), None) for field in fields.values()):
                yield place, given, f"the values of the map are {format_type(given_type)}, which no field accepts"
        case _ if not _accepts(expected, given):
            yield place, given, expected


def _field_differences(given: Record, expected: Record | StaticMap, place: str) -> Iterator[_Difference]:
    for name, given_type in given.fields.items():
        field = _field_type(expected, name)
        if field is None:
            yield place, given, f"no field {name!r}{_fields_hint(name, expected)}"
        else:
            yield from _differences(given_type, field, child_path(place, name) if place else f".{name}")


def _accepts(expected: Type, given: Type) -> bool:
    """Return whether `expected` accepts values of type `given`, without comparing the types of their parts."""
    if isinstance(expected, Dyn):
        return not expected.only or any(str(given) in _OPENAPI_TYPES.get(name, ()) for name in expected.only)
    return str(given) in _ACCEPTED_TYPES.get(str(expected), (str(expected),))


def _holds_bytes(kind: Type) -> bool:
    return kind == BYTES or (isinstance(kind, StaticList | StaticMap) and _holds_bytes(element_of(kind)))


def _may_be(openapi: str, expected: Type) -> bool:
    if isinstance(expected, Dyn):
        return not expected.only or openapi in expected.only
    return str(expected) in _OPENAPI_TYPES.get(openapi, ()) or (openapi == "string" and str(expected) == "bytes")


def _field_type(expected: Type, name: Any) -> Type | None:
    """Return the type of the field `name` of `expected`, or None if the field does not exist."""
    match expected:
        case Record(fields=fields, open=is_open):
            return fields.get(name, DYN if is_open else None)
        case StaticMap(value=value):
            return value
    return DYN


def _fields_hint(name: Any, expected: Type) -> str:
    names = sorted(expected.fields) if isinstance(expected, Record) else []
    field_list = f"; the fields are {join_names(names, limit=20)}" if names else ""
    return suggestion(name, names) or field_list


def _conversion_hint(text: str, given: Type, expected: Type) -> str:
    match str(given), str(expected):
        case "bytes", "string":
            return f"; write string({text}) or base64.encode({text})"
        case (("int" | "uint" | "double" | "bool"), "string"):
            return f"; write string({text})"
        case (("int" | "uint"), "double"):
            return f"; write double({text})"
        case (("string" | "double"), "int"):
            return f"; write int({text})"
    return ""


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _quotes_hint(value: Any, expected: Type) -> str:
    if isinstance(value, str):
        name = _UNQUOTED_TYPES.get(str(expected))
        return "; write it without quotes" if name and is_readable_as(name, value) else ""
    return "; put it in quotes" if isinstance(value, bool | int | float) and expected == STRING else ""
