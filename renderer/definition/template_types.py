"""Does a template fit the type of the objects that it makes, before any instance is?

Rules of kro's static checks: every field must exist; literals, and expressions as far as their type is known, must have the field's type;
null passes anywhere; an optional counts as what it holds; maps and lists are compared element by element, a map with known keys field by field,
where some may be missing and none may be more. What is not known fits everything.
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
from renderer.phrasing import suggestion
from renderer.schema.errors import child
from renderer.template.expressions import Expression, scan

TypeOf = Callable[[str, str], Type]
"""The type of an expression that stands at a path; what is wrong with the expression itself is noted elsewhere."""

_SHOWN: Final = {
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
_FITTING: Final = {
    "string": frozenset(("string", "timestamp", "duration")),
    "int": frozenset(("int", "uint")),
    "bytes": frozenset(("bytes", "string")),
    "timestamp": frozenset(("timestamp", "string")),
    "duration": frozenset(("duration", "string")),
}
"""What may stand in a field of a type: what is written to JSON as that type."""

_JSON: Final = frozenset(("null", "bool", "int", "uint", "double", "string", "timestamp", "duration", "omit"))
_OF_OPENAPI: Final = {
    "string": frozenset(("string", "timestamp", "duration")),
    "integer": frozenset(("int", "uint")),
    "number": frozenset(("int", "uint", "double")),
    "boolean": frozenset(("bool",)),
    "array": frozenset(("list",)),
    "object": frozenset(("map",)),
}
_LITERALS: Final[Mapping[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "double",
    dict: "map",
    list: "list",
}


def misfits(value: Any, wanted: Type, type_of: TypeOf, path: str = "") -> Iterator[tuple[str, str]]:
    """What of a template does not fit, as (path below the template, message). Every expression is asked for its type once."""
    match value:
        case str():
            yield from _of_text(value, wanted, type_of, path)
        case dict() if isinstance(wanted, Record | StaticMap | Dyn):
            if isinstance(wanted, Dyn):
                yield from _literal(value, wanted, path)
            for name, item in value.items():
                place = child(path, str(name))
                field = _field(wanted, name)
                if field is None:
                    yield place, f"no field {name!r}{_known(name, wanted)}"
                yield from misfits(item, field or DYN, type_of, place)
        case list() if isinstance(wanted, StaticList | Dyn):
            if isinstance(wanted, Dyn):
                yield from _literal(value, wanted, path)
            for index, item in enumerate(value):
                yield from misfits(item, element_of(wanted), type_of, f"{path}[{index}]")
        case dict() | list():
            yield from _literal(value, wanted, path)
            yield from misfits(value, DYN, type_of, path)
        case _:
            yield from _literal(value, wanted, path)


def misfit(text: str, given: Type, wanted: Type) -> str:
    """Why values of an expression's type can never stand where another type is wanted; empty if they may."""
    found = next(_differences(given, wanted), None)
    if found is None:
        return ""
    place, one, other = found
    where = f" {place}" if place else ""
    if other is None:
        instead = "base64.encode(...) or string(...)" if one == BYTES else "string(...) or one of its methods"
        return f"${{{text}}}:{where} is {shown(one)}, which cannot be a field; use {instead}"
    if isinstance(other, str):
        return f"${{{text}}}:{where and where + ':'} {other}"
    hint = "" if place else _conversion(text, one, other)
    return f"${{{text}}}:{where} is {_needed(one, other)}{hint}"


def _needed(given: Type, wanted: Type) -> str:
    return f"{shown(given)}, where {shown(wanted)} is needed"


def shown(kind: Type) -> str:
    if isinstance(kind, Dyn) and kind.only:
        return " or ".join(sorted(_SHOWN.get(name, name) for name in kind.only))
    return _SHOWN.get(str(kind)) or f"a {kind}"


def _of_text(text: str, wanted: Type, type_of: TypeOf, path: str) -> Iterator[tuple[str, str]]:
    parts = scan(text)
    match parts:
        case (Expression(text=inner),):
            inner = inner.strip()
            if message := misfit(inner, type_of(inner, path), wanted):
                yield path, message
            return
    expressions = [part.text.strip() for part in parts if isinstance(part, Expression)]
    for inner in expressions:
        given = type_of(inner, path)
        if not isinstance(given, Dyn) and given != STRING:
            hint = f"; write {inner}.orValue('')" if isinstance(given, StaticOptional) else f"; write string({inner})"
            yield path, f"${{{inner}}}: is {_needed(given, STRING)}{hint}"
    if not expressions:
        yield from _literal(text, wanted, path)
    elif next(_differences(STRING, wanted), None):
        yield path, f"{text} is {_needed(STRING, wanted)}"


def _literal(value: Any, wanted: Type, path: str) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    given = Scalar(_LITERALS[type(value)])
    whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    fits = (wanted == DOUBLE and str(given) == "int") or (whole and str(wanted) == "int")
    if not fits and next(_differences(given, wanted), None):
        yield path, f"{_short(value)} is {_needed(given, wanted)}{_quotes(value, wanted)}"


def _differences(given: Type, wanted: Type, place: str = "") -> Iterator[tuple[str, Type, Type | str | None]]:
    """Where values cannot fit, as (place inside the value, type there, type that is needed); a text instead of a type says why, and
    None that no field can hold it.
    """
    match given, wanted:
        case StaticOptional(value=held), _:
            yield from _differences(held, wanted, place)
        case Dyn(only=only), _:
            if only and not any(_may_be(name, wanted) for name in only):
                yield place, given, wanted
        case Scalar(name="null" | "omit"), _:
            return
        case Scalar(name="bytes"), Scalar(name="bytes"):
            return
        case Scalar(name="bytes"), Scalar():
            yield place, given, wanted
        case Scalar(name=name), _ if name not in _JSON and name not in ("list", "map"):
            yield place, given, None
        case ((StaticList(element=held) | StaticMap(value=held)), Dyn()) if _holds_bytes(held):
            yield f"{place}[]", BYTES, None
        case _, Dyn(only=only):
            if only and not any(str(given) in _OF_OPENAPI.get(name, ()) for name in only):
                yield place, given, wanted
        case StaticList(element=one), StaticList(element=other):
            yield from _differences(one, other, f"{place}[]")
        case Record(fields=fields), Record() | StaticMap():
            for name, one in fields.items():
                field = _field(wanted, name)
                if field is None:
                    yield place, given, f"no field {name!r}{_known(name, wanted)}"
                else:
                    yield from _differences(one, field, child(place, name) if place else f".{name}")
        case StaticMap(value=one), StaticMap(value=other):
            yield from _differences(one, other, f"{place}[]")
        case StaticMap(value=one), Record(fields=fields, open=is_open):
            if fields and not is_open and all(next(_differences(one, field), None) for field in fields.values()):
                yield place, given, f"its values are {shown(one)}, and none of the fields is"
        case _:
            if str(given) not in _FITTING.get(str(wanted), (str(wanted),)):
                yield place, given, wanted


def _holds_bytes(kind: Type) -> bool:
    return kind == BYTES or (isinstance(kind, StaticList | StaticMap) and _holds_bytes(element_of(kind)))


def _may_be(openapi: str, wanted: Type) -> bool:
    if isinstance(wanted, Dyn):
        return not wanted.only or openapi in wanted.only
    return str(wanted) in _OF_OPENAPI.get(openapi, ()) or (openapi == "string" and str(wanted) == "bytes")


def _field(wanted: Type, name: Any) -> Type | None:
    """The type of one field; None where there is no such field."""
    match wanted:
        case Record(fields=fields, open=is_open):
            return fields.get(name, DYN if is_open else None)
        case StaticMap(value=value):
            return value
    return DYN


def _known(name: Any, wanted: Type) -> str:
    names = sorted(wanted.fields) if isinstance(wanted, Record) else []
    listed = f"; the fields are {', '.join(names[:20])}{' ...' if len(names) > 20 else ''}" if names else ""
    return suggestion(name, names) or listed


def _conversion(text: str, given: Type, wanted: Type) -> str:
    match str(given), str(wanted):
        case "bytes", "string":
            return f"; write string({text}) or base64.encode({text})"
        case (("int" | "uint" | "double" | "bool"), "string"):
            return f"; write string({text})"
        case (("int" | "uint"), "double"):
            return f"; write double({text})"
        case (("string" | "double"), "int"):
            return f"; write int({text})"
    return ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _quotes(value: Any, wanted: Type) -> str:
    if isinstance(value, str) and isinstance(wanted, Scalar):
        return "; write it without quotes" if value.lstrip("-").isdigit() or value in ("true", "false") else ""
    return "; put it in quotes" if isinstance(value, bool | int | float) and wanted == STRING else ""
