"""Everything that the sources of one cluster want, as sets of nodes in levels.

Each source has one set: the CRDs of its definitions, its plain objects and its instances, ordered by implied edges. Each instance, nested ones
too, has one set: its children. The catalog is the union over the sources; a group and kind is defined by one of them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from renderer import crd, graph, implied, keys, schema
from renderer.catalog import Catalog, Declared, located
from renderer.definition import Definition
from renderer.errors import Problem
from renderer.identity import GroupKind, Manifest, ObjectKey, key_hash
from renderer.kinds import CRD, is_namespaced, scopes_of
from renderer.model import Bundle, Live, Origin, RenderedNode, RenderedSet
from renderer.resolve import resolve, told, with_defaults

OWN_NAMESPACE = "levelgate-system"
SOURCE_PREFIX = "source-"
MAX_NESTING = 8


@dataclass(frozen=True, slots=True)
class World:
    """What rendering needs to know of the cluster: live objects, which kinds are namespaced, which kinds our CRDs there define, and for every
    defined kind the source whose set holds its CRD. Empty when rendering offline."""

    live: Live = field(default_factory=dict)
    scopes: Mapping[GroupKind, bool] = field(default_factory=dict)
    defined: Mapping[GroupKind, str] = field(default_factory=dict)
    owners: Mapping[GroupKind, str] = field(default_factory=dict)


def source_parent(source: str) -> ObjectKey:
    """Key of the ConfigMap that is the ApplySet parent of a source; its id depends on the name alone."""
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{SOURCE_PREFIX}{source}")


def render(catalogs: Sequence[Catalog], world: World | None = None) -> Bundle:
    """Render all sources of one cluster. Pure: equal input, equal output, in a stable order."""
    return _Render(catalogs, world or World()).bundle()


class _Render:
    def __init__(self, catalogs: Sequence[Catalog], world: World) -> None:
        self.catalogs = catalogs
        self.world = world
        self.problems: list[Problem] = [problem for catalog in catalogs for problem in catalog.problems]
        self.definitions, self.owner = self._union()
        self.held = self._held()
        crds = [definition.crd for definition in self.definitions.values()]
        declared_crds = [item.manifest for catalog in catalogs for item in catalog.objects if item.group_kind == CRD]
        self.scopes = {**world.scopes, **scopes_of([*crds, *declared_crds])}
        self.instances: dict[ObjectKey, RenderedSet] = {}

    def bundle(self) -> Bundle:
        sources = {catalog.source: self._source(catalog) for catalog in self.catalogs}
        ordered = sorted(
            self.instances.items(), key=lambda item: (item[0].kind, item[0].namespace, item[0].name, item[0].group)
        )
        return Bundle(sources=sources, instances=dict(ordered), problems=tuple(sorted(set(self.problems))))

    def _union(self) -> tuple[dict[GroupKind, Definition], dict[GroupKind, str]]:
        """One definition for each kind: the one of the source whose set holds the CRD, else of the first source."""
        definitions: dict[GroupKind, Definition] = {}
        owner: dict[GroupKind, str] = {}
        for catalog in self.catalogs:
            for kind, definition in catalog.definitions.items():
                if kind not in definitions or self.world.owners.get(kind) == catalog.source:
                    definitions[kind], owner[kind] = definition, catalog.source
        for catalog in self.catalogs:
            for kind, definition in catalog.definitions.items():
                if owner[kind] != catalog.source:
                    message = f"source {owner[kind]} owns the definition of {kind}; this one is ignored"
                    self.problems.append(
                        Problem(definition.origin.file, definition.origin.line, "spec.schema", message)
                    )
        return definitions, owner

    def _held(self) -> dict[GroupKind, str]:
        """Kinds whose instances stay as they are, with the reason: their definition does not build, or would break what is stored."""
        found = {
            kind: "does not build"
            for catalog in self.catalogs
            for kind in catalog.broken
            if kind not in self.definitions
        }
        for kind, definition in list(self.definitions.items()):
            if breaking := self._breaking(definition):
                del self.definitions[kind]
                found[kind] = f"would break its stored instances ({breaking})"
                advice = f'undo the change, or allow it with the annotation {keys.ALLOW_BREAKING}: "true"'
                message = f"breaking change of {kind}: {breaking}; {advice}"
                self.problems.append(Problem(definition.origin.file, definition.origin.line, "spec.schema", message))
        return found

    def _breaking(self, definition: Definition) -> str:
        """What of this definition the objects stored under the CRD in the cluster may not survive (kro's compatibility guard)."""
        live = self.world.live.get(_crd_key(definition.group_kind))
        if (
            live is None
            or definition.allows_breaking_changes
            or not (live["metadata"].get("annotations") or {}).get(keys.DEFINITION)
        ):
            return ""
        served = live["spec"]["versions"][0]
        if served["name"] != definition.version:
            return f"apiVersion {served['name']} becomes {definition.version}"
        if (live["spec"]["scope"] == "Namespaced") != definition.namespaced:
            return f"scope {live['spec']['scope']} cannot change"
        stored = served["schema"]["openAPIV3Schema"]["properties"].get("spec") or {}
        changes = schema.compatibility(stored, definition.spec_schema)
        return "; ".join(f"{change.path}: {change.message}" for change in changes if change.breaking)

    def _source(self, catalog: Catalog) -> RenderedSet:
        nodes: dict[ObjectKey, RenderedNode] = {}
        for kind, origin in sorted(
            (kind, catalog.broken.get(kind) or catalog.definitions[kind].origin) for kind in self._held_by(catalog)
        ):
            self._add(
                nodes,
                _node(
                    {},
                    _crd_key(kind),
                    origin,
                    error=f"the definition of {kind} {self.held[kind]}; its CRD stays as it is",
                ),
            )
        for kind, definition in sorted(catalog.definitions.items()):
            if self.owner[kind] == catalog.source:
                self._add(
                    nodes,
                    _node(definition.crd, _crd_key(kind), definition.origin),
                )
        for declared in catalog.objects:
            self._add(nodes, self._declared(catalog.source, declared))
        return RenderedSet(
            source_parent(catalog.source), nodes=self._levelled(nodes), source=catalog.source, error=_ungated(catalog)
        )

    def _held_by(self, catalog: Catalog) -> list[GroupKind]:
        """Held kinds whose definition is in this source."""
        return [kind for kind in self.held if kind in catalog.broken or self.owner.get(kind) == catalog.source]

    def _add(self, nodes: dict[ObjectKey, RenderedNode], node: RenderedNode) -> None:
        assert node.key is not None
        if other := nodes.get(node.key):
            message = f"{node.key} stands at {other.origin} already; keep one of the two"
            self.problems.append(Problem(node.origin.file, node.origin.line, "", message))
            return
        nodes[node.key] = node

    def _declared(self, source: str, declared: Declared) -> RenderedNode:
        kind = declared.group_kind
        namespaced = is_namespaced(kind, self.scopes)
        key = located(declared, namespaced=namespaced)
        metadata = {name: value for name, value in declared.manifest["metadata"].items() if name != "namespace"}
        manifest: Manifest = {
            **declared.manifest,
            "metadata": {**metadata, "namespace": key.namespace} if namespaced else metadata,
        }
        if definition := self.definitions.get(kind):
            return self._instance(source, declared, definition, manifest, key)
        if kind in self.held or kind in self.world.defined:
            error = f"the definition of {kind} {self.held.get(kind, 'is not in Git')}; the instance stays as it is"
            self.instances[key] = RenderedSet(
                parent=key, manifest=manifest, error=error, source=source, definition=self.world.defined.get(kind, "")
            )
            return _node(manifest, key, declared.origin, error=declared.refused or error)
        return _node(manifest, key, declared.origin, error=declared.refused)

    def _instance(
        self, source: str, declared: Declared, definition: Definition, manifest: Manifest, key: ObjectKey
    ) -> RenderedNode:
        manifest, mistakes = with_defaults(definition, manifest)
        self.problems += [
            Problem(declared.origin.file, declared.line_of(mistake.path), mistake.path, mistake.message)
            for mistake in mistakes
        ]
        error = declared.refused or told(mistakes)
        if manifest["apiVersion"] != definition.api_version and not error:
            error = f"apiVersion {manifest['apiVersion']} is not served; the definition at {definition.origin} says {definition.api_version}"
            self.problems.append(Problem(declared.origin.file, declared.origin.line, "apiVersion", error))
        self._expand(definition, manifest, key, source=source, owner=source_parent(source), error=error, depth=0)
        return _node(manifest, key, declared.origin, error=error)

    def _expand(
        self,
        definition: Definition,
        manifest: Manifest,
        key: ObjectKey,
        *,
        source: str,
        owner: ObjectKey,
        error: str,
        depth: int,
    ) -> None:
        """Render the set of an instance, and of the instances that are nodes of it."""
        if depth == MAX_NESTING:
            error = (
                f"instances are nested more than {MAX_NESTING} deep; does {definition.name} create instances of itself?"
            )
        if error:
            self.instances[key] = RenderedSet(
                parent=key, manifest=manifest, error=error, source=source, definition=definition.name, owner=owner
            )
            return
        rendered = resolve(
            definition,
            manifest,
            observed=self.world.live,
            definitions=self.definitions,
            scopes=self.scopes,
            source=source,
            owner=owner,
        )
        self.instances[key] = rendered
        for node in rendered.nodes:
            nested = self.definitions.get(node.group_kind)
            if nested and node.key and node.writable and node.key not in self.instances:
                self._expand(nested, node.manifest, node.key, source=source, owner=key, error="", depth=depth + 1)

    def _levelled(self, nodes: dict[ObjectKey, RenderedNode]) -> tuple[RenderedNode, ...]:
        """Nodes of a source with their implied edges, in order of level, inside a level by kind, namespace and name."""
        ordered = dict(
            sorted(nodes.items(), key=lambda item: (item[0].kind, item[0].namespace, item[0].name, item[0].group))
        )
        providers = implied.crd_providers((key, node.manifest) for key, node in ordered.items())
        parents: dict[str, list[str]] = {}
        healthy: dict[str, frozenset[str]] = {}
        for key, node in ordered.items():
            wanted, errors = self._explicit(node, ordered)
            found = {
                *implied.edges(node.manifest, key, providers),
                *self._needs_of_children(key, providers),
                *wanted,
            } - {key}
            parents[node.id] = sorted(str(other) for other in found if other in ordered)
            healthy[node.id] = frozenset(str(other) for other in wanted if other in ordered)
            ordered[key] = replace(node, error=node.error or errors)
        by_id = {node.id: node for node in ordered.values()}
        levels, circles = self._without_circles(parents, {name: node.origin for name, node in by_id.items()})
        return tuple(
            replace(
                by_id[node_id],
                level=level,
                depends_on=tuple(parents[node_id]),
                healthy_first=healthy[node_id],
                error=by_id[node_id].error or circles.get(node_id, ""),
            )
            for level, ids in enumerate(levels)
            for node_id in ids
        )

    def _explicit(self, node: RenderedNode, known: Container[ObjectKey]) -> tuple[list[ObjectKey], str]:
        """What the annotation `depends-on` names, and what is wrong with it."""
        try:
            wanted = implied.depends_on(node.manifest)
        except implied.DependsOnError as error:
            return [], self._wrong(node, "metadata.annotations", str(error))
        strangers = ", ".join(str(key) for key in wanted if key not in known)
        return wanted, self._wrong(
            node, "metadata.annotations", f"depends on {strangers}, which this source does not hold"
        ) if strangers else ""

    def _wrong(self, node: RenderedNode, path: str, message: str) -> str:
        self.problems.append(Problem(node.origin.file, node.origin.line, path, message))
        return message

    def _needs_of_children(self, key: ObjectKey, providers: Mapping[GroupKind, ObjectKey]) -> set[ObjectKey]:
        """Namespaces and CRDs that the children of an instance use, nested ones too: they come before it and go after it."""
        found: set[ObjectKey] = set()
        seen, pending = {key}, [key]
        while pending:
            rendered = self.instances.get(pending.pop())
            for node in rendered.nodes if rendered else ():
                if node.key and node.key.namespace:
                    found.add(ObjectKey("", "Namespace", "", node.key.namespace))
                if provider := providers.get(node.group_kind):
                    found.add(provider)
                if node.key and node.key not in seen:
                    seen.add(node.key)
                    pending.append(node.key)
        return found

    def _without_circles(
        self, parents: dict[str, list[str]], origins: Mapping[str, Origin]
    ) -> tuple[list[list[str]], dict[str, str]]:
        """Levels; nodes of a circle are reported, marked and lose the edges among one another, so that all others go on."""
        circles: dict[str, str] = {}
        while True:
            try:
                return graph.levels(parents), circles
            except graph.CycleError as error:
                for node in error.path:
                    circles[node] = str(error)
                    parents[node] = [other for other in parents[node] if other not in error.path]
                origin = origins[error.path[0]]
                self.problems.append(Problem(origin.file, origin.line, "", str(error)))


def _ungated(catalog: Catalog) -> str:
    """Rules that cannot be honoured yet keep everything of their source closed: nothing may be written past a gate."""
    rules = ", ".join(f"{rule.manifest['kind']} {rule.manifest['metadata']['name']}" for rule in catalog.rules)
    return f"{rules}: not supported yet, so nothing of this source is written; take it out of Git" if rules else ""


def _crd_key(kind: GroupKind) -> ObjectKey:
    return ObjectKey(*CRD, "", crd.crd_name(kind.kind, kind.group))


def _node(manifest: Manifest, key: ObjectKey, origin: Origin, *, error: str = "") -> RenderedNode:
    return RenderedNode(
        id=str(key),
        level=0,
        depends_on=(),
        group_kind=key.group_kind,
        manifest=manifest,
        key=key,
        error=error,
        origin=origin,
    )


def member_dependencies(rendered: RenderedSet, node: RenderedNode) -> list[str]:
    """Sorted hashes of the keys of a node's direct dependencies, as recorded on the member; external ones are left out."""
    by_id = {other.id: other for other in rendered.nodes}
    parents = (by_id[name] for name in node.depends_on if name in by_id)
    return sorted(key_hash(parent.key) for parent in parents if parent.key and not parent.external)
