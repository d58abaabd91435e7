"""What one commit holds, put together from its files. A kind that several files define is broken: none of them is obeyed.

What definitions say of one another's kinds, and of those of CRDs in the commit, is checked here: a definition whose types do not fit is broken.
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
    """From the contents `before` only these `files` differ, each in what it says of as many objects; those of a file stand `at` this place."""

    base_contents: Mapping[str, FileContent]
    changed_files: tuple[str, ...]
    object_offsets: Mapping[str, int]


@dataclass(frozen=True)
class Catalog:
    """The content of one commit of one source; `contents` by file, those included that must not be read. `types` are the kinds that it describes.
    `author` and `message` are those of the commit, empty where there is none.
    `rules` say when and how objects move, `destinations` where they go: both are read by others, and applied nowhere.
    `definition_names` are those under which each kind is defined, also where that is broken; `broken_outlines` what can be told of the `broken`.
    Of the `broken` kinds those in `duplicates` are defined more than once.
    `step` says how it came from the commit before, where these differ in what some files say of their objects.
    """

    source: str = ""
    commit: str = ""
    author: str = ""
    message: str = ""
    definitions: Mapping[GroupKind, Definition] = field(default_factory=dict)
    broken: Mapping[GroupKind, SourceLocation] = field(default_factory=dict)
    duplicates: DuplicateDefinitions = field(default_factory=DuplicateDefinitions)
    objects: tuple[DeclaredObject, ...] = ()
    rules: tuple[DeclaredObject, ...] = ()
    problems: tuple[Problem, ...] = ()
    contents: Mapping[str, FileContent] = field(default_factory=dict)
    types: KindSchemas = field(default_factory=KindSchemas)
    change: CatalogChange | None = field(default=None, compare=False, repr=False)
    destinations: tuple[DeclaredObject, ...] = ()
    definition_names: Mapping[GroupKind, frozenset[str]] = field(default_factory=dict)
    broken_outlines: tuple[DefinitionOutline, ...] = ()

    def changed_objects(self, earlier: Catalog) -> Iterator[tuple[DeclaredObject, DeclaredObject]] | None:
        """The objects in files that differ, as they were and as they are, in order; None where it is not known that nothing else differs."""
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
        """Those of its objects."""
        return frozenset(declared.group_kind for declared in self.objects)

    @property
    def kinds_used(self) -> frozenset[GroupKind]:
        """Those of its objects, of what its definitions make and refer to, and those that it defines."""
        nodes = (node.group_kind for definition in self.definitions.values() for node in definition.nodes)
        return self.kinds.union(nodes, self.definitions, self.broken)

    @cached_property
    def versions(self) -> Mapping[GroupKind, frozenset[str]]:
        """Those in which it writes each kind: in its objects, and in what its definitions make and refer to."""
        nodes = (
            (node.group_kind, node.version) for definition in self.definitions.values() for node in definition.nodes
        )
        objects = ((declared.group_kind, version_of(declared.manifest)) for declared in self.objects)
        versions_by_kind: dict[GroupKind, set[str]] = {}
        for kind, version in chain(nodes, objects):
            versions_by_kind.setdefault(kind, set()).add(version)
        return {kind: frozenset(versions) for kind, versions in versions_by_kind.items()}

    def find_definition_kind(self, problem: Problem) -> GroupKind | None:
        """Whose definition the document is in which this problem is, also where that does not build."""
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
        """The files that windows take occurrences from, unread."""
        return {
            file: content.data for file, content in self.contents.items() if file.endswith(file_content.CALENDAR_SUFFIX)
        }

    @property
    def unreadable_files(self) -> frozenset[str]:
        """Files that may hold more than we know."""
        return frozenset(file for file, content in self.contents.items() if content.unreadable)

    @property
    def protection(self) -> UnreadableFiles:
        return UnreadableFiles(self.contents.keys(), self.unreadable_files)


def written_versions(catalogs: Sequence[Catalog]) -> dict[GroupKind, str]:
    """The version in which Git writes each kind; without those that it writes in several."""
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
    """Read all documents of a commit; `files` maps paths relative to the source's path to their bytes.

    `refused` are files that Git holds and that must not be read (links, too large), each with the reason. Files that are in `previous` with the
    same bytes are taken from there.
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
    definitions = {one.group_kind: one for one in all_definitions if one.group_kind not in duplicates.places}
    types = kind_schemas.from_crds(
        _crds(contents.values(), definitions.values(), duplicates.crds), previous.types if previous else KindSchemas()
    )
    check_results = {kind: type_check.check_definition(definition, types) for kind, definition in definitions.items()}
    cycles = gate_cycles.find_gate_cycles(definitions)
    broken = {kind: origin for content in contents.values() for kind, origin in content.broken}
    broken |= {one.group_kind: one.origin for one in reversed(all_definitions) if one.group_kind in duplicates.places}
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
    """The next commit after `previous`, in which these files have other bytes and no file is new or gone. None where it has to be loaded, because
    these say more than objects which say nothing about others. Costs as much as what has changed, but for copies of references.
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
    """Where the objects of each file begin among those of all."""
    starts = accumulate((len(content.objects) for content in contents.values()), initial=0)
    return dict(zip(contents, starts, strict=False))


def _has_only_objects(content: FileContent) -> bool:
    other_content = content.definitions or content.broken or content.rules or content.destinations
    is_plain = not (other_content or content.problems or content.unreadable)
    return is_plain and all(declared.group_kind != CRD for declared in content.objects)


def _definition_names(contents: Iterable[FileContent]) -> dict[GroupKind, frozenset[str]]:
    names: dict[GroupKind, frozenset[str]] = {}
    for content in contents:
        named = [(one.group_kind, one.name) for one in content.definitions]
        named += [(outline.group_kind, outline.name) for outline in content.outlines]
        for kind, name in named:
            names[kind] = names.get(kind, frozenset()) | {name}
    return names


def _broken_outlines(contents: Iterable[FileContent], broken: Container[GroupKind]) -> Iterator[DefinitionOutline]:
    """Of those, too, that build and are broken by what stands elsewhere."""
    for content in contents:
        yield from content.outlines
        for one in content.definitions:
            if one.group_kind in broken:
                yield DefinitionOutline(one.group_kind, one.name, frozenset(node.group_kind for node in one.nodes))


def _crds(
    contents: Iterable[FileContent], definitions: Iterable[Definition], refused: Container[str]
) -> Iterator[Manifest]:
    """All CRDs of a commit, but those `refused`: as files, as resources of definitions, and of the definitions themselves."""
    for declared in (declared for content in contents for declared in content.objects):
        if declared.group_kind == CRD and declared.manifest["metadata"]["name"] not in refused:
            yield declared.manifest
    for definition in definitions:
        yield from definition.declared_crds
        yield definition.crd
