"""Line numbers of a YAML file, in a tree that a second parse builds only when Levelgate reports a problem."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from yaml._yaml import CParser
from yaml.error import YAMLError
from yaml.events import (
    CollectionEndEvent,
    DocumentEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from renderer.frozen import dataclass

_STEP = re.compile(r"[.\[]")
_INDEX = re.compile(r"\[(\d+)\]")
_QUOTED = re.compile(r"\[(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')\]")
_BARE = re.compile(r"\[([^\]\"']+)\]")


@dataclass(slots=True)
class YamlLocation:
    """The place of one node of a document."""

    line: int
    """Line of the node, from 1. The line of a value is the line of its key."""
    children: dict[str | int, YamlLocation] = field(default_factory=dict)

    def find(self, path: str) -> YamlLocation:
        """Return the location at `path`, or of its nearest ancestor.

        Keys may contain dots. If several keys match the start of the path, the longest key takes precedence.
        """
        key: str | int | None
        if match := _INDEX.match(path):
            key, end = int(match[1]), match.end()
        elif match := _QUOTED.match(path) or _BARE.match(path):
            key = match[1] if match.re is _BARE else match[1][1:-1].replace("\\", "")
            end = match.end()
        else:
            ends = [len(path), *(match.start() for match in reversed(list(_STEP.finditer(path))))]
            key = next((path[:end] for end in ends if path[:end] in self.children), None)
            end = len(key or "")
        child = self.children.get(key) if path and key is not None else None
        return child.find(path[end:].removeprefix(".")) if child else self


@dataclass(slots=True)
class _OpenCollection:
    """A mapping or sequence whose end the parser has not reached yet."""

    location: YamlLocation
    is_sequence: bool
    key: str | None = None

    def location_for(self, event: Any) -> YamlLocation | None:
        """Return the location of the next child, or None if `event` is a key."""
        line = event.start_mark.line + 1
        if self.is_sequence:
            return self.location.children.setdefault(len(self.location.children), YamlLocation(line))
        if self.key is None:
            self.key = event.value if isinstance(event, ScalarEvent) else ""
            # Of two equal keys, the line of the first key is kept, so that the message about the second key can name
            # the line.
            self.location.children.setdefault(self.key, YamlLocation(line))
            return None
        key, self.key = self.key, None
        return self.location.children[key]


def parse_locations(data: bytes) -> list[YamlLocation]:
    """Return one tree for each YAML document, including empty documents. At a syntax error, end the result early."""
    return list(_iterate_locations(data))


def _iterate_locations(data: bytes) -> Iterator[YamlLocation]:
    root, opened = YamlLocation(1), list[_OpenCollection]()
    for event in iterate_events(data):
        line = event.start_mark.line + 1
        if isinstance(event, DocumentEndEvent):
            yield root
            opened.clear()
        elif isinstance(event, CollectionEndEvent):
            opened.pop()
        elif isinstance(event, NodeEvent):
            location = opened[-1].location_for(event) if opened else YamlLocation(line)
            if not opened and location:
                root = location
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                opened.append(_OpenCollection(location or YamlLocation(0), isinstance(event, SequenceStartEvent)))
    if opened:
        yield root


def iterate_events(data: bytes) -> Iterator[Any]:
    """Yield the events of the YAML parser, up to the end of `data` or the first syntax error."""
    parser = CParser(data)
    try:
        while parser.check_event():
            yield parser.get_event()
    except YAMLError:
        return
