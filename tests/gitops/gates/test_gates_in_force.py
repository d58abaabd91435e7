"""`propagateWhen` in whole passes: gates across instances, of nodes and of collections (docs/rollouts.md)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.link_platform import GROUP, LinkPlatform, workers
from tests.support.platform import MERGE

NIGHTS: dict[str, Any] = {
    "kind": "Allow",
    "timeZone": "UTC",
    "schedule": {"cron": "0 22 * * *"},
    "until": "23:00",
    "byName": True,
}
NIGHT = datetime(2026, 11, 20, 22, tzinfo=UTC)


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b", "c")) as found:
        yield found


def images(fleet: LinkPlatform, prefix: str) -> dict[str, str]:
    """The image that ConfigMaps of this name carry."""
    items = fleet.request("GET", "/api/v1/namespaces/default/configmaps")["items"]
    found = {one["metadata"]["name"]: one["data"]["image"] for one in items}
    return {name.removeprefix(prefix): image for name, image in found.items() if name.startswith(prefix)}


def test_a_condition_across_instances_is_added_to_the_pace(fleet: LinkPlatform) -> None:
    """surface 6, S1-2, S1-4: an instance for which it is false is passed; the pace of the policy stays in force for the others."""
    fleet.start()
    fleet.gates = ["${each.spec.text != 'keep'}"]
    fleet.written["a"] = {"text": "keep"}
    fleet.push("two")
    assert fleet.move("two") == [["b"], ["c"]]
    reason, message = fleet.propagated("a")
    assert (reason, "each.spec.text" in message, "link.json" in message) == ("GateClosed", True, True)


def test_an_empty_list_is_neither_gate_nor_pace(fleet: LinkPlatform) -> None:
    """S1-6."""
    fleet.start()
    fleet.gates = []
    fleet.push("two")
    assert fleet.move("two") == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("gate", "moves"),
    [
        ("linearlyReady(each, links, 2)", [["a", "b"], ["c"]]),
        ("exponentiallyReady(each, links)", [["a"], ["b"], ["c"]]),
        ("inFlight(links) < 2", [["a", "b"], ["c"]]),
        ("inFlight(links) < 1 && settled(links) < 2", [["a"], ["b"]]),
    ],
)
def test_a_pace_function_takes_the_place_of_the_policys_shape(
    fleet: LinkPlatform, gate: str, moves: list[list[str]]
) -> None:
    """S1-9, S1-43: they count over the wave, earlier grants included."""
    fleet.start()
    fleet.gates = [f"${{{gate}}}"]
    fleet.push("two", webapps={"shape": {"linear": {"n": 1}}})
    assert fleet.move("two") == moves


def test_a_condition_on_failed_instances_holds_the_others_until_none_has_failed(fleet: LinkPlatform) -> None:
    """S1-43: the policy would go on past one failure, and its shape stays in force."""
    fleet.start(links={"shape": {"linear": {"n": 1}}, "progressDeadline": "10m", "maxFailures": 1})
    fleet.gates = ["${failed(links) == 0}"]
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == ["a"]
    fleet.step(timedelta(minutes=11))
    fleet.step()
    assert fleet.at("two") == ["a"]
    reason, message = fleet.propagated("b")
    assert (reason, message) == ("GateClosed", "${failed(links) == 0} (link.json:1): failed(links) = 1")
    fleet.ready("a")
    assert fleet.move("two") == [["b"], ["c"]]


def test_a_gate_in_a_window_opens_with_it(fleet: LinkPlatform) -> None:
    """The report names the window, and the pass says when to come back."""
    fleet.gates = ["${inWindow('nights')}"]
    fleet.push(nights=NIGHTS)
    found = fleet.step()
    assert fleet.at("one") == []
    found = fleet.step()
    assert found.propagation.wake_at == NIGHT
    assert fleet.propagated("a")[0] == "WindowClosed"
    fleet.clock.moment = NIGHT
    fleet.step()
    assert fleet.at("one") == ["a", "b", "c"]


def test_a_break_glass_passes_gates_that_await_a_window_and_no_others(fleet: LinkPlatform) -> None:
    """Surface 4.4, W26: across instances and of a node, for the one who asks and as long as he does; the record says past what."""
    fleet.start(nights=NIGHTS)
    fleet.gates, fleet.node_gates = ["${inWindow('nights')}"], ["${inWindow('nights') && schema.metadata.name != 'c'}"]
    fleet.push("two")
    assert fleet.move("two") == []
    until = fleet.clock.moment + timedelta(hours=1)
    for name in ("a", "c"):
        fleet.annotate(name, break_glass_reason="INC-7", break_glass_until=until.isoformat())
    assert fleet.move("two") == [["a"]]
    assert fleet.propagated("c")[0] == "GateClosed"
    recorded = {one.subject: (one.by, one.why) for one in fleet.rollout().decisions if one.what == "overridden"}
    assert recorded == {
        f"{what} bypassing window nights": ("kubectl-annotate", "INC-7")
        for what in (
            f"move Link.{GROUP}/default/a",
            "update Deployment.apps/default/a-app",
            f"move Link.{GROUP}/default/c",
        )
    }
    fleet.annotate("b", break_glass_reason="INC-7", break_glass_until=until.isoformat())
    fleet.clock.moment = until
    assert fleet.move("two") == []


def test_a_break_glass_does_not_pass_a_gate_whose_window_forbids_it(fleet: LinkPlatform) -> None:
    fleet.start(nights={**NIGHTS, "breakGlass": "Forbidden"})
    fleet.node_gates = ["${inWindow('nights')}"]
    fleet.push("two")
    until = fleet.clock.moment + timedelta(hours=1)
    fleet.annotate("a", break_glass_reason="INC-7", break_glass_until=until.isoformat())
    assert fleet.move("two") == []
    told = fleet.propagated("a")[1]
    assert told.endswith("break-glass refused: a window that governs it forbids that (breakGlass: Forbidden)")


def test_a_break_glass_without_a_readable_end_is_told_once(fleet: LinkPlatform) -> None:
    """W26: the message suggests an end, and stays as it is."""
    fleet.start(nights={name: value for name, value in NIGHTS.items() if name != "byName"})
    fleet.push("two")
    fleet.annotate("a", break_glass_reason="INC-7", break_glass_until="soon")
    fleet.step(timedelta(minutes=1))
    told = fleet.propagated("a")
    assert "break-glass-until is not a time; write for example " in told[1]
    assert fleet.step(timedelta(minutes=1)).changed == 0
    assert fleet.propagated("a") == told


def test_a_gate_that_cannot_be_judged_is_closed(fleet: LinkPlatform) -> None:
    """S1-5: never open on an error; the others are judged by themselves."""
    fleet.schema["tier"] = "string"
    fleet.written = {name: {"tier": "x"} for name in ("b", "c")}
    fleet.start()
    fleet.gates = ["${each.spec.tier == 'x'}"]
    fleet.push("two")
    assert fleet.move("two") == [["b"], ["c"]]
    assert fleet.propagated("a")[0] == "GateError"


def test_a_closed_gate_of_a_node_holds_only_its_own_descendants(fleet: LinkPlatform) -> None:
    """S1-40, S0-26: what does not depend on it goes on; it is healed meanwhile to what was applied."""
    side = {
        "id": "side",
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "side-${schema.metadata.name}"},
            "data": {"image": "IMAGE"},
        },
    }
    fleet.more = [side]
    fleet.start(nights=NIGHTS)
    fleet.node_gates = ["${inWindow('nights')}"]
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == []
    assert images(fleet, "side-") == {"a": "two", "b": "one", "c": "one"}
    fleet.request("DELETE", "/apis/apps/v1/namespaces/default/deployments/a-app")
    fleet.step()
    assert fleet.at("one") == ["a", "b", "c"]
    row = fleet.status("a")["levelgate"]["blocked"][0]
    assert row == {
        "node": "app",
        "object": "Deployment.apps/default/a-app",
        "reason": "WindowClosed",
        "message": "waits for window nights, opens 2026-11-20T22:00Z (Fri 22:00 UTC)",
        "since": "2026-11-20T12:00:00Z",
        "until": "2026-11-20T22:00:00Z",
        "behind": ["after"],
        "blockedBy": [
            {
                "kind": "Window",
                "name": "nights",
                "reason": "WindowClosed",
                "since": "2026-11-19T23:00:00Z",
                "until": "2026-11-20T22:00:00Z",
            }
        ],
        "gates": [
            {"expression": "inWindow('nights')", "at": "link.json:1", "operands": ["inWindow('nights') = false"]}
        ],
    }
    fleet.clock.moment = NIGHT
    fleet.ready("a")
    assert fleet.move("two") == [["a"], ["b"], ["c"]]


WORKERS = [f"a-w{number}" for number in range(4)]


def moved(fleet: LinkPlatform, image: str) -> list[list[str]]:
    """Which workers got the image in which pass; all that have it become ready after each."""
    found = []
    for _ in range(8):
        before = fleet.deployed(image)
        fleet.step()
        if new := [name for name in WORKERS if name in fleet.deployed(image) and name not in before]:
            found.append(new)
        for name in fleet.deployed(image):
            fleet.available(name)
    return found


def test_a_rate_paces_the_items_of_a_collection_also_when_they_are_made() -> None:
    """S1-7, S1-9: in the order of the list; an item counts once it carries the target and is healthy."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.more = [workers("${linearlyReady(each, workers, 3)}")]
        fleet.push()
        assert moved(fleet, "one") == [WORKERS[:3], WORKERS[3:]]


def test_the_items_of_a_collection_change_exponentially_by_default() -> None:
    """S1-7: made at once; changed one, one, two; an item that is not healthy holds the others, and the report names it."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.more = [workers()]
        fleet.push()
        assert moved(fleet, "one") == [WORKERS]
        fleet.push("two")
        fleet.step()
        fleet.step()
        rows = {row["node"]: row["message"] for row in fleet.status("a")["levelgate"]["blocked"] if "node" in row}
        assert rows["workers/1"] == "2nd of 4; 1 may be in flight or settled, 1 is; not settled: workers/0"
        for name in fleet.deployed("two"):
            fleet.available(name)
        assert moved(fleet, "two") == [WORKERS[1:2], WORKERS[2:]]


def test_a_window_that_names_a_collection_governs_its_items() -> None:
    """Surface 6: `nodes` are ids of resources, so `workers` are all of them; what has no such id goes on."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.more = [workers()]
        for rules in ({}, {"cut": {**NIGHTS, "byName": False, "selector": {"nodes": ["workers"]}}}):
            fleet.push(**rules)
            for _ in range(3):
                fleet.step()
                for name in fleet.deployed("one"):
                    fleet.available(name)
        assert fleet.deployed("one") == {"a-app", *WORKERS}
        fleet.push("two")
        fleet.move("two")
        assert fleet.deployed("two") == {"a-app"}
        fleet.clock.moment = NIGHT
        fleet.step()
        assert fleet.deployed("two") > {"a-app"}


def test_the_removal_of_a_node_waits_for_the_gate_that_it_was_applied_with(fleet: LinkPlatform) -> None:
    """S1-21: taking a node out is a change of it; deleting the whole instance is somebody's word."""
    kept = {
        "id": "kept",
        "includeWhen": ["${schema.spec.text == 'one'}"],
        "propagateWhen": ["${inWindow('nights')}"],
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kept-${schema.metadata.name}"},
            "data": {"image": "x"},
        },
    }
    fleet.more = [kept]
    fleet.push(nights=NIGHTS)
    fleet.clock.moment = NIGHT
    for _ in range(5):
        fleet.step()
        fleet.ready(*fleet.at("one"))
    assert images(fleet, "kept-") == {"a": "x", "b": "x", "c": "x"}
    fleet.clock.moment = NIGHT.replace(day=21, hour=12)
    fleet.written = {name: {"text": "new"} for name in ("a", "b")}
    fleet.names = ("a", "b")
    fleet.push()
    for _ in range(5):
        fleet.step()
        fleet.ready(*fleet.at("one"))
    assert images(fleet, "kept-") == {"a": "x", "b": "x"}
    fleet.clock.moment = NIGHT.replace(day=21)
    for _ in range(3):
        fleet.step()
    assert images(fleet, "kept-") == {}


def entry(name: str, place: str, gate: str, **fields: Any) -> dict[str, Any]:
    """A node for `more`: a ConfigMap at this place, with a gate."""
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": place}, "data": {"image": "IMAGE"}}
    return {"id": name, "propagateWhen": [gate], "template": template, **fields}


def pass_often(fleet: LinkPlatform) -> None:
    """Let the instances come to rest."""
    for _ in range(6):
        fleet.step()
        fleet.ready(*fleet.at("one"))


def test_the_removal_of_a_node_is_judged_though_the_dependency_that_its_gate_reads_goes_too() -> None:
    """S1-21: the dependency waits for what uses it, so the gate has to see the dependency until both are gone."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.more = [
            entry("first", "x-first", "${true}"),
            entry("second", "${'x-second-' + first.metadata.name}", "${first.ready() && first.updated()}"),
        ]
        fleet.push()
        pass_often(fleet)
        assert images(fleet, "x-").keys() == {"first", "second-x-first"}
        fleet.more = []
        fleet.push()
        pass_often(fleet)
        assert images(fleet, "x-") == {}


@pytest.mark.parametrize(("allowed", "left"), [("u", {"v"}), ("v", {"u", "v"})])
def test_the_removal_of_an_item_is_judged_with_its_own_iterators(allowed: str, left: set[str]) -> None:
    """S1-21: the item that follows it in the list has its id now."""
    with LinkPlatform(names=("a",)) as fleet:
        fleet.schema |= {"zones": "[]string", "allowed": "[]string"}
        fleet.written = {"a": {"zones": ["u", "v"], "allowed": ["u", "v"]}}
        zones = [{"zone": "${schema.spec.zones}"}]
        fleet.more = [entry("shards", "x-${zone}", "${zone in schema.spec.allowed}", forEach=zones)]
        fleet.push()
        pass_often(fleet)
        assert images(fleet, "x-").keys() == {"u", "v"}
        fleet.written = {"a": {"zones": ["v"], "allowed": [allowed]}}
        fleet.push()
        pass_often(fleet)
        assert images(fleet, "x-").keys() == left


def test_the_removal_of_a_node_is_judged_with_fields_that_the_schema_no_longer_has() -> None:
    with LinkPlatform(names=("a",)) as fleet:
        fleet.schema["tier"] = "string"
        fleet.written = {"a": {"tier": "x"}}
        fleet.more = [entry("kept", "x-kept", "${schema.spec.tier == 'x'}")]
        fleet.push()
        pass_often(fleet)
        assert images(fleet, "x-").keys() == {"kept"}
        fleet.more, fleet.written, fleet.about = [], {}, {"kro.run/allow-breaking-changes": "true"}
        del fleet.schema["tier"]
        fleet.push()
        pass_often(fleet)
        assert images(fleet, "x-") == {}
        assert fleet.waits() == {"a": "Settled"}


@pytest.mark.parametrize(("barrier", "image"), [("Path", "two"), ("Level", "one"), ("All", "one")])
def test_barriers(barrier: str, image: str) -> None:
    """S0-9, S0-26: with Level and All a node also waits for what it does not depend on, in the levels before it."""
    with LinkPlatform(names=("a",)) as fleet:
        first = {
            "id": "first",
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "first"},
                "data": {"image": "IMAGE"},
            },
        }
        second = {
            "id": "second",
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "second-${first.metadata.name}"},
                "data": {"image": "IMAGE"},
            },
        }
        fleet.more = [first, second]
        fleet.start(webapps={"barrier": barrier})
        fleet.push("two")
        fleet.step()  # the Deployment of level 0 is not ready yet
        assert images(fleet, "second-") == {"first": image}
        fleet.ready("a")
        fleet.step()
        assert images(fleet, "second-") == {"first": "two"}


def test_what_a_person_writes_on_a_live_instance_counts_for_its_gate(fleet: LinkPlatform) -> None:
    """A gate sees the live object: its labels and its status."""
    fleet.start()
    fleet.gates = ["${has(each.metadata.labels) && 'go' in each.metadata.labels}"]
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == []
    path = f"/apis/{GROUP}/v1/namespaces/default/links/b?fieldManager=somebody"
    fleet.request("PATCH", path, {"metadata": {"labels": {"go": "yes"}}}, MERGE)
    fleet.step()
    assert fleet.at("two") == ["b"]


@pytest.mark.parametrize(
    ("gates", "policy"),
    [
        (None, {"shape": {"linear": {"n": 1}}, "bake": "1h"}),
        (None, {"shape": {"exponential": {"factor": 2}}, "bake": "1h", "progressDeadline": "2h"}),
        (None, {"shape": {"linear": {"n": 1}}, "bake": "1h", "approvals": [{"after": {"settled": 1}}]}),
        (["${each.spec.text == 'go'}"], {"shape": {"linear": {"n": 1}}, "bake": "1h"}),
    ],
)
def test_who_waits_for_what_has_no_date_is_told_so_once(
    fleet: LinkPlatform, gates: list[str] | None, policy: dict[str, Any]
) -> None:
    """I7: a time that is reckoned from the present would be another at every look, and be written into the status of all that wait."""
    fleet.start(links=policy)
    fleet.gates = gates
    fleet.push("two")
    fleet.step()
    fleet.step(timedelta(minutes=1))
    before = fleet.writes
    for _ in range(5):
        fleet.step(timedelta(minutes=1))
    assert fleet.writes == before
