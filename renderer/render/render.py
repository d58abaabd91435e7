"""Everything that the sources of one cluster want, as sets of nodes in levels.

Each source has one set: the CRDs of its definitions, its plain objects and its instances, ordered by implied edges. Each instance, nested ones
too, has one set: its children. The catalog is the union over the sources; a group and kind is defined by one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject
from renderer.definition import crd
from renderer.definition.compile import Definition
from renderer.errors import Problem
from renderer.identity import GroupKind, Manifest, ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD, is_namespaced, scopes_of
from renderer.render.cache import RenderCache
from renderer.render.duplicates import DeclaredNodes, MadeTwice, find_made_twice, refuse_made
from renderer.render.instance_cache import InstanceRevisions, RevisionPlacement, SharedRenderInputs
from renderer.render.instances import InstanceOwner, InstanceRenderer, InstanceRendering
from renderer.render.model import NewRevision, RenderedApplySet, RenderedNode, Rendering
from renderer.render.order import source_node, uses_of
from renderer.render.revision_selection import RevisionSelection
from renderer.render.revisions import AppliedSnapshot
from renderer.render.set_cache import SetInputs
from renderer.render.world import ClusterView
from renderer.schema import SchemaMistake


def render(catalogs: Sequence[Catalog], world: ClusterView | None = None, memo: RenderCache | None = None) -> Rendering:
    """Render all sources of one cluster. Pure: equal input, equal output, in a stable order; a `memo` only saves work."""
    memo = memo or RenderCache()
    memo.evict_unused()
    return _Render(catalogs, world or ClusterView(), memo).bundle()


class _Render:
    def __init__(self, catalogs: Sequence[Catalog], world: ClusterView, memo: RenderCache) -> None:
        self.catalogs = catalogs
        self.world = world
        self.memo = memo
        self.definitions = RevisionSelection(
            catalogs, world.stored, world.live, world.objects_of_kind, world.owners, world.types
        )
        self.problems: list[Problem] = [problem for catalog in catalogs for problem in catalog.problems]
        self.problems += [problem for _, problem in self.definitions.problems]
        crds = [definition.crd for definition in self.definitions.current.values()]
        declared_crds = [
            (item.manifest["metadata"]["name"] in catalog.duplicates.crds, item.manifest)
            for catalog in catalogs
            if CRD in catalog.kinds
            for item in catalog.objects
            if item.group_kind == CRD
        ]
        clear_crds = [manifest for is_duplicate, manifest in declared_crds if not is_duplicate]
        contradicting = scopes_of(manifest for is_duplicate, manifest in declared_crds if is_duplicate)
        nested_crds = [crd for definition in self.definitions.current.values() for crd in definition.declared_crds]
        foreign = scopes_of(one.crd for one in world.types.described.values())
        self.scopes = {
            **foreign,
            **contradicting,
            **world.scopes,
            **scopes_of([*crds, *clear_crds, *nested_crds]),
        }
        self.inputs = _Inputs(self.definitions, self.scopes, world, memo)
        self.instances = InstanceRenderer(self.inputs)

    def bundle(self) -> Rendering:
        declared = {catalog.source: self._declared(catalog, {}) for catalog in self.catalogs}
        if made_twice := self._find_made_twice():
            declared = self._declared_without(made_twice)
        for catalog in self.catalogs:
            self._keep_unreadable(catalog)
        sources = {catalog.source: self._source(catalog, declared[catalog.source]) for catalog in self.catalogs}
        ordered = sorted(self.instances.sets.items(), key=lambda item: item[0].by_kind)
        return Rendering(
            sources=sources,
            instances=dict(ordered),
            leaving=dict(self._leaving()),
            former=dict(self._former()),
            problems=tuple(sorted({*self.problems, *self.instances.problems})),
            issued=tuple(self._issued(sources)),
            unread=frozenset(self.definitions.unread),
            definitions=self.definitions.current,
            owners=self.definitions.owner,
            commits={catalog.source: catalog.commit for catalog in self.catalogs},
        )

    def _leaving(self) -> Iterator[tuple[ObjectKey, RenderedApplySet]]:
        """Gated instances that nothing wants any more, as they were applied."""
        for key in sorted(set(self.world.gated) - self.instances.sets.keys()):
            pair = self.world.stored.applied.get(key)
            if pair and (found := self.instances.before(key, InstanceOwner.of_source(pair.source))):
                yield key, found

    def _former(self) -> Iterator[tuple[ObjectKey, RenderedApplySet]]:
        """Instances of these sources that nothing wants any more and that read something, as they were applied."""
        read_sources = {catalog.source for catalog in self.catalogs}
        for key, pair in sorted(self.world.stored.applied.items()):
            is_unwanted = key not in self.instances.sets and key in self.world.live
            reads = is_unwanted and pair.source in read_sources and self.instances.has_references(key)
            if reads and (found := self.instances.before(key, InstanceOwner.of_source(pair.source))):
                yield key, found

    def _issued(self, sources: Mapping[str, RenderedApplySet]) -> Iterator[NewRevision]:
        catalogs = {catalog.source: catalog for catalog in self.catalogs}
        for kind, definition in sorted(self.definitions.issued.items()):
            source = self.definitions.owner[kind]
            if not sources[source].error:
                number, catalog = self.definitions.numbers[kind], catalogs[source]
                yield NewRevision(
                    kind,
                    number,
                    definition.digest,
                    definition.manifest,
                    source,
                    catalog.commit,
                    catalog.author,
                    catalog.message,
                )

    def _source(self, catalog: Catalog, declared: Iterable[RenderedNode]) -> RenderedApplySet:
        defined = sorted({*catalog.definitions, *catalog.broken})
        crds = [self._crd(catalog, kind) for kind in defined if self.definitions.owner[kind] == catalog.source]
        nodes = self._by_key(chain(crds, declared))
        levelled, problems = self.memo.levelled(catalog.source, nodes, uses_of(nodes, self.instances.sets))
        self.problems += problems
        mistakes = tuple(problem for source, problem in self.definitions.problems if source == catalog.source)
        return self.memo.kept(
            RenderedApplySet(
                source_parent(catalog.source),
                nodes=levelled,
                source=catalog.source,
                is_applied=catalog.source in self.world.settled,
                problems=mistakes,
            )
        )

    def _crd(self, catalog: Catalog, kind: GroupKind) -> RenderedNode:
        """The CRD of a definition, as wide as the revisions need that instances are at."""
        origin = catalog.broken.get(kind) or catalog.definitions[kind].origin
        if why := self.definitions.held.get(kind) or self.definitions.refused.get(kind):
            return source_node(
                {}, crd.key_of(kind), origin, error=f"the definition of {kind} {why}; its CRD stays as it is"
            )
        in_use: dict[int, ObjectKey] = {}
        for key, rendered in self.instances.sets.items():
            if key.group_kind == kind and rendered.revision and rendered.revision != self.definitions.numbers[kind]:
                in_use.setdefault(rendered.revision, key)
        manifest, contradiction = self.definitions.crd(kind, in_use)
        if not contradiction:
            return source_node(manifest, crd.key_of(kind), origin)
        at = ", ".join(f"{key} is at revision {number}" for number, key in sorted(in_use.items()))
        advice = f'repair the instance, or allow it with the annotation {well_known.ALLOW_BREAKING}: "true"'
        error = f"no schema serves all revisions of {kind} in use ({contradiction}; {at}); {advice}"
        self.problems.append(Problem(origin.file, origin.line, "spec.schema", error))
        return source_node(manifest, crd.key_of(kind), origin, error=error)

    def _by_key(self, found: Iterable[RenderedNode]) -> dict[ObjectKey, RenderedNode]:
        """Of those with one key the first: the CRD of a definition before a file with it, and else one of several that are refused."""
        nodes: dict[ObjectKey, RenderedNode] = {}
        for node in found:
            assert node.key is not None
            nodes.setdefault(node.key, node)
        return nodes

    def _find_made_twice(self) -> dict[str, dict[ObjectKey, MadeTwice]]:
        """By source, what it declares and an instance of it makes as well."""
        found = {}
        for catalog in self.catalogs:
            overlapping = {
                definition.name
                for definition in self.definitions.current.values()
                if any(node.group_kind in catalog.kinds for node in definition.nodes)
            }
            sets = (
                rendered
                for rendered in (self.instances.sets.values() if overlapping else ())
                if rendered.source == catalog.source and rendered.definition in overlapping
            )
            if made_twice := find_made_twice(self._placed(catalog).by_key, sets):
                found[catalog.source] = made_twice
        return found

    def _declared_without(
        self, made_twice: Mapping[str, Mapping[ObjectKey, MadeTwice]]
    ) -> dict[str, Sequence[RenderedNode]]:
        """What stands in Git as nodes, rendered anew without what is made twice: an instance that is, is held before anybody renders it."""
        self.instances = InstanceRenderer(self.inputs)
        declared = {
            catalog.source: self._declared(catalog, made_twice.get(catalog.source, {})) for catalog in self.catalogs
        }
        self.instances.sets = {
            key: refuse_made(rendered, made_twice.get(rendered.source, {}))
            for key, rendered in self.instances.sets.items()
        }
        return declared

    def _declared(self, catalog: Catalog, made_twice: Mapping[ObjectKey, MadeTwice]) -> Sequence[RenderedNode]:
        """What stands in Git as nodes: instances with all that is nested in them, everything else as it is, and what is declared twice in error."""
        declared = self._placed(catalog).without_made(made_twice)
        self.problems += declared.problems
        instances = {kind for kind in catalog.kinds if self.instances.is_instance(kind)}
        if not instances:
            return declared.nodes
        for key in sorted(declared.refused):
            if key.group_kind in instances:
                node, owner = declared.by_key[key], self._holder(catalog.source, key, made_twice.get(key))
                self.instances.hold(key, node.mistake, node.manifest, owner)
        return [
            self._instance(catalog.source, one, node)
            if one.group_kind in instances and node.key not in declared.refused
            else node
            for one, node in zip(catalog.objects, declared.nodes, strict=True)
        ]

    def _placed(self, catalog: Catalog) -> DeclaredNodes:
        return self.memo.placed(catalog, {kind: is_namespaced(kind, self.scopes) for kind in catalog.kinds})

    def _holder(self, source: str, key: ObjectKey, made_twice: MadeTwice | None) -> InstanceOwner:
        """Who has an instance that is refused: the instance that makes it as well, or the source."""
        live = self.world.live.get(key)
        set_id = (live["metadata"].get("labels") or {}).get(well_known.PART_OF) if live else ""
        is_made = made_twice is not None and set_id == applyset_id(made_twice.maker)
        return InstanceOwner(source, made_twice.maker) if made_twice and is_made else InstanceOwner.of_source(source)

    def _instance(self, source: str, declared: DeclaredObject, found: RenderedNode) -> RenderedNode:
        assert found.key is not None
        if error := self.instances.undefined(declared.group_kind):
            self.instances.hold(
                found.key, found.origin.prefixed(error), found.manifest, InstanceOwner.of_source(source)
            )
            return replace(found, error=found.error or error)
        return self._family(source, declared, found.manifest, found.key)

    def _family(self, source: str, declared: DeclaredObject, manifest: Manifest, key: ObjectKey) -> RenderedNode:
        """The node of an instance in the set of its source. It is rendered with all that are nested in it, or is as it was last, where nothing of
        that has changed.
        """
        instances, inputs, live = self.instances, self.inputs, self.world.live
        known = self.memo.family(source, declared, key, inputs.ground, inputs.standing, live)
        if known and instances.sets.keys().isdisjoint(known.sets):
            instances.sets |= known.sets
            instances.problems += known.problems
            return known.node
        sets, problems = len(instances.sets), len(instances.problems)
        node = instances.declared(source, declared, manifest, key)
        if not (instances.is_shared or self.definitions.unread):
            mine = dict(islice(reversed(instances.sets.items()), len(instances.sets) - sets))
            found = instances.problems[problems:]
            self.memo.keep(source, declared, inputs.ground, inputs.standing, live, node, mine, found)
        return node

    def _keep_unreadable(self, catalog: Catalog) -> None:
        """Members of the source's set that stood in a file which cannot be read are still wanted: as they were last."""
        unreadable = catalog.unreadable_files
        if not unreadable:
            return
        owner = InstanceOwner.of_source(catalog.source)
        for key, pair in self.world.stored.applied.items():
            live = self.world.live.get(key)
            if live is None or key in self.instances.sets or pair.source != catalog.source:
                continue
            metadata = live["metadata"]
            file = (metadata.get("annotations") or {}).get(well_known.SOURCE_FILE, "")
            is_member = (metadata.get("labels") or {}).get(well_known.PART_OF) == applyset_id(owner.parent)
            if is_member and catalog.protection.protects(file):
                why = f"its file {file} cannot be read" if file in unreadable else f"its file {file} is gone"
                self.instances.hold(key, f"{why}; the instance stays as it is", {}, owner)


class _Inputs:
    """Inputs of the renderer of instances, from a selection of definitions and a view of the cluster."""

    def __init__(
        self, definitions: RevisionSelection, scopes: Mapping[GroupKind, bool], world: ClusterView, memo: RenderCache
    ) -> None:
        self._definitions = definitions
        self._world = world
        self._memo = memo
        self._around = SetInputs(world.live, definitions.current, scopes, world.selected)
        self.standing = InstanceRevisions(world.places, world.stored.applied, world.gated, definitions.numbers)
        self.ground = memo.on(
            SharedRenderInputs(
                definitions.current,
                definitions.numbers,
                definitions.held,
                world.defined,
                scopes,
                world.selected,
                world.stored.revisions,
                tuple(definitions.known.values()),
            )
        )

    def current(self, kind: GroupKind) -> Definition | None:
        return self._definitions.current.get(kind)

    def newest(self, kind: GroupKind) -> int:
        return self._definitions.numbers[kind]

    def definition_at(self, kind: GroupKind, number: int) -> Definition | None:
        return self._definitions.at(kind, number)

    def held_reason(self, kind: GroupKind) -> str:
        return self._definitions.held.get(kind, "")

    def installed_name(self, kind: GroupKind) -> str:
        return self._world.defined.get(kind, "")

    def placement(self, instance: ObjectKey) -> RevisionPlacement:
        return self._world.places.get(instance, RevisionPlacement())

    def applied(self, instance: ObjectKey) -> AppliedSnapshot | None:
        return self._world.stored.applied.get(instance)

    def is_gated(self, instance: ObjectKey) -> bool:
        return instance in self._world.gated

    def read_record(self, record: str) -> None:
        self._definitions.unread.add(record)

    def with_defaults(
        self, rendering: InstanceRendering, definition: Definition, declared: DeclaredObject, manifest: Manifest
    ) -> tuple[Manifest, Sequence[SchemaMistake]]:
        return self._memo.with_defaults(definition, declared, rendering.instance, manifest)

    def resolve(self, rendering: InstanceRendering, definition: Definition, manifest: Manifest) -> RenderedApplySet:
        source, owner = rendering.owner
        return self._memo.resolve(definition, manifest, self._around, source=source, owner=owner)
