"""Render one instance: nodes in order of level, each from the instance and from what is known of the nodes it reads.

A node's value, for those that read it, is its live object once that object carries the manifest rendered here, before that the manifest laid
over the live object; a collection's value is the list of its items' values. What neither has yet is *waited for*; it never becomes an error and
never removes anything. Each item of a collection is a node of its own, `workers/2`; who reads the collection depends on all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple

from renderer import schema
from renderer.catalog.forbidden_objects import find_protection_mistake
from renderer.cel import Meter, NoSuchKey
from renderer.definition import conditions
from renderer.definition.compile import Definition
from renderer.definition.conditions import ReadyVerdict
from renderer.definition.custom_conditions import CustomConditions
from renderer.definition.for_each import combinations
from renderer.definition.resource_rules import find_forbidden_keys
from renderer.definition.resources import ResourceNode
from renderer.errors import ExpressionError, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import SECRET, is_namespaced
from renderer.label_selector import Selection, SelectorError
from renderer.manifest_hash import is_written_from, strip_nulls
from renderer.render.leveling import in_levels, unique
from renderer.render.model import ExcludedNode, Live, RenderedApplySet, RenderedNode, Selected
from renderer.schema import manifest_rules
from renderer.secret_redaction import SecretRedactor
from renderer.template.template import TemplateError

MAX_NODES = 10_000
"""Objects that one instance may come to, those of nested instances counted: a few lines could otherwise become millions."""

READ_BACK = ("uid", "creationTimestamp")
"""Metadata of a live instance that its expressions see; nothing else of it is read."""


def instance_metadata_read(live: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """What is read of a live instance itself; None where there is none."""
    return None if live is None else tuple(live["metadata"].get(name, "") for name in READ_BACK)


def resolve(
    definition: Definition,
    instance: Manifest,
    *,
    observed: Live,
    definitions: Mapping[GroupKind, Definition],
    scopes: Mapping[GroupKind, bool],
    selected: Selected | None = None,
    source: str = "",
    owner: ObjectKey | None = None,
) -> RenderedApplySet:
    """The set of one instance. `instance` has its spec defaulted and validated; `scopes` tells which kinds are namespaced."""
    parent = ObjectKey.from_manifest(instance)
    walk = _Walk(definition, instance, observed, definitions, scopes, selected or {})
    for node in definition.nodes:
        walk.visit(node)
    return RenderedApplySet(
        parent=parent,
        manifest=instance,
        nodes=in_levels(unique(walk.join_errors)),
        excluded=tuple(walk.excluded.values()),
        status=strip_nulls(definition.status.evaluate_known(walk.live, walk.meter)),
        conditions=CustomConditions(definition.conditions, walk.live) if definition.conditions else None,
        source=source,
        definition=definition.name,
        owner=owner,
        gates={node.id: node.propagate_when for node in definition.nodes if node.propagate_when is not None},
        selections=walk.selections,
    )


def schema_value(instance: Manifest, live: Mapping[str, Any] | None) -> dict[str, Any]:
    """What expressions see as `schema`: Git's object, with what only the server knows read back. Never status, never our own keys."""
    metadata = dict(instance["metadata"])
    if live:
        metadata.update({name: live["metadata"][name] for name in READ_BACK if name in live["metadata"]})
    return {
        "apiVersion": instance["apiVersion"],
        "kind": instance["kind"],
        "metadata": metadata,
        "spec": instance.get("spec") or {},
    }


def overlay(manifest: Any, live: Any) -> Any:
    """The live value with every field that the manifest sets replaced by the manifest's; lists of equal length go item by item."""
    if isinstance(manifest, dict) and isinstance(live, dict):
        deeper = {
            name: overlay(value, live.get(name)) for name, value in manifest.items() if isinstance(value, (dict, list))
        }
        return {**live, **manifest, **deeper}
    if isinstance(manifest, list) and isinstance(live, list) and len(manifest) == len(live):
        return [overlay(*pair) for pair in zip(manifest, live, strict=True)]
    return manifest


@dataclass
class _Walk:
    """`values` is what templates see, `live` what the status is made from: it speaks of the cluster alone.

    `nodes` are rendered nodes by their ids; `members` maps the id of a node of the definition to those that it became, `above` to those that it
    depends on, `behind` to those that a reader of it depends on: an empty collection stands for what it was made from. `meter` counts what all
    expressions of the instance cost.
    """

    definition: Definition
    instance: Manifest
    observed: Live
    definitions: Mapping[GroupKind, Definition]
    scopes: Mapping[GroupKind, bool]
    selected: Selected
    nodes: dict[str, RenderedNode] = field(default_factory=dict)
    members: dict[str, list[RenderedNode]] = field(default_factory=dict)
    above: dict[str, tuple[str, ...]] = field(default_factory=dict)
    behind: dict[str, tuple[str, ...]] = field(default_factory=dict)
    excluded: dict[str, ExcludedNode] = field(default_factory=dict)
    selections: dict[str, Selection] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter.of_instance)

    def __post_init__(self) -> None:
        live = self.observed.get(ObjectKey.from_manifest(self.instance))
        self.values["schema"] = self.live["schema"] = self._seen("schema", schema_value(self.instance, live))
        self.by_id = {node.id: node for node in self.definition.nodes}

    @property
    def join_errors(self) -> dict[str, RenderedNode]:
        """The rendered nodes; what is wrong with them is told without values of the Secrets among them."""
        secrets = [node for node in self.nodes.values() if node.group_kind == SECRET]
        wrong = (
            [node for node in self.nodes.values() if node.error or node.waiting or node.ready.why] if secrets else []
        )
        if not wrong:
            return self.nodes
        live = (self.observed.get(node.key) for node in secrets if node.key)
        written = (node.manifest for node in secrets if node.writable)
        discreet = SecretRedactor([*written, *(obj for obj in live if obj)])
        return self.nodes | {
            node.id: replace(
                node,
                error=discreet(node.error),
                waiting=tuple(map(discreet, node.waiting)),
                ready=replace(node.ready, why=discreet(node.ready.why)),
            )
            for node in wrong
        }

    def visit(self, node: ResourceNode) -> None:
        gone = [parent for parent in node.depends_on if parent in self.excluded]
        if gone:
            self.excluded[node.id] = ExcludedNode(node.id, f"it reads {gone[0]}, which is excluded")
            return
        verdict = conditions.evaluate_include_when(
            node.include_when, self.values, is_ready=self._is_ready, can_arrive=self._can_arrive, meter=self.meter
        )
        if verdict.false:
            self.excluded[node.id] = ExcludedNode(node.id, verdict.false)
            return
        above = dict.fromkeys(name for parent in node.depends_on for name in self.behind[parent])
        self.above[node.id] = tuple(above)
        if node.for_each:
            rendered = self._collection(node, verdict)
        elif node.selects:
            rendered = self._selection(node, verdict)
        else:
            item = self._rendered(node, node.id, self.values, verdict)
            rendered = [item.node]
            self._learn(node, item)
        self.nodes |= {one.id: one for one in rendered}
        self.members[node.id] = rendered
        self.behind[node.id] = tuple(one.id for one in rendered) or self.above[node.id]

    def _collection(self, node: ResourceNode, verdict: conditions.ConditionResult) -> list[RenderedNode]:
        """The items of a `forEach`; one node that waits, or is in error, while their number cannot be told."""
        try:
            iterators = list(combinations(node.for_each, self.values, self.meter))
        except ExpressionError as problem:
            waiting, error = verdict.waiting, verdict.error
            if self._can_arrive(problem):
                waiting = (*waiting, conditions.describe_missing(problem))
            else:
                error = error or str(problem)
            return [self._node(node, node.id, node.template.source, key=None, waiting=waiting, error=error)]
        if len(self.nodes) + len(iterators) > MAX_NODES:
            error = f"with these {len(iterators):,} items the instance would have more than {MAX_NODES:,} objects"
            return [self._node(node, node.id, node.template.source, key=None, error=error)]
        items = [
            self._rendered(node, f"{node.id}/{index}", {**self.values, **values}, verdict)
            for index, values in enumerate(iterators)
        ]
        self.values[node.id] = self._seen(node.id, [item.value for item in items])
        self.live[node.id] = self._seen(node.id, [item.live for item in items if item.live is not None])
        return [replace(item.node, iterators=values) for item, values in zip(items, iterators, strict=True)]

    def _selection(self, node: ResourceNode, verdict: conditions.ConditionResult) -> list[RenderedNode]:
        """The objects that a reference selects; one node that waits while they are not known, or not as the reference wants them."""
        item = self._rendered(node, node.id, self.values, verdict)
        if item.node.error or item.node.waiting:
            return [item.node]
        try:
            selection = Selection.from_reference(item.node.manifest)
        except SelectorError as problem:
            return [replace(item.node, error=str(problem))]
        self.selections[node.id] = selection
        keys = self.selected.get(selection)
        if keys is None:
            return [replace(item.node, waiting=(f"{selection} to be listed",), selection=selection)]
        if isinstance(keys, str):
            return [replace(item.node, error=f"not allowed: {keys}")]
        found = [self.observed[key] for key in sorted(keys) if key in self.observed]
        seen = self.values[node.id] = self.live[node.id] = self._seen(node.id, found)
        whole = [condition for condition in node.ready_when if "each" not in condition.names]
        scope = {node.id: seen, "schema": self.values["schema"]}
        ready = conditions.evaluate_ready_when(whole, scope, self._can_arrive, self.meter)
        if ready.verdict is False:
            return [replace(item.node, waiting=(f"{node.id} to be ready: {ready.why}",))]
        return [
            replace(
                item.node,
                id=f"{node.id}/{index}",
                manifest={**item.node.manifest, "metadata": _named(obj)},
                key=ObjectKey.from_manifest(obj),
                ready=conditions.evaluate_ready_when(
                    node.ready_when, {**scope, "each": one}, self._can_arrive, self.meter
                ),
            )
            for index, (obj, one) in enumerate(zip(found, seen, strict=True))
        ]

    def _rendered(
        self, node: ResourceNode, node_id: str, variables: Mapping[str, Any], verdict: conditions.ConditionResult
    ) -> _Item:
        waiting, error = list(verdict.waiting), verdict.error
        fixed = {one.iterator for one in node.for_each if one.program.names <= {"schema"}}
        can_arrive = partial(self._can_arrive, fixed=fixed) if fixed else self._can_arrive
        try:
            manifest, pending = node.template.evaluate_partially(variables, can_arrive, self.meter)
            waiting += [conditions.describe_missing(problem) for _, problem in pending]
            known = node.template.evaluate_known(variables, self.meter) if pending else manifest
        except TemplateError as problem:
            manifest, known, error = node.template.source, {}, error or str(problem)
        manifest, key = self._placed(node, manifest, known)
        if not (waiting or error or node.selects):
            error = join_errors(manifest_rules.find_mistakes(manifest)) or _forbidden(manifest)
            if not error and key and not node.external:
                error = ": ".join(find_protection_mistake(manifest, key.namespace, key.name) or ())
            if not error and key is None:
                error = "metadata.namespace: missing; the instance has no namespace that it could go to"
        if not (waiting or error) and node.group_kind in self.definitions and not node.external:
            manifest, mistakes = with_defaults(self.definitions[node.group_kind], manifest)
            error = join_errors(mistakes)
        live = self.observed.get(key) if key else None
        if node.external and not node.selects and live is None and not waiting and not error:
            waiting.append(f"{key} to exist")
        rendered = self._node(
            node,
            node_id,
            manifest,
            key=key,
            waiting=tuple(dict.fromkeys(waiting)),
            error=error,
            ready=self._ready(node, live),
        )
        return _Item(rendered, self._value(node, known if waiting or error else manifest, live), live)

    def _node(self, node: ResourceNode, node_id: str, manifest: Manifest, **more: Any) -> RenderedNode:
        return RenderedNode(
            id=node_id,
            level=node.level,
            depends_on=self.above[node.id],
            group_kind=node.group_kind,
            manifest=manifest,
            external=node.external,
            origin=SourceLocation(self.definition.origin.file, node.line),
            **more,
        )

    def _placed(self, node: ResourceNode, manifest: Manifest, known: Manifest) -> tuple[Manifest, ObjectKey | None]:
        """The manifest with its namespace filled in, and its key as far as name and namespace are known."""
        namespaced = is_namespaced(node.group_kind, self.scopes)
        metadata = manifest.get("metadata") or {}
        if node.selects:
            return manifest, None
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

    def _learn(self, node: ResourceNode, item: _Item) -> None:
        if item.live is not None:
            self.live[node.id] = self._seen(node.id, item.live)
        if item.value is not None:
            self.values[node.id] = self._seen(node.id, item.value)

    def _value(self, node: ResourceNode, manifest: Manifest, live: Mapping[str, Any] | None) -> Any:
        """What readers of this object see; None where nothing can be said of it. Shown in another version it may lack fields of the manifest."""
        if node.external or live is None:
            return live if node.external else manifest
        is_whole = is_written_from(live, manifest) and live.get("apiVersion") == manifest.get("apiVersion")
        return live if is_whole else overlay(manifest, live)

    def _ready(self, node: ResourceNode, live: Mapping[str, Any] | None) -> ReadyVerdict:
        if not node.ready_when or node.selects:
            return ReadyVerdict()
        if live is None:
            return ReadyVerdict(False, f"{node.id} does not exist yet")
        own = {"each": self._seen(node.id, [live])[0]} if node.for_each else {node.id: self._seen(node.id, live)}
        scope = {**own, "schema": self.values["schema"]}
        return conditions.evaluate_ready_when(node.ready_when, scope, self._can_arrive, self.meter)

    def _seen(self, name: str, value: Any) -> Any:
        """What expressions see of a variable that has this JSON value."""
        view = self.definition.views.get(name)
        return view(value) if view else value

    def _is_ready(self, node_id: str) -> bool:
        """All that this node of the definition became exists and is ready; so is an empty collection."""
        return node_id in self.members and all(
            node.key is not None and node.key in self.observed and node.ready.verdict is not False
            for node in self.members[node_id]
        )

    def _can_arrive(self, problem: ExpressionError, fixed: Collection[str] = ()) -> bool:
        """Can the data that this expression misses still come? `fixed` are iterators whose values the instance alone gives.

        Of the instance only what the server adds; of an object that another definition describes only the status fields that it has, of a
        collection made by `forEach` no further items. Of other objects anything: controllers write more than status.
        """
        if not isinstance(problem, NoSuchKey) or not problem.path or problem.path[0] in fixed:
            return False
        root, *rest = problem.path
        if root == "schema":
            return rest[:1] == ["metadata"] and rest[1:2] in [[name] for name in READ_BACK]
        node = self.by_id.get(root)
        if node is None or node.external or any(one.waiting for one in self.members.get(root, ())):
            return True
        if node.for_each and len(rest) == 1 and root in self.values:
            return False
        described = self.definitions.get(node.group_kind)
        steps = conditions.missing_path(problem)[2 if node.for_each else 1 :]
        return described is None or len(steps) < 2 or (steps[0] == "status" and steps[1] in described.status_fields)


def _forbidden(manifest: Manifest) -> str:
    return "; ".join(f"{place}: {message}" for place, message in find_forbidden_keys(manifest["metadata"]))


class _Item(NamedTuple):
    """A rendered node, what its readers see, and what is live of it."""

    node: RenderedNode
    value: Any
    live: Mapping[str, Any] | None


def _named(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {name: obj["metadata"][name] for name in ("name", "namespace") if name in obj["metadata"]}


def with_defaults(definition: Definition, manifest: Manifest) -> tuple[Manifest, list[schema.SchemaMistake]]:
    """An instance with its spec defaulted by its definition's schema, and what is wrong with it; paths start at `spec`."""
    spec = schema.apply_defaults(definition.spec_schema, manifest.get("spec") or {})
    mistakes = schema.validate(definition.spec_schema, spec) or schema.rule_mistakes(definition.spec_schema, spec)
    below = [replace(mistake, path=f"spec.{mistake.path}" if mistake.path else "spec") for mistake in mistakes]
    return {**manifest, "spec": spec}, below


def join_errors(mistakes: Iterable[schema.SchemaMistake]) -> str:
    return "; ".join(f"{mistake.path}: {mistake.message}" for mistake in mistakes)
