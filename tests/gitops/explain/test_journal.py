"""The journal of a cluster: transitions from Events, without those that only repeat a recorded action."""

from __future__ import annotations

from applier.causes import EventReason, Reason
from applier.cluster import ClusterName, Discovery, Object
from applier.recorded_cluster import RecordedCluster
from gitops.explain.journal import lines_about, read_journal, read_transitions
from gitops.reconcile.events import CONTROLLER, EVENT
from renderer import well_known
from renderer.identity import ObjectKey

SHOP = ObjectKey("kro.run", "WebApp", "prod", "shop")


def event(name: str, reason: str, at: str | None, kind: str = "Normal") -> tuple[ObjectKey, Object]:
    metadata = {"name": name, "namespace": "prod", "labels": {well_known.MANAGED_BY: CONTROLLER}}
    regarding = {"apiVersion": "kro.run/v1alpha1", "kind": "WebApp", "namespace": "prod", "name": "shop"}
    body = {"eventTime": at, "reason": reason, "note": name, "type": kind, "regarding": regarding}
    return ObjectKey(*EVENT, "prod", name), {"metadata": metadata, **body}


CLUSTER = RecordedCluster(
    ClusterName("prod-eu"),
    dict(
        [
            event("second", str(Reason.UNHEALTHY), "2026-11-20T12:01:00Z", "Warning"),
            event("first", str(EventReason.UPDATED), "2026-11-20T12:00:00Z"),
            event("no-time", str(EventReason.SETTLED), None),
        ]
    ),
    Discovery({}),
)


async def test_transitions_are_sorted_by_time_and_need_one() -> None:
    lines = await read_transitions(CLUSTER, None)
    assert [(line.text, line.is_warning) for line in lines] == [("first", False), ("second", True)]
    assert lines_about(lines, SHOP) == lines
    assert lines_about(lines, ObjectKey("kro.run", "WebApp", "prod", "cart")) == []


async def test_an_action_that_records_have_is_not_repeated_from_its_event() -> None:
    assert [line.text for line in await read_journal(CLUSTER, None)] == ["second"]
