"""Collector of the mistakes that the compilation of one document finds, each with its line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from renderer.cel import Program
from renderer.definition import variables
from renderer.documents import Document
from renderer.errors import ExpressionError, Problem
from renderer.phrasing import suggestion_or_names
from renderer.template.expressions import parse_expression
from renderer.template.template import Template, TemplateError, compile_template


class ProblemCollector:
    """The mistakes of one document.

    After a mistake, a compiler continues, so that Levelgate reports all mistakes together.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def fail(self, path: str, message: str) -> None:
        self.problems.append(Problem(self.document.file, self.document.line_of(path), path, message))

    def check_unknown_fields(self, path: str, value: Mapping[str, Any], known: Iterable[str]) -> None:
        for field in sorted(value.keys() - set(known)):
            self.fail(f"{path}.{field}", f"no such field{suggestion_or_names(field, known)}")

    def read_template(self, path: str, body: Any) -> Template | None:
        """Return the compiled template. If the template has mistakes, note the mistakes and return None."""
        try:
            return compile_template(body)
        except TemplateError as errors:
            for error in errors.errors:
                self.fail(join_path(path, error.path), str(error.error))
            return None

    def read_expression(self, path: str, text: Any) -> Program | None:
        """Return the program of a standalone `${...}`. If the text has a mistake, note the mistake and return None."""
        try:
            return parse_expression(text) if isinstance(text, str) else _refuse_non_expression(text)
        except ExpressionError as error:
            self.fail(path, str(error))
            return None

    def refuse_omit(self, expressions: Iterable[tuple[str, Program]], path: str, reason: str) -> None:
        """Note each use of `omit()` in `expressions`.

        Args:
            reason: The part of the message that explains why an expression cannot leave out a field here.
        """
        for place, program in expressions:
            if "omit" in program.calls:
                self.fail(
                    join_path(path, place),
                    f"${{{program.text}}}: omit() is not allowed in this field, because {reason}; remove omit()",
                )

    def check_names(
        self,
        expressions: Iterable[tuple[str, Program]],
        path: str,
        names: frozenset[str],
        *,
        own_id: str = "",
    ) -> None:
        """Note each name that is not among `names`, with the message of `variables.find_mistakes`."""
        for place, program in expressions:
            if runtime := sorted(call for call in program.calls if call.startswith("runtime.")):
                self.fail(
                    join_path(path, place), f"${{{program.text}}}: {runtime[0]}() works in status.conditions only"
                )
            for message in variables.find_mistakes(program, names, own_id=own_id):
                self.fail(join_path(path, place), message)


def _refuse_non_expression(value: Any) -> Program:
    raise ExpressionError(str(value), "is not an expression; write the value as ${...}")


def join_path(path: str, place: str) -> str:
    """Return the path of `place` below `path`, such as `spec.resources[0].template`."""
    return f"{path}{place}" if not place or place.startswith("[") else f"{path}.{place}"
