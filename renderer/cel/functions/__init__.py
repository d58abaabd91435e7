"""The libraries of functions, one module each. Importing this package fills the table."""

from __future__ import annotations

from renderer.cel.functions import (
    arithmetic,
    collections,
    conditions,
    conversions,
    encoders,
    formatting,
    naming,
    network,
    optionals,
    patterns,
    quantities,
    seeded,
    sets,
    strings,
    times,
    urls,
    versions,
    wellknown,
)
from renderer.cel.functions.conditions import FIELDS as CONDITION_FIELDS
from renderer.cel.functions.table import FUNCTIONS, Function, Overload, overload
from renderer.cel.functions.wellknown import CONSTANTS

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
    arithmetic,
    collections,
    conditions,
    conversions,
    encoders,
    formatting,
    naming,
    network,
    optionals,
    patterns,
    quantities,
    seeded,
    sets,
    strings,
    times,
    urls,
    versions,
    wellknown,
)

LAZY = frozenset(("or", "orValue"))
"""Methods of optionals whose argument is evaluated only when it is needed."""

VARIADIC = frozenset(("math.greatest", "math.least"))
"""Functions that get several arguments as one list."""


def is_function(name: str) -> bool:
    """Whether there is a function, not a method, with this full name."""
    return (name, False) in FUNCTIONS


def find_function(name: str, *, method: bool) -> Function | None:
    return FUNCTIONS.get((name, method))
