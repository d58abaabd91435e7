"""Construction of a plan's report from the preview of a reconciliation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from applier.errors import ClusterError
from gitops.plan import start_times
from gitops.plan.changes import ChangeCollector
from gitops.plan.comparison_base import ComparisonBase, rendered_manifests
from gitops.plan.dry_run import create_schema_cluster, find_refusals
from gitops.plan.foreign_sources import ForeignSources
from gitops.plan.interim_changes import InterimChanges, add_repairs
from gitops.plan.masking import SecretMasks
from gitops.plan.obstacles import blocked_deletions
from gitops.plan.report import PlannedAction, PlannedChange, Report, RevisionMove, plan_hash
from gitops.plan.unmatched_rules import find_newly_unmatched
from gitops.plan.warnings import collect_warnings
from gitops.reconcile.preview import EventualPlan, Preview
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import Catalog
from renderer.errors import Problem
from renderer.identity import ObjectKey


async def make_report(
    preview: Preview, head: SourceState, masks: SecretMasks, comparison: ComparisonBase, *, against: str, at: datetime
) -> Report:
    """Return the report of a preview of `head`.

    Args:
        masks: masks of the report. They may already know Secrets, and learn the Secrets of the preview.
        against: name of the compared state, for people.
        at: time of the plan.
    """
    _learn_secrets(preview, masks)
    neighbours = ForeignSources.from_preview(preview)
    planned, unchanged = await _collect_changes(preview, head.catalog, masks, neighbours, comparison)
    changes = tuple(add_repairs(planned, preview, masks))
    problems = _masked_problems(preview, masks)
    moves = tuple(_revision_moves(preview))
    warnings = (
        *collect_warnings(preview, changes, masks),
        *neighbours.handover_warnings(changes),
        *find_newly_unmatched(preview, head, changes, comparison.selectable, masks),
    )
    return Report(
        source=head.catalog.source,
        head=head.catalog.commit,
        at=at,
        against=against,
        hash=plan_hash(head.catalog, changes, moves, problems),
        changes=(*_left_behind_changes(preview, masks, changes), *changes),
        warnings=tuple(sorted(warnings)),
        moves=moves,
        steps=tuple(start_times.schedule_steps(preview, changes)),
        problems=problems,
        unchanged=unchanged,
    )


def _learn_secrets(preview: Preview, masks: SecretMasks) -> None:
    """Add to `masks` the Secrets of the cluster, and of the commit's renderings before and after instances move."""
    masks.learn(preview.due.observed.objects.values())
    for eventual_plan in filter(None, (preview.due, preview.staying)):
        masks.learn(rendered_manifests(eventual_plan.bundle))


def _masked_problems(preview: Preview, masks: SecretMasks) -> tuple[Problem, ...]:
    problems = {*preview.due.bundle.problems, *preview.first.propagation.problems}
    return tuple(replace(problem, message=masks.mask_text(problem.message)) for problem in sorted(problems))


def _left_behind_changes(
    preview: Preview, masks: SecretMasks, changes: Sequence[PlannedChange]
) -> Iterator[PlannedChange]:
    """Yield a `keep` for each member that stays because it has lost its label, unless a change adopts the member again.

    The plan hash leaves these members out, because a person who plans may lack the permission to find them.
    """
    changed_keys = {change.key for change in changes}
    for member in preview.left_behind:
        if (key := masks.mask_key(member.key)) not in changed_keys:
            yield PlannedChange(PlannedAction.KEEP, key, str(key.group_kind), message=member.cause.message)


async def _collect_changes(
    preview: Preview, head: Catalog, masks: SecretMasks, neighbours: ForeignSources, comparison: ComparisonBase
) -> tuple[tuple[PlannedChange, ...], int]:
    """Return all changes, and the number of objects without a change.

    If instances wait for their turn to move, merge the changes before the move with the changes after the move.
    """
    schema_cluster, decision = create_schema_cluster(head), preview.first.propagation
    new_collector = partial(
        ChangeCollector,
        masks=masks,
        neighbours=neighbours,
        comparison=comparison,
        barriers=preview.barriers,
        files=head.contents,
        deletions=blocked_deletions(preview.first.plan),
    )

    async def refusals(eventual_plan: EventualPlan) -> Mapping[ObjectKey, ClusterError]:
        return await find_refusals(eventual_plan.plan, head, schema_cluster)

    try:
        if preview.staying is None:
            final = new_collector(preview.due, refused=await refusals(preview.due))
            return final.collect(), final.unchanged
        interim_changes = InterimChanges(preview, preview.staying, masks)
        final = new_collector(preview.due, refused=await refusals(preview.due), turn=interim_changes.find_turn)
        unmoved = new_collector(
            preview.staying,
            refused=await refusals(preview.staying),
            frozen=decision.frozen,
            hidden=comparison.hidden,
        )
        changes = tuple(interim_changes.merge(final.collect(), unmoved.collect()))
    finally:
        await schema_cluster.close()
    # `final` counted these objects as unchanged, although they change now and change back when the instance moves.
    undone = sum(change.is_undone and change.action is not PlannedAction.DELETE for change in changes)
    return changes, final.unchanged - undone


def _revision_moves(preview: Preview) -> Iterator[RevisionMove]:
    """Yield a move for each definition that gets a new revision from the commit."""
    names = {kind: definition.name for kind, definition in preview.due.bundle.definitions.items()}
    for new_revision in preview.due.bundle.issued:
        instances = [key for key in preview.due.bundle.instances if key.group_kind == new_revision.kind]
        policies = {policy.name for key in instances if (policy := preview.due.state.policies.get(key))}
        name = names.get(new_revision.kind, f"{new_revision.kind.kind.lower()}.{new_revision.kind.group}")
        yield RevisionMove(
            name,
            new_revision.number - 1,
            new_revision.number,
            len(instances),
            ", ".join(sorted(filter(None, policies))),
        )
