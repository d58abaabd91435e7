"""Rendering of one resource of an instance.

A resource depends on the instance, on the resources that its expressions read, and on live objects. The renderer reads
a live object only if the result depends on the object, so that a caller can record what a result depends on.

Before an object carries the manifest rendered here, other expressions see the manifest laid over the live object. From
then on they see the live object. An expression *waits* for data that neither has yet. Waiting is not an error, and
removes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from renderer import schema
from renderer.catalog.forbidden_objects import find_protection_mistake
from renderer.cel import Meter, NoSuchKey
from renderer.definition import conditions
from renderer.definition.compile import Definition
from renderer.definition.conditions import ReadyVerdict
from renderer.definition.for_each import combinations
from renderer.definition.resource_rules import find_forbidden_keys
from renderer.definition.resources import ResourceNode
from renderer.errors import ExpressionError, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import is_namespaced
from renderer.label_selector import Selection, SelectorError
from renderer.manifest_hash import is_written_from
from renderer.render.model import ExcludedNode, Live, RenderedNode, Selected
from renderer.schema import manifest_rules
from renderer.template.template import TemplateError

MAX_NODES = 10_000
"""Maximum number of objects of one instance, including the objects of nested instances."""

METADATA_READ = ("uid", "creationTimestamp")
"""Fields of a live instance's metadata that expressions see. Expressions see no other part of a live instance."""


class RenderedItem(NamedTuple):
    """One object of a resource."""

    node: RenderedNode
    """Node before the order of the instance gives the node a level."""
    known: Manifest
    """Manifest without the fields that are not known yet."""


@dataclass(frozen=True, slots=True)
class RenderedResource:
    """Objects of one resource of a definition in one instance.

    A resource that is a collection has one item for each element. An element has the id of the resource with an index:
    `workers/2`. A collection whose elements are not known has one item that waits or is in error.
    """

    items: tuple[RenderedItem, ...] = ()
    depends_on: tuple[str, ...] = ()
    """Ids of the nodes on which each item depends."""
    excluded: ExcludedNode | None = None
    """Reason why `includeWhen` takes the resource out, or None."""
    selection: Selection | None = None
    """Selection of a reference that selects objects by labels, as far as the selection is known."""
    selected: tuple[ObjectKey, ...] = ()
    """Keys of the objects that the selection found."""
    is_evaluated: bool = False
    """Whether expressions can read the resource, even if some of its fields are not known yet."""

    @property
    def nodes(self) -> tuple[RenderedNode, ...]:
        return tuple(item.node for item in self.items)

    @property
    def as_dependency(self) -> tuple[str, ...]:
        """Ids of the nodes on which a reader of the resource depends. An empty collection passes on its own."""
        return tuple(item.node.id for item in self.items) or self.depends_on

    @property
    def is_waiting(self) -> bool:
        return any(item.node.waiting for item in self.items)


def instance_metadata_read(live: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """Return the metadata of a live instance that expressions see, or None if the instance does not exist."""
    return None if live is None else tuple(live["metadata"].get(name, "") for name in METADATA_READ)


def schema_value(instance: Manifest, live: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the value of the variable `schema`: the instance in Git, with the metadata that only the server knows."""
    metadata = dict(instance["metadata"])
    if live:
        metadata.update({name: live["metadata"][name] for name in METADATA_READ if name in live["metadata"]})
    return {
        "apiVersion": instance["apiVersion"],
        "kind": instance["kind"],
        "metadata": metadata,
        "spec": instance.get("spec") or {},
    }


def overlay(manifest: Any, live: Any) -> Any:
    """Return the live value with each field of the manifest in place. Lists of equal length merge item by item."""
    if isinstance(manifest, dict) and isinstance(live, dict):
        deeper = {
            name: overlay(value, live.get(name)) for name, value in manifest.items() if isinstance(value, (dict, list))
        }
        return {**live, **manifest, **deeper}
    if isinstance(manifest, list) and isinstance(live, list) and len(manifest) == len(live):
        return [overlay(*pair) for pair in zip(manifest, live, strict=True)]
    return manifest


def resource_value(resource: ResourceNode, rendered: RenderedResource, observed: Live) -> Any:
    """Return the JSON value that templates and conditions see, or None if they see no value."""
    if not rendered.is_evaluated:
        return None
    if resource.selects:
        return _selected_objects(rendered, observed)
    if resource.for_each:
        return [_item_value(item, observed) for item in rendered.items]
    return _item_value(rendered.items[0], observed)


def live_value(resource: ResourceNode, rendered: RenderedResource, observed: Live) -> Any:
    """Return the JSON value that the status sees, or None if the status sees no value.

    In contrast to `resource_value`, an object has a value only if the object exists.
    """
    if not rendered.is_evaluated:
        return None
    if resource.selects:
        return _selected_objects(rendered, observed)
    live = [observed.get(item.node.key) if item.node.key else None for item in rendered.items]
    return [obj for obj in live if obj is not None] if resource.for_each else live[0]


def is_ready(rendered: RenderedResource, observed: Live) -> bool:
    """Return whether all objects of the resource exist and are ready. An empty collection is ready."""
    return rendered.excluded is None and all(
        node.key is not None and node.ready.verdict is not False and node.key in observed for node in rendered.nodes
    )


def with_defaults(definition: Definition, manifest: Manifest) -> tuple[Manifest, list[schema.SchemaMistake]]:
    """Return an instance with the defaults of its definition, and the mistakes in its spec. Paths start at `spec`."""
    spec = schema.apply_defaults(definition.spec_schema, manifest.get("spec") or {})
    mistakes = schema.validate(definition.spec_schema, spec) or schema.rule_mistakes(definition.spec_schema, spec)
    below = [replace(mistake, path=f"spec.{mistake.path}" if mistake.path else "spec") for mistake in mistakes]
    return {**manifest, "spec": spec}, below


def join_errors(mistakes: Iterable[schema.SchemaMistake]) -> str:
    return "; ".join(f"{mistake.path}: {mistake.message}" for mistake in mistakes)


@dataclass(frozen=True, slots=True)
class ResourceRenderer:
    """Renderer of the resources of one instance."""

    definition: Definition
    instance: Manifest
    """Instance with the defaults of the definition, and without mistakes."""
    observed: Live
    definitions: Mapping[GroupKind, Definition]
    scopes: Mapping[GroupKind, bool]
    """For each kind, whether the kind is namespaced."""
    selected: Selected
    rendered: Mapping[str, RenderedResource]
    """Other resources, by id. The resources that the rendered resource reads must be there."""
    variables: Mapping[str, Any]
    """Values that expressions see, by name. A resource without a value is missing."""
    meter: Meter
    count_nodes_before: Callable[[], int]
    """Function that returns the number of nodes of all resources before this one, in the order of the definition."""

    def render(self, resource: ResourceNode) -> RenderedResource:
        """Return the objects of `resource`."""
        for parent in resource.depends_on:
            if self.rendered[parent].excluded:
                reason = f"it reads {parent}, which is excluded"
                return RenderedResource(excluded=ExcludedNode(resource.id, reason))
        verdict = conditions.evaluate_include_when(
            resource.include_when,
            self.variables,
            is_ready=self._is_ready,
            can_arrive=self._can_arrive,
            meter=self.meter,
        )
        if verdict.false:
            return RenderedResource(excluded=ExcludedNode(resource.id, verdict.false))
        depends_on = tuple(
            dict.fromkeys(name for parent in resource.depends_on for name in self.rendered[parent].as_dependency)
        )
        if resource.for_each:
            return self._render_collection(resource, depends_on, verdict)
        if resource.selects:
            return self._render_selection(resource, depends_on, verdict)
        item = self._render_item(resource, resource.id, depends_on, self.variables, verdict)
        return RenderedResource((item,), depends_on, is_evaluated=True)

    def _render_collection(
        self, resource: ResourceNode, depends_on: tuple[str, ...], verdict: conditions.ConditionResult
    ) -> RenderedResource:
        try:
            iterators = list(combinations(resource.for_each, self.variables, self.meter))
        except ExpressionError as problem:
            waiting, error = verdict.waiting, verdict.error
            if self._can_arrive(problem):
                waiting = (*waiting, conditions.describe_missing(problem))
            else:
                error = error or str(problem)
            return self._unknown(resource, depends_on, waiting=waiting, error=error)
        if self.count_nodes_before() + len(iterators) > MAX_NODES:
            error = f"with these {len(iterators):,} items the instance would have more than {MAX_NODES:,} objects"
            return self._unknown(resource, depends_on, error=error)
        items = []
        for index, values in enumerate(iterators):
            variables = {**self.variables, **values}
            item = self._render_item(resource, f"{resource.id}/{index}", depends_on, variables, verdict)
            items.append(item._replace(node=replace(item.node, iterators=values)))
        return RenderedResource(tuple(items), depends_on, is_evaluated=True)

    def _render_selection(
        self, resource: ResourceNode, depends_on: tuple[str, ...], verdict: conditions.ConditionResult
    ) -> RenderedResource:
        item = self._render_item(resource, resource.id, depends_on, self.variables, verdict)
        whole = RenderedResource((item,), depends_on)
        if item.node.error or item.node.waiting:
            return whole
        try:
            selection = Selection.from_reference(item.node.manifest)
        except SelectorError as problem:
            return _with_node(whole, replace(item.node, error=str(problem)))
        whole = replace(whole, selection=selection)
        keys = self.selected.get(selection)
        if keys is None:
            waiting = f"{selection} to be listed"
            return _with_node(whole, replace(item.node, waiting=(waiting,), selection=selection))
        if isinstance(keys, str):
            return _with_node(whole, replace(item.node, error=f"not allowed: {keys}"))
        whole = replace(whole, selected=tuple(sorted(keys)), is_evaluated=True)
        found = _selected_objects(whole, self.observed)
        seen = self._seen(resource.id, found)
        scope = {resource.id: seen, "schema": self.variables["schema"]}
        of_all = [condition for condition in resource.ready_when if "each" not in condition.names]
        ready = conditions.evaluate_ready_when(of_all, scope, self._can_arrive, self.meter)
        if ready.verdict is False:
            return _with_node(whole, replace(item.node, waiting=(f"{resource.id} to be ready: {ready.why}",)))
        nodes = (
            replace(
                item.node,
                id=f"{resource.id}/{index}",
                manifest={**item.node.manifest, "metadata": _name_and_namespace(obj)},
                key=ObjectKey.from_manifest(obj),
                ready=conditions.evaluate_ready_when(
                    resource.ready_when, {**scope, "each": one}, self._can_arrive, self.meter
                ),
            )
            for index, (obj, one) in enumerate(zip(found, seen, strict=True))
        )
        return replace(whole, items=tuple(RenderedItem(node, node.manifest) for node in nodes))

    def _render_item(
        self,
        resource: ResourceNode,
        node_id: str,
        depends_on: tuple[str, ...],
        variables: Mapping[str, Any],
        verdict: conditions.ConditionResult,
    ) -> RenderedItem:
        waiting, error = list(verdict.waiting), verdict.error
        fixed = {dimension.iterator for dimension in resource.for_each if dimension.program.names <= {"schema"}}
        can_arrive = partial(self._can_arrive, fixed=fixed) if fixed else self._can_arrive
        try:
            manifest, pending = resource.template.evaluate_partially(variables, can_arrive, self.meter)
            waiting += [conditions.describe_missing(problem) for _, problem in pending]
            known = resource.template.evaluate_known(variables, self.meter) if pending else manifest
        except TemplateError as problem:
            manifest, known, error = resource.template.source, {}, error or str(problem)
        manifest, key = self._with_namespace(resource, manifest, known)
        if not (waiting or error or resource.selects):
            error = join_errors(manifest_rules.find_mistakes(manifest)) or _forbidden(manifest)
            if not error and key and not resource.external:
                error = ": ".join(find_protection_mistake(manifest, key.namespace, key.name) or ())
            if not error and key is None:
                error = "metadata.namespace: missing; the instance has no namespace that it could go to"
        if not (waiting or error) and resource.group_kind in self.definitions and not resource.external:
            manifest, mistakes = with_defaults(self.definitions[resource.group_kind], manifest)
            error = join_errors(mistakes)
        if resource.external and not (resource.selects or waiting or error) and key and key not in self.observed:
            waiting.append(f"{key} to exist")
        node = self._node(
            resource,
            node_id,
            depends_on,
            manifest,
            key=key,
            waiting=tuple(dict.fromkeys(waiting)),
            error=error,
            ready=self._evaluate_ready_when(resource, key),
        )
        return RenderedItem(node, known if waiting or error else manifest)

    def _unknown(
        self, resource: ResourceNode, depends_on: tuple[str, ...], waiting: tuple[str, ...] = (), error: str = ""
    ) -> RenderedResource:
        """Return a collection whose elements are not known."""
        source = resource.template.source
        node = self._node(resource, resource.id, depends_on, source, key=None, waiting=waiting, error=error)
        return RenderedResource((RenderedItem(node, {}),), depends_on)

    def _node(
        self, resource: ResourceNode, node_id: str, depends_on: tuple[str, ...], manifest: Manifest, **more: Any
    ) -> RenderedNode:
        return RenderedNode(
            id=node_id,
            level=resource.level,
            depends_on=depends_on,
            group_kind=resource.group_kind,
            manifest=manifest,
            external=resource.external,
            origin=SourceLocation(self.definition.origin.file, resource.line),
            **more,
        )

    def _with_namespace(
        self, resource: ResourceNode, manifest: Manifest, known: Manifest
    ) -> tuple[Manifest, ObjectKey | None]:
        """Return the manifest with its namespace, and the key of the object if name and namespace are known."""
        namespaced = is_namespaced(resource.group_kind, self.scopes)
        metadata = manifest.get("metadata") or {}
        if resource.selects:
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
        return manifest, ObjectKey(*resource.group_kind, place["namespace"] if namespaced else "", place["name"])

    def _evaluate_ready_when(self, resource: ResourceNode, key: ObjectKey | None) -> ReadyVerdict:
        if not resource.ready_when or resource.selects:
            return ReadyVerdict()
        live = self.observed.get(key) if key else None
        if live is None:
            return ReadyVerdict(False, f"{resource.id} does not exist yet")
        own = (
            {"each": self._seen(resource.id, [live])[0]}
            if resource.for_each
            else {resource.id: self._seen(resource.id, live)}
        )
        scope = {**own, "schema": self.variables["schema"]}
        return conditions.evaluate_ready_when(resource.ready_when, scope, self._can_arrive, self.meter)

    def _seen(self, name: str, value: Any) -> Any:
        return as_variable(self.definition, name, value)

    def _is_ready(self, resource_id: str) -> bool:
        return resource_id in self.rendered and is_ready(self.rendered[resource_id], self.observed)

    def _can_arrive(self, problem: ExpressionError, fixed: Collection[str] = ()) -> bool:
        """Return whether the data that an expression lacks may still appear.

        Of the instance, only metadata that the server sets can appear. Of an object that another definition describes,
        only the fields of its status can appear, and a collection of `forEach` gets no further items. Of any other
        object, every field can appear, because controllers write more than the status.

        Args:
            fixed: Iterators whose values the instance alone determines.
        """
        if not isinstance(problem, NoSuchKey) or not problem.path or problem.path[0] in fixed:
            return False
        root, *rest = problem.path
        if root == "schema":
            return rest[:1] == ["metadata"] and rest[1:2] in [[name] for name in METADATA_READ]
        resource = self.definition.resources.get(root)
        if resource is None or resource.external or (root in self.rendered and self.rendered[root].is_waiting):
            return True
        if resource.for_each and len(rest) == 1 and root in self.variables:
            return False
        described = self.definitions.get(resource.group_kind)
        steps = conditions.missing_path(problem)[2 if resource.for_each else 1 :]
        return described is None or len(steps) < 2 or (steps[0] == "status" and steps[1] in described.status_fields)


def as_variable(definition: Definition, name: str, value: Any) -> Any:
    """Return the JSON value `value` of the variable `name` as expressions see it."""
    view = definition.views.get(name)
    return view.convert(value) if view else value


def _item_value(item: RenderedItem, observed: Live) -> Any:
    """Return what other expressions see of an object. A live object in another API version may lack fields of Git."""
    node, manifest = item.node, item.known
    live = observed.get(node.key) if node.key else None
    if node.external or live is None:
        return live if node.external else manifest
    is_applied = is_written_from(live, manifest) and live.get("apiVersion") == manifest.get("apiVersion")
    return live if is_applied else overlay(manifest, live)


def _selected_objects(rendered: RenderedResource, observed: Live) -> list[Mapping[str, Any]]:
    return [obj for key in rendered.selected if (obj := observed.get(key)) is not None]


def _with_node(rendered: RenderedResource, node: RenderedNode) -> RenderedResource:
    return replace(rendered, items=(RenderedItem(node, node.manifest),))


def _name_and_namespace(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {name: obj["metadata"][name] for name in ("name", "namespace") if name in obj["metadata"]}


def _forbidden(manifest: Manifest) -> str:
    return "; ".join(f"{place}: {message}" for place, message in find_forbidden_keys(manifest["metadata"]))
