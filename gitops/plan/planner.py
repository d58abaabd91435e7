"""Make the report of a plan: what a commit would do to a cluster, to a record of one, or to another commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from applier.cluster import Cluster, ClusterName, Object
from gitops.clock import Clock
from gitops.gates.evaluate import ExternalFact
from gitops.plan import hashing, start_times
from gitops.plan.affected import affected
from gitops.plan.assumed_state import assume_applied, completed_rollouts
from gitops.plan.changes import Before, Changes
from gitops.plan.dry_run import DryRunCluster
from gitops.plan.interim_changes import InterimChanges, add_repairs
from gitops.plan.judging import judge_of, refusals
from gitops.plan.masking import SecretMasks
from gitops.plan.neighbours import ForeignSources
from gitops.plan.report import PlannedAction, PlannedChange, PlanWarning, Report, RevisionMove, WarningKind
from gitops.plan.snapshot import ClusterSnapshot
from gitops.plan.warnings import cautions
from gitops.reconcile.context import EventualPlan, Preview
from gitops.reconcile.preview import preview
from gitops.reconcile.sources import SourceState
from gitops.reconcile.step import MOST_ROUNDS, foretold
from gitops.rollouts.policy import Policy
from renderer import builtin_kinds
from renderer.catalog.catalog import Catalog
from renderer.errors import Problem
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import SECRET
from renderer.render.cache import RenderCache
from renderer.render.model import Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView

Facts = Mapping[str, ExternalFact]


async def between(
    base: Catalog, head: SourceState, *, clock: Clock, version: str, cluster_name: str, facts: Facts | None = None
) -> Report:
    """What `head` changes of a cluster that is as `base` says, without asking any. Both catalogs carry the name of the source and their commits.

    base = compose.catalog_of(places.read(place, revision="main"), source="platform")
    head = compose.catalog_of(places.read(place, revision="topic"), source="platform", previous=base)
    report = await between(base, SourceState(head), clock=SystemClock(), version=program_version(), cluster_name=LOCAL)
    """
    memo = RenderCache()
    before, after = _brought_about(base, memo), render([head.catalog], memo=memo)
    left_out, rollouts = 0, completed_rollouts(base, before)
    masks = SecretMasks()
    masks.learn(_manifests(after))  # of all: what is left out may hold what is shown
    levels = {node.key: node.level for one in after.sources.values() for node in one.nodes if node.key}
    if found := affected(base, head.catalog, before, after, head.brake):
        base, head = found[0], replace(head, catalog=found[1])
        left_out = _size(before)
        before = _brought_about(base, memo)
        left_out -= _size(before)
    record = DryRunCluster(
        ClusterName("git"), assume_applied(base, before, version, rollouts), crds=_crds(head.catalog)
    )
    unresolved = {(one.parent, node.id): node.manifest for one in before.sets for node in one.nodes if node.waiting}
    try:
        report = await against(
            record,
            head,
            clock=clock,
            cluster_name=cluster_name,
            facts=facts,
            unresolved=unresolved,
            levels=levels,
            memo=memo,
            masks=masks,
        )
    finally:
        await record.close()
    return replace(report, base=base.revision, against="git", unchanged=report.unchanged + left_out)


def _brought_about(base: Catalog, memo: RenderCache) -> Rendering:
    """The rendering of a commit, with what it refers to and holds itself."""
    found, live = render([base], memo=memo), ClusterView().live
    for _ in range(MOST_ROUNDS):
        if (coming := foretold(found, {})) == live:
            break
        found, live = render([base], ClusterView(live=coming), memo), coming
    return found


def _manifests(bundle: Rendering) -> Iterator[Manifest]:
    return (node.manifest for one in bundle.sets for node in one.nodes if node.manifest)


def _size(bundle: Rendering) -> int:
    return sum(not node.external for one in bundle.sets for node in one.nodes)


async def against_snapshot(
    snapshot: ClusterSnapshot, head: SourceState, *, clock: Clock, cluster_name: str, facts: Facts | None = None
) -> Report:
    """What `head` changes of the cluster that a snapshot records."""
    memo = RenderCache()
    secrets = [
        node.manifest
        for one in render([head.catalog], memo=memo).sets
        for node in one.nodes
        if node.group_kind == SECRET and node.writable
    ]
    record = snapshot.record(secrets)
    try:
        known = record.objects.keys() & map(ObjectKey.of, secrets)
        found = await against(
            record, head, clock=clock, cluster_name=cluster_name, facts=facts, memo=memo, hidden=known
        )
    finally:
        await record.close()
    said = (PlanWarning(WarningKind.NOT_COMPARED, one) for one in _not_compared(snapshot, len(known)))
    warnings = (*found.warnings, *said)
    return replace(found, warnings=warnings, against=f"snapshot of cluster {snapshot.cluster}")


def _not_compared(snapshot: ClusterSnapshot, secrets: int) -> Iterator[str]:
    if secrets:
        yield f"values of {secrets} Secrets are not compared: a snapshot does not hold them"
    if _minor(snapshot.kubernetes) != _minor(here := builtin_kinds.bundle().version):
        yield (
            f"cluster {snapshot.cluster} runs Kubernetes {snapshot.kubernetes}, and its own kinds are judged here as {here} would: "
            "fields and versions that only one of them has are told wrongly; plan against the cluster to be sure"
        )


def _minor(version: str) -> list[str]:
    """Of `v1.33.5-gke.1`, what kinds and fields depend on."""
    return version.split(".")[:2]


async def against(
    cluster: Cluster,
    head: SourceState,
    *,
    clock: Clock,
    cluster_name: str,
    facts: Facts | None = None,
    unresolved: Before | None = None,
    levels: Mapping[ObjectKey, int] | None = None,
    memo: RenderCache | None = None,
    masks: SecretMasks | None = None,
    hidden: Collection[ObjectKey] = (),
    own: Sequence[Object] | None = None,
) -> Report:
    """What `head` changes of a cluster, of which `own` are the ConfigMaps of our namespace where they were read already; `masks` may know Secrets
    that are in neither. Of objects in `hidden` the cluster's data are not known, and
    taken to be as `head` says. Nothing is written.

    Raises ClusterError only when the cluster cannot be read at all.
    """
    known = (lambda _: facts) if facts is not None else None
    foreseen = await preview(
        cluster, [head], clock, cluster_name=cluster_name, facts=known, memo=memo or RenderCache(), own=own
    )
    masks = masks or SecretMasks()
    masks.learn(foreseen.due.situation.observed.objects.values())
    for prospect in filter(None, (foreseen.due, foreseen.staying)):
        masks.learn(_manifests(prospect.bundle))
    neighbours = ForeignSources.of(foreseen)
    told = partial(
        Changes,
        masks=masks,
        neighbours=neighbours,
        files=head.catalog.contents,
        unresolved=unresolved,
        levels=levels or {},
    )
    turns = InterimChanges(foreseen, foreseen.staying, masks) if foreseen.staying else None
    made, unchanged = await _changes(foreseen, head.catalog, told, turns, hidden)
    changes = tuple(add_repairs(made, foreseen, masks))
    problems = tuple(replace(one, message=masks.text(one.message)) for one in _problems(foreseen))
    moves = tuple(_moves(foreseen))
    return Report(
        source=head.catalog.source,
        head=head.catalog.revision,
        at=clock.now(),
        against=f"cluster {cluster.name}",
        hash=hashing.plan_hash(head.catalog, changes, moves, problems),
        changes=changes,
        warnings=tuple(sorted((*cautions(foreseen, changes, masks), *neighbours.cautions(changes)))),
        moves=moves,
        steps=tuple(start_times.schedule_steps(foreseen, changes)),
        problems=problems,
        unchanged=unchanged,
    )


async def _changes(
    preview: Preview, head: Catalog, told: partial[Changes], turns: InterimChanges | None, hidden: Collection[ObjectKey]
) -> tuple[tuple[PlannedChange, ...], int]:
    """All changes, and how many objects do not change. What the schemas of the commit refuse is asked of each prospect."""
    judge, decided = judge_of(head), preview.first.propagation

    async def of(prospect: EventualPlan, **more: Any) -> Changes:
        refused = await refusals(prospect.plan, head, judge)
        return told(prospect, barriers=decided.gates.barriers, refused=refused, **more)

    try:
        if turns is None or preview.staying is None:
            due = await of(preview.due)
            return due.all(), due.unchanged
        due = await of(preview.due, turn=turns.gate)
        staying = await of(preview.staying, frozen=decided.frozen, hidden=hidden)
        changes = tuple(turns.merged(due.all(), staying.all()))
        undone = sum(one.is_undone and one.action is not PlannedAction.DELETE for one in changes)
        return changes, due.unchanged - undone
    finally:
        await judge.close()


def _problems(preview: Preview) -> Sequence[Problem]:
    return sorted({*preview.due.bundle.problems, *preview.first.propagation.problems})


def _moves(preview: Preview) -> Iterator[RevisionMove]:
    names = {kind: one.name for kind, one in preview.due.bundle.definitions.items()}
    for issued in preview.due.bundle.issued:
        instances = [key for key in preview.due.bundle.instances if key.group_kind == issued.kind]
        policies = {_policy(preview, key, names.get(issued.kind, "")) for key in instances}
        name = names.get(issued.kind, f"{issued.kind.kind.lower()}.{issued.kind.group}")
        yield RevisionMove(
            name, issued.number - 1, issued.number, len(instances), ", ".join(sorted(filter(None, policies)))
        )


def _policy(preview: Preview, key: ObjectKey, definition: str) -> str:
    labels = preview.due.bundle.instances[key].manifest.get("metadata", {}).get("labels") or {}
    found = preview.due.situation.policy(key.group_kind, definition, labels)
    return found.name if isinstance(found, Policy) else ""


def _crds(catalog: Catalog) -> dict[GroupKind, Object]:
    """Of the custom kinds that a commit describes."""
    return {kind: one.crd for kind, one in catalog.types.described.items()}
