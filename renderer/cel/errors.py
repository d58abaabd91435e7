"""What goes wrong in an expression, inside this package and for its callers.

A `Fault` is raised by operators and functions, which know values but neither the expression nor the place in it.
The exact evaluator adds those, and a program turns the fault into an `ExpressionError`, the only error that leaves
the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renderer.cel.values import type_name
from renderer.errors import ExpressionError

Path = tuple[str, ...]


class NoSuchKey(ExpressionError):
    """A key or list element is missing from data that a variable holds.

    `path` starts with the variable (`("deployment", "status", "availableReplicas")`; list elements as `"[0]"`) and
    ends at what is missing, or earlier, where the expression had already computed something from the data. Whether
    the data can still arrive only the caller knows.
    """

    def __init__(self, expression: str, message: str, *, path: Path, column: int | None = None) -> None:
        self.path = path
        super().__init__(expression, message, column=column)


class BudgetExceeded(ExpressionError):
    """The evaluation was stopped because it did too much work or produced too much data."""


class EvaluationError(Exception):
    """An evaluation failed. `at` is the offset in the expression, once known."""

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        self.message = message
        self.offset = offset
        super().__init__(message)

    def with_offset(self, offset: int) -> EvaluationError:
        """This fault with its place, unless it knows a more precise one."""
        if self.offset is None:
            self.offset = offset
        return self

    def as_error(self, expression: str) -> ExpressionError:
        return ExpressionError(expression, self.message, column=self.column)

    @property
    def column(self) -> int | None:
        return None if self.offset is None else self.offset + 1


class MissingKeyError(EvaluationError):
    """A map key, a list element or a variable is missing. `path` is empty unless the data came from a variable."""

    def __init__(self, message: str, *, path: Path = (), offset: int | None = None) -> None:
        self.path = path
        super().__init__(message, offset=offset)

    def as_error(self, expression: str) -> ExpressionError:
        if not self.path:
            return super().as_error(expression)
        return NoSuchKey(expression, self.message, path=self.path, column=self.column)


class NoOverloadError(EvaluationError):
    """An operator or function does not exist for the types of its operands. `call` is its text with types for
    operands.
    """

    def __init__(self, call: str, operands: Sequence[Any]) -> None:
        self.operands = tuple(operands)
        super().__init__(f"no such overload: {call}")


class BudgetError(EvaluationError):
    """The budget is used up. Never absorbed by `&&`, `||` or a macro."""

    def as_error(self, expression: str) -> ExpressionError:
        return BudgetExceeded(expression, self.message, column=self.column)


def no_operator_error(operator: str, left: Any, right: Any) -> NoOverloadError:
    return NoOverloadError(f"{type_name(left)} {operator} {type_name(right)}", (left, right))
