"""`levelgate events` and `levelgate logs`, as they are typed (docs/people.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from gitops.cli import EXIT_USAGE
from tests.support.cli import Typed
from tests.support.link_platform import LinkPlatform
from tests.support.platform import commit_id


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        found.start()
        found.clock.moment += timedelta(minutes=10)
        found.push("two")
        found.move("two")
        yield found


def test_what_has_changed_lately(fleet: LinkPlatform, typed: Typed) -> None:
    header, _, titles, *lines = typed(fleet, "events").splitlines()
    assert header.startswith("Cluster prod-eu, Fri 2026-11-20 13:10 CET")
    assert titles.split() == ["TIME", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert any(line.startswith("13:10 CET") and "Link default/a" in line and " Settled " in line for line in lines)
    assert any(
        "source/platform" in line and f"moves to commit {commit_id(fleet.commits)[:12]}" in line for line in lines
    )


def test_of_one_instance(fleet: LinkPlatform, typed: Typed) -> None:
    found = json.loads(typed(fleet, "events", "link/b", "-n", "default", "-o", "json"))
    assert {one["object"] for one in found} == {"Link.g.test/default/b"}
    assert {one["reason"] for one in found} == {"Updated", "Settled"}


def test_every_action_line_by_line(fleet: LinkPlatform, typed: Typed) -> None:
    """surface 1.2: at three depths; what is told of objects is told once."""
    lines = typed(fleet, "logs").splitlines()
    updated = [line for line in lines if "Deployment.apps/default/a-app updated" in line]
    (line,) = updated
    assert line.startswith("2026-11-20T12:10:00Z  Link default/a")
    assert "level 0" in line
    assert any("Settled: matches Git, and is healthy" in line for line in lines)
    assert not any("Updated: Deployment" in line for line in lines)
    assert typed(fleet, "logs", "--tail", "2").splitlines() == lines[-2:]


def test_of_one_source_as_json(fleet: LinkPlatform, typed: Typed) -> None:
    found = [json.loads(line) for line in typed(fleet, "logs", "source/platform", "-o", "json").splitlines()]
    assert {one["object"] for one in found} == {"ConfigMap/levelgate-system/source-platform"}
    assert found[0]["time"] == "2026-11-20T12:00:00Z"


def test_a_rollout_has_no_events(fleet: LinkPlatform, typed: Typed) -> None:
    assert "name a source or an instance" in typed(fleet, "events", "rollout/links.g.test", code=EXIT_USAGE)
    assert "name a source or an instance" in typed(fleet, "logs", "link/a/app", code=EXIT_USAGE)


@pytest.mark.parametrize("command", ["events", "logs", "history", "tree"])
@pytest.mark.parametrize(
    ("ref", "told"),
    [
        ("source/platfrom", "source/platfrom does not exist in cluster prod-eu; did you mean 'platform'?"),
        ("link/zz", "link/zz does not exist in namespace default in cluster prod-eu"),
    ],
)
def test_what_is_not_there_is_an_error(fleet: LinkPlatform, typed: Typed, command: str, ref: str, told: str) -> None:
    """And not a thing of which nothing is recorded."""
    assert told in typed(fleet, command, ref, code=1)


def test_what_is_not_there_yet_is_waited_for(fleet: LinkPlatform, typed: Typed) -> None:
    """A daemon may follow it later; whoever has mistyped it reads what he may have meant."""
    told = typed(fleet, "wait", "source/platfrom", "--timeout", "10ms", code=3)
    assert "no daemon follows source/platfrom yet; did you mean 'platform'?" in told


def test_where_there_is_no_source_yet_waiting_says_so(typed: Typed) -> None:
    with LinkPlatform() as empty:
        assert "has no source yet; run levelgate run --source NAME=URL" in typed(
            empty, "wait", "--timeout", "10ms", code=3
        )
