"""What an instance is brought to at the revision that it has, while it waits for its turn: the plan says it, and the run does it (docs/plans.md)."""

from __future__ import annotations

from typing import Any

from gitops.review.masking import Masks
from gitops.review.meanwhile import parted
from gitops.review.report import Action, Change, Difference
from tests.gitops.review.commits import brief
from tests.properties.platform import Files, Platform
from tests.properties.repositories import config_map, definition, instance
from tests.properties.test_planned import PACE, done, rule, run

POLICY = rule("PropagationPolicy", PACE)
FIELDS = {"text": "string | default=one", "on": "boolean | default=true"}


def files(revision: str, *, policy: str = POLICY, **instances: dict[str, Any]) -> Files:
    """A definition with three nodes, one of them optional, of which `revision` is a value of two."""
    optional = {**config_map("optional"), "includeWhen": ["${schema.spec.on}"]}
    optional["template"]["data"]["revision"] = revision
    last = config_map("last", "first")
    last["template"]["data"]["revision"] = revision
    link = definition("Link", [config_map("first"), optional, last], spec=FIELDS)
    made = {f"{name}.json": instance("Link", name, **spec) for name, spec in instances.items()}
    return {"link.json": link, **({"policy.json": policy} if policy else {}), **made}


def parts(changes: tuple[Change, ...]) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """In the order of the plan: what is told of each step, what differs then, and the reasons of what holds it."""
    return [
        (brief(one), tuple(f"{it.path}: {it.old} -> {it.new}" for it in one.diff), [gate.reason for gate in one.gates])
        for change in changes
        for one in change.parts
    ]


def test_values_of_an_instance_go_at_once_and_the_definition_comes_in_its_turn() -> None:
    with Platform() as platform:
        platform.commit(files("1", policy="", x={}, y={}))
        run(platform)
        platform.commit(files("2", x={}, y={"text": "two"}))
        plan = platform.plan()
        of_y = tuple(change for change in plan.changes if change.instance and change.instance.name == "y")
        assert parts(of_y) == [
            ("update 1 Link.g.test/default/y", ("spec.text: one -> two",), []),
            ("update 0 ConfigMap/default/y-first", ("data.text: one -> two",), []),
            ("update 0 ConfigMap/default/y-optional", ("data.text: one -> two",), []),
            ("update 0 ConfigMap/default/y-optional", ("data.revision: 1 -> 2",), ["PaceReached"]),
            ("update 1 ConfigMap/default/y-last", ("data.text: one -> two",), []),
            ("update 1 ConfigMap/default/y-last", ("data.revision: 1 -> 2",), ["PaceReached"]),
        ]
        assert ("at r1 until their turn:", ("default/y",), None) in [(one.what, one.refs, one.at) for one in plan.steps]
        assert plan.summary["update"] == 6
        run(platform)
        live = {key.name: obj["data"] for key, obj in platform.cluster.objects.items() if key.kind == "ConfigMap"}
        assert [live[f"y-{name}"].get("revision") for name in ("first", "optional", "last")] == [None, "1", "1"]
        assert {live[f"y-{name}"]["text"] for name in ("first", "optional", "last")} == {"two"}


def test_what_values_take_away_goes_at_once() -> None:
    with Platform() as platform:
        platform.commit(files("1", policy="", x={}, y={}))
        run(platform)
        platform.commit(files("2", x={}, y={"on": False}))
        (gone,) = (change for change in platform.plan().changes if change.action is Action.DELETE)
        assert (gone.ref, gone.gates) == ("ConfigMap/default/y-optional", ())
        assert gone.key
        assert done(run(platform))[gone.key] is Action.DELETE


def test_what_somebody_deleted_comes_again_as_it_was() -> None:
    with Platform() as platform:
        platform.commit(files("1", policy="", x={}, y={}))
        run(platform)
        key = next(key for key in platform.cluster.objects if key.name == "y-last")
        platform.cluster.take_away(key)
        platform.commit(files("2", x={}, y={}))
        of_it = tuple(change for change in platform.plan().changes if change.key == key)
        again = "data: None -> {'first': 'y-first', 'revision': '1', 'text': 'one'}"
        assert parts(of_it) == [
            ("create 1 ConfigMap/default/y-last", (again,), []),
            ("update 1 ConfigMap/default/y-last", ("data.revision: 1 -> 2",), ["PaceReached"]),
        ]
        assert done(run(platform))[key] is Action.CREATE


def test_a_window_holds_what_comes_first_as_well() -> None:
    once = [{"start": "2026-11-01T00:00", "end": "2026-12-01T00:00"}]
    closed = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": once}, "selector": {"nodes": ["last"]}}
    with Platform() as platform:
        platform.commit(files("1", policy="", x={}, y={}))
        run(platform)
        window = {"window.json": rule("PropagationWindow", closed)}
        platform.commit({**files("2", x={}, y={"text": "two"}), **window})
        (change,) = (change for change in platform.plan().changes if change.key and change.key.name == "y-last")
        assert [[gate.reason for gate in one.gates] for one in change.parts] == [
            ["WindowClosed"],
            ["PaceReached", "WindowClosed"],
        ]
        assert change.key not in done(run(platform))


def test_what_both_steps_change_gets_there_in_two() -> None:
    first = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "c": "1", "list": ["x"]}}
    then = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "2", "b": "2", "c": "0", "list": ["x", "y"]}}
    whole = (Difference("data.a", "0", "2"), Difference("data.b", None, "2"), Difference("data.d", "0", None))
    early, rest = parted(whole, first, then, Masks())
    assert early == (Difference("data.a", "0", "1"), Difference("data.d", "0", None), *_there_and_back())
    assert rest == (
        Difference("data.a", "1", "2"),
        Difference("data.b", None, "2"),
        Difference("data.c", "1", "0"),
        Difference("data.list", ["x"], ["x", "y"]),
    )


def _there_and_back() -> tuple[Difference, ...]:
    return Difference("data.c", "0", "1"), Difference("data.list", ["x", "y"], ["x"])
