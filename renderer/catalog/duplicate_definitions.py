"""Kinds that a commit defines more than once.

If a commit defines a kind more than once, Levelgate cannot know which definition the author means. Therefore Levelgate
uses no definition of the kind.

Definitions with the same name would be one object in the cluster. Definitions whose kinds have the same group and
plural would yield one CRD. A file that contains the CRD of a kind also defines the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from renderer.catalog.file_content import FileContent
from renderer.definition import crd
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.kinds import CRD
from renderer.phrasing import join_names


@dataclass(frozen=True, slots=True)
class DuplicateDefinitions:
    """The kinds and CRDs that one commit defines more than once."""

    places: Mapping[GroupKind, tuple[SourceLocation, ...]] = field(default_factory=dict)
    """The places that define each kind, by kind."""
    crds: frozenset[str] = frozenset()
    """Names of the CRDs that files declare more than once. Levelgate ignores the schemas of these CRDs."""
    problems: tuple[Problem, ...] = ()
    """A problem for each place of a kind or CRD that the commit defines more than once. Each problem names all places.
    """

    def describe(self, kind: GroupKind) -> str:
        """Return the clause "is declared at ..." with the places of `kind`, or an empty text if no places are known."""
        places = self.places.get(kind)
        return f"is declared at {_describe(places)}" if places else ""


class _Declaration(NamedTuple):
    """One place that declares a kind."""

    kind: GroupKind | None
    """The kind that a definition defines, or None for a CRD in a file."""
    origin: SourceLocation
    path: str


def find_duplicate_definitions(contents: Iterable[FileContent]) -> DuplicateDefinitions:
    """Return the definitions with the same name or CRD, and the CRDs whose kind a definition defines as well.

    Definitions with mistakes count like other definitions.
    """
    by_crd, by_name = _groups(contents)
    places: dict[GroupKind, list[SourceLocation]] = {}
    problems: list[Problem] = []
    for name, group in (*by_crd.items(), *by_name.items()):
        if len(group) == 1 or all(declaration.kind is None for declaration in group):
            continue
        for declaration in group:
            problems.append(_problem(name, declaration, group))
            if declaration.kind is not None:
                places.setdefault(declaration.kind, []).extend(other.origin for other in group)
    return DuplicateDefinitions(
        {kind: tuple(sorted(set(origins), key=str)) for kind, origins in places.items()},
        frozenset(name for name, group in by_crd.items() if len(group) > 1),
        tuple(problems),
    )


def _problem(name: str, declaration: _Declaration, group: Iterable[_Declaration]) -> Problem:
    places = _describe(other.origin for other in group)
    message = f"{name} is declared at {places}, so Levelgate ignores all declarations; keep one declaration"
    return Problem(declaration.origin.file, declaration.origin.line, declaration.path, message)


def _describe(places: Iterable[SourceLocation]) -> str:
    return join_names(places, separator=" and ")


_Groups = Mapping[str, list[_Declaration]]


def _groups(contents: Iterable[FileContent]) -> tuple[_Groups, _Groups]:
    """Return all declarations by the name of their CRD, and the definitions that share a name across kinds by name."""
    by_crd: dict[str, list[_Declaration]] = {}
    by_name: dict[str, list[_Declaration]] = {}
    for content in contents:
        for definition in content.definitions:
            declaration = _Declaration(definition.group_kind, definition.origin, "spec.schema.kind")
            by_crd.setdefault(crd.key_of(definition.group_kind).name, []).append(declaration)
            by_name.setdefault(definition.name, []).append(declaration._replace(path="metadata.name"))
        for kind, origin in content.broken:
            by_crd.setdefault(crd.key_of(kind).name, []).append(_Declaration(kind, origin, "spec.schema.kind"))
        for declared in content.objects:
            if declared.group_kind == CRD:
                declaration = _Declaration(None, declared.origin, "metadata.name")
                by_crd.setdefault(declared.manifest["metadata"]["name"], []).append(declaration)
    return by_crd, {
        name: group for name, group in by_name.items() if len({declaration.kind for declaration in group}) > 1
    }
