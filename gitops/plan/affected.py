"""Of two commits only what the second can change: what both say alike, and nothing that differs can touch, needs no plan.

Invariant: a plan of what is left says the same as one of all. Where that would take counting what is left out (the brake on deletions counts all
that is live), nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from applier.plan.model import DeletionBrake
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey, is_same, source_parent
from renderer.render.model import RenderedApplySet, Rendering


def affected(
    base: Catalog, head: Catalog, before: Rendering, after: Rendering, brake: DeletionBrake
) -> tuple[Catalog, Catalog] | None:
    """Both catalogs without what cannot differ; None where all of it counts. The bundles are their renderings, made with one memo."""
    if len(_keys(before) - _keys(after)) > brake.deletions:
        return None
    source = source_parent(head.source)
    kept = set(_differing(before, after, source))
    wanted = kept.union(*(_below(owner, after) for owner in kept))
    for bundle in (before, after):
        for key, one in bundle.instances.items():
            if any(node.external or node.key in wanted for node in one.nodes):
                kept.add(_top(key, bundle, source))
    kept |= {key for bundle in (before, after) for key in _referred(bundle, source)}
    kept |= {key for bundle in (before, after) for key in _neighbours(kept, bundle.sources[head.source])}
    return _reduced(base, kept), _reduced(head, kept)


def _keys(bundle: Rendering) -> set[ObjectKey]:
    return {node.key for one in bundle.sets for node in one.nodes if node.key}


def _differing(before: Rendering, after: Rendering, source: ObjectKey) -> Iterator[ObjectKey]:
    """Members of the source's set that differ, or whose definition does, or something below them."""
    old, new = ({node.key: node for one in it.sources.values() for node in one.nodes} for it in (before, after))
    for key in old.keys() | new.keys():
        one, other = old.get(key), new.get(key)
        if key and (
            one is None or other is None or one.error != other.error or not is_same(one.manifest, other.manifest)
        ):
            yield key
    changed = {
        kind
        for kind in before.definitions.keys() | after.definitions.keys()
        if (mine := before.definitions.get(kind)) is None
        or (theirs := after.definitions.get(kind)) is None
        or mine.digest != theirs.digest
    }
    for bundle, others in ((before, after), (after, before)):
        for key, rendered in bundle.instances.items():
            other_set = others.instances.get(key)
            if key.group_kind in changed or other_set is None or not _is_same(rendered, other_set):
                yield _top(key, bundle, source)


def _is_same(one: RenderedApplySet, other: RenderedApplySet) -> bool:
    return (one.nodes is other.nodes or one.nodes == other.nodes) and (one.error, one.held_reason) == (
        other.error,
        other.held_reason,
    )


def _top(key: ObjectKey, bundle: Rendering, source: ObjectKey) -> ObjectKey:
    """The instance in the source's set that a nested one belongs to."""
    while (rendered := bundle.instances.get(key)) and rendered.owner and rendered.owner != source:
        key = rendered.owner
    return key


def _below(key: ObjectKey, bundle: Rendering) -> Iterator[ObjectKey]:
    if rendered := bundle.instances.get(key):
        for node in rendered.nodes:
            if node.key and not node.external:
                yield node.key
                yield from _below(node.key, bundle)


def _referred(bundle: Rendering, source: ObjectKey) -> Iterator[ObjectKey]:
    """What of the commit is referred to by instances, or what makes it."""
    named = {node.key for one in bundle.instances.values() for node in one.nodes if node.external and node.key}
    for one in bundle.sets if named else ():
        for node in one.nodes:
            if node.key in named and not node.external:
                yield node.key if one.is_source else _top(one.parent, bundle, source)


def _neighbours(kept: set[ObjectKey], source: RenderedApplySet) -> Iterator[ObjectKey]:
    """What members of the source's set use and are used by, one step."""
    by_id = {node.id: node for node in source.nodes}
    for node in source.nodes:
        used = [other.key for name in node.depends_on if (other := by_id.get(name)) and other.key]
        if node.key in kept:
            yield from used
        elif node.key and not kept.isdisjoint(used):
            yield node.key


def _reduced(catalog: Catalog, kept: set[ObjectKey]) -> Catalog:
    """By kind and name, of any namespace: what it would be put in is not known here, and one more changes nothing."""
    names = {(key.group_kind, key.name) for key in kept}
    return replace(
        catalog,
        objects=tuple(one for one in catalog.objects if (one.group_kind, one.manifest["metadata"]["name"]) in names),
    )
