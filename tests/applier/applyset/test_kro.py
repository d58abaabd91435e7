"""Signs that kro still runs in a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applier.applyset import kro
from applier.cluster import Discovery, Object, parse_cluster_name
from applier.recorded_cluster import RecordedCluster
from renderer.identity import ObjectKey

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def recorded(*objects: Object) -> RecordedCluster:
    by_key = {ObjectKey.from_manifest(obj): obj for obj in objects}
    return RecordedCluster(parse_cluster_name("noon"), by_key, Discovery({}))


def lease(renewed: datetime, **spec: Any) -> Object:
    metadata = {"name": kro.LEASE_NAME, "namespace": "kro-system"}
    content = {"holderIdentity": "kro-1", "leaseDurationSeconds": 15, "renewTime": renewed.isoformat(), **spec}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": content}


def deployment(replicas: int) -> Object:
    metadata = {"name": "kro", "namespace": "kro-system", "labels": {"app.kubernetes.io/name": "kro"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], ""),
        ([deployment(0)], ""),
        ([deployment(1)], "Deployment.apps/kro-system/kro has replicas"),
        (
            [lease(NOW - timedelta(seconds=14))],
            "Lease.coordination.k8s.io/kro-system/6f0f64a5.kro.run is held by kro-1",
        ),
        ([lease(NOW - timedelta(seconds=16))], ""),
        ([lease(NOW, holderIdentity="")], ""),
    ],
)
async def test_replicas_and_a_held_lease_show_it(objects: list[Object], expected: str) -> None:
    assert await kro.describe_running(recorded(*objects), NOW) == expected


async def test_definitions_name_the_kinds_that_they_define() -> None:
    spec = {"schema": {"kind": "Link"}}
    definition = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "links"}}
    found = await kro.list_definitions(recorded({**definition, "spec": spec}))
    assert [str(kind) for kind in found.values()] == ["Link.kro.run"]
