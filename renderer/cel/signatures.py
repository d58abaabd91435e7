"""Which overloads take operands of static types, and what a call's value is then."""

from __future__ import annotations

from typing import Final

from renderer.cel.types import DYN, Dyn, Scalar, StaticList, StaticOptional, Type, join_types
from renderer.cel.values import Optional, python_types

_RETURNS_SAME_LIST: Final = frozenset(("sort", "distinct", "reverse", "slice"))
_RETURNS_ELEMENT: Final = frozenset(("min", "max", "first", "last"))


def accepts(accepted: tuple[frozenset[type] | None, ...], operands: list[Type]) -> bool:
    return len(accepted) == len(operands) and all(
        types is None or isinstance(kind, Dyn) or not types.isdisjoint(_python_types_of(kind))
        for types, kind in zip(accepted, operands, strict=True)
    )


def _python_types_of(kind: Type) -> frozenset[type]:
    if isinstance(kind, StaticOptional):
        return frozenset((Optional,))
    return frozenset(python_types(str(kind)))


def result_of(function: str, operands: list[Type], results: set[str]) -> Type:
    """The type of a call's value; of some functions more is known than their signatures say."""
    first = operands[0] if operands else DYN
    if function in _RETURNS_SAME_LIST and isinstance(first, StaticList):
        return first
    if function in _RETURNS_ELEMENT and isinstance(first, StaticList):
        return StaticOptional(first.element) if function in ("first", "last") else first.element
    if function == "optional.of":
        return StaticOptional(first)
    if function == "value" and isinstance(first, StaticOptional):
        return first.value
    if function == "orValue" and isinstance(first, StaticOptional):
        return join_types((first.value, operands[1]))
    if function == "or" and isinstance(first, StaticOptional):
        return join_types((first, operands[1]))
    if len(results) > 1:
        return DYN
    match results.pop():
        case "dyn" | "omit" | "map":
            return DYN
        case "list":
            return StaticList(DYN)
        case "optional" | "optional_type":
            return StaticOptional(DYN)
        case name:
            return Scalar(name)
