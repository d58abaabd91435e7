"""Static types of expressions.

`DYN` is the type of any value, and also represents an unknown type. A `Scalar` has the name that messages use (`int`,
`timestamp`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Dyn:
    """The type of any value."""

    only: frozenset[str] = frozenset()
    """OpenAPI types that the value may have. An empty set allows all types."""

    def __str__(self) -> str:
        return "dyn"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parameters."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class StaticList:
    """The type of a list, with the type of its elements."""

    element: Type

    def __str__(self) -> str:
        return "list"


@dataclass(frozen=True, slots=True)
class StaticMap:
    """The type of a map, with the types of its keys and values."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return "map"


@dataclass(frozen=True, slots=True)
class Record:
    """The type of a map with known keys."""

    fields: Mapping[str, Type] = field(hash=False)
    open: bool = False
    """True if the map may contain additional keys."""

    def __str__(self) -> str:
        return "map"


@dataclass(frozen=True, slots=True)
class StaticOptional:
    """The type of an optional, with the type of its value."""

    value: Type

    def __str__(self) -> str:
        return "optional"


Type = Dyn | Scalar | StaticList | StaticMap | Record | StaticOptional

DYN: Final = Dyn()
BOOL: Final = Scalar("bool")
INT: Final = Scalar("int")
STRING: Final = Scalar("string")
DOUBLE: Final = Scalar("double")
BYTES: Final = Scalar("bytes")

NUMBERS: Final = frozenset(("int", "uint", "double"))


def join_types(types: Iterable[Type]) -> Type:
    """Return the type of a value that has one of `types`."""
    candidates = list(types)
    return candidates[0] if candidates and all(kind == candidates[0] for kind in candidates) else DYN


def element_of(kind: Type) -> Type:
    """Return the type of the values in a list or map of type `kind`."""
    match kind:
        case StaticList(element=element):
            return element
        case StaticMap(value=value):
            return value
        case Record(fields=fields, open=False):
            return join_types(fields.values())
    return DYN
