"""Render one instance: nodes in order of level, each from the instance and from what is known of the nodes it reads.

A node's value, for those that read it, is its live object once that object carries the manifest rendered here, before that the manifest laid
over the live object. What neither has yet is *waited for*; it never becomes an error and never removes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from renderer import graph, implied, schema, shape
from renderer.cel import NoSuchKey, Program, compile_expression
from renderer.definition import Definition
from renderer.errors import ExpressionError
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import is_namespaced
from renderer.model import Excluded, Live, Origin, Ready, RenderedNode, RenderedSet
from renderer.resources import Node
from renderer.stored import carries
from renderer.template import TemplateError

_READ_BACK = ("uid", "creationTimestamp")


def resolve(
    definition: Definition,
    instance: Manifest,
    *,
    observed: Live,
    definitions: Mapping[GroupKind, Definition],
    scopes: Mapping[GroupKind, bool],
    source: str = "",
    owner: ObjectKey | None = None,
) -> RenderedSet:
    """The set of one instance. `instance` has its spec defaulted and validated; `scopes` tells which kinds are namespaced."""
    parent = ObjectKey.of(instance)
    walk = _Walk(definition, instance, observed, definitions, scopes)
    for node in definition.nodes:
        walk.visit(node)
    return RenderedSet(
        parent=parent,
        manifest=instance,
        nodes=_levelled(walk.nodes),
        excluded=tuple(walk.excluded.values()),
        status=definition.status.known(walk.live),
        source=source,
        definition=definition.name,
        owner=owner,
    )


def schema_value(instance: Manifest, live: Mapping[str, Any] | None) -> dict[str, Any]:
    """What expressions see as `schema`: Git's object, with what only the server knows read back. Never status, never our own keys."""
    metadata = dict(instance["metadata"])
    if live:
        metadata.update({name: live["metadata"][name] for name in _READ_BACK if name in live["metadata"]})
    return {
        "apiVersion": instance["apiVersion"],
        "kind": instance["kind"],
        "metadata": metadata,
        "spec": instance.get("spec") or {},
    }


def laid_over(manifest: Any, live: Any) -> Any:
    """The live value with every field that the manifest sets replaced by the manifest's; lists of equal length go item by item."""
    if isinstance(manifest, dict) and isinstance(live, dict):
        return {**live, **{name: laid_over(value, live.get(name)) for name, value in manifest.items()}}
    if isinstance(manifest, list) and isinstance(live, list) and len(manifest) == len(live):
        return [laid_over(*pair) for pair in zip(manifest, live, strict=True)]
    return manifest


@dataclass
class _Walk:
    """`values` is what templates see, `live` what the status is made from: it speaks of the cluster alone."""

    definition: Definition
    instance: Manifest
    observed: Live
    definitions: Mapping[GroupKind, Definition]
    scopes: Mapping[GroupKind, bool]
    nodes: dict[str, RenderedNode] = field(default_factory=dict)
    excluded: dict[str, Excluded] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values["schema"] = self.live["schema"] = schema_value(
            self.instance, self.observed.get(ObjectKey.of(self.instance))
        )

    def visit(self, node: Node) -> None:
        gone = [parent for parent in node.depends_on if parent in self.excluded]
        if gone:
            self.excluded[node.id] = Excluded(node.id, f"it reads {gone[0]}, which is excluded")
            return
        waiting: list[str] = []
        error = ""
        for condition in node.include_when:
            try:
                unready = [name for name in sorted(condition.names - {"schema"}) if not self._is_ready(name)]
                if unready:
                    waiting += [f"{name} to be ready" for name in unready]
                elif not _as_bool(condition, condition.evaluate(self.values)):
                    self.excluded[node.id] = Excluded(node.id, f"${{{condition.text}}} is false")
                    return
            except ExpressionError as problem:
                if not self._can_arrive(problem):
                    error = error or str(problem)
                else:
                    waiting.append(_awaited(problem))
        self._render(node, waiting, error)

    def _render(self, node: Node, waiting: list[str], error: str) -> None:
        try:
            manifest, pending = node.template.partial(self.values, self._can_arrive)
            waiting += [_awaited(problem) for _, problem in pending]
            known = node.template.known(self.values) if pending else manifest
        except TemplateError as problem:
            manifest, known, error = node.template.source, {}, error or str(problem)
        manifest, key = self._placed(node, manifest, known)
        if not (waiting or error):
            error = told(shape.mistakes(manifest))
        if not (waiting or error) and node.group_kind in self.definitions:
            manifest, mistakes = with_defaults(self.definitions[node.group_kind], manifest)
            error = told(mistakes)
        live = self.observed.get(key) if key else None
        self._learn(node, known if waiting or error else manifest, live)
        if node.external and live is None and not waiting and not error:
            waiting.append(f"{key} to exist")
        self.nodes[node.id] = RenderedNode(
            id=node.id,
            level=node.level,
            depends_on=node.depends_on,
            group_kind=node.group_kind,
            manifest=manifest,
            key=key,
            waiting=tuple(dict.fromkeys(waiting)),
            error=error,
            ready=self._ready(node, live),
            external=node.external,
            origin=Origin(self.definition.origin.file, node.line),
        )

    def _placed(self, node: Node, manifest: Manifest, known: Manifest) -> tuple[Manifest, ObjectKey | None]:
        """The manifest with its namespace filled in, and its key as far as name and namespace are known."""
        namespaced = is_namespaced(node.group_kind, self.scopes)
        metadata = manifest.get("metadata") or {}
        if namespaced and not metadata.get("namespace") and self.instance["metadata"].get("namespace"):
            manifest = {**manifest, "metadata": {**metadata, "namespace": self.instance["metadata"]["namespace"]}}
            known = {
                **known,
                "metadata": {**(known.get("metadata") or {}), "namespace": manifest["metadata"]["namespace"]},
            }
        place = known.get("metadata") or {}
        if not isinstance(place.get("name"), str) or (namespaced and not isinstance(place.get("namespace"), str)):
            return manifest, None
        return manifest, ObjectKey(*node.group_kind, place["namespace"] if namespaced else "", place["name"])

    def _learn(self, node: Node, manifest: Manifest, live: Mapping[str, Any] | None) -> None:
        if live is not None:
            self.live[node.id] = live
        if node.external:
            if live is not None:
                self.values[node.id] = live
        elif live is None:
            self.values[node.id] = manifest
        else:
            self.values[node.id] = live if carries(live, manifest) else laid_over(manifest, live)

    def _ready(self, node: Node, live: Mapping[str, Any] | None) -> Ready:
        if not node.ready_when:
            return Ready()
        if live is None:
            return Ready(False, f"{node.id} does not exist yet")
        for condition in node.ready_when:
            try:
                if not _as_bool(condition, condition.evaluate({node.id: live, "schema": self.values["schema"]})):
                    return Ready(False, f"${{{condition.text}}} is false")
            except NoSuchKey as problem:
                return Ready(False, f"waits for {_awaited(problem)}")
            except ExpressionError as problem:
                return Ready(False, str(problem))
        return Ready(True)

    def _is_ready(self, node_id: str) -> bool:
        node = self.nodes.get(node_id)
        if node is None or node.key is None or node.key not in self.observed:
            return False
        return node.ready.verdict is not False

    def _can_arrive(self, problem: ExpressionError) -> bool:
        """Can the data that this expression misses still come? Nodes are observed later; of the instance only what the server adds."""
        if not isinstance(problem, NoSuchKey) or not problem.path:
            return False
        if problem.path[0] != "schema":
            return True
        return problem.path[1:2] == ("metadata",) and problem.path[2:3] in {(name,) for name in _READ_BACK}


def _levelled(nodes: Mapping[str, RenderedNode]) -> tuple[RenderedNode, ...]:
    """Nodes with their implied edges (namespace, CRD, RBAC, references) beside those of expressions, in order of level.

    Where the two contradict one another, expressions win: an implied edge that would close a circle is left out.
    """
    by_key = {node.key: node.id for node in nodes.values() if node.key}
    providers = implied.crd_providers(
        (node.key, node.manifest) for node in nodes.values() if node.key and not node.waiting
    )
    parents = {node.id: [name for name in node.depends_on if name in nodes] for node in nodes.values()}
    for node in nodes.values():
        if node.key is None:
            continue
        for key in implied.edges(node.manifest, node.key, providers):
            parent = by_key.get(key, node.id)
            if (
                parent != node.id
                and parent not in parents[node.id]
                and node.id not in graph.ancestors(parents, [parent])
            ):
                parents[node.id].append(parent)
    return tuple(
        replace(nodes[name], level=level, depends_on=tuple(parents[name]))
        for level, names in enumerate(graph.levels(parents))
        for name in names
    )


def with_defaults(definition: Definition, manifest: Manifest) -> tuple[Manifest, list[schema.SchemaMistake]]:
    """An instance with its spec defaulted by its definition's schema, and what is wrong with it; paths start at `spec`."""
    spec = schema.apply_defaults(definition.spec_schema, manifest.get("spec") or {})
    mistakes = schema.validate(definition.spec_schema, spec)
    below = [replace(mistake, path=f"spec.{mistake.path}" if mistake.path else "spec") for mistake in mistakes]
    return {**manifest, "spec": spec}, below


def told(mistakes: Iterable[schema.SchemaMistake]) -> str:
    return "; ".join(f"{mistake.path}: {mistake.message}" for mistake in mistakes)


def _as_bool(condition: Program, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError(condition.text, f"must be true or false, not {type(value).__name__}")
    return value


def _awaited(problem: ExpressionError) -> str:
    """What is waited for: the whole path that the expression reads where the missing key lies on it, else the missing key itself."""
    if not isinstance(problem, NoSuchKey):
        return str(problem)
    missing = tuple(problem.path)
    reads = compile_expression(problem.expression).reads
    path = max((read for read in reads if read[: len(missing)] == missing), key=len, default=missing)
    return ".".join(path).replace(".[", "[")
