"""Rollouts in whole passes: what moves in which order, what holds it, and what its status says (docs/rollouts.md)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from applier.cluster import Object
from applier.errors import StaleWrite
from applier.kube import connect
from gitops.records.installation import ensure_namespace
from gitops.records.rollout_records import Rollouts
from gitops.rollouts.queue_position import BlockingItem, WaveForecast
from gitops.rollouts.state import Halt, RolloutState, TargetRevision, WaveProgress
from tests.support.link_platform import TEN, LinkPlatform
from tests.support.platform import MERGE, commit_id


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform() as found:
        yield found


def test_a_change_of_a_definition_moves_exponentially_by_default(fleet: LinkPlatform) -> None:
    """S1-7, S1-16, the worked table "exp k=2": 1, 1, 2, 4 and the rest, each when those before it have settled; creation is not paced."""
    fleet.start()
    assert len(fleet.at("one")) == 10
    fleet.push("two")
    assert fleet.move("two") == [["i0"], ["i1"], ["i2", "i3"], ["i4", "i5", "i6", "i7"], ["i8", "i9"]]
    assert set(fleet.waits().values()) == {"Settled"}
    state = fleet.rollout()
    assert state.completed == TargetRevision(2)
    granted = [one.subject for one in state.decisions if one.what == "granted" and one.subject.startswith("r2")]
    assert granted[2] == "r2, wave all: default/i2, default/i3"
    assert len(granted) == 5


def test_one_that_does_not_become_ready_holds_the_second_half(fleet: LinkPlatform) -> None:
    """B1, B2: F(3) = 4; then it becomes ready, and the rest goes. Meanwhile everything says what it waits for."""
    fleet.start()
    fleet.push("two")
    assert fleet.move("two", except_for=["i3"]) == [["i0"], ["i1"], ["i2", "i3"]]
    assert fleet.waits() == {
        **dict.fromkeys(("i0", "i1", "i2"), "Settled"),
        "i3": "Progressing",
        **dict.fromkeys(TEN[4:], "PaceReached"),
    }
    _, message = fleet.propagated("i8")
    assert message == "9th of 10, exponential 2"
    ours = fleet.status("i8")["levelgate"]
    assert ours["rollout"] == {"name": "links.g.test", "wave": "all"}
    assert ours["blocked"] == [
        {
            "reason": "PaceReached",
            "message": message,
            "since": "2026-11-20T12:00:00Z",
            "position": {"place": 9, "total": 10, "wave": "all", "shape": "exponential 2"},
        }
    ]
    ahead = WaveForecast((BlockingItem("default/i3", "Progressing"),))
    assert fleet.rollout().waves == (
        WaveProgress("all", "exponential 2", 10, settled=3, moving=1, held=0, failed=0, limit=4, then=8, ahead=ahead),
    )
    assert {one["type"]: one["status"] for one in fleet.status("i8")["conditions"]}["Ready"] == "True"
    assert fleet.status("i8")["levelgate"]["target"]["revision"] == 2
    assert fleet.status("i8")["levelgate"]["applied"]["revision"] == 1
    assert fleet.move("two") == [["i4", "i5", "i6", "i7"], ["i8", "i9"]]


def test_who_waits_is_not_written_when_the_others_get_on(fleet: LinkPlatform) -> None:
    """A rollout of N instances is N statuses, not N for each batch: how far it is stands in its record, and is read there."""
    fleet.start(pace={"shape": {"linear": {"n": 2}}, "bake": "5m"})
    fleet.push("two")
    fleet.step()
    said = {name: fleet.status(name) for name in TEN[4:]}
    fleet.ready("i0", "i1")
    fleet.settle()
    baking = fleet.rollout().waves[0].ahead
    assert [(one.name, one.reason) for one in baking.others] == [("default/i0", "Baking"), ("default/i1", "Baking")]
    fleet.step(timedelta(minutes=5))
    fleet.settle()
    assert fleet.at("two") == [*TEN[:4]]
    assert {name: fleet.status(name) for name in TEN[4:]} == said
    wave = fleet.rollout().waves[0]
    assert (wave.limit, wave.then, wave.moved) == (4, 6, 4)
    assert [one.name for one in wave.ahead.others] == ["default/i2", "default/i3"]


def test_a_failure_halts_until_a_revert_repairs_in_order(fleet: LinkPlatform) -> None:
    """S1-33, B10: past its deadline the first one has failed, nothing more moves; the revert touches only what had moved."""
    fleet.start()
    fleet.push("bad")
    assert fleet.move("bad", except_for=["i1"]) == [["i0"], ["i1"]]
    fleet.step(timedelta(minutes=11))
    assert set(fleet.waits().values()) == {"Settled", "Unhealthy", "Halted"}
    halt = fleet.rollout().halts[0]
    assert (halt.target, halt.why) == (2, "1 of 10 items failed in wave all, more than the limit of 0")
    fleet.push("one")
    before = fleet.at("one")
    assert fleet.move("one") == [["i0", "i1"]]
    assert before == list(TEN[2:])
    assert set(fleet.waits().values()) == {"Settled"}


def test_waves_bake_and_approvals(fleet: LinkPlatform) -> None:
    """A canary wave that bakes for half an hour goes before the rest; then a person has to approve it."""
    fleet.written = {name: {"metadata": {"labels": {"tier": "canary"}}} for name in ("i7", "i8")}
    policy = {
        "shape": {"linear": {"n": 4}},
        "waves": [{"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}, "bake": "30m"}],
    }
    fleet.start(webapps=policy)
    fleet.push("two")
    assert fleet.move("two") == [["i7", "i8"]]
    assert fleet.waits()["i7"] == "Baking"
    assert fleet.waits()["i0"] == "WaveNotReached"
    fleet.clock.moment += timedelta(minutes=30)
    assert fleet.move("two") == [["i0", "i1", "i2", "i3"], ["i4", "i5", "i6", "i9"]]


def test_while_an_instance_waits_it_is_healed_from_what_was_applied(fleet: LinkPlatform) -> None:
    """S0-18 and the ruling: what is missing, or was changed by hand, of one that waits comes back as it was, not as it will be."""
    fleet.start()
    fleet.push("two")
    fleet.move("two", except_for=["i0"])
    fleet.request("DELETE", "/apis/apps/v1/namespaces/default/deployments/i9-app")
    path = "/api/v1/namespaces/default/configmaps/i8-app"
    by_hand = {"data": {"image": "by hand"}}
    fleet.request("PATCH", f"{path}?fieldManager=kubectl-edit", by_hand, MERGE)
    fleet.step()
    assert fleet.at("one") == list(TEN[1:])
    assert fleet.request("GET", path)["data"] == {"image": "one"}


def test_a_commit_that_changes_nothing_for_those_that_wait_writes_nothing_of_them(fleet: LinkPlatform) -> None:
    """The target of an instance names the commit at which it began to wait."""
    fleet.start()
    fleet.push("two")
    fleet.move("two", except_for=["i0"])
    before = fleet.status("i9")
    assert before["levelgate"]["target"] == {"revision": 2, "commit": commit_id(2)[:12]}
    fleet.push()
    fleet.step()
    assert fleet.status("i9") == before


def test_a_change_of_one_instance_is_not_paced(fleet: LinkPlatform) -> None:
    """surface 6: it is rendered with the revision that the instance is assigned, and goes at once."""
    fleet.start()
    fleet.push("two")
    fleet.move("two", except_for=["i0"])
    fleet.written["i9"] = {"text": "new"}
    fleet.push()
    fleet.step()
    live = fleet.request("GET", "/apis/apps/v1/namespaces/default/deployments/i9-app")
    assert live["metadata"]["annotations"]["text"] == "new"
    assert fleet.at("one") == list(TEN[1:])


def test_a_change_that_needs_the_new_definition_travels_with_the_move(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.schema = {**fleet.schema, "extra": "string"}
    fleet.written["i9"] = {"extra": "x"}
    fleet.push("two")
    fleet.move("two", except_for=["i0"])
    path = "/apis/g.test/v1/namespaces/default/links/i9"
    assert "extra" not in fleet.request("GET", path)["spec"]
    assert fleet.at("one") == list(TEN[1:])
    fleet.move("two")
    assert fleet.request("GET", path)["spec"]["extra"] == "x"
    assert set(fleet.waits().values()) == {"Settled"}


def test_a_newer_commit_supersedes_and_nothing_goes_on_towards_the_old(fleet: LinkPlatform) -> None:
    """S1-29, S1-32: those that moved to r2 move to r3 in their turn; one that was half way stays half way until then."""
    fleet.start()
    fleet.push("two")
    fleet.move("two", except_for=["i3"])
    half = "/api/v1/namespaces/default/configmaps/i3-app"
    assert fleet.request("GET", half)["data"] == {"image": "one"}
    fleet.push("three")
    fleet.step()
    fleet.ready("i3")
    fleet.step()
    assert fleet.at("three") == ["i0"]
    assert fleet.request("GET", half)["data"] == {"image": "one"}
    fleet.ready("i0")
    assert [sorted(moved) for moved in fleet.move("three")] == [["i1"], ["i2", "i3"], list(TEN[4:8]), list(TEN[8:])]


def test_a_new_instance_does_not_enlarge_the_canary(fleet: LinkPlatform) -> None:
    """S1-41, S1-8: mid-rollout it starts at the revision that was completed last, and takes its turn."""
    fleet.start()
    fleet.push("two")
    fleet.move("two", except_for=["i0"])
    fleet.names = ("a", *TEN)
    fleet.push()
    fleet.step()
    assert fleet.at("one") == ["a", *TEN[1:]]
    fleet.ready("a", "i0")
    assert fleet.move("two")[0] == ["a"]


@pytest.mark.parametrize("is_in_git", [False, True])
def test_a_hold_is_passed_by_the_others_and_lapses(fleet: LinkPlatform, is_in_git: bool) -> None:
    """B7, S1-12, S1-24: a held instance stays at its revision, is healed there, and does not use up the batch; said by kubectl, or in Git."""
    fleet.start(webapps={"shape": {"linear": {"n": 3}}, "maxHold": "2h"})
    if is_in_git:
        fleet.written["i1"] = {"metadata": {"annotations": {"levelgate.dev/hold": "a game is running"}}}
    else:
        fleet.annotate("i1", hold="a game is running")
    fleet.push("two")
    assert fleet.move("two")[0] == ["i0", "i2", "i3"]
    assert fleet.at("one") == ["i1"]
    assert fleet.propagated("i1")[0] == "Held"
    assert "a game is running" in fleet.propagated("i1")[1]
    fleet.request("DELETE", "/apis/apps/v1/namespaces/default/deployments/i1-app")
    fleet.step()
    assert fleet.at("one") == ["i1"]
    fleet.step(timedelta(hours=2))
    assert fleet.at("two") == list(TEN)


def test_a_hold_of_what_does_not_exist_yet_lapses_and_is_told_once(fleet: LinkPlatform) -> None:
    """S1-12: since when it is held stands in the record of the source, so that a later pass writes nothing and its end does not move away."""
    fleet.start(webapps={"shape": {"linear": {"n": 3}}, "maxHold": "2h"})
    fleet.names = (*TEN, "new")
    fleet.written["new"] = {"metadata": {"annotations": {"levelgate.dev/hold": "a game is running"}}}
    fleet.push()
    fleet.step()
    writes = fleet.writes
    fleet.step(timedelta(minutes=1))
    assert (fleet.writes, fleet.at("one")) == (writes, list(TEN))
    fleet.step(timedelta(hours=2))
    assert fleet.at("one") == [*TEN, "new"]


def test_a_suspended_instance_is_not_even_healed(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.annotate("i0", suspend="INC-7")
    fleet.push("two")
    fleet.request("DELETE", "/apis/apps/v1/namespaces/default/deployments/i0-app")
    fleet.move("two")
    assert fleet.at("two") == list(TEN[1:])
    assert fleet.propagated("i0")[0] == "Suspended"
    fleet.annotate("i0", suspend=None)
    fleet.step()
    assert fleet.at("two") == list(TEN)


def test_a_restart_forgets_nothing(fleet: LinkPlatform) -> None:
    """S1-28: a new process at every pass, and the same order; a bake that was under way goes on."""
    fleet.start(webapps={"bake": "5m"})
    fleet.push("two")
    fleet.step()
    fleet.ready("i0")
    fleet.step()
    for _ in range(5):
        fleet.restart()
        fleet.step(timedelta(minutes=1))
    assert fleet.at("two") == ["i0", "i1"]
    assert fleet.waits()["i0"] == "Settled"


def test_by_priority_and_then_by_name(fleet: LinkPlatform) -> None:
    """S1-19."""
    fleet.written["i9"] = {"metadata": {"annotations": {"levelgate.dev/priority": "5"}}}
    fleet.start()
    fleet.push("two")
    assert fleet.move("two")[:2] == [["i9"], ["i0"]]


def test_a_settled_fleet_is_left_alone(fleet: LinkPlatform) -> None:
    """After a rollout: no write, pass after pass."""
    fleet.start()
    fleet.push("two")
    fleet.move("two")
    assert fleet.step(timedelta(minutes=1)).changed == 0


def test_a_fleet_that_waits_is_left_alone(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.push("two")
    fleet.move("two", except_for=["i3"])
    assert fleet.step(timedelta(minutes=1)).changed == 0


def test_nodes_that_are_taken_out_go_one_after_the_other_and_stay_away(fleet: LinkPlatform) -> None:
    """S0-11: what is gone already is not healed from the applied pair while the rest still goes."""
    fleet.names = ("a",)
    when = ["${schema.spec.text == 'one'}"]
    first: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first"}}
    second: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-${first.metadata.name}"}}
    fleet.more = [
        {"id": "first", "includeWhen": when, "template": first},
        {"id": "second", "includeWhen": when, "template": second},
    ]
    fleet.start()
    fleet.written["a"] = {"text": "new"}
    fleet.push()
    found = fleet.step()
    assert [one.key.name for one in found.results if one.action == "deleted"] == ["of-first", "first"]


async def test_of_two_that_make_a_record_at_once_one_is_refused(
    kubeconfig: Path, namespace: str, fleet: LinkPlatform
) -> None:
    """Both have found none. What the first decided, perhaps a halt, stands; the second reads it and decides anew (I6)."""
    first, second = (RolloutState(halts=(Halt(1, fleet.clock.now(), who, "INC-7"),)) for who in ("first", "second"))
    found = Rollouts()
    cluster = await connect(kubeconfig=str(kubeconfig))
    try:
        await ensure_namespace(cluster)
        stored = await found.write(cluster, name=namespace, state=first)
        with pytest.raises(StaleWrite):
            await found.write(cluster, name=namespace, state=second)
        known = await Rollouts.observe(cluster)
        assert known.records[namespace] == stored
        await known.write(cluster, name=namespace, state=second)
        assert (await Rollouts.observe(cluster)).states(fleet.clock.now())[namespace].halts == second.halts
    finally:
        await cluster.close()
