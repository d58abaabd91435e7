"""Instances that wait for one another for ever say so (S1-23, docs/rollouts.md); nothing that may still move does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.link_platform import LinkPlatform

OTHERS_FIRST = "${links.filter(x, x.metadata.name != each.metadata.name).all(x, x.settled())}"


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b", "c")) as found:
        yield found


def deadlocks(fleet: LinkPlatform) -> dict[str, str]:
    told = {name: fleet.propagated(name) for name in fleet.names}
    return {name: message for name, (reason, message) in told.items() if reason == "Deadlocked"}


def test_everybody_lets_the_others_go_first(fleet: LinkPlatform) -> None:
    """A gate across instances that no static check refuses: each waits for all others. The row names them; the next commit ends it."""
    fleet.start()
    fleet.gates = [OTHERS_FIRST]
    fleet.push("two")
    fleet.step()
    found = deadlocks(fleet)
    assert found.keys() == {"a", "b", "c"}
    assert found["a"].startswith("waits in a cycle: default/a -> default/")
    row, own = fleet.status("a")["levelgate"]["blocked"]
    assert (row["reason"], own["reason"]) == ("Deadlocked", "GateClosed")
    assert {one["name"] for one in row["blockedBy"]} >= {"default/b", "default/c"}
    assert {one["type"]: one["status"] for one in fleet.status("a")["conditions"]}["Ready"] == "True"
    assert fleet.step(timedelta(minutes=1)).changed == 0
    fleet.gates = None
    fleet.push("three")
    assert fleet.move("three") == [["a"], ["b"], ["c"]]


def test_one_that_may_move_is_a_way_out_for_all(fleet: LinkPlatform) -> None:
    """`a` lets nobody go first: then b and c wait for it, and that is no deadlock however long it takes."""
    fleet.start()
    fleet.gates = [f"${{each.metadata.name == 'a' || ({OTHERS_FIRST[2:-1]})}}"]
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == ["a"]
    fleet.step(timedelta(minutes=1))
    assert deadlocks(fleet) == {}


@pytest.mark.parametrize(
    "way_out",
    [
        "${now < timestamp('2027-01-01T00:00:00Z') && LOCK}",
        "${external('go') || (LOCK)}",
        "${inWindow('nights') || (LOCK)}",
    ],
)
def test_a_time_a_window_or_a_fact_may_still_end_it(fleet: LinkPlatform, way_out: str) -> None:
    nights = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 22 * * *"}, "duration": "1h", "byName": True}
    fleet.start(nights=nights)
    fleet.gates = [way_out.replace("LOCK", OTHERS_FIRST[2:-1])]
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == []
    assert deadlocks(fleet) == {}


def test_a_person_may_still_end_it(fleet: LinkPlatform) -> None:
    """All wait for c, which is held."""
    fleet.start()
    fleet.gates = ["${each.metadata.name == 'c' || links.all(x, x.metadata.name != 'c' || x.settled())}"]
    fleet.annotate("c", hold="a game is running")
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == []
    assert deadlocks(fleet) == {}


def test_instances_that_wait_for_objects_of_one_another(fleet: LinkPlatform) -> None:
    """Through references to objects that the other has not made yet: no gate at all; c, whose peer is there, goes on."""
    fleet.schema["peer"] = "string"
    fleet.written = {"a": {"peer": "b"}, "b": {"peer": "a"}, "c": {"peer": "c"}}
    fleet.more = [
        {
            "id": "peer",
            "externalRef": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "${schema.spec.peer == schema.metadata.name ? schema.spec.peer + '-app' : 'last-' + schema.spec.peer}"
                },
            },
        },
        {
            "id": "last",
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "last-${schema.metadata.name}"},
                "data": {"of": "${peer.metadata.name}"},
            },
        },
    ]
    fleet.push()
    for _ in range(5):
        fleet.step()
        fleet.ready(*fleet.at("one"))
    found = deadlocks(fleet)
    assert (
        found["a"]
        == "waits in a cycle: default/a -> default/b -> default/a; only a change in Git can end that (and 2 more)"
    )
    assert found.keys() == {"a", "b"}


def test_many_that_wait_for_one_that_is_on_its_way_are_not_deadlocked(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.push("two")
    fleet.move("two", except_for=["a"])
    rows: list[dict[str, Any]] = fleet.status("c")["levelgate"]["blocked"]
    assert [row["reason"] for row in rows] == ["PaceReached"]
