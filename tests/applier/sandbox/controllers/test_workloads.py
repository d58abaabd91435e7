"""What controllers report, by script and by the clock of the test."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from applier.sandbox.controllers.workloads import Behaviour, BehaviourSource, Outcome, WorkloadScript
from applier.sandbox.server import Sandbox
from applier.sandbox.storage.store import StoredKey
from applier.sandbox.wire import Request
from applier.status import KStatus, health

Json = dict[str, Any]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class TimedSandbox:
    """A sandbox whose time stands still until the test moves it."""

    def __init__(self, script: BehaviourSource) -> None:
        self.time = 1_800_000_000.0
        self.sandbox = Sandbox(clock=lambda: self.time, script=script)

    def request(self, method: str, path: str, body: Any = None) -> Json:
        headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
        answer = self.sandbox.handle(Request(method, path, headers, b"" if body is None else orjson.dumps(body)))
        assert answer.status < 300, answer.body
        found: Json = orjson.loads(answer.body)
        return found

    def after(self, seconds: float, path: str) -> Json:
        self.time += seconds
        self.sandbox.tick_until_stable()
        return self.request("GET", path)


def template() -> Json:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}


def deployment(name: str = "web", replicas: int = 4) -> Json:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template()}
    return {"metadata": {"name": name}, "spec": spec}


def told(status: Json) -> list[tuple[str, str, str]]:
    return [(one["type"], one["status"], one["reason"]) for one in status["conditions"]]


def is_healthy(world: TimedSandbox, obj: Json) -> bool:
    return health(obj, now=datetime.fromtimestamp(world.time, UTC)).status is KStatus.CURRENT


def test_a_deployment_becomes_available_step_by_step() -> None:
    world = TimedSandbox(WorkloadScript(default=Behaviour(seconds=4)))
    world.request("POST", DEPLOYMENTS, deployment())
    begun = world.after(0, f"{DEPLOYMENTS}/web")
    assert (begun["status"]["replicas"], begun["status"]["unavailableReplicas"]) == (4, 4)
    assert told(begun["status"]) == [
        ("Available", "False", "MinimumReplicasUnavailable"),
        ("Progressing", "True", "ReplicaSetUpdated"),
    ]
    assert not is_healthy(world, begun)
    assert world.after(2, f"{DEPLOYMENTS}/web")["status"]["availableReplicas"] == 2
    done = world.after(2, f"{DEPLOYMENTS}/web")
    assert told(done["status"]) == [
        ("Available", "True", "MinimumReplicasAvailable"),
        ("Progressing", "True", "NewReplicaSetAvailable"),
    ]
    assert is_healthy(world, done)
    assert "unavailableReplicas" not in done["status"]
    again = world.after(100, f"{DEPLOYMENTS}/web")
    assert again["metadata"]["resourceVersion"] == done["metadata"]["resourceVersion"]


def test_an_update_keeps_what_is_available() -> None:
    world = TimedSandbox(WorkloadScript(default=Behaviour(seconds=4)))
    world.request("POST", DEPLOYMENTS, deployment())
    world.after(0, f"{DEPLOYMENTS}/web")
    world.after(4, f"{DEPLOYMENTS}/web")
    world.request("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"template": {"spec": {"priority": 1}}}})
    begun = world.after(0, f"{DEPLOYMENTS}/web")
    assert begun["status"]["observedGeneration"] == 2
    assert begun["status"]["availableReplicas"] == 4
    assert "updatedReplicas" not in begun["status"]
    assert not is_healthy(world, begun)
    assert is_healthy(world, world.after(4, f"{DEPLOYMENTS}/web"))


def test_what_is_made_anew_gets_a_status_of_its_own() -> None:
    """Deleted and created between two looks: the new one has the generation of the old one."""
    world = TimedSandbox(WorkloadScript())
    world.request("POST", DEPLOYMENTS, deployment())
    world.after(0, f"{DEPLOYMENTS}/web")
    world.request("DELETE", f"{DEPLOYMENTS}/web")
    world.request("POST", DEPLOYMENTS, deployment())
    assert is_healthy(world, world.after(0, f"{DEPLOYMENTS}/web"))


def test_the_status_belongs_to_the_controllers() -> None:
    world = TimedSandbox(WorkloadScript())
    world.request("POST", DEPLOYMENTS, deployment())
    entries = world.after(0, f"{DEPLOYMENTS}/web")["metadata"]["managedFields"]
    assert [one["manager"] for one in entries if one.get("subresource") == "status"] == ["kube-controller-manager"]
    assert [one["manager"] for one in entries if "subresource" not in one] == ["unknown"]


@pytest.mark.parametrize(
    ("outcome", "reasons"),
    [
        ("fail", ["ReplicaSetUpdated", "ProgressDeadlineExceeded", "ProgressDeadlineExceeded"]),
        ("hang", ["ReplicaSetUpdated", "ReplicaSetUpdated", "ReplicaSetUpdated"]),
        ("flap", ["ReplicaSetUpdated", "NewReplicaSetAvailable", "ReplicaSetUpdated"]),
    ],
)
def test_a_deployment_that_does_not_go_well(outcome: Outcome, reasons: list[str]) -> None:
    class WebAlone:
        def behaviour(self, key: StoredKey) -> Behaviour:
            return Behaviour(outcome, 5) if key.name == "web" else Behaviour()

    world = TimedSandbox(WebAlone())
    world.request("POST", DEPLOYMENTS, deployment())
    world.request("POST", DEPLOYMENTS, deployment("other"))
    found = [world.after(seconds, f"{DEPLOYMENTS}/web")["status"]["conditions"][1]["reason"] for seconds in (0, 5, 5)]
    assert found == reasons
    assert is_healthy(world, world.after(0, f"{DEPLOYMENTS}/other"))


def made(kind: str, spec: Json) -> Json:
    return {"kind": kind, "metadata": {"name": "x"}, "spec": spec}


SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": template()}
JOB = {"template": {"spec": {**template()["spec"], "restartPolicy": "Never"}}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}


@pytest.mark.parametrize(
    ("collection", "body"),
    [
        ("/apis/apps/v1/namespaces/default/statefulsets", made("StatefulSet", {**SELECTED, "serviceName": "x"})),
        ("/apis/apps/v1/namespaces/default/daemonsets", made("DaemonSet", SELECTED)),
        ("/apis/apps/v1/namespaces/default/replicasets", made("ReplicaSet", SELECTED)),
        ("/apis/batch/v1/namespaces/default/jobs", made("Job", JOB)),
        ("/api/v1/namespaces/default/pods", made("Pod", template()["spec"])),
        ("/api/v1/namespaces/default/persistentvolumeclaims", made("PersistentVolumeClaim", CLAIM)),
    ],
)
def test_every_workload_gets_healthy_in_time(collection: str, body: Json) -> None:
    world = TimedSandbox(WorkloadScript(default=Behaviour(seconds=2)))
    world.request("POST", collection, body)
    assert not is_healthy(world, world.after(0, f"{collection}/x"))
    assert is_healthy(world, world.after(2, f"{collection}/x"))


def test_a_failed_job_says_so() -> None:
    world = TimedSandbox(WorkloadScript(default=Behaviour("fail")))
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    world.request("POST", jobs, made("Job", JOB))
    failed = world.after(0, f"{jobs}/x")
    assert ("Failed", "True", "BackoffLimitExceeded") in told(failed["status"])


def test_a_load_balancer_gets_an_address_that_leads_nowhere() -> None:
    world = TimedSandbox(WorkloadScript(default=Behaviour(seconds=2)))
    services = "/api/v1/namespaces/default/services"
    world.request("POST", services, made("Service", {"ports": [{"port": 80}]}))
    assert world.after(5, f"{services}/x")["status"] == {"loadBalancer": {}}
    world.request("PATCH", f"{services}/x", {"spec": {"type": "LoadBalancer"}})
    assert world.after(0, f"{services}/x")["status"] == {"loadBalancer": {}}
    (address,) = world.after(2, f"{services}/x")["status"]["loadBalancer"]["ingress"]
    assert address["ip"].startswith("192.0.2.")


def test_a_volume_claim_is_bound() -> None:
    world = TimedSandbox(WorkloadScript())
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    world.request("POST", claims, made("PersistentVolumeClaim", CLAIM))
    bound = world.after(0, f"{claims}/x")
    assert (bound["status"]["phase"], bound["status"]["capacity"]) == ("Bound", {"storage": "2Gi"})
    assert bound["spec"]["volumeName"] == f"pvc-{bound['metadata']['uid']}"
