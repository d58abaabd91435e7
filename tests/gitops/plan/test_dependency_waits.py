"""What a policy with a barrier makes wait beside descendants (S0-9, S0-26): the plan says it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from applier.causes import Reason
from applier.plan.deletion_brake import DeletionBrake
from applier.state.observed import label
from gitops.plan.dependency_waits import add_dependency_waits
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange, Report
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.git.commits import planned, previewed
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.plans import CLOSED, done, rule, run
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain


def report(barrier: str, first: dict[str, object], **window: object) -> Report:
    """An instance with two nodes at level 0, `a` and `b`, and one that reads `b`; something is in the way of `a`."""
    link = definition(
        "Link", [{**config_map("a"), **first}, config_map("b"), config_map("c", "b")], spec={"text": "string"}
    )
    closed = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}, "selector": {"nodes": ["a"]}}
    rules = {"policy.json": rule("PropagationPolicy", {"barrier": barrier})}
    rules |= {"window.json": rule("PropagationWindow", closed)} if window else {}
    base, head = ({"link.json": link, **rules, "x.json": instance("Link", "x", text=text)} for text in ("one", "two"))
    return planned(base, head)


def gates(found: Report) -> dict[str, list[str]]:
    """By node, what is behind its gates."""
    return {one.node: [gate.name for gate in one.obstacles] for one in found.changes if one.node}


@pytest.mark.parametrize(("barrier", "last"), [("Path", []), ("Level", []), ("All", ["a"])])
def test_a_gate_holds_the_levels_after_it_only_where_all_counts(barrier: str, last: list[str]) -> None:
    found = gates(report(barrier, {}, window=True))
    assert found == {"a": ["propagationwindow"], "b": [], "c": last}


@pytest.mark.parametrize(("awaited", "held"), [("exists", ["a"]), ("none", [])])
def test_a_gate_holds_what_depends_on_its_node_unless_nothing_waits_for_that(awaited: str, held: list[str]) -> None:
    """`levelgate.dev/wait-for: none`: the plan says so, and the run goes on."""
    first = config_map("a")
    first["template"]["metadata"]["annotations"] = {well_known.WAIT_FOR: awaited}
    link = definition("Link", [first, config_map("b", "a")], spec={"text": "string"})
    closed = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}, "selector": {"nodes": ["a"]}}
    window = rule("PropagationWindow", closed)
    with CheckedPlatform() as platform:
        platform.commit({"link.json": link, "window.json": window, "x.json": instance("Link", "x", text="one")})
        assert gates(platform.plan()) == {"a": ["propagationwindow"], "b": held}
        assert ("x-b" in {key.name for key in done(run(platform))}) is not bool(held)


def test_what_is_replaced_has_to_be_allowed_to_go_and_to_come_again() -> None:
    """Two windows of which the one that is open first is not enough."""
    fixed = {**config_map("a")["template"], "immutable": True}
    fixed["metadata"] = {**fixed["metadata"], "annotations": {well_known.REPLACE: "allowed"}}
    link = definition("Link", [{"id": "a", "template": fixed}], spec={"text": "string"})
    denied = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}}
    rules = {
        f"{verb}.json": rule("PropagationWindow", {**denied, "verbs": [verb]}, name=verb)
        for verb in ("update", "create")
    }
    base, head = ({"link.json": link, **rules, "x.json": instance("Link", "x", text=text)} for text in ("one", "two"))
    found = planned(base, head)
    assert [str(one.action) for one in found.changes if one.node] == ["replace"]
    assert gates(found) == {"a": ["update", "create"]}


@pytest.mark.parametrize(("barrier", "last"), [("Path", []), ("Level", ["a"]), ("All", ["a"])])
def test_what_cannot_be_done_holds_the_levels_after_it(barrier: str, last: list[str]) -> None:
    fixed = config_map("a")["template"] | {"immutable": True}
    found = report(barrier, {"template": fixed})
    assert [str(one.action) for one in found.changes if one.node] == ["failed", "update", "update"]
    assert gates(found) == {"a": [], "b": [], "c": last}


@pytest.mark.parametrize(("barrier", "last"), [("Path", []), ("Level", ["waits"]), ("All", ["waits"])])
@pytest.mark.parametrize("waits", ["data", "name", "reference"])
def test_what_waits_for_data_holds_the_levels_after_it(waits: str, barrier: str, last: list[str]) -> None:
    """S0-9: the plan says so, and the run writes nothing of them."""
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nobody", "namespace": "default"}}
    node = config_map("waits", name="${b.data.nothing}" if waits == "name" else "")
    node["template"]["data"]["text"] = "${b.data.nothing}"
    first = {"id": "waits", "externalRef": nobody} if waits == "reference" else node
    link = definition(
        "Link", [config_map("b"), first, config_map("c", "b"), config_map("d", "c")], spec={"text": "string"}
    )
    rules = {"policy.json": rule("PropagationPolicy", {"barrier": barrier})}
    with CheckedPlatform() as platform:
        platform.commit({"link.json": link, "x.json": instance("Link", "x", text="one"), **rules})
        found = gates(platform.plan())
        assert found.pop("waits", []) == []
        assert found == {"b": [], "c": last if waits == "reference" else [], "d": last}
        written = {key.name for key in done(run(platform)) if key.name.startswith("x-")}
        assert written == {f"x-{name}" for name, held in found.items() if not held}


def test_what_depends_on_what_waits_for_data_waits_for_it() -> None:
    """Also where it needs nothing but its name. In a plan of two commits what the base knew is there."""
    waits = config_map("waits")
    waits["template"]["data"]["more"] = "${b.data.nothing}"
    nodes = [config_map("b"), waits, config_map("c", "waits")]
    link = definition("Link", nodes, spec={"text": "string"})
    base, head = ({"link.json": link, "x.json": instance("Link", "x", text=text)} for text in ("one", "two"))
    with CheckedPlatform() as platform:
        platform.commit(head)
        assert gates(platform.plan()) == {"b": [], "waits": [], "c": ["waits"]}
        assert "x-c" not in {key.name for key in done(run(platform))}
    assert gates(planned(base, head)) == {"b": [], "waits": [], "c": []}
    assert gates(planned({}, head)) == {"b": [], "waits": [], "c": ["waits"]}


@pytest.mark.parametrize(("barrier", "beside"), [("Path", []), ("Level", ["a"]), ("All", ["a"])])
def test_what_is_there_and_not_ready_keeps_waiting_what_depends_on_it(barrier: str, beside: list[str]) -> None:
    """S0-9: though it does not change itself. The plan says so, and why, and the run writes nothing of that."""
    first = config_map("a", readyWhen=["${a.data.?there.orValue('') == 'yes'}"])
    first["template"]["data"] = {"text": "fixed"}
    nodes = [first, config_map("b", "a"), config_map("c", "b"), config_map("d"), config_map("e", "d")]
    link, rules = (
        definition("Link", nodes, spec={"text": "string"}),
        {"policy.json": rule("PropagationPolicy", {"barrier": barrier})},
    )
    with CheckedPlatform() as platform:
        platform.commit({"link.json": link, "x.json": instance("Link", "x", text="one"), **rules})
        platform.settle()
        platform.commit({"link.json": link, "x.json": instance("Link", "x", text="two"), **rules})
        report = platform.plan()
        assert gates(report) == {"b": ["a"], "c": ["a"], "d": [], "e": beside}
        told = next(gate.message for one in report.changes if one.node == "c" for gate in one.obstacles)
        assert told == "waits for a (not ready: ${a.data.?there.orValue('') == 'yes'} is false)"
        assert [(one.prerequisite, one.refs) for one in report.steps] == [
            ("", ("default/x",)),
            ("after a", ("default/x",)),
        ]
        assert {key.name for key in done(run(platform))} == {"x", "x-d"} | ({"x-e"} if not beside else set())
        ready = next(key for key in platform.cluster.objects if key.name == "x-a")
        platform.cluster.edit(ready, lambda obj: obj["data"].update(there="yes"))
        after = platform.plan()
        assert not any(gates(after).values())
        assert {key.name for key in done(run(platform))} == {one.key.name for one in after.changes if one.key}


def test_why_something_is_not_ready_names_no_value_of_a_secret() -> None:
    """I10: whoever looks after an object may put into its status what it was given."""
    metadata = {"name": "s", "namespace": "default"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": "hunter2hunter2"}}
    pods = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    first = config_map("a", readyWhen=["${a.status.?readyReplicas.orValue(0) > 0}"])
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": pods}
    first["template"] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": first["template"]["metadata"],
        "spec": spec,
    }
    link = definition("Link", [first, config_map("b", "a")], spec={"text": "string"})
    with CheckedPlatform() as platform:
        files = {"link.json": link, "s.json": json.dumps(secret)}
        platform.commit({**files, "x.json": instance("Link", "x", text="one")})
        platform.settle()
        platform.commit({**files, "x.json": instance("Link", "x", text="two")})
        key = next(key for key in platform.cluster.objects if key.name == "x-a")
        sick = {
            "type": "Progressing",
            "status": "False",
            "reason": "ProgressDeadlineExceeded",
            "message": "no login: hunter2hunter2",
        }
        platform.cluster.edit(key, lambda obj: obj.update(status={"observedGeneration": 1, "conditions": [sick]}))
        (gate,) = (gate for one in platform.plan().changes for gate in one.obstacles)
        assert gate.message.endswith("no login: (secret #1))")


def test_what_an_instance_is_made_of_stays_while_the_instance_stays() -> None:
    """The brake, or a window, that holds an instance which goes holds all that goes with it, whatever is nested in it."""
    inner = {
        "id": "inner",
        "template": {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Link",
            "metadata": {"name": "in"},
            "spec": {"text": "${schema.spec.text}"},
        },
    }
    outer = definition("Outer", [config_map("own"), inner], spec={"text": "string"})
    link = definition("Link", [config_map("a")], spec={"text": "string"})
    closed = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}, "selector": {"kinds": ["Outer"]}}
    base = {"link.json": link, "outer.json": outer, "window.json": rule("PropagationWindow", closed)}
    found = planned({**base, "x.json": instance("Outer", "x", text="one")}, base)
    assert {str(one.key): [str(gate.reason) for gate in one.obstacles] for one in found.changes} == {
        f"Outer.{GROUP}/default/x": ["WindowClosed"],
        "ConfigMap/default/x-own": ["DependencyNotReady"],
        f"Link.{GROUP}/default/in": ["DependencyNotReady"],
        "ConfigMap/default/in-a": ["DependencyNotReady"],
    }


def test_an_instance_that_is_held_before_it_exists_is_not_made() -> None:
    """Its kind may be as new as it is."""
    link = definition("Link", [config_map("a")], spec={"text": "string"})
    held = json.loads(instance("Link", "x", text="one"))
    held["metadata"]["annotations"] = {"levelgate.dev/hold": "not yet"}
    found = planned({}, {"link.json": link, "x.json": json.dumps(held)})
    gates = {one.kind: [str(gate.reason) for gate in one.obstacles] for one in found.changes}
    assert gates == {
        "CustomResourceDefinition.apiextensions.k8s.io": [],
        f"Link.{GROUP}": ["Held"],
        "ConfigMap": ["Held"],
    }


HELD = (well_known.RECONCILE, "disabled"), (well_known.PRUNE, "disabled")


@pytest.mark.parametrize("said", HELD, ids=["reconcile", "prune"])
@pytest.mark.parametrize("braked", [False, True])
@pytest.mark.parametrize(
    ("annotated", "stays", "waiting"),
    [
        (f"Link.{GROUP}/default/x", f"Link.{GROUP}/default/x", set()),
        ("ConfigMap/default/x-a", "ConfigMap/default/x-a", {f"Link.{GROUP}/default/x"}),
        ("ConfigMap/default/x-b", "ConfigMap/default/x-b", {"ConfigMap/default/x-a", f"Link.{GROUP}/default/x"}),
    ],
    ids=["instance", "lower node", "upper node"],
)
def test_what_a_person_protects_stays_and_with_it_what_it_uses(
    said: tuple[str, str], braked: bool, annotated: str, stays: str, waiting: set[str]
) -> None:
    """A live object with `prune: disabled` or `reconcile: disabled` that is no longer in Git: the plan names it, and says what waits for it, also
    while the brake holds all the rest.
    """
    link = definition("Link", [config_map("a"), config_map("b", "a")], spec={"text": "string"})
    with CheckedPlatform() as platform:
        platform.commit({"link.json": link, **{f"{name}.json": instance("Link", name, text="one") for name in "xyz"}})
        platform.settle()
        key = next(one for one in platform.cluster.objects if str(one) == annotated)
        platform.annotate(key, *said)
        platform.commit({"link.json": link}, approved=not braked)
        source = platform.sources["platform"]
        platform.sources["platform"] = replace(source, brake=DeletionBrake(0, 0)) if braked else source
        report = platform.plan()
        kept = [(str(one.key), one.message) for one in report.changes if one.action == "keep"]
        assert kept == [(stays, f"{said[0]}: disabled on the live object")]
        mine = {str(one.key): one for one in report.changes if one.instance == ObjectKey(GROUP, "Link", "default", "x")}
        held = {ref for ref, one in mine.items() if one.obstacles}
        assert held == {ref for ref in mine if ref != stays} if braked else held == waiting
        platform.settle()
        there = {str(key) for key, live in platform.cluster.objects.items() if label(live, well_known.PART_OF)}
        assert mine.keys() & there == held | {stays}
        assert (f"Link.{GROUP}/default/y" in there) == braked


def test_what_is_held_whole_is_not_written_at_its_old_revision_either() -> None:
    """A `hold` in Git, in the commit that changes its definition: the instance's own object waits as well."""
    before, after = (
        definition("Link", nodes, spec={"text": "string"})
        for nodes in ([config_map("a")], [config_map("a"), config_map("b")])
    )
    held = json.loads(instance("Link", "x", text="one"))
    held["metadata"]["annotations"] = {"levelgate.dev/hold": "not yet"}
    base = {"link.json": before, "x.json": instance("Link", "x", text="one")}
    found = planned(base, {"link.json": after, "x.json": json.dumps(held)})
    parts = {str(one.key): [gate.reason for part in one.parts for gate in part.obstacles] for one in found.changes}
    assert parts == {f"Link.{GROUP}/default/x": ["Held"], "ConfigMap/default/x-b": ["Held"]}


def test_what_a_person_disabled_of_an_instance_holds_nothing_that_it_is_made_of() -> None:
    """The instance is there, and a parent: its own object waits alone, and the run goes on with the rest."""
    link = definition("Link", [config_map("a")], spec={"text": "string"})
    changed = json.loads(instance("Link", "x", text="two"))
    changed["metadata"]["annotations"] = {well_known.RECONCILE: "disabled"}
    with CheckedPlatform() as platform:
        platform.commit({"link.json": link, "x.json": instance("Link", "x", text="one")})
        platform.settle()
        platform.commit({"link.json": link, "x.json": json.dumps(changed)})
        found = {str(one.key): [str(gate.reason) for gate in one.obstacles] for one in platform.plan().changes}
        assert found == {f"Link.{GROUP}/default/x": ["Suspended"], "ConfigMap/default/x-a": []}
        assert [str(key) for key in done(run(platform))] == ["ConfigMap/default/x-a"]


def test_what_refers_to_something_held_waits_for_it() -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p", "namespace": "default"}}
    reader = config_map("read", "other")
    reader["template"]["data"]["text"] = "${other.data.text}"
    link = definition("Link", [{"id": "other", "externalRef": reference}, reader], spec={})
    held = json.loads(plain("p", text="two"))
    held["metadata"]["annotations"] = {well_known.RECONCILE: "disabled"}
    files = {"link.json": link, "x.json": instance("Link", "x")}
    found = planned({**files, "p.json": plain("p")}, {**files, "p.json": json.dumps(held)})
    gates = {str(one.key): [(str(gate.reason), gate.name) for gate in one.obstacles] for one in found.changes}
    assert gates == {
        "ConfigMap/default/p": [("Suspended", "")],
        "ConfigMap/default/x-read": [("DependencyNotReady", "ConfigMap/default/p")],
    }


def test_the_brake_counts_what_stays_only_until_something_is_written() -> None:
    """A new object that cannot be made shields others of its kind for now; they are deletions of this commit all the same."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": "default"}}
    kept = {f"{name}.json": plain(name) for name in "kl"}
    goes = {"p.json": plain("p"), "q.json": plain("q"), "s.json": json.dumps(account)}
    with CheckedPlatform() as platform:
        platform.cluster.put(json.loads(plain("theirs")))
        platform.commit({**kept, **goes})
        platform.settle()
        platform.commit({**kept, "theirs.json": plain("theirs", text="ours")}, approved=False)
        platform.sources["platform"] = replace(platform.sources["platform"], brake=DeletionBrake(2, 20))
        assert done(run(platform)) == {}
        platform.sources["platform"] = replace(platform.sources["platform"], brake=DeletionBrake(3, 20))
        assert [key.name for key in done(run(platform))] == ["s"]


def test_the_brake_counts_what_a_window_keeps_for_now() -> None:
    """Rule 12: else what goes at once and what goes in the window would pass it in two parts."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": "default"}}
    closed = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}, "selector": {"kinds": ["ConfigMap"]}}
    kept = {"k.json": plain("k"), "window.json": rule("PropagationWindow", closed)}
    with CheckedPlatform() as platform:
        platform.commit({"k.json": plain("k"), "p.json": plain("p"), "s.json": json.dumps(account)})
        platform.settle()
        platform.commit(kept, approved=False)
        platform.sources["platform"] = replace(platform.sources["platform"], brake=DeletionBrake(1, 20))
        gates = {one.kind: {str(gate.reason) for gate in one.obstacles} for one in platform.plan().changes}
        assert gates == {"ConfigMap": {"BrakeEngaged", "WindowClosed"}, "ServiceAccount": {"BrakeEngaged"}}
        assert done(run(platform)) == {}


def test_a_change_waits_for_what_it_depends_on_until_that_opens() -> None:
    plan = previewed({}, {"a.json": plain("a"), "b.json": plain("b", "a")}).due.plan
    a, b = (ObjectKey("", "ConfigMap", "default", name) for name in "ab")
    opens = datetime(2026, 11, 23, 8, tzinfo=UTC)
    held = PlannedChange(
        PlannedAction.CREATE, a, "ConfigMap", obstacles=(Obstacle(Reason.WINDOW_CLOSED, "closed", "w", opens),)
    )
    free = PlannedChange(PlannedAction.CREATE, b, "ConfigMap")
    first, second = add_dependency_waits([held, free], plan, lambda _: (), {}, None, str)
    assert first == held
    assert [(one.reason, one.name, one.until) for one in second.obstacles] == [
        (Reason.DEPENDENCY_NOT_READY, str(a), opens)
    ]
