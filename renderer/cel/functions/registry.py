"""The table of functions: overloads by name, declared with their CEL signature.

    @overload("string.split(string): list")
    def split(text: str, separator: str) -> list[str]: ...

A signature that starts with a type declares a method of that type. Any other qualifier (`json.marshal`) is part of the
name. `dyn` accepts every type. `Type{}` constructs a message from the map of its fields. If the first parameter of an
implementation has the name `meter`, the implementation receives the budget. An implementation that is a class or a
built-in function accepts one operand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from renderer.cel.budget import Meter
from renderer.cel.errors import NoOverloadError
from renderer.cel.values import python_types, type_name
from renderer.frozen import dataclass

Implementation = Any
_F = TypeVar("_F", bound=Implementation)
_SIGNATURE: Final = re.compile(
    r"(?:(?P<qualifier>[\w.]+)\.)?(?P<name>\w+(?:\{\})?)\((?P<parameters>[^)]*)\): (?P<result>\w+)"
)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    types: tuple[frozenset[type] | None, ...]
    """The accepted types of each operand, or None for an operand of any type. A method's first operand is its target.
    """
    result: str
    """The name of the result's type in the signature."""

    def accepts(self, kinds: tuple[type, ...]) -> bool:
        return len(kinds) == len(self.types) and all(
            accepted is None or kind in accepted for kind, accepted in zip(kinds, self.types, strict=True)
        )


class Function:
    """All overloads of one name as a function, or as a method.

    A call selects the overload by the types of its operands.
    """

    __slots__ = ("_chosen", "method", "name", "overloads")

    def __init__(self, name: str, method: bool) -> None:
        self.name = name
        self.method = method
        self.overloads: dict[Overload, Implementation] = {}
        """Implementation of each overload. The first overload that accepts the operands of a call is called."""
        self._chosen: dict[tuple[type, ...], Implementation] = {}

    def __call__(self, meter: Meter, *operands: Any) -> Any:
        implementation = self._chosen.get(tuple(map(type, operands))) or self._choose(*operands)
        return implementation(meter, *operands)

    def unary(self, meter: Meter, operand: Any) -> Any:
        """Return the value of a call with one operand, faster than `__call__`."""
        return (self._chosen.get((type(operand),)) or self._choose(operand))(meter, operand)

    def binary(self, meter: Meter, left: Any, right: Any) -> Any:
        """Return the value of a call with two operands, faster than `__call__`."""
        return (self._chosen.get((type(left), type(right))) or self._choose(left, right))(meter, left, right)

    def _choose(self, *operands: Any) -> Implementation:
        kinds = tuple(map(type, operands))
        for candidate, implementation in self.overloads.items():
            if candidate.accepts(kinds):
                self._chosen[kinds] = implementation
                return implementation
        raise NoOverloadError(self.format_call(*map(type_name, operands)), operands)

    def format_call(self, *operands: str) -> str:
        """Return the text of a call, such as `size(int)`.

        Args:
            operands: Texts of the operands, such as names of types.
        """
        if self.method:
            return f"{operands[0]}.{self.name}({', '.join(operands[1:])})"
        return f"{self.name}({', '.join(operands)})"

    @property
    def arities(self) -> frozenset[int]:
        """Return the numbers of operands that the overloads accept, including a method's target."""
        return frozenset(len(candidate.types) for candidate in self.overloads)

    @property
    def returns_bool(self) -> bool:
        return all(candidate.result == "bool" for candidate in self.overloads)


_TABLE: Final[dict[tuple[str, bool], Function]] = {}
FUNCTIONS: Final[Mapping[tuple[str, bool], Function]] = MappingProxyType(_TABLE)
"""Each function, by its name and whether the function is a method.

Importing the library modules fills the table.
"""


def overload(*signatures: str, namespaced: bool = False) -> Callable[[_F], _F]:
    """Return a decorator that declares a function as the implementation of `signatures`.

    Args:
        namespaced: True to make the qualifier part of the name, although it also names a type (`ip.isCanonical`).
    """

    def declare(implementation: _F) -> _F:
        for signature in signatures:
            _declare(signature, implementation, namespaced)
        return implementation

    return declare


def overload_each(implementations: Mapping[str, Implementation]) -> None:
    """Declare the functions in `implementations`, each as the implementation of the signature that is its key."""
    for signature, implementation in implementations.items():
        _declare(signature, implementation, namespaced=False)


def _declare(signature: str, implementation: Implementation, namespaced: bool) -> None:
    parsed = _SIGNATURE.fullmatch(signature)
    if parsed is None:
        raise ValueError(f"not a signature: {signature}")
    qualifier, name = parsed["qualifier"], parsed["name"]
    parameters = [part for part in parsed["parameters"].split(", ") if part]
    method = qualifier is not None and not namespaced and _accepted_types(qualifier) != frozenset()
    if method:
        parameters.insert(0, qualifier)
    elif qualifier:
        name = f"{qualifier}.{name}"
    function = _TABLE.setdefault((name, method), Function(name, method))
    types = tuple(map(_accepted_types, parameters))
    if frozenset() in types:
        raise ValueError(f"unknown type in signature: {signature}")
    function.overloads.setdefault(Overload(types, parsed["result"]), _with_meter(implementation))


def _accepted_types(name: str) -> frozenset[type] | None:
    return None if name == "dyn" else frozenset(python_types(name))


def _with_meter(implementation: Implementation) -> Implementation:
    code = getattr(implementation, "__code__", None)
    if code and code.co_varnames[:1] == ("meter",):
        return implementation
    if code is None or code.co_argcount == 1:
        return lambda _, operand: implementation(operand)
    return lambda _, *operands: implementation(*operands)
