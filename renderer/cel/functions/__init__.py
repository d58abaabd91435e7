"""The libraries of functions, one module each. Importing this package fills the table."""

from __future__ import annotations

from renderer.cel.functions import (
    collections,
    conversions,
    encoders,
    formatting,
    optionals,
    quantities,
    seeded,
    strings,
    times,
)
from renderer.cel.functions.table import FUNCTIONS, Function, Overload, overload

__all__ = ["FUNCTIONS", "LAZY", "Function", "Overload", "find_function", "is_function", "overload"]

_LIBRARIES = (collections, conversions, encoders, formatting, optionals, quantities, seeded, strings, times)

LAZY = frozenset(("or", "orValue"))
"""Methods of optionals whose argument is evaluated only when it is needed."""


def is_function(name: str) -> bool:
    """Whether there is a function, not a method, with this full name."""
    return (name, False) in FUNCTIONS


def find_function(name: str, *, method: bool) -> Function | None:
    return FUNCTIONS.get((name, method))
