"""Commits of a simulation in the form that each cluster of a fleet gets. Clusters do not influence each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.errors import SourceError
from gitops.fleet.cluster_spec import OnRemove
from gitops.fleet.projections import FleetProjections
from gitops.fleet.shares import NO_SHARE
from gitops.reconcile.sources import SourceState
from gitops.rollouts.source_rules import resolve_rules
from gitops.simulate.commits import CommitSeries, collect_problems
from renderer.catalog.catalog import Catalog
from renderer.catalog.projection import digest, project, scopes_in
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.phrasing import suggestion_or_names

States = Mapping[ClusterName, SourceState]
"""Forms of one commit, by name of the cluster that gets the form."""


@dataclass(frozen=True, slots=True)
class ClusterSeries:
    """Clusters with the same commits, which one simulation covers."""

    clusters: tuple[ClusterName, ...]
    window_name: str
    """Name by which windows select the clusters."""
    commits: CommitSeries


@dataclass(frozen=True, slots=True)
class FleetSeries:
    """Commits of all clusters of a fleet."""

    series: tuple[ClusterSeries, ...]
    not_simulated: Mapping[ClusterName, str]
    """Reason for each cluster that the simulation does not cover, or stops covering before the last commit."""
    problems: tuple[Problem, ...]
    """Problems of the last commit."""


def project_series(
    commits: CommitSeries, *, fleet_source: str, hub_name: str, tested_rules: Catalog | None, wanted: str
) -> FleetSeries:
    """Return the commits in the form that each cluster gets.

    Args:
        hub_name: name by which windows select the cluster of the hub.
        tested_rules: windows and policies that later replace those of the commits. If a tested window selects by
            cluster, each cluster gets its own series.
        wanted: only cluster to simulate, or an empty string for all clusters.

    Raises: SourceError if another source declares the clusters, or no commit declares the cluster `wanted`.
    """
    source = commits.base.catalog.source
    if source != fleet_source:
        raise SourceError(
            source,
            f"is not the source that declares clusters, which is {fleet_source} (fleet.source): "
            "the clusters of its objects are not known",
            advice="name the source with --source, or omit --config to simulate one cluster",
        )
    states, paused, removals = _project_states(commits, fleet_source)
    rule_catalogs = [commits.base.catalog, *(push.catalog for push in commits.pushes)]
    is_by_name = any(map(_judges_by_cluster, [*rule_catalogs, *([tested_rules] if tested_rules else [])]))
    not_simulated: dict[ClusterName, str] = {}
    series_by_content: dict[object, ClusterSeries] = {}
    for name in _choose_clusters(states, source, wanted):
        count = _count_declared(states, name)
        if name in paused:
            not_simulated[name] = "paused in Git; nothing is written there"
            continue
        if count < len(states):
            removing_commit = commits.pushes[count - 1].catalog.commit[:7]
            not_simulated[name] = f"removed by commit {removing_commit}; {removals[name].outcome}"
        cluster_states = _states_of(states[:count], name, commits)
        is_empty_hub = name == LOCAL_CLUSTER != wanted and not any(map(_holds_anything, cluster_states))
        if count < 2 or is_empty_hub:
            continue
        window_name = hub_name if name == LOCAL_CLUSTER else name
        # Clusters with equal content are simulated once, unless windows may judge the clusters differently.
        content = tuple(map(_content_of, cluster_states)), window_name if is_by_name else ""
        if first := series_by_content.get(content):
            series_by_content[content] = replace(first, clusters=(*first.clusters, name))
        else:
            series_by_content[content] = ClusterSeries((name,), window_name, _with_states(commits, cluster_states))
    return FleetSeries(tuple(series_by_content.values()), not_simulated, _collect_problems(states[-1]))


def _choose_clusters(states: Sequence[States], source: str, wanted: str) -> list[ClusterName]:
    """Return the clusters to simulate, `local` first.

    Raises: SourceError if no commit declares the cluster `wanted`.
    """
    names = dict.fromkeys(name for declared in states for name in declared)
    if wanted and wanted not in names:
        raise SourceError(
            source,
            f"declares no cluster {wanted!r}{suggestion_or_names(wanted, names)}",
            advice="name another with --cluster",
        )
    chosen = (name for name in names if wanted in ("", name))
    return sorted(chosen, key=lambda name: (name != LOCAL_CLUSTER, name))


def _with_states(commits: CommitSeries, cluster_states: Sequence[SourceState]) -> CommitSeries:
    """Return the series of one cluster. If a commit removes the cluster, the series ends before that commit."""
    base, *later_states = cluster_states
    pushes = (replace(push, state=state) for push, state in zip(commits.pushes, later_states, strict=False))
    return CommitSeries(base, tuple(pushes), ())


def _collect_problems(states: States) -> tuple[Problem, ...]:
    """Return the problems of a commit in all clusters. If several clusters share a catalog, check the catalog once."""
    catalogs = {id(state.catalog): state.catalog for state in states.values()}.values()
    return tuple(sorted({problem for catalog in catalogs for problem in collect_problems(catalog)}))


def _project_states(
    commits: CommitSeries, fleet_source: str
) -> tuple[list[States], frozenset[ClusterName], Mapping[ClusterName, OnRemove]]:
    """Return each commit as clusters get it, the clusters that the last commit pauses, and the removal policies."""
    projections, found, removals = FleetProjections(fleet_source), list[States](), dict[ClusterName, OnRemove]()
    for state in (commits.base, *(push.state for push in commits.pushes)):
        projections.update([state], {})
        removals |= {name: spec.on_remove for name, spec in projections.clusters.items()}
        names = (LOCAL_CLUSTER, *(name for name in projections.clusters if name != LOCAL_CLUSTER))
        found.append({name: projections.states_of(name)[0] for name in names})
    paused = (name for name, spec in projections.clusters.items() if spec.is_paused and name != LOCAL_CLUSTER)
    return found, frozenset(paused), removals


def _count_declared(states: Sequence[States], name: ClusterName) -> int:
    """Return the number of commits before the removal of the cluster.

    If no commit removes the cluster, return the number of all commits.
    """
    last = max(index for index, declared in enumerate(states) if name in declared)
    return last + 1


def _states_of(states: Sequence[States], name: ClusterName, commits: CommitSeries) -> list[SourceState]:
    """Return each commit in the form that the cluster `name` gets.

    Until a commit declares the cluster, the cluster gets empty commits. While a later commit does not declare the
    cluster, the cluster keeps the last commit that it got.
    """
    found: list[SourceState] = []
    is_known = False
    for declared, whole in zip(states, (commits.base, *(push.state for push in commits.pushes)), strict=False):
        is_known |= name in declared
        found.append(declared[name] if name in declared else found[-1] if is_known else _nothing_of(whole))
    return found


def _nothing_of(state: SourceState) -> SourceState:
    """Return the commit without objects, for a cluster to which the commit assigns no object."""
    content = NO_SHARE.content(is_certain=True)
    return replace(
        state, catalog=project(state.catalog, content, namespaces={}, namespaced_by_kind=scopes_in(state.catalog))
    )


def _content_of(state: SourceState) -> object:
    """Return a value for comparison, which is equal for commits with the same effect."""
    return digest(state.catalog), state.hold, state.orphaned_keys


def _holds_anything(state: SourceState) -> bool:
    return bool(state.catalog.objects or state.catalog.definitions or state.catalog.broken)


def _judges_by_cluster(catalog: Catalog) -> bool:
    """Return whether a window of the commit selects clusters by name."""
    return any(window.selector.clusters is not None for window in resolve_rules(catalog, {}).windows.values())
