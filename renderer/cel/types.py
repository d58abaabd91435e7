"""Static types of expressions, and those that an OpenAPI schema declares.

`DYN` is any value, and what is not known. A `Scalar` has the name that messages use (`int`, `timestamp`); `number` is
a JSON number whose schema does not say whether it is whole, so that it may turn out as int or double.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Dyn:
    def __str__(self) -> str:
        return "dyn"


@dataclass(frozen=True, slots=True)
class Scalar:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ListOf:
    element: Type

    def __str__(self) -> str:
        return "list"


@dataclass(frozen=True, slots=True)
class MapOf:
    key: Type
    value: Type

    def __str__(self) -> str:
        return "map"


@dataclass(frozen=True, slots=True)
class Record:
    """A map whose keys are known; `open`: it may have others too."""

    fields: Mapping[str, Type] = field(hash=False)
    open: bool = False

    def __str__(self) -> str:
        return "map"


@dataclass(frozen=True, slots=True)
class OptionalOf:
    value: Type

    def __str__(self) -> str:
        return "optional"


Type = Dyn | Scalar | ListOf | MapOf | Record | OptionalOf

DYN: Final = Dyn()
BOOL: Final = Scalar("bool")
INT: Final = Scalar("int")
STRING: Final = Scalar("string")
NUMBER: Final = Scalar("number")

NUMBERS: Final = frozenset(("int", "uint", "double", "number"))
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": NUMBER}


def from_openapi(schema: Any) -> Type:
    """The type that a structural OpenAPI v3 schema declares; `DYN` where it leaves that open.

    Texts with a format other than those that stay texts in every implementation (kro reads `byte` as bytes and
    `date-time` as a timestamp) are `DYN`.
    """
    if not isinstance(schema, Mapping) or schema.get("x-kubernetes-int-or-string"):
        return DYN
    match schema.get("type"):
        case "object":
            return _object(schema)
        case "array":
            return ListOf(from_openapi(schema.get("items")))
        case "string":
            return DYN if schema.get("format") in ("byte", "date", "date-time", "duration") else STRING
        case ("boolean" | "integer" | "number") as name:
            return _SCALARS[name]
    return DYN


def _object(schema: Mapping[str, Any]) -> Type:
    if isinstance(properties := schema.get("properties"), Mapping) and properties:
        fields = {name: from_openapi(item) for name, item in properties.items()}
        return Record(fields, open=bool(schema.get(_OPEN)) or bool(schema.get("additionalProperties")))
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return MapOf(STRING, from_openapi(values))
    return DYN


def join(types: Iterable[Type]) -> Type:
    """What is known of a value that has one of these types."""
    found = list(types)
    return found[0] if found and all(kind == found[0] for kind in found) else DYN


def element_of(kind: Type) -> Type:
    """The type of the values in a list or map."""
    match kind:
        case ListOf(element=element):
            return element
        case MapOf(value=value):
            return value
        case Record(fields=fields, open=False):
            return join(fields.values())
    return DYN
