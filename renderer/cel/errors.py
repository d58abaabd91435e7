"""Errors of an expression, inside this package and for its callers.

Operators and functions raise `EvaluationError`; they know values, but neither the expression nor the place in it. The
exact evaluator adds the place, and `Program` turns the error into an `ExpressionError`, the only error that leaves the
package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renderer.cel.values import type_name
from renderer.errors import ExpressionError

Path = tuple[str, ...]


class NoSuchKey(ExpressionError):
    """A key or list element that is missing in the data of a variable.

    `path` starts with the variable (`("deployment", "status", "availableReplicas")`; list elements as `"[0]"`). It ends
    at the missing part, or earlier where the expression computed something from the data. Only the caller knows whether
    the data can still appear.
    """

    def __init__(self, expression: str, message: str, *, path: Path, column: int | None = None) -> None:
        self.path = path
        super().__init__(expression, message, column=column)


class BudgetExceeded(ExpressionError):
    """An evaluation that was stopped because it did too much work or produced too much data."""


class EvaluationError(Exception):
    """A failed evaluation. `offset` is the place in the expression, once it is known."""

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        self.message = message
        self.offset = offset
        super().__init__(message)

    def with_offset(self, offset: int) -> EvaluationError:
        """Add the place unless a more precise one is known, and return the error."""
        if self.offset is None:
            self.offset = offset
        return self

    def as_error(self, expression: str) -> ExpressionError:
        return ExpressionError(expression, self.message, column=self.column)

    @property
    def column(self) -> int | None:
        return None if self.offset is None else self.offset + 1


class MissingKeyError(EvaluationError):
    """A missing map key, list element or variable. `path` is empty unless the data came from a variable."""

    def __init__(self, message: str, *, path: Path = (), offset: int | None = None) -> None:
        self.path = path
        super().__init__(message, offset=offset)

    def as_error(self, expression: str) -> ExpressionError:
        if not self.path:
            return super().as_error(expression)
        return NoSuchKey(expression, self.message, path=self.path, column=self.column)


class NoOverloadError(EvaluationError):
    """An operator or function that does not accept operands of these types.

    *call* is its text with types for operands.
    """

    def __init__(self, call: str, operands: Sequence[Any]) -> None:
        self.operands = tuple(operands)
        super().__init__(f"no such overload: {call}")


class BudgetError(EvaluationError):
    """An exhausted budget. Neither `&&`, `||` nor a macro absorbs it."""

    def as_error(self, expression: str) -> ExpressionError:
        return BudgetExceeded(expression, self.message, column=self.column)


def no_operator_error(operator: str, left: Any, right: Any) -> NoOverloadError:
    """Return the error of an operator that does not accept the types of its operands."""
    return NoOverloadError(f"{type_name(left)} {operator} {type_name(right)}", (left, right))
