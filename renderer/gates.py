"""`propagateWhen`: the gates of a definition and of its resources, as far as they can be known without evaluating them (KREP-006).

They are kept for whoever decides when a change may move. Until they can be judged, a definition that has any is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from renderer.cel.faults import Fault
from renderer.cel.parser import parse
from renderer.cel.tree import Macro, Name, Node, children
from renderer.errors import ExpressionError
from renderer.findings import Findings
from renderer.scope import suggestion
from renderer.template import Expression, scan

_ALWAYS: Final = frozenset({"each", "target", "now", "schema"})


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition: where it stands in its definition, its text without `${` and `}`, and the variables that it reads."""

    path: str
    text: str
    names: frozenset[str]


def compile_gates(written: Any, path: str, scope: frozenset[str], found: Findings) -> tuple[Gate, ...]:
    """The gates of one list; mistakes of form and of names are noted."""
    if written is None:
        return ()
    if not isinstance(written, list):
        found.fail(path, "must be a list of expressions; [] means no gate")
        return ()
    gates = []
    for index, text in enumerate(written):
        try:
            gates.append(_gate(f"{path}[{index}]", text))
        except ExpressionError as error:
            found.fail(f"{path}[{index}]", str(error))
            continue
        known = scope | _ALWAYS
        for name in sorted(gates[-1].names - known):
            found.fail(
                f"{path}[{index}]", f"${{{gates[-1].text}}}: nothing is called {name!r} here{suggestion(name, known)}"
            )
    return tuple(gates)


def _gate(path: str, text: Any) -> Gate:
    match scan(text) if isinstance(text, str) else ():
        case (Expression(text=inner),):
            inner = inner.strip()
            try:
                return Gate(path, inner, frozenset(_names(parse(inner), frozenset())))
            except Fault as fault:
                raise fault.as_error(inner) from None
    raise ExpressionError(str(text), "is not an expression; write it as ${...}")


def _names(node: Node, bound: frozenset[str]) -> Iterator[str]:
    """Free variables. Functions are not looked up: those of gates belong to whoever judges them."""
    match node:
        case Name(name=name):
            if name not in bound:
                yield name
        case Macro(target=target, bodies=bodies, variables=variables):
            yield from _names(target, bound)
            for body in bodies:
                yield from _names(body, bound | set(variables))
        case _:
            for child in children(node):
                yield from _names(child, bound)
