"""Gates of the nodes of one instance: what a closed one holds, and the pace of a collection."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

import pytest

from applier.applyset.inventory import Scope
from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Operation
from gitops.gates.evaluate import GateFacts, TargetVariables
from gitops.gates.node_gates import NodeGates
from gitops.rollouts.policy import Policy
from gitops.rollouts.shapes import CountOrPercent, Linear
from renderer.definition.gates import Gate
from renderer.identity import GroupKind, ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode
from tests.support.gated_definitions import chain, definition, workers

INSTANCE = ObjectKey("kro.run", "App", "prod", "shop")
FACTS = GateFacts(
    datetime(2026, 11, 20, 13, tzinfo=UTC), TargetVariables(2, "9c1d2e7", "Ada", "Change"), {"dba": False}, {}
)
ONE_AT_A_TIME = Policy(name="apps", shape=Linear(CountOrPercent(1)))


def node(name: str, *, changed: bool = True, healthy: bool = True) -> NodePlan:
    """A node that exists and is to be updated, unless it is not `changed`."""
    key = ObjectKey("", "ConfigMap", "prod", name.replace("/", "-"))
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key.name, "namespace": "prod"}}
    rendered = RenderedNode(name, 0, (), GroupKind("", "ConfigMap"), manifest, key)
    action = NodeAction.UPDATE if changed else NodeAction.NONE
    return NodePlan(rendered, action, manifest, ready=True, healthy=healthy)


def node_gates(
    *nodes: NodePlan,
    gates: dict[str, tuple[Gate, ...]] | None = None,
    before: dict[str, tuple[Gate, ...]] | None = None,
    bypassed: Collection[str] = (),
    policy: Policy = ONE_AT_A_TIME,
) -> NodeGates:
    """The gates of an instance that was applied at revision 1, with those `before`, and is to move to revision 2."""
    manifest = {"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {"name": "shop"}, "spec": {"size": 1}}
    applied = RenderedApplySet(INSTANCE, manifest, gates=before or {}, revision=1)
    rendered = RenderedApplySet(
        INSTANCE, manifest, gates=gates or {}, revision=2, applied=1, applied_rendering=applied if before else None
    )
    plan = ApplySetPlan(rendered, manifest, Scope(), nodes)
    return NodeGates(plan, policy, FACTS, {}, frozenset(bypassed))


def gates_of_b(*expressions: str) -> dict[str, tuple[Gate, ...]]:
    return {"b": definition(*chain(*expressions)).gates}


def test_a_closed_gate_holds_its_node_and_no_other() -> None:
    """S1-40: dependents wait for the node, not for its gate."""
    gates = node_gates(node("a"), node("b"), node("c"), gates=gates_of_b("schema.spec.size > 1"))
    wait = gates.find_wait("b", Operation.UPDATE, None)
    assert wait
    assert wait.reason is Reason.GATE_CLOSED
    assert [gates.find_wait(name, Operation.UPDATE, None) for name in "ac"] == [None, None]


def test_a_gate_reads_the_dependencies_of_its_node() -> None:
    gates = gates_of_b("a.updated()")
    assert node_gates(node("a", changed=False), node("b"), gates=gates).find_wait("b", Operation.UPDATE, None) is None
    assert node_gates(node("a"), node("b"), gates=gates).find_wait("b", Operation.UPDATE, None)


def test_the_gate_that_a_node_was_applied_with_decides_about_its_deletion() -> None:
    """S1-21: what the new revision says of a node that it does not have any more does not count."""
    gates = node_gates(node("a"), gates={}, before=gates_of_b("false"))
    assert gates.find_wait("b", Operation.PRUNE, {})
    assert gates.find_wait("b", Operation.UPDATE, None) is None


def test_a_deletion_is_judged_by_its_own_gates_after_a_write_of_the_same_collection() -> None:
    """S1-21: both are asked in one pass, and the gates of the two differ."""
    gates = node_gates(node("a"), node("b"), gates=gates_of_b("true"), before=gates_of_b("false"))
    assert gates.find_wait("b", Operation.UPDATE, None) is None
    assert gates.find_wait("b", Operation.PRUNE, {})
    assert gates.find_wait("b", Operation.UPDATE, None) is None


def test_break_glass_passes_a_gate_that_awaits_a_window() -> None:
    gates = gates_of_b('inWindow("dba")')
    assert node_gates(node("b"), gates=gates).find_wait("b", Operation.UPDATE, None)
    passed = node_gates(node("b"), gates=gates, bypassed=["dba"])
    assert passed.find_wait("b", Operation.UPDATE, None) is None
    assert passed.overridden_windows("b", Operation.UPDATE, None) == {"dba"}


def test_a_gate_that_reads_the_time_is_asked_again() -> None:
    wait = node_gates(node("b"), gates=gates_of_b("now < timestamp('2000-01-01T00:00:00Z')")).find_wait(
        "b", Operation.UPDATE, None
    )
    assert wait
    assert wait.until
    assert wait.until > FACTS.now


@pytest.mark.parametrize(
    ("nodes", "waiting"),
    [
        ("ccc", [1, 2]),
        ("ucc", [2]),
        ("sc.", [1]),
        ("ccn", [1]),
    ],
)
def test_the_pace_of_the_policy_holds_items_that_change(nodes: str, waiting: list[int]) -> None:
    """c is to change, u has changed, s has changed and is sick, n is not there yet and is therefore made at once (S1-7)."""
    made = [
        node(f"w/{place}", changed=letter == "c", healthy=letter != "s")._replace(
            **({"live": None, "action": NodeAction.CREATE} if letter == "n" else {})  # type: ignore[arg-type]
        )
        for place, letter in enumerate(nodes.replace(".", ""))
    ]
    gates = node_gates(*made)
    waits = {place: gates.find_wait(f"w/{place}", Operation.UPDATE, None) for place in range(len(made))}
    assert [place for place, wait in waits.items() if wait] == waiting
    assert {wait.reason for wait in waits.values() if wait} <= {Reason.PACE_REACHED}


def test_an_empty_list_of_gates_takes_the_pace_away() -> None:
    gates = node_gates(node("w/0"), node("w/1"), gates={"w": ()})
    assert [gates.find_wait(f"w/{place}", Operation.UPDATE, None) for place in range(2)] == [None, None]


@pytest.mark.parametrize(
    ("expression", "first", "waiting"),
    [
        ("failed(workers) == 0", "moved", [2]),
        ("failed(workers) == 0", "refused", [1, 2]),
        ("linearlyReady(each, workers, 2) && failed(workers) == 0", "moved", [2]),
        ("linearlyReady(each, workers, 2) && failed(workers) == 0", "refused", [1, 2]),
        ("linearlyReady(each, workers, 1)", "refused", [1, 2]),
    ],
)
def test_s1_43_a_refused_write_counts_as_failed(expression: str, first: str, waiting: list[int]) -> None:
    """The first item settles or the server refuses it. A failed item keeps its place in a pace: no halt limits the failures."""
    gates = {"workers": definition(*chain(), workers(expression)).gates}
    refused = node("workers/0")._replace(blocked=Cause(Reason.APPLY_FAILED, "denied"))
    nodes = [refused if first == "refused" else node("workers/0", changed=False), node("workers/1"), node("workers/2")]
    found = node_gates(*nodes, gates=gates)
    waits = {place: found.find_wait(f"workers/{place}", Operation.UPDATE, None) for place in (1, 2)}
    assert [place for place, wait in waits.items() if wait] == waiting


def test_a_rate_of_the_definition_takes_the_place_of_the_pace() -> None:
    rate = definition(*chain(), workers("linearlyReady(each, workers, 2)")).gates
    gates = node_gates(*(node(f"workers/{place}") for place in range(3)), gates={"workers": rate})
    waits = [gates.find_wait(f"workers/{place}", Operation.UPDATE, None) for place in range(3)]
    assert [bool(wait) for wait in waits] == [False, False, True]
