"""Libraries of functions, one module each. Importing this package fills the table of functions."""

from __future__ import annotations

from renderer.cel.functions import (
    collections,
    conditions,
    conversions,
    encoders,
    formatting,
    math,
    named_formats,
    network,
    optionals,
    protobuf_wellknown,
    quantities,
    random,
    regex,
    semver,
    strings,
    times,
    urls,
)
from renderer.cel.functions.conditions import FIELDS as CONDITION_FIELDS
from renderer.cel.functions.protobuf_wellknown import CONSTANTS
from renderer.cel.functions.registry import FUNCTIONS, Function, Overload, overload

__all__ = [
    "CONDITION_FIELDS",
    "CONSTANTS",
    "FUNCTIONS",
    "LAZY",
    "VARIADIC",
    "Function",
    "Overload",
    "find_function",
    "is_function",
    "overload",
]

_LIBRARIES = (
    math,
    collections,
    conditions,
    conversions,
    encoders,
    formatting,
    named_formats,
    network,
    optionals,
    regex,
    quantities,
    random,
    collections,
    strings,
    times,
    urls,
    semver,
    protobuf_wellknown,
)

LAZY = frozenset(("or", "orValue"))
"""Methods of optionals that evaluate their argument only if the optional is empty."""

VARIADIC = frozenset(("math.greatest", "math.least"))
"""Functions that receive several arguments as one list."""


def is_function(name: str) -> bool:
    """Return whether `name` is the full name of a function that is not a method."""
    return (name, False) in FUNCTIONS


def find_function(name: str, *, method: bool) -> Function | None:
    """Return the function with the full name `name`, or None if the name is unknown.

    Args:
        method: True to look for a method, False for a function that is not a method.
    """
    return FUNCTIONS.get((name, method))
