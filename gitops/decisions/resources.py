"""Renderings of instances as queries, one for each resource of an instance.

If an object of an instance changes, the graph renders only the resources again whose result depends on the object. The
order of the nodes changes only with what edges are made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from applier.cluster import Object
from gitops.decisions import live
from gitops.decisions.declarations import declared_object_node
from gitops.decisions.definitions import current_revision, definition_at, namespaced
from gitops.decisions.live_view import Lookup
from gitops.queries import Input, QueryGraph, query
from renderer.cel import Meter, budget
from renderer.definition.compile import Definition
from renderer.definition.custom_conditions import CustomConditions
from renderer.definition.resources import ResourceNode
from renderer.frozen import dataclass
from renderer.graph.implied_edges import edge_inputs
from renderer.identity import GroupKind, Manifest, ObjectKey, is_same
from renderer.kinds import SECRET
from renderer.label_selector import Selection
from renderer.manifest_hash import strip_nulls
from renderer.render.instances import FromGit, InstanceRendering, NodeOf
from renderer.render.leveling import in_levels, unique
from renderer.render.model import RenderedApplySet, RenderedNode, id_in_definition, is_same_node, is_same_set
from renderer.render.resolve import redacted, secret_redactor
from renderer.render.resources import (
    METADATA_READ,
    RenderedResource,
    ResourceRenderer,
    as_variable,
    live_value,
    resource_value,
    schema_value,
    with_defaults,
)
from renderer.render.revisions import AppliedSnapshot
from renderer.schema import SchemaMistake

_CHEAP_UNITS: Final = 50_000
"""Units of work that each resource may spend without regard to the budget of its instance.

The cost of such resources, which are nearly all, is no input of other resources. Together they stay within the budget
of an instance up to 1,000 resources.
"""

_BUDGET_STEPS: Final = 16
"""Number of steps in which the budget of an instance falls for the other resources.

With steps, a small change of the cost of one resource changes no other budget. An instance exceeds its budget by at
most one step.
"""


def _is_same_snapshot(before: AppliedSnapshot | None, after: AppliedSnapshot | None) -> bool:
    """Return whether two snapshots are equal, and both are read or unread."""
    return before == after and (before is None or after is None or is_same(before.manifest, after.manifest))


applied_snapshot: Final[Input[[ObjectKey], AppliedSnapshot | None]] = Input(
    "applied_snapshot", initial=None, starts_unread=False, same=_is_same_snapshot
)
"""Applied snapshot of an instance. If nobody has read the content of its record, the snapshot has no manifest."""

selected: Final[Input[[Selection], tuple[ObjectKey, ...] | str | None]] = Input(
    "selected", initial=None, starts_unread=True
)
"""Keys of the objects that a selection finds, or the reason why the API server refuses the list."""


class VariableValue(NamedTuple):
    """Value of a name in expressions."""

    value: Any
    """Value as JSON."""
    seen: Any
    """Value as expressions see it."""


def _is_same_variable(before: VariableValue | None, after: VariableValue | None) -> bool:
    return before is after or (before is not None and after is not None and is_same(before.value, after.value))


@dataclass(frozen=True, slots=True)
class _Instance:
    """What the resources of one rendering have in common."""

    definition: Definition
    resources: Mapping[str, ResourceNode]
    positions: Mapping[str, int]
    manifest: Manifest
    schema: VariableValue

    def is_same(self, other: _Instance) -> bool:
        return (
            self.definition is other.definition
            and is_same(self.manifest, other.manifest)
            and is_same(self.schema.value, other.schema.value)
        )


@query(same=is_same)
def _server_metadata(graph: QueryGraph, instance: ObjectKey) -> Mapping[str, Any] | None:
    """Return the metadata of an instance that only the server knows, or None if the instance does not exist."""
    obj = live.live_object(graph, instance)
    return obj and {name: obj["metadata"][name] for name in METADATA_READ if name in obj["metadata"]}


class Defaulted(NamedTuple):
    """Declared instance with the defaults of a definition."""

    manifest: Manifest
    mistakes: tuple[SchemaMistake, ...]


@query(same=lambda before, after: before == after and is_same(before and before.manifest, after and after.manifest))
def declared_instance(graph: QueryGraph, source: str, key: ObjectKey, revision: int) -> Defaulted | None:
    """Return a declared instance at a revision of its definition, or None if there is no such instance or revision."""
    definition, node = definition_at(graph, key.group_kind, revision), declared_object_node(graph, source, key)
    if definition is None or node is None:
        return None
    manifest, mistakes = with_defaults(definition, node.manifest)
    return Defaulted(manifest, tuple(mistakes))


@query(same=is_same)
def _content(graph: QueryGraph, rendering: InstanceRendering) -> Manifest | None:
    """Return the manifest of an instance that a rendering starts from."""
    match rendering.content:
        case NodeOf(rendering=outer, node_id=node_id):
            items = rendered_resource(graph, outer, id_in_definition(node_id)).items
            return next((item.node.manifest for item in items if item.node.id == node_id), None)
        case FromGit.APPLIED:
            snapshot = applied_snapshot(graph, rendering.instance)
            return snapshot.manifest if snapshot else None
        case FromGit.DECLARED:
            found = declared_instance(graph, rendering.owner.source, rendering.instance, rendering.revision)
            return found.manifest if found else None


def _definition(graph: QueryGraph, rendering: InstanceRendering) -> Definition:
    definition = definition_at(graph, rendering.instance.group_kind, rendering.revision)
    if definition is None:
        raise LookupError(f"{rendering.instance} has no definition at revision {rendering.revision}")
    return definition


@query(same=_Instance.is_same)
def _instance(graph: QueryGraph, rendering: InstanceRendering) -> _Instance:
    definition, manifest = _definition(graph, rendering), _content(graph, rendering)
    if manifest is None:
        raise LookupError(f"{rendering.instance} has no content at revision {rendering.revision}")
    metadata = _server_metadata(graph, rendering.instance)
    value = schema_value(manifest, None if metadata is None else {"metadata": metadata})
    return _Instance(
        definition,
        definition.resources,
        {node.id: position for position, node in enumerate(definition.nodes)},
        manifest,
        VariableValue(value, as_variable(definition, "schema", value)),
    )


class _Metered(NamedTuple):
    """Rendered resource, and the units of work of its expressions."""

    rendered: RenderedResource
    units: int


def _is_same_resource(before: _Metered, after: _Metered) -> bool:
    """Return whether two results are equal. Python's `==` alone treats `1` and `True` in manifests as equal."""
    return before == after and all(
        is_same_node(old.node, new.node)
        and is_same(old.known, new.known)
        and is_same(old.node.iterators, new.node.iterators)
        for old, new in zip(before.rendered.items, after.rendered.items, strict=True)
    )


@query(same=_is_same_resource)
def _metered_resource(graph: QueryGraph, rendering: InstanceRendering, resource_id: str) -> _Metered:
    found = _spend(graph, rendering, resource_id, _CHEAP_UNITS)
    if found.units < _CHEAP_UNITS:
        return found
    position = _instance(graph, rendering).positions[resource_id]
    return _spend(graph, rendering, resource_id, budget.INSTANCE_UNITS - _budget_used(graph, rendering, position))


def _spend(graph: QueryGraph, rendering: InstanceRendering, resource_id: str, units: int) -> _Metered:
    """Render a resource with a budget of `units`. If the expressions need more, the result spends all units."""
    instance = _instance(graph, rendering)
    resource, position = instance.resources[resource_id], instance.positions[resource_id]
    reads = resource.depends_on
    variables = {name: found.seen for name in reads if (found := _variable(graph, rendering, name))}
    meter = Meter(units, limit=budget.INSTANCE_UNITS)
    rendered = ResourceRenderer(
        instance.definition,
        instance.manifest,
        _objects(graph),
        Lookup(partial(current_definition, graph), "definitions"),
        Lookup(partial(namespaced, graph), "kinds"),
        Lookup(partial(selected, graph), "selections"),
        {name: rendered_resource(graph, rendering, name) for name in reads},
        {"schema": instance.schema.seen, **variables},
        meter,
        lambda: _nodes_before(graph, rendering, position),
    ).render(resource)
    return _Metered(rendered, units - meter.renew().rest)


def rendered_resource(graph: QueryGraph, rendering: InstanceRendering, resource_id: str) -> RenderedResource:
    """Return one resource of an instance.

    The caller reads the resources of a rendering in the order of the definition, because a resource that is not cheap
    reads the cost of all resources before it.
    """
    return _metered_resource(graph, rendering, resource_id).rendered


@query
def _units_before(graph: QueryGraph, rendering: InstanceRendering, position: int) -> int:
    """Return the units of work of all resources before the one at `position`."""
    if not position:
        return 0
    before = _definition(graph, rendering).nodes[position - 1]
    units: int = _metered_resource(graph, rendering, before.id).units
    return _units_before(graph, rendering, position - 1) + units


@query
def _budget_used(graph: QueryGraph, rendering: InstanceRendering, position: int) -> int:
    """Return the used part of the instance's budget, in units rounded down to a step."""
    step = budget.INSTANCE_UNITS // _BUDGET_STEPS
    return min(budget.INSTANCE_UNITS, _units_before(graph, rendering, position) // step * step)


@query
def _nodes_before(graph: QueryGraph, rendering: InstanceRendering, position: int) -> int:
    """Return the number of nodes of all resources before the one at `position`."""
    before = _definition(graph, rendering).nodes[:position]
    return sum(len(rendered_resource(graph, rendering, resource.id).items) for resource in before)


@query(same=_is_same_variable)
def _variable(graph: QueryGraph, rendering: InstanceRendering, resource_id: str) -> VariableValue | None:
    """Return what templates and conditions of other resources see of a resource."""
    instance, rendered = _instance(graph, rendering), rendered_resource(graph, rendering, resource_id)
    value = resource_value(instance.resources[resource_id], rendered, _objects(graph))
    return None if value is None else VariableValue(value, as_variable(instance.definition, resource_id, value))


@query(same=_is_same_variable)
def _live_variable(graph: QueryGraph, rendering: InstanceRendering, resource_id: str) -> VariableValue | None:
    """Return what the status of the instance sees of a resource."""
    instance, rendered = _instance(graph, rendering), rendered_resource(graph, rendering, resource_id)
    value = live_value(instance.resources[resource_id], rendered, _objects(graph))
    return None if value is None else VariableValue(value, as_variable(instance.definition, resource_id, value))


def _live_variables(graph: QueryGraph, rendering: InstanceRendering, names: frozenset[str]) -> dict[str, Any]:
    values = {"schema": _instance(graph, rendering).schema.seen}
    for resource in _definition(graph, rendering).nodes:
        if resource.id in names and (found := _live_variable(graph, rendering, resource.id)):
            values[resource.id] = found.seen
    return values


@query(same=is_same)
def status(graph: QueryGraph, rendering: InstanceRendering) -> Mapping[str, Any]:
    """Return the status that the definition declares, as far as its data exists."""
    template = _definition(graph, rendering).status
    names = frozenset().union(*(program.names for _, program in template.expressions))
    found: Mapping[str, Any] = strip_nulls(template.evaluate_known(_live_variables(graph, rendering, names)))
    return found


@query
def custom_conditions(graph: QueryGraph, rendering: InstanceRendering) -> CustomConditions | None:
    """Return the conditions that the definition declares, with the values that they read."""
    entries = _definition(graph, rendering).conditions
    names = frozenset().union(*(entry.program.names for entry in entries))
    return CustomConditions.of(entries, _live_variables(graph, rendering, names))


class _Ordered(NamedTuple):
    """Rendered resource in so far as the order of its instance depends on the resource."""

    rendered: RenderedResource

    def is_same(self, other: _Ordered) -> bool:
        before, after = self.rendered.nodes, other.rendered.nodes
        return len(before) == len(after) and all(map(_has_same_place, before, after))


def _has_same_place(before: RenderedNode, after: RenderedNode) -> bool:
    """Return whether two states of a node have the same edges."""
    return (
        (before.id, before.key, before.depends_on, before.external)
        == (after.id, after.key, after.depends_on, after.external)
        and bool(before.waiting) == bool(after.waiting)
        and (before.key is None or edge_inputs(before.manifest, before.key) == edge_inputs(after.manifest, before.key))
    )


@query(same=_Ordered.is_same)
def _ordered(graph: QueryGraph, rendering: InstanceRendering, resource_id: str) -> _Ordered:
    return _Ordered(rendered_resource(graph, rendering, resource_id))


class NodePlace(NamedTuple):
    """Place of a node in the order of its set, as the arguments of `RenderedNode.placed`."""

    level: int
    depends_on: tuple[str, ...]
    healthy_first: frozenset[str]
    error: str
    """Error of the place, such as a dependency cycle, or an empty text."""

    @classmethod
    def of(cls, node: RenderedNode) -> NodePlace:
        """Return the place of a node that was ordered without its own error."""
        return cls(node.level, node.depends_on, node.healthy_first, node.error)


def _is_same_order(before: Mapping[str, NodePlace], after: Mapping[str, NodePlace]) -> bool:
    return before == after and list(before) == list(after)


@query(same=_is_same_order)
def _places(graph: QueryGraph, rendering: InstanceRendering) -> Mapping[str, NodePlace]:
    """Return the place of each node, in the order of the set."""
    resources = _definition(graph, rendering).nodes
    nodes = {
        node.id: replace(node, error="")
        for resource in resources
        for node in _ordered(graph, rendering, resource.id).rendered.nodes
    }
    return {node.id: NodePlace.of(node) for node in in_levels(unique(nodes))}


@query
def _secrets(graph: QueryGraph, rendering: InstanceRendering) -> tuple[RenderedNode, ...]:
    """Return the Secrets of an instance."""
    resources = (node for node in _definition(graph, rendering).nodes if node.group_kind == SECRET)
    return tuple(node for one in resources for node in rendered_resource(graph, rendering, one.id).nodes)


def _without_secrets(graph: QueryGraph, rendering: InstanceRendering, node: RenderedNode) -> RenderedNode:
    """Return the node without values of the instance's Secrets in its texts."""
    if not (node.error or node.waiting or node.ready.why) or not (secrets := _secrets(graph, rendering)):
        return node
    return redacted(node, secret_redactor(secrets, _objects(graph)))


def _are_same_nodes(before: tuple[RenderedNode, ...], after: tuple[RenderedNode, ...]) -> bool:
    return len(before) == len(after) and all(map(is_same_node, before, after))


@query(same=_are_same_nodes)
def placed_nodes(graph: QueryGraph, rendering: InstanceRendering, resource_id: str) -> tuple[RenderedNode, ...]:
    """Return the nodes of a resource at their places, with no value of a Secret in their texts."""
    places = _places(graph, rendering)
    return tuple(
        _without_secrets(graph, rendering, node).placed(*places[node.id])
        for node in rendered_resource(graph, rendering, resource_id).nodes
    )


@query(same=is_same_set)
def rendered_set(graph: QueryGraph, rendering: InstanceRendering) -> RenderedApplySet:
    """Return the set of an instance."""
    instance = _instance(graph, rendering)
    resources = instance.definition.nodes
    whole = [rendered_resource(graph, rendering, resource.id) for resource in resources]
    nodes = {node.id: node for resource in resources for node in placed_nodes(graph, rendering, resource.id)}
    return RenderedApplySet(
        parent=rendering.instance,
        manifest=instance.manifest,
        nodes=tuple(nodes[node_id] for node_id in _places(graph, rendering)),
        excluded=tuple(one.excluded for one in whole if one.excluded),
        status=status(graph, rendering),
        conditions=custom_conditions(graph, rendering),
        source=rendering.owner.source,
        definition=instance.definition.name,
        owner=rendering.owner.parent,
        gates={one.id: one.propagate_when for one in resources if one.propagate_when is not None},
        selections={one.id: made.selection for one, made in zip(resources, whole, strict=True) if made.selection},
    )


def _objects(graph: QueryGraph) -> Lookup[ObjectKey, Object]:
    return Lookup(partial(live.live_object, graph), "objects")


def current_definition(graph: QueryGraph, kind: GroupKind) -> Definition | None:
    """Return the definition from which new instances of a kind are rendered, or None if there is none."""
    number = current_revision(graph, kind)
    return definition_at(graph, kind, number) if number else None
