"""What reaches every cluster of a fleet by the time alone: resyncs, and moments that a pass has named."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from applier.cluster import ClusterName, parse_cluster_name
from gitops.daemon.cluster_loop import ClusterLoop
from gitops.daemon.daemon import Daemon
from gitops.daemon.fleet import Fleet
from gitops.daemon.fleet_environment import FleetEnvironment
from gitops.daemon.fleet_member import FleetMember
from gitops.daemon.timers import Timers
from gitops.fleet.projections import FleetProjections
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import Catalog


@dataclass
class Loop:
    """A cluster's loop that only counts."""

    resyncs: int = 0
    timers: int = 0
    changes: int = 0
    reconciler: Any = field(default_factory=SimpleNamespace)

    def resync(self) -> None:
        self.resyncs += 1

    def on_timer(self) -> None:
        self.timers += 1

    def sources_changed(self) -> None:
        self.changes += 1


@dataclass
class Looped(FleetMember):
    """A member with such a loop, or with none: it is not engaged."""

    spec: Any = None
    environment: Any = None
    states: Any = None
    observer: Any = None
    wake_at: Any = None
    earlier: Any = None
    loop: ClusterLoop | None = field(default=None)

    def __post_init__(self) -> None:
        """It stands nowhere."""


C0, C1 = parse_cluster_name("c0"), parse_cluster_name("c1")


def fleet_of(loops: dict[ClusterName, Loop | None]) -> Fleet:
    fleet = Fleet(cast(FleetEnvironment, None), FleetProjections("platform"), cast(Any, None), dict)
    fleet.members = {name: Looped(loop=cast(ClusterLoop, loop)) for name, loop in loops.items()}
    return fleet


def test_a_resync_reaches_all_clusters_that_are_engaged() -> None:
    loops: dict[ClusterName, Loop | None] = {C0: Loop(), C1: None}
    fleet_of(loops).resync()
    assert loops[C0] == Loop(resyncs=1)


def test_a_source_that_is_read_after_the_engagement_is_followed() -> None:
    """The record of the installation names what a person may ask for in this cluster."""
    loop, states = Loop(), [SourceState(Catalog(source="platform")), SourceState(Catalog(source="apps"))]
    Looped(states=lambda _: states, loop=cast(ClusterLoop, loop)).sources_changed()
    assert (loop.reconciler.follows, loop.changes) == ({"platform", "apps"}, 1)


def test_a_moment_of_one_cluster_wakes_that_one() -> None:
    """Two clusters have a timer each: that of the one does not replace that of the other."""
    loops: dict[ClusterName, Loop | None] = {C0: Loop(), C1: Loop()}

    async def run() -> None:
        fleet, daemon = fleet_of(loops), Daemon.__new__(Daemon)
        async with Timers() as daemon._timers:
            soon = datetime.now(UTC) + timedelta(seconds=0.1)
            daemon._set_cluster_timer(fleet, C0, soon)
            daemon._set_cluster_timer(fleet, C1, soon)
            daemon._set_cluster_timer(fleet, C1, None)
            daemon._set_cluster_timer(fleet, parse_cluster_name("gone"), soon)
            await asyncio.sleep(0.5)

    asyncio.run(run())
    assert loops == {C0: Loop(timers=1), C1: Loop()}
