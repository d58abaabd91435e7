"""What people ordered is told once, under the commit that it was used for, with who and why; what was told stays as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from signal import SIGINT
from typing import Any, Final

import pytest

from gitops.timestamps import timestamp
from tests.cli.conftest import in_berlin, printed, typed
from tests.support.cli import Typed
from tests.support.cluster.waiting import eventually
from tests.support.command import RunningCommand
from tests.support.command_platform import CommandPlatform, text
from tests.support.definitions import chain, link
from tests.support.link_platform import LinkPlatform
from tests.support.scenarios.gates import window
from tests.support.windows.calendars import HOURS, SATURDAY

__all__ = ["in_berlin", "printed", "typed"]

NEVER_AGAIN: Final = {
    "kind": "Allow",
    "timeZone": "Etc/UTC",
    "schedule": {"once": [{"start": "2001-01-01T00:00:00", "end": "2001-01-02T00:00:00"}]},
}
USES: Final = [
    "update ConfigMap/default/a-app bypassing window hours (CHG-1)",
    "update Deployment.apps/default/a-app bypassing window hours (CHG-1)",
]
"""What the break-glass of `a` is used for when its image changes."""


def read_until(daemon: RunningCommand, word: str) -> list[str]:
    """The lines of the daemon, as far as the first that has this word."""
    lines: list[str] = []
    for line in daemon.stdout:
        lines.append(line.rstrip())
        if word in line:
            return lines
    raise AssertionError(f"it ended without a word of {word!r}: {lines}")


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    """On a Saturday, past a closed window: somebody has let `a` go to the second commit, and may let it go on for three hours."""
    with LinkPlatform(names=("a", "b")) as found:
        found.start()
        found.clock.moment = SATURDAY
        found.push("two", hours=HOURS)
        found.step()
        until = timestamp(SATURDAY + timedelta(hours=3))
        found.annotate("a", break_glass_reason="INC-7", break_glass_until=until)
        found.move("two")
        assert found.at("two") == ["a"]
        yield found


def told(fleet: LinkPlatform, typed: Typed, commit: str) -> list[dict[str, Any]]:
    """What `history` says of people at one commit, by what they did."""
    (found,) = json.loads(typed(fleet, "history", "--commit", commit, "-o", "json"))
    return sorted((said for one in found["passes"] for said in one["people"]), key=lambda said: str(said["subject"]))


def uses(fleet: LinkPlatform, typed: Typed, commit: str) -> list[tuple[str, str]]:
    return [(said["at"], said["subject"]) for said in told(fleet, typed, commit) if said["what"] == "overridden"]


def at(moment: datetime) -> list[tuple[str, str]]:
    return [(timestamp(moment), use) for use in USES]


def break_glass_events(fleet: LinkPlatform) -> list[str]:
    found = fleet.request("GET", "/apis/events.k8s.io/v1/events")["items"]
    return sorted(one["note"] for one in found if one["reason"] == "BreakGlassUsed")


def test_an_override_stands_under_its_own_commit_alone(fleet: LinkPlatform, typed: Typed) -> None:
    """The break-glass is taken back before the next commit, which therefore waits for the window: nobody overrides anything for it."""
    second = fleet.state.catalog.commit
    assert uses(fleet, typed, second) == at(SATURDAY)
    fleet.annotate("a", break_glass_reason=None, break_glass_until=None)
    fleet.push("three")
    fleet.step(timedelta(minutes=5))
    assert fleet.at("three") == []
    assert uses(fleet, typed, second) == at(SATURDAY)
    assert uses(fleet, typed, fleet.state.catalog.commit) == []


def test_each_use_of_one_order_is_told_under_its_commit(fleet: LinkPlatform, typed: Typed) -> None:
    """The same order lets `a` past the window twice, for two commits: two uses, each with its time."""
    second = fleet.state.catalog.commit
    fleet.push("three")
    fleet.step(timedelta(minutes=5))
    assert fleet.at("three") == ["a"]
    fleet.ready("a")
    fleet.settle()
    assert uses(fleet, typed, second) == at(SATURDAY)
    assert uses(fleet, typed, fleet.state.catalog.commit) == at(SATURDAY + timedelta(minutes=5))


def test_the_event_of_a_break_glass_is_sent_once(fleet: LinkPlatform) -> None:
    """Under the next commit, for which nothing is overridden, there is nothing to report."""
    sent = [f"{use}, by kubectl-annotate: INC-7" for use in USES]
    assert break_glass_events(fleet) == sent
    fleet.annotate("a", break_glass_reason=None, break_glass_until=None)
    fleet.push("three")
    fleet.step(timedelta(minutes=5))
    fleet.settle()
    assert break_glass_events(fleet) == sent


@pytest.mark.parametrize("alone", ["sandbox"], indirect=True)
def test_the_log_tells_an_override_once(alone: CommandPlatform) -> None:
    """Everything is suspended for a while, and resumed: the daemon has nothing new to say of what was overridden before."""
    platform, source = alone, f"source/{alone.name}"
    platform.repository.commit(
        {"chain.json": chain(platform.group, "a"), "one.json": link(platform.group, platform.namespace)}
    )
    with platform.start("--interval", "1h") as daemon:
        eventually(lambda: text(platform, "one-a") == "one")
        two = link(platform.group, platform.namespace, text="two")
        platform.repository.commit({"one.json": two, "hours.json": window("hours", NEVER_AGAIN)})
        platform.levelgate("reconcile", source, "--wait", "--timeout", "5m", check=0)
        instance = (f"chain.{platform.group}/one", "-n", platform.namespace)
        platform.levelgate("break-glass", *instance, "--for", "1h", "--reason", "INC-7", check=0)
        eventually(lambda: text(platform, "one-a") == "two")
        platform.levelgate("wait", source, "--timeout", "5m", check=0)
        platform.levelgate("suspend", "--all", "--reason", "INC-8", check=0)
        lines = read_until(daemon, "HELD: everything is suspended")
        platform.levelgate("resume", "--all", check=0)
        lines += read_until(daemon, "no longer suspended")
        platform.levelgate("reconcile", source, "--wait", "--timeout", "5m", check=0)
        daemon.send_signal(SIGINT)
        lines += daemon.communicate(60).splitlines()
    overrides = [line.partition(" break-glass of ")[2] for line in lines if " break-glass of " in line]
    assert overrides
    assert len(overrides) == len(set(overrides))


def test_the_approval_of_a_commit_keeps_its_reason(fleet: LinkPlatform, typed: Typed) -> None:
    commit = fleet.state.catalog.commit
    typed(fleet, "approve", "source/platform", "--commit", commit, "--reason", "CHG-9 says so")
    fleet.step(timedelta(minutes=5))
    (approval,) = [said for said in told(fleet, typed, commit) if said["what"] == "approved"]
    assert approval["why"] == "CHG-9 says so"
