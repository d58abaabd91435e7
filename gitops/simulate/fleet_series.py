"""The commits of a simulation as each cluster of a fleet gets them. Clusters do not influence each other, so each has a world of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.errors import SourceError
from gitops.fleet.cluster_spec import OnRemove
from gitops.fleet.placing import NO_SHARE
from gitops.fleet.projections import FleetProjections
from gitops.reconcile.sources import SourceState
from gitops.rollouts.source_rules import resolve_rules
from gitops.simulate.commits import CommitSeries, collect_problems
from renderer.catalog.catalog import Catalog
from renderer.catalog.projection import digest, project, scopes_in
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.phrasing import suggestion_or_names

States = Mapping[ClusterName, SourceState]


@dataclass(frozen=True, slots=True)
class ClusterSeries:
    """Clusters of which one simulation tells: they get the same, and windows judge them alike as `window_name`."""

    clusters: tuple[ClusterName, ...]
    window_name: str
    commits: CommitSeries


@dataclass(frozen=True, slots=True)
class FleetSeries:
    """`not_simulated` are clusters in which nothing happens, or no longer, with the reason. `problems` are the mistakes of the last commit."""

    series: tuple[ClusterSeries, ...]
    not_simulated: Mapping[ClusterName, str]
    problems: tuple[Problem, ...]


def project_series(
    commits: CommitSeries, *, fleet_source: str, hub_name: str, tested_rules: Catalog | None, wanted: str
) -> FleetSeries:
    """Return what each cluster gets of these commits. `hub_name` is that by which windows select the hub's own cluster.

    With `tested_rules` windows that judge by the cluster may be among these as well. `wanted` is the only cluster, empty for all.

    Raises SourceError where another source declares the clusters, or none declares the one that is wanted.
    """
    source = commits.base.catalog.source
    if source != fleet_source:
        raise SourceError(
            source,
            f"is not the source that declares clusters, which is {fleet_source} (fleet.source), so nobody can tell where its objects go",
            advice="name it so with --source, or simulate it on one cluster, without --config",
        )
    states, paused, removals = _project_states(commits, fleet_source)
    catalogs = [
        commits.base.catalog,
        *(push.catalog for push in commits.pushes),
        *([tested_rules] if tested_rules else []),
    ]
    is_by_name = any(map(_judges_by_cluster, catalogs))
    grouped: dict[object, list[ClusterName]] = {}
    not_simulated: dict[ClusterName, str] = {}
    lengths: dict[ClusterName, int] = {}
    names = dict.fromkeys(name for declared in states for name in declared)
    if wanted and wanted not in names:
        raise SourceError(
            source,
            f"declares no cluster {wanted!r}{suggestion_or_names(wanted, names)}",
            advice="name another with --cluster",
        )
    for name in sorted(
        filter(lambda name: wanted in ("", name), names), key=lambda name: (name != LOCAL_CLUSTER, name)
    ):
        count = _count_declared(states, name)
        if name in paused:
            not_simulated[name] = "paused in Git; nothing is written there"
            continue
        if count < len(states):
            gone = commits.pushes[count - 1].catalog.commit[:7]
            not_simulated[name] = f"removed by commit {gone}; {removals[name].outcome}"
        mine = _states_of(states[:count], name, commits)
        if count < 2 or (name == LOCAL_CLUSTER != wanted and not any(map(_holds_anything, mine))):
            continue
        lengths[name] = count
        window_name = hub_name if name == LOCAL_CLUSTER else name
        key = tuple(map(_content_of, mine)), window_name if is_by_name else ""
        grouped.setdefault(key, []).append(name)
    series = []
    for clusters in grouped.values():
        first = clusters[0]
        mine = _states_of(states[: lengths[first]], first, commits)
        pushes = tuple(replace(push, state=state) for push, state in zip(commits.pushes, mine[1:], strict=False))
        projected = CommitSeries(mine[0], pushes, ())
        series.append(ClusterSeries(tuple(clusters), hub_name if first == LOCAL_CLUSTER else first, projected))
    last = states[-1]
    catalogs_of_last = {id(state.catalog): state.catalog for state in last.values()}.values()
    problems = {problem for catalog in catalogs_of_last for problem in collect_problems(catalog)}
    return FleetSeries(tuple(series), not_simulated, tuple(sorted(problems)))


def _project_states(
    commits: CommitSeries, fleet_source: str
) -> tuple[list[States], frozenset[ClusterName], Mapping[ClusterName, OnRemove]]:
    """Return what the declared clusters, and `local`, get of each commit, which are paused at the end, and how each is removed."""
    projections, found, removals = FleetProjections(fleet_source), list[States](), dict[ClusterName, OnRemove]()
    for state in (commits.base, *(push.state for push in commits.pushes)):
        projections.update([state], {})
        removals |= {name: spec.on_remove for name, spec in projections.clusters.items()}
        names = (LOCAL_CLUSTER, *(name for name in projections.clusters if name != LOCAL_CLUSTER))
        found.append({name: projections.states_of(name)[0] for name in names})
    paused = (name for name, spec in projections.clusters.items() if spec.is_paused and name != LOCAL_CLUSTER)
    return found, frozenset(paused), removals


def _count_declared(states: Sequence[States], name: ClusterName) -> int:
    """Return how many commits there are until the cluster is removed; all, where it is not."""
    last = max(index for index, declared in enumerate(states) if name in declared)
    return last + 1


def _states_of(states: Sequence[States], name: ClusterName, commits: CommitSeries) -> list[SourceState]:
    """Return what a cluster gets of each commit: nothing before it is declared, and what it had where it is not for a while."""
    found: list[SourceState] = []
    is_known = False
    for declared, whole in zip(states, (commits.base, *(push.state for push in commits.pushes)), strict=False):
        is_known |= name in declared
        found.append(declared[name] if name in declared else found[-1] if is_known else _nothing_of(whole))
    return found


def _nothing_of(state: SourceState) -> SourceState:
    content = NO_SHARE.content(is_certain=True)
    return replace(state, catalog=project(state.catalog, content, namespaces={}, scopes=scopes_in(state.catalog)))


def _content_of(state: SourceState) -> object:
    return digest(state.catalog), state.hold, state.orphaned_keys


def _holds_anything(state: SourceState) -> bool:
    return bool(state.catalog.objects or state.catalog.definitions or state.catalog.broken)


def _judges_by_cluster(catalog: Catalog) -> bool:
    """Return whether a window of the commit selects clusters by name."""
    return any(window.selector.clusters is not None for window in resolve_rules(catalog, {}).windows.values())
