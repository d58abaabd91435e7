"""Reader of YAML files. The reader returns exactly the values that Kubernetes reads, or rejects the file.

A document's value is plain JSON (dict, list, str, int, float, bool, None) and equals the value that kubectl would send
for the same text. If kubectl would read a text of the file differently than a person would, the reader rejects the
file. The reader reads a file completely or not at all. Only this package imports PyYAML. The package uses only PyYAML's
C parser.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from yaml.error import YAMLError

from renderer.documents.ambiguous_scalars import ambiguities
from renderer.documents.locations import YamlLocation, parse_locations
from renderer.documents.reader import MAX_DEPTH, MAX_DOCUMENTS, MAX_EXPANDED_NODES, UnreadableYaml, YamlReader, YamlRoot
from renderer.documents.syntax_errors import to_syntax_error
from renderer.documents.writer import dump
from renderer.errors import Problem
from renderer.frozen import dataclass

__all__ = [
    "MAX_DEPTH",
    "MAX_DOCUMENTS",
    "MAX_EXPANDED_NODES",
    "MAX_FILE_BYTES",
    "Document",
    "ambiguities",
    "dump",
    "load",
]

MAX_FILE_BYTES: Final = 1024 * 1024

# kubectl splits a file at every line that starts with three dashes, even if text follows the dashes.
_GLUED_SEPARATOR = re.compile(rb"^---[^\s]", re.MULTILINE)


@dataclass(slots=True)
class _Source:
    """The bytes of one file, which the documents of the file share."""

    data: bytes
    locations: list[YamlLocation] | None = None

    def location(self, ordinal: int) -> YamlLocation:
        if self.locations is None:
            self.locations = parse_locations(self.data)
        return self.locations[ordinal]


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One object of a YAML file, with its line.

    Documents are compared by identity, because two documents with equal values may have different lines inside.
    """

    file: str
    line: int
    """Line where the content starts, from 1."""
    value: dict[str, Any]
    """The object as plain JSON. Documents share no part of their objects."""
    _source: _Source = field(repr=False)
    _ordinal: int = field(repr=False)
    """Index of the YAML document in the file, from 0."""
    _prefix: str = field(default="", repr=False)
    """Path of the object inside the YAML document if the object is an item of a `List`, otherwise an empty string."""

    def line_of(self, path: str) -> int:
        """Return the line of `path`, or of its nearest ancestor in the file, from 1.

        The first call parses the file again. Therefore, use this method for messages only.

        Args:
            path: Path below the document, such as `spec.resources[2].template.spec.size`.
        """
        full_path = f"{self._prefix}.{path}" if self._prefix and path[:1] not in ("", "[") else self._prefix + path
        location = self._source.location(self._ordinal).find(full_path)
        return max(location.line, self.line)


def load(file: str, data: bytes) -> tuple[list[Document], list[Problem]]:
    """Return the documents of a file in order. If the file has problems, return the problems without documents.

    The function leaves out empty documents, and replaces a `List` with its items.
    """
    if len(data) > MAX_FILE_BYTES:
        return [], [Problem(file, 0, "", f"larger than {MAX_FILE_BYTES // 1024**2} MiB; split the file")]
    data = data.removeprefix(codecs.BOM_UTF8)
    if problem := _find_encoding_problem(file, data):
        return [], [problem]
    roots, problems = _read_roots(file, data)
    source = _Source(data)
    documents: list[Document] = []
    for root in roots:
        for result in _expand_root(file, root, source):
            (documents if isinstance(result, Document) else problems).append(result)  # type: ignore[arg-type]
    if len(documents) > MAX_DOCUMENTS:
        problems.append(Problem(file, 0, "", f"more than {MAX_DOCUMENTS:,} objects in one file; split the file"))
    return ([], problems) if problems else (documents, [])


def _find_encoding_problem(file: str, data: bytes) -> Problem | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Problem(file, line, "", "not UTF-8 text; save the file as UTF-8")
    if glued := _GLUED_SEPARATOR.search(data):
        line = data.count(b"\n", 0, glued.start()) + 1
        return Problem(
            file, line, "", "text follows the dashes of a line that separates documents; move the text to the next line"
        )
    return None


def _read_roots(file: str, data: bytes) -> tuple[list[YamlRoot], list[Problem]]:
    reader = YamlReader(file, data)
    try:
        return reader.read_roots(), reader.problems
    except UnreadableYaml:
        return [], reader.problems
    except YAMLError as error:
        syntax_error = to_syntax_error(error, data)
        return [], [*reader.problems, Problem(file, syntax_error.line, "", syntax_error.message)]


def _expand_root(file: str, root: YamlRoot, source: _Source) -> Iterator[Document | Problem]:
    if not isinstance(root.value, dict):
        kind_text = "a list" if isinstance(root.value, list) else "a single value"
        yield Problem(file, root.line, "", f"the document is {kind_text}; write an object with apiVersion and kind")
        return
    yield from _expand_items(Document(file, root.line, root.value, source, root.ordinal))


def _expand_items(document: Document) -> Iterator[Document | Problem]:
    """Yield the document itself or, for a `List`, its items. Expand a `List` among the items as well."""
    kind, items = document.value.get("kind"), document.value.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield document
        return
    for index, item in enumerate(items):
        prefix = f"{document._prefix}.items[{index}]".removeprefix(".")
        line = document.line_of(f"items[{index}]")
        if isinstance(item, dict):
            yield from _expand_items(Document(document.file, line, item, document._source, document._ordinal, prefix))
        else:
            yield Problem(document.file, line, prefix, "not an object; write an item with apiVersion and kind")
