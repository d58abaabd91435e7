"""Removal of a cluster: when it is drained, what its record says meanwhile, and how a person ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from applier.applyset.inventory import Scope
from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.cluster import Discovery, Object, parse_cluster_name
from applier.errors import Denied
from applier.plan.model import ApplySetPlan, Plan
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.state.observed import Observed
from gitops.clock import SystemClock
from gitops.daemon.cluster_removal import ClusterRemoval, RemovalGivenUp, is_drained
from gitops.daemon.cluster_standing import StandingReporter
from gitops.daemon.fleet_environment import ClusterObserver, FleetEnvironment
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.fleet_objects import clusters_in
from gitops.fleet.fleet_recorder import FleetRecorder
from gitops.fleet.reach import ReachState
from gitops.reconcile.context import ReconcileResult
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.render.model import RenderedApplySet, Rendering
from tests.support.fleet_documents import cluster, objects_in, read

PARENT = source_parent("platform")
INSTANCE = ObjectKey("g.test", "Link", "default", "x")


def member(name: str, kind: str = "ConfigMap", api: str = "v1", parent: ObjectKey = PARENT) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": "1"}
    labels = {well_known.PART_OF: applyset_id(parent)}
    return {"apiVersion": api, "kind": kind, "metadata": {**metadata, "labels": labels}}


def kept(live: Object, blocked: Reason = Reason.HELD) -> PruneCandidate:
    return PruneCandidate(Member.from_object(live), PruneOutcome.KEEP, blocked=Cause(blocked, "because"))


def plan_of(parent: ObjectKey, *candidates: PruneCandidate) -> ApplySetPlan:
    rendered = RenderedApplySet(parent=parent, nodes=(), source="platform")
    return ApplySetPlan(rendered, None, Scope(), prune_candidates=candidates)


def full_pass(live: Sequence[Object], *plans: ApplySetPlan) -> ReconcileResult:
    observed = Observed(Discovery({})).with_objects(live)
    return ReconcileResult(Rendering({}, {}), Plan(plans), observed, ())


def test_a_cluster_with_nothing_of_ours_is_drained() -> None:
    assert is_drained(full_pass([], plan_of(PARENT)))


def test_a_member_that_is_to_go_is_waited_for() -> None:
    live = member("a")
    candidate = PruneCandidate(Member.from_object(live), PruneOutcome.DELETE)
    assert not is_drained(full_pass([live], plan_of(PARENT, candidate)))


def test_a_kept_instance_stays_with_all_that_it_owns() -> None:
    instance = member("x", "Link", "g.test/v1")
    owned = member("a", parent=INSTANCE)
    assert is_drained(full_pass([instance, owned], plan_of(PARENT, kept(instance)), plan_of(INSTANCE)))
    assert not is_drained(full_pass([instance, owned], plan_of(PARENT), plan_of(INSTANCE)))


def test_a_member_that_is_kept_until_another_is_written_is_waited_for() -> None:
    live = member("a")
    assert is_drained(full_pass([live], plan_of(PARENT, kept(live))))
    assert not is_drained(full_pass([live], plan_of(PARENT, kept(live, Reason.DEPENDENCY_NOT_READY))))


def test_a_pass_that_has_not_seen_everything_tells_nothing() -> None:
    found = full_pass([], plan_of(PARENT))
    unreadable = replace(found.observed, unreadable={GroupKind("", "Secret"): Denied("forbidden")})
    assert not is_drained(replace(found, observed=unreadable))
    assert not is_drained(replace(found, touched=()))
    assert not is_drained(replace(found, holds_pruning=True))


@dataclass
class Notices:
    texts: list[str] = field(default_factory=list)

    def print_notice(self, _subject: str, text: str) -> None:
        self.texts.append(text)


@dataclass
class RemovalScene:
    removal: ClusterRemoval
    recorder: FleetRecorder
    notices: Notices


def spec_of(name: str) -> ClusterSpec:
    catalog = read({"c": cluster(name)})
    assert objects_in(catalog).problems == ()
    return next(clusters_in(catalog.destinations))


@pytest.fixture
def scene() -> RemovalScene:
    spec, clock, notices = spec_of("eu-1"), SystemClock(), Notices()
    recorder = FleetRecorder(cluster_of(Sandbox().answer), clock, notices.print_notice)
    environment = cast(FleetEnvironment, SimpleNamespace(recorder=recorder, clock=clock, hub_id="hub"))
    reporter = StandingReporter(spec.name, recorder, clock, cast(ClusterObserver, notices))
    return RemovalScene(ClusterRemoval(spec, environment, reporter), recorder, notices)


async def test_a_removal_is_recorded_until_it_is_finished(scene: RemovalScene) -> None:
    await scene.recorder.write(scene.removal.name, {"uid": "u-1"})
    record = await scene.removal.begin()
    assert record
    assert record.uid == "u-1"
    stored = await scene.recorder.refresh(scene.removal.name)
    assert stored
    assert (stored.state, stored.message) == (
        ReachState.REMOVED,
        "no longer declared in Git; the objects deployed there stay",
    )
    assert stored.spec
    assert stored.spec.manifest == scene.removal.spec.manifest
    await scene.removal.finish()
    assert await scene.removal.begin() is None
    assert scene.notices.texts[-1] == "removed"


async def test_a_removal_that_a_person_has_given_up_ends_and_loses_its_record(scene: RemovalScene) -> None:
    await scene.recorder.write(
        scene.removal.name, {"uid": "u-1", "state": "Removed", "since": datetime(2026, 11, 20, tzinfo=UTC)}
    )
    await scene.recorder.write(scene.removal.name, {"forgotten": "ana: it burned"})
    with pytest.raises(RemovalGivenUp, match="ana: it burned"):
        await scene.removal.begin()
    await scene.removal.give_up("ana: it burned")
    assert await scene.recorder.refresh(parse_cluster_name("eu-1")) is None
    assert scene.notices.texts == ["a person stopped the removal: ana: it burned; the objects in the cluster stay"]
