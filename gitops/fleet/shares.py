"""Values for the shares of one source: the objects that each cluster gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from applier.cluster import ClusterName
from gitops.fleet.placement import OnUnmatch
from renderer.catalog.projection import ManifestPatch, ProjectedContent
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey


@dataclass(frozen=True, slots=True)
class ClusterShare:
    """Share of one cluster in a source: the objects that the cluster gets, with their patches."""

    objects: Mapping[ObjectKey, OnUnmatch]
    """Fate by key of each instance and plain object that the cluster gets.

    When the cluster no longer gets the object, the fate applies.
    """
    definitions: frozenset[GroupKind]
    patches: Mapping[ObjectKey, tuple[ManifestPatch, ...]]
    """Patches of each instance, in the order of application."""
    refused: Mapping[ObjectKey, str]
    """Reason by key of each object that stays unchanged in the cluster."""
    placements: tuple[str, ...]
    """Names of the placements that select the cluster."""

    def content(self, *, is_certain: bool) -> ProjectedContent:
        """Return the share in the form that `project` reads."""
        return ProjectedContent(
            self.objects.keys(), self.definitions, self.patches, self.refused, keeps_left_out=not is_certain
        )


NO_SHARE: Final = ClusterShare({}, frozenset(), {}, {}, ())
"""Share of a cluster that gets nothing."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Result of the placing of one source."""

    by_cluster: Mapping[ClusterName, ClusterShare]
    """Share of each declared cluster, and of `local` even if Git does not declare `local`. A share may be empty."""

    fates: Mapping[ObjectKey, OnUnmatch]
    """Fate of each selected object in a cluster that does not get the object."""

    unmatched: Mapping[ClusterName, Mapping[ObjectKey, OnUnmatch]]
    """For each cluster, the objects in Git that it got before and does not get now, each with its fate."""

    is_certain: bool
    """False if a share may lack an object that belongs to the share. Then each cluster keeps its present objects."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


NOTHING_PLACED: Final = Placed({}, {}, {}, is_certain=True, problems=(), warnings=())
"""Result before the first placing of a source."""


def find_unmatched_objects(
    share: ClusterShare, cluster: ClusterName, previous: Placed, declared: Collection[ObjectKey]
) -> dict[ObjectKey, OnUnmatch]:
    """Return the declared objects that the cluster got before and does not get now, each with its fate."""
    before = previous.by_cluster.get(cluster, NO_SHARE).objects
    ever_placed = {**previous.unmatched.get(cluster, {}), **before}
    return {key: fate for key, fate in ever_placed.items() if key in declared and key not in share.objects}


def keep_previous(share: ClusterShare, before: ClusterShare, declared: Collection[ObjectKey]) -> ClusterShare:
    """Return `share` with the `declared` objects of the share `before` added. Added objects keep their patches."""
    kept = {key: fate for key, fate in before.objects.items() if key in declared and key not in share.objects}
    if not kept and before.definitions <= share.definitions:
        return share
    return ClusterShare(
        {**share.objects, **kept},
        share.definitions | before.definitions,
        {**share.patches, **{key: patches for key, patches in before.patches.items() if key in kept}},
        {**share.refused, **{key: reason for key, reason in before.refused.items() if key in kept}},
        tuple(sorted({*share.placements, *before.placements})),
    )
