"""Errors of the renderer, and mistakes of authors.

An error builds its text from its data. The renderer collects mistakes of authors as `Problem` values and reports all
mistakes together. A mistake of an author never ends a reconciliation.
"""

from __future__ import annotations

from renderer.frozen import dataclass


class RendererError(Exception):
    """A mistake in the repository. The message contains the mistake, its place, and the remedy."""


class ExpressionError(RendererError):
    """An expression that fails to compile or to evaluate.

    Attributes:
        column: Column of the mistake in characters, from 1, or None for the whole expression.
    """

    def __init__(self, expression: str, message: str, *, column: int | None = None) -> None:
        self.expression = expression
        self.message = message
        self.column = column
        super().__init__(f"${{{expression}}}: {message}")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake of an author, with its place in the repository."""

    file: str
    line: int
    """Line of the mistake, from 1. The value 0 means the whole file."""
    path: str
    """Place inside the document, such as `spec.resources[2].id`."""
    message: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        return f"{location}: {self.path}: {self.message}" if self.path else f"{location}: {self.message}"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in Git."""

    file: str = ""
    """Path of the file, relative to the source's path. If the place is unknown, the text is empty."""
    line: int = 0
    """Line in the file, from 1. If the place is unknown, the value is 0."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""

    def prefixed(self, message: str) -> str:
        """Return `message` after this place and a colon, or `message` alone if the place is unknown."""
        return f"{self}: {message}" if self.file else message
