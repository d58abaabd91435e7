"""What one commit holds, put together from its files. A kind is defined once, by the first file that defines it.

What definitions say of one another's kinds, and of those of CRDs in the commit, is checked here: a definition whose types do not fit is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter, itemgetter

from renderer.catalog import file_content, gate_cycles
from renderer.catalog.file_content import DeclaredObject, FileContent
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

    before: Mapping[str, FileContent]
    files: tuple[str, ...]
    at: Mapping[str, int]


@dataclass(frozen=True)
class Catalog:
    """The content of one commit of one source; `contents` by file, those included that must not be read. `types` are the kinds that it describes.
    `step` says how it came from the commit before, where these differ in what some files say of their objects.
    """

    source: str = ""
    revision: str = ""
    definitions: Mapping[GroupKind, Definition] = field(default_factory=dict)
    broken: Mapping[GroupKind, SourceLocation] = field(default_factory=dict)
    objects: tuple[DeclaredObject, ...] = ()
    rules: tuple[DeclaredObject, ...] = ()
    problems: tuple[Problem, ...] = ()
    contents: Mapping[str, FileContent] = field(default_factory=dict)
    types: KindSchemas = field(default_factory=KindSchemas)
    step: CatalogChange | None = field(default=None, compare=False, repr=False)

    def objects_since(self, before: Catalog) -> Iterator[tuple[DeclaredObject, DeclaredObject]] | None:
        """The objects in files that differ, as they were and as they are, in order; None where it is not known that nothing else differs."""
        if self.step is None or self.step.before is not before.contents:
            return None
        files = ((before.contents[file], self.contents[file]) for file in self.step.files)
        return ((old, new) for one, other in files for old, new in zip(one.objects, other.objects, strict=True))

    @cached_property
    def kinds(self) -> frozenset[GroupKind]:
        """Those of its objects."""
        return frozenset(declared.group_kind for declared in self.objects)

    @property
    def kinds_used(self) -> frozenset[GroupKind]:
        """Those of its objects, of what its definitions make and refer to, and those that it defines."""
        nodes = (node.group_kind for one in self.definitions.values() for node in one.nodes)
        return self.kinds.union(nodes, self.definitions, self.broken)

    @cached_property
    def versions(self) -> Mapping[GroupKind, frozenset[str]]:
        """Those in which it writes each kind: in its objects, and in what its definitions make and refer to."""
        nodes = ((node.group_kind, node.version) for one in self.definitions.values() for node in one.nodes)
        objects = ((one.group_kind, version_of(one.manifest)) for one in self.objects)
        found: dict[GroupKind, set[str]] = {}
        for kind, version in chain(nodes, objects):
            found.setdefault(kind, set()).add(version)
        return {kind: frozenset(versions) for kind, versions in found.items()}

    def definition_at(self, problem: Problem) -> GroupKind | None:
        """Whose definition the document is in which this problem is, also where that does not build."""
        found = self.contents.get(problem.file, FileContent())
        begins: list[tuple[int, GroupKind | None]] = [(one.origin.line, None) for one in (*found.objects, *found.rules)]
        begins += ((one.origin.line, one.group_kind) for one in found.definitions)
        begins += ((origin.line, kind) for kind, origin in found.broken)
        before = (one for one in begins if one[0] <= problem.line)
        return max(before, key=itemgetter(0), default=(0, None))[1]

    @property
    def calendars(self) -> Mapping[str, bytes]:
        """The files that windows take occurrences from, unread."""
        return {
            file: found.data for file, found in self.contents.items() if file.endswith(file_content.CALENDAR_SUFFIX)
        }

    @property
    def unreadable(self) -> frozenset[str]:
        """Files that may hold more than we know."""
        return frozenset(file for file, found in self.contents.items() if found.unreadable)

    @property
    def protection(self) -> UnreadableFiles:
        return UnreadableFiles(self.contents.keys(), self.unreadable)


def written_versions(catalogs: Sequence[Catalog]) -> dict[GroupKind, str]:
    """The version in which Git writes each kind; without those that it writes in several."""
    kinds = set[GroupKind]().union(*(catalog.versions for catalog in catalogs))
    written = {kind: frozenset().union(*(one.versions.get(kind, ()) for one in catalogs)) for kind in kinds}
    return {kind: version for kind, (version, *others) in written.items() if not others}


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
    if previous and previous.source == source and not refused and files.keys() == previous.contents.keys():
        old = previous.contents
        changed = {file: data for file, data in files.items() if old[file].data is not data and old[file].data != data}
        if later := follow(previous, changed, revision):
            return later
    known = previous.contents if previous else {}
    contents = {
        file: found if (found := known.get(file)) and found.data == data else file_content.read(file, data)
        for file, data in sorted(files.items())
    }
    for file, message in (refused or {}).items():
        contents[file] = FileContent(problems=(Problem(file, 0, "", message),), unreadable=True)
    definitions, duplicates = _definitions(contents.values())
    types = kind_schemas.of_crds(
        _crds(contents.values(), definitions.values()), previous.types if previous else KindSchemas()
    )
    checked = {kind: type_check.checked(one, types) for kind, one in definitions.items()}
    circles = gate_cycles.circles(definitions)
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


def follow(previous: Catalog, changed: Mapping[str, bytes], revision: str) -> Catalog | None:
    """The next commit after `previous`, in which these files have other bytes and no file is new or gone. None where it has to be loaded, because
    these say more than objects which say nothing about others. Costs as much as what has changed, but for copies of references.
    """
    known = previous.contents
    contents = {file: file_content.read(file, data) for file, data in changed.items()}
    if not all(_has_objects_alone(one) for file, new in contents.items() for one in (known[file], new)):
        return None
    if any(len(known[file].objects) != len(new.objects) for file, new in contents.items()):
        contents = {**known, **contents}
        found = tuple(chain.from_iterable(map(attrgetter("objects"), contents.values())))
        return replace(previous, revision=revision, objects=found, contents=contents, step=None)
    at = previous.step.at if previous.step else _places(known)
    objects = list(previous.objects)
    for file, new in contents.items():
        objects[at[file] : at[file] + len(new.objects)] = new.objects
    step = CatalogChange(known, tuple(contents), at)
    return replace(previous, revision=revision, objects=tuple(objects), contents={**known, **contents}, step=step)


def _places(contents: Mapping[str, FileContent]) -> Mapping[str, int]:
    """Where the objects of each file begin among those of all."""
    starts = accumulate((len(one.objects) for one in contents.values()), initial=0)
    return dict(zip(contents, starts, strict=False))


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
