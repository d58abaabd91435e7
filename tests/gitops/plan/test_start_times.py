"""Steps of a plan: which changes start together, and in which order."""

from __future__ import annotations

from gitops.plan.report import PlanStep
from gitops.plan.start_times import schedule_steps
from tests.support.git.commits import planned, previewed
from tests.support.properties.plans import CLOSED, rule
from tests.support.properties.repositories import plain, workload

WINDOW = {
    "kind": "Deny",
    "timeZone": "UTC",
    "schedule": {"once": [CLOSED]},
    "selector": {"kinds": ["ConfigMap"], "namespaces": ["late"]},
}


def steps(base: dict[str, str], head: dict[str, str]) -> list[PlanStep]:
    return list(schedule_steps(previewed(base, head), planned(base, head).changes))


def test_changes_without_an_obstacle_are_one_step_at_once() -> None:
    (step,) = steps({}, {"a.json": plain("a"), "b.json": plain("b")})
    assert (step.at, step.prerequisite) == (None, "")
    assert len(step.refs) == 2


def test_a_change_behind_a_window_comes_after_those_at_once() -> None:
    window = {"w.json": rule("PropagationWindow", WINDOW)}
    base = {**window, "ns.json": '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}'}
    head = {**base, "a.json": plain("a"), "b.json": plain("b", namespace="late")}
    first, second = steps(base, head)
    assert (first.at, first.refs) == (None, ("ConfigMap/default/a",))
    assert second.at
    assert second.refs == ("ConfigMap/late/b",)
    assert "window" in second.summary


def test_what_waits_only_for_another_change_has_no_step_of_its_own() -> None:
    window = {**WINDOW, "selector": {"kinds": ["ConfigMap"]}}
    base = {"w.json": rule("PropagationWindow", window)}
    found = steps(base, {**base, "b.json": plain("b"), "d.json": workload("b")})
    assert [step.refs for step in found] == [("ConfigMap/default/b",)]
