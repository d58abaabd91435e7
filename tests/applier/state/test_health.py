"""Health as all that was observed tells it: claims that wait for a Pod, custom resources that are silent, and how long each answer holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applier.cluster import CONTENT_MANAGER, Discovery, Object
from applier.state.health import STORAGE_CLASS_KIND, health_of, health_reference
from applier.state.observed import Observed
from applier.status import KStatus
from renderer import well_known
from renderer.identity import ObjectKey

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PENDING = {"phase": "Pending"}


def obj(api_version: str, kind: str, name: str, *, part_of: str = "mine", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", **fields.pop("metadata", {})}
    metadata["labels"] = {well_known.PART_OF: part_of}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def claim(**fields: Any) -> Object:
    return obj(
        "v1", "PersistentVolumeClaim", "data", **{"spec": {"storageClassName": "local"}, "status": PENDING, **fields}
    )


def storage(binding: str) -> Object:
    found = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": binding}
    return {**found, "metadata": {"name": "local", "uid": "s", "resourceVersion": "1"}}


LATE = storage("WaitForFirstConsumer")
USING = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}], "containers": []}
TEMPLATE = {"template": {"spec": USING}}


def seen(*objects: Object, now: datetime | None = NOW) -> Observed:
    return Observed(Discovery({}), now=now).with_objects(objects)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], KStatus.CURRENT),
        ([obj("v1", "Pod", "p", spec=USING)], KStatus.IN_PROGRESS),
        ([obj("v1", "Pod", "p", spec=USING, status={"phase": "Succeeded"})], KStatus.CURRENT),
        ([obj("v1", "Pod", "p", spec=USING, part_of="other")], KStatus.CURRENT),
        ([obj("v1", "Pod", "p", spec=USING, metadata={"namespace": "elsewhere"})], KStatus.CURRENT),
        ([obj("apps/v1", "Deployment", "d", spec=TEMPLATE)], KStatus.IN_PROGRESS),
        ([obj("apps/v1", "Deployment", "d", spec={"replicas": 0, **TEMPLATE})], KStatus.CURRENT),
        ([obj("apps/v1", "DaemonSet", "d", spec=TEMPLATE)], KStatus.IN_PROGRESS),
        ([obj("batch/v1", "Job", "j", spec=TEMPLATE)], KStatus.IN_PROGRESS),
        (
            [
                obj(
                    "batch/v1",
                    "Job",
                    "j",
                    spec=TEMPLATE,
                    status={"conditions": [{"type": "Complete", "status": "True"}]},
                )
            ],
            KStatus.CURRENT,
        ),
        ([obj("batch/v1", "CronJob", "c", spec={"jobTemplate": {"spec": TEMPLATE}})], KStatus.CURRENT),
    ],
)
def test_a_claim_that_binds_on_first_use_waits_for_pods_of_its_set(others: list[Object], expected: KStatus) -> None:
    """Rulings, Health: Current while no live Pod of the set names it; whoever makes Pods of the set counts as its Pods."""
    assert health_of(claim(), seen(LATE, claim(), *others)).status is expected


@pytest.mark.parametrize(
    ("one", "classes"),
    [
        (claim(), [storage("Immediate")]),
        (claim(), []),
        (claim(spec={}), [LATE]),
        (claim(metadata={"annotations": {"volume.kubernetes.io/selected-node": "n1"}}), [LATE]),
        (claim(status={"phase": "Lost"}), [LATE]),
    ],
)
def test_any_other_claim_is_to_be_bound(one: Object, classes: list[Object]) -> None:
    assert health_of(one, seen(*classes, one)).status is KStatus.IN_PROGRESS


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (claim(), "local"),
        (claim(status={}), "local"),
        (claim(status={"phase": "Bound"}), None),
        (claim(spec={}), None),
        (obj("v1", "ConfigMap", "c"), None),
    ],
)
def test_only_a_claim_that_is_not_bound_needs_its_class(one: Object, named: str | None) -> None:
    assert health_reference(one) == (ObjectKey(*STORAGE_CLASS_KIND, "", named) if named else None)


def crd(**version: Any) -> Object:
    spec = {"group": "example.org", "names": {"kind": "Widget"}, "versions": [{"name": "v1", **version}]}
    metadata = {"name": "widgets.example.org", "uid": "w", "resourceVersion": "1"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


REPORTS = crd(subresources={"status": {}})


def widget(*, written: int, **fields: Any) -> Object:
    """Created an hour ago, applied by us so many seconds ago."""
    time = (NOW - timedelta(seconds=written)).isoformat()
    applied = {"manager": CONTENT_MANAGER, "operation": "Apply", "time": time, "fieldsV1": {}}
    metadata = {"creationTimestamp": (NOW - timedelta(hours=1)).isoformat(), "managedFields": [applied]}
    return obj("example.org/v1", "Widget", "w", metadata=metadata, **fields)


def test_a_silent_custom_resource_has_thirty_seconds_from_our_last_write() -> None:
    """Health: a custom resource whose CRD has a status subresource and that carries no status yet is InProgress for a while, then Current."""
    young = health_of(widget(written=29), seen(REPORTS))
    assert (young.status, young.until) == (KStatus.IN_PROGRESS, NOW + timedelta(seconds=1))
    old = health_of(widget(written=30), seen(REPORTS))
    assert (old.status, old.until) == (KStatus.CURRENT, None)


@pytest.mark.parametrize("known", [[], [crd()], [crd(subresources={"scale": {}})]])
def test_a_kind_that_reports_nothing_is_not_waited_for(known: list[Object]) -> None:
    assert health_of(widget(written=0), seen(*known)).status is KStatus.CURRENT


def test_a_custom_resource_that_has_spoken_is_judged_by_what_it_says() -> None:
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    assert health_of(widget(written=99, status=unready), seen(REPORTS)).status is KStatus.IN_PROGRESS
    assert health_of(widget(written=0, status={"phase": "x"}), seen(REPORTS)).status is KStatus.CURRENT


def test_an_unschedulable_pod_says_when_it_has_failed() -> None:
    since = NOW - timedelta(seconds=10)
    unplaced = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": since.isoformat(),
    }
    pod = obj("v1", "Pod", "p", status={**PENDING, "conditions": [unplaced]})
    assert health_of(pod, seen()).until == NOW + timedelta(seconds=5)
    assert health_of(pod, seen(now=NOW + timedelta(seconds=5))).status is KStatus.FAILED
