"""Values for the shares of one source: the objects that each cluster gets.

All keys have the namespaces in Git, before a cluster's `namespaceMap` changes the namespaces.

A fate tells what happens to an object that a cluster does not get. The module holds three fates of an object:

- `ClusterShare.objects`: the fate by the placements that choose the cluster.
- `Placed.unmatched`: the last of these fates, for an object that the cluster no longer gets.
- `Placed.fates`: the fate by all placements that select the object. This fate overrides `Placed.unmatched`.
"""

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

    If a later commit takes the object from the cluster, `Placed.unmatched` contains the fate.
    """
    definitions: frozenset[GroupKind]
    """Kinds whose definitions the cluster gets."""
    patches: Mapping[ObjectKey, tuple[ManifestPatch, ...]]
    """Patches of each instance, in the order of application."""
    refused: Mapping[ObjectKey, str]
    """Reason by key of each object in `objects` that stays unchanged because its overrides contradict each other."""
    placements: tuple[str, ...]
    """Names of the placements that choose the cluster. The implicit placement has an empty name.

    After an uncertain placing, the names may include placements of the previous share.
    """

    def content(self, *, is_certain: bool) -> ProjectedContent:
        """Return the share in the form that `project` reads.

        Args:
            is_certain: `Placed.is_certain` of the placing that returned the share. If False, the cluster also keeps its
                live objects that the share leaves out.
        """
        return ProjectedContent(
            self.objects.keys(), self.definitions, self.patches, self.refused, keeps_left_out=not is_certain
        )


NO_SHARE: Final = ClusterShare({}, frozenset(), {}, {}, ())
"""Share of a cluster that gets nothing."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Result of the placing of one source."""

    by_cluster: Mapping[ClusterName, ClusterShare]
    """Share of each declared cluster, and of `local` even if Git does not declare `local`. A share may be empty.

    Clusters with the same placements and the same overrides have the identical share. If the placing is uncertain and
    adds content of the previous share, each such cluster has a share of its own. In `NOTHING_PLACED`, the mapping is
    empty.
    """

    fates: Mapping[ObjectKey, OnUnmatch]
    """Fate of each object that a placement of the commit selects, in a cluster that does not get the object."""

    unmatched: Mapping[ClusterName, Mapping[ObjectKey, OnUnmatch]]
    """For each cluster, the objects in Git that it got before and does not get now, each with its last fate."""

    is_certain: bool
    """False if a share may lack an object that belongs to the share. Then each cluster keeps its present objects."""

    problems: tuple[Problem, ...]
    """Contradictory overrides. The affected objects stay unchanged."""

    warnings: tuple[Problem, ...]
    """Objects without a placement, selectors without a match, and missing clusters. `levelgate lint` shows them."""


NOTHING_PLACED: Final = Placed({}, {}, {}, is_certain=True, problems=(), warnings=())
"""Result before the first placing of a source."""


def find_unmatched_objects(
    share: ClusterShare, cluster: ClusterName, previous: Placed, declared: Collection[ObjectKey]
) -> dict[ObjectKey, OnUnmatch]:
    """Return the declared objects that the cluster got before and does not get now, each with its last fate."""
    before = previous.by_cluster.get(cluster, NO_SHARE).objects
    ever_placed = {**previous.unmatched.get(cluster, {}), **before}
    return {key: fate for key, fate in ever_placed.items() if key in declared and key not in share.objects}


def keep_previous(share: ClusterShare, before: ClusterShare, declared: Collection[ObjectKey]) -> ClusterShare:
    """Return `share` with the `declared` objects of the share `before` added.

    Added objects keep their fates, patches and refusals. The result also contains all definitions and the names of all
    placements of `before`. If `before` adds neither an object nor a definition, return `share` itself, so that clusters
    with the identical share keep one projection.
    """
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
