"""The mistakes of one object in Git, collected while it is read."""

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
    """A field is not valid; the others are read all the same. Its arguments are the path and the message."""


class FieldProblems:
    """Collects problems, each with the line of its path; whoever reads goes on after each, so that all are reported together."""

    def __init__(self, declared: DeclaredObject) -> None:
        self.declared = declared
        self.problems: list[Problem] = []

    def add_problem(self, path: str, message: str) -> None:
        self.problems.append(Problem(self.declared.origin.file, self.declared.line_of(path), path, message))

    def has_problem_at(self, *paths: str) -> bool:
        """Has one of these places a mistake already?"""
        return any(problem.path in paths for problem in self.problems)

    def value_or_problems(self, value: T | None) -> T | list[Problem]:
        """What was read, or all mistakes, once each and in order."""
        return value if value is not None and not self.problems else sorted(set(self.problems))

    def try_parse(self, parse: Callable[[], T]) -> T | None:
        """What is read; None where it is wrong, which is noted."""
        try:
            return parse()
        except FieldError as wrong:
            self.add_problem(*wrong.args)
            return None


def parse_field(path: str, parse: Callable[[V], T], value: V) -> T:
    """Return what `parse` makes of the value of a field. Raises FieldError, with its path."""
    try:
        return parse(value)
    except (ScheduleError, SelectorError) as refused:
        raise FieldError(path, str(refused)) from None
