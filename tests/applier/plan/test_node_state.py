"""States of single nodes: action, readiness and health, whatever other nodes, failures and permissions say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.adoption import NO_ADOPTION
from applier.causes import Cause, Reason
from applier.cluster import Discovery, Object, Resource
from applier.errors import ClusterError, Denied, Unavailable
from applier.plan.comparison import compare_with_live
from applier.plan.model import NodeAction, NodePlan
from applier.plan.node_state import NodeInputs, NodeStateReader, SetFacts
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY
from renderer import well_known
from renderer.definition.conditions import ReadyVerdict
from renderer.errors import SourceLocation
from renderer.identity import ObjectKey
from renderer.render.model import RenderedNode
from tests.support.apply_sets import CONFIG_MAP, OLD, SOURCE, key, live, node_of, observed, of_kubectl
from tests.support.set_planners import DELETED_AT


def plan_of(node: RenderedNode, *objects: Object, absent: str = "", **seen: Any) -> NodePlan:
    """Return the plan in the state of `node`, a node of `SOURCE`."""
    known = replace(observed(*objects, absent=absent), **seen)
    facts = SetFacts(SOURCE, DEFAULT_CONFLICT_POLICY, NO_ADOPTION)
    inputs = NodeInputs(node, (), None, None)
    return NodeStateReader(known, frozenset(), compare_with_live).state_of(facts, inputs).plan


def test_a_kind_that_cannot_be_listed_has_its_error_as_cause() -> None:
    found = plan_of(node_of("a"), live(SOURCE, "a"), unreadable={CONFIG_MAP: Unavailable("webhook failed")})
    assert (found.action, found.live) == (NodeAction.UNKNOWN, None)
    assert found.blocked == Cause(Reason.PROGRESSING, "webhook failed")


def test_a_kind_that_the_server_never_stores_is_to_be_removed_from_git() -> None:
    review = Discovery(
        {CONFIG_MAP: Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, verbs=frozenset({"create"}))}
    )
    found = plan_of(node_of("a"), discovery=review)
    message = "the server answers requests for ConfigMap but stores no objects; remove the object from Git"
    assert (found.action, found.blocked) == (NodeAction.UNKNOWN, Cause(Reason.APPLY_FAILED, message))


def test_an_object_that_was_not_read_waits_for_its_read() -> None:
    found = plan_of(node_of("a"))
    assert (found.action, found.blocked) == (NodeAction.READ, Cause(Reason.PROGRESSING, "not observed yet"))


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        (
            {"waiting": ("a.status.host", "a.status.port")},
            Cause(Reason.WAITING_FOR_DATA, "a.status.host, a.status.port"),
        ),
        ({"error": "no such field"}, Cause(Reason.RENDER_FAILED, "one.yaml:7: no such field")),
    ],
    ids=["waits for data", "has a mistake"],
)
@pytest.mark.parametrize(("set_id", "is_member"), [(SOURCE.id, True), ("another", False)])
def test_a_node_without_a_manifest_keeps_the_health_of_its_own_member(
    fields: dict[str, Any], cause: Cause, set_id: str, is_member: bool
) -> None:
    """An object of another set says nothing about the node."""
    obj = live(SOURCE, "a")
    obj["metadata"]["labels"][well_known.PART_OF] = set_id
    found = plan_of(node_of("a", origin=SourceLocation("one.yaml", 7), **fields), obj)
    assert (found.action, found.blocked) == (NodeAction.UNKNOWN, cause)
    assert (found.live is obj, found.ready, found.healthy) == (is_member, is_member, is_member)


@pytest.mark.parametrize(
    ("fields", "absent", "failures", "action", "cause"),
    [
        ({}, "", {}, NodeAction.READ, Cause(Reason.WAITING_FOR_DATA, "ConfigMap/default/a to exist")),
        ({}, "a", {}, NodeAction.NONE, Cause(Reason.WAITING_FOR_DATA, "ConfigMap/default/a to exist")),
        ({}, "", {key("a"): Denied("get")}, NodeAction.NONE, Cause(Reason.APPLY_FAILED, "not allowed: get")),
        (
            {"key": None, "waiting": ("schema.spec.name",)},
            "",
            {},
            NodeAction.NONE,
            Cause(Reason.WAITING_FOR_DATA, "schema.spec.name"),
        ),
        ({"error": "no such field"}, "a", {}, NodeAction.NONE, Cause(Reason.RENDER_FAILED, "0.json:1: no such field")),
    ],
    ids=["not read", "absent", "not readable", "without a name", "with a mistake"],
)
def test_an_external_node_is_read_and_never_written(
    fields: dict[str, Any],
    absent: str,
    failures: dict[ObjectKey, ClusterError],
    action: NodeAction,
    cause: Cause,
) -> None:
    found = plan_of(node_of("a", external=True, **fields), absent=absent, failures=failures)
    assert (found.action, found.ready) == (action, False)
    assert found.blocked == cause


@pytest.mark.parametrize(("verdict", "reason"), [(None, None), (True, None), (False, Reason.PROGRESSING)])
def test_an_external_object_is_always_healthy_and_ready_by_its_condition(
    verdict: bool | None, reason: Reason | None
) -> None:
    found = plan_of(node_of("a", external=True, ready=ReadyVerdict(verdict, "no host yet")), live(OLD, "a"))
    assert (found.action, found.healthy, found.ready) == (NodeAction.NONE, True, reason is None)
    assert found.blocked == (Cause(reason, "no host yet", object_key=key("a")) if reason else None)


@pytest.mark.parametrize(
    ("obj", "action"),
    [
        (of_kubectl("a"), NodeAction.ADOPT),
        (of_kubectl("a", SOURCE.id), NodeAction.ADOPT),
        (of_kubectl("a", "another"), NodeAction.UPDATE),
        (live(OLD, "a"), NodeAction.UPDATE),
        (live(SOURCE, "a"), NodeAction.NONE),
    ],
    ids=["in no set", "labelled by a person", "in another set", "another manifest", "equal"],
)
def test_an_object_is_adopted_only_while_levelgate_has_never_written_it(obj: Object, action: NodeAction) -> None:
    assert plan_of(node_of("a"), obj).action is action


def waiting_for(rule: str, obj: Object) -> Object:
    obj["metadata"]["annotations"][well_known.WAIT_FOR] = rule
    return obj


def unseen(obj: Object) -> Object:
    """Return `obj`, whose controller has not seen the newest generation."""
    return {**obj, "metadata": {**obj["metadata"], "generation": 2}, "status": {"observedGeneration": 1}}


NOT_FRESH = "the status does not cover the newest generation yet"


@pytest.mark.parametrize(
    ("obj", "verdict", "ready", "message"),
    [
        (live(SOURCE, "a"), None, True, ""),
        (live(SOURCE, "a"), True, True, ""),
        (live(SOURCE, "a"), False, False, "no host yet"),
        (unseen(live(SOURCE, "a")), True, False, NOT_FRESH),
        (unseen(live(SOURCE, "a")), None, True, ""),
        (waiting_for("exists", live(SOURCE, "a")), False, True, ""),
        (waiting_for("none", live(SOURCE, "a")), False, True, ""),
        (waiting_for("ready", live(SOURCE, "a")), False, False, "no host yet"),
        (waiting_for("healthy", live(SOURCE, "a")), False, False, "not healthy yet"),
        (waiting_for("healthy", live(SOURCE, "a")), None, True, ""),
    ],
)
def test_the_first_rule_of_readiness_decides(obj: Object, verdict: bool | None, ready: bool, message: str) -> None:
    """Rule 2: a deletion, then `wait-for`, then `readyWhen`, then existence."""
    found = plan_of(node_of("a", ready=ReadyVerdict(verdict, "no host yet" if verdict is False else "")), obj)
    assert found.ready is ready
    assert found.blocked == (Cause(Reason.PROGRESSING, message, object_key=key("a")) if message else None)


@pytest.mark.parametrize("rule", ["none", "exists", "healthy", "ready"])
def test_an_object_that_is_being_deleted_is_never_ready(rule: str) -> None:
    going = waiting_for(rule, live(SOURCE, "a", deletionTimestamp=DELETED_AT, finalizers=["x"]))
    found = plan_of(node_of("a", ready=ReadyVerdict(True)), going)
    assert not found.ready
    assert found.blocked is not None
    assert found.blocked.message.startswith(f"ConfigMap/default/a is being deleted (requested at {DELETED_AT})")


@pytest.mark.parametrize(
    ("obj", "verdict", "healthy", "message"),
    [
        (live(SOURCE, "a"), ReadyVerdict(), True, ""),
        (live(SOURCE, "a"), ReadyVerdict(True), True, ""),
        (live(SOURCE, "a"), ReadyVerdict(False, "no host yet"), False, "no host yet"),
        (unseen(live(SOURCE, "a")), ReadyVerdict(), False, NOT_FRESH),
        (unseen(live(SOURCE, "a")), ReadyVerdict(False, "no host yet"), False, "no host yet"),
    ],
)
def test_a_node_is_healthy_only_when_its_condition_and_its_status_agree(
    obj: Object, verdict: ReadyVerdict, healthy: bool, message: str
) -> None:
    found = plan_of(node_of("a", ready=verdict), obj)
    assert (found.healthy, found.unhealthy_message) == (healthy, message)


def test_an_absent_object_is_neither_ready_nor_healthy() -> None:
    found = plan_of(node_of("a"), absent="a")
    assert (found.ready, found.healthy, found.unhealthy_message) == (False, False, "the object is absent")
