"""Mistakes in schemas, and in values that a schema describes."""

from __future__ import annotations

from collections.abc import Iterable

from renderer.errors import RendererError
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True, order=True)
class SchemaMistake:
    """One mistake in a schema or a value, with its place."""

    path: str
    """The place in the notation of authors: `spec.database.size`, `types.Port`, `[2].name`."""
    message: str
    rule: str = ""
    """The schema keyword that a value breaks (`type`, `required`, `enum`, `duplicate`, `maxLength`).

    For a mistake in a schema, the text is empty.
    """

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SchemaErrors(RendererError):
    """All mistakes of a SimpleSchema: first the mistakes of the types, then of the fields, in the order of the file."""

    def __init__(self, mistakes: Iterable[SchemaMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


def child_path(path: str, name: str) -> str:
    """Return the path of a field. A name that is not a plain word becomes an index: `labels["a.b/c"]`."""
    if name.replace("_", "").replace("-", "").isalnum():
        return f"{path}.{name}" if path else name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'{path}["{escaped}"]'
