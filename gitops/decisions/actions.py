"""Actions of sets as queries: the plan of each set, which also waits for the turn of its instance in a rollout."""

from __future__ import annotations

import operator
from typing import Final

from applier.causes import Cause, Reason
from applier.plan import deletion
from applier.plan.model import ApplySetPlan, CandidateChange, Plan, is_same_set_plan
from gitops.decisions.decision import Override
from gitops.decisions.definitions import definitions
from gitops.decisions.instances import is_wanted
from gitops.decisions.live_view import LiveView
from gitops.decisions.people import source_of
from gitops.decisions.permissions import IN_TURN, SetChecks, Turn, instance_of
from gitops.decisions.placements import is_frozen, restated_revision
from gitops.decisions.plan_inputs import assumed_permissions
from gitops.decisions.planned import planned_parents
from gitops.decisions.rollout_members import membership, unruled_cause
from gitops.decisions.set_plans import plan_in_turn, prospective_plan
from gitops.queries import Input, QueryGraph, query
from gitops.rollouts.state import DecisionRecord
from renderer.identity import ObjectKey

_NO_TURN: Final = Cause(Reason.PACE_REACHED, "waits for its queue position")

turn_cause: Final[Input[[ObjectKey], Cause | None]] = Input("turn_cause", initial=None, starts_unread=False)
"""Cause for which an instance waits for its turn, or None if it is not known. No decision depends on the cause."""


@query
def turn_of(graph: QueryGraph, parent: ObjectKey) -> Turn:
    """Return the turn of an instance. The set of a source, and an instance that Git does not want, have their turn."""
    if not is_wanted(graph, parent):
        return IN_TURN
    cause = None
    if is_frozen(graph, parent):
        cause = unruled_cause(graph, parent) or turn_cause(graph, parent) or _NO_TURN
    return Turn(cause, restated_revision(graph, parent))


@query(same=is_same_set_plan)
def _plan_in_turn(graph: QueryGraph, parent: ObjectKey) -> ApplySetPlan | None:
    return plan_in_turn(graph, parent, turn_of(graph, parent))


# Both plans are compared already, and an equal plan stays the same object.
@query(same=operator.is_)
def set_plan(graph: QueryGraph, parent: ObjectKey) -> ApplySetPlan | None:
    """Return the plan of a set, or None if there is nothing to plan for the parent."""
    is_in_turn = assumed_permissions(graph) is not None or turn_of(graph, parent) == IN_TURN
    return prospective_plan(graph, parent) if is_in_turn else _plan_in_turn(graph, parent)


@query
def overrides(graph: QueryGraph, parent: ObjectKey) -> tuple[Override, ...]:
    """Return the changes of a set that start now and bypass closed windows, each as an `UNDATED` record."""
    plan = set_plan(graph, parent)
    checks = SetChecks(graph, parent, IN_TURN)
    found = ((change, checks.override_record(change)) for change in plan.changes) if plan else ()
    return tuple(_override(graph, change, record) for change, record in found if record)


def _override(graph: QueryGraph, change: CandidateChange, record: DecisionRecord) -> Override:
    """Return a record with the rollout that keeps it: of the instance, or else of its definition, or else the source."""
    instance = instance_of(change)
    member, definition = membership(graph, instance), definitions(graph).current.get(instance.group_kind)
    rollout = member.rollout if member else definition.name if definition else ""
    return Override(record, change.set.source or source_of(graph, change.set.parent), rollout)


@query
def all_overrides(graph: QueryGraph) -> tuple[Override, ...]:
    """Return the changes of all sets that start now and bypass closed windows."""
    return tuple(override for parent in planned_parents(graph) for override in overrides(graph, parent))


@query(same=lambda before, after: before == after and all(map(is_same_set_plan, before.sets, after.sets)))
def whole_plan(graph: QueryGraph) -> Plan:
    """Return the plans of all sets."""
    plans = (set_plan(graph, parent) for parent in planned_parents(graph))
    return deletion.with_container_causes(Plan(tuple(plan for plan in plans if plan)), LiveView(graph, None))
