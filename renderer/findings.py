"""The mistakes of one document, collected while it is compiled, each with the line that it stands on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from renderer import scope
from renderer.cel import Program
from renderer.documents import Document
from renderer.errors import Problem
from renderer.template import Template, TemplateError, compile_template


class Findings:
    """Collects problems; whoever compiles goes on after each, so that all are reported together."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def fail(self, path: str, message: str) -> None:
        self.problems.append(Problem(self.document.file, self.document.line_of(path), path, message))

    def unknown_fields(self, path: str, value: Mapping[str, Any], known: Iterable[str]) -> None:
        for field in sorted(value.keys() - set(known)):
            self.fail(f"{path}.{field}", f"no such field{scope.suggestion(field, known)}")

    def template(self, path: str, body: Any) -> Template | None:
        """The compiled template; None where it has mistakes, which are noted."""
        try:
            return compile_template(body)
        except TemplateError as errors:
            for error in errors.errors:
                self.fail(join(path, error.path), str(error.error))
            return None

    def names(
        self,
        expressions: Iterable[tuple[str, Program]],
        path: str,
        names: frozenset[str],
        *,
        spec: Mapping[str, Any],
        own_id: str = "",
    ) -> None:
        """Note every name that is not in scope and every field that the instance does not have; see `scope.mistakes`."""
        for place, program in expressions:
            for message in scope.mistakes(program, names, own_id=own_id, spec=spec):
                self.fail(join(path, place), message)


def join(path: str, place: str) -> str:
    """`spec.resources[0]` and `template.spec` to one path."""
    return f"{path}{place}" if not place or place.startswith("[") else f"{path}.{place}"
