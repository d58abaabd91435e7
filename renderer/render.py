"""Everything that the sources of one cluster want, as sets of nodes in levels.

Each source has one set: the CRDs of its definitions, its plain objects and its instances, ordered by implied edges. Each instance, nested ones
too, has one set: its children. The catalog is the union over the sources; a group and kind is defined by one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from renderer import crd, keys
from renderer.catalog import Catalog
from renderer.content import Declared, source_node
from renderer.definition import Definition
from renderer.definitions import Definitions
from renderer.errors import Problem
from renderer.families import Ground, Place, Standing
from renderer.identity import GroupKind, Manifest, ObjectKey, applyset_id, digest, key_hash, source_parent
from renderer.kinds import CRD, is_namespaced, scopes_of
from renderer.memo import Memo, Surroundings
from renderer.model import Bundle, Issued, Origin, Ready, RenderedNode, RenderedSet
from renderer.order import uses_of
from renderer.resolve import MAX_NODES, told
from renderer.revision import AppliedPair
from renderer.schema import SchemaMistake
from renderer.world import World

MAX_NESTING = 8


class _Assigned(NamedTuple):
    """A definition at a revision, and the number of the revision that the instance is to move to. `travels`: only that one can say what Git wants,
    so the change of the instance goes with the move. `unfit`: why that one cannot say it, so that the instance cannot move.
    """

    definition: Definition
    number: int
    aim: int
    travels: bool = False
    unfit: str = ""


def render(catalogs: Sequence[Catalog], world: World | None = None, memo: Memo | None = None) -> Bundle:
    """Render all sources of one cluster. Pure: equal input, equal output, in a stable order; a `memo` only saves work."""
    memo = memo or Memo()
    memo.turn()
    return _Render(catalogs, world or World(), memo).bundle()


class _Render:
    def __init__(self, catalogs: Sequence[Catalog], world: World, memo: Memo) -> None:
        self.catalogs = catalogs
        self.world = world
        self.memo = memo
        self.definitions = Definitions(catalogs, world.stored, world.live, world.owners, world.types)
        self.problems: list[Problem] = [problem for catalog in catalogs for problem in catalog.problems]
        self.problems += [problem for _, problem in self.definitions.problems]
        crds = [definition.crd for definition in self.definitions.current.values()]
        declared_crds = [item.manifest for catalog in catalogs for item in catalog.objects if item.group_kind == CRD]
        nested_crds = [crd for definition in self.definitions.current.values() for crd in definition.declared_crds]
        foreign = scopes_of(one.crd for one in world.types.described.values())
        self.scopes = {**foreign, **world.scopes, **scopes_of([*crds, *declared_crds, *nested_crds])}
        self.around = Surroundings(world.live, self.definitions.current, self.scopes, world.selected)
        self.instances: dict[ObjectKey, RenderedSet] = {}
        self.standing = Standing(world.places, world.stored.applied, world.gated, self.definitions.numbers)
        self.ground = memo.on(
            Ground(
                self.definitions.current,
                self.definitions.numbers,
                self.definitions.held,
                world.defined,
                self.scopes,
                world.selected,
                world.stored.revisions,
                tuple(self.definitions.known.values()),
            )
        )
        self.nodes_of_instance = 0
        self.is_shared = False

    def bundle(self) -> Bundle:
        declared = {
            catalog.source: [self._declared(catalog.source, item) for item in catalog.objects]
            for catalog in self.catalogs
        }
        for catalog in self.catalogs:
            self._keep_unreadable(catalog)
        sources = {catalog.source: self._source(catalog, declared[catalog.source]) for catalog in self.catalogs}
        ordered = sorted(
            self.instances.items(), key=lambda item: (item[0].kind, item[0].namespace, item[0].name, item[0].group)
        )
        return Bundle(
            sources=sources,
            instances=dict(ordered),
            leaving=dict(self._leaving()),
            problems=tuple(sorted(set(self.problems))),
            issued=tuple(self._issued(sources)),
            unread=frozenset(self.definitions.unread),
            definitions=self.definitions.current,
            owners=self.definitions.owner,
        )

    def _leaving(self) -> Iterator[tuple[ObjectKey, RenderedSet]]:
        """Gated instances that nothing wants any more, as they were applied."""
        for key in sorted(set(self.world.gated) - self.instances.keys()):
            pair = self.world.stored.applied.get(key)
            if pair and (found := self._before(key, pair, source=pair.source, owner=source_parent(pair.source))):
                yield key, found

    def _issued(self, sources: Mapping[str, RenderedSet]) -> Iterator[Issued]:
        for kind, definition in sorted(self.definitions.issued.items()):
            source = self.definitions.owner[kind]
            if not sources[source].error:
                number = self.definitions.numbers[kind]
                yield Issued(kind, number, definition.digest, definition.manifest, source)

    def _source(self, catalog: Catalog, declared: Iterable[RenderedNode]) -> RenderedSet:
        nodes: dict[ObjectKey, RenderedNode] = {}
        for kind in sorted({*catalog.definitions, *catalog.broken}):
            if self.definitions.owner[kind] == catalog.source:
                self._add(nodes, self._crd(catalog, kind))
        for one in declared:
            self._add(nodes, one)
        levelled, problems = self.memo.levelled(catalog.source, nodes, uses_of(nodes, self.instances))
        self.problems += problems
        return RenderedSet(
            source_parent(catalog.source),
            nodes=levelled,
            source=catalog.source,
            is_applied=catalog.source in self.world.settled,
            problems=tuple(problem for source, problem in self.definitions.problems if source == catalog.source),
        )

    def _crd(self, catalog: Catalog, kind: GroupKind) -> RenderedNode:
        """The CRD of a definition, as wide as the revisions need that instances are at."""
        origin = catalog.broken.get(kind) or catalog.definitions[kind].origin
        if why := self.definitions.held.get(kind):
            return source_node(
                {}, crd.key_of(kind), origin, error=f"the definition of {kind} {why}; its CRD stays as it is"
            )
        in_use: dict[int, ObjectKey] = {}
        for key, rendered in self.instances.items():
            if key.group_kind == kind and rendered.revision and rendered.revision != self.definitions.numbers[kind]:
                in_use.setdefault(rendered.revision, key)
        manifest, contradiction = self.definitions.crd(kind, in_use)
        if not contradiction:
            return source_node(manifest, crd.key_of(kind), origin)
        at = ", ".join(f"{key} is at revision {number}" for number, key in sorted(in_use.items()))
        advice = f'repair the instance, or allow it with the annotation {keys.ALLOW_BREAKING}: "true"'
        error = f"no schema serves all revisions of {kind} in use ({contradiction}; {at}); {advice}"
        self.problems.append(Problem(origin.file, origin.line, "spec.schema", error))
        return source_node(manifest, crd.key_of(kind), origin, error=error)

    def _add(self, nodes: dict[ObjectKey, RenderedNode], node: RenderedNode) -> None:
        assert node.key is not None
        if other := nodes.get(node.key):
            message = f"{node.key} stands at {other.origin} already; keep one of the two"
            self.problems.append(Problem(node.origin.file, node.origin.line, "", message))
            return
        nodes[node.key] = node

    def _declared(self, source: str, declared: Declared) -> RenderedNode:
        kind = declared.group_kind
        found = self.memo.placed(declared, namespaced=is_namespaced(kind, self.scopes))
        assert found.key is not None
        if kind in self.definitions.current:
            return self._family(source, declared, found.manifest, found.key)
        if error := self._undefined(kind):
            self._hold(found.key, error, manifest=found.manifest, source=source, owner=source_parent(source))
            return replace(found, error=found.error or error)
        return found

    def _family(self, source: str, declared: Declared, manifest: Manifest, key: ObjectKey) -> RenderedNode:
        """An instance of a source with all that are nested in it; as it was last, where nothing of that has changed."""
        live = self.world.live
        known = self.memo.family(source, declared, key, self.ground, self.standing, live)
        if known and self.instances.keys().isdisjoint(known.sets):
            self.instances |= known.sets
            self.problems += known.problems
            return known.node
        instances, problems = len(self.instances), len(self.problems)
        self.is_shared = key in self.instances
        node = self._instance(source, declared, manifest, key)
        if not (self.is_shared or self.definitions.unread):
            mine = dict(islice(reversed(self.instances.items()), len(self.instances) - instances))
            found = self.problems[problems:]
            self.memo.keep(source, declared, self.ground, self.standing, live, node, mine, found)
        return node

    def _instance(self, source: str, declared: Declared, manifest: Manifest, key: ObjectKey) -> RenderedNode:
        owner = source_parent(source)
        assigned = self._assigned(
            key, lambda one: self.memo.with_defaults(one, declared, key, manifest), source=source, owner=owner
        )
        if assigned.travels:
            self._stay(assigned, key, manifest, source=source, owner=owner)
            turn = f"its turn to move to r{assigned.aim}, which it needs"
            return source_node(manifest, key, declared.origin, error=declared.refused, waiting=(turn,))
        definition = assigned.definition
        manifest, mistakes = self.memo.with_defaults(definition, declared, key, manifest)
        self.problems += [
            Problem(declared.origin.file, declared.line_of(mistake.path), mistake.path, mistake.message)
            for mistake in mistakes
        ]
        error = declared.refused or told(mistakes)
        if assigned.unfit and not error:
            message = f"does not fit revision {assigned.aim} of its definition, so it stays at {assigned.number}: {assigned.unfit}"
            self.problems.append(Problem(declared.origin.file, declared.origin.line, "spec", message))
        if manifest["apiVersion"] != definition.api_version and not error:
            error = f"apiVersion {manifest['apiVersion']} is not served; the definition at {definition.origin} says {definition.api_version}"
            self.problems.append(Problem(declared.origin.file, declared.origin.line, "apiVersion", error))
        if error:
            self._hold(key, error, manifest=manifest, source=source, owner=owner)
        else:
            self._expand(assigned, manifest, key, source=source, owner=owner)
        return source_node(manifest, key, declared.origin, error=error)

    def _assigned(
        self,
        key: ObjectKey,
        at: _AtDefinition,
        *,
        source: str,
        owner: ObjectKey,
    ) -> _Assigned:
        """Which revision an instance is rendered from: its own, unless the one that it is to move to renders the same. `at` gives the instance
        under a definition.
        """
        kind = key.group_kind
        place = self.world.places.get(key, Place())
        newest = self.definitions.numbers[kind]
        aim = self._numbered(kind, place.aim) or _Assigned(self.definitions.current[kind], newest, newest)
        own = self._numbered(kind, place.revision)
        if own is None or own.number == aim.number:
            return aim
        (before, wrong_before), (after, wrong_after) = at(own.definition), at(aim.definition)
        if wrong_before or wrong_after:
            return own._replace(aim=aim.number, travels=not wrong_after, unfit=told(wrong_after))
        resolved = [
            self.memo.resolve(one.definition, manifest, self.around, source=source, owner=owner)
            for one, manifest in ((own, before), (aim, after))
        ]
        return aim if _same(*resolved) and before == after else own._replace(aim=aim.number)

    def _numbered(self, kind: GroupKind, number: int) -> _Assigned | None:
        definition = self.definitions.at(kind, number) if number else None
        return _Assigned(definition, number, number) if definition else None

    def _undefined(self, kind: GroupKind) -> str:
        """Why objects of this kind, which are instances, cannot be rendered; empty for every other kind. They are never plain objects."""
        why = self.definitions.held.get(kind) or ("is not in Git" if kind in self.world.defined else "")
        if not why or kind in self.definitions.current:
            return ""
        return f"the definition of {kind} {why}; the instance stays as it is"

    def _keep_unreadable(self, catalog: Catalog) -> None:
        """Members of the source's set that stood in a file which cannot be read are still wanted: as they were last."""
        unreadable = catalog.unreadable
        if not unreadable:
            return
        owner = source_parent(catalog.source)
        for key, pair in self.world.stored.applied.items():
            live = self.world.live.get(key)
            if live is None or key in self.instances or pair.source != catalog.source:
                continue
            metadata = live["metadata"]
            file = (metadata.get("annotations") or {}).get(keys.SOURCE_FILE, "")
            is_member = (metadata.get("labels") or {}).get(keys.PART_OF) == applyset_id(owner)
            if is_member and catalog.protection.protects(file):
                why = f"its file {file} cannot be read" if file in unreadable else f"its file {file} is gone"
                self._hold(key, f"{why}; the instance stays as it is", manifest={}, source=catalog.source, owner=owner)

    def _hold(
        self, key: ObjectKey, why: str, *, manifest: Manifest, source: str, owner: ObjectKey, depth: int = 0
    ) -> None:
        """What Git wants of an instance cannot be rendered: it is rendered from its applied pair, and without one it stays as it is."""
        pair = self.world.stored.applied.get(key)
        definition = self.definitions.at(key.group_kind, pair.revision) if pair else None
        if pair and pair.manifest is None:
            self.definitions.unread.add(pair.record)
        if pair and pair.manifest is not None and definition:
            at = _Assigned(definition, pair.revision, pair.revision)
            self._expand(at, pair.manifest, key, source=source, owner=owner, held=why, depth=depth)
            return
        name = definition.name if definition else self.world.defined.get(key.group_kind, "")
        self.instances[key] = RenderedSet(
            parent=key, manifest=manifest, error=why, source=source, definition=name, owner=owner
        )

    def _stay(self, assigned: _Assigned, key: ObjectKey, manifest: Manifest, *, source: str, owner: ObjectKey) -> None:
        """An instance whose change only the revision that it is to move to can say: until then it is as it was applied, or nothing."""
        before = self._before(key, self.world.stored.applied.get(key), source=source, owner=owner)
        nothing = RenderedSet(
            key, manifest, source=source, definition=assigned.definition.name, owner=owner, revision=assigned.number
        )
        self.instances[key] = replace(before or nothing, aim=assigned.aim)

    def _before(self, key: ObjectKey, pair: AppliedPair | None, *, source: str, owner: ObjectKey) -> RenderedSet | None:
        """The instance at its applied pair; None where there is none, or it has to be read first."""
        definition = self.definitions.at(key.group_kind, pair.revision) if pair else None
        if pair and pair.manifest is None:
            self.definitions.unread.add(pair.record)
        if not (pair and pair.manifest is not None and definition):
            return None
        found = self.memo.resolve(definition, pair.manifest, self.around, source=source, owner=owner)
        return replace(found, revision=pair.revision, aim=pair.revision, applied=pair.revision, is_applied=True)

    def _expand(
        self,
        assigned: _Assigned,
        manifest: Manifest,
        key: ObjectKey,
        *,
        source: str,
        owner: ObjectKey,
        held: str = "",
        depth: int = 0,
    ) -> None:
        """Render the set of an instance, and of the instances that are nodes of it."""
        definition = assigned.definition
        if depth == 0:
            self.nodes_of_instance = 0
        why = ""
        if depth == MAX_NESTING:
            why = (
                f"instances are nested more than {MAX_NESTING} deep; does {definition.name} create instances of itself?"
            )
        elif self.nodes_of_instance > MAX_NODES:
            why = f"the instance at the top has more than {MAX_NODES:,} objects, nested ones counted"
        if why:
            self.instances[key] = RenderedSet(
                parent=key, manifest=manifest, error=why, source=source, definition=definition.name, owner=owner
            )
            return
        rendered = self.memo.resolve(definition, manifest, self.around, source=source, owner=owner)
        undefined = {kind: why for node in definition.nodes if (why := self._undefined(kind := node.group_kind))}
        nodes = rendered.nodes
        if undefined:
            nodes = tuple(replace(one, error=one.error or undefined.get(one.group_kind, "")) for one in nodes)
        pair = self.world.stored.applied.get(key)
        self.instances[key] = replace(
            rendered,
            nodes=nodes,
            held=held,
            revision=assigned.number,
            aim=assigned.aim,
            unfit=assigned.unfit,
            applied=pair.revision if pair else 0,
            is_applied=pair is not None and pair.digest == digest([assigned.number, manifest]),
            before=self._before(key, pair, source=source, owner=owner) if key in self.world.gated else None,
        )
        self.nodes_of_instance += len(nodes)
        for node in nodes:
            if not node.key or node.external:
                continue
            if node.key in self.instances:
                self.is_shared = True
                continue
            if node.group_kind in self.definitions.current and node.writable:
                at = self._assigned(node.key, _given(node.manifest), source=source, owner=key)
                self._expand(at, node.manifest, node.key, source=source, owner=key, depth=depth + 1)
            elif node.key in self.world.stored.applied:
                why = node.error or f"waits for {', '.join(node.waiting)}"
                self._hold(node.key, why, manifest=node.manifest, source=source, owner=key, depth=depth + 1)


_AtDefinition = Callable[[Definition], tuple[Manifest, list[SchemaMistake]]]
"""An instance under a definition: with its defaults, and what of it does not fit."""


def _given(manifest: Manifest) -> _AtDefinition:
    """An instance that another one wants: it has the defaults of the newest definition already."""
    return lambda _: (manifest, [])


def _same(one: RenderedSet, other: RenderedSet) -> bool:
    """Would going from one to the other write nothing? What is read from the cluster is the same for both."""
    return [_written(node) for node in one.nodes] == [_written(node) for node in other.nodes]


def _written(node: RenderedNode) -> RenderedNode:
    return replace(node, origin=Origin(), ready=Ready(), healthy_first=frozenset(), iterators={})


def member_dependencies(rendered: RenderedSet) -> dict[str, list[str]]:
    """Of each node, the sorted hashes of the keys of its direct dependencies, as recorded on the member; external ones are left out."""
    hashes = {node.id: key_hash(node.key) for node in rendered.nodes if node.key and not node.external}
    return {node.id: sorted(hashes[name] for name in node.depends_on if name in hashes) for node in rendered.nodes}
