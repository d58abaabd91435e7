"""The kstatus rules, row by row, and our answers to its traps."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from applier.applyset.member import describe_deletion
from applier.cluster import Object
from applier.status import HealthResult, KStatus, health, is_fresh, is_ready_by_existence

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)  # noqa: UP017 - read as people write it
CURRENT, PROGRESS, FAILED = KStatus.CURRENT, KStatus.IN_PROGRESS, KStatus.FAILED


def obj(kind: str, status: Object | None = None, *, spec: Object | None = None, **metadata: Any) -> Object:
    """`kind` is `apiVersion/Kind`."""
    api_version, _, name = kind.rpartition("/")
    made: Object = {"apiVersion": api_version, "kind": name, "metadata": {"name": "x", **metadata}}
    return made | ({"spec": spec} if spec is not None else {}) | ({"status": status} if status is not None else {})


def condition(kind: str, status: str = "True", reason: str = "", **more: Any) -> Object:
    return {"type": kind, "status": status, "reason": reason, **more}


def ago(seconds: int) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def counts(**numbers: int) -> Object:
    return dict(numbers)


DEPLOYMENT = "apps/v1/Deployment"
ROLLED_OUT = [condition("Progressing", reason="NewReplicaSetAvailable"), condition("Available")]
DEPLOYED = {
    "replicas": 2,
    "updatedReplicas": 2,
    "availableReplicas": 2,
    "readyReplicas": 2,
    "conditions": ROLLED_OUT,
}
TWO = {"replicas": 2, "progressDeadlineSeconds": 600}
LATE = condition("Progressing", "False", "ProgressDeadlineExceeded", message="too slow")

SET = "apps/v1/StatefulSet"
RUN = {"replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3}
SAME = {"currentRevision": "a", "updateRevision": "a"}
PARTITION = {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}}

DAEMON = "apps/v1/DaemonSet"
NODES = {
    "observedGeneration": 1,
    "desiredNumberScheduled": 2,
    "currentNumberScheduled": 2,
    "updatedNumberScheduled": 2,
    "numberAvailable": 2,
    "numberReady": 2,
}
REPLICA_SET = "apps/v1/ReplicaSet"
LABELLED = {"replicas": 2, "fullyLabeledReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}

POD, JOB = "v1/Pod", "batch/v1/Job"
UNSCHEDULABLE = condition("PodScheduled", "False", "Unschedulable", lastTransitionTime=ago(15))
CRASH = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
CRD = "apiextensions.k8s.io/v1/CustomResourceDefinition"
WIDGET = "example.org/v1/Widget"

LEFT = condition(
    "NamespaceFinalizersRemaining",
    "True",
    "SomeFinalizersRemain",
    message="Some content in the namespace has finalizers remaining: example.org/hold in 1 resource instances",
)

GENERIC: list[tuple[str, Object, KStatus]] = [
    ("deleted", obj("v1/ConfigMap", deletionTimestamp=ago(5), finalizers=["a", "b"]), KStatus.TERMINATING),
    ("deleted comes first", obj(DEPLOYMENT, {"conditions": [LATE]}, deletionTimestamp=ago(5)), KStatus.TERMINATING),
    ("generation not observed", obj(WIDGET, {"observedGeneration": 1}, generation=2), PROGRESS),
    ("generation ahead of us", obj(WIDGET, {"observedGeneration": -1}, generation=1), PROGRESS),
    ("generation not published", obj(WIDGET, {}, generation=2), CURRENT),
    ("generation before conditions", obj(WIDGET, {"observedGeneration": 1, "conditions": [condition("Stalled")]}, generation=2), PROGRESS),
    ("reconciling", obj(WIDGET, {"conditions": [condition("Reconciling"), condition("Stalled")]}), PROGRESS),
    ("stalled", obj(WIDGET, {"conditions": [condition("Stalled"), condition("Reconciling")]}), FAILED),
    ("not stalled", obj(WIDGET, {"conditions": [condition("Stalled", "False")]}), CURRENT),
    ("ready", obj(WIDGET, {"conditions": [condition("Ready")]}), CURRENT),
    ("not ready", obj(WIDGET, {"conditions": [condition("Ready", "False")]}), PROGRESS),
    ("ready unknown", obj(WIDGET, {"conditions": [condition("Ready", "Unknown")]}), PROGRESS),
    ("other conditions", obj(WIDGET, {"conditions": [condition("Synced", "False")]}), CURRENT),
    ("no status", obj(WIDGET), CURRENT),
    ("conditions that are none", obj(WIDGET, {"conditions": {"a": 1}}), CURRENT),
    ("conditions of odd shape", obj(WIDGET, {"conditions": ["a", {}]}), CURRENT),
    ("status that is none", obj(WIDGET, "text"), CURRENT),  # type: ignore[arg-type]
    ("no rule", obj("networking.k8s.io/v1/Ingress", {"loadBalancer": {}}), CURRENT),
    ("kind of another group", obj("example.org/v1/Deployment", {}), CURRENT),
]  # fmt: skip

UPDATING = [condition("Progressing", reason="ReplicaSetUpdated"), condition("Available")]
AVAILABLE = [condition("Available")]
ENDLESS = TWO | {"progressDeadlineSeconds": 2**31 - 1}

DEPLOYMENTS: list[tuple[str, Object, KStatus]] = [
    ("no status yet", obj(DEPLOYMENT, {}, spec=TWO), PROGRESS),
    ("deadline", obj(DEPLOYMENT, DEPLOYED | {"conditions": [LATE]}, spec=TWO), FAILED),
    ("too few", obj(DEPLOYMENT, DEPLOYED | counts(replicas=1), spec=TWO), PROGRESS),
    ("one by default", obj(DEPLOYMENT, {"conditions": ROLLED_OUT}, spec={"progressDeadlineSeconds": 600}), PROGRESS),
    ("not updated", obj(DEPLOYMENT, DEPLOYED | counts(updatedReplicas=1), spec=TWO), PROGRESS),
    ("old Pods", obj(DEPLOYMENT, DEPLOYED | counts(replicas=3), spec=TWO), PROGRESS),
    ("not available", obj(DEPLOYMENT, DEPLOYED | counts(availableReplicas=1), spec=TWO), PROGRESS),
    ("not ready", obj(DEPLOYMENT, DEPLOYED | counts(readyReplicas=1), spec=TWO), PROGRESS),
    ("still progressing", obj(DEPLOYMENT, DEPLOYED | {"conditions": UPDATING}, spec=TWO), PROGRESS),
    ("without deadline", obj(DEPLOYMENT, DEPLOYED | {"conditions": AVAILABLE}, spec={"replicas": 2}), CURRENT),
    ("endless deadline", obj(DEPLOYMENT, DEPLOYED | {"conditions": AVAILABLE}, spec=ENDLESS), CURRENT),
    ("condition Available", obj(DEPLOYMENT, DEPLOYED | {"conditions": ROLLED_OUT[:1]}, spec=TWO), PROGRESS),
    ("done", obj(DEPLOYMENT, DEPLOYED, spec=TWO), CURRENT),
    ("zero", obj(DEPLOYMENT, {"conditions": ROLLED_OUT}, spec={"replicas": 0}), CURRENT),
    ("extensions", obj("extensions/v1beta1/Deployment", {}, spec=TWO), PROGRESS),
]  # fmt: skip

WORKLOADS: list[tuple[str, Object, KStatus]] = [
    ("replica set failure", obj(REPLICA_SET, LABELLED | {"conditions": [condition("ReplicaFailure")]}, spec={"replicas": 2}), PROGRESS),
    ("replica set labelled", obj(REPLICA_SET, LABELLED | counts(fullyLabeledReplicas=1), spec={"replicas": 2}), PROGRESS),
    ("replica set available", obj(REPLICA_SET, LABELLED | counts(availableReplicas=1), spec={"replicas": 2}), PROGRESS),
    ("replica set ready", obj(REPLICA_SET, LABELLED | counts(readyReplicas=1), spec={"replicas": 2}), PROGRESS),
    ("replica set old Pods", obj(REPLICA_SET, LABELLED, spec={}), PROGRESS),
    ("replica set done", obj(REPLICA_SET, LABELLED, spec={"replicas": 2}), CURRENT),
    ("stateful set OnDelete", obj(SET, {}, spec={"updateStrategy": {"type": "OnDelete"}}), CURRENT),
    ("stateful set created", obj(SET, {}, spec={"replicas": 3}), PROGRESS),
    ("stateful set ready", obj(SET, RUN | SAME | counts(readyReplicas=2), spec={"replicas": 3}), PROGRESS),
    ("stateful set old Pods", obj(SET, RUN | SAME, spec={"replicas": 2}), PROGRESS),
    ("stateful set partition", obj(SET, RUN | counts(updatedReplicas=1), spec=PARTITION), PROGRESS),
    ("stateful set partition done", obj(SET, RUN | counts(updatedReplicas=2, currentReplicas=0), spec=PARTITION), CURRENT),
    ("stateful set current", obj(SET, RUN | SAME | counts(currentReplicas=1), spec={"replicas": 3}), PROGRESS),
    ("stateful set revision", obj(SET, RUN | SAME | {"updateRevision": "b"}, spec={"replicas": 3}), PROGRESS),
    ("stateful set done", obj(SET, RUN | SAME, spec={"replicas": 3}), CURRENT),
    ("daemon set without generation", obj(DAEMON, NODES), PROGRESS),
    ("daemon set not observed", obj(DAEMON, {}, generation=1), PROGRESS),
    ("daemon set nodes", obj(DAEMON, {"observedGeneration": 1}, generation=1), PROGRESS),
    ("daemon set scheduled", obj(DAEMON, NODES | counts(currentNumberScheduled=1), generation=1), PROGRESS),
    ("daemon set updated", obj(DAEMON, NODES | counts(updatedNumberScheduled=1), generation=1), PROGRESS),
    ("daemon set available", obj(DAEMON, NODES | counts(numberAvailable=1), generation=1), PROGRESS),
    ("daemon set ready", obj(DAEMON, NODES | counts(numberReady=1), generation=1), PROGRESS),
    ("daemon set done", obj(DAEMON, NODES, generation=1), CURRENT),
    ("daemon set without nodes", obj(DAEMON, {"observedGeneration": 1, "desiredNumberScheduled": 0}, generation=1), CURRENT),
]  # fmt: skip

PODS: list[tuple[str, Object, KStatus]] = [
    ("no phase", obj(POD, {}), PROGRESS),
    ("pending", obj(POD, {"phase": "Pending"}), PROGRESS),
    ("unschedulable", obj(POD, {"phase": "Pending", "conditions": [UNSCHEDULABLE]}), FAILED),
    ("unschedulable for 14 s", obj(POD, {"phase": "Pending", "conditions": [UNSCHEDULABLE | {"lastTransitionTime": ago(14)}]}), PROGRESS),
    ("unschedulable since when", obj(POD, {"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable")]}), PROGRESS),
    ("not scheduled", obj(POD, {"phase": "Pending", "conditions": [UNSCHEDULABLE | {"reason": "SchedulingGated"}]}), PROGRESS),
    ("running", obj(POD, {"phase": "Running"}), PROGRESS),
    ("crashing", obj(POD, {"phase": "Running", "containerStatuses": [CRASH]}), FAILED),
    ("crashing sidecar", obj(POD, {"phase": "Running", "initContainerStatuses": [CRASH]}), FAILED),
    ("waiting", obj(POD, {"phase": "Running", "containerStatuses": [{"name": "a", "state": {"waiting": None}}, {"name": "b"}]}), PROGRESS),
    ("ready", obj(POD, {"phase": "Running", "conditions": [condition("Ready")]}), CURRENT),
    ("ready and crashing", obj(POD, {"phase": "Running", "containerStatuses": [CRASH], "conditions": [condition("Ready")]}), CURRENT),
    ("succeeded", obj(POD, {"phase": "Succeeded"}), CURRENT),
    ("failed alone", obj(POD, {"phase": "Failed", "reason": "Evicted"}), FAILED),
    ("failed with an owner", obj(POD, {"phase": "Failed"}, ownerReferences=[{"kind": "Job"}]), FAILED),
    ("failed under a controller", obj(POD, {"phase": "Failed"}, ownerReferences=[{"kind": "Job", "controller": True}]), CURRENT),
    ("strange", obj(POD, {"phase": "Unknown"}), KStatus.UNKNOWN),
]  # fmt: skip

OTHERS: list[tuple[str, Object, KStatus]] = [
    ("job not started", obj(JOB, {}), PROGRESS),
    ("job running", obj(JOB, {"startTime": ago(5), "active": 1}), PROGRESS),
    ("job complete", obj(JOB, {"startTime": ago(5), "conditions": [condition("Complete")]}), CURRENT),
    ("job failed", obj(JOB, {"startTime": ago(5), "conditions": [condition("Failed")]}), FAILED),
    ("job suspended", obj(JOB, {"conditions": [condition("Suspended")]}, spec={"suspend": True}), CURRENT),
    ("job resumed", obj(JOB, {"conditions": [condition("Suspended")]}, spec={"suspend": False}), PROGRESS),
    ("job not failed", obj(JOB, {"startTime": ago(5), "conditions": [condition("Failed", "False")]}), PROGRESS),
    ("cron job", obj("batch/v1/CronJob", {}), CURRENT),
    ("config map", obj("v1/ConfigMap"), CURRENT),
    ("secret", obj("v1/Secret"), CURRENT),
    ("budget", obj("policy/v1/PodDisruptionBudget", {"conditions": [condition("Ready", "False")]}), CURRENT),
    ("budget not observed", obj("policy/v1/PodDisruptionBudget", {"observedGeneration": 1}, generation=2), PROGRESS),
    ("claim", obj("v1/PersistentVolumeClaim", {"phase": "Pending"}), PROGRESS),
    ("new claim", obj("v1/PersistentVolumeClaim"), PROGRESS),
    ("bound claim", obj("v1/PersistentVolumeClaim", {"phase": "Bound"}), CURRENT),
    ("service", obj("v1/Service", spec={"clusterIP": ""}), CURRENT),
    ("load balancer", obj("v1/Service", spec={"type": "LoadBalancer", "clusterIP": "10.0.0.1"}), CURRENT),
    ("load balancer without address", obj("v1/Service", spec={"type": "LoadBalancer"}), PROGRESS),
    ("crd new", obj(CRD, {}), PROGRESS),
    ("crd installing", obj(CRD, {"conditions": [condition("Established", "False", "Installing")]}), PROGRESS),
    ("crd established", obj(CRD, {"conditions": [condition("Established"), condition("NamesAccepted")]}), CURRENT),
    ("crd not established", obj(CRD, {"conditions": [condition("Established", "False", "NotAccepted")]}), FAILED),
    ("crd names", obj(CRD, {"conditions": [condition("Established"), condition("NamesAccepted", "False")]}), FAILED),
]  # fmt: skip

TABLE = GENERIC + DEPLOYMENTS + WORKLOADS + PODS + OTHERS


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_rule(given: Object, expected: KStatus) -> None:
    found = health(given, now=NOW)
    assert found.status is expected
    assert found.message


def test_absent() -> None:
    assert health(None).status is KStatus.NOT_FOUND


def test_messages_say_what_was_seen() -> None:
    assert health(GENERIC[0][1]).message == f"deleted at {ago(5)}, waits for a, b"
    assert health(obj(DEPLOYMENT, {"conditions": [LATE]})) == HealthResult(
        FAILED, "Progressing=False (ProgressDeadlineExceeded): too slow"
    )
    assert health(obj(SET, counts(replicas=3, readyReplicas=1), spec={"replicas": 3})).message == "1 of 3 ready"


def test_without_a_clock_nothing_is_old() -> None:
    stuck = obj(POD, {"phase": "Pending", "conditions": [UNSCHEDULABLE]})
    assert health(stuck).status is PROGRESS
    assert health(obj(WIDGET, creationTimestamp=ago(9999)), reports_status=True).status is PROGRESS


@pytest.mark.parametrize(
    ("given", "since", "expected"),
    [
        (obj(WIDGET, creationTimestamp=ago(30)), None, CURRENT),
        (obj(WIDGET, creationTimestamp=ago(29)), None, PROGRESS),
        (obj(WIDGET, {}, creationTimestamp=ago(1)), None, PROGRESS),
        (obj(WIDGET, creationTimestamp=ago(999)), NOW - timedelta(seconds=5), PROGRESS),
        (obj(WIDGET, {"phase": "x"}, creationTimestamp=ago(1)), None, CURRENT),
        (obj(WIDGET), None, PROGRESS),
        (obj(DEPLOYMENT, DEPLOYED, spec=TWO, creationTimestamp=ago(1)), None, CURRENT),
    ],
)
def test_a_resource_that_will_report_gets_time_to(given: Object, since: datetime | None, expected: KStatus) -> None:
    assert health(given, now=NOW, since=since, reports_status=True).status is expected


@pytest.mark.parametrize(
    ("status", "expected"), [({}, CURRENT), ({"phase": "Pending"}, CURRENT), ({"phase": "Lost"}, PROGRESS)]
)
def test_a_claim_that_binds_on_first_use(status: Object, expected: KStatus) -> None:
    assert health(obj("v1/PersistentVolumeClaim", status), awaits_consumer=True).status is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, PROGRESS),
        ({"conditions": [condition("Ready")]}, PROGRESS),
        ({"conditions": [condition("Healthy", observedGeneration=2)]}, CURRENT),
        ({"conditions": [condition("Healthy", observedGeneration=1)]}, PROGRESS),
        ({"conditions": [condition("Healthy")]}, PROGRESS),
        ({"observedGeneration": 2, "conditions": [condition("Healthy")]}, CURRENT),
        ({"conditions": [condition("Healthy", "False", observedGeneration=2)]}, PROGRESS),
        ({"observedGeneration": 1, "conditions": [condition("Healthy", observedGeneration=2)]}, PROGRESS),
    ],
)
def test_an_instance_of_ours(status: Object, expected: KStatus) -> None:
    assert health(obj(WIDGET, status, generation=2), is_instance=True).status is expected


def test_an_instance_that_is_deleted_is_terminating() -> None:
    going = obj(WIDGET, {"conditions": [condition("Healthy")]}, deletionTimestamp=ago(1))
    assert health(going, is_instance=True).status is KStatus.TERMINATING


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (obj("v1/ConfigMap"), True),
        (obj(WIDGET, {}, generation=3), True),
        (obj(WIDGET, {"observedGeneration": 3}, generation=3), True),
        (obj(WIDGET, {"observedGeneration": 2}, generation=3), False),
        (obj(DEPLOYMENT, {}, generation=1), False),
        (obj(DEPLOYMENT, {"observedGeneration": 1}, generation=1), True),
        (obj(SET, generation=1), False),
        (obj(DAEMON, {}, generation=1), False),
        (obj(REPLICA_SET, {}, generation=1), False),
        (obj("policy/v1/PodDisruptionBudget", {}, generation=1), False),
        (obj("autoscaling/v2/HorizontalPodAutoscaler", {}), True),
        (obj("batch/v1/Job", {}, generation=1), True),
    ],
)
def test_freshness(given: Object, expected: bool) -> None:
    assert is_fresh(given) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, False),
        (obj("v1/ConfigMap"), True),
        (obj("v1/ConfigMap", deletionTimestamp=ago(1)), False),
        (obj("v1/PersistentVolumeClaim", {"phase": "Pending"}), True),
        (obj(DEPLOYMENT, {}, spec=TWO), True),
        (obj(DEPLOYMENT, {"observedGeneration": 1}, generation=2), True),
        (obj("v1/Namespace"), False),
        (obj("v1/Namespace", {"phase": "Terminating"}), False),
        (obj("v1/Namespace", {"phase": "Active"}), True),
        (obj("example.org/v1/Namespace"), True),
        (obj(CRD, {"conditions": [condition("Established")]}), False),
        (obj(CRD, {"conditions": [condition("Established"), condition("NamesAccepted")]}), True),
        (obj(CRD, {"conditions": [condition("Established", "False"), condition("NamesAccepted")]}), False),
        (obj(CRD), False),
    ],
)
def test_dependents_may_start(given: Object | None, expected: bool) -> None:
    assert is_ready_by_existence(given) is expected


def test_a_namespace_that_was_deleted_says_what_is_left_in_it() -> None:
    """Its finalizer is no metadata; without this nobody would know for what it waits (core/v1, conditions of a Namespace)."""
    gone = condition("NamespaceContentRemaining", "False", "ContentRemoved", message="All content successfully removed")
    going = obj(
        "v1/Namespace", {"phase": "Terminating", "conditions": [gone, LEFT]}, deletionTimestamp="2026-11-20T12:00:00Z"
    )
    told = "has finalizers remaining: example.org/hold in 1 resource instances"
    assert health(going).status is KStatus.TERMINATING
    assert health(going).message.endswith(told)
    assert (
        describe_deletion(going)
        == f"is being deleted (requested at 2026-11-20T12:00:00Z): Some content in the namespace {told}"
    )
    assert describe_deletion(obj("v1/Namespace", deletionTimestamp="now")) == "is being deleted (requested at now)"
