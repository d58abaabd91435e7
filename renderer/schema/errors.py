"""Mistakes in schemas and in values that a schema describes, collected and reported together."""

from __future__ import annotations

from collections.abc import Iterable

from renderer.errors import RendererError
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True, order=True)
class SchemaMistake:
    """One mistake; `path` is the place as it is written: `spec.database.size`, `types.Port`, `[2].name`.

    `rule` is the keyword of the schema that a value breaks (`type`, `required`, `enum`, `duplicate`, `maxLength`), empty
    for mistakes of schemas.
    """

    path: str
    message: str
    rule: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SchemaErrors(RendererError):
    """A SimpleSchema that cannot become a schema; `mistakes` has every reason, in the order of the text."""

    def __init__(self, mistakes: Iterable[SchemaMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


def child_path(path: str, name: str) -> str:
    """The path of a field. A name that is not a plain word is written as an index: `labels["a.b/c"]`."""
    if name.replace("_", "").replace("-", "").isalnum():
        return f"{path}.{name}" if path else name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'{path}["{escaped}"]'
