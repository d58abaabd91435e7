"""Knowledge about the compared state that the planned cluster does not hold itself.

A plan between two commits asks no cluster and may cover only the affected part of a source. A plan against a snapshot
does not know values of Secrets. `ComparisonBase` holds the knowledge that is missing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from gitops.windows.selectable import SelectableObjects
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import Manifest, ObjectKey
from renderer.render.model import Rendering

BaseManifests = Mapping[tuple[ObjectKey, str], Manifest]
"""Manifests of the base's nodes that wait for values of a cluster, by the parent of the set and the id of the node."""


@dataclass(frozen=True, slots=True)
class ComparedObjects:
    """Objects of a source before and after a commit, as windows and policies select them."""

    before: SelectableObjects
    after: SelectableObjects

    @classmethod
    def from_commits(
        cls, base: Catalog, base_rendering: Rendering, head: Catalog, head_rendering: Rendering, cluster: str
    ) -> ComparedObjects | None:
        """Return the objects of two rendered commits, or None if the second commit has no rules."""
        if not head.rules:
            return None
        return cls(
            SelectableObjects.from_rendering(base, base_rendering, cluster),
            SelectableObjects.from_rendering(head, head_rendering, cluster),
        )


@dataclass(frozen=True, slots=True)
class ComparisonBase:
    """Facts about the compared state that the planned cluster does not hold. All are empty for a real cluster."""

    unresolved: BaseManifests | None = None
    """Nodes of the base that wait for values. An equal node of the head is unchanged. None if a cluster is known."""

    levels: Mapping[ObjectKey, int] = field(default_factory=dict)
    """Levels of the source's own objects in the whole commit. Empty if the plan covers the whole commit itself."""

    selectable: ComparedObjects | None = None
    """Objects of both whole commits. None if the preview covers the whole source."""

    hidden: frozenset[ObjectKey] = frozenset()
    """Secrets with masked values. Until its instance moves, the data of such a Secret is assumed to stay equal."""


def waiting_manifests(rendering: Rendering) -> BaseManifests:
    """Return the manifests of all nodes that wait for values of a cluster."""
    return {
        (applyset.parent, node.id): node.manifest
        for applyset in rendering.sets
        for node in applyset.nodes
        if node.waiting
    }


def own_levels(rendering: Rendering) -> Mapping[ObjectKey, int]:
    """Return the levels of the objects that sources declare themselves."""
    return {node.key: node.level for applyset in rendering.sources.values() for node in applyset.nodes if node.key}


def rendered_manifests(rendering: Rendering) -> Iterator[Manifest]:
    """Yield the manifests of all nodes that have one."""
    return (node.manifest for applyset in rendering.sets for node in applyset.nodes if node.manifest)
