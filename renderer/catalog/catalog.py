"""The catalog of one commit, built from the contents of the commit's files.

If mistakes keep Levelgate from using any definition of a kind, the kind is broken. If several files define a kind, the
kind is broken. This module type-checks the definitions, because a definition may refer to kinds that other files of the
commit define. A definition with a type mistake makes its kind broken.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter, itemgetter

from renderer.catalog import file_content, gate_cycles
from renderer.catalog.duplicate_definitions import DuplicateDefinitions, find_duplicate_definitions
from renderer.catalog.file_content import DeclaredObject, DefinitionOutline, FileContent
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.definition import kind_schemas, type_check
from renderer.definition.compile import Definition
from renderer.definition.kind_schemas import KindSchemas
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, version_of
from renderer.kinds import CRD


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """The difference between the catalogs of two successive commits that differ only in the content of objects.

    Every changed file contains the same number of objects in both commits.
    """

    base_contents: Mapping[str, FileContent]
    """The file contents of the earlier commit, by path.

    `Catalog.changed_objects` compares this mapping by identity, to recognise the earlier catalog.
    """
    changed_files: tuple[str, ...]
    object_offsets: Mapping[str, int]
    """The index in `Catalog.objects` of the first object of each file, by path."""


@dataclass(frozen=True)
class Catalog:
    """The definitions, objects, rules and mistakes in one commit of one source."""

    source: str = ""
    commit: str = ""
    author: str = ""
    """Author of the commit. For a source without commits, `author` and `message` are empty."""
    message: str = ""
    definitions: Mapping[GroupKind, Definition] = field(default_factory=dict)
    broken: Mapping[GroupKind, SourceLocation] = field(default_factory=dict)
    """Kinds whose definition Levelgate does not use because of mistakes, each with the place that messages show."""
    duplicates: DuplicateDefinitions = field(default_factory=DuplicateDefinitions)
    """The kinds in `broken` that the commit defines more than once."""
    objects: tuple[DeclaredObject, ...] = ()
    rules: tuple[DeclaredObject, ...] = ()
    """Windows and policies. `gitops` reads the rules, and Levelgate never applies them."""
    problems: tuple[Problem, ...] = ()
    contents: Mapping[str, FileContent] = field(default_factory=dict)
    """Contents of all files, in the order of paths, including files that Levelgate must not read."""
    types: KindSchemas = field(default_factory=KindSchemas)
    """Schemas of the kinds that the commit describes."""
    change: CatalogChange | None = field(default=None, compare=False, repr=False)
    """The difference from the previous commit.

    If no previous commit exists, or if anything except the content of objects differs, the value is None.
    """
    destinations: tuple[DeclaredObject, ...] = ()
    """Objects that select the clusters for the content. `gitops` reads the destinations, and Levelgate never applies
    them.
    """
    definition_names: Mapping[GroupKind, frozenset[str]] = field(default_factory=dict)
    """The names of the definitions of each kind, including definitions with mistakes."""
    broken_outlines: tuple[DefinitionOutline, ...] = ()
    """The readable part of each definition that Levelgate does not use because of mistakes."""
    rule_contents: Mapping[str, FileContent] | None = None
    """Contents of all files, for the rules and their calendars, or None if `contents` has all files.

    A catalog that declares no object on purpose has no `contents`, because an unreadable file would protect objects.
    """

    def changed_objects(self, earlier: Catalog) -> Iterator[tuple[DeclaredObject, DeclaredObject]] | None:
        """Return a pair for each object of the changed files: the object in `earlier`, and the object in this catalog.

        The pairs are in the order of the files. If `change` does not start from `earlier`, return None, because the
        catalogs may then differ in more than objects.
        """
        if self.change is None or self.change.base_contents is not earlier.contents:
            return None
        files = ((earlier.contents[file], self.contents[file]) for file in self.change.changed_files)
        return (
            (old, new)
            for old_content, new_content in files
            for old, new in zip(old_content.objects, new_content.objects, strict=True)
        )

    @cached_property
    def kinds(self) -> frozenset[GroupKind]:
        """Return the kinds of the objects."""
        return frozenset(declared.group_kind for declared in self.objects)

    @property
    def kinds_used(self) -> frozenset[GroupKind]:
        """Return the kinds of objects, the kinds of resources of definitions, and the defined kinds.

        The resources of definitions include external resources.
        """
        nodes = (node.group_kind for definition in self.definitions.values() for node in definition.nodes)
        return self.kinds.union(nodes, self.definitions, self.broken)

    @cached_property
    def versions(self) -> Mapping[GroupKind, frozenset[str]]:
        """Return the API versions that the commit uses for each kind, in objects and in resources of definitions."""
        nodes = (
            (node.group_kind, node.version) for definition in self.definitions.values() for node in definition.nodes
        )
        objects = ((declared.group_kind, version_of(declared.manifest)) for declared in self.objects)
        versions_by_kind: dict[GroupKind, set[str]] = {}
        for kind, version in chain(nodes, objects):
            versions_by_kind.setdefault(kind, set()).add(version)
        return {kind: frozenset(versions) for kind, versions in versions_by_kind.items()}

    def find_definition_kind(self, problem: Problem) -> GroupKind | None:
        """Return the kind of the definition whose document contains `problem`. The definition may be broken.

        If the document of `problem` is not a definition, return None.
        """
        content = self.contents.get(problem.file, FileContent())
        document_starts: list[tuple[int, GroupKind | None]] = [
            (declared.origin.line, None) for declared in (*content.objects, *content.rules, *content.destinations)
        ]
        document_starts += ((definition.origin.line, definition.group_kind) for definition in content.definitions)
        document_starts += ((origin.line, kind) for kind, origin in content.broken)
        earlier_starts = (start for start in document_starts if start[0] <= problem.line)
        return max(earlier_starts, key=itemgetter(0), default=(0, None))[1]

    @property
    def calendars(self) -> Mapping[str, bytes]:
        """Return the bytes of the iCalendar files, by path. Windows read their occurrences from these files."""
        return {
            file: content.data for file, content in self.contents.items() if file.endswith(file_content.CALENDAR_SUFFIX)
        }

    @property
    def unreadable_files(self) -> frozenset[str]:
        """Return the files that may contain objects that Levelgate could not read."""
        return frozenset(file for file, content in self.contents.items() if content.unreadable)

    @property
    def protection(self) -> UnreadableFiles:
        return UnreadableFiles(self.contents.keys(), self.unreadable_files)


def written_versions(catalogs: Sequence[Catalog]) -> dict[GroupKind, str]:
    """Return the API version of each kind in the files of all `catalogs`. Leave out kinds with several versions."""
    kinds = set[GroupKind]().union(*(catalog.versions for catalog in catalogs))
    versions_by_kind = {
        kind: frozenset().union(*(source_catalog.versions.get(kind, ()) for source_catalog in catalogs))
        for kind in kinds
    }
    return {kind: version for kind, (version, *others) in versions_by_kind.items() if not others}


def load(
    files: Mapping[str, bytes],
    *,
    source: str = "",
    commit: str = "",
    refused_files: Mapping[str, str] | None = None,
    previous: Catalog | None = None,
) -> Catalog:
    """Return the catalog of a commit. Reuse the contents of files whose bytes equal those in `previous`.

    Args:
        files: The bytes of each file, by path relative to the source's path.
        refused_files: For each file in Git that Levelgate must not read, the reason, such as a link or an excessive
            size.
    """
    if previous and previous.source == source and not refused_files and files.keys() == previous.contents.keys():
        old_contents = previous.contents
        changed = {
            file: data
            for file, data in files.items()
            if old_contents[file].data is not data and old_contents[file].data != data
        }
        if later := with_changed_files(previous, changed, commit):
            return later
    previous_contents = previous.contents if previous else {}
    contents = {
        file: content
        if (content := previous_contents.get(file)) and content.data == data
        else file_content.parse_file(file, data)
        for file, data in sorted(files.items())
    }
    for file, message in (refused_files or {}).items():
        contents[file] = FileContent(problems=(Problem(file, 0, "", message),), unreadable=True)
    duplicates = find_duplicate_definitions(contents.values())
    all_definitions = [definition for content in contents.values() for definition in content.definitions]
    definitions = {
        definition.group_kind: definition
        for definition in all_definitions
        if definition.group_kind not in duplicates.places
    }
    types = kind_schemas.from_crds(
        _crds(contents.values(), definitions.values(), duplicates.crds), previous.types if previous else KindSchemas()
    )
    check_results = {kind: type_check.check_definition(definition, types) for kind, definition in definitions.items()}
    cycles = gate_cycles.find_gate_cycles(definitions)
    broken = {kind: origin for content in contents.values() for kind, origin in content.broken}
    broken |= {
        definition.group_kind: definition.origin
        for definition in reversed(all_definitions)
        if definition.group_kind in duplicates.places
    }
    broken |= {kind: definitions[kind].origin for kind in cycles}
    broken |= {kind: result.definition.origin for kind, result in check_results.items() if result.problems}
    problems = [problem for content in contents.values() for problem in content.problems]
    problems += [problem for cycle_problems in cycles.values() for problem in cycle_problems]
    problems += [problem for result in check_results.values() for problem in result.problems]
    return Catalog(
        source=source,
        commit=commit,
        definitions={kind: result.definition for kind, result in check_results.items() if kind not in broken},
        broken=broken,
        duplicates=duplicates,
        objects=tuple(declared for content in contents.values() for declared in content.objects),
        rules=tuple(rule for content in contents.values() for rule in content.rules),
        problems=tuple(sorted([*problems, *duplicates.problems])),
        contents=contents,
        types=types,
        destinations=tuple(chain.from_iterable(content.destinations for content in contents.values())),
        definition_names=_definition_names(contents.values()),
        broken_outlines=tuple(_broken_outlines(contents.values(), broken)),
    )


def with_changed_files(previous: Catalog, changed_files: Mapping[str, bytes], commit: str) -> Catalog | None:
    """Return the catalog of the next commit, in which only the bytes of `changed_files` differ.

    The caller guarantees that no file is new or removed. If a changed file contains anything that can affect another
    file, return None, because the caller must load the whole commit. The function copies the references to unchanged
    objects. All other cost depends on the changed files alone.
    """
    previous_contents = previous.contents
    contents = {file: file_content.parse_file(file, data) for file, data in changed_files.items()}
    if not all(
        _has_only_objects(content) for file, new in contents.items() for content in (previous_contents[file], new)
    ):
        return None
    if any(len(previous_contents[file].objects) != len(new.objects) for file, new in contents.items()):
        contents = {**previous_contents, **contents}
        all_objects = tuple(chain.from_iterable(map(attrgetter("objects"), contents.values())))
        return replace(previous, commit=commit, objects=all_objects, contents=contents, change=None)
    object_offsets = previous.change.object_offsets if previous.change else _object_offsets(previous_contents)
    objects = list(previous.objects)
    for file, new in contents.items():
        objects[object_offsets[file] : object_offsets[file] + len(new.objects)] = new.objects
    change = CatalogChange(previous_contents, tuple(contents), object_offsets)
    return replace(
        previous, commit=commit, objects=tuple(objects), contents={**previous_contents, **contents}, change=change
    )


def _object_offsets(contents: Mapping[str, FileContent]) -> Mapping[str, int]:
    """Return the index of the first object of each file among the objects of all files."""
    starts = accumulate((len(content.objects) for content in contents.values()), initial=0)
    return dict(zip(contents, starts, strict=False))


def _has_only_objects(content: FileContent) -> bool:
    """Return whether a file affects nothing but its own objects.

    A CRD describes a kind. Therefore a CRD also affects definitions.
    """
    other_content = content.definitions or content.broken or content.rules or content.destinations
    is_plain = not (other_content or content.problems or content.unreadable)
    return is_plain and all(declared.group_kind != CRD for declared in content.objects)


def _definition_names(contents: Iterable[FileContent]) -> dict[GroupKind, frozenset[str]]:
    names: dict[GroupKind, frozenset[str]] = {}
    for content in contents:
        named = [(definition.group_kind, definition.name) for definition in content.definitions]
        named += [(outline.group_kind, outline.name) for outline in content.outlines]
        for kind, name in named:
            names[kind] = names.get(kind, frozenset()) | {name}
    return names


def _broken_outlines(contents: Iterable[FileContent], broken: Container[GroupKind]) -> Iterator[DefinitionOutline]:
    """Yield outlines of all broken definitions, including definitions that are broken because of another file."""
    for content in contents:
        yield from content.outlines
        for definition in content.definitions:
            if definition.group_kind in broken:
                yield DefinitionOutline(
                    definition.group_kind, definition.name, frozenset(node.group_kind for node in definition.nodes)
                )


def _crds(
    contents: Iterable[FileContent], definitions: Iterable[Definition], refused: Container[str]
) -> Iterator[Manifest]:
    """Yield the CRDs of a commit except those named in `refused`.

    A file declares the CRD, a definition has the CRD as a resource, or Levelgate generates the CRD from a definition.
    """
    for declared in (declared for content in contents for declared in content.objects):
        if declared.group_kind == CRD and declared.manifest["metadata"]["name"] not in refused:
            yield declared.manifest
    for definition in definitions:
        yield from definition.declared_crds
        yield definition.crd
