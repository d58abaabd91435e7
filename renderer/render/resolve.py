"""Rendering of one instance: its resources in order of level, and what they make of its status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from renderer.cel import Meter
from renderer.definition.compile import Definition
from renderer.definition.custom_conditions import CustomConditions
from renderer.definition.resources import ResourceNode
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import SECRET
from renderer.manifest_hash import strip_nulls
from renderer.render.leveling import in_levels, unique
from renderer.render.model import Live, RenderedApplySet, RenderedNode, Selected
from renderer.render.resources import (
    RenderedResource,
    ResourceRenderer,
    as_variable,
    live_value,
    resource_value,
    schema_value,
)
from renderer.secret_redaction import SecretRedactor


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
    """Return the set of one instance.

    Args:
        instance: instance with the defaults of `definition`, and without mistakes.
        scopes: for each kind, whether the kind is namespaced.
    """
    walk = _Walk(definition, instance, observed, definitions, scopes, selected or {})
    for resource in definition.nodes:
        walk.visit(resource)
    rendered = walk.rendered
    return RenderedApplySet(
        parent=ObjectKey.from_manifest(instance),
        manifest=instance,
        nodes=in_levels(unique(redact_secrets(walk.nodes, observed))),
        excluded=tuple(one.excluded for one in rendered.values() if one.excluded),
        status=strip_nulls(definition.status.evaluate_known(walk.live, walk.meter)),
        conditions=CustomConditions.of(definition.conditions, walk.live),
        source=source,
        definition=definition.name,
        owner=owner,
        gates={node.id: node.propagate_when for node in definition.nodes if node.propagate_when is not None},
        selections={name: one.selection for name, one in rendered.items() if one.selection},
    )


def redact_secrets(nodes: Mapping[str, RenderedNode], observed: Live) -> Mapping[str, RenderedNode]:
    """Return `nodes` by id, without values of the Secrets among them in the texts about errors and missing data."""
    secrets = [node for node in nodes.values() if node.group_kind == SECRET]
    with_texts = [node for node in nodes.values() if secrets and (node.error or node.waiting or node.ready.why)]
    if not with_texts:
        return nodes
    redact = secret_redactor(secrets, observed)
    return {**nodes, **{node.id: redacted(node, redact) for node in with_texts}}


def secret_redactor(secrets: Iterable[RenderedNode], observed: Live) -> SecretRedactor:
    """Return the redactor of the values of `secrets`, as rendered and as they are in the cluster."""
    secrets = list(secrets)
    live = (observed.get(node.key) for node in secrets if node.key)
    return SecretRedactor([*(node.manifest for node in secrets if node.writable), *(obj for obj in live if obj)])


def redacted(node: RenderedNode, redact: Callable[[str], str]) -> RenderedNode:
    """Return `node` with redacted texts."""
    return replace(
        node,
        error=redact(node.error),
        waiting=tuple(map(redact, node.waiting)),
        ready=replace(node.ready, why=redact(node.ready.why)),
    )


@dataclass
class _Walk:
    """Rendering of all resources of an instance, in order of level."""

    definition: Definition
    instance: Manifest
    observed: Live
    definitions: Mapping[GroupKind, Definition]
    scopes: Mapping[GroupKind, bool]
    selected: Selected
    rendered: dict[str, RenderedResource] = field(default_factory=dict)
    nodes: dict[str, RenderedNode] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    """Values that the status sees."""
    meter: Meter = field(default_factory=Meter.of_instance)

    def __post_init__(self) -> None:
        live = self.observed.get(ObjectKey.from_manifest(self.instance))
        schema = as_variable(self.definition, "schema", schema_value(self.instance, live))
        self.variables["schema"] = self.live["schema"] = schema

    def visit(self, resource: ResourceNode) -> None:
        renderer = ResourceRenderer(
            self.definition,
            self.instance,
            self.observed,
            self.definitions,
            self.scopes,
            self.selected,
            self.rendered,
            self.variables,
            self.meter,
            lambda: len(self.nodes),
        )
        rendered = self.rendered[resource.id] = renderer.render(resource)
        self.nodes |= {node.id: node for node in rendered.nodes}
        if (value := resource_value(resource, rendered, self.observed)) is not None:
            self.variables[resource.id] = as_variable(self.definition, resource.id, value)
        if (value := live_value(resource, rendered, self.observed)) is not None:
            self.live[resource.id] = as_variable(self.definition, resource.id, value)
