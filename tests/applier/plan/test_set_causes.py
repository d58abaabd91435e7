"""Causes of one set: one for each, with the nodes that wait only because of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from applier.applyset.inventory import Scope
from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan
from applier.plan.set_causes import set_causes
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode

DATABASE = ObjectKey("g.test", "Database", "prod", "cart")
QUEUED = Cause(Reason.PACE_REACHED, "3rd of 8")


def node(name: str, blocked: Cause | None = None, unhealthy: str = "") -> NodePlan:
    key = ObjectKey("", "ConfigMap", "prod", name)
    rendered = RenderedNode(name, 0, (), key.group_kind, {}, key)
    return NodePlan(rendered, NodeAction.NONE, {"metadata": {}}, blocked=blocked, unhealthy_message=unhealthy)


def behind(name: str) -> Cause:
    return Cause(Reason.DEPENDENCY_NOT_READY, f"{name} is not healthy yet", blockers=(name,))


def planned(*nodes: NodePlan, **kept: Any) -> ApplySetPlan:
    return ApplySetPlan(RenderedApplySet(DATABASE), {"metadata": {}}, Scope(), nodes, **kept)


def test_nodes_that_wait_for_another_one_are_its_dependents_and_no_causes() -> None:
    failed = Cause(Reason.APPLY_FAILED, "denied")
    plan = planned(
        node("a", Cause(Reason.PROGRESSING, "not healthy yet")),
        node("b", behind("a")),
        node("c", failed),
        node("d", behind("c")),
        node("e", behind("c")),
        node("f", unhealthy="3 of 5 replicas"),
        node("g", behind("gone")),
        not_moved=QUEUED,
    )
    assert set_causes(plan) == [
        replace(failed, node="c", dependents=("d", "e")),
        QUEUED,
        Cause(Reason.PROGRESSING, "not healthy yet", node="a", dependents=("b",)),
        Cause(Reason.PROGRESSING, "3 of 5 replicas", node="f"),
        replace(behind("gone"), node="g"),
    ]


def test_a_set_that_may_not_be_touched_has_that_cause_alone() -> None:
    error = Cause(Reason.RENDER_FAILED, "no such field")
    assert set_causes(planned(node("a", behind("b")), error=error)) == [error]


def test_an_instance_that_does_not_exist_yet_is_its_owners_matter() -> None:
    assert set_causes(replace(planned(node("a", behind("b"))), parent=None)) == []


def test_why_a_deleted_parent_stays_comes_first_and_its_rendering_is_no_matter() -> None:
    """That a window holds its members stands behind it; a person's word on the whole set is told as well."""
    deletion = Cause(Reason.DELETION_BLOCKED, "waits for example.com/hold")
    error, suspended = Cause(Reason.RENDER_FAILED, "no such field"), Cause(Reason.SUSPENDED, "INC-7")
    failed = Cause(Reason.APPLY_FAILED, "denied")
    assert set_causes(planned(error=error, deletion=deletion)) == [deletion]
    assert set_causes(planned(error=suspended, deletion=deletion)) == [deletion, suspended]
    assert set_causes(planned(node("a", failed), deletion=deletion)) == [deletion, replace(failed, node="a")]
