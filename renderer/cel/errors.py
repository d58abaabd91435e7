"""Errors of an expression, inside this package and for its callers.

Operators and functions raise `EvaluationError`, whose message describes the values but not the place in the expression.
The exact evaluator adds the place. `Program` turns the error into an `ExpressionError`, the only error that leaves the
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

    `path` starts with the variable, as in `("deployment", "status", "availableReplicas")`. A list element is written
    `"[0]"`. `path` ends at the missing part, or earlier if the expression computed a value from the data. Only the
    caller of the evaluation knows whether the missing data can still appear.
    """

    def __init__(self, expression: str, message: str, *, path: Path, column: int | None = None) -> None:
        self.path = path
        super().__init__(expression, message, column=column)


class BudgetExceeded(ExpressionError):
    """An evaluation that was stopped because it did too much work or produced too much data."""


class EvaluationError(Exception):
    """A failed evaluation. `offset` counts characters of the expression from 0, and is None if the place is unknown."""

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        self.message = message
        self.offset = offset
        super().__init__(message)

    def with_offset(self, offset: int) -> EvaluationError:
        """Set the offset if none is set, and return this error. An offset that was set earlier is more precise."""
        if self.offset is None:
            self.offset = offset
        return self

    def as_error(self, expression: str) -> ExpressionError:
        return ExpressionError(expression, self.message, column=self.column)

    @property
    def column(self) -> int | None:
        return None if self.offset is None else self.offset + 1


class MissingKeyError(EvaluationError):
    """A missing map key, list element or variable. If the data was not read from a variable, `path` is empty."""

    def __init__(self, message: str, *, path: Path = (), offset: int | None = None) -> None:
        self.path = path
        super().__init__(message, offset=offset)

    def as_error(self, expression: str) -> ExpressionError:
        if not self.path:
            return super().as_error(expression)
        return NoSuchKey(expression, self.message, path=self.path, column=self.column)


class NoOverloadError(EvaluationError):
    """An operator or function that does not accept the types of its operands.

    `call` is the text of the call with the types of the operands, such as `string + int`.
    """

    def __init__(self, call: str, operands: Sequence[Any]) -> None:
        self.operands = tuple(operands)
        super().__init__(f"no such overload: {call}")


class BudgetError(EvaluationError):
    """An exhausted budget. Unlike any other EvaluationError, it is never absorbed by `&&`, `||` and macros."""

    def as_error(self, expression: str) -> ExpressionError:
        return BudgetExceeded(expression, self.message, column=self.column)


def no_operator_error(operator: str, left: Any, right: Any) -> NoOverloadError:
    """Return the error that `operator` does not accept the types of `left` and `right`."""
    return NoOverloadError(f"{type_name(left)} {operator} {type_name(right)}", (left, right))
