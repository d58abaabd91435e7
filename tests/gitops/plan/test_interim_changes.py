"""What an instance is brought to at the revision that it has, while it waits for its turn: the plan says it, and the run does it (docs/plans.md)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from applier.plan.deletion_brake import DeletionBrake
from gitops.plan.interim_changes import InterimChanges
from gitops.plan.masking import SecretMasks
from gitops.plan.report import PlannedAction, PlannedChange
from renderer import well_known
from renderer.identity import ObjectKey
from tests.support.git.commits import brief, previewed
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.plans import PACE, done, holder, rule, run
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain

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


def parts(changes: tuple[PlannedChange, ...]) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """In the order of the plan: what is told of each step, what differs then, and the reasons of what holds it."""
    return [
        (
            brief(one),
            tuple(f"{it.path}: {it.old} -> {it.new}" for it in one.diff),
            [gate.reason for gate in one.obstacles],
        )
        for change in changes
        for one in change.parts
    ]


def test_only_an_instance_without_its_turn_waits_and_its_own_values_do_not() -> None:
    prospects = previewed(files("1", policy="", x={}, y={}), files("2", x={}, y={"text": "two"}))
    assert prospects.staying
    interim = InterimChanges(prospects, prospects.staying, SecretMasks())
    waiting = {
        node_plan.node.key.name
        for set_plan in prospects.due.plan.sets
        for node_plan in set_plan.nodes
        if node_plan.node.key and interim.find_turn(set_plan, node_plan.node.key)
    }
    assert {"y-optional", "y-last"} <= waiting
    assert not {"x-optional", "x-last", "y-first"} & waiting


def test_values_of_an_instance_go_at_once_and_the_definition_comes_in_its_turn() -> None:
    with CheckedPlatform() as platform:
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
        assert ("at r1 until they move:", ("default/y",), None) in [
            (one.summary, one.refs, one.at) for one in plan.steps
        ]
        assert plan.summary["update"] == 6
        run(platform)
        live = {key.name: obj["data"] for key, obj in platform.cluster.objects.items() if key.kind == "ConfigMap"}
        assert [live[f"y-{name}"].get("revision") for name in ("first", "optional", "last")] == [None, "1", "1"]
        assert {live[f"y-{name}"]["text"] for name in ("first", "optional", "last")} == {"two"}


def test_a_value_that_only_the_revision_before_holds_is_shown_nowhere() -> None:
    """I10: a new instance is made at it until its turn, with a Secret and with what copies that."""
    secret = config_map("secret")
    secret["template"] |= {"kind": "Secret", "stringData": {"token": "${'c4nary-' + schema.spec.text}"}}
    del secret["template"]["data"]
    copy = config_map("copy")
    copy["template"]["data"] = {"url": "${'db://c4nary-' + schema.spec.text + '@db'}"}
    with CheckedPlatform() as platform:
        platform.commit({**files("1", policy="", x={}), "link.json": definition("Link", [secret, copy], spec=FIELDS)})
        run(platform)
        link = definition("Link", [config_map("other")], spec=FIELDS)
        platform.commit({**files("1", x={}, z={"text": "two"}), "link.json": link})
        plan = platform.plan()
    (copied,) = (change for change in plan.changes if change.ref == "ConfigMap/default/z-copy")
    assert parts((copied,)) == [
        ("create 0 ConfigMap/default/z-copy", ("data: None -> {'url': 'db://(secret #1)@db'}",), []),
        ("delete 0 ConfigMap/default/z-copy", (), ["PaceReached"]),
    ]
    assert "c4nary" not in repr(plan)


def test_what_values_take_away_goes_at_once() -> None:
    with CheckedPlatform() as platform:
        platform.commit(files("1", policy="", x={}, y={}))
        run(platform)
        platform.commit(files("2", x={}, y={"on": False}))
        (gone,) = (change for change in platform.plan().changes if change.action is PlannedAction.DELETE)
        assert (gone.ref, gone.obstacles) == ("ConfigMap/default/y-optional", ())
        assert gone.key
        assert done(run(platform))[gone.key] is PlannedAction.DELETE


def test_what_somebody_deleted_comes_again_as_it_was() -> None:
    with CheckedPlatform() as platform:
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
        assert done(run(platform))[key] is PlannedAction.CREATE


def test_what_somebody_took_the_label_of_is_taken_back_and_goes_where_the_new_revision_has_it_no_more() -> None:
    """Nothing else differs of it, and the cluster does not know it as a member: it is in no list of what goes."""
    with CheckedPlatform() as platform:
        platform.commit(files("1", policy="", x={}, y={}))
        run(platform)
        key = ObjectKey("", "ConfigMap", "default", "y-last")
        platform.cluster.edit(key, lambda obj: obj["metadata"]["labels"].pop(well_known.PART_OF))
        link = definition("Link", [config_map("first")], spec=FIELDS)
        platform.commit({**files("2", x={}, y={}), "link.json": link})
        (change,) = (change for change in platform.plan().changes if change.key == key)
        assert (change.action, change.is_undone) == (PlannedAction.DELETE, False)
        assert parts((change,)) == [
            ("update 1 ConfigMap/default/y-last", (), []),
            ("delete 1 ConfigMap/default/y-last", (), ["PaceReached"]),
        ]
        assert done(run(platform))[key] is PlannedAction.UPDATE


@pytest.mark.parametrize("more", [{"governs": "All"}, {"minAvailable": "100%"}], ids=str)
def test_an_instance_that_somebody_deleted_comes_again_as_it_was_and_waits_for_its_turn(more: dict[str, Any]) -> None:
    """P1: it is no repair to move it, whatever the policy lets pass the pace."""
    with CheckedPlatform() as platform:
        platform.commit(files("1", policy="", x={}, y={}))
        run(platform)
        platform.cluster.take_away(next(key for key in platform.cluster.objects if key.name == "y"))
        platform.commit(files("2", policy=rule("PropagationPolicy", {**PACE, **more}), x={}, y={}))
        gates = {change.key: change.obstacles for change in platform.plan().changes if change.node}
        waiting = {key for key, found in gates.items() if found}
        assert {key.name for key in waiting if key} == {"y-optional", "y-last"}
        found = done(run(platform))
        assert gates.keys() & found.keys() == gates.keys() - waiting
        assert found[ObjectKey(GROUP, "Link", "default", "y")] is PlannedAction.REPLACE


def test_an_instance_that_somebody_deleted_on_its_way_goes_on() -> None:
    """It was let move, and nothing was applied to its end that it could come again as. Nobody approves that another one moves."""
    policy = rule("PropagationPolicy", {**PACE, "approvals": [{"after": {"settled": 1}}]})
    instances = {"h.json": instance("Holder", "h"), "k.json": instance("Holder", "k", open=False)}
    with CheckedPlatform() as platform:
        platform.commit({"holder.json": holder(), **instances})
        run(platform)
        platform.cluster.take_away(next(key for key in platform.cluster.objects if key.name == "k"))
        instances["k.json"] = instance("Holder", "k", open=False, text="two")
        platform.commit({"holder.json": holder(), **instances, "policy.json": policy})
        at_once = {change.key for change in platform.plan().changes if change.action.is_change and not change.obstacles}
        assert {key.name for key in at_once if key} == {"k", "k-first"}
        assert done(run(platform)).keys() == at_once


@pytest.mark.parametrize("is_gone", [False, True], ids=["terminating", "gone"])
@pytest.mark.parametrize("said", [{"bake": "1h"}, {"bake": "0s", "readyWhen": "${a.data.revision == '1'}"}], ids=str)
def test_an_instance_that_somebody_deleted_counts_as_on_its_way(said: dict[str, str], is_gone: bool) -> None:
    """P1: how long it has been healthy is gone with it, and one that is not healthy does not become so."""

    def commit(revision: str) -> None:
        node = {**config_map("a"), "readyWhen": [said.get("readyWhen", "${true}")]}
        node["template"]["data"]["revision"] = revision
        instances = {f"{name}.json": instance("Link", name) for name in "xy"}
        policy = {"policy.json": rule("PropagationPolicy", {**PACE, "bake": said["bake"]})} if revision == "2" else {}
        platform.commit({"link.json": definition("Link", [node]), **policy, **instances})

    with CheckedPlatform() as platform:
        commit("1")
        run(platform)
        commit("2")
        moved = {key.name for key in done(run(platform))}
        key = next(key for key in platform.cluster.objects if key.name == "x")
        platform.cluster.take_away(key)
        if is_gone:
            platform.cluster.edit(key, lambda obj: obj["metadata"].pop("finalizers"))
        assert {key.name for key in done(run(platform))} == {"x"}
        assert moved == {"x-a"}


def test_a_window_holds_what_comes_first_as_well() -> None:
    once = [{"start": "2026-11-01T00:00", "end": "2026-12-01T00:00"}]
    closed = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": once}, "selector": {"nodes": ["last"]}}
    with CheckedPlatform() as platform:
        platform.commit(files("1", policy="", x={}, y={}))
        run(platform)
        window = {"window.json": rule("PropagationWindow", closed)}
        platform.commit({**files("2", x={}, y={"text": "two"}), **window})
        (change,) = (change for change in platform.plan().changes if change.key and change.key.name == "y-last")
        assert [[gate.reason for gate in one.obstacles] for one in change.parts] == [
            ["WindowClosed"],
            ["PaceReached", "WindowClosed"],
        ]
        assert change.key not in done(run(platform))


Told = list[tuple[str, tuple[str, ...], list[str]]]


def paced(before: list[dict[str, Any]], after: list[dict[str, Any]], **changed: Any) -> tuple[Told, dict[str, str]]:
    """Instances `x` and `y` of one definition, which changes and gets a node more, and `y` changes with it; `x` comes first. What the plan tells
    of the other nodes of `y`, and what the run did to them. Whatever is to be there in the end changes, or is counted as unchanged.
    """
    with CheckedPlatform() as platform:
        instances = {f"{name}.json": instance("Link", name) for name in "xy"}
        platform.commit({"link.json": definition("Link", before, spec=FIELDS), **instances})
        run(platform)
        y = {"y.json": instance("Link", "y", **changed)}
        link = definition("Link", [*after, config_map("new")], spec=FIELDS)
        platform.commit({"link.json": link, "policy.json": POLICY, **instances, **y})
        report = platform.plan()
        wanted = [one for one in report.changes if one.action is not PlannedAction.DELETE]
        assert report.unchanged + len(wanted) == len(["the CRD", *instances]) + len(instances) * len([*after, "new"])
        of_y = (one for one in report.changes if one.instance and one.instance.name == "y")
        told = parts(tuple(one for one in of_y if one.node in {"a", "b"}))
        done_to = {key.name: str(action) for key, action in done(run(platform)).items() if key.name.startswith("y-")}
        return told, done_to


def test_what_only_the_old_revision_has_is_changed_first_and_goes_in_its_turn() -> None:
    told, done_to = paced([config_map("a"), config_map("b")], [config_map("a")], text="two")
    assert told == [
        ("update 0 ConfigMap/default/y-a", ("data.text: one -> two",), []),
        ("update 0 ConfigMap/default/y-b", ("data.text: one -> two",), []),
        ("delete 0 ConfigMap/default/y-b", (), ["PaceReached"]),
    ]
    assert done_to == {"y-a": "update", "y-b": "update"}


def test_what_only_the_old_revision_makes_is_made_and_goes_in_its_turn() -> None:
    optional = {**config_map("b"), "includeWhen": ["${schema.spec.text == 'two'}"]}
    told, done_to = paced([config_map("a"), optional], [config_map("a")], text="two")
    assert told == [
        ("update 0 ConfigMap/default/y-a", ("data.text: one -> two",), []),
        ("create 0 ConfigMap/default/y-b", ("data: None -> {'text': 'two'}",), []),
        ("delete 0 ConfigMap/default/y-b", (), ["PaceReached"]),
    ]
    assert done_to == {"y-a": "update", "y-b": "create"}


@pytest.mark.parametrize("text", ["${schema.spec.text}", "new"], ids=["as it was", "changed"])
def test_what_only_the_old_revision_takes_away_comes_again_in_its_turn(text: str) -> None:
    optional = {**config_map("b"), "includeWhen": ["${schema.spec.on}"]}
    always = config_map("b")
    always["template"]["data"]["text"] = text
    told, done_to = paced([config_map("a"), optional], [config_map("a"), always], on=False)
    made = {"text": "one" if text.startswith("$") else text}
    assert told == [
        ("delete 0 ConfigMap/default/y-b", (), []),
        ("create 0 ConfigMap/default/y-b", (f"data: None -> {made}",), ["PaceReached"]),
    ]
    assert done_to == {"y-b": "delete"}


def test_what_the_new_revision_undoes_is_told_as_well() -> None:
    always = config_map("b")
    always["template"]["data"]["text"] = "one"
    told, done_to = paced([config_map("a"), config_map("b")], [config_map("a"), always], text="two")
    assert told == [
        ("update 0 ConfigMap/default/y-a", ("data.text: one -> two",), []),
        ("update 0 ConfigMap/default/y-b", ("data.text: one -> two",), []),
        ("update 0 ConfigMap/default/y-b", ("data.text: two -> one",), ["PaceReached"]),
    ]
    assert done_to == {"y-a": "update", "y-b": "update"}


def test_what_the_server_refuses_of_the_new_revision_hinders_no_change_at_the_old_one() -> None:
    """Of an object whose data never change the labels may."""

    def fixed(revision: str) -> dict[str, Any]:
        node = config_map("b")
        node["template"] |= {"immutable": True, "data": {"revision": revision}}
        node["template"]["metadata"]["labels"] = {"text": "${schema.spec.text}"}
        return node

    told, done_to = paced([fixed("1")], [fixed("2")], text="two")
    assert told == [
        ("update 0 ConfigMap/default/y-b", ("metadata.labels.text: one -> two",), []),
        ("failed 0 ConfigMap/default/y-b", (), []),
    ]
    assert done_to == {"y-b": "update"}


def test_what_is_nested_waits_for_the_turn_of_what_it_is_nested_in() -> None:
    """The definition of the inner instance does not change, what the outer one makes of it does."""

    def outer(text: str) -> dict[str, Any]:
        metadata = {"name": "${schema.metadata.name}-in"}
        inner = {"apiVersion": f"{GROUP}/v1", "kind": "Inner", "metadata": metadata, "spec": {"text": text}}
        return {"id": "inner", "template": inner}

    files = {"inner.json": definition("Inner", [config_map("a")], spec=FIELDS)}
    with CheckedPlatform() as platform:
        instances = {f"{name}.json": instance("Outer", name) for name in "xy"}
        before = definition("Outer", [outer("${schema.spec.text}")], spec=FIELDS)
        platform.commit({**files, **instances, "outer.json": before})
        run(platform)
        y = {"y.json": instance("Outer", "y", text="two")}
        after = definition("Outer", [outer("three")], spec=FIELDS)
        platform.commit({**files, **instances, **y, "outer.json": after, "policy.json": POLICY})
        changes = platform.plan().changes
        assert parts(tuple(one for one in changes if one.key and one.key.name.startswith("y-in"))) == [
            ("update 0 Inner.g.test/default/y-in", ("spec.text: one -> two",), []),
            ("update 0 Inner.g.test/default/y-in", ("spec.text: two -> three",), ["PaceReached"]),
            ("update 0 ConfigMap/default/y-in-a", ("data.text: one -> two",), []),
            ("update 0 ConfigMap/default/y-in-a", ("data.text: two -> three",), ["PaceReached"]),
        ]
        assert {key.name for key in done(run(platform)) if key.name.startswith("y-")} == {"y-in", "y-in-a"}


@pytest.mark.parametrize("is_gone", [False, True], ids=["edited", "deleted"])
def test_what_waits_is_healed_meanwhile(is_gone: bool) -> None:
    once = [{"start": "2026-11-01T00:00", "end": "2026-12-01T00:00"}]
    closed = {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": once}, "selector": {"nodes": ["a"]}}
    with CheckedPlatform() as platform:
        files = {"link.json": definition("Link", [config_map("a")], spec=FIELDS), "y.json": instance("Link", "y")}
        platform.commit(files)
        run(platform)
        key = next(key for key in platform.cluster.objects if key.name == "y-a")
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y-a", "namespace": "default"}}
        if is_gone:
            platform.cluster.take_away(key)
        else:
            platform.cluster.put({**manifest, "data": {"text": "by hand"}}, manager="kubectl-edit")
        changed = {"y.json": instance("Link", "y", text="two"), "window.json": rule("PropagationWindow", closed)}
        platform.commit({**files, **changed})
        report = platform.plan()
        assert parts(tuple(one for one in report.changes if one.key == key)) == [
            ("create 0 ConfigMap/default/y-a", ("data: None -> {'text': 'one'}",), [])
            if is_gone
            else ("update 0 ConfigMap/default/y-a", ("data.text: by hand -> one",), []),
            ("update 0 ConfigMap/default/y-a", ("data.text: one -> two",), ["WindowClosed"]),
        ]
        assert ("healed at r1:", ("default/y",)) in [(one.summary, one.refs) for one in report.steps]
        assert done(run(platform))[key] is (PlannedAction.CREATE if is_gone else PlannedAction.UPDATE)
        assert platform.cluster.objects[key]["data"]["text"] == "one"


def test_what_somebody_deleted_of_an_instance_that_may_not_go_yet_is_made_again_and_goes_with_it() -> None:
    with CheckedPlatform() as platform:
        files = {"link.json": definition("Link", list(map(config_map, "ab")), spec=FIELDS)}
        platform.commit({**files, "x.json": instance("Link", "x"), "y.json": instance("Link", "y")})
        run(platform)
        key = next(key for key in platform.cluster.objects if key.name == "y-a")
        platform.cluster.take_away(key)
        platform.commit(files, approved=False)
        platform.sources["platform"] = replace(platform.sources["platform"], brake=DeletionBrake(0, 0))
        report = platform.plan()
        assert parts(tuple(one for one in report.changes if one.key == key)) == [
            ("create 0 ConfigMap/default/y-a", ("data: None -> {'text': 'one'}",), []),
            ("delete 0 ConfigMap/default/y-a", (), ["BrakeEngaged"]),
        ]
        assert report.summary["delete"] == 6
        assert done(run(platform)) == {key: PlannedAction.CREATE}


def test_an_instance_that_somebody_deleted_gives_up_what_its_definition_has_no_more() -> None:
    with CheckedPlatform() as platform:
        both, one = (definition("Link", list(map(config_map, nodes)), spec=FIELDS) for nodes in ("ab", "a"))
        platform.commit({"link.json": both, "y.json": instance("Link", "y")})
        run(platform)
        platform.cluster.take_away(next(key for key in platform.cluster.objects if key.name == "y"))
        platform.commit({"link.json": one, "y.json": instance("Link", "y")})
        gone = [change.key for change in platform.plan().changes if change.action is PlannedAction.DELETE]
        assert [key.name for key in gone if key] == ["y-b"]
        assert [
            key for key, action in done(run(platform)).items() if action is PlannedAction.DELETE and key.name != "y"
        ] == gone


def test_what_is_only_recorded_anew_is_no_change() -> None:
    """The server keeps no empty annotations, but the manifest is another one."""
    with CheckedPlatform() as platform:
        found = json.loads(plain("p"))
        platform.commit({"p.json": json.dumps(found)})
        run(platform)
        found["metadata"]["annotations"] = {}
        platform.commit({"p.json": json.dumps(found)})
        report = platform.plan()
        assert (report.changes, report.unchanged) == ((), 1)
        assert done(run(platform)) == {}
