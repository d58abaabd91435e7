"""`levelgate history`: what each commit did (docs/people.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from gitops.cli import EXIT_USAGE
from tests.support.cli import Typed
from tests.support.link_platform import LinkPlatform
from tests.support.platform import commit_id
from tests.support.windows.calendars import HOURS, SATURDAY


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    """Two instances at their second commit, written on a Saturday past a closed window."""
    with LinkPlatform(names=("a", "b")) as found:
        found.start()
        found.clock.moment = SATURDAY
        found.push("two", hours=HOURS)
        found.step()
        until = (SATURDAY + timedelta(hours=1)).isoformat()
        found.annotate("a", break_glass_reason="INC-7", break_glass_until=until)
        found.move("two")
        yield found


def test_one_line_for_each_commit_the_newest_first(fleet: LinkPlatform, typed: Typed) -> None:
    header, _, titles, newest, oldest = typed(fleet, "history").splitlines()
    assert header.startswith("Cluster prod-eu, Sat 2026-11-21 ")
    assert titles.split() == ["SOURCE", "COMMIT", "FROM", "TO", "STATE", "ACTIONS", "CAUSES", "PEOPLE"]
    assert newest.split()[-5:] == ["WindowClosed", "2", "overridden", "by", "kubectl-annotate"]
    assert "2 updated" in newest
    assert "Settled" in oldest


@pytest.mark.parametrize("later", [0, -60], ids=["within one second", "by a clock that went back"])
def test_commits_of_a_source_stand_in_the_order_of_its_record(typed: Typed, later: int) -> None:
    with LinkPlatform(names=("a",)) as fleet:
        fleet.start()
        fleet.push("two")
        fleet.step(timedelta(seconds=later))
        fleet.push("three")
        fleet.step(timedelta(seconds=later))
        told = json.loads(typed(fleet, "history", "-o", "json"))
        assert [one["commit"] for one in told] == [commit_id(number) for number in (3, 2, 1)]


def test_all_that_one_commit_did(fleet: LinkPlatform, typed: Typed) -> None:
    """surface 5.2: objects by level, start and end, gates met, overrides."""
    told = typed(fleet, "history", "--commit", fleet.state.catalog.commit)
    assert "Link default/a   level 0   Deployment.apps/default/a-app updated" in told
    assert "WindowClosed: waits for window hours (CHG-1)" in told
    assert "overridden by kubectl-annotate" in told
    assert "INC-7" in told


def test_of_one_instance(fleet: LinkPlatform, typed: Typed) -> None:
    (newest, _) = json.loads(typed(fleet, "history", "link/b", "-n", "default", "-o", "json"))
    assert {gate["set"] for one in newest["passes"] for gate in one["met"]} == {"Link.g.test/default/b"}
    assert not any(one["did"] for one in newest["passes"])


def test_what_is_not_recorded_is_said_with_what_is(fleet: LinkPlatform, typed: Typed) -> None:
    told = typed(fleet, "history", "--commit", "feed", code=1)
    assert "no action of commit feed is recorded in cluster prod-eu; name one of the recorded commits: 0000000" in told
    assert "name a source or an instance" in typed(fleet, "history", "rollout/links.g.test", code=EXIT_USAGE)
