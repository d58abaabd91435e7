"""Collector for the mistakes of one object in Git."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gitops.windows.recurrence import ScheduleError
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem
from renderer.label_selector import SelectorError

T = TypeVar("T")
V = TypeVar("V")


class FieldError(Exception):
    """Mistake in one field of an object. The arguments are the path of the field and the message."""


class FieldProblems:
    """Problems of one object, each with its line.

    A reader adds a problem and continues with the next field, so that the author sees all problems together.
    """

    def __init__(self, declared: DeclaredObject) -> None:
        self.declared = declared
        self.problems: list[Problem] = []

    def add_problem(self, path: str, message: str) -> None:
        """Add a problem with `message` at the line of the field `path`."""
        self.problems.append(Problem(self.declared.origin.file, self.declared.line_of(path), path, message))

    def has_problem_at(self, *paths: str) -> bool:
        """Return whether a problem has a path in `paths`."""
        return any(problem.path in paths for problem in self.problems)

    def value_or_problems(self, value: T | None) -> T | list[Problem]:
        """Return `value` if `value` is not None and the object has no problem.

        Otherwise, return all problems, in order and without duplicates.
        """
        return value if value is not None and not self.problems else sorted(set(self.problems))

    def try_parse(self, parse: Callable[[], T]) -> T | None:
        """Return the result of `parse`. If `parse` raises FieldError, add a problem and return None."""
        try:
            return parse()
        except FieldError as wrong:
            self.add_problem(*wrong.args)
            return None


def parse_field(path: str, parse: Callable[[V], T], value: V) -> T:
    """Return the result of `parse` for `value`.

    Args:
        path: path of the field with `value`.

    Raises: FieldError with `path` if `parse` rejects `value`.
    """
    try:
        return parse(value)
    except (ScheduleError, SelectorError) as refused:
        raise FieldError(path, str(refused)) from None
