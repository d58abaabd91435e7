"""Steps of a plan: which changes start together, and in which order."""

from __future__ import annotations

import json

import pytest

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


WAVES = {
    "selector": {"instances": {"matchLabels": {"tier": "web"}}},
    "waves": [
        {"name": "canary", "selector": {"matchLabels": {"stage": "canary"}}},
        {"name": "prod", "selector": {"matchLabels": {"stage": "prod"}}},
    ],
    "approvals": [{"after": {"wave": "canary"}}],
}


def thing(image: str) -> str:
    return f"""
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {{name: things.kro.run}}
spec:
  schema: {{apiVersion: v1alpha1, kind: Thing, spec: {{text: string | default=hello}}}}
  resources:
  - id: map
    propagateWhen: ['${{schema.spec.text != "stop"}}']
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {{name: "${{schema.metadata.name}}"}}
      data: {{image: {image}}}
"""


def instance(name: str, stage: str, text: str) -> str:
    metadata = {"name": name, "namespace": "default", "labels": {"tier": "web", "stage": stage}}
    return json.dumps({"apiVersion": "kro.run/v1alpha1", "kind": "Thing", "metadata": metadata, "spec": {"text": text}})


def test_a_wave_behind_one_without_a_known_end_comes_after_it() -> None:
    """And the rollout of a policy that selects instances has the name of the policy."""
    base = {
        "policy.json": rule("PropagationPolicy", WAVES),
        "a.json": instance("a", "canary", "stop"),
        "b.json": instance("b", "prod", "go"),
        "thing.yaml": thing("one"),
    }
    found = steps(base, {**base, "thing.yaml": thing("two")})
    assert [step.refs for step in found] == [("default/a",), ("default/b",)]
    assert "wave canary" in found[0].summary
    assert found[1].at is None


NIGHT = rule(
    "PropagationWindow",
    {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 22 * * *"}, "until": "23:00", "byName": True},
    name="night",
)


def waved(*waves: dict[str, object], held: str = "") -> list[tuple[str, str]]:
    """The steps of a rollout over these waves, one instance in each, that bake for an hour: time, and instances.

    The instance of the wave `held` has a window of its own.
    """
    policy = {
        "selector": {"rgds": ["things.kro.run"]},
        "bake": "1h",
        "waves": [
            {"name": f"w{place}", "selector": {"matchLabels": {"stage": f"w{place}"}}, **wave}
            for place, wave in enumerate(waves)
        ],
    }
    own = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "30 22 * * *"}, "until": "23:00"}
    selector = {"rgds": ["things.kro.run"], "instances": {"matchLabels": {"stage": held}}}
    base = {
        "policy.json": rule("PropagationPolicy", policy),
        "night.json": NIGHT,
        **({"own.json": rule("PropagationWindow", {**own, "selector": selector}, name="own")} if held else {}),
        "thing.yaml": thing("one"),
        **{f"i{place}.json": instance(f"i{place}", f"w{place}", f"i{place}") for place in range(len(waves))},
    }
    found = steps(base, {**base, "thing.yaml": thing("two")})
    return [(f"{step.at:%d %H:%M}" if step.at else "", ", ".join(step.refs)) for step in found]


@pytest.mark.parametrize(
    ("waves", "held", "starts"),
    [
        (({}, {}, {}), "", ["", "20 13:00", "20 14:00"]),
        (({"windows": ["night"]}, {}, {}), "", ["20 22:00", "20 23:00", "21 00:00"]),
        (({}, {}, {}), "w0", ["20 22:30", "20 23:30", "20 23:30"]),
        (({}, {}, {}), "w1", ["", "20 22:30", "20 23:30"]),
        (({"windows": ["night"]}, {}, {}), "w0", ["20 22:30", "20 23:30", "20 23:30"]),
        (({"windows": ["night"]}, {}, {}), "w1", ["20 22:00", "20 23:00", "20 23:30"]),
    ],
    ids=[
        "no window",
        "of a wave",
        "of an instance",
        "of a later instance",
        "of both",
        "of a wave and a later instance",
    ],
)
def test_a_delay_counts_once(waves: tuple[dict[str, object], ...], held: str, starts: list[str]) -> None:
    """The forecast of turns knows the windows of waves already, and not those of instances. No start is told too late."""
    assert [start for start, _ in waved(*waves, held=held)] == starts


def test_a_deletion_that_waits_delays_no_later_wave() -> None:
    """An instance settles by the objects that it has, not by those that it is to lose."""
    extra = """  - id: extra
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-extra"}, data: {image: one}}
"""
    policy = {
        "selector": {"rgds": ["things.kro.run"]},
        "bake": "1h",
        "waves": [{"name": name, "selector": {"matchLabels": {"stage": name}}} for name in ("w0", "w1")],
    }
    selector = {"rgds": ["things.kro.run"], "instances": {"matchLabels": {"stage": "w0"}}}
    window = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}, "verbs": ["prune"]}
    base = {
        "policy.json": rule("PropagationPolicy", policy),
        "window.json": rule("PropagationWindow", {**window, "selector": selector}),
        "thing.yaml": thing("one") + extra,
        **{f"i{place}.json": instance(f"i{place}", f"w{place}", "go") for place in range(2)},
    }
    found = steps(base, {**base, "thing.yaml": thing("two")})
    starts = [(f"{step.at:%d %H:%M}" if step.at else "", ", ".join(step.refs)) for step in found]
    assert starts == [("", "default/i0"), ("20 13:00", "default/i1"), ("01 00:00", "default/i0")]
