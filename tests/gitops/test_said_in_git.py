"""Requests of people, said in Git and said by kubectl: the table in docs/people.md, cell by cell.

Pins are in records/test_source_requests.py, requests to reconcile now in records/test_reconcile_requests.py, suspended
definitions and sources in decisions/test_suspension.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.support.clock import START
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.windows.calendars import NIGHT

CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/links.{GROUP}"
PACED = {"shape": {"linear": {"n": 2}}}
places = pytest.mark.parametrize("place", ["git", "cluster"])


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b", "c", "d")) as found:
        yield found


def said(fleet: LinkPlatform, place: str, name: str, **annotations: str | None) -> None:
    """Of an instance; None takes it back."""
    if place == "cluster":
        fleet.annotate(name, **annotations)
        return
    written = {f"levelgate.dev/{key.replace('_', '-')}": value for key, value in annotations.items() if value}
    fleet.written = {name: {"metadata": {"annotations": written}}}
    fleet.push()


@places
def test_hold_and_release(fleet: LinkPlatform, place: str) -> None:
    """1.2: it stays where it is, and the others pass it."""
    fleet.start(paced=PACED)
    fleet.push("two")
    said(fleet, place, "a", hold="a game")
    fleet.move("two")
    assert (fleet.at("two"), fleet.waits()["a"]) == (["b", "c", "d"], "Held")
    said(fleet, place, "a", hold=None)
    assert fleet.move("two") == [["a"]]


@places
def test_suspend_and_resume(fleet: LinkPlatform, place: str) -> None:
    """1.2: nothing is written of it, not even to heal it."""
    fleet.start(paced=PACED)
    said(fleet, place, "a", suspend="a look at it")
    fleet.step()
    fleet.request("DELETE", "/api/v1/namespaces/default/configmaps/a-app")
    fleet.step()
    listed = fleet.request("GET", "/api/v1/namespaces/default/configmaps")["items"]
    assert "a-app" not in {one["metadata"]["name"] for one in listed}
    said(fleet, place, "a", suspend=None)
    fleet.step()
    assert fleet.request("GET", "/api/v1/namespaces/default/configmaps/a-app")


def halted(fleet: LinkPlatform, place: str, why: str | None) -> None:
    if place == "cluster":
        fleet.order(**({"halt": why} if why else {"resume": "over"}))
        return
    fleet.about = {"levelgate.dev/halt": why} if why else {}
    fleet.push()


@places
def test_halt_and_resume(fleet: LinkPlatform, place: str) -> None:
    """1.2: no further one moves, and what has moved is followed to its end."""
    fleet.start(paced=PACED)
    fleet.push("two")
    fleet.step()
    halted(fleet, place, "INC-7")
    fleet.move("two")
    assert (fleet.at("two"), set(fleet.waits().values())) == (["a", "b"], {"Settled", "Halted"})
    assert "INC-7" in fleet.propagated("c")[1]
    assert [(one.what, one.why) for one in fleet.rollout().decisions][-1] == ("halted", "INC-7")
    halted(fleet, place, None)
    assert fleet.move("two") == [["c", "d"]]
    assert fleet.rollout().halts == ()


@pytest.mark.parametrize("on_new_revision", ["Supersede", "Finish", "Pipeline"])
def test_a_halt_in_git_under_a_policy_that_rolls_back(fleet: LinkPlatform, on_new_revision: str) -> None:
    """No wave has the halted revision as its target any more, and the revision stays halted even so."""
    fleet.start(links={**PACED, "onHalt": "RollBack", "onNewRevision": on_new_revision})
    fleet.push("two")
    fleet.step()
    assert fleet.at("two") == ["a", "b"]
    halted(fleet, "git", "INC-7")
    for _ in range(3):
        fleet.step(timedelta(minutes=1))
        fleet.ready(*fleet.names)
    assert fleet.at("two") == []
    assert [halt.target for halt in fleet.rollout().halts] == [2]
    halted(fleet, "git", "INC-8")
    fleet.step(timedelta(minutes=1))
    assert [(halt.target, halt.why) for halt in fleet.rollout().halts] == [(2, "INC-8")]
    assert fleet.at("two") == []
    halted(fleet, "git", None)
    fleet.step(timedelta(minutes=1))
    assert fleet.rollout().halts == ()
    assert fleet.at("two") == ["a", "b"]


def test_a_halt_in_git_lasts_as_long_as_it_stands_there(fleet: LinkPlatform) -> None:
    """It is no revision of its own, a newer one does not end it, and nobody resumes it by hand; it says the same in each pass."""
    fleet.start(paced=PACED)
    fleet.push("two")
    fleet.step()
    halted(fleet, "git", "INC-7")
    fleet.step()
    assert {one.revision for one in fleet.rollout().targets.values()} == {2}
    assert fleet.step(after=timedelta(minutes=1)).changed == 0
    fleet.push("three")
    fleet.move("three")
    assert fleet.at("three") == []
    fleet.order(resume="I know better")
    fleet.step()
    assert "remove levelgate.dev/halt" in fleet.rollout().decisions[-1].why
    assert fleet.at("three") == []
    halted(fleet, "git", None)
    fleet.move("three")
    assert fleet.at("three") == ["a", "b", "c", "d"]


def test_a_halt_in_git_accepts_no_failures(fleet: LinkPlatform) -> None:
    """Taken out, the latch of what has failed stays."""
    fleet.start(paced={**PACED, "progressDeadline": "10m"})
    fleet.push("two")
    fleet.step()
    fleet.step(after=timedelta(minutes=11))
    assert len(fleet.rollout().halts) == 1
    halted(fleet, "git", "INC-7")
    fleet.step()
    assert [one.by for one in fleet.rollout().halts] == ["levelgate", "Git"]
    halted(fleet, "git", None)
    fleet.step()
    assert [one.by for one in fleet.rollout().halts] == ["levelgate"]


@places
def test_an_approval(fleet: LinkPlatform, place: str) -> None:
    """In Git the policy no longer asks for it."""
    fleet.start(paced={**PACED, "approvals": [{"after": {"settled": 2}}]})
    fleet.push("two")
    fleet.move("two")
    assert (fleet.at("two"), fleet.waits()["c"]) == (["a", "b"], "ApprovalRequired")
    if place == "git":
        fleet.push(paced=PACED)
    else:
        fleet.order(approve="2")
    assert fleet.move("two") == [["c", "d"]]


@places
@pytest.mark.parametrize("what", ["instance", "definition"])
def test_a_break_glass(fleet: LinkPlatform, place: str, what: str) -> None:
    """1.2: past windows, for a while."""
    fleet.start(night=NIGHT)
    fleet.push("two")
    fleet.step()
    assert set(fleet.waits().values()) == {"WindowClosed"}
    words = {"break_glass_reason": "INC-7", "break_glass_until": (START + timedelta(hours=1)).isoformat()}
    if what == "instance":
        said(fleet, place, "a", **words)
    elif place == "cluster":
        fleet.put(CRD, **words)
    else:
        fleet.about = {f"levelgate.dev/{key.replace('_', '-')}": value for key, value in words.items()}
        fleet.push()
    fleet.move("two")
    assert fleet.at("two") == (["a"] if what == "instance" else ["a", "b", "c", "d"])


def test_a_halt_stands_on_a_definition_alone(fleet: LinkPlatform) -> None:
    """Anywhere else it would silently mean nothing."""
    fleet.written = {"a": {"metadata": {"annotations": {"levelgate.dev/halt": "INC-7"}}}}
    fleet.push()
    assert fleet.catalog
    (problem,) = fleet.catalog.problems
    assert (problem.file, problem.path) == ("a.json", "metadata.annotations[levelgate.dev/halt]")
    assert "to keep one instance unchanged, use levelgate.dev/hold" in problem.message
