"""What one commit holds, put together from its files. A kind is defined once, by the first file that defines it.

What definitions say of one another's kinds, and of those of CRDs in the commit, is checked here: a definition whose types do not fit is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter

from renderer import content, object_types, static, waiting
from renderer.content import Declared, FileContent
from renderer.definition import Definition
from renderer.errors import Problem
from renderer.identity import GroupKind, Manifest
from renderer.kinds import CRD
from renderer.model import Origin, Unreadable
from renderer.object_types import ObjectTypes


@dataclass(frozen=True, slots=True)
class Catalog:
    """The content of one commit of one source; `contents` by file, those included that must not be read. `types` are the kinds that it describes."""

    source: str = ""
    revision: str = ""
    definitions: Mapping[GroupKind, Definition] = field(default_factory=dict)
    broken: Mapping[GroupKind, Origin] = field(default_factory=dict)
    objects: tuple[Declared, ...] = ()
    rules: tuple[Declared, ...] = ()
    problems: tuple[Problem, ...] = ()
    contents: Mapping[str, FileContent] = field(default_factory=dict)
    types: ObjectTypes = field(default_factory=ObjectTypes)

    @property
    def calendars(self) -> Mapping[str, bytes]:
        """The files that windows take occurrences from, unread."""
        return {file: found.data for file, found in self.contents.items() if file.endswith(content.CALENDAR_SUFFIX)}

    @property
    def unreadable(self) -> frozenset[str]:
        """Files that may hold more than we know."""
        return frozenset(file for file, found in self.contents.items() if found.unreadable)

    @property
    def protection(self) -> Unreadable:
        return Unreadable(self.contents.keys(), self.unreadable)


def load(
    files: Mapping[str, bytes],
    *,
    source: str = "",
    revision: str = "",
    refused: Mapping[str, str] | None = None,
    previous: Catalog | None = None,
) -> Catalog:
    """Read all documents of a commit; `files` maps paths relative to the source's path to their bytes.

    `refused` are files that Git holds and that must not be read (links, too large), each with the reason. Files that are in `previous` with the
    same bytes are taken from there.
    """
    if previous and previous.source == source and not refused and (later := _going_on(previous, files, revision)):
        return later
    known = previous.contents if previous else {}
    contents = {
        file: found if (found := known.get(file)) and found.data == data else content.read(file, data)
        for file, data in sorted(files.items())
    }
    for file, message in (refused or {}).items():
        contents[file] = FileContent(problems=(Problem(file, 0, "", message),), unreadable=True)
    definitions, duplicates = _definitions(contents.values())
    types = object_types.of_crds(
        _crds(contents.values(), definitions.values()), previous.types if previous else ObjectTypes()
    )
    checked = {kind: static.checked(one, types) for kind, one in definitions.items()}
    circles = waiting.circles(definitions)
    broken = {kind: origin for found in contents.values() for kind, origin in found.broken}
    broken |= {kind: definitions[kind].origin for kind in circles}
    broken |= {kind: one.definition.origin for kind, one in checked.items() if one.problems}
    problems = [problem for found in contents.values() for problem in found.problems]
    problems += [problem for found in circles.values() for problem in found]
    problems += [problem for one in checked.values() for problem in one.problems]
    return Catalog(
        source=source,
        revision=revision,
        definitions={kind: one.definition for kind, one in checked.items() if kind not in broken},
        broken=broken,
        objects=tuple(declared for found in contents.values() for declared in found.objects),
        rules=tuple(rule for found in contents.values() for rule in found.rules),
        problems=tuple(sorted([*problems, *duplicates])),
        contents=contents,
        types=types,
    )


def _going_on(previous: Catalog, files: Mapping[str, bytes], revision: str) -> Catalog | None:
    """The next commit after `previous`, where it differs in objects alone, which say nothing about others: all else is as it was."""
    known = previous.contents
    if files.keys() != known.keys():
        return None
    differing = [file for file, data in files.items() if (old := known[file].data) is not data and old != data]
    changed = {file: content.read(file, files[file]) for file in differing}
    if not all(_has_objects_alone(one) for file in differing for one in (known[file], changed[file])):
        return None
    contents = {**known, **changed}
    objects = tuple(chain.from_iterable(map(attrgetter("objects"), contents.values())))
    return replace(previous, revision=revision, objects=objects, contents=contents)


def _has_objects_alone(one: FileContent) -> bool:
    others = one.definitions or one.broken or one.rules or one.problems or one.unreadable
    return not others and all(declared.group_kind != CRD for declared in one.objects)


def _crds(contents: Iterable[FileContent], definitions: Iterable[Definition]) -> Iterator[Manifest]:
    """All CRDs of a commit: as files, as resources of definitions, and of the definitions themselves."""
    yield from (declared.manifest for found in contents for declared in found.objects if declared.group_kind == CRD)
    for definition in definitions:
        yield from definition.declared_crds
        yield definition.crd


def _definitions(contents: Iterable[FileContent]) -> tuple[dict[GroupKind, Definition], list[Problem]]:
    found: dict[GroupKind, Definition] = {}
    duplicates: list[Problem] = []
    for definition in (definition for one in contents for definition in one.definitions):
        other = found.setdefault(definition.group_kind, definition)
        if other is not definition:
            message = f"{definition.group_kind} is defined at {other.origin} already; keep one of the two"
            duplicates.append(Problem(definition.origin.file, definition.origin.line, "spec.schema.kind", message))
    return found, duplicates
