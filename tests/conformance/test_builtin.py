"""Built-in kinds: defaults that people see, what is required, what may not change."""

from __future__ import annotations

import copy
import json
from typing import Any
from uuid import uuid4

import pytest

from tests.support.cluster.http_api import Api, Json
from tests.support.conformance.builtin import BODIES, CLAIM, ONCE, PATHS, SELECTED, TEMPLATE, create

VARIES = frozenset({"uid", "resourceVersion", "creationTimestamp", "namespace", "managedFields"})


def content(obj: Json) -> Json:
    """What two servers must agree on: all but identity, time, and addresses that were given out."""
    found = copy.deepcopy(obj)
    found["metadata"] = {name: value for name, value in obj["metadata"].items() if name not in VARIES}
    # The sandbox runs no controller that would take this finalizer away again, and counts no templates.
    if obj["kind"] == "PersistentVolumeClaim":
        found["metadata"].pop("finalizers", None)
    if obj["kind"] == "DaemonSet":
        found["metadata"].pop("annotations", None)
    spec = found.get("spec") or {}
    for name in ("clusterIP", "clusterIPs"):
        if name in spec:
            spec[name] = "given out"
    return found


@pytest.mark.cluster
@pytest.mark.parametrize("kind", sorted(BODIES))
def test_an_object_is_filled_in_alike(both: tuple[Api, Api], kind: str) -> None:
    real, sandbox = (content(created(api, kind)) for api in both)
    assert sandbox == real


def created(api: Api, kind: str) -> Json:
    home = f"c-{uuid4().hex[:8]}"
    assert api.post("/api/v1/namespaces", {"metadata": {"name": home}}).code == 201
    obj = create(api, home, kind)
    if kind == "Job":
        obj = _without_uid(obj)
    return obj


def _without_uid(obj: Json) -> Json:
    """A Job names its own uid in its selector."""
    found: Json = json.loads(json.dumps(obj).replace(obj["metadata"]["uid"], "uid"))
    return found


@pytest.mark.parametrize(
    ("kind", "patch", "cause"),
    [
        ("Deployment", {"spec": {"selector": {"matchLabels": {"app": "y"}}}}, ("FieldValueInvalid", "spec.selector")),
        ("DaemonSet", {"spec": {"selector": {"matchLabels": {"app": "y"}}}}, ("FieldValueInvalid", "spec.selector")),
        ("StatefulSet", {"spec": {"serviceName": "other"}}, ("FieldValueForbidden", "spec")),
        ("Job", {"spec": {"template": {"spec": {"priorityClassName": "x"}}}}, ("FieldValueInvalid", "spec.template")),
        ("Service", {"spec": {"clusterIP": "10.0.0.77"}}, ("FieldValueInvalid", "spec.clusterIPs[0]")),
        ("RoleBinding", {"roleRef": {"name": "other"}}, ("FieldValueInvalid", "roleRef")),
        ("PersistentVolumeClaim", {"spec": {"accessModes": ["ReadOnlyMany"]}}, ("FieldValueForbidden", "spec")),
        ("Secret", {"type": "other"}, ("FieldValueInvalid", "type")),
        (
            "Deployment",
            {"spec": {"template": {"spec": {"containers": []}}}},
            ("FieldValueRequired", "spec.template.spec.containers"),
        ),
        ("Service", {"spec": {"type": "Other"}}, ("FieldValueNotSupported", "spec.type")),
        ("HorizontalPodAutoscaler", {"spec": {"maxReplicas": 0}}, ("FieldValueInvalid", "spec.maxReplicas")),
    ],
)
def test_what_may_not_be(api: Api, home: str, kind: str, patch: Json, cause: tuple[str, str]) -> None:
    create(api, home, kind)
    answer = api.merge(f"{PATHS[kind].format(home)}/x", patch)
    assert answer.refusal == (422, "Invalid"), answer.body
    assert cause in answer.causes


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_immutable_data(api: Api, home: str, kind: str) -> None:
    create(api, home, kind, immutable=True)
    path = f"{PATHS[kind].format(home)}/x"
    changed = api.merge(path, {"data": {"a": "Mg=="}})
    assert (changed.refusal, changed.causes) == ((422, "Invalid"), [("FieldValueForbidden", "data")])
    lifted = api.merge(path, {"immutable": None})
    assert lifted.causes == [("FieldValueForbidden", "immutable")]
    assert api.merge(path, {"metadata": {"labels": {"l": "1"}}}).code == 200


def test_a_whole_number_with_a_fraction(api: Api, home: str) -> None:
    """Such as an expression of doubles gives: applied it is a number of replicas, created it is none."""
    path = PATHS["Deployment"].format(home)
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
    body = {**deployment, "spec": {**SELECTED, "replicas": 2.0}}
    assert api.post(path, body).refusal == (400, "BadRequest")
    assert str(api.apply(f"{path}/x", body).body["spec"]["replicas"]) == "2"
    assert api.merge(f"{path}/x", {"spec": {"replicas": 3.0}}).refusal == (422, "Invalid")


def test_a_selector_that_does_not_find_its_own_pods(api: Api, home: str) -> None:
    spec = {**SELECTED, "selector": {"matchLabels": {"app": "other"}}}
    answer = api.post(PATHS["Deployment"].format(home), {"metadata": {"name": "x"}, "spec": spec})
    assert answer.refusal == (422, "Invalid")
    assert ("FieldValueInvalid", "spec.template.metadata.labels") in answer.causes


def test_the_generation_counts_changes_of_the_spec(api: Api, home: str) -> None:
    assert create(api, home, "Deployment")["metadata"]["generation"] == 1
    path = f"{PATHS['Deployment'].format(home)}/x"
    assert api.merge(path, {"metadata": {"labels": {"a": "1"}}}).body["metadata"]["generation"] == 1
    assert api.merge(path, {"spec": {"replicas": 3}}).body["metadata"]["generation"] == 2
    assert api.merge(f"{path}/status", {"status": {"replicas": 3}}).body["metadata"]["generation"] == 2
    # Deployments count their annotations too.
    assert api.merge(path, {"metadata": {"annotations": {"a": "1"}}}).body["metadata"]["generation"] == 3
    assert "generation" not in create(api, home, "ConfigMap")["metadata"]


def test_a_service_keeps_its_address(api: Api, home: str) -> None:
    address = create(api, home, "Service")["spec"]["clusterIP"]
    path = f"{PATHS['Service'].format(home)}/x"
    body = {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 81}]}}
    assert api.put(path, body).body["spec"]["clusterIP"] == address
    assert api.merge(path, {"spec": {"selector": {"a": "b"}}}).body["spec"]["clusterIP"] == address


OF_ADDRESSES = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ("NodePort", "ClusterIP", {"externalTrafficPolicy"}),
        ("LoadBalancer", "ClusterIP", {"externalTrafficPolicy", "allocateLoadBalancerNodePorts"}),
        ("LoadBalancer", "NodePort", {"allocateLoadBalancerNodePorts"}),
        ("ClusterIP", "ExternalName", set(OF_ADDRESSES) | {"internalTrafficPolicy"}),
    ],
)
def test_a_service_that_changes_its_type(api: Api, home: str, before: str, after: str, gone: set[str]) -> None:
    first = create(api, home, "Service", spec={**BODIES["Service"]["spec"], "type": before})["spec"]
    name = {"externalName": "example.com"} if after == "ExternalName" else {}
    patch = {"spec": {"type": after, **name}}
    second = api.merge(f"{PATHS['Service'].format(home)}/x", patch).body["spec"]
    assert first.keys() - second.keys() == gone
    assert ("nodePort" in second["ports"][0]) == (after in ("NodePort", "LoadBalancer"))


def test_nobody_owns_the_addresses_of_a_service(api: Api, home: str) -> None:
    (entry,) = create(api, home, "Service")["metadata"]["managedFields"]
    assert not entry["fieldsV1"]["f:spec"].keys() & {f"f:{name}" for name in OF_ADDRESSES}


def test_the_status_of_some_kinds_is_written_with_labels(api: Api, home: str) -> None:
    """Not that of a Deployment, nor of custom kinds."""
    for kind, labels in (("Service", {"l": "1"}), ("Deployment", None)):
        create(api, home, kind)
        patch = {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}}, "spec": {"selector": {"n": "o"}}}
        found = api.merge(f"{PATHS[kind].format(home)}/x/status", patch).body
        assert (found["metadata"].get("labels"), found["metadata"].get("annotations")) == (labels, {"a": "1"})
        assert "n" not in found["spec"]["selector"]


def test_what_the_schema_requires_and_the_server_does_not(api: Api, home: str) -> None:
    limits = api.post(f"/api/v1/namespaces/{home}/limitranges", {"metadata": {"name": "x"}})
    create(api, home, "PersistentVolumeClaim", spec={**CLAIM, "dataSource": {}})
    spec = copy.deepcopy(SELECTED)
    spec["template"]["spec"]["securityContext"] = {"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}
    create(api, home, "Deployment", spec=spec)
    assert limits.code == 201


PORTS = [{"containerPort": 70000, "name": "toolongtoolongtoolong"}, {"containerPort": 0}]
BOTH = [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]


@pytest.mark.cluster
@pytest.mark.parametrize(
    "container",
    [
        {"image": None},
        {"image": ""},
        {"name": ""},
        {"name": "A_b"},
        {"ports": PORTS},
        {"env": BOTH},
        {"env": [{"name": "A", "valueFrom": {}}]},
        {"env": [{"value": "a"}]},
        {"volumeMounts": [{"name": "absent", "mountPath": "/x"}]},
        {"imagePullPolicy": "Sometimes"},
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}},
        {"resources": {"limits": {"cpu": "-1"}}},
        {"livenessProbe": {"periodSeconds": 3}},
        {"livenessProbe": {"httpGet": {"port": 1}, "exec": {"command": ["x"]}}},
    ],
)
def test_a_container_that_cannot_be(both: tuple[Api, Api], container: Json) -> None:
    spec = copy.deepcopy(SELECTED)
    spec["template"]["spec"]["containers"][0].update(container)
    path = f"{PATHS['Deployment'].format('default')}?dryRun=All"
    real, sandbox = (api.post(path, {"metadata": {"name": "x"}, "spec": spec}) for api in both)
    assert sandbox.refusal == real.refusal == (422, "Invalid")
    assert sandbox.body["details"]["causes"] == real.body["details"]["causes"]


@pytest.mark.cluster
@pytest.mark.parametrize(
    "spec",
    [
        {"ports": [{"port": 80, "nodePort": 30001}]},
        {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]},
        {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
        {"type": "ExternalName"},
        {"ports": [{"port": 80}], "clusterIP": "300.1.1.1"},
        {"ports": [{"port": 80}], "selector": {"a b": "c"}},
        {"ports": []},
    ],
)
def test_a_service_that_cannot_be(both: tuple[Api, Api], spec: Json) -> None:
    path = f"{PATHS['Service'].format('default')}?dryRun=All"
    real, sandbox = (api.post(path, {"metadata": {"name": "x"}, "spec": spec}) for api in both)
    assert sandbox.refusal == real.refusal == (422, "Invalid")
    assert sandbox.causes == real.causes


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("kind", "policy"), [("Deployment", "Never"), ("Job", "Always"), ("Job", "Sometimes"), ("CronJob", "Always")]
)
def test_how_the_pods_of_a_kind_may_restart(both: tuple[Api, Api], kind: str, policy: str) -> None:
    body: Json = copy.deepcopy(BODIES[kind])
    holder = body["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else body["spec"]
    holder["template"]["spec"]["restartPolicy"] = policy
    path = f"{PATHS[kind].format('default')}?dryRun=All"
    real, sandbox = (api.post(path, {"metadata": {"name": "x"}, **body}) for api in both)
    assert (sandbox.refusal, sandbox.causes) == (real.refusal, real.causes)


PATHS |= {
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "IngressClass": "/apis/networking.k8s.io/v1/ingressclasses",
}


def with_container(**fields: Any) -> Json:
    container = {"name": "c", "image": "c", **fields}
    return {"spec": {**SELECTED, "template": {**TEMPLATE, "spec": {"containers": [container]}}}}


def with_volume(**source: Json) -> Json:
    container = {"name": "c", "image": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    pod = {"containers": [container], "volumes": [{"name": "v", **source}]}
    return {"spec": {**SELECTED, "template": {**TEMPLATE, "spec": pod}}}


def with_backend(backend: Json) -> Json:
    return {"spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]}}


SOURCES: list[Json] = [{}, {"configMapRef": {}}, {"secretRef": {}}]
PROBES: list[Json] = [{"exec": {}}, {"httpGet": {}}, {"tcpSocket": {"port": -1}}, {"httpGet": {"port": "web"}}]
FORGOTTEN: list[tuple[str, Json]] = [
    *(("Deployment", with_container(envFrom=[source])) for source in SOURCES),
    *(
        ("Deployment", with_container(env=[{"name": "A", "valueFrom": {source: {"key": "k"}}}]))
        for source in ("configMapKeyRef", "secretKeyRef")
    ),
    *(("Deployment", with_container(livenessProbe=probe)) for probe in PROBES),
    ("Deployment", with_container(readinessProbe={"grpc": {"port": 1}, "periodSeconds": -1})),
    ("Deployment", with_container(lifecycle={"preStop": {"exec": {"command": []}}})),
    *(("Deployment", with_volume(**{source: {}})) for source in ("configMap", "secret", "emptyDir")),
    *(
        ("Deployment", {"spec": {**SELECTED, name: -1}})
        for name in ("replicas", "minReadySeconds", "revisionHistoryLimit")
    ),
    *(("Job", {"spec": {"template": ONCE, name: -1}}) for name in ("backoffLimit", "completions", "parallelism")),
    ("CronJob", {"spec": {**BODIES["CronJob"]["spec"], "startingDeadlineSeconds": -1}}),
    ("Ingress", {"spec": {}}),
    *(
        ("Ingress", with_backend(one))
        for one in ({}, {"service": {"name": "s"}}, {"service": {"name": "s", "port": {}}})
    ),
    ("Ingress", {"spec": {"defaultBackend": {}}}),
    ("IngressClass", {"spec": {}}),
    *(("Role", {"rules": [{"verbs": ["get"], **rule}]}) for rule in ({}, {"resources": ["pods"]}, {"apiGroups": [""]})),
    *(("ClusterRole", {"rules": [{"verbs": ["get"], **rule}]}) for rule in ({}, {"nonResourceURLs": ["/x"]})),
]


@pytest.mark.cluster
def test_what_people_forget(both: tuple[Api, Api]) -> None:
    found = []
    for api in both:
        answers: dict[str, Any] = {}
        for kind, body in FORGOTTEN:
            answer = api.post(f"{PATHS[kind].format('default')}?dryRun=All", {"metadata": {"name": "x"}, **body})
            answers[f"{kind} {body}"] = answer.code, answer.causes
        found.append(answers)
    real, ours = found
    assert ours == real
    assert {201, 422} == {code for code, _ in real.values()}


NAMED = ("ConfigMap", "CronJob", "PodDisruptionBudget", "RoleBinding", "Service", "StatefulSet")


@pytest.mark.cluster
def test_names_that_kinds_take(both: tuple[Api, Api]) -> None:
    found = []
    for api in both:
        answers: dict[str, Any] = {}
        for name in ("a.b", "a_b", "A", "1a", "-a", ".", "a%b", "a" * 52, "a" * 53, "a" * 63, "a" * 64, "a" * 254):
            for kind in NAMED:
                body = {**BODIES[kind], "metadata": {"name": name}}
                answer = api.post(f"{PATHS[kind].format('default')}?dryRun=All", body)
                answers[f"{kind} {name}"] = answer.code, answer.causes
        found.append(answers)
    real, ours = found
    assert ours == real


def test_text_of_a_secret_is_stored_as_data(api: Api, home: str) -> None:
    secret = create(api, home, "Secret")
    assert (secret["data"], secret["type"]) == ({"a": "MQ=="}, "Opaque")
    assert "stringData" not in secret


def test_null_is_an_empty_text_in_a_map_of_texts(api: Api, home: str) -> None:
    body = {"metadata": {"name": "n", "labels": {"a": None}, "annotations": None}, "data": {"a": None}}
    answer = api.post(PATHS["ConfigMap"].format(home), body)
    assert (answer.code, answer.body["metadata"]["labels"], answer.body["data"]) == (201, {"a": ""}, {"a": ""})
    assert "annotations" not in answer.body["metadata"]
