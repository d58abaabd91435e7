"""What people order of rollouts, in whole passes: annotations of the record, carried out or refused once (docs/rollouts.md, "Requests")."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from applier.cluster import Object
from applier.sandbox.wire import Request, Response
from gitops.rollouts.state import DecisionRecord
from tests.support.link_platform import ROLLOUT, TEN, LinkPlatform


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=TEN[:6]) as found:
        yield found


def noted(fleet: LinkPlatform) -> Object:
    found: Object = fleet.request("GET", ROLLOUT)["metadata"].get("annotations", {})
    return found


def last(fleet: LinkPlatform) -> DecisionRecord:
    return fleet.rollout().decisions[-1]


def test_a_halt_lasts_until_a_resume_and_both_are_recorded(fleet: LinkPlatform) -> None:
    """The undo pair: nothing more moves, what moved is followed to its end; then it goes on where it stood."""
    fleet.start()
    fleet.push("two")
    assert fleet.move("two", rounds=2) == [["i0"], ["i1"]]
    fleet.order(halt="INC-7", requested_by="ada")
    assert fleet.move("two") == []
    assert noted(fleet) == {}
    assert fleet.waits() == {"i0": "Settled", "i1": "Settled", **dict.fromkeys(TEN[2:6], "Halted")}
    assert fleet.propagated("i2")[1] == "r2 has been halted since 2026-11-20T12:00:00Z by ada: INC-7"
    assert last(fleet) == DecisionRecord(fleet.clock.now(), "halted", "r2", "ada", "INC-7")
    fleet.clock.moment += timedelta(minutes=5)
    fleet.order(resume="INC-7 is over", requested_by="ada")
    assert fleet.move("two") == [["i2", "i3"], ["i4", "i5"]]
    resumed = next(one for one in fleet.rollout().decisions if one.what == "resumed")
    assert (resumed.by, resumed.why, resumed.at) == ("ada", "INC-7 is over", fleet.clock.now())
    assert not [one for one in fleet.rollout().decisions if one.what == "refused"]


def test_a_resume_accepts_the_failures_there_are(fleet: LinkPlatform) -> None:
    """One more than those halts again."""
    fleet.start(all={"shape": {"linear": {"n": 2}}})
    fleet.push("two")
    fleet.move("two", rounds=3, except_for=["i0"])
    fleet.step(timedelta(minutes=11))
    assert fleet.waits()["i2"] == "Halted"
    fleet.order(resume="known flake")
    assert fleet.move("two", rounds=3, except_for=["i0", "i2"]) == [["i2", "i3"]]
    assert [one.by for one in fleet.rollout().decisions if one.what == "resumed"] == ["kubectl-annotate"]
    fleet.step(timedelta(minutes=11))
    assert fleet.waits()["i4"] == "Halted"
    assert fleet.rollout().halts[0].why == "2 of 6 items failed in wave all, more than the limit of 1"


def test_an_approval_opens_its_point_and_nothing_else(fleet: LinkPlatform) -> None:
    """After the canary a person agrees; who and why is in the record, and the next revision asks again."""
    fleet.written = {"i5": {"metadata": {"labels": {"tier": "canary"}}}}
    policy = {
        "shape": {"linear": {"n": 5}},
        "waves": [{"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}}],
        "approvals": [{"after": {"wave": "canary"}, "by": ["leads"]}],
    }
    fleet.start(webapps=policy)
    fleet.push("two")
    assert fleet.move("two") == [["i5"]]
    assert fleet.waits()["i0"] == "ApprovalRequired"
    fleet.order(approve="canary", approve_reason="looks good", requested_by="ada")
    assert fleet.move("two") == [list(TEN[:5])]
    approved = next(one for one in fleet.rollout().decisions if one.what == "approved")
    assert (approved.subject, approved.by, approved.why) == ("r2 after canary", "ada", "looks good")
    assert noted(fleet) == {}
    fleet.push("three")
    assert fleet.move("three") == [["i5"]]
    assert fleet.waits()["i0"] == "ApprovalRequired"


@pytest.mark.parametrize(
    ("order", "subject", "why"),
    [
        ({"halt": ""}, "halt", "halt needs a reason"),
        ({"resume": "now"}, "resume now", "this rollout is not halted; nothing to resume"),
        (
            {"approve": "canary"},
            "approve canary",
            "policy (default) requires no approval after 'canary'; add the point to `approvals` of the policy first",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_once(
    fleet: LinkPlatform, order: dict[str, str], subject: str, why: str
) -> None:
    """Recorded, taken away, and no write after that."""
    fleet.start()
    fleet.push("two")
    fleet.move("two", except_for=["i0"])
    fleet.order(**order)
    fleet.step()
    assert last(fleet) == DecisionRecord(fleet.clock.now(), "refused", subject, "kubectl-annotate", why)
    assert noted(fleet) == {}
    assert fleet.at("two") == ["i0"]
    version = fleet.request("GET", ROLLOUT)["metadata"]["resourceVersion"]
    fleet.step()
    assert fleet.request("GET", ROLLOUT)["metadata"]["resourceVersion"] == version


def test_what_has_completed_cannot_be_halted(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.order(halt="INC-7")
    fleet.step()
    assert last(fleet).why == "this rollout is not in progress; nothing to halt"


def test_of_halt_and_resume_at_once_the_halt_stays(fleet: LinkPlatform) -> None:
    fleet.start()
    fleet.push("two")
    fleet.move("two", rounds=1)
    fleet.order(resume="a", halt="b")
    assert fleet.move("two") == []
    assert fleet.waits()["i1"] == "Halted"


def test_a_request_to_a_rollout_without_instances_is_answered(fleet: LinkPlatform) -> None:
    """Halting is possible without them; everything else is refused rather than kept for a day when nobody expects it."""
    fleet.start()
    fleet.names = ()
    fleet.push()
    for _ in range(4):
        fleet.step()
    fleet.order(resume="x")
    fleet.step()
    assert last(fleet).why == "no instance of this rollout can be read now; try again"
    assert noted(fleet) == {}


def test_an_order_that_comes_in_the_middle_of_a_pass_is_heard(fleet: LinkPlatform) -> None:
    """The record is written only over the version that was read: what a person wrote meanwhile comes first."""
    fleet.start()
    fleet.push("two")
    asked = list[Request]()

    async def door(request: Request) -> Response:
        if "rollout-" in request.target and request.method == "PATCH" and not asked:
            asked.append(request)
            fleet.order(halt="INC-7")
        return await fleet.sandbox.answer(request)

    fleet.restart(door)
    fleet.step()
    assert asked
    assert fleet.at("two") == []
    assert fleet.waits()["i0"] == "Halted"


def test_a_new_process_knows_of_halts_and_approvals(fleet: LinkPlatform) -> None:
    """S1-28: an order is carried out by whoever reads it next, and what it did outlives the process."""
    fleet.start()
    fleet.push("two")
    fleet.move("two", rounds=1)
    fleet.order(halt="INC-7")
    fleet.restart()
    fleet.step()
    fleet.restart()
    assert fleet.move("two") == []
    fleet.order(resume="over")
    fleet.restart()
    assert fleet.move("two") == [["i1"], ["i2", "i3"], ["i4", "i5"]]
