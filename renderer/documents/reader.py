"""Conversion of the YAML parser's events to plain values, in one pass without recursion.

The result contains only dict, list, str, int, float, bool and None. No object appears in two places of the result. The
size of the file bounds the work, because the reader limits depth and the expansion of aliases before building a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from renderer.documents.locations import YamlLocation, parse_locations
from renderer.documents.scalars import ScalarError, resolve, resolve_tagged
from renderer.documents.syntax_errors import TEMPLATED_MESSAGE, is_templated
from renderer.errors import Problem

MAX_DEPTH: Final = 100
MAX_DOCUMENTS: Final = 10_000
MAX_EXPANDED_NODES: Final = 1_000
MAX_PROBLEMS: Final = 20

_COLLECTION_TAGS: Final = {None: "", "tag:yaml.org,2002:map": "map", "tag:yaml.org,2002:seq": "seq"}

# Markers for the next item or key that the open collection expects. If the collection expects a value, the state is the
# key of the value.
_ITEM: Final = object()
_KEY: Final = object()
_MERGE: Final = object()
_ROOT: Final = object()


class UnreadableYaml(Exception):
    """A mistake after which reading cannot continue. The mistake is already in `YamlReader.problems`."""


class YamlRoot(NamedTuple):
    """The value of one YAML document."""

    line: int
    """Line where the content starts, from 1."""
    ordinal: int
    """Index of the document in the file, from 0."""
    value: Any


class _Anchored(NamedTuple):
    """The value of an anchor, with the number of nodes in the value."""

    value: Any
    nodes: int


# An outer collection while an inner one is read: the outer collection, the next item or key that the outer collection
# expects, the anchor of the inner collection, and the number of nodes before the inner collection. A plain tuple,
# because every collection needs a frame.
_Frame = tuple[Any, Any, str | None, int]


class YamlReader:
    """Reader of one file.

    Attributes:
        problems: The mistakes of the file.
    """

    def __init__(self, file: str, data: bytes) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._data = data
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._merged_keys: dict[int, set[str]] = {}
        self._expanded_nodes = 0
        self._locations: list[YamlLocation] | None = None
        self._ordinal = -1
        self._separator_line = -1

    def read_roots(self) -> list[YamlRoot]:  # noqa: C901 - one state machine, see the comment at its loop
        """Return all documents that are not empty. Raises: UnreadableYaml and yaml.YAMLError for invalid YAML."""
        roots: list[YamlRoot] = []
        next_event: Callable[[], Any] = CParser(self._data).get_event
        stack = self._stack
        container: Any = None
        expects: Any = _ROOT
        root_line = nodes = 0

        # One loop with all states: a call for each event would cost more than libyaml itself. The first chain of
        # branches finds the value that an event completes. The second chain stores the value in the open collection.
        while True:
            event = next_event()
            kind = type(event)

            if kind is ScalarEvent:
                value = event.value
                if event.tag is not None:
                    value = self._resolve_tagged(event)
                elif not event.style:
                    try:
                        value = resolve(value)
                    except ScalarError as error:
                        self._add_mistake(event, str(error))
                        value = None
                nodes += 1
                if event.anchor is not None:
                    self._anchors[event.anchor] = _Anchored(value, 1)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                if expects is _KEY:
                    raise self._unreadable(event, self._describe_bad_key(event))
                if expects is _ROOT:
                    root_line = self._check_root(event)
                if len(stack) >= MAX_DEPTH:
                    raise self._unreadable(
                        event, f"the value is nested deeper than {MAX_DEPTH} levels; use fewer levels"
                    )
                if event.anchor is not None or event.tag is not None:
                    self._begin_collection(event)
                stack.append((container, expects, event.anchor, nodes))
                nodes += 1
                if kind is MappingStartEvent:
                    container, expects = {}, _KEY
                else:
                    container, expects = [], _ITEM
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                value = container
                container, expects, anchor, nodes_before = stack.pop()
                if anchor is not None:
                    self._anchors[anchor] = _Anchored(value, nodes - nodes_before)
            elif kind is AliasEvent:
                anchored = self._resolve_alias(event)
                nodes += anchored.nodes
                value = anchored.value
            elif kind is DocumentStartEvent:
                self._start_document(event)
                container, expects = None, _ROOT
                continue
            elif kind is StreamEndEvent:
                return roots
            else:
                continue

            if expects is _ITEM:
                container.append(value)
            elif expects is _KEY:
                if value.__class__ is not str or value == "<<" or value in container:
                    value = self._normalize_key(event, value, container)
                expects = value
            elif expects is _ROOT:
                if value is not None:
                    if kind is ScalarEvent:
                        root_line = self._check_root(event)
                    roots.append(YamlRoot(root_line, self._ordinal, value))
            elif expects is _MERGE:
                self._merge(event, value, container)
                expects = _KEY
            else:
                container[expects] = value
                expects = _KEY

    def _start_document(self, event: Any) -> None:
        self._ordinal += 1
        self._anchors.clear()
        self._separator_line = event.start_mark.line if event.explicit else -1
        if self._ordinal >= MAX_DOCUMENTS:
            raise self._unreadable(event, f"more than {MAX_DOCUMENTS:,} documents in one file; split the file")
        if event.version or event.tags:
            self._add_mistake(event, "YAML directives (lines that start with '%') are not supported; remove the lines")
        if self._ordinal and not event.explicit:
            self._add_mistake(
                event,
                "the document does not start with '---', so kubectl would ignore the document; "
                "put '---' before the document",
            )

    def _check_root(self, event: Any) -> int:
        """Return the line of a document's content, from 1. Content on the line of `---` is a mistake."""
        line: int = event.start_mark.line
        if line == self._separator_line:
            self._add_mistake(
                event, "content on the line of '---', which kubectl would ignore; start the content on the next line"
            )
        return line + 1

    def _begin_collection(self, event: Any) -> None:
        """Check the tag of a collection, and mark the collection's anchor as incomplete.

        An alias inside the collection would make the collection contain itself.
        """
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        expected = "map" if type(event) is MappingStartEvent else "seq"
        if _COLLECTION_TAGS.get(event.tag) not in ("", expected):
            self._add_mistake(event, f"tag {event.tag} is not supported; remove the tag")

    def _resolve_tagged(self, event: Any) -> Any:
        try:
            return resolve_tagged(event.value, event.tag, plain=not event.style)
        except ScalarError as error:
            return self._add_mistake(event, str(error))

    def _normalize_key(self, event: Any, value: Any, container: dict[str, Any]) -> Any:
        """Return a key as text, or `_MERGE` for `<<`.

        As in Kubernetes, booleans and integers become text. Any other key that is not a text is a mistake.
        """
        if value == "<<" and type(event) is ScalarEvent and event.implicit[0]:
            return _MERGE
        if value is True or value is False:
            value = "true" if value else "false"
        elif type(value) is int:
            value = str(value)
        elif type(value) is not str:
            self._add_mistake(
                event, f"the key {getattr(event, 'value', None) or 'null'} is not text; put the key in quotes"
            )
            return ""
        if value in container and value not in self._merged_keys.get(id(container), ()):
            self._add_mistake(event, self._describe_duplicate(event, value))
        return value

    def _describe_bad_key(self, event: Any) -> str:
        is_chart_template = is_templated(self._data, event.start_mark.line + 1)
        return TEMPLATED_MESSAGE if is_chart_template else "a mapping or list cannot be a key; write text as the key"

    def _describe_duplicate(self, event: Any, key: str) -> str:
        path = self._current_path()
        if self._locations is None:
            self._locations = parse_locations(self._data)
        mapping = self._locations[self._ordinal].find(path)
        first = mapping.children.get(key)
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        earlier = f"first at line {first.line}" if first and first.line <= line else "given above"
        return f"duplicate key {key!r} (line {line}, column {column}; {earlier}); keep one of them"

    def _merge(self, event: Any, value: Any, container: dict[str, Any]) -> None:
        """Apply `<<` to `container`. Keys that follow `<<` in the mapping overwrite merged keys.

        Contrary to the YAML specification, Kubernetes lets `<<` overwrite the keys before `<<`. Therefore a merged key
        that equals a key before `<<` is a mistake.
        """
        sources = value if type(value) is list else [value]
        if not all(type(source) is dict for source in sources):
            self._add_mistake(event, "the value of '<<' is not a mapping; write a mapping, or a list of mappings")
            return
        merged = {key: item for source in reversed(sources) for key, item in source.items()}
        if clash := sorted(merged.keys() & container.keys()):
            self._add_mistake(
                event, f"'<<' follows {clash[0]!r}, a key of both mappings; put '<<' first in its mapping"
            )
        container.update(merged)
        self._merged_keys[id(container)] = set(merged)

    def _resolve_alias(self, event: AliasEvent) -> _Anchored:
        if event.anchor not in self._anchors:
            raise self._unreadable(
                event,
                f"alias *{event.anchor} has no anchor &{event.anchor} above it in this document; "
                "define the anchor before the alias",
            )
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise self._unreadable(event, f"alias *{event.anchor} is inside its own anchor; remove the alias")
        self._expanded_nodes += anchored.nodes
        if self._expanded_nodes > MAX_EXPANDED_NODES:
            raise self._unreadable(
                event, f"aliases of this file expand to more than {MAX_EXPANDED_NODES:,} values; write the values out"
            )
        return anchored._replace(value=self._copy(event, anchored.value, len(self._stack)))

    def _copy(self, event: AliasEvent, value: Any, depth: int) -> Any:
        if type(value) is not dict and type(value) is not list:
            return value
        if depth >= MAX_DEPTH:
            raise self._unreadable(event, f"the value is nested deeper than {MAX_DEPTH} levels; use fewer levels")
        if type(value) is dict:
            return {key: self._copy(event, item, depth + 1) for key, item in value.items()}
        return [self._copy(event, item, depth + 1) for item in value]

    def _add_mistake(self, event: Any, message: str) -> None:
        self.problems.append(Problem(self._file, event.start_mark.line + 1, self._current_path(), message))
        if len(self.problems) >= MAX_PROBLEMS:
            raise UnreadableYaml

    def _unreadable(self, event: Any, message: str) -> UnreadableYaml:
        """Note a mistake, and return the exception that ends reading."""
        self._add_mistake(event, message)
        return UnreadableYaml()

    def _current_path(self) -> str:
        """Return the path of the collection in progress."""
        parts: list[str] = []
        for container, expects, _, _ in self._stack:
            if expects is _ITEM:
                parts.append(f"[{len(container)}]")
            elif type(expects) is str:
                parts.append(f".{expects}")
        return "".join(parts).removeprefix(".")
