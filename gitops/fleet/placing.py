"""Placing of a source: the objects that each cluster gets, and the patches for these objects. Pure.

Invariants:

- Uncertainty removes no object. While a file, a placement or a placed definition is unreadable, every object that was
  placed and is still declared stays placed.
- With an object, a cluster also gets the object's definition, the CRD of the object's kind, and the object's Namespace.
  With a definition, a cluster also gets the definitions and CRDs of all kinds that the definition creates, but not the
  Namespaces of the created objects.
- A cluster gets a CRD only if a placement selects the CRD, or if an object or definition of the cluster needs the CRD.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.placement import ObjectSelector, OnUnmatch, Placement, PlacementOverride
from gitops.fleet.shares import NO_SHARE, ClusterShare, Placed, find_unmatched_objects, keep_previous
from gitops.fleet.unmatched import PlacedObjects, find_unmatched_placements
from renderer.catalog.catalog import Catalog
from renderer.catalog.projection import (
    ManifestPatch,
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


def place(
    catalog: Catalog,
    clusters: Collection[ClusterSpec],
    placements: Collection[Placement],
    previous: Placed,
    *,
    namespaced_by_kind: Mapping[GroupKind, bool],
    broken: Collection[str],
    definition_names: Mapping[GroupKind, frozenset[str]],
) -> Placed:
    """Assign the objects of a source to clusters by placements.

    If the source has no placement, and `broken` is empty, `local` gets all objects.

    Args:
        placements: placements in force of the source. Each name occurs once.
        previous: result of the last placing. While the present placing is uncertain, objects in `previous` that Git
            still declares stay placed.
        namespaced_by_kind: True for each namespaced kind, and False for any other kind. The kinds are those of the
            clusters, and of the CRDs in Git (`projection.scopes_in`).
        broken: names of placements without any valid version, and unreadable files that may contain a placement.
        definition_names: names of the definitions of all sources, by kind. For a kind that `catalog` defines, only the
            names in `catalog` count.
    """
    names = {**definition_names, **catalog.definition_names}
    placer = _Placer(catalog, names, _DeclaredObjects.from_catalog(catalog, namespaced_by_kind))
    ordered = sorted(placements, key=lambda placement: placement.name)
    if not ordered and not broken:
        ordered = [_everything()]
        chosen = {ordered[0].name: frozenset({LOCAL_CLUSTER})}
    else:
        chosen = {placement.name: choose_clusters(placement, clusters) for placement in ordered}
    shares = placer.share_out(clusters, ordered, chosen)
    is_certain = not broken and not catalog.unreadable_files
    # A definition whose nodes cannot be read may create kinds of further definitions, which would have to be placed
    # too.
    opaque = {outline.group_kind for outline in catalog.broken_outlines if outline.node_kinds is None}
    is_certain &= not any(opaque & share.definitions for share in shares.values())
    declared = frozenset(placer.declared.keys)
    if not is_certain:
        shares = {
            name: keep_previous(share, previous.by_cluster.get(name, NO_SHARE), declared)
            for name, share in shares.items()
        }
    is_implicit = chosen.keys() == {""}
    warnings = [] if is_implicit else [*placer.find_warnings(clusters, ordered, chosen, is_certain=is_certain)]
    return Placed(
        by_cluster=shares,
        fates=placer.find_fates(ordered),
        unmatched={name: find_unmatched_objects(share, name, previous, declared) for name, share in shares.items()},
        is_certain=is_certain,
        problems=tuple(sorted(placer.problems)),
        warnings=tuple(sorted(warnings)),
    )


def choose_clusters(placement: Placement, clusters: Iterable[ClusterSpec]) -> frozenset[ClusterName]:
    """Return the clusters that get the objects of a placement: the selected clusters, or `count` of them.

    Rendezvous hashing ranks each cluster per placement, independently of all other clusters. So an added cluster
    displaces at most one cluster, and at most one cluster replaces a removed cluster.
    """
    selected = [cluster.name for cluster in clusters if placement.clusters.matches(cluster.labels)]
    ranked = sorted(selected, key=lambda name: (_rank(placement.name, name), name))
    return frozenset(ranked[: placement.count])


def _rank(placement: str, cluster: ClusterName) -> bytes:
    return hashlib.blake2b(f"{placement}\0{cluster}".encode(), digest_size=16).digest()


def _everything() -> Placement:
    """Return the implicit placement for a source without placements. The implicit placement has no name."""
    return Placement(
        name="",
        objects=ObjectSelector(None, None, None),
        clusters=LabelSelector(),
        count=None,
        overrides=(),
        on_unmatch=OnUnmatch.ORPHAN,
        origin=SourceLocation(),
    )


@dataclass(frozen=True, slots=True)
class _PlacedOverride:
    """Override that applies to a cluster, with the placement that contains the override."""

    placement: Placement
    index: int
    override: PlacementOverride

    def __str__(self) -> str:
        return f"placement {self.placement.name} ({self.override.patch.origin})"


@dataclass(frozen=True, slots=True)
class _Contradiction:
    """Two overrides of the same instances that set a field to different values."""

    first: _PlacedOverride
    second: _PlacedOverride
    field_path: str

    def __str__(self) -> str:
        return f"{self.first} and {self.second} set {self.field_path} differently"

    @property
    def identity(self) -> tuple[str, int, str, int]:
        """Return a hashable value that identifies the two overrides."""
        return self.first.placement.name, self.first.index, self.second.placement.name, self.second.index

    def problem_of(self, keys: Sequence[ObjectKey], clusters: Sequence[ClusterName]) -> Problem:
        """Return the problem of the instances `keys` in `clusters`, at the line of the second override."""
        noun = "cluster" if len(clusters) == 1 else "clusters"
        message = (
            f"{self}, for {join_names(keys)} in {noun} {join_names(clusters)}; "
            "these objects stay unchanged there; make both overrides agree, or remove the field from one"
        )
        origin = self.second.override.patch.origin
        return Problem(origin.file, origin.line, f"spec.overrides[{self.second.index}].patch", message)


@dataclass(frozen=True, slots=True)
class _DeclaredObjects:
    """Objects of one catalog, indexed for placing."""

    keys: Sequence[ObjectKey]
    """Keys in the order of `catalog.objects`."""
    labels: Mapping[ObjectKey, Mapping[str, str]]
    namespace_objects: Mapping[str, ObjectKey]
    """Namespaces in Git, by name."""
    crd_objects: Mapping[GroupKind, ObjectKey]
    """CRDs in Git, by the kind that the CRD defines."""

    @classmethod
    def from_catalog(cls, catalog: Catalog, namespaced_by_kind: Mapping[GroupKind, bool]) -> _DeclaredObjects:
        """Index the objects of a catalog."""
        keys = object_keys(catalog, namespaced_by_kind)
        declared = list(zip(keys, catalog.objects, strict=True))
        return cls(
            keys=keys,
            labels={key: item.manifest["metadata"].get("labels") or {} for key, item in declared},
            namespace_objects={key.name: key for key in keys if key.group_kind == NAMESPACE},
            crd_objects={
                kind: key
                for key, item in declared
                if key.group_kind == CRD and (kind := _crd_kind(item.manifest.get("spec")))
            },
        )


@dataclass
class _ShareGroup:
    """Clusters with the same placements and the same overrides, which get the same share."""

    placements: Sequence[Placement]
    overrides: Sequence[_PlacedOverride]
    clusters: list[ClusterName] = field(default_factory=list)


@dataclass
class _Placer:
    """Placer of one catalog. The placer selects the objects of each placement once for all clusters."""

    catalog: Catalog
    names: Mapping[GroupKind, frozenset[str]]
    """Names of all known definitions, including definitions of other sources, by kind.

    An object whose kind is a key is an instance. Any other object is a plain object.
    """
    declared: _DeclaredObjects
    problems: list[Problem] = field(default_factory=list)
    selected: dict[str, list[ObjectKey]] = field(default_factory=dict)
    """Objects that each placement selects, by name of the placement. `share_out` fills the mapping."""
    contradictions: dict[
        tuple[tuple[str, int, str, int], tuple[ObjectKey, ...]], tuple[_Contradiction, list[ClusterName]]
    ] = field(default_factory=dict)
    """Contradictions with their clusters, by identity of the overrides and keys of the instances."""

    def share_out(
        self,
        clusters: Collection[ClusterSpec],
        placements: Sequence[Placement],
        chosen: Mapping[str, Collection[ClusterName]],
    ) -> dict[ClusterName, ClusterShare]:
        """Return the share of each cluster. Overrides that contradict each other become problems.

        Also fill `selected`, which the other methods read.

        Args:
            chosen: clusters of each placement, by name of the placement.
        """
        keys = tuple(dict.fromkeys(self.declared.keys))
        for placement in placements:
            self.selected[placement.name] = [key for key in keys if self._selects(placement, key)]
        # If Git does not declare `local`, only the implicit placement gives objects to `local`.
        labels = {LOCAL_CLUSTER: {}, **{cluster.name: cluster.labels for cluster in clusters}}
        groups: dict[object, _ShareGroup] = {}
        group_of: dict[ClusterName, _ShareGroup] = {}
        for name in sorted(labels):
            choosing = [placement for placement in placements if name in chosen[placement.name]]
            overrides = [
                _PlacedOverride(placement, index, override)
                for placement in choosing
                for index, override in enumerate(placement.overrides)
                if override.clusters.matches(labels[name])
            ]
            share_key = (
                tuple(placement.name for placement in choosing),
                tuple((override.placement.name, override.index) for override in overrides),
            )
            group_of[name] = groups.setdefault(share_key, _ShareGroup(choosing, overrides))
            group_of[name].clusters.append(name)
        shares = {id(group): self._share(group) for group in groups.values()}
        self.problems += [
            contradiction.problem_of(keys, sorted(clusters))
            for (_, keys), (contradiction, clusters) in self.contradictions.items()
        ]
        return {name: shares[id(group)] for name, group in group_of.items()}

    def find_fates(self, placements: Iterable[Placement]) -> dict[ObjectKey, OnUnmatch]:
        """Return the fate of each selected object: Delete if all its placements say Delete, otherwise Orphan.

        Args:
            placements: all placements of the source, or only the placements that select one cluster.
        """
        fates: dict[ObjectKey, OnUnmatch] = {}
        for placement in placements:
            for key in self.selected[placement.name]:
                is_orphaned = OnUnmatch.ORPHAN in (fates.get(key, placement.on_unmatch), placement.on_unmatch)
                fates[key] = OnUnmatch.ORPHAN if is_orphaned else OnUnmatch.DELETE
        return fates

    def _selects(self, placement: Placement, key: ObjectKey) -> bool:
        if (names := self.names.get(key.group_kind)) is not None:
            return placement.objects.matches_instance(names, self.declared.labels[key])
        return placement.objects.matches_plain(key.group_kind, self._namespace_of(key))

    def _namespace_of(self, key: ObjectKey) -> str:
        """Return the namespace that placements compare. A Namespace object counts as in the namespace of its name."""
        return key.name if key.group_kind == NAMESPACE else key.namespace

    def _share(self, group: _ShareGroup) -> ClusterShare:
        placements = group.placements
        if not placements:
            return NO_SHARE
        objects = self.find_fates(placements)
        kinds: set[GroupKind] = set()
        for placement in placements:
            # If the placement has a label selector (`instances`), a cluster gets a definition only with an instance
            # that has the labels.
            if placement.objects.instances is None:
                kinds |= {kind for kind, names in self.names.items() if placement.objects.matches_definition(names)}
        definitions = close_definitions(self.catalog, {*kinds, *(key.group_kind for key in objects)})
        # The deletion of a Namespace or CRD deletes further objects. So a companion has the fate Delete only if a
        # placement selects the companion and says Delete.
        objects |= {key: OnUnmatch.ORPHAN for key in self._companions(objects, definitions) if key not in objects}
        patches, refused = self._patches(objects, group)
        names = tuple(placement.name for placement in placements)
        return ClusterShare(objects, definitions, patches, refused, names)

    def _companions(self, objects: Iterable[ObjectKey], definitions: Iterable[GroupKind]) -> Iterator[ObjectKey]:
        """Yield the objects in Git that `objects` need: the Namespaces of `objects`, and the CRDs of their kinds.

        The result includes the CRDs of the kinds that `definitions` create.
        """
        kinds = {key.group_kind for key in objects}
        for kind in definitions:
            kinds |= made_kinds(self.catalog, kind)
        crds, namespaces = self.declared.crd_objects, self.declared.namespace_objects
        yield from (crds[kind] for kind in sorted(kinds & crds.keys()))
        yield from (namespaces[name] for name in sorted({key.namespace for key in objects} & namespaces.keys()))

    def _patches(
        self, objects: Iterable[ObjectKey], group: _ShareGroup
    ) -> tuple[dict[ObjectKey, tuple[ManifestPatch, ...]], dict[ObjectKey, str]]:
        """Return the patches of each instance, and the contradiction of each instance with contradictory patches.

        An instance with a contradiction has no patches in the result. Also add the contradictions to `contradictions`.
        """
        if not group.overrides:
            return {}, {}
        selected = {name: frozenset(keys) for name, keys in self.selected.items()}
        patches: dict[ObjectKey, tuple[ManifestPatch, ...]] = {}
        refused: dict[ObjectKey, str] = {}
        contradicted: dict[tuple[str, int, str, int], tuple[_Contradiction, list[ObjectKey]]] = {}
        for key in objects:
            if (names := self.names.get(key.group_kind)) is None:
                continue
            matching = [
                placed
                for placed in group.overrides
                if key in selected[placed.placement.name] and placed.override.matches_instance(names)
            ]
            if matching:
                patches[key] = tuple(placed.override.patch for placed in matching)
            for first, second in combinations(matching, 2):
                if field_path := find_contradiction(first.override.patch.value, second.override.patch.value):
                    contradiction = _Contradiction(first, second, field_path)
                    refused.setdefault(key, str(contradiction))
                    _, keys = contradicted.setdefault(contradiction.identity, (contradiction, []))
                    keys.append(key)
        for identity, (contradiction, keys) in contradicted.items():
            _, clusters = self.contradictions.setdefault((identity, tuple(keys)), (contradiction, []))
            clusters += group.clusters
        return {key: patches_of_key for key, patches_of_key in patches.items() if key not in refused}, refused

    def find_warnings(
        self,
        clusters: Collection[ClusterSpec],
        placements: Sequence[Placement],
        chosen: Mapping[str, Collection[ClusterName]],
        *,
        is_certain: bool,
    ) -> Iterator[Problem]:
        """Yield warnings about objects without a placement, selectors without a match, and missing clusters."""
        companions = set(self.declared.crd_objects.values())
        for placement in placements:
            taken = self.selected[placement.name]
            companions |= {*taken, *self._companions(taken, ())}
        for key, declared in zip(self.declared.keys, self.catalog.objects, strict=True):
            if is_certain and key not in companions:
                message = f"no placement selects {key}, so it goes to no cluster; select it, or remove it from Git"
                yield Problem(declared.origin.file, declared.origin.line, "", message)
        held = PlacedObjects(
            # A source may contain instances of definitions of other sources, so a selector may name such a definition.
            definitions=frozenset().union(*self.names.values()),
            labels=tuple(
                (self.names[key.group_kind], labels)
                for key, labels in self.declared.labels.items()
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
                message = (
                    f"placement {placement.name} has count {placement.count}, but its selector matches only "
                    f"{format_count(found, 'cluster')}; lower the count, or select more clusters"
                )
                origin = placement.origin
                yield Problem(origin.file, origin.line, "spec.count", message)

    @property
    def _plain_keys(self) -> list[ObjectKey]:
        return [key for key in self.declared.keys if key.group_kind not in self.names]


def _crd_kind(spec: object) -> GroupKind | None:
    """Return the kind that a CRD's `spec` defines, or None if `spec` is unreadable."""
    match spec:
        case {"group": str(group), "names": {"kind": str(kind)}}:
            return GroupKind(group, kind)
    return None
