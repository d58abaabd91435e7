"""What is known of the type of an expression, as an OpenAPI schema; nothing where it cannot be told.

Never a guess: an unknown type is `None`, and everything is compatible with it. An optional counts as what it holds (kro, "Type checking").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from renderer.cel import Program, UInt
from renderer.cel.functions import find_function
from renderer.cel.tree import (
    Binary,
    Call,
    Conditional,
    Has,
    Index,
    ListLiteral,
    Literal,
    Logic,
    Macro,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
)

Type = Mapping[str, Any]
Scope = Mapping[str, Type]
"""The types of variables, as far as they are known."""

_BOOLEAN: Final = {"type": "boolean"}
_INTEGER: Final = {"type": "integer"}
_NUMBER: Final = {"type": "number"}
_STRING: Final = {"type": "string"}
_ANY: Final = {"x-kubernetes-preserve-unknown-fields": True}
_RESULTS: Final = {
    "bool": _BOOLEAN,
    "int": _INTEGER,
    "uint": _INTEGER,
    "double": _NUMBER,
    **dict.fromkeys(("string", "timestamp", "duration"), _STRING),
}
_KEPT: Final = ("type", "properties", "items", "additionalProperties", "x-kubernetes-preserve-unknown-fields")


def type_of(program: Program, scope: Scope) -> Type | None:
    """The type of a program's value as JSON."""
    return _type(program.tree, scope)


def open_type(known: Type | None) -> dict[str, Any]:
    """A structural schema for values of this type: what restricts them is left out, what is not known is open."""
    if known is None or "type" not in known:
        return dict(_ANY)
    kept = {key: value for key, value in known.items() if key in _KEPT}
    if isinstance(kept.get("properties"), Mapping):
        kept["properties"] = {name: open_type(field) for name, field in kept["properties"].items()}
    if isinstance(kept.get("additionalProperties"), Mapping):
        kept["additionalProperties"] = open_type(kept["additionalProperties"])
    if kept["type"] == "array":
        kept["items"] = open_type(known.get("items"))
    if kept["type"] == "object" and not {"properties", "additionalProperties"} & kept.keys():
        kept |= _ANY
    return kept


def _type(node: Node, scope: Scope) -> Type | None:
    match node:
        case Literal(value=value):
            return _of_literal(value)
        case Name(name=name):
            return scope.get(name)
        case Select(operand=operand, field=field) | Index(operand=operand, key=Literal(value=str() as field)):
            return _field(_type(operand, scope), field)
        case Index(operand=operand):
            return _inner(_type(operand, scope))
        case Has() | Logic():
            return _BOOLEAN
        case Unary(operator="!"):
            return _BOOLEAN
        case Unary(operand=operand):
            return _type(operand, scope)
        case Binary():
            return _of_binary(node, scope)
        case Conditional(then=then, otherwise=otherwise):
            return _same([_type(then, scope), _type(otherwise, scope)])
        case ListLiteral(elements=elements):
            return _list_of(_same([_type(element, scope) for element, _ in elements]))
        case MapLiteral(entries=entries):
            return _of_map(entries, scope)
        case Call():
            return _of_call(node, scope)
        case Macro():
            return _of_macro(node, scope)
    return None


def _of_literal(value: Any) -> Type | None:
    match value:
        case bool():
            return _BOOLEAN
        case int() | UInt():
            return _INTEGER
        case float():
            return _NUMBER
        case str():
            return _STRING
    return None


def _field(owner: Type | None, field: str) -> Type | None:
    if owner is None or owner.get("type") != "object":
        return None
    properties = owner.get("properties")
    if isinstance(properties, Mapping) and field in properties:
        found: Type = properties[field]
        return found if "type" in found else None
    return _inner(owner)


def _inner(owner: Type | None) -> Type | None:
    """The type of a list's items or a map's values."""
    if owner is None:
        return None
    found = owner.get("items" if owner.get("type") == "array" else "additionalProperties")
    return found if isinstance(found, Mapping) and "type" in found else None


def _list_of(item: Type | None) -> Type:
    return {"type": "array", **({"items": item} if item else {})}


def _same(types: Sequence[Type | None]) -> Type | None:
    """The one type that all of these are, whatever restricts them."""
    known = [open_type(one) for one in types if one is not None]
    return known[0] if known and len(known) == len(types) and all(one == known[0] for one in known) else None


def _of_binary(node: Binary, scope: Scope) -> Type | None:
    if node.operator in {"==", "!=", "<", "<=", ">", ">=", "in"}:
        return _BOOLEAN
    return _same([_plain(_type(node.left, scope)), _plain(_type(node.right, scope))])


def _plain(known: Type | None) -> Type | None:
    """A scalar without its restrictions: two of them added are one of their type. Times lie in strings, so `+` on them is not known."""
    return {"type": known["type"]} if known and known.get("type") in {"integer", "number", "string"} else None


def _of_map(entries: Iterable[tuple[Node, Node, bool]], scope: Scope) -> Type:
    fields: dict[str, Any] = {}
    for key, value, _ in entries:
        if not (isinstance(key, Literal) and isinstance(key.value, str)):
            return {"type": "object"}
        fields[key.value] = open_type(_type(value, scope))
    return {"type": "object", "properties": fields} if fields else {"type": "object"}


def _of_call(node: Call, scope: Scope) -> Type | None:
    if node.function == "orValue" and node.target is not None:
        return _same([_type(node.target, scope), _type(node.arguments[0], scope)])
    function = find_function(node.function, method=node.target is not None)
    results = {overload.result for overload in function.overloads} if function else set()
    if len(results) != 1:
        return None
    (result,) = results
    return _list_of(None) if result == "list" else _RESULTS.get(result)


def _of_macro(node: Macro, scope: Scope) -> Type | None:
    match node.name:
        case "all" | "exists" | "exists_one" | "all2" | "exists2" | "exists_one2":
            return _BOOLEAN
        case "filter" | "sortBy":
            return _type(node.target, scope)
        case "map":
            item = _inner(_type(node.target, scope))
            inner = {name: known for name, known in scope.items() if name not in node.variables}
            if item and len(node.variables) == 1:
                inner[node.variables[0]] = item
            return _list_of(_type(node.bodies[-1], inner))
    return None
