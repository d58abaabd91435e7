"""Actions, readiness and health of single nodes."""

from __future__ import annotations

from typing import Any

import pytest

from applier.causes import Reason
from applier.cluster import Object
from applier.errors import ClusterError, Denied, Invalid, Unavailable, UnknownOutcome
from applier.plan.constraints import PlanConstraints
from applier.plan.model import NodeAction
from applier.plan.planner import plan
from applier.state.field_conflicts import ConflictPolicy
from renderer import well_known
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering
from tests.support.apply_sets import CONFIG_MAP, PARENT, SOURCE, actions, bundle, decided, key, live, observed, parent
from tests.support.properties.repositories import plain


def test_what_was_never_looked_at_is_looked_at_first() -> None:
    """Sets: read before the first write."""
    one = decided()
    assert actions(one) == {"a": (NodeAction.READ, False), "b": (NodeAction.READ, False)}
    assert set(one.keys_to_read) == {key("a"), key("b")}
    assert one.writes == ()


def test_a_field_that_somebody_took_is_healed() -> None:
    assert actions(decided(live(SOURCE, "a", drifted="text"), live(SOURCE, "b")))["a"] == (NodeAction.HEAL, True)


UPDATER, APPLIER = ("script", "Update", ""), ("operator", "Apply", "")
SCALER = ("autoscaler", "Update", "scale")


def taken_by(managers: dict[str, tuple[str, str, str]], **annotations: str) -> Object:
    """The member `a` of which these managers have the fields of `data`."""
    manifest = live(SOURCE, "a")
    entries = manifest["metadata"]["managedFields"]
    for name, (manager, operation, subresource) in managers.items():
        entries[0]["fieldsV1"]["f:data"].pop(f"f:{name}", None)
        entry = {"manager": manager, "operation": operation, "subresource": subresource}
        entries.append({**entry, "fieldsV1": {"f:data": {f"f:{name}": {}}}})
    if annotations:
        manifest["metadata"]["annotations"] |= annotations
        fields: Any = {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in annotations}}}
        entries.append({"manager": "kubectl-annotate", "operation": "Update", "fieldsV1": fields})
    return manifest


@pytest.mark.parametrize(
    ("others", "policy", "healed", "contested"),
    [
        ({"text": UPDATER}, ConflictPolicy.HEAL, [".data.text"], []),
        ({"text": APPLIER}, ConflictPolicy.HEAL, [".data.text"], []),
        ({"text": UPDATER, "more": SCALER}, ConflictPolicy.HEAL, [".data.text"], []),
        ({"text": APPLIER}, ConflictPolicy.FORCE, [".data.text"], []),
        ({"text": UPDATER}, ConflictPolicy.REPORT, [".data.text"], []),
    ],
    ids=["update", "apply alone: the server is asked", "a field that Git does not set", "force", "report"],
)
def test_what_is_healed_of_an_object(
    others: dict[str, tuple[str, str, str]], policy: ConflictPolicy, healed: list[str], contested: list[str]
) -> None:
    """Conflicts: a write that has nothing else to heal is tried whole, since the value may be that of Git by now."""
    constraints = PlanConstraints(conflict_policies={"platform": policy})
    node_plan = decided(taken_by(others), live(SOURCE, "b"), records=constraints).nodes[0]
    assert (node_plan.action, node_plan.conflict_policy) == (NodeAction.HEAL, policy)
    assert [lost.path for lost in node_plan.lost_fields] == healed
    assert [lost.path for lost in node_plan.contested_fields] == contested


def test_what_others_mean_is_left_to_them_while_the_rest_is_healed() -> None:
    manifest = taken_by({"text": APPLIER})
    del manifest["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:labels"]
    node_plan = decided(manifest, live(SOURCE, "b")).nodes[0]
    assert [str(lost) for lost in node_plan.contested_fields] == [".data.text is changed by operator (apply)"]
    assert all(lost.path.startswith(".metadata.labels") for lost in node_plan.lost_fields)


def test_a_person_says_it_on_the_live_object_in_any_case() -> None:
    said = decided(taken_by({}, **{well_known.CONFLICTS: "Force"}), live(SOURCE, "b")).nodes[0]
    assert said.conflict_policy is ConflictPolicy.FORCE
    ours = taken_by({}, **{well_known.CONFLICTS: "force"})
    ours["metadata"]["managedFields"][-1] |= {"manager": "levelgate", "operation": "Apply"}
    assert decided(ours, live(SOURCE, "b")).nodes[0].conflict_policy is ConflictPolicy.HEAL, "Git says it no more"


def test_a_dropped_dependency_is_recorded_anew() -> None:
    """S0-14: one bookkeeping write once the member is healthy at the new revision."""
    stale = live(SOURCE, "a")
    stale["metadata"]["annotations"][well_known.DEPS] = "0123456789abcdef~"
    one = decided(stale, live(SOURCE, "b"))
    assert actions(one)["a"] == (NodeAction.RECORD, True)
    assert one.nodes[0].dependencies == ()
    assert actions(one)["b"] == (NodeAction.NONE, False)


@pytest.mark.parametrize("why", [Denied("get"), Unavailable("get"), Invalid("get")], ids=lambda why: type(why).__name__)
def test_an_object_that_could_not_be_read_is_not_looked_at_again_and_holds_up_no_other(why: ClusterError) -> None:
    """I9: what cannot be read is reported; an answer to a write that was lost is no such thing, and is read back."""
    unread = {key("b"): why}
    assert actions(decided(live(SOURCE, "a", drifted="text"), failures=unread)) == {
        "a": (NodeAction.HEAL, True),
        "b": (NodeAction.UNKNOWN, False),
    }
    lost = decided(live(SOURCE, "a"), failures={key("b"): UnknownOutcome("apply")})
    assert actions(lost)["b"] == (NodeAction.READ, False)


@pytest.mark.parametrize(
    ("wait_for", "works", "ready"),
    [
        ("", False, True),
        ("healthy", False, False),
        ("healthy", True, True),
        ("exists", False, True),
        ("none", False, True),
    ],
)
def test_wait_for_replaces_the_rule_of_readiness(wait_for: str, works: bool, ready: bool) -> None:
    """Rule 2; a load balancer is healthy once it has an address."""
    services = bundle(plain("a", kind="Service"))
    obj = {**live(services.sources["platform"], "a"), "spec": {"type": "LoadBalancer"}}
    if works:
        obj["spec"]["clusterIP"] = "10.0.0.1"
    if wait_for:
        obj["metadata"]["annotations"][well_known.WAIT_FOR] = wait_for
    assert decided(obj, of=services).nodes[0].ready is ready


def test_health_ignore_takes_an_object_out_of_what_is_healthy() -> None:
    """Surface 2.4: on the live object it counts as well; who depends on it waits as ever."""
    services = bundle(plain("a", kind="Service"))
    obj = {**live(services.sources["platform"], "a"), "spec": {"type": "LoadBalancer"}}
    assert not decided(obj, of=services).nodes[0].healthy
    obj["metadata"]["annotations"][well_known.HEALTH] = "ignore"
    assert decided(obj, of=services).nodes[0].healthy


def test_nodes_that_wait_or_cannot_be_rendered_say_so() -> None:
    node = RenderedNode("w", 0, (), CONFIG_MAP, {}, None, waiting=("a.status.host",))
    wrong = RenderedNode("e", 0, (), CONFIG_MAP, {}, None, error="no such field")
    one = RenderedApplySet(parent=PARENT, nodes=(node, wrong), source="platform")
    found = plan(Rendering({"platform": one}, {}), observed(parent(one))).sets[0]
    assert [(node.blocked.reason, node.blocked.message) for node in found.nodes if node.blocked] == [
        (Reason.WAITING_FOR_DATA, "a.status.host"),
        (Reason.RENDER_FAILED, "no such field"),
    ]
