"""The scale subresource, which `kubectl scale` and autoscalers use."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.support.cluster.http_api import APPLY, Api, Json
from tests.support.conformance.builtin import PATHS, SELECTED, create
from tests.support.conformance.custom import DEFINITIONS, definition, established

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
IDENTITY = {"kind": "Scale", "apiVersion": "autoscaling/v1"}


@pytest.fixture
def path(api: Api, home: str) -> str:
    """A Deployment of one replica."""
    create(api, home, "Deployment")
    return f"{PATHS['Deployment'].format(home)}/x"


@pytest.fixture
def widget(api: Api, home: str) -> Iterator[str]:
    """An object of a custom kind whose size is its replicas: 2."""
    group = f"g{uuid4().hex[:8]}.test"
    crd = definition(group)
    version = crd["spec"]["versions"][0]
    version["subresources"]["scale"] = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.count",
        "labelSelectorPath": ".status.pods",
    }
    status: Json = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    status |= {"count": {"type": "integer"}, "pods": {"type": "string"}}
    assert api.post(DEFINITIONS, crd).code == 201
    assert api.eventually(lambda: established(api, f"widgets.{group}"))
    widgets = f"/apis/{group}/v1/namespaces/{home}/widgets"
    assert api.eventually(lambda: api.get(widgets).code == 200)
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"size": 2}}
    assert api.post(widgets, body).code == 201
    yield f"{widgets}/x"
    api.delete(f"{DEFINITIONS}/widgets.{group}")


def test_an_object_shows_its_scale(api: Api, path: str) -> None:
    scale, obj = api.get(f"{path}/scale").body, api.get(path).body
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert scale == {
        **IDENTITY,
        "metadata": {name: obj["metadata"][name] for name in names},
        "spec": {"replicas": 1},
        "status": {"replicas": 0, "selector": "app=x"},
    }


def test_a_selector_as_text(api: Api, home: str) -> None:
    expressions = [
        {"key": "tier", "operator": "NotIn", "values": ["b", "a"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "app", "operator": "Exists"},
    ]
    spec = copy.deepcopy(SELECTED) | {"selector": {"matchLabels": {"app": "x"}, "matchExpressions": expressions}}
    create(api, home, "Deployment", spec=spec)
    shown = api.get(f"{PATHS['Deployment'].format(home)}/x/scale").body["status"]["selector"]
    assert sorted(shown.split(",")) == sorted("app,app=x,!old,tier notin (a,b)".split(","))


def managers(obj: Json) -> dict[tuple[str, str], Any]:
    entries = obj["metadata"]["managedFields"]
    return {(one["manager"], one.get("subresource", "")): one for one in entries}


def test_an_update_of_the_scale_is_one_of_the_object(api: Api, path: str) -> None:
    body = {**IDENTITY, "metadata": {"name": "x", "labels": {"l": "1"}}, "spec": {"replicas": 3}}
    answer = api.put(f"{path}/scale?fieldManager=m2", body)
    assert (answer.code, answer.body["spec"], answer.body["kind"]) == (200, {"replicas": 3}, "Scale")
    obj = api.get(path).body
    assert (obj["spec"]["replicas"], obj["metadata"]["generation"]) == (3, 2)
    assert "labels" not in obj["metadata"]
    assert obj["metadata"]["resourceVersion"] == answer.body["metadata"]["resourceVersion"]
    entry = managers(obj)["m2", "scale"]
    assert entry["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert (entry["apiVersion"], "time" in entry) == ("apps/v1", False)


@pytest.mark.parametrize("count", [5, 0])
def test_a_patch_of_the_scale(api: Api, path: str, count: int) -> None:
    assert api.merge(f"{path}/scale", {"spec": {"replicas": count}}).body["spec"] == (
        {"replicas": count} if count else {}
    )
    assert api.get(path).body["spec"]["replicas"] == count
    operation = [{"op": "add", "path": "/spec/replicas", "value": 4}]
    assert api.json_patch(f"{path}/scale", operation).body["spec"] == {"replicas": 4}
    version = api.get(path).body["metadata"]["resourceVersion"]
    assert api.merge(f"{path}/scale", {"spec": {"replicas": 4}}).body["metadata"]["resourceVersion"] == version
    assert api.merge(f"{path}/scale?dryRun=All", {"spec": {"replicas": 9}}).body["spec"] == {"replicas": 9}
    assert api.get(path).body["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"spec": {"replicas": -1}}, (422, "Invalid")),
        ({"spec": {"replicas": "x"}}, (422, "Invalid")),
        ({"metadata": {"resourceVersion": "1"}}, (409, "Conflict")),
        ({"metadata": {"name": "other"}}, (400, "BadRequest")),
    ],
)
def test_a_patch_that_is_refused(api: Api, path: str, body: Json, refusal: tuple[int, str]) -> None:
    assert api.merge(f"{path}/scale", body).refusal == refusal


def test_what_has_no_scale(api: Api, home: str, path: str) -> None:
    create(api, home, "DaemonSet")
    assert api.get(f"{PATHS['DaemonSet'].format(home)}/x/scale").refusal == (404, "NotFound")
    absent = path.removesuffix("x") + "absent"
    for answer in (api.get(f"{absent}/scale"), api.merge(f"{absent}/scale", {"spec": {"replicas": 1}})):
        assert answer.refusal == (404, "NotFound")
        assert answer.body["details"]["kind"] == "deployments"


def test_the_scale_of_a_custom_object(api: Api, widget: str) -> None:
    shown = api.get(f"{widget}/scale").body
    assert (shown["spec"], shown["status"]) == ({"replicas": 2}, {"replicas": 0})
    api.merge(f"{widget}/status", {"status": {"count": 1, "pods": "a=b"}})
    assert api.get(f"{widget}/scale").body["status"] == {"replicas": 1, "selector": "a=b"}
    assert api.merge(f"{widget}/scale?fieldManager=m2", {"spec": {"replicas": 4}}).body["spec"] == {"replicas": 4}
    obj = api.get(widget).body
    assert (obj["spec"]["size"], obj["metadata"]["generation"]) == (4, 2)
    assert managers(obj)["m2", "scale"]["fieldsV1"] == {"f:spec": {"f:size": {}}}
    for count in (0, -1):
        assert api.merge(f"{widget}/scale", {"spec": {"replicas": count}}).refusal == (422, "Invalid")


def test_a_scale_for_people(api: Api, path: str) -> None:
    table = api.get(f"{path}/scale", accept=TABLE).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["x", 1, 0]


def test_discovery_knows_scales(api: Api) -> None:
    entries = {entry["name"]: entry for entry in api.get("/apis/apps/v1").body["resources"]}
    scale = entries["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert sorted(scale["verbs"]) == ["get", "patch", "update"]
    assert "daemonsets/scale" not in entries


def test_an_apply_takes_the_replicas_from_whoever_scaled(api: Api, path: str) -> None:
    """The conflict that one meets who applies `replicas` beside an autoscaler."""
    api.merge(f"{path}/scale?fieldManager=autoscaler", {"spec": {"replicas": 4}})
    intent = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"replicas": 2}}
    refused = api.request("PATCH", f"{path}?fieldManager=git", intent, content_type=APPLY)
    assert refused.causes == [("FieldManagerConflict", ".spec.replicas")]
    assert 'conflict with "autoscaler" with subresource "scale"' in refused.body["message"]
