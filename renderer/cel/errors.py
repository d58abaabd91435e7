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
    """A missing key or list element in the data of a variable.

    Only the caller of the evaluation knows whether the missing data can still appear.

    Attributes:
        path: The place of the missing data, starting with the variable, as in `("deployment", "status", "replicas")`. A
            list element has the form `"[0]"`. The path ends at the missing part. If the expression computed a value
            from the data, the path ends before the computed value.
    """

    def __init__(self, expression: str, message: str, *, path: Path, column: int | None = None) -> None:
        self.path = path
        super().__init__(expression, message, column=column)


class BudgetExceeded(ExpressionError):
    """An evaluation that the budget stopped because of too much work or too much data."""


class EvaluationError(Exception):
    """A failed evaluation.

    Attributes:
        offset: Offset in characters of the failed part in the expression, from 0, or None if the place is unknown.
    """

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        self.message = message
        self.offset = offset
        super().__init__(message)

    def with_offset(self, offset: int) -> EvaluationError:
        """Set the offset unless the error already has a more precise offset, and return this error."""
        if self.offset is None:
            self.offset = offset
        return self

    def as_error(self, expression: str) -> ExpressionError:
        return ExpressionError(expression, self.message, column=self.column)

    @property
    def column(self) -> int | None:
        return None if self.offset is None else self.offset + 1


class MissingKeyError(EvaluationError):
    """A missing map key, list element or variable.

    Attributes:
        path: Place of the missing data, starting with the variable. For other data, the path is empty.
    """

    def __init__(self, message: str, *, path: Path = (), offset: int | None = None) -> None:
        self.path = path
        super().__init__(message, offset=offset)

    def as_error(self, expression: str) -> ExpressionError:
        if not self.path:
            return super().as_error(expression)
        return NoSuchKey(expression, self.message, path=self.path, column=self.column)


class NoOverloadError(EvaluationError):
    """An operator or function that does not accept the types of its operands.

    Args:
        call: Text of the call with the types of the operands, such as `string + int`.
    """

    def __init__(self, call: str, operands: Sequence[Any]) -> None:
        self.operands = tuple(operands)
        super().__init__(f"no such overload: {call}")


class BudgetError(EvaluationError):
    """An exhausted budget. Unlike for any other EvaluationError, `&&`, `||` and macros never absorb a BudgetError."""

    def as_error(self, expression: str) -> ExpressionError:
        return BudgetExceeded(expression, self.message, column=self.column)


def no_operator_error(operator: str, left: Any, right: Any) -> NoOverloadError:
    """Return the error that `operator` does not accept the types of `left` and `right`."""
    return NoOverloadError(f"{type_name(left)} {operator} {type_name(right)}", (left, right))
