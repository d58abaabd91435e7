"""What was rendered before, so that only what changed is rendered again.

Invariant: with or without a memo the rendering is the same. A set is taken from the memo only when it would come to
the same (`renderer.render.set_cache`), an
instance with all that are nested in it likewise (`renderer.render.instance_cache`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.definition.compile import Definition
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.graph.implied_edges import edge_inputs
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.render.duplicates import DeclaredNodes, refuse_duplicates
from renderer.render.instance_cache import CachedRoot, InstanceRevisions, ReadSet, SharedRenderInputs
from renderer.render.model import Live, RenderedApplySet, RenderedNode, is_same_node, is_same_set
from renderer.render.order import SourceOrder, Uses, declared_node
from renderer.render.resources import with_defaults
from renderer.render.set_cache import CachedSet, SetInputs
from renderer.schema import SchemaMistake
from renderer.two_generation_cache import TwoGenerationCache

_Place = tuple[ObjectKey, str]
"""An instance, and the content of the definition: one that waits for its turn is rendered from two."""

_Root = tuple[str, ObjectKey]
"""A source, and an instance that it declares."""


@dataclass(frozen=True, slots=True)
class _Defaulted:
    definition: Definition
    declared: DeclaredObject
    manifest: Manifest
    mistakes: list[SchemaMistake]


@dataclass(frozen=True, slots=True)
class _Placed:
    declared: DeclaredObject
    namespaced: bool
    node: RenderedNode


@dataclass(frozen=True, slots=True)
class _Listed:
    """The nodes of all objects of a catalog, and what is remembered of each."""

    objects: tuple[DeclaredObject, ...]
    namespaced: Mapping[GroupKind, bool]
    declared: DeclaredNodes
    each: Mapping[int, _Placed]


@dataclass(frozen=True, slots=True)
class _Levelled:
    nodes: Mapping[ObjectKey, RenderedNode]
    uses: Uses
    ordered: tuple[RenderedNode, ...]
    problems: list[Problem]

    def following(self, nodes: Mapping[ObjectKey, RenderedNode]) -> _Levelled | None:
        """With these nodes in the same order; None where something differs that the order, or what is wrong with it, is made of."""
        is_alike = self.nodes.keys() == nodes.keys()
        changed = [key for key, node in nodes.items() if not is_same_node(self.nodes[key], node)] if is_alike else []
        if is_alike and not changed:
            return self
        if self.problems or not is_alike:
            return None
        if any(edge_inputs(self.nodes[key].manifest, key) != edge_inputs(nodes[key].manifest, key) for key in changed):
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

    sets: dict[_Place, CachedSet] = field(default_factory=dict)
    instances: dict[_Place, _Defaulted] = field(default_factory=dict)

    def reading(self, live: Live) -> ReadSet:
        seen = {key for one in self.sets.values() for key in one.seen if key != one.own}
        return ReadSet.of(seen, {one.own for one in self.sets.values() if one.own}, live)


@dataclass
class RenderCache:
    """The only mutable thing in rendering; owned by whoever renders again and again. What is no longer asked for is forgotten by `turn`."""

    _sets: TwoGenerationCache[_Place, CachedSet] = field(default_factory=TwoGenerationCache)
    _instances: TwoGenerationCache[_Place, _Defaulted] = field(default_factory=TwoGenerationCache)
    _placed: TwoGenerationCache[int, _Placed] = field(default_factory=TwoGenerationCache)
    _families: TwoGenerationCache[_Root, tuple[CachedRoot, _Used]] = field(default_factory=TwoGenerationCache)
    _listed: dict[str, _Listed] = field(default_factory=dict)
    _levelled: dict[str, _Levelled] = field(default_factory=dict)
    _sources: dict[str, RenderedApplySet] = field(default_factory=dict)
    _ground: SharedRenderInputs | None = None
    _used: _Used = field(default_factory=_Used)

    def evict_unused(self) -> None:
        """A new rendering begins."""
        for one in (self._sets, self._instances, self._placed, self._families):
            one.evict_unused()

    def on(self, ground: SharedRenderInputs) -> SharedRenderInputs:
        """The ground of before where it is equal: so it takes one comparison for all families."""
        if self._ground is None or self._ground != ground:
            self._ground = ground
        return self._ground

    def family(
        self,
        source: str,
        declared: DeclaredObject,
        key: ObjectKey,
        ground: SharedRenderInputs,
        standing: InstanceRevisions,
        live: Live,
    ) -> CachedRoot | None:
        """What this instance came to last, if it can come to nothing else. Without, what is rendered from here on is its family."""
        root, self._used = (source, key), _Used()
        known = self._families.get(root)
        if known is None or not known[0].is_valid_for(declared, ground, standing, live):
            return None
        family, used = self._families.current[root] = known
        self._sets.current |= used.sets
        self._instances.current |= used.instances
        return family

    def keep(
        self,
        source: str,
        declared: DeclaredObject,
        ground: SharedRenderInputs,
        standing: InstanceRevisions,
        live: Live,
        node: RenderedNode,
        sets: Mapping[ObjectKey, RenderedApplySet],
        problems: Iterable[Problem],
    ) -> None:
        """What was rendered since `family` was asked is this."""
        assert node.key
        known = tuple(map(standing.of, sets))
        others = tuple({one.key for it in sets.values() for one in it.nodes if one.key} - sets.keys())
        family = CachedRoot(declared, ground, node, sets, others, tuple(problems), known, self._used.reading(live))
        self._families.current[source, node.key] = family, self._used

    def placed(self, catalog: Catalog, namespaced: Mapping[GroupKind, bool]) -> DeclaredNodes:
        """Each of its objects as `declared_node`, without duplicates; of each kind whether it is namespaced."""
        known = self._listed.get(catalog.source)
        if known is None or known.objects is not catalog.objects or known.namespaced != namespaced:
            each = [(one, self._placed_one(one, namespaced[one.group_kind])) for one in catalog.objects]
            declared = refuse_duplicates([found.node for _, found in each])
            known = _Listed(catalog.objects, namespaced, declared, {id(one): found for one, found in each})
        self._listed[catalog.source] = known
        self._placed.current |= known.each
        return known.declared

    def _placed_one(self, declared: DeclaredObject, namespaced: bool) -> _Placed:
        known = self._placed.get(id(declared))
        if known is None or known.declared is not declared or known.namespaced is not namespaced:
            known = _Placed(declared, namespaced, declared_node(declared, namespaced=namespaced))
        return known

    def levelled(
        self, source: str, nodes: dict[ObjectKey, RenderedNode], uses: Uses
    ) -> tuple[tuple[RenderedNode, ...], list[Problem]]:
        """As `Order.levelled`, with the mistakes that it found."""
        known = self._levelled.get(source)
        if known is None or known.uses != uses or (known := known.following(nodes)) is None:
            order = SourceOrder(uses)
            known = _Levelled(nodes, uses, order.levelled(nodes), order.problems)
        self._levelled[source] = known
        return known.ordered, known.problems

    def kept(self, rendered: RenderedApplySet) -> RenderedApplySet:
        """The set of a source: the one of before where it is equal, with all that was worked out of that."""
        known = self._sources.get(rendered.source)
        if known is None or not is_same_set(known, rendered):
            known = self._sources[rendered.source] = rendered
        return known

    def with_defaults(
        self, definition: Definition, declared: DeclaredObject, key: ObjectKey, manifest: Manifest
    ) -> tuple[Manifest, list[SchemaMistake]]:
        """As `resolve.with_defaults` of the manifest, which is `declared` at `key`."""
        place = key, definition.digest
        known = self._instances.get(place)
        if known is None or known.definition is not definition or known.declared is not declared:
            known = _Defaulted(definition, declared, *with_defaults(definition, manifest))
        self._instances.current[place] = self._used.instances[place] = known
        return known.manifest, known.mistakes

    def resolve(
        self, definition: Definition, manifest: Manifest, around: SetInputs, *, source: str, owner: ObjectKey
    ) -> RenderedApplySet:
        """As `resolve.resolve`."""
        place = ObjectKey.from_manifest(manifest), definition.digest
        known = self._sets.get(place)
        if known is None or not known.holds(definition, manifest, around, source=source, owner=owner):
            known = CachedSet.made(definition, manifest, around, source=source, owner=owner)
        self._sets.current[place] = self._used.sets[place] = known
        return known.rendered
