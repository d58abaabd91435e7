"""What was rendered before, so that only what changed is rendered again.

Invariant: with or without a memo the rendering is the same. A set is a function of its definition, its instance, the definitions and scopes of its
nodes' kinds, what selections found, and the live objects that were looked at while it was made; it is taken from the memo only when all of
these are as they were. A live object is as it was when its uid and resourceVersion are; of the instance itself only what is read back of it counts,
so that its own status does not have it rendered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from renderer.content import Declared, placed
from renderer.definition import Definition
from renderer.errors import Problem
from renderer.families import Family, Ground, Reading, Standing
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.implied import outline
from renderer.model import Live, RenderedNode, RenderedSet, Selected
from renderer.order import Order, Uses
from renderer.resolve import read_back, resolve, with_defaults
from renderer.schema import SchemaMistake

_Place = tuple[ObjectKey, str]
"""An instance, and the content of the definition: one that waits for its turn is rendered from two."""

_Root = tuple[str, ObjectKey]
"""A source, and an instance that it declares."""

_Version = tuple[str | int, ...] | None
"""Of a live object: its uid, its resourceVersion, and how much of it was read (metadata alone, or all); of the instance itself what is read back."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a rendering has in common for all its instances."""

    live: Live
    definitions: Mapping[GroupKind, Definition]
    scopes: Mapping[GroupKind, bool]
    selected: Selected


@dataclass(frozen=True, slots=True)
class _Entry:
    definition: Definition
    manifest: Manifest
    source: str
    owner: ObjectKey | None
    kinds: tuple[tuple[GroupKind, Definition | None, bool | None], ...]
    seen: Mapping[ObjectKey, _Version]
    selected: Selected
    own: ObjectKey | None
    rendered: RenderedSet


@dataclass(frozen=True, slots=True)
class _Defaulted:
    definition: Definition
    declared: Declared
    manifest: Manifest
    mistakes: list[SchemaMistake]


@dataclass(frozen=True, slots=True)
class _Placed:
    declared: Declared
    namespaced: bool
    node: RenderedNode


@dataclass(frozen=True, slots=True)
class _Levelled:
    nodes: Mapping[ObjectKey, RenderedNode]
    uses: Uses
    ordered: tuple[RenderedNode, ...]
    problems: list[Problem]

    def following(self, nodes: Mapping[ObjectKey, RenderedNode]) -> _Levelled | None:
        """With these nodes in the same order; None where something differs that the order, or what is wrong with it, is made of."""
        if self.nodes == nodes:
            return self
        if self.problems or self.nodes.keys() != nodes.keys():
            return None
        changed = [key for key, node in nodes.items() if node != self.nodes[key]]
        if any(outline(self.nodes[key].manifest, key) != outline(nodes[key].manifest, key) for key in changed):
            return None
        places = {key: nodes[key] for key in changed}
        ordered = tuple(
            new.placed(node.level, node.depends_on, node.healthy_first)
            if node.key and (new := places.get(node.key))
            else node
            for node in self.ordered
        )
        return _Levelled(nodes, self.uses, ordered, self.problems)


@dataclass(slots=True)
class _Used:
    """What of the memo went into one family."""

    sets: dict[_Place, _Entry] = field(default_factory=dict)
    instances: dict[_Place, _Defaulted] = field(default_factory=dict)

    def reading(self, live: Live) -> Reading:
        seen = {key for one in self.sets.values() for key in one.seen if key != one.own}
        return Reading.of(seen, {one.own for one in self.sets.values() if one.own}, live)


@dataclass
class Memo:
    """The only mutable thing in rendering; owned by whoever renders again and again. What is no longer asked for is forgotten by `turn`."""

    _sets: dict[_Place, _Entry] = field(default_factory=dict)
    _new_sets: dict[_Place, _Entry] = field(default_factory=dict)
    _instances: dict[_Place, _Defaulted] = field(default_factory=dict)
    _new_instances: dict[_Place, _Defaulted] = field(default_factory=dict)
    _placed: dict[int, _Placed] = field(default_factory=dict)
    _new_placed: dict[int, _Placed] = field(default_factory=dict)
    _families: dict[_Root, tuple[Family, _Used]] = field(default_factory=dict)
    _new_families: dict[_Root, tuple[Family, _Used]] = field(default_factory=dict)
    _levelled: dict[str, _Levelled] = field(default_factory=dict)
    _ground: Ground | None = None
    _used: _Used = field(default_factory=_Used)
    _is_part: bool = False

    def part(self) -> Memo:
        """For renderings of a part of what was rendered last: they share what is remembered, and forget nothing of the rest."""
        sets, instances, places = (
            (self._sets, self._new_sets),
            (self._instances, self._new_instances),
            (self._placed, self._new_placed),
        )
        families = self._families, self._new_families
        return Memo(*sets, *instances, *places, *families, _ground=self._ground, _is_part=True)

    @property
    def size(self) -> int:
        """Sets that are remembered."""
        return len(self._sets) + len(self._new_sets)

    def turn(self) -> None:
        """A new rendering begins."""
        if self._is_part:
            return
        self._sets, self._new_sets = self._new_sets, {}
        self._instances, self._new_instances = self._new_instances, {}
        self._placed, self._new_placed = self._new_placed, {}
        self._families, self._new_families = self._new_families, {}

    def on(self, ground: Ground) -> Ground:
        """The ground of before where it is equal: so it takes one comparison for all families."""
        if self._ground is None or self._ground != ground:
            self._ground = ground
        return self._ground

    def family(
        self, source: str, declared: Declared, key: ObjectKey, ground: Ground, standing: Standing, live: Live
    ) -> Family | None:
        """What this instance came to last, if it can come to nothing else. Without, what is rendered from here on is its family."""
        root, self._used = (source, key), _Used()
        known = self._new_families.get(root) or self._families.get(root)
        if known is None or not known[0].holds(declared, ground, standing, live):
            return None
        family, used = self._new_families[root] = known
        self._new_sets |= used.sets
        self._new_instances |= used.instances
        return family

    def keep(
        self,
        source: str,
        declared: Declared,
        ground: Ground,
        standing: Standing,
        live: Live,
        node: RenderedNode,
        sets: Mapping[ObjectKey, RenderedSet],
        problems: Iterable[Problem],
    ) -> None:
        """What was rendered since `family` was asked is this."""
        assert node.key
        known = tuple(map(standing.of, sets))
        others = tuple({one.key for it in sets.values() for one in it.nodes if one.key} - sets.keys())
        family = Family(declared, ground, node, sets, others, tuple(problems), known, self._used.reading(live))
        self._new_families[source, node.key] = family, self._used

    def placed(self, declared: Declared, *, namespaced: bool) -> RenderedNode:
        """As `content.placed`."""
        known = self._new_placed.get(id(declared)) or self._placed.get(id(declared))
        if known is None or known.declared is not declared or known.namespaced is not namespaced:
            known = _Placed(declared, namespaced, placed(declared, namespaced=namespaced))
        self._new_placed[id(declared)] = known
        return known.node

    def levelled(
        self, source: str, nodes: dict[ObjectKey, RenderedNode], uses: Uses
    ) -> tuple[tuple[RenderedNode, ...], list[Problem]]:
        """As `Order.levelled`, with the mistakes that it found."""
        known = self._levelled.get(source)
        if known is None or known.uses != uses or (known := known.following(nodes)) is None:
            order = Order(uses)
            known = _Levelled(nodes, uses, order.levelled(nodes), order.problems)
        self._levelled[source] = known
        return known.ordered, known.problems

    def with_defaults(
        self, definition: Definition, declared: Declared, key: ObjectKey, manifest: Manifest
    ) -> tuple[Manifest, list[SchemaMistake]]:
        """As `resolve.with_defaults` of the manifest, which is `declared` at `key`."""
        place = key, definition.digest
        known = self._new_instances.get(place) or self._instances.get(place)
        if known is None or known.definition is not definition or known.declared is not declared:
            known = _Defaulted(definition, declared, *with_defaults(definition, manifest))
        self._new_instances[place] = self._used.instances[place] = known
        return known.manifest, known.mistakes

    def resolve(
        self, definition: Definition, manifest: Manifest, around: Surroundings, *, source: str, owner: ObjectKey
    ) -> RenderedSet:
        """As `resolve.resolve`."""
        place = ObjectKey.of(manifest), definition.digest
        kinds = tuple(
            (node.group_kind, around.definitions.get(node.group_kind), around.scopes.get(node.group_kind))
            for node in definition.nodes
        )
        known = self._new_sets.get(place) or self._sets.get(place)
        if known is None or not _holds(known, definition, manifest, around, kinds, source, owner):
            own = _own(definition, manifest)
            seen = _Seen(around.live, own)
            rendered = resolve(
                definition,
                manifest,
                observed=seen,
                definitions=around.definitions,
                scopes=around.scopes,
                selected=around.selected,
                source=source,
                owner=owner,
            )
            known = _Entry(definition, manifest, source, owner, kinds, seen.versions, around.selected, own, rendered)
        self._new_sets[place] = self._used.sets[place] = known
        return known.rendered


def _holds(
    known: _Entry,
    definition: Definition,
    manifest: Manifest,
    around: Surroundings,
    kinds: tuple[tuple[GroupKind, Definition | None, bool | None], ...],
    source: str,
    owner: ObjectKey,
) -> bool:
    return (
        known.definition is definition
        and (known.manifest is manifest or known.manifest == manifest)
        and (known.source, known.owner) == (source, owner)
        and all(a[1] is b[1] and a[2] == b[2] for a, b in zip(known.kinds, kinds, strict=True))
        and known.selected == around.selected
        and all(_version(around.live.get(key), key == known.own) == version for key, version in known.seen.items())
    )


def _own(definition: Definition, manifest: Manifest) -> ObjectKey | None:
    """The instance itself, of which nothing is read but `resolve.read_back`, unless one of its nodes is of its own kind."""
    key = ObjectKey.of(manifest)
    return None if any(node.group_kind == key.group_kind for node in definition.nodes) else key


def _version(obj: Mapping[str, Any] | None, is_own: bool) -> _Version:
    if obj is None:
        return None
    if is_own:
        return read_back(obj)
    metadata = obj["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", ""), len(obj)


class _Seen(Mapping[ObjectKey, Mapping[str, Any]]):
    """Live objects, and a note of which were asked for."""

    def __init__(self, live: Live, own: ObjectKey | None) -> None:
        self._live = live
        self._own = own
        self.versions: dict[ObjectKey, _Version] = {}

    def __getitem__(self, key: ObjectKey) -> Mapping[str, Any]:
        found = self._live.get(key)
        self.versions[key] = _version(found, key == self._own)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)
