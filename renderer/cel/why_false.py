"""Explanation of a condition that is not true: the operands that decided the result, with their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from renderer.cel.analysis import analyse
from renderer.cel.program import Program
from renderer.cel.syntax_tree import Binary, Conditional, Logic, SyntaxNode, Unary, shorten
from renderer.cel.text_format import seconds_text, timestamp_text
from renderer.cel.values import type_name
from renderer.errors import ExpressionError
from renderer.frozen import dataclass

_COMPARISON_OPERATORS: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a condition, with its text, and its value or error."""

    text: str
    node: SyntaxNode
    value: Any
    error: ExpressionError | None = None

    def __str__(self) -> str:
        """Return text such as `schema.spec.replicas = 3`. For a list or map, the text contains only the size."""
        return f"{self.text} = {'error' if self.error else _format_value(self.value)}"


def find_decisive_operands(program: Program, variables: Mapping[str, Any]) -> list[Operand]:
    """Return the operands that made the condition false, in the order of the expression, each once.

    In `a && b`, the operands that are not true decide. In `a || b` and in a comparison, both sides decide. The result
    leaves out operands that read no variable.
    """
    operands = _Decision(program.text, variables).find_operands(program.tree)
    return list({operand.text: operand for operand in operands}.values())


@dataclass(frozen=True, slots=True)
class _Decision:
    """Search for the decisive operands of one expression."""

    text: str
    variables: Mapping[str, Any]

    def find_operands(self, node: SyntaxNode) -> Iterator[Operand]:
        match node:
            case Logic(operator=operator, operands=operands):
                for operand in operands:
                    if operator == "||" or self.evaluate_operand(operand).value is not True:
                        yield from self.find_operands(operand)
            case Unary(operand=operand):
                yield from self.find_operands(operand)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                yield from self.find_operands(condition)
                yield from self.find_operands(then if self.evaluate_operand(condition).value is True else otherwise)
            case Binary(operator=operator, left=left, right=right) if operator in _COMPARISON_OPERATORS:
                yield from self.find_operands(left)
                yield from self.find_operands(right)
            case _ if analyse(node).names:
                yield self.evaluate_operand(node)

    def evaluate_operand(self, node: SyntaxNode) -> Operand:
        text = " ".join(self.text[node.at : node.end].split())
        try:
            value = Program(self.text, node, analyse(node)).evaluate_exactly(self.variables)
        except ExpressionError as error:
            return Operand(text, node, None, error)
        return Operand(text, node, value)


def _format_value(value: Any) -> str:
    match value:
        case str() | bool() | int() | float() | None:
            return shorten(orjson.dumps(value).decode())
        case datetime():
            return timestamp_text(value)
        case timedelta():
            return seconds_text(value)
        case list() | dict():
            return f"{type_name(value)} of {len(value)}"
    return type_name(value)
