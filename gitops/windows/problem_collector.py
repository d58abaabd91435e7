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
    """An invalid field; reading continues with the others. Its arguments are the path and the message."""


class FieldProblems:
    """Problems of one object, each with its line. A reader continues after each, so that all are reported together."""

    def __init__(self, declared: DeclaredObject) -> None:
        self.declared = declared
        self.problems: list[Problem] = []

    def add_problem(self, path: str, message: str) -> None:
        """Add a problem at the line of this path."""
        self.problems.append(Problem(self.declared.origin.file, self.declared.line_of(path), path, message))

    def has_problem_at(self, *paths: str) -> bool:
        """Return whether one of these paths has a problem already."""
        return any(problem.path in paths for problem in self.problems)

    def value_or_problems(self, value: T | None) -> T | list[Problem]:
        """Return the value, or all problems, in order and without duplicates, if there are any."""
        return value if value is not None and not self.problems else sorted(set(self.problems))

    def try_parse(self, parse: Callable[[], T]) -> T | None:
        """Return the parsed value; on a FieldError add a problem and return None."""
        try:
            return parse()
        except FieldError as wrong:
            self.add_problem(*wrong.args)
            return None


def parse_field(path: str, parse: Callable[[V], T], value: V) -> T:
    """Return the parsed value of a field. Raises: FieldError with the path of the field."""
    try:
        return parse(value)
    except (ScheduleError, SelectorError) as refused:
        raise FieldError(path, str(refused)) from None
