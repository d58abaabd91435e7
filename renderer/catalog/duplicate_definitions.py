"""Kinds that a commit defines more than once: nobody can tell which of the files is right, so none of them is obeyed.

Two definitions are one object where they have one name, and they make one CRD where their kinds have one plural. A file with that CRD defines the
kind, too.
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
    """`places` are, by kind, all at which that is defined; `crds` the names of CRDs that stand in several, and describe nothing therefore;
    `problems` name all places, each at its own.
    """

    places: Mapping[GroupKind, tuple[SourceLocation, ...]] = field(default_factory=dict)
    crds: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()

    def describe(self, kind: GroupKind) -> str:
        """Where a kind is defined, to follow its name; empty where that is not more than once."""
        places = self.places.get(kind)
        return f"is declared at {_describe(places)}" if places else ""


class _Declaration(NamedTuple):
    """What says of a kind what it is; `kind` is None for a plain CRD."""

    kind: GroupKind | None
    origin: SourceLocation
    path: str


def find_duplicate_definitions(contents: Iterable[FileContent]) -> DuplicateDefinitions:
    """Definitions of one name or one CRD, those included that do not build, and CRDs beside a definition of their kind."""
    by_crd, by_name = _groups(contents)
    places: dict[GroupKind, list[SourceLocation]] = {}
    problems: list[Problem] = []
    for name, group in (*by_crd.items(), *by_name.items()):
        if len(group) == 1 or all(one.kind is None for one in group):
            continue
        for one in group:
            problems.append(_problem(name, one, group))
            if one.kind is not None:
                places.setdefault(one.kind, []).extend(other.origin for other in group)
    return DuplicateDefinitions(
        {kind: tuple(sorted(set(origins), key=str)) for kind, origins in places.items()},
        frozenset(name for name, group in by_crd.items() if len(group) > 1),
        tuple(problems),
    )


def _problem(name: str, declaration: _Declaration, group: Iterable[_Declaration]) -> Problem:
    message = f"{name} is declared at {_describe(one.origin for one in group)}, and none of these is obeyed; keep one"
    return Problem(declaration.origin.file, declaration.origin.line, declaration.path, message)


def _describe(places: Iterable[SourceLocation]) -> str:
    return join_names(places, separator=" and ")


_Groups = Mapping[str, list[_Declaration]]


def _groups(contents: Iterable[FileContent]) -> tuple[_Groups, _Groups]:
    """All declarations by the CRD that they are or make; and definitions by their own names, where these are those of several kinds."""
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
    return by_crd, {name: group for name, group in by_name.items() if len({one.kind for one in group}) > 1}
