"""Realistic objects of built-in kinds: both servers give the same answers, but for identity, time and addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tests.support.cluster.http_api import Api, Json
from tests.support.conformance.objects import collection, lines, objects

pytestmark = pytest.mark.cluster

_numbers = count()


_TIME = re.compile(r'"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"')
_GIVEN_OUT = frozenset({"uid", "resourceVersion", "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})


def comparable(answer: Any, obj: Json) -> Any:
    """What two servers must agree on."""
    if obj["kind"] == "DaemonSet":
        # The sandbox does not count templates.
        for where in (obj["metadata"], *(one["fieldsV1"].get("f:metadata", {}) for one in _entries(obj))):
            for name in ("annotations", "f:annotations"):
                where.pop(name, None)
    text = json.dumps(obj, sort_keys=True).replace(obj["metadata"]["uid"], "uid")
    known = json.loads(_TIME.sub('"time"', text))
    if obj["kind"] in ("PersistentVolumeClaim", "PersistentVolume"):
        # The sandbox runs no controller that would take these away again.
        known["metadata"].pop("finalizers", None)
    for entry in _entries(known):
        entry["fieldsV1"].get("f:metadata", {}) or entry["fieldsV1"].pop("f:metadata", None)
    return answer.code, _masked(known)


def _entries(obj: Json) -> list[Json]:
    found: list[Json] = obj["metadata"].get("managedFields") or []
    return found


def _masked(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: "given out" if name in _GIVEN_OUT and item != "None" and item != ["None"] else _masked(item)
                for name, item in value.items()
            }
        case list():
            return [_masked(item) for item in value]
        case _:
            return value


def steps(api: Api, obj: Json, namespace: str) -> Iterator[Any]:
    """Answers to a create, an apply by another manager, a merge patch, an update with what was read, a dry run."""
    many = collection(obj, namespace)
    one = f"{many}/{obj['metadata']['name']}"
    ask: list[Callable[[], Any]] = [
        lambda: api.post(f"{many}?fieldManager=m1&fieldValidation=Strict", obj),
        lambda: api.apply(one, obj, manager="m2", force=True),
        lambda: api.merge(f"{one}?fieldManager=m3", {"metadata": {"labels": {"l": "1"}}}),
        lambda: api.put(f"{one}?fieldManager=m4", api.get(one).body),
        lambda: api.apply(f"{one}?dryRun=All", {**obj, "metadata": {**obj["metadata"], "labels": {"l": "2"}}}),
        lambda: api.get(one),
    ]
    for step in ask:
        answer = step()
        body = answer.body
        yield comparable(answer, body) if answer.code < 300 else (answer.refusal, answer.causes)
    api.merge(one, {"metadata": {"finalizers": None}})
    api.delete(one)


@pytest.mark.parametrize("name", sorted(objects("x")))
def test_an_object_is_stored_alike(both: tuple[Api, Api], name: str) -> None:
    namespace = f"o{next(_numbers)}"
    obj = objects(namespace)[name]
    for api in both:
        assert api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
    real, sandbox = both
    for theirs, ours in zip(steps(real, obj, namespace), steps(sandbox, obj, namespace), strict=True):
        assert lines(ours) == lines(theirs)


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def shown(api: Api, obj: Json, namespace: str) -> list[tuple[Any, ...]]:
    """What `kubectl get -o wide` prints of an object: name, type, priority and cell of each column."""
    assert api.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
    many = collection(obj, namespace)
    one = f"{many}/{obj['metadata']['name']}"
    uid = api.post(many, obj).body["metadata"]["uid"]
    table = api.get(one, accept=TABLE).body
    found = []
    for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True):
        told = str(cell).replace(uid, "uid") if column["name"] not in _VARIES else ""
        found.append((column["name"], column["type"], column["priority"], told))
    api.merge(one, {"metadata": {"finalizers": None}})
    api.delete(one)
    return found


_VARIES = frozenset({"Age", "Created At", "Cluster-IP", "Port(s)", "Last Seen", "First Seen", "Duration"})


@pytest.mark.parametrize("name", sorted(objects("x")))
def test_an_object_is_printed_alike(both: tuple[Api, Api], name: str) -> None:
    namespace = f"p{next(_numbers)}"
    real, sandbox = (shown(api, objects(namespace)[name], namespace) for api in both)
    assert sandbox == real


CHOSEN = [{"key": "b", "operator": "In", "values": ["q", "p"]}, {"key": "c", "operator": "Exists"}]
CHOSEN += [{"key": "a", "operator": "NotIn", "values": ["z"]}, {"key": "d", "operator": "DoesNotExist"}]
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}}}
METRICS = [
    {"type": "Resource", "resource": {"name": name, "target": {"type": "AverageValue", "averageValue": "1"}}}
    for name in ("cpu", "memory", "ephemeral-storage")
]
SERVICE: Json = {"ports": [{"port": 80}], "type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
ABOUT = {"kind": "Pod", "name": "p", "namespace": "default"}
STARTED = "2026-01-02T03:04:05Z"
EVENT = {
    "reason": "R",
    "type": "Normal",
    "reportingInstance": "i",
    "action": "a",
    "eventTime": "2026-01-02T03:04:05.000000Z",
}


def _job(*conditions: str) -> Json:
    held = [{"type": one, "status": "True", "lastTransitionTime": STARTED} for one in conditions]
    return {"startTime": STARTED, "failed": 1, "conditions": held}


SHOWN: list[tuple[str, str, Json, Json | None]] = [
    ("networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": {"matchExpressions": CHOSEN}}}, None),
    ("batch/v1", "Job", {"spec": JOB}, _job("FailureTarget", "Failed")),
    ("batch/v1", "Job", {"spec": JOB}, _job("FailureTarget")),
    ("batch/v1", "CronJob", {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}}, None),
    ("v1", "Service", {"spec": SERVICE}, None),
    ("v1", "Service", {"spec": SERVICE}, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h.test"}]}}),
    ("networking.k8s.io/v1", "Ingress", {"spec": {"rules": [{"host": f"{name}.test"} for name in "abcd"]}}, None),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {**ROLE, "apiVersion": "apps/v1"}, "maxReplicas": 2, "metrics": METRICS}},
        None,
    ),
    ("v1", "PersistentVolumeClaim", {"spec": CLAIM}, {"phase": "Lost", "capacity": {"storage": "1Gi"}}),
    ("v1", "PersistentVolumeClaim", {"spec": {**CLAIM, "volumeName": "v"}}, {"phase": "Bound"}),
    (
        "networking.k8s.io/v1",
        "IngressClass",
        {"spec": {"controller": "a/b", "parameters": {"apiGroup": "k.test", "kind": "P", "name": "p"}}},
        None,
    ),
    ("v1", "Endpoints", {"subsets": [{"notReadyAddresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 80}]}]}, None),
    (
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        {"roleRef": ROLE, "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "n"} for name in "ab"]},
        None,
    ),
    (
        "events.k8s.io/v1",
        "Event",
        {**EVENT, "regarding": ABOUT, "note": " n ", "reportingController": "c.test/c"},
        None,
    ),
    (
        "v1",
        "Event",
        {"involvedObject": {**ABOUT, "fieldPath": "spec"}, "message": "m", "count": 2, "source": {"component": "c"}},
        None,
    ),
]


def printed(api: Api, obj: Json, status: Json | None) -> list[tuple[Any, ...]]:
    many = collection(obj, "default")
    one = f"{many}/{obj['metadata']['name']}"
    assert api.post(many, obj).code == 201
    if status:
        assert api.merge(f"{one}/status", {"status": status}).code == 200
    table = api.get(one, accept=TABLE).body
    api.merge(one, {"metadata": {"finalizers": None}})
    api.delete(one)
    columns = [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]]
    cells = zip(columns, table["rows"][0]["cells"], strict=True)
    varies = _VARIES | ({"Selector"} if obj["kind"] == "Job" else set())  # The Job's own uid.
    return [(*column, cell) for column, cell in cells if column[0] not in varies]


def test_statuses_are_printed_alike(both: tuple[Api, Api]) -> None:
    for number, (api_version, kind, content, status) in enumerate(SHOWN):
        metadata = {"name": f"shown-{number}"}
        obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
        real, ours = (printed(api, obj, status) for api in both)
        assert ours == real
