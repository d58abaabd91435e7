"""Projections of sources: for each cluster, the part of a source's catalog that the cluster gets.

Clusters with the identical share and equal namespace maps share one projection. So a hundred equal clusters cost as
much as one cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from applier.cluster import LOCAL_CLUSTER, ClusterName
from applier.plan.deletion_brake import DeletionBrake
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.fleet_objects import FleetObjects, read_fleet_objects
from gitops.fleet.placement import OnUnmatch
from gitops.fleet.placing import place
from gitops.fleet.shares import NO_SHARE, NOTHING_PLACED, Placed
from gitops.reconcile.sources import SourceState
from gitops.rollouts.source_rules import StoredRules
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import FileContent
from renderer.catalog.projection import map_key, object_keys, project, scopes_in
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey

_NO_BRAKE: Final = DeletionBrake(deletions=sys.maxsize)
"""Brake that stops no deletion."""


@dataclass(frozen=True, slots=True)
class _SourceProjection:
    """Last projection of one source: the catalog for each cluster."""

    placed: Placed
    by_cluster: Mapping[ClusterName, Catalog]
    orphaned: Mapping[ClusterName, frozenset[ObjectKey]]
    """For each cluster, the objects that Git declares, that the cluster does not get, and whose fate is `Orphan`.

    The keys have the namespaces of the cluster. If such an object exists in the cluster, the object stays there.
    """


@dataclass
class FleetProjections:
    """Projections of all sources for each cluster of a fleet. Only `fleet_source` may declare clusters."""

    fleet_source: str
    accepted: dict[str, StoredRules] = field(default_factory=dict)
    """Clusters and placements in force, by source, in the form of `FleetRecord`.

    Before the first `update`, the caller sets the value that the hub stores. Each `update` replaces the value, and the
    daemon then stores the new value.
    """
    clusters: Mapping[ClusterName, ClusterSpec] = field(default_factory=dict, init=False)
    """Clusters in force, which include `local` only if Git declares `local`."""
    broken_clusters: frozenset[str] = field(default=frozenset(), init=False)
    """`FleetObjects.broken_clusters` of the source of the fleet."""
    definition_digests: Mapping[str, Mapping[GroupKind, str]] = field(default_factory=dict, init=False)
    """Digests of definitions, by source and kind. A definition that does not build has an empty digest."""
    _states: Mapping[str, SourceState] = field(default_factory=dict, init=False)
    """Whole states of the last `update`, by source."""
    _served_kinds: Mapping[GroupKind, bool] = field(default_factory=dict, init=False)
    """`served_kinds` of the last `update`."""
    _placed_earlier: dict[tuple[str, str], Placed] = field(default_factory=dict, init=False)
    """Placings of earlier commits, by source and commit. Each `update` clears the mapping."""
    _projected: dict[str, _SourceProjection] = field(default_factory=dict, init=False)
    """Last projection of each source, by source."""

    def update(
        self, states: Sequence[SourceState], served_kinds: Mapping[GroupKind, bool], *, unread: Collection[str] = ()
    ) -> None:
        """Project the sources.

        Args:
            served_kinds: True for each namespaced kind, and False for any other kind. CRDs in Git add to these
                kinds.
            unread: names of further configured sources that Levelgate has not read yet. Their versions in `accepted`
                stay.
        """
        self._states = {state.catalog.source: state for state in states}
        self._served_kinds = served_kinds
        self._placed_earlier = {}
        objects = {
            source: read_fleet_objects(
                state.catalog,
                self.accepted.get(source, {}),
                fleet_source=self.fleet_source,
                is_held=bool(state.hold),
            )
            for source, state in self._states.items()
        }
        kept = {source: rules for source, rules in self.accepted.items() if source in unread}
        self.accepted = kept | {source: found.accepted for source, found in objects.items() if found.accepted}
        if fleet := objects.get(self.fleet_source):
            self.clusters, self.broken_clusters = fleet.clusters, fleet.broken_clusters
        self.definition_digests = {
            source: _definition_digests(state, self.definition_digests.get(source, {}))
            for source, state in self._states.items()
        }
        names = _definition_names(state.catalog for state in self._states.values())
        for source, state in self._states.items():
            self._projected[source] = self._project(state.catalog, objects[source], served_kinds, names)

    @property
    def knows_clusters(self) -> bool:
        """Return whether the clusters that Git declares are known. Then `clusters` contains these clusters.

        Until the process has read the source of the fleet, the declared clusters are unknown. The clusters are also
        unknown while deletions of that source are held back (`SourceState.hold`) and the source contains neither a
        cluster nor a placement. While the clusters are unknown, a cluster that `clusters` lacks is not a removed
        cluster.
        """
        state = self._states.get(self.fleet_source)
        return state is not None and not (state.hold and not state.catalog.destinations)

    def states_of(self, cluster: ClusterName) -> list[SourceState]:
        """Return the projection of each source for the cluster, sorted by name of the source.

        Raises: KeyError if the cluster is neither `local` nor in `clusters`.
        """
        return [
            replace(
                state,
                catalog=self._projected[source].by_cluster[cluster],
                orphaned_keys=self._projected[source].orphaned[cluster],
            )
            for source, state in sorted(self._states.items())
        ]

    def project_earlier(self, catalog: Catalog, cluster: ClusterName) -> Catalog:
        """Project an earlier commit of a source with the placements of that commit and the present clusters.

        If a placement of that commit is broken, the accepted version in `accepted` replaces the placement.
        """
        namespaced_by_kind = {**self._served_kinds, **scopes_in(catalog)}
        key = catalog.source, catalog.commit
        if key not in self._placed_earlier:  # one placing serves all clusters
            objects = read_fleet_objects(catalog, self.accepted.get(catalog.source, {}), fleet_source=self.fleet_source)
            self._placed_earlier[key] = place(
                catalog,
                tuple(self.clusters.values()),
                objects.placements,
                NOTHING_PLACED,
                namespaced_by_kind=namespaced_by_kind,
                broken=objects.broken_placements,
                definition_names=_definition_names(state.catalog for state in self._states.values()),
            )
        placed = self._placed_earlier[key]
        spec, share = self.clusters.get(cluster), placed.by_cluster.get(cluster, NO_SHARE)
        return project(
            catalog,
            share.content(is_certain=placed.is_certain),
            namespaces=spec.namespaces if spec else {},
            namespaced_by_kind=namespaced_by_kind,
        )

    def empty_states(self, sources: Iterable[str]) -> list[SourceState]:
        """Return all known sources and the named `sources` without objects, so that a reconciliation empties a cluster.

        The deletion brake and held commits guard against unexpected deletions. Neither applies, because the person who
        removed the `Cluster` from Git has already decided what happens to the objects. `depends_on` is empty, because a
        source without objects needs no other source. Windows, `prunes` and `suspend` still apply, because a person sets
        them against intended deletions too. A source that the process has not read keeps the windows that the cluster
        stores.
        """
        governors = frozenset[str]().union(*(state.governors for state in self._states.values()))
        return [
            replace(
                state,
                catalog=_without_objects(state.catalog),
                hold="",
                brake=_NO_BRAKE,
                depends_on=(),
                offer=None,
                orphaned_keys=frozenset[ObjectKey](),
            )
            for state in (
                self._states.get(name) or SourceState(_unread_catalog(name), governors=governors - {name})
                for name in sorted({*sources, *self._states})
            )
        ]

    def _project(
        self,
        catalog: Catalog,
        objects: FleetObjects,
        served_kinds: Mapping[GroupKind, bool],
        definition_names: Mapping[GroupKind, frozenset[str]],
    ) -> _SourceProjection:
        before = self._projected.get(catalog.source)
        namespaced_by_kind = {**served_kinds, **scopes_in(catalog)}
        placed = place(
            catalog,
            tuple(self.clusters.values()),
            objects.placements,
            before.placed if before else NOTHING_PLACED,
            namespaced_by_kind=namespaced_by_kind,
            broken=objects.broken_placements,
            definition_names=definition_names,
        )
        # The key contains the `id` of the share, which is cheap. `Placed.by_cluster` tells which clusters have the
        # identical share. `placed` keeps every share alive, so two shares never have one `id`.
        projected: dict[tuple[int, tuple[tuple[str, str], ...]], Catalog] = {}
        by_cluster: dict[ClusterName, Catalog] = {}
        orphaned: dict[ClusterName, frozenset[ObjectKey]] = {}
        declared = object_keys(catalog, namespaced_by_kind)
        for cluster in (LOCAL_CLUSTER, *(name for name in self.clusters if name != LOCAL_CLUSTER)):
            spec, share = self.clusters.get(cluster), placed.by_cluster.get(cluster, NO_SHARE)
            namespaces = spec.namespaces if spec else {}
            key = id(share), tuple(sorted(namespaces.items()))
            if key not in projected:
                projected[key] = project(
                    catalog,
                    share.content(is_certain=placed.is_certain),
                    namespaces=namespaces,
                    namespaced_by_kind=namespaced_by_kind,
                    previous=before.by_cluster.get(cluster) if before else None,
                )
            by_cluster[cluster] = projected[key]
            # The fates of this commit override the fates of earlier placings. A restart forgets the earlier fates. An
            # object that no placement selects then stays in the cluster, even if its earlier fate was `Delete`.
            fates = {**placed.unmatched.get(cluster, {}), **placed.fates}
            orphaned[cluster] = frozenset(
                map_key(declared_key, namespaces, namespaced_by_kind)
                for declared_key in declared
                if declared_key not in share.objects and fates.get(declared_key, OnUnmatch.ORPHAN) is OnUnmatch.ORPHAN
            )
        # The hub's own cluster reports the problems of the whole source, beside those of its own projection.
        own_problems = by_cluster[LOCAL_CLUSTER].problems
        problems = {*catalog.problems, *objects.problems, *placed.problems, *own_problems}
        by_cluster[LOCAL_CLUSTER] = replace(by_cluster[LOCAL_CLUSTER], problems=tuple(sorted(problems)))
        return _SourceProjection(placed, by_cluster, orphaned)


def _definition_names(catalogs: Iterable[Catalog]) -> dict[GroupKind, frozenset[str]]:
    """Return the names of the definitions of all `catalogs`, by kind."""
    names: dict[GroupKind, frozenset[str]] = {}
    for catalog in catalogs:
        for kind, found in catalog.definition_names.items():
            names[kind] = names.get(kind, frozenset[str]()) | frozenset(found)
    return names


def _definition_digests(state: SourceState, before: Mapping[GroupKind, str]) -> dict[GroupKind, str]:
    """Return the digests of a source's definitions. While the source is held or a file is unreadable, keep `before`."""
    catalog = state.catalog
    current = {
        **dict.fromkeys(catalog.broken, ""),
        **{kind: definition.digest for kind, definition in catalog.definitions.items()},
    }
    return {**before, **current} if state.hold or catalog.unreadable_files else current


def _unread_catalog(source: str) -> Catalog:
    """Return the catalog of a source whose files are all unknown, so that its stored windows stay in force."""
    return Catalog(source=source, contents={"": FileContent(unreadable=True)})


def _without_objects(catalog: Catalog) -> Catalog:
    """Return the commit with only its windows, policies and schemas, without objects and definitions.

    Calendars and unreadable files count for the rules alone. An unreadable file protects no object, because the person
    who removed the cluster has decided about all objects.
    """
    return Catalog(
        source=catalog.source,
        commit=catalog.commit,
        author=catalog.author,
        message=catalog.message,
        rules=catalog.rules,
        rule_contents=catalog.contents,
        types=catalog.types,
    )


def removed_clusters(before: Collection[ClusterName], projections: FleetProjections) -> frozenset[ClusterName]:
    """Return the clusters among `before` that Git no longer declares.

    While the declared clusters are unknown, or a cluster or a file that may declare clusters is broken, return an empty
    set.
    """
    if projections.broken_clusters or not projections.knows_clusters:
        return frozenset()
    return frozenset(before) - projections.clusters.keys()
