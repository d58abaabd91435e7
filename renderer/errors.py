"""Errors of the renderer, and the record of an author's mistake.

Invariant: an error carries data (where, what, why, what to do) and its text is made from that data. Mistakes of authors are collected as
`Problem` values and reported together; they never end a pass.
"""

from __future__ import annotations

from renderer.frozen import dataclass


class RendererError(Exception):
    """Something in the repository is wrong; the text says what, where and what to do."""


class ExpressionError(RendererError):
    """An expression cannot be compiled or evaluated.

    `column` counts characters of the expression from 1; None where the whole expression is meant.
    """

    def __init__(self, expression: str, message: str, *, column: int | None = None) -> None:
        self.expression = expression
        self.message = message
        self.column = column
        super().__init__(f"${{{expression}}}: {message}")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in the repository. `line` counts from 1; `path` is the place inside the document (`spec.resources[2].id`)."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        return f"{location}: {self.path}: {self.message}" if self.path else f"{location}: {self.message}"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where something stands in Git: a file relative to the source's path and a line counted from 1."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""

    def prefixed(self, what: str) -> str:
        """`what` is said of what stands here, with the place."""
        return f"{self}: {what}" if self.file else what
