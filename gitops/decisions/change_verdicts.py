"""Verdicts on all changes of a plan, whether they may start now or not, for readers who ask about many of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from applier.causes import Cause
from applier.plan.model import ApplySetPlan, CandidateChange, NodeAction, Operation
from applier.plan.prune_candidate import PruneOutcome
from applier.state.observed import is_terminating
from gitops.decisions import live
from gitops.decisions.actions import set_plan
from gitops.decisions.people import installation_suspension
from gitops.decisions.permissions import IN_TURN, SetChecks
from gitops.decisions.planned import planned_parents
from gitops.queries import QueryGraph, query
from gitops.rollouts.state import DecisionRecord
from renderer.identity import ObjectKey


class ChangeVerdict(NamedTuple):
    """What bars a change now, and what lets it bypass closed windows."""

    causes: tuple[Cause, ...]
    """All causes that bar the change, except the turn of its instance in a rollout."""
    override: DecisionRecord | None
    """The `UNDATED` record of the break-glass that lets the change start although windows are closed, or None."""


class ChangeKey(NamedTuple):
    """Key of a change among the changes of its set."""

    key: ObjectKey
    operation: Operation


def _verdict(graph: QueryGraph, change: CandidateChange) -> ChangeVerdict:
    """Return the verdict on a change."""
    if why := installation_suspension(graph):
        return ChangeVerdict((why,), None)
    checks = SetChecks(graph, change.set.parent, IN_TURN)
    causes = checks.all_causes(change)
    return ChangeVerdict(causes, None if causes else checks.override_record(change))


def _changes(graph: QueryGraph, plan: ApplySetPlan) -> Iterator[CandidateChange]:
    for node in plan.nodes:
        is_leaving = node.live is not None and is_terminating(node.live)
        if (node.action is NodeAction.NONE and not is_leaving) or not (change := plan.node_change(node)):
            continue
        yield change
        if is_leaving or node.action is NodeAction.REPLACE:
            yield change._replace(operation=Operation.CREATE)
    for candidate in plan.prune_candidates:
        if candidate.outcome is PruneOutcome.DELETE:
            yield plan.prune_change(candidate, live.live(graph, candidate.member.key))


@query
def change_verdicts(graph: QueryGraph, parent: ObjectKey) -> Mapping[ChangeKey, ChangeVerdict]:
    """Return the verdicts on all changes of the set of a parent.

    A replacement deletes the object and creates it again, and so has two verdicts.
    """
    plan = set_plan(graph, parent)
    changes = _changes(graph, plan) if plan else ()
    return {ChangeKey(change.key, change.operation): _verdict(graph, change) for change in changes}


@query
def all_verdicts(graph: QueryGraph) -> Mapping[ObjectKey, Mapping[ChangeKey, ChangeVerdict]]:
    """Return the verdicts on the changes of all sets, by parent."""
    return {parent: change_verdicts(graph, parent) for parent in planned_parents(graph)}
