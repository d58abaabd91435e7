"""Which objects of a source go to which clusters, and how they differ there. Pure.

Invariants: what cannot be told takes nothing away. While a file or a placement cannot be read, or it cannot be told what a definition makes that goes
somewhere, what was placed and is still declared stays placed. What an object cannot be without goes with it: its definition, with all that this
makes of other definitions' kinds; the CRD of its kind; its Namespace. So a cluster without a placement of a kind never gets its CRD.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from typing import Final

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.placement import ObjectSelector, OnUnmatch, Placement, PlacementOverride
from gitops.fleet.unmatched import PlacedObjects, find_unmatched_placements
from renderer.catalog.catalog import Catalog
from renderer.catalog.projection import (
    ManifestPatch,
    ProjectedContent,
    close_definitions,
    made_kinds,
    object_keys,
)
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, NAMESPACE
from renderer.label_selector import LabelSelector
from renderer.merge_patch import find_contradiction
from renderer.phrasing import format_count, join_names


@dataclass(frozen=True, slots=True)
class ClusterShare:
    """What one cluster gets of a source. Clusters that get the same share one value.

    `objects` are instances and plain objects, each with what becomes of it where it no longer goes; `patches` change instances one after the other;
    `refused` objects stay as they are there, each for a reason; `placements` are those by which the cluster gets anything.
    """

    objects: Mapping[ObjectKey, OnUnmatch]
    definitions: frozenset[GroupKind]
    patches: Mapping[ObjectKey, tuple[ManifestPatch, ...]]
    refused: Mapping[ObjectKey, str]
    placements: tuple[str, ...]

    def content(self, *, is_certain: bool) -> ProjectedContent:
        """As `project` takes it."""
        return ProjectedContent(
            self.objects.keys(), self.definitions, self.patches, self.refused, keeps_left_out=not is_certain
        )


NO_SHARE: Final = ClusterShare({}, frozenset(), {}, {}, ())


@dataclass(frozen=True, slots=True)
class Placed:
    """The shares of all clusters, those with nothing included, and of `local`, declared or not.

    `fates` say what becomes of an object where it does not go, as the placements say that select it, whichever clusters they choose.
    `unmatched` are, by cluster, objects that Git still declares and that no longer go there, until they go there again or leave Git. Where the
    placing is not `is_certain`, what a share leaves out may belong there: it is kept as it is wherever it lives.
    """

    by_cluster: Mapping[ClusterName, ClusterShare]
    fates: Mapping[ObjectKey, OnUnmatch]
    unmatched: Mapping[ClusterName, Mapping[ObjectKey, OnUnmatch]]
    is_certain: bool
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


NOTHING_PLACED: Final = Placed({}, {}, {}, is_certain=True, problems=(), warnings=())
"""Before anything was placed."""


def place(
    catalog: Catalog,
    clusters: Collection[ClusterSpec],
    placements: Collection[Placement],
    previous: Placed,
    *,
    scopes: Mapping[GroupKind, bool],
    broken: Collection[str],
    definition_names: Mapping[GroupKind, frozenset[str]],
) -> Placed:
    """What each cluster gets of a source by its placements; all onto `local` where there is none.

    Args:
        previous: What was placed before; only what is no longer placed, and what cannot be told, depends on it.
        scopes: Which kinds are namespaced, as `projection.scopes_in` says, over what the clusters have told.
        broken: Placements, and files that may hold some, that cannot be read, and of which nothing earlier is in force.
        definition_names: What definitions of other sources are called, by kind.
    """
    placer = _Placer(catalog, scopes, {**definition_names, **catalog.definition_names})
    ordered = sorted(placements, key=lambda placement: placement.name)
    if not ordered and not broken:
        ordered = [_everything()]
        chosen = {ordered[0].name: frozenset({LOCAL_CLUSTER})}
    else:
        chosen = {placement.name: choose_clusters(placement, clusters) for placement in ordered}
    shares = placer.share_out(clusters, ordered, chosen)
    is_certain = not broken and not catalog.unreadable_files
    opaque = {outline.group_kind for outline in catalog.broken_outlines if outline.node_kinds is None}
    is_certain &= not any(opaque & share.definitions for share in shares.values())
    declared = frozenset(placer.keys)
    if not is_certain:
        shares = {
            name: _with_previous(share, previous.by_cluster.get(name, NO_SHARE), declared)
            for name, share in shares.items()
        }
    is_implicit = chosen.keys() == {""}
    warnings = [] if is_implicit else [*placer.find_warnings(clusters, ordered, chosen, is_certain=is_certain)]
    return Placed(
        by_cluster=shares,
        fates=placer.find_fates(ordered),
        unmatched={name: _unmatched(share, name, previous, declared) for name, share in shares.items()},
        is_certain=is_certain,
        problems=tuple(sorted(placer.problems)),
        warnings=tuple(sorted(warnings)),
    )


def choose_clusters(placement: Placement, clusters: Iterable[ClusterSpec]) -> frozenset[ClusterName]:
    """The clusters that get the objects of a placement: those that it selects, or `count` of them.

    By rendezvous hashing: each cluster has a rank of its own for each placement, whatever others there are. So one that joins takes the place of at
    most one, and one that goes leaves its place to one.
    """
    selected = [one.name for one in clusters if placement.clusters.matches(one.labels)]
    ranked = sorted(selected, key=lambda name: (_rank(placement.name, name), name))
    return frozenset(ranked[: placement.count])


def _rank(placement: str, cluster: ClusterName) -> bytes:
    return hashlib.blake2b(f"{placement}\0{cluster}".encode(), digest_size=16).digest()


def _everything() -> Placement:
    """What holds for a source without placements: all of it goes to `local`."""
    return Placement(
        name="",
        objects=ObjectSelector(None, None, None),
        clusters=LabelSelector(),
        count=None,
        overrides=(),
        on_unmatch=OnUnmatch.ORPHAN,
        origin=SourceLocation(),
    )


def _unmatched(
    share: ClusterShare, cluster: ClusterName, previous: Placed, declared: Collection[ObjectKey]
) -> dict[ObjectKey, OnUnmatch]:
    before = previous.by_cluster.get(cluster, NO_SHARE).objects
    left = {**previous.unmatched.get(cluster, {}), **before}
    return {key: fate for key, fate in left.items() if key in declared and key not in share.objects}


def _with_previous(share: ClusterShare, before: ClusterShare, declared: Collection[ObjectKey]) -> ClusterShare:
    """A share with all that was in it before and is still declared, as it was patched there."""
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


@dataclass(frozen=True, slots=True)
class _PlacedOverride:
    placement: Placement
    index: int
    override: PlacementOverride

    def __str__(self) -> str:
        return f"placement {self.placement.name} ({self.override.patch.origin})"


@dataclass
class _Placer:
    """Places one catalog. What a placement selects is looked for once, whatever the number of clusters."""

    catalog: Catalog
    scopes: Mapping[GroupKind, bool]
    names: Mapping[GroupKind, frozenset[str]]
    keys: list[ObjectKey] = field(init=False)
    problems: list[Problem] = field(default_factory=list)
    selected: dict[str, list[ObjectKey]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = object_keys(self.catalog, self.scopes)
        self.labels = {
            key: declared.manifest["metadata"].get("labels") or {}
            for key, declared in zip(self.keys, self.catalog.objects, strict=True)
        }
        self.namespace_objects = {key.name: key for key in self.keys if key.group_kind == NAMESPACE}
        self.crd_objects = {
            kind: key
            for key, declared in zip(self.keys, self.catalog.objects, strict=True)
            if key.group_kind == CRD and (kind := _crd_kind(declared.manifest.get("spec")))
        }

    def share_out(
        self,
        clusters: Collection[ClusterSpec],
        placements: Sequence[Placement],
        chosen: Mapping[str, Collection[ClusterName]],
    ) -> dict[ClusterName, ClusterShare]:
        """The share of each cluster; contradictions of overrides are noted."""
        for placement in placements:
            self.selected[placement.name] = [key for key in dict.fromkeys(self.keys) if self._selects(placement, key)]
        labels = {LOCAL_CLUSTER: {}, **{one.name: one.labels for one in clusters}}
        shares: dict[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], ClusterShare] = {}
        by_cluster: dict[ClusterName, ClusterShare] = {}
        for name in sorted(labels):
            mine = [placement for placement in placements if name in chosen[placement.name]]
            overrides = [
                _PlacedOverride(placement, index, override)
                for placement in mine
                for index, override in enumerate(placement.overrides)
                if override.clusters.matches(labels[name])
            ]
            same = tuple(one.name for one in mine), tuple((one.placement.name, one.index) for one in overrides)
            if same not in shares:
                shares[same] = self._share(mine, overrides, name)
            by_cluster[name] = shares[same]
        return by_cluster

    def find_fates(self, placements: Iterable[Placement]) -> dict[ObjectKey, OnUnmatch]:
        """What these placements say of each object that they select; it stays where one of them says so."""
        fates: dict[ObjectKey, OnUnmatch] = {}
        for placement in placements:
            for key in self.selected[placement.name]:
                is_orphaned = OnUnmatch.ORPHAN in (fates.get(key, placement.on_unmatch), placement.on_unmatch)
                fates[key] = OnUnmatch.ORPHAN if is_orphaned else OnUnmatch.DELETE
        return fates

    def _selects(self, placement: Placement, key: ObjectKey) -> bool:
        if (names := self.names.get(key.group_kind)) is not None:
            return placement.objects.matches_instance(names, self.labels[key])
        return placement.objects.matches_plain(key.group_kind, self._namespace_of(key))

    def _namespace_of(self, key: ObjectKey) -> str:
        return key.name if key.group_kind == NAMESPACE else key.namespace

    def _share(
        self, placements: Sequence[Placement], overrides: Sequence[_PlacedOverride], cluster: ClusterName
    ) -> ClusterShare:
        if not placements:
            return NO_SHARE
        objects = self.find_fates(placements)
        kinds: set[GroupKind] = set()
        for placement in placements:
            if placement.objects.instances is None:
                kinds |= {kind for kind, names in self.names.items() if placement.objects.matches_definition(names)}
        definitions = close_definitions(self.catalog, {*kinds, *(key.group_kind for key in objects)})
        objects |= {key: OnUnmatch.ORPHAN for key in self._companions(objects, definitions) if key not in objects}
        patches, refused = self._patches(objects, overrides, cluster)
        return ClusterShare(objects, definitions, patches, refused, tuple(one.name for one in placements))

    def _companions(self, objects: Iterable[ObjectKey], definitions: Iterable[GroupKind]) -> Iterator[ObjectKey]:
        """The Namespaces of objects, and the CRDs in Git of their kinds and of those that definitions make."""
        kinds = {key.group_kind for key in objects}
        for kind in definitions:
            kinds |= made_kinds(self.catalog, kind)
        yield from (self.crd_objects[kind] for kind in sorted(kinds & self.crd_objects.keys()))
        namespaces = {key.namespace for key in objects}
        yield from (self.namespace_objects[name] for name in sorted(namespaces & self.namespace_objects.keys()))

    def _patches(
        self, objects: Iterable[ObjectKey], overrides: Sequence[_PlacedOverride], cluster: ClusterName
    ) -> tuple[dict[ObjectKey, tuple[ManifestPatch, ...]], dict[ObjectKey, str]]:
        """The patches of each instance, and the instances of which two set a field differently."""
        if not overrides:
            return {}, {}
        selected = {name: frozenset(keys) for name, keys in self.selected.items()}
        patches: dict[ObjectKey, tuple[ManifestPatch, ...]] = {}
        refused: dict[ObjectKey, str] = {}
        contradictions: dict[tuple[str, str], tuple[_PlacedOverride, _PlacedOverride, str, list[ObjectKey]]] = {}
        for key in objects:
            if (names := self.names.get(key.group_kind)) is None:
                continue
            mine = [
                one for one in overrides if key in selected[one.placement.name] and one.override.matches_instance(names)
            ]
            if mine:
                patches[key] = tuple(one.override.patch for one in mine)
            for first, second in combinations(mine, 2):
                if where := find_contradiction(first.override.patch.value, second.override.patch.value):
                    refused.setdefault(key, f"{first} and {second} set {where} differently")
                    known = contradictions.setdefault((str(first), str(second)), (first, second, where, []))
                    known[3].append(key)
        self.problems += [self._contradiction(*found, cluster) for found in contradictions.values()]
        return {key: found for key, found in patches.items() if key not in refused}, refused

    def _contradiction(
        self,
        first: _PlacedOverride,
        second: _PlacedOverride,
        field_path: str,
        keys: Sequence[ObjectKey],
        cluster: ClusterName,
    ) -> Problem:
        path = f"spec.overrides[{second.index}].patch"
        message = (
            f"{first} and {second} set {field_path} differently, for {join_names(keys)} in cluster {cluster}; "
            "what both patch stays as it is there until they agree, or only one of them patches it"
        )
        origin = second.override.patch.origin
        return Problem(origin.file, origin.line, path, message)

    def find_warnings(
        self,
        clusters: Collection[ClusterSpec],
        placements: Sequence[Placement],
        chosen: Mapping[str, Collection[ClusterName]],
        *,
        is_certain: bool,
    ) -> Iterator[Problem]:
        """Objects that no placement selects, selectors that select nothing, and placements with fewer clusters than they count."""
        companions = set(self.crd_objects.values())
        for placement in placements:
            taken = self.selected[placement.name]
            companions |= {*taken, *self._companions(taken, ())}
        for key, declared in zip(self.keys, self.catalog.objects, strict=True):
            if is_certain and key not in companions:
                message = f"no placement selects {key}, so it goes to no cluster; select it, or remove it from Git"
                yield Problem(declared.origin.file, declared.origin.line, "", message)
        held = PlacedObjects(
            definitions=frozenset().union(*self.names.values()),
            labels=tuple(
                (self.names[key.group_kind], labels)
                for key, labels in self.labels.items()
                if key.group_kind in self.names
            ),
            namespaces=frozenset(self._namespace_of(key) for key in self._plain_keys) - {""},
            kinds=frozenset(key.group_kind for key in self._plain_keys),
            is_certain=is_certain,
        )
        for unmatched in find_unmatched_placements(placements, self.catalog.destinations, held, clusters):
            yield unmatched.problem
        for placement in placements:
            found = len(chosen[placement.name])
            if placement.count and 0 < found < placement.count:
                message = f"counts {placement.count}, and its selector fits {format_count(found, 'cluster')}"
                origin = placement.origin
                yield Problem(origin.file, origin.line, "spec.count", f"placement {placement.name} {message}")

    @property
    def _plain_keys(self) -> list[ObjectKey]:
        return [key for key in self.keys if key.group_kind not in self.names]


def _crd_kind(spec: object) -> GroupKind | None:
    """The kind that a CRD in Git defines; None where it does not say."""
    match spec:
        case {"group": str(group), "names": {"kind": str(kind)}}:
            return GroupKind(group, kind)
    return None
