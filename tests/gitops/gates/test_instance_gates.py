"""Gates across the instances of a definition: which instances they hold, and the reasons of those that wait for the pace."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from applier.applyset.inventory import Scope
from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan
from gitops.gates.evaluate import GateFacts, TargetVariables
from gitops.gates.instance_gates import InstanceGates
from gitops.rollouts.collection import RolloutItem, build_collection
from gitops.rollouts.policy import ALL_WAVE, DEFAULT_POLICY
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet
from tests.support.gated_definitions import definition

NOW: Final = datetime(2026, 11, 20, 13, tzinfo=UTC)
FACTS: Final = GateFacts(NOW, TargetVariables(2, "9c1d2e7", "Ada", "Change"), {"dba": False}, {})
MOVED: Final = RolloutItem("a", updated=True, granted=True, healthy=False)


def instance_gates(
    *expressions: str,
    items: Collection[RolloutItem] = (),
    bypassed: Collection[str] = (),
    error: Cause | None = None,
) -> InstanceGates:
    """The gates of App for these items, `a` in flight and `b` yet to move unless others are given."""
    items = items or (MOVED, RolloutItem("b"))
    keys = {item.key: ObjectKey("kro.run", "App", "prod", item.key) for item in items}
    manifests = {
        key: {"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {"name": key.name}, "spec": {"size": 3}}
        for key in keys.values()
    }
    plans = {
        key: ApplySetPlan(RenderedApplySet(key, manifest, revision=2), manifest, Scope(), error=error)
        for key, manifest in manifests.items()
    }
    gates = definition(across=[f"${{{expression}}}" for expression in expressions]).gates if expressions else ()
    collection = build_collection(DEFAULT_POLICY, {ALL_WAVE: timedelta()}, items, now=NOW)
    return InstanceGates(gates, FACTS, collection, keys, plans, {}, lambda _: frozenset(bypassed))


def test_without_gates_no_instance_waits() -> None:
    assert instance_gates().find_wait("b") is None


def test_a_closed_condition_holds_an_instance() -> None:
    wait = instance_gates("app.spec.size > 3").find_wait("b")
    assert wait
    assert (wait.reason, wait.blockers) == (Reason.GATE_CLOSED, ())
    assert instance_gates("app.spec.size == 3").find_wait("b") is None


def test_a_condition_on_the_collection_names_those_that_are_not_settled() -> None:
    """Who reads why `b` waits has to learn which instances can open its gate."""
    wait = instance_gates("apps.all(x, x.settled())").find_wait("b")
    assert wait
    assert wait.blockers == ("a", "b")


def exact_blockers(expression: str, item: str) -> tuple[str, ...]:
    gates = instance_gates(expression, items=(MOVED, RolloutItem("b"), RolloutItem("c")))
    wait = gates.find_wait(item)
    assert wait
    assert wait.blockers == ("a", "b", "c")
    return gates.with_exact_blockers(item, wait).blockers


def test_exact_blockers_keep_a_gate_closed_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    of_a = "apps.filter(x, x.metadata.name == 'a').all(x, x.settled())"
    assert exact_blockers(of_a, "b") == ("a",)
    assert exact_blockers("apps.filter(x, x.metadata.name != each.metadata.name).all(x, x.settled())", "b") == (
        "a",
        "c",
    )
    assert exact_blockers("apps.filter(x, !x.settled()).size() < 2", "b") == ("a", "b", "c")  # no one of them suffices
    monkeypatch.setattr("gitops.gates.instance_gates.MAX_TRIED_ITEMS", 26)
    assert exact_blockers(of_a, "b") == ("a", "b", "c")  # each of three would be tried among three


def test_a_condition_on_failed_instances_names_those_that_have_failed() -> None:
    """Who reads why `b` waits has to learn which instances can open its gate."""
    assert instance_gates("failed(apps) == 0").find_wait("b") is None
    items = (replace(MOVED, error="denied"), RolloutItem("b"), RolloutItem("c"))
    wait = instance_gates("failed(apps) == 0", items=items).find_wait("b")
    assert wait
    assert (wait.reason, wait.blockers) == (Reason.GATE_CLOSED, ("a",))


@pytest.mark.parametrize(("error", "is_open"), [(None, True), (Cause(Reason.RENDER_FAILED, "no field size"), False)])
def test_an_instance_of_which_no_node_is_known_is_not_ready(error: Cause | None, is_open: bool) -> None:
    """Propagation 2.1: what cannot be told is false; an instance without nodes is ready."""
    assert (instance_gates("apps.all(x, x.ready())", error=error).find_wait("b") is None) == is_open


def test_break_glass_passes_a_gate_that_awaits_a_window() -> None:
    gates = instance_gates('inWindow("dba")', bypassed=["dba"])
    assert gates.find_wait("b") is None
    assert gates.overridden_windows("b") == {"dba"}
    held = instance_gates('inWindow("dba")').find_wait("b")
    assert held
    assert held.reason is Reason.NEVER_OPENS, "no change of the window is known"


def test_who_waits_for_the_pace_of_gates_is_told_in_their_words() -> None:
    gates = instance_gates("inFlight(apps) < 1 && app.spec.size == 3")
    waits = {"b": Cause(Reason.PACE_REACHED, "queue position 2", blockers=("a",))}
    told = gates.with_pace_reasons(DEFAULT_POLICY, waits)["b"]
    assert told.message != "queue position 2"
    assert "inFlight(apps) = 1" in told.message
    assert told.blockers == ("a",)


def test_a_pace_that_a_policy_can_have_leaves_the_words_of_the_policy() -> None:
    gates = instance_gates("linearlyReady(each, apps, 3)")
    waits = {"b": Cause(Reason.PACE_REACHED, "queue position 2")}
    assert gates.pace(DEFAULT_POLICY) is None
    assert gates.with_pace_reasons(DEFAULT_POLICY, waits) is waits


def test_only_gates_that_read_the_time_are_asked_again_by_time() -> None:
    assert instance_gates("app.spec.size > 3").wake_at is None
    assert instance_gates("now > timestamp('2030-01-01T00:00:00Z')").wake_at == NOW + timedelta(minutes=1)
