"""A status page of several clusters, without the clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from applier.cluster import ClusterName, parse_cluster_name
from applier.execute.results import Result
from gitops.daemon.cluster_standing import ClusterStanding
from gitops.daemon.fleet import Fleet
from gitops.daemon.fleet_environment import ClusterObserver
from gitops.fleet.cluster_record import NEW_RECORD, ClusterRecord, SourceSummary
from gitops.fleet.reach import ReachState
from gitops.reconcile.context import ReconcileResult
from tests.support.clock import START
from tests.support.monitoring.scene import Scene, scene


@dataclass
class RecorderStub:
    """A recorder of the fleet that holds its records."""

    records: dict[ClusterName, ClusterRecord] = field(default_factory=dict)


@dataclass
class EnvironmentStub:
    """An environment of the fleet with a recorder alone."""

    recorder: RecorderStub = field(default_factory=RecorderStub)


@dataclass
class StandingFleet:
    """Clusters in given states, seen by the daemon of a scene."""

    seen: Scene
    members: dict[ClusterName, StandingMember] = field(default_factory=dict)
    environment: EnvironmentStub = field(default_factory=EnvironmentStub)
    observers: dict[str, ClusterObserver] = field(default_factory=dict)

    def add(self, text: str, state: ReachState = ReachState.ENGAGED, message: str = "") -> ClusterObserver:
        name = parse_cluster_name(text)
        observer = self.observers[text] = self.seen.seen.observe(name, SilentObserver())
        self.members[name] = StandingMember(name, ClusterStanding(state, START, message))
        return observer

    def record(self, text: str, state: str = "Engaged", **sources: SourceSummary) -> None:
        record = replace(NEW_RECORD, state=state, since=START, sources=sources)
        self.environment.recorder.records[parse_cluster_name(text)] = record


@asynccontextmanager
async def fleet_scene(clusters: Mapping[str, ReachState], **options: Any) -> AsyncIterator[tuple[Scene, StandingFleet]]:
    """Open a scene with these clusters in these states."""
    async with scene(has_fleet=True, **options) as seen:
        assert seen.seen.fleet is not None
        standing = StandingFleet(seen)
        seen.seen.fleet.fleet = cast(Fleet, standing)
        for name, state in clusters.items():
            standing.add(name, state, "it does not answer" if state is ReachState.UNREACHABLE else "")
        yield seen, standing


@dataclass
class SilentObserver:
    """An observer of a cluster that only keeps the calls."""

    heard: list[object] = field(default_factory=list)

    def report_pass(self, reconcile_result: ReconcileResult) -> None:
        self.heard.append(reconcile_result)

    def print_result(self, result: Result) -> None:
        self.heard.append(result)

    def print_notice(self, source: str, text: str) -> None:
        self.heard.append((source, text))


@dataclass
class StandingMember:
    """A member as far as viewers ask it."""

    name: ClusterName
    standing: ClusterStanding
    loop: None = None
    answers: Counter[tuple[str, int]] = field(default_factory=lambda: Counter({("get", 200): 1}))
