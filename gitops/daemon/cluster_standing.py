"""Standing of a cluster in the fleet, as people see it: the state, the start of the state, and the reason."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime

from applier.cluster import ClusterName
from gitops.clock import Clock
from gitops.daemon.fleet_environment import ClusterObserver
from gitops.fleet.fleet_recorder import FleetRecorder, RecordChange
from gitops.fleet.reach import ReachState
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class ClusterStanding:
    """State of a cluster in the fleet."""

    state: ReachState
    since: datetime
    """Start of the state."""
    message: str
    """Reason for the state. The reason is empty for the state Engaged."""

    @property
    def recorded(self) -> RecordChange:
        """Return the standing as fields of the cluster's record."""
        return {"state": str(self.state), "message": self.message, "since": self.since}


@dataclass
class StandingReporter:
    """Reporter of one cluster's standing. The record on the hub and the `observer` receive each change."""

    name: ClusterName
    recorder: FleetRecorder
    clock: Clock
    observer: ClusterObserver
    standing: ClusterStanding = field(init=False)

    def __post_init__(self) -> None:
        self.standing = ClusterStanding(ReachState.UNREACHABLE, self.clock.now(), "not connected yet")

    def report(self, state: ReachState, message: str) -> None:
        """Set the standing. If the state or the message differs, report the new standing.

        If only the message differs, keep the start of the state.
        """
        if (state, message) == (self.standing.state, self.standing.message):
            return
        since = self.clock.now() if state != self.standing.state else self.standing.since
        self.standing = ClusterStanding(state, since, message)
        self.record()
        self.observer.print_notice("cluster", f"{state}: {message}" if message else str(state))

    def record(self) -> None:
        """Queue a write of the standing to the record of the cluster."""
        self.recorder.update(self.name, self.standing.recorded)
