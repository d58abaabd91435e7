"""Rendering of one instance: its resources in order of level, and what they make of its status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from renderer.cel import Meter
from renderer.definition.compile import Definition
from renderer.definition.custom_conditions import CustomConditions
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
    parent = ObjectKey.from_manifest(instance)
    schema = as_variable(definition, "schema", schema_value(instance, observed.get(parent)))
    rendered: dict[str, RenderedResource] = {}
    nodes: dict[str, RenderedNode] = {}
    variables, live, meter = {"schema": schema}, {"schema": schema}, Meter.of_instance()
    renderer = ResourceRenderer(
        definition,
        instance,
        observed,
        definitions,
        scopes,
        selected or {},
        rendered,
        variables,
        meter,
        lambda: len(nodes),
    )
    for resource in definition.nodes:
        found = rendered[resource.id] = renderer.render(resource)
        nodes |= {node.id: node for node in found.nodes}
        if (value := resource_value(resource, found, observed)) is not None:
            variables[resource.id] = as_variable(definition, resource.id, value)
        if (value := live_value(resource, found, observed)) is not None:
            live[resource.id] = as_variable(definition, resource.id, value)
    return RenderedApplySet(
        parent=parent,
        manifest=instance,
        nodes=in_levels(unique(redact_secrets(nodes, observed))),
        excluded=tuple(found.excluded for found in rendered.values() if found.excluded),
        status=strip_nulls(definition.status.evaluate_known(live, meter)),
        conditions=CustomConditions.of(definition.conditions, live),
        source=source,
        definition=definition.name,
        owner=owner,
        gates={node.id: node.propagate_when for node in definition.nodes if node.propagate_when is not None},
        selections={name: found.selection for name, found in rendered.items() if found.selection},
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
