"""Plans of a commit against another commit, a snapshot of a cluster, or a cluster. No plan writes anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from applier.cluster import Cluster, Object, parse_cluster_name
from gitops.clock import Clock
from gitops.gates.evaluate import ExternalFact
from gitops.plan.affected import restrict_to_affected
from gitops.plan.assumed_state import assume_applied, completed_rollouts
from gitops.plan.comparison_base import (
    ComparedObjects,
    ComparisonBase,
    own_levels,
    rendered_manifests,
    waiting_manifests,
)
from gitops.plan.dry_run import DryRunCluster
from gitops.plan.masking import SecretMasks
from gitops.plan.report import PlanWarning, Report, WarningKind
from gitops.plan.report_builder import make_report
from gitops.plan.snapshot import ClusterSnapshot
from gitops.reconcile.final_state import MAX_FORETELLINGS, foretold
from gitops.reconcile.observe import FactsAt
from gitops.reconcile.preview import preview
from gitops.reconcile.sources import SourceState
from renderer import builtin_kinds
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey
from renderer.kinds import SECRET
from renderer.phrasing import format_count
from renderer.render.cache import RenderCache
from renderer.render.model import Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView

Facts = Mapping[str, ExternalFact]


async def plan_commits(
    base: Catalog, head: SourceState, *, clock: Clock, version: str, cluster_name: str, facts: Facts | None = None
) -> Report:
    """Plan a commit against a base commit, which is assumed to be applied and healthy. Send no request to a cluster.

    Both catalogs carry the name of the source and their commits::

        base = load_catalog(mirror.read_snapshot(mirror.fetch()), source="platform")
        head = load_catalog(read_working_tree(path), source="platform", previous=base)
        report = await plan_commits(base, SourceState(head), clock=clock, version=version, cluster_name=LOCAL)
    """
    cache = RenderCache()
    base_rendering, head_rendering = _render_applied(base, cache), render([head.catalog], memo=cache)
    masks = SecretMasks()
    # Learn the Secrets of the whole commit, not only of the affected part, because a shown object may copy any value.
    masks.learn(rendered_manifests(head_rendering))
    rollouts, levels = completed_rollouts(base, base_rendering), own_levels(head_rendering)
    selectable = ComparedObjects.from_commits(base, base_rendering, head.catalog, head_rendering, cluster_name)
    skipped_members = 0
    if affected := restrict_to_affected(base, head.catalog, base_rendering, head_rendering, head.brake):
        base, head = affected[0], replace(head, catalog=affected[1])
        skipped_members = _count_members(base_rendering)
        base_rendering = _render_applied(base, cache)
        skipped_members -= _count_members(base_rendering)
    comparison = ComparisonBase(waiting_manifests(base_rendering), levels, selectable)
    assumed_objects = assume_applied(base, base_rendering, version, rollouts)
    cluster = DryRunCluster(parse_cluster_name("git"), assumed_objects, crds=head.catalog.types.crds)
    try:
        prospects = await preview(cluster, [head], clock, cluster_name=cluster_name, facts=_constant_facts(facts))
        report = await make_report(prospects, head, masks, comparison, against="git", at=clock.now())
    finally:
        await cluster.close()
    return replace(report, base=base.commit, unchanged=report.unchanged + skipped_members)


async def plan_against_snapshot(
    snapshot: ClusterSnapshot, head: SourceState, *, clock: Clock, cluster_name: str, facts: Facts | None = None
) -> Report:
    """Plan a commit against a snapshot of a cluster, as of the snapshot's time. Send no request to the cluster."""
    cache = RenderCache()
    secrets = [
        node.manifest
        for applyset in render([head.catalog], memo=cache).sets
        for node in applyset.nodes
        if node.group_kind == SECRET and node.writable
    ]
    cluster = snapshot.as_cluster(secrets)
    hidden_secrets = frozenset(cluster.objects.keys() & map(ObjectKey.from_manifest, secrets))
    comparison = ComparisonBase(hidden=hidden_secrets)
    against = f"snapshot of cluster {snapshot.cluster}"
    try:
        prospects = await preview(cluster, [head], clock, cluster_name=cluster_name, facts=_constant_facts(facts))
        report = await make_report(prospects, head, SecretMasks(), comparison, against=against, at=clock.now())
    finally:
        await cluster.close()
    gaps = (PlanWarning(WarningKind.NOT_COMPARED, message) for message in _describe_gaps(snapshot, len(hidden_secrets)))
    return replace(report, warnings=(*report.warnings, *gaps))


async def plan_against_cluster(
    cluster: Cluster,
    head: SourceState,
    *,
    clock: Clock,
    cluster_name: str,
    facts: Facts | None = None,
    own_configmaps: Sequence[Object] | None = None,
) -> Report:
    """Plan a commit against a cluster, by reads and dry runs.

    Args:
        own_configmaps: ConfigMaps of Levelgate's namespace, or None to read them.

    Raises: ClusterError if the cluster cannot be read at all.
    """
    prospects = await preview(
        cluster,
        [head],
        clock,
        cluster_name=cluster_name,
        facts=_constant_facts(facts),
        own=own_configmaps,
    )
    against = f"cluster {cluster.name}"
    return await make_report(prospects, head, SecretMasks(), ComparisonBase(), against=against, at=clock.now())


def _constant_facts(facts: Facts | None) -> FactsAt | None:
    """Return a function of time that always returns `facts`, because a preview needs such a function."""
    return (lambda _: facts) if facts is not None else None


def _render_applied(base: Catalog, cache: RenderCache) -> Rendering:
    """Render a commit as if the commit were applied, with references to its objects resolved."""
    rendering, live = render([base], memo=cache), ClusterView().live
    for _ in range(MAX_FORETELLINGS):
        if (expected_live := foretold(rendering, {})) == live:
            break
        rendering, live = render([base], ClusterView(live=expected_live), cache), expected_live
    return rendering


def _count_members(rendering: Rendering) -> int:
    return sum(not node.external for applyset in rendering.sets for node in applyset.nodes)


def _describe_gaps(snapshot: ClusterSnapshot, secret_count: int) -> Iterator[str]:
    """Yield the reasons why a plan against the snapshot may differ from a plan against the cluster itself."""
    if secret_count:
        yield (
            f"the plan does not compare the values of {format_count(secret_count, 'Secret')}, because a snapshot does "
            "not hold them; to compare them, plan against the cluster"
        )
    bundled_version = builtin_kinds.load_builtin_schemas().version
    if _minor_version(snapshot.kubernetes) != _minor_version(bundled_version):
        yield (
            f"cluster {snapshot.cluster} runs Kubernetes {snapshot.kubernetes}, "
            f"but the plan validates built-in kinds against the schemas of {bundled_version}; the plan may be wrong "
            "for fields and API versions that only one of the two has; to be sure, plan against the cluster"
        )


def _minor_version(version: str) -> list[str]:
    """Return the parts of the minor version: `v1` and `33` for `v1.33.5-gke.1`. Patch versions have equal schemas."""
    return version.split(".")[:2]
