"""Errors of the renderer, and mistakes of authors.

An error carries data, and its text is made from that data. Mistakes of authors are not raised: they are collected as
`Problem` values and reported together, and never end a reconciliation.
"""

from __future__ import annotations

from renderer.frozen import dataclass


class RendererError(Exception):
    """A mistake in the repository. The text says what is wrong, where, and what to do."""


class ExpressionError(RendererError):
    """An expression that cannot be compiled or evaluated.

    `column` counts characters of the expression from 1; None means the whole expression.
    """

    def __init__(self, expression: str, message: str, *, column: int | None = None) -> None:
        self.expression = expression
        self.message = message
        self.column = column
        super().__init__(f"${{{expression}}}: {message}")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in the repository."""

    file: str
    line: int
    """Counts from 1; 0 for the whole file."""
    path: str
    """Place inside the document, such as `spec.resources[2].id`."""
    message: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        return f"{location}: {self.path}: {self.message}" if self.path else f"{location}: {self.message}"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in Git: a file relative to the source's path, and a line that counts from 1. Empty if there is none."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""

    def prefixed(self, message: str) -> str:
        """Return the message with this place before it."""
        return f"{self}: {message}" if self.file else message
