"""One generated function for all expressions of a template.

Each hole (a string with `${...}`) becomes a statement that assigns the finished JSON value to a local variable. The
template itself becomes one expression that contains those variables:

    def f(v, m):
     m.renew(); e0 = plain(m, v['schema']['spec']['replicas'])
     m.renew(); e1 = text(m, v['schema']['spec']['name'], '-db')
     return {'replicas': e0, 'name': e1}

Like all generated code, the function may raise any exception. The caller then evaluates hole by hole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from renderer.cel.budget import Meter
from renderer.cel.codegen import CodeBuilder
from renderer.cel.errors import EvaluationError
from renderer.cel.program import Program, emit_source
from renderer.cel.to_json import encode_bytes, to_plain
from renderer.cel.values import OMIT


class Composer:
    """Builder of one generated function.

    The methods return pieces of Python source, which the caller may use in the source of the function's result.
    """

    def __init__(self) -> None:
        self._source = CodeBuilder()
        self._statements: list[str] = []
        self._plain = self._source.add_constant(_plain_or_omit)
        self._encoded = self._source.add_constant(encode_bytes)
        self._join_text = self._source.add_constant(_join_text)
        self._omit = self._source.add_constant(OMIT)

    def add_constant(self, value: Any) -> str:
        return self._source.add_constant(value)

    def add_hole(self, parts: Sequence[str | Program], *, binary: bool) -> str:
        """Add the statement for a hole, and return the source of its value.

        If `parts` is a single program, the value is the program's value as JSON, or OMIT. Otherwise the value is the
        joined text of `parts`.

        Args:
            binary: True to encode bytes by `to_json.encode_bytes`.
        """
        sources = [repr(part) if isinstance(part, str) else emit_source(part, self._source) for part in parts]
        match parts:
            case [Program()]:
                operand = f"{self._encoded}({sources[0]})" if binary else sources[0]
                value = f"{self._plain}(m, {operand})"
            case _:
                value = f"{self._join_text}(m, {', '.join(sources)})"
        name = self._source.new_name("e")
        self._statements.append(f" m.renew(); {name} = {value}")
        return name

    def emit_entry(self, key: Any, source: str, *, may_omit: bool) -> str:
        """Return the source of a map entry.

        Args:
            may_omit: True if the value may be OMIT. Then `source` must be a result of `add_hole`.
        """
        entry = f"{key!r}: {source}"
        return f"**({{}} if {source} is {self._omit} else {{{entry}}})" if may_omit else entry

    def emit_element(self, source: str, *, may_omit: bool) -> str:
        """Return the source of a list element.

        Args:
            may_omit: True if the value may be OMIT. Then `source` must be a result of `add_hole`.
        """
        return f"*(() if {source} is {self._omit} else ({source},))" if may_omit else source

    def compile_function(self, result: str) -> Callable[[Mapping[str, Any], Meter], Any]:
        """Compile the function that returns `result`, and return the function.

        The arguments of the function are the variables and the meter of the object.
        """
        return self._source.compile_function("\n".join((*self._statements, f" return {result}")))


def _plain_or_omit(meter: Meter, value: Any) -> Any:
    return value if value is OMIT else to_plain(value, meter)


def _join_text(meter: Meter, *parts: Any) -> str:
    for part in parts:
        if type(part) is not str:
            raise EvaluationError("expected string inside a text")
    meter.produce(sum(map(len, parts)))
    return "".join(parts)
