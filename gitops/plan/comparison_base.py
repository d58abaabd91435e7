"""Facts about the compared state of a plan, for plans whose cluster does not hold these facts.

A plan between two commits sends no request to a cluster, and may cover only the affected part of a source. A plan
against a snapshot does not know the values of Secrets. `ComparisonBase` holds the facts that these two plans lack.
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
"""Manifest of each node of the base that waits for values of a cluster, by parent of the set and id of the node."""


@dataclass(frozen=True, slots=True)
class ComparedObjects:
    """Objects of a source before and after a commit, in the form that windows and policies select from."""

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
    """Facts about the compared state that the planned cluster does not hold.

    For a real cluster, every field is empty.
    """

    unresolved: BaseManifests | None = None
    """Nodes of the base that wait for values, or None in a plan against a cluster. If a node of the head is equal to
    such a node, the node of the head counts as unchanged.
    """

    levels: Mapping[ObjectKey, int] = field(default_factory=dict)
    """Levels of the source's own objects in the whole commit, or an empty mapping if the plan covers the whole commit.
    """

    selectable: ComparedObjects | None = None
    """Objects of both whole commits, or None if the preview covers the whole source."""

    hidden: frozenset[ObjectKey] = frozenset()
    """Secrets with masked values. Until the instance of a masked Secret moves, the data of the Secret counts as
    unchanged.
    """


def waiting_manifests(rendering: Rendering) -> BaseManifests:
    """Return the manifest of each node that waits for values of a cluster, by parent of the set and id of the node."""
    return {
        (applyset.parent, node.id): node.manifest
        for applyset in rendering.sets
        for node in applyset.nodes
        if node.waiting
    }


def own_levels(rendering: Rendering) -> Mapping[ObjectKey, int]:
    """Return the level of each object that a source declares itself, by key."""
    return {node.key: node.level for applyset in rendering.sources.values() for node in applyset.nodes if node.key}


def rendered_manifests(rendering: Rendering) -> Iterator[Manifest]:
    """Yield the manifest of each node that has a manifest."""
    return (node.manifest for applyset in rendering.sets for node in applyset.nodes if node.manifest)
