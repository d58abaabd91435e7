"""The recorder of a simulation: arrivals, writes and how they become events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from applier.errors import ClusterError, Invalid
from applier.execute.results import Result
from gitops.simulate.recorder import Recorder
from gitops.simulate.world import VirtualClock
from renderer.identity import ObjectKey

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
X = ObjectKey("g.test", "Link", "default", "x")


def recorder() -> tuple[Recorder, VirtualClock]:
    clock = VirtualClock(START)
    return Recorder("platform", clock, START), clock


def written(action: str, error: ClusterError | None = None) -> Result:
    return Result(X, ObjectKey("", "ConfigMap", "default", "x-a"), action, 0, "a", error)


def test_a_commit_before_the_last_one_has_settled_supersedes_it() -> None:
    found, clock = recorder()
    found.record_commit("1" * 40, "one")
    clock.moment += MINUTE
    found.record_commit("2" * 40, "two")
    timeline = found.build_timeline((), "interrupted", ())
    assert [(arrival.at, arrival.is_superseded) for arrival in timeline.arrivals] == [
        (START, True),
        (START + MINUTE, False),
    ]
    assert not found.is_settled()


def test_the_first_write_of_content_starts_the_commit() -> None:
    found, clock = recorder()
    found.record_commit("1" * 40, "one")
    found.record_write(written("recorded"))
    clock.moment += MINUTE
    found.record_write(written("updated"))
    clock.moment += MINUTE
    found.record_write(written("healed"))
    (arrival,) = found.build_timeline((), "interrupted", ()).arrivals
    assert arrival.started == START + MINUTE


def test_writes_of_content_and_failures_are_events() -> None:
    found, _ = recorder()
    for result in (written("updated"), written("recorded"), written("updated", Invalid("too long"))):
        found.record_write(result)
    assert [(event.kind, event.text) for event in found.events] == [
        ("write", "level 0  a updated"),
        ("failure", "level 0  a NOT updated: too long"),
    ]
