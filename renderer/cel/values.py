"""CEL values as native Python values.

    int     int                 string     str       list       list, Associative    timestamp  aware datetime
    uint    UInt                bytes      bytes     map        dict, MixedMap       duration   timedelta
    double  float               bool       bool      null_type  None                 type       TypeValue
    optional_type               Optional

Timestamps and durations finer than a microsecond are `PreciseTimestamp` and `PreciseDuration` of `nanoseconds`.

The evaluators compare types by identity (`type(x) is int`), so that a bool never counts as an int, nor a uint as an
int. A plain dict has string keys only, as in JSON. Maps with other keys are `MixedMap`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final, final

from renderer.cel.nanoseconds import PreciseDuration, PreciseTimestamp
from renderer.frozen import dataclass

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


@final
class UInt(int):
    """A CEL uint, from 0 to 2**64-1. For arithmetic, use the functions of `operators`, which keep the type."""

    __slots__ = ()


@final
@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: the result of `type(1)`, and the meaning of the name `int`."""

    name: str

    def __str__(self) -> str:
        return self.name


@final
class Optional:
    """A value that may be absent. `NONE` is the empty optional.

    Selection and indexing apply to the value inside: `optional.of(m).f` is `m.?f` (cel-go, "optional types", viral
    selection).
    """

    __slots__ = ("present", "value")

    def __init__(self, value: Any, *, present: bool = True) -> None:
        self.value = value
        self.present = present

    def __getitem__(self, key: Any) -> Optional:
        if not self.present:
            return self
        inner = self.value
        if isinstance(inner, dict) and type(key) is str:
            return Optional(inner[key]) if key in inner else NONE
        return NONE if inner is None else Optional(inner[key])

    def __repr__(self) -> str:
        return f"Optional({self.value!r})" if self.present else "NONE"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Optional) and (self.present, self.value) == (other.present, other.value)

    __hash__ = None  # type: ignore[assignment]


NONE: Final = Optional(None, present=False)


@final
class MixedMap(dict[Any, Any]):
    """A map with at least one key that is not a string.

    Python treats `1`, `1.0` and `True` as the same key. CEL distinguishes bools from numbers. Building a map with two
    keys that Python treats as the same is an error, so a lookup compares only types.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"MixedMap({dict(self)!r})"


@final
class Associative(list[Any]):
    """A list without order, whose `key` identifies each item: a set or a list map.

    An `Associative` equals a list with the same items in any order. `+` replaces an item by an added item with the same
    key.

    Source: Kubernetes, "Common Expression Language", equality and `+` of `x-kubernetes-list-type`.
    """

    __slots__ = ("key",)

    def __init__(self, items: Iterable[Any], key: Callable[[Any], Hashable]) -> None:
        super().__init__(items)
        self.key = key

    def by_key(self) -> dict[Hashable, Any]:
        return {self.key(item): item for item in self}


@final
class Omit:
    """The value of `omit()`. If an expression returns this value, the template drops the field.

    `OMIT` is the only instance, so callers compare with `is`.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise TypeError("omit() cannot be compared")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "OMIT"


OMIT: Final = Omit()
LISTS: Final = frozenset((list, Associative))
MAPS: Final = frozenset((dict, MixedMap))

_NAMES: Final[dict[type, str]] = {
    int: "int",
    UInt: "uint",
    float: "double",
    bool: "bool",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    Associative: "list",
    dict: "map",
    MixedMap: "map",
    datetime: "google.protobuf.Timestamp",
    PreciseTimestamp: "google.protobuf.Timestamp",
    timedelta: "google.protobuf.Duration",
    PreciseDuration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
    Omit: "omit",
}

_MESSAGE_NAMES: Final[dict[str, str]] = {
    "null_type": "null",
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
}

TYPES: Final[dict[str, TypeValue]] = {name: TypeValue(name) for name in _NAMES.values() if name != "omit"}
"""The types that an expression can name."""


def register_type(python_type: type, name: str, message_name: str) -> None:
    """Register the value type of a library, during the import of the library.

    Args:
        name: Name of the type in CEL.
        message_name: Name of the type in messages and signatures.
    """
    _NAMES[python_type] = name
    _MESSAGE_NAMES[name] = message_name
    TYPES[name] = TypeValue(name)


def python_types(name: str) -> Iterable[type]:
    """Return the Python types of a CEL type.

    Args:
        name: Name of the CEL type in signatures, such as `timestamp` or `null`.
    """
    return [
        python_type for python_type, full_name in _NAMES.items() if name in (full_name, _MESSAGE_NAMES.get(full_name))
    ]


def type_of(value: Any) -> TypeValue:
    """Return the CEL type of `value`."""
    name = _NAMES.get(type(value))
    return TYPES.get(name or "") or TypeValue(name or type(value).__name__)


def type_name(value: Any) -> str:
    """Return the name that messages use for the type of `value`, such as `int`, `null` or `timestamp`."""
    name = _NAMES.get(type(value), type(value).__name__)
    return _MESSAGE_NAMES.get(name) or name.removesuffix("_type")
