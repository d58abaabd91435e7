"""Restriction of two commits to the objects that the second commit can affect.

Most commits change few objects of a large source. Only those objects, and the objects connected to them, need a plan.
Invariant: the plan of the restricted commits reports the same changes as a plan of the whole source. If a commit
deletes more objects than the deletion brake permits, the plan covers the whole source, because the brake counts all
live objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from applier.plan.deletion_brake import DeletionBrake
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey, is_same, source_parent
from renderer.render.model import RenderedApplySet, Rendering


def restrict_to_affected(
    base: Catalog, head: Catalog, base_rendering: Rendering, head_rendering: Rendering, brake: DeletionBrake
) -> tuple[Catalog, Catalog] | None:
    """Return both catalogs without the objects that the commit cannot affect, or None to plan the whole source.

    Both renderings come from one `RenderCache`. So equal nodes are the same value, and comparing them costs nothing.
    """
    if len(_node_keys(base_rendering) - _node_keys(head_rendering)) > brake.deletions:
        return None
    source = source_parent(head.source)
    # Keep four groups of objects: members that differ; instances that read an external object or contain a
    # difference; objects that instances refer to; direct dependencies and dependents of the objects in the first three
    # groups.
    affected_keys = set(_differing_members(base_rendering, head_rendering, source))
    with_descendants = affected_keys.union(*(_descendants(owner, head_rendering) for owner in affected_keys))
    for rendering in (base_rendering, head_rendering):
        for key, applyset in rendering.instances.items():
            if any(node.external or node.key in with_descendants for node in applyset.nodes):
                affected_keys.add(_outermost_instance(key, rendering, source))
    affected_keys |= {
        key for rendering in (base_rendering, head_rendering) for key in _referenced_members(rendering, source)
    }
    affected_keys |= {
        key
        for rendering in (base_rendering, head_rendering)
        for key in _adjacent_members(affected_keys, rendering.sources[head.source])
    }
    return _restrict_catalog(base, affected_keys), _restrict_catalog(head, affected_keys)


def _node_keys(rendering: Rendering) -> set[ObjectKey]:
    return {node.key for applyset in rendering.sets for node in applyset.nodes if node.key}


def _differing_members(base_rendering: Rendering, head_rendering: Rendering, source: ObjectKey) -> Iterator[ObjectKey]:
    """Yield each member of the source's set that differs, or that has a different definition or a different node."""
    old, new = (
        {node.key: node for applyset in side.sources.values() for node in applyset.nodes}
        for side in (base_rendering, head_rendering)
    )
    for key in old.keys() | new.keys():
        old_node, new_node = old.get(key), new.get(key)
        if key and (
            old_node is None
            or new_node is None
            or old_node.error != new_node.error
            or not is_same(old_node.manifest, new_node.manifest)
        ):
            yield key
    changed = {
        kind
        for kind in base_rendering.definitions.keys() | head_rendering.definitions.keys()
        if (base_definition := base_rendering.definitions.get(kind)) is None
        or (head_definition := head_rendering.definitions.get(kind)) is None
        or base_definition.digest != head_definition.digest
    }
    for rendering, other_rendering in ((base_rendering, head_rendering), (head_rendering, base_rendering)):
        for key, rendered in rendering.instances.items():
            other_set = other_rendering.instances.get(key)
            if key.group_kind in changed or other_set is None or not _is_same(rendered, other_set):
                yield _outermost_instance(key, rendering, source)


def _is_same(applyset: RenderedApplySet, other: RenderedApplySet) -> bool:
    return (applyset.nodes is other.nodes or applyset.nodes == other.nodes) and (
        applyset.error,
        applyset.held_reason,
    ) == (
        other.error,
        other.held_reason,
    )


def _outermost_instance(key: ObjectKey, rendering: Rendering, source: ObjectKey) -> ObjectKey:
    """Return the member of the source's set that contains the nested instance `key`, at any depth."""
    while (rendered := rendering.instances.get(key)) and rendered.owner and rendered.owner != source:
        key = rendered.owner
    return key


def _descendants(key: ObjectKey, rendering: Rendering) -> Iterator[ObjectKey]:
    """Yield the members of an instance, and the members of its nested instances."""
    if rendered := rendering.instances.get(key):
        for node in rendered.nodes:
            if node.key and not node.external:
                yield node.key
                yield from _descendants(node.key, rendering)


def _referenced_members(rendering: Rendering, source: ObjectKey) -> Iterator[ObjectKey]:
    """Yield the members that instances refer to. For a node of an instance, yield the outermost instance."""
    referenced = {
        node.key for applyset in rendering.instances.values() for node in applyset.nodes if node.external and node.key
    }
    for applyset in rendering.sets if referenced else ():
        for node in applyset.nodes:
            if node.key in referenced and not node.external:
                yield node.key if applyset.is_source else _outermost_instance(applyset.parent, rendering, source)


def _adjacent_members(affected_keys: set[ObjectKey], source: RenderedApplySet) -> Iterator[ObjectKey]:
    """Yield the direct dependencies and dependents of the affected members."""
    by_id = {node.id: node for node in source.nodes}
    for node in source.nodes:
        dependency_keys = [
            dependency.key for name in node.depends_on if (dependency := by_id.get(name)) and dependency.key
        ]
        if node.key in affected_keys:
            yield from dependency_keys
        elif node.key and not affected_keys.isdisjoint(dependency_keys):
            yield node.key


def _restrict_catalog(catalog: Catalog, affected_keys: set[ObjectKey]) -> Catalog:
    """Return the catalog with only the objects whose kind and name occur in `affected_keys`.

    The function does not compare namespaces, because an object that names no namespace gets its namespace later. An
    unaffected object with the kind and name of an affected object stays too, and does not change the plan.
    """
    names = {(key.group_kind, key.name) for key in affected_keys}
    return replace(
        catalog,
        objects=tuple(
            declared
            for declared in catalog.objects
            if (declared.group_kind, declared.manifest["metadata"]["name"]) in names
        ),
    )
