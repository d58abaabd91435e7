"""What instances came to when they were rendered last, so that one at which nothing has changed is not even looked into.

Invariant: with or without what is remembered the rendering is the same. A family is an instance of a source with all that are nested in it. It is a
function of how it is declared, of where its members stand in their rollouts and what they were last brought to, of the live objects that they read,
and of the ground that is common to all. Live objects are compared by identity, of a member itself only what is read back of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import is_
from typing import NamedTuple

from renderer.catalog.file_content import DeclaredObject
from renderer.definition.compile import Definition
from renderer.definition.kind_schemas import KindSchemas
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.render.model import Live, RenderedApplySet, RenderedNode, Selected
from renderer.render.resources import instance_metadata_read
from renderer.render.revisions import AppliedSnapshot, DefinitionRevision


class RevisionPlacement(NamedTuple):
    """Revisions of an instance: the one that it is rendered from, and the one that it is to move to; 0: the newest."""

    revision: int = 0
    aim: int = 0


_NOWHERE = RevisionPlacement()


@dataclass(frozen=True, slots=True)
class SharedRenderInputs:
    """What every family rests on: definitions with their numbers, kinds that cannot be rendered and why, how kinds are scoped and described, what
    selections found, and which revisions there are.
    """

    definitions: Mapping[GroupKind, Definition]
    numbers: Mapping[GroupKind, int]
    held: Mapping[GroupKind, str]
    defined: Mapping[GroupKind, str]
    scopes: Mapping[GroupKind, bool]
    selected: Selected
    revisions: Mapping[GroupKind, tuple[DefinitionRevision, ...]]
    types: Collection[KindSchemas]


Stands = tuple[int, int, AppliedSnapshot | None, bool]
"""The revisions of an instance as in `Place`, with the newest by its number; what it was last brought to; and whether it waits at a gate."""


@dataclass(frozen=True, slots=True)
class InstanceRevisions:
    """What is known of instances beside what is declared; `newest` are the numbers of revisions by kind."""

    places: Mapping[ObjectKey, RevisionPlacement]
    applied: Mapping[ObjectKey, AppliedSnapshot]
    gated: Collection[ObjectKey]
    newest: Mapping[GroupKind, int]

    def of(self, key: ObjectKey) -> Stands:
        place = self.places.get(key, _NOWHERE)
        aim = place.aim or self.newest.get(key.group_kind, 0)
        return place.revision or aim, aim, self.applied.get(key), key in self.gated


@dataclass(frozen=True, slots=True)
class ReadSet:
    """Live objects that were looked at, with what was found; of those that are `own`, members themselves, what is read back."""

    keys: tuple[ObjectKey, ...]
    found: tuple[Mapping[str, object] | None, ...]
    own: tuple[ObjectKey, ...]
    read_back: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def of(cls, keys: Collection[ObjectKey], own: Collection[ObjectKey], live: Live) -> ReadSet:
        return cls(
            tuple(keys),
            tuple(map(live.get, keys)),
            tuple(own),
            tuple(instance_metadata_read(live.get(key)) for key in own),
        )

    def is_valid_for(self, live: Live) -> bool:
        """Would the same be found?"""
        return (
            all(map(is_, map(live.get, self.keys), self.found))
            and tuple(instance_metadata_read(live.get(key)) for key in self.own) == self.read_back
        )


@dataclass(frozen=True, slots=True)
class CachedRoot:
    """`node` is the instance in the set of its source, `sets` are those of its members, `others` the objects that they name, `problems` the mistakes
    that were found, `standing` is what was known of each member.
    """

    declared: DeclaredObject
    ground: SharedRenderInputs
    node: RenderedNode
    sets: Mapping[ObjectKey, RenderedApplySet]
    others: tuple[ObjectKey, ...]
    problems: tuple[Problem, ...]
    standing: tuple[Stands, ...]
    reading: ReadSet

    def is_valid_for(
        self, declared: DeclaredObject, ground: SharedRenderInputs, standing: InstanceRevisions, live: Live
    ) -> bool:
        """Would it come to the same?"""
        return (
            self.declared is declared
            and self.ground is ground
            and self.reading.is_valid_for(live)
            and tuple(map(standing.of, self.sets)) == self.standing
            and standing.applied.keys().isdisjoint(self.others)
        )
