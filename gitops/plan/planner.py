"""Make the report of a plan: what a commit would do to a cluster, to a record of one, or to another commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from applier.cluster import Cluster, Object, parse_cluster_name
from gitops.clock import Clock
from gitops.gates.evaluate import ExternalFact
from gitops.plan import start_times
from gitops.plan.affected import restrict_to_affected
from gitops.plan.assumed_state import assume_applied, completed_rollouts
from gitops.plan.changes import BaseManifests, ChangeCollector, blocked_deletions
from gitops.plan.dry_run import DryRunCluster, create_schema_cluster, find_refusals
from gitops.plan.foreign_sources import ForeignSources
from gitops.plan.interim_changes import InterimChanges, add_repairs
from gitops.plan.masking import SecretMasks
from gitops.plan.report import PlannedAction, PlannedChange, PlanWarning, Report, RevisionMove, WarningKind, plan_hash
from gitops.plan.snapshot import ClusterSnapshot
from gitops.plan.unmatched_rules import ComparedObjects, find_newly_unmatched
from gitops.plan.warnings import collect_warnings
from gitops.reconcile.context import EventualPlan, Preview
from gitops.reconcile.preview import preview
from gitops.reconcile.sources import SourceState
from gitops.reconcile.step import MOST_ROUNDS, foretold
from gitops.rollouts.policy import Policy
from renderer import builtin_kinds
from renderer.catalog.catalog import Catalog
from renderer.identity import Manifest, ObjectKey
from renderer.kinds import SECRET
from renderer.render.cache import RenderCache
from renderer.render.model import Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView

Facts = Mapping[str, ExternalFact]


async def plan_commits(
    base: Catalog, head: SourceState, *, clock: Clock, version: str, cluster_name: str, facts: Facts | None = None
) -> Report:
    """What `head` changes of a cluster that is as `base` says, without asking any. Both catalogs carry the name of the source and their commits.

    base = load_catalog(mirror.read_snapshot(mirror.fetch()), source="platform")
    head = load_catalog(read_working_tree(path), source="platform", previous=base)
    report = await plan_commits(base, SourceState(head), clock=clock, version=version, cluster_name=LOCAL)
    """
    cache = RenderCache()
    base_rendering, head_rendering = _render_applied(base, cache), render([head.catalog], memo=cache)
    left_out, rollouts = 0, completed_rollouts(base, base_rendering)
    masks = SecretMasks()
    masks.learn(_manifests(head_rendering))  # of all: what is left out may hold what is shown
    levels = {
        node.key: node.level for applyset in head_rendering.sources.values() for node in applyset.nodes if node.key
    }
    held = ComparedObjects.from_commits(base, base_rendering, head.catalog, head_rendering, cluster_name)
    if reduced := restrict_to_affected(base, head.catalog, base_rendering, head_rendering, head.brake):
        base, head = reduced[0], replace(head, catalog=reduced[1])
        left_out = _count_members(base_rendering)
        base_rendering = _render_applied(base, cache)
        left_out -= _count_members(base_rendering)
    cluster = DryRunCluster(
        parse_cluster_name("git"), assume_applied(base, base_rendering, version, rollouts), crds=head.catalog.types.crds
    )
    unresolved = {
        (applyset.parent, node.id): node.manifest
        for applyset in base_rendering.sets
        for node in applyset.nodes
        if node.waiting
    }
    try:
        report = await plan_against_cluster(
            cluster,
            head,
            clock=clock,
            cluster_name=cluster_name,
            facts=facts,
            unresolved=unresolved,
            levels=levels,
            cache=cache,
            masks=masks,
            held=held,
        )
    finally:
        await cluster.close()
    return replace(report, base=base.commit, against="git", unchanged=report.unchanged + left_out)


def _render_applied(base: Catalog, cache: RenderCache) -> Rendering:
    """The rendering of a commit, with what it refers to and holds itself."""
    rendering, live = render([base], memo=cache), ClusterView().live
    for _ in range(MOST_ROUNDS):
        if (expected_live := foretold(rendering, {})) == live:
            break
        rendering, live = render([base], ClusterView(live=expected_live), cache), expected_live
    return rendering


def _manifests(rendering: Rendering) -> Iterator[Manifest]:
    return (node.manifest for applyset in rendering.sets for node in applyset.nodes if node.manifest)


def _count_members(rendering: Rendering) -> int:
    return sum(not node.external for applyset in rendering.sets for node in applyset.nodes)


async def plan_against_snapshot(
    snapshot: ClusterSnapshot, head: SourceState, *, clock: Clock, cluster_name: str, facts: Facts | None = None
) -> Report:
    """What `head` changes of the cluster that a snapshot records."""
    cache = RenderCache()
    secrets = [
        node.manifest
        for applyset in render([head.catalog], memo=cache).sets
        for node in applyset.nodes
        if node.group_kind == SECRET and node.writable
    ]
    cluster = snapshot.as_cluster(secrets)
    try:
        hidden_secrets = cluster.objects.keys() & map(ObjectKey.from_manifest, secrets)
        report = await plan_against_cluster(
            cluster, head, clock=clock, cluster_name=cluster_name, facts=facts, cache=cache, hidden=hidden_secrets
        )
    finally:
        await cluster.close()
    gaps = (PlanWarning(WarningKind.NOT_COMPARED, message) for message in _describe_gaps(snapshot, len(hidden_secrets)))
    return replace(report, warnings=(*report.warnings, *gaps), against=f"snapshot of cluster {snapshot.cluster}")


def _describe_gaps(snapshot: ClusterSnapshot, secret_count: int) -> Iterator[str]:
    if secret_count:
        yield f"values of {secret_count} Secrets are not compared: a snapshot does not hold them"
    if _minor_version(snapshot.kubernetes) != _minor_version(
        bundled_version := builtin_kinds.load_builtin_schemas().version
    ):
        yield (
            f"cluster {snapshot.cluster} runs Kubernetes {snapshot.kubernetes}, and its own kinds are validated here as {bundled_version} would: "
            "fields and versions that only one of them has are shown wrongly; plan against the cluster to be sure"
        )


def _minor_version(version: str) -> list[str]:
    """Of `v1.33.5-gke.1`, what kinds and fields depend on."""
    return version.split(".")[:2]


async def plan_against_cluster(
    cluster: Cluster,
    head: SourceState,
    *,
    clock: Clock,
    cluster_name: str,
    facts: Facts | None = None,
    unresolved: BaseManifests | None = None,
    levels: Mapping[ObjectKey, int] | None = None,
    cache: RenderCache | None = None,
    masks: SecretMasks | None = None,
    hidden: Collection[ObjectKey] = (),
    own_configmaps: Sequence[Object] | None = None,
    held: ComparedObjects | None = None,
) -> Report:
    """What `head` changes of a cluster, of which `own` are the ConfigMaps of our namespace where they were read already; `masks` may know Secrets
    that are in neither. `held` is what rules can select, where `head` and the cluster are only parts of it. Of objects in
    `hidden` the cluster's data are not known, and taken to be as `head` says. Nothing is written.

    Raises ClusterError only when the cluster cannot be read at all.
    """
    read_facts = (lambda _: facts) if facts is not None else None
    cluster_preview = await preview(
        cluster,
        [head],
        clock,
        cluster_name=cluster_name,
        facts=read_facts,
        memo=cache or RenderCache(),
        own=own_configmaps,
    )
    masks = masks or SecretMasks()
    masks.learn(cluster_preview.due.situation.observed.objects.values())
    for eventual_plan in filter(None, (cluster_preview.due, cluster_preview.staying)):
        masks.learn(_manifests(eventual_plan.bundle))
    neighbours = ForeignSources.from_preview(cluster_preview)
    new_collector = partial(
        ChangeCollector,
        masks=masks,
        neighbours=neighbours,
        files=head.catalog.contents,
        deletions=blocked_deletions(cluster_preview.first.plan),
        unresolved=unresolved,
        levels=levels or {},
    )
    interim_changes = (
        InterimChanges(cluster_preview, cluster_preview.staying, masks) if cluster_preview.staying else None
    )
    planned, unchanged = await _collect_changes(cluster_preview, head.catalog, new_collector, interim_changes, hidden)
    changes = tuple(add_repairs(planned, cluster_preview, masks))
    problems = tuple(
        replace(problem, message=masks.mask_text(problem.message))
        for problem in sorted({*cluster_preview.due.bundle.problems, *cluster_preview.first.propagation.problems})
    )
    moves = tuple(_revision_moves(cluster_preview))
    return Report(
        source=head.catalog.source,
        head=head.catalog.commit,
        at=clock.now(),
        against=f"cluster {cluster.name}",
        hash=plan_hash(head.catalog, changes, moves, problems),
        changes=(*_left_behind_changes(cluster_preview, masks, changes), *changes),
        warnings=tuple(
            sorted(
                (
                    *collect_warnings(cluster_preview, changes, masks),
                    *neighbours.handover_warnings(changes),
                    *find_newly_unmatched(cluster_preview, head, changes, held, masks),
                )
            )
        ),
        moves=moves,
        steps=tuple(start_times.schedule_steps(cluster_preview, changes)),
        problems=problems,
        unchanged=unchanged,
    )


def _left_behind_changes(
    preview: Preview, masks: SecretMasks, changes: Sequence[PlannedChange]
) -> Iterator[PlannedChange]:
    """Yield the members that stay since they lost their label, but those that an instance takes back before its turn.

    They are no part of the hash: who plans need not have the rights to find them.
    """
    changed_keys = {change.key for change in changes}
    for member in preview.left_behind:
        if (key := masks.mask_key(member.key)) not in changed_keys:
            yield PlannedChange(PlannedAction.KEEP, key, str(key.group_kind), message=member.cause.message)


async def _collect_changes(
    preview: Preview,
    head: Catalog,
    new_collector: partial[ChangeCollector],
    interim_changes: InterimChanges | None,
    hidden: Collection[ObjectKey],
) -> tuple[tuple[PlannedChange, ...], int]:
    """All changes, and how many objects do not change. What the schemas of the commit refuse is asked of each prospect."""
    schema_cluster, propagation = create_schema_cluster(head), preview.first.propagation

    async def collector_for(eventual_plan: EventualPlan, **options: Any) -> ChangeCollector:
        refused = await find_refusals(eventual_plan.plan, head, schema_cluster)
        return new_collector(eventual_plan, barriers=propagation.gates.barriers, refused=refused, **options)

    try:
        if interim_changes is None or preview.staying is None:
            final = await collector_for(preview.due)
            return final.collect(), final.unchanged
        final = await collector_for(preview.due, turn=interim_changes.find_turn)
        unmoved = await collector_for(preview.staying, frozen=propagation.frozen, hidden=hidden)
        changes = tuple(interim_changes.merge(final.collect(), unmoved.collect()))
        undone = sum(change.is_undone and change.action is not PlannedAction.DELETE for change in changes)
        return changes, final.unchanged - undone
    finally:
        await schema_cluster.close()


def _revision_moves(preview: Preview) -> Iterator[RevisionMove]:
    names = {kind: definition.name for kind, definition in preview.due.bundle.definitions.items()}
    for new_revision in preview.due.bundle.issued:
        instances = [key for key in preview.due.bundle.instances if key.group_kind == new_revision.kind]
        policies = {_policy_name(preview, key, names.get(new_revision.kind, "")) for key in instances}
        name = names.get(new_revision.kind, f"{new_revision.kind.kind.lower()}.{new_revision.kind.group}")
        yield RevisionMove(
            name,
            new_revision.number - 1,
            new_revision.number,
            len(instances),
            ", ".join(sorted(filter(None, policies))),
        )


def _policy_name(preview: Preview, key: ObjectKey, definition: str) -> str:
    labels = preview.due.bundle.instances[key].manifest.get("metadata", {}).get("labels") or {}
    policy = preview.due.situation.policy(key.group_kind, definition, labels)
    return policy.name if isinstance(policy, Policy) else ""
