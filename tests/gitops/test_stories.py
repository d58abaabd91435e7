"""Whole stories of rollouts, pass by pass from the commit to the end (docs/rollouts.md): failures and reverts, revisions that overtake, people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitops.rollouts.state import TargetRevision
from tests.support.link_platform import GROUP, TEN, LinkPlatform
from tests.support.rollouts.disturbances import BROKEN, in_the_way


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform() as found:
        yield found


def versions(fleet: LinkPlatform, *names: str) -> list[str]:
    """Of the Deployments of these instances, as the server counts writes."""
    paths = [f"/apis/apps/v1/namespaces/default/deployments/{name}-app" for name in names]
    return [fleet.request("GET", path)["metadata"]["resourceVersion"] for path in paths]


def test_one_of_ten_never_becomes_ready_and_the_revert_repairs_what_had_moved(fleet: LinkPlatform) -> None:
    """S1-16, S1-33, B1, B10, S1-32: exponential; it holds the second half, halts the rollout when its time is over, and six are never touched."""
    fleet.start()
    untouched = versions(fleet, *TEN[4:])
    fleet.push("bad")
    assert fleet.move("bad", except_for=["i3"]) == [["i0"], ["i1"], ["i2", "i3"]]
    overdue = fleet.step().propagation.wake_at
    assert overdue is not None
    fleet.step(overdue - fleet.clock.now() - timedelta(seconds=1))
    assert fleet.waits()["i9"] == "PaceReached"
    fleet.step(timedelta(seconds=1))
    assert fleet.waits() == {
        **dict.fromkeys(TEN[:3], "Settled"),
        "i3": "Unhealthy",
        **dict.fromkeys(TEN[4:], "Halted"),
    }
    fleet.push("one")
    assert fleet.move("one") == [["i0", "i1"], ["i2", "i3"]]
    assert versions(fleet, *TEN[4:]) == untouched
    assert set(fleet.waits().values()) == {"Settled"}


@pytest.mark.parametrize(("gates", "word"), [(None, "Conflict"), ([], "ApplyFailed")], ids=["the default", "no pace"])
def test_what_cannot_be_made_stops_nobody_where_nothing_has_completed(gates: list[str] | None, word: str) -> None:
    """S1-7, I9: creation is ungated by default, and one bad thing blocks only itself: an expression that fails, an object that others own."""
    with LinkPlatform(more=BROKEN, written={"i2": {"text": "broken"}}, gates=gates) as fleet:
        in_the_way(fleet, "i5")
        fleet.push()
        fleet.move("one")
        bad = {"i2": "RenderFailed", "i5": word}
        assert fleet.waits() == {**dict.fromkeys(TEN, "Settled"), **bad}
        assert not fleet.rollout().halts


def test_what_could_never_be_made_is_passed_by_the_next_revision_which_halts_as_ever(fleet: LinkPlatform) -> None:
    """S1-7: no policy protects those that run from a bad revision the less because one never ran."""
    fleet.written = {"i0": {"text": "broken"}}
    fleet.more = BROKEN
    fleet.push()
    fleet.move("one")
    fleet.push("two")
    assert fleet.move("two") == [["i0", "i1"], ["i2"], ["i3", "i4"], ["i5", "i6", "i7", "i8"], ["i9"]]
    fleet.push("bad")
    fleet.move("bad", except_for=TEN)
    fleet.step(timedelta(minutes=11))
    assert fleet.rollout().halts
    assert fleet.at("two") == [*TEN[2:]]


def test_a_bad_image_halts_after_the_allowed_failures_and_the_revert_goes_at_the_pace_of_rollbacks(
    fleet: LinkPlatform,
) -> None:
    """B11, S1-32: three of ten may fail, the fourth halts. Repairs go three at a time, bake nothing and ask nobody."""
    policy = {
        "shape": {"linear": {"n": 2}},
        "bake": "5m",
        "maxFailures": 3,
        "approvals": [{"after": {"settled": 8}}],
        "rollback": {"shape": {"linear": {"n": 3}}},
    }
    fleet.start(webapps=policy)
    fleet.push("bad")
    for _ in range(4):
        fleet.step()
        fleet.step(timedelta(minutes=11))
    assert fleet.at("bad") == list(TEN[:4])
    assert fleet.rollout().halts[0].why == "4 of 10 items failed in wave all, more than the limit of 3"
    fleet.push("one")
    assert fleet.move("one", rounds=4) == [["i0", "i1", "i2"], ["i3"]]
    assert set(fleet.waits().values()) == {"Settled"}


def test_where_the_policy_says_so_a_halt_rolls_back_by_itself(fleet: LinkPlatform) -> None:
    """S1-33: back to what completed last, in order and without a commit; Git is not undone: the next commit goes forward again."""
    fleet.start(webapps={"shape": {"linear": {"n": 2}}, "onHalt": "RollBack"})
    fleet.push("bad")
    assert fleet.move("bad", except_for=["i2"]) == [["i0", "i1"], ["i2", "i3"]]
    fleet.step(timedelta(minutes=11))
    assert fleet.rollout().halts[0].target == 2
    assert fleet.at("bad") == ["i2", "i3"]
    fleet.ready("i0", "i1")
    assert fleet.move("one") == [["i2", "i3"]]
    assert fleet.at("one") == list(TEN)
    assert fleet.step(timedelta(minutes=1)).changed == 0
    fleet.push("good")
    assert fleet.move("good")[0] == ["i0", "i1"]
    assert fleet.at("good") == list(TEN)
    assert set(fleet.waits().values()) == {"Settled"}


def test_a_rollout_that_finishes_first_skips_what_came_in_between(fleet: LinkPlatform) -> None:
    """S1-30: commits keep coming; everybody gets to r2 all the same, and from there to the newest."""
    fleet.start(webapps={"shape": {"linear": {"n": 5}}, "onNewRevision": "Finish"})
    fleet.push("two")
    fleet.step()
    fleet.push("three")
    fleet.step()
    fleet.push("four")
    assert fleet.move("two", rounds=2) == [list(TEN[5:])]
    assert fleet.deployed("three") == set()
    assert fleet.move("four") == [list(TEN[:5]), list(TEN[5:])]
    assert fleet.rollout().completed == TargetRevision(4)


def test_a_pipeline_lets_the_first_wave_go_on_while_the_last_catches_up(fleet: LinkPlatform) -> None:
    """S1-29: the canary takes r3 while prod moves to r2; no more than two revisions are on their way."""
    fleet.written = {name: {"metadata": {"labels": {"tier": "canary"}}} for name in TEN[:2]}
    waves = [{"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}, "shape": {"linear": {"n": 2}}}]
    fleet.start(webapps={"shape": {"linear": {"n": 4}}, "waves": waves, "onNewRevision": "Pipeline"})
    fleet.push("two")
    assert fleet.move("two", rounds=2) == [list(TEN[:2]), list(TEN[2:6])]
    fleet.push("three")
    fleet.step()
    assert (fleet.at("three"), fleet.at("two")) == (list(TEN[:2]), list(TEN[2:]))
    fleet.ready(*TEN[:2])
    fleet.push("four")
    fleet.step()
    assert fleet.at("four") == []
    fleet.ready(*TEN)
    moved = []
    for _ in range(10):
        fleet.step()
        moved.append((len(fleet.at("two")), len(fleet.at("three")), len(fleet.at("four"))))
        fleet.ready(*TEN)
    assert moved[:3] == [(4, 4, 2), (0, 8, 2), (0, 4, 6)]
    assert fleet.at("four") == list(TEN)
    assert fleet.rollout().completed == TargetRevision(4)


def test_after_a_number_has_settled_a_person_has_to_agree(fleet: LinkPlatform) -> None:
    """An approval by count cuts a round short; health and pace go on as before it."""
    fleet.start(webapps={"shape": {"linear": {"n": 2}}, "approvals": [{"after": {"settled": 3}, "by": ["leads"]}]})
    fleet.push("two")
    assert fleet.move("two") == [["i0", "i1"], ["i2"]]
    assert fleet.propagated("i3") == ("ApprovalRequired", "r2 needs approval after 3 by leads")
    fleet.order(approve="3", requested_by="ada")
    assert fleet.move("two") == [["i3"], ["i4", "i5"], ["i6", "i7"], ["i8", "i9"]]


def test_what_a_definition_leaves_out_does_not_count(fleet: LinkPlatform) -> None:
    """S1-22: a node that includeWhen leaves out holds up nobody, and items that go make the collection smaller."""
    fleet.more = [
        {
            "id": "never",
            "includeWhen": ["${schema.spec.text == 'never'}"],
            "readyWhen": ["${never.data.image == 'ready'}"],
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "never-${schema.metadata.name}"},
                "data": {"image": "IMAGE"},
            },
        }
    ]
    fleet.start()
    fleet.push("two")
    assert fleet.move("two")[-1] == ["i8", "i9"]
    assert set(fleet.waits().values()) == {"Settled"}


HOURS: dict[str, Any] = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * *"}, "until": "13:00"}
CLOSES = datetime(2026, 11, 20, 13, tzinfo=UTC)
TOMORROW = datetime(2026, 11, 21, 9, tzinfo=UTC)


def test_a_window_that_closes_in_the_middle_of_a_rollout_goes_on_at_the_number_that_has_settled(
    fleet: LinkPlatform,
) -> None:
    """W28: 0 to 3 moved and 3 is not ready when it closes: 3 is followed to readiness, and at the next opening 4 to 7 start at once."""
    fleet.start(hours=HOURS)
    fleet.push("two")
    assert fleet.move("two", except_for=["i3"]) == [["i0"], ["i1"], ["i2", "i3"]]
    fleet.clock.moment = CLOSES
    fleet.ready("i3")
    assert fleet.move("two") == []
    assert fleet.step().propagation.wake_at == TOMORROW
    fleet.clock.moment = TOMORROW
    fleet.step()
    assert fleet.at("two") == list(TEN[:8])


def second(of: str) -> dict[str, Any]:
    """A ConfigMap on the level after `of`."""
    name = f"second-${{{of}.metadata.name}}"
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"image": "IMAGE"}}
    return {"id": "second", "template": template}


def image(fleet: LinkPlatform, name: str) -> str:
    found: str = fleet.request("GET", f"/api/v1/namespaces/default/configmaps/{name}")["data"]["image"]
    return found


@pytest.mark.parametrize(
    ("drain", "at_once", "in_time", "late"),
    [
        ("Unit", set(), set(), set()),
        ("None", set(), set(), set()),
        ("Level", {"beside"}, {"beside"}, {"beside"}),
        ("Instance", {"beside"}, {"beside", "i0-app", "second-i0-app"}, {"beside"}),
        ("Rollout", {"beside"}, {"beside", "i0-app", "second-i0-app"}, {"beside"}),
    ],
)
def test_what_may_be_finished_after_a_window_has_closed(
    drain: str, at_once: set[str], in_time: set[str], late: set[str]
) -> None:
    """3.3, 8 and W29: of the level that was begun, of the whole instance, or nothing; and nothing once the overrun limit is reached.

    `beside` is on the level of the Deployment that was written, the others come after it, when it is ready: `in_time`, or `late`.
    """
    beside = {**second("x"), "id": "beside"}
    beside["template"] = {**beside["template"], "metadata": {"name": "beside"}}
    names = {"beside", "i0-app", "second-i0-app"}
    with LinkPlatform(names=("i0",), more=[beside, second("after")]) as fleet:
        fleet.start(
            hours={**HOURS, "drain": drain, "overrunLimit": "30m"},
            slow={"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [SLOW]}, "selector": {"nodes": ["beside"]}, "drain": "Rollout"},
        )  # fmt: skip
        fleet.push("two")
        fleet.step()
        assert (fleet.at("two"), image(fleet, "beside")) == (["i0"], "one")
        fleet.clock.moment = CLOSES
        fleet.step()
        assert {name for name in names if image(fleet, name) == "two"} == at_once
        with fleet.copied() as other:
            other.clock.moment = CLOSES + timedelta(minutes=29)
            other.ready("i0")
            other.step()
            assert {name for name in names if image(other, name) == "two"} == in_time
        fleet.clock.moment = CLOSES + timedelta(minutes=30)
        fleet.ready("i0")
        fleet.step()
        assert {name for name in names if image(fleet, name) == "two"} == late
        fleet.clock.moment = TOMORROW
        fleet.step()
        assert {image(fleet, name) for name in names} == {"two"}


@pytest.mark.parametrize("drain", ["Level", "Instance", "Rollout"])
@pytest.mark.parametrize("change", ["spec", "definition", "plain"])
def test_what_is_committed_after_a_window_has_closed_was_not_begun_in_it(drain: str, change: str) -> None:
    """3.3, 8 and I5: an instance, and a source, that never came to their end had begun with something else. `beside` is the same before and after."""
    beside = {**second("x"), "id": "beside"}
    beside["template"] = {**beside["template"], "metadata": {"name": "beside"}, "data": {"image": "same"}}
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "namespace": "default"}}
    with LinkPlatform(names=("i0", "i1"), more=[beside], plain={"plain": {**plain, "data": {"image": "one"}}}) as fleet:
        fleet.push(hours={**HOURS, "drain": drain, "overrunLimit": "30m"})
        for _ in range(3):
            fleet.step()
        fleet.clock.moment = CLOSES
        match change:
            case "spec":
                fleet.written = {"i0": {"text": "two"}}
            case "definition":
                fleet.image = "two"
            case _:
                fleet.plain["plain"]["data"] = {"image": "two"}
        fleet.push()
        for _ in range(3):
            fleet.step()
        text = fleet.request("GET", f"/apis/{GROUP}/v1/namespaces/default/links/i0")["spec"]["text"]
        assert (fleet.at("two"), text, image(fleet, "plain")) == ([], "one", "one")
        fleet.clock.moment = TOMORROW
        for _ in range(6):
            fleet.step()
            fleet.ready("i0", "i1")
        text = fleet.request("GET", f"/apis/{GROUP}/v1/namespaces/default/links/i0")["spec"]["text"]
        assert "two" in {text, image(fleet, "i0-app"), image(fleet, "plain")}


SLOW = {"start": "2026-11-20T12:00", "end": "2026-11-20T13:00"}
"""Keeps `beside` back until the window of the others closes."""


def test_a_node_that_leaves_its_definition_waits_for_the_gate_that_it_had() -> None:
    """S1-21: the new revision knows neither the node nor its gate; the one that it was applied with decides, also after a restart. The pace does not
    count it.
    """
    named = {**HOURS, "byName": True}
    with LinkPlatform(names=("i0", "i1")) as fleet:
        fleet.more = [{**second("after"), "propagateWhen": ["${inWindow('hours')}"]}]
        fleet.push(hours=named)
        fleet.start()
        fleet.clock.moment = CLOSES
        fleet.more = []
        fleet.push("two")
        assert fleet.move("two") == [["i0"], ["i1"]]
        assert fleet.waits() == dict.fromkeys(("i0", "i1"), "WindowClosed")
        assert image(fleet, "second-i0-app") == image(fleet, "second-i1-app") == "one"
        fleet.restart()
        fleet.clock.moment = TOMORROW
        fleet.step()
        assert fleet.waits() == dict.fromkeys(("i0", "i1"), "Settled")
        kept = fleet.request("GET", "/api/v1/namespaces/default/configmaps")["items"]
        assert not [one for one in kept if one["metadata"]["name"].startswith("second-")]
