"""Standing of a cluster: when it is recorded, and since when it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from applier.cluster import parse_cluster_name
from gitops.clock import Clock
from gitops.daemon.cluster_standing import StandingReporter
from gitops.daemon.fleet_environment import ClusterObserver
from gitops.fleet.fleet_recorder import FleetRecorder
from gitops.fleet.reach import ReachState

START = datetime(2026, 11, 20, tzinfo=UTC)
NAME = parse_cluster_name("eu-1")


@dataclass
class StandingScene:
    """A clock that is set by hand, and an observer that keeps its notices."""

    moment: datetime = START
    notices: list[str] = field(default_factory=list)

    def now(self) -> datetime:
        return self.moment

    def print_notice(self, _subject: str, text: str) -> None:
        self.notices.append(text)


def reporter_of(scene: StandingScene) -> StandingReporter:
    clock = cast(Clock, scene)
    recorder = FleetRecorder(cast(Any, None), clock, scene.print_notice)
    return StandingReporter(NAME, recorder, clock, cast(ClusterObserver, scene))


def test_each_change_is_reported_and_recorded_once() -> None:
    scene = StandingScene()
    reporter = reporter_of(scene)
    for _ in range(2):
        reporter.report(ReachState.DEGRADED, "Secret: forbidden")
    assert scene.notices == ["Degraded: Secret: forbidden"]
    record = reporter.recorder.record_of(NAME)
    assert (record.state, record.message) == ("Degraded", "Secret: forbidden")


def test_another_message_of_a_state_does_not_begin_it_again() -> None:
    scene = StandingScene()
    reporter = reporter_of(scene)
    reporter.report(ReachState.DEGRADED, "Secret: forbidden")
    scene.moment += timedelta(minutes=1)
    reporter.report(ReachState.DEGRADED, "ConfigMap: forbidden")
    assert reporter.standing.since == START
    reporter.report(ReachState.ENGAGED, "")
    assert reporter.standing.since == START + timedelta(minutes=1)
    assert scene.notices[-1] == "Engaged"


def test_nothing_is_recorded_before_the_first_report() -> None:
    """After a restart, the recorded state holds until the cluster has been tried."""
    reporter = reporter_of(StandingScene())
    assert reporter.standing.message == "not connected yet"
    assert reporter.recorder.records == {}
