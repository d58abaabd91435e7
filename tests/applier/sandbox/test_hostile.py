"""Whatever a client sends, the sandbox answers as a server does: it does not raise, hang, or store what it cannot read."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applier.cluster import Object
from applier.sandbox.merge.json_patch import PatchError, apply_json_patch
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from renderer.merge_patch import apply_merge_patch
from tests.support.conformance.custom import DEFINITIONS, definition
from tests.support.conformance.objects import OBJECTS, collection

CONFIGS = "/api/v1/namespaces/default/configmaps"
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=5)
)
FIELDS = st.sampled_from(
    "apiVersion kind metadata name namespace labels annotations finalizers ownerReferences managedFields uid spec data "
    "status resourceVersion generation deletionTimestamp replicas template versions names group selector ports".split()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=3), inner, max_size=5),
)
KINDS = st.sampled_from(
    [
        ("v1", "ConfigMap", CONFIGS),
        ("v1", "Secret", "/api/v1/namespaces/default/secrets"),
        ("v1", "Service", "/api/v1/namespaces/default/services"),
        ("v1", "Namespace", "/api/v1/namespaces"),
        ("apps/v1", "Deployment", "/apis/apps/v1/namespaces/default/deployments"),
        ("v1", "Service", "/api/v1/namespaces/default/services"),
        ("v1", "Pod", "/api/v1/namespaces/default/pods"),
        ("batch/v1", "Job", "/apis/batch/v1/namespaces/default/jobs"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITIONS),
        ("h.test/v1", "Widget", "/apis/h.test/v1/namespaces/default/widgets"),
    ]
)
TYPES = st.sampled_from(
    [
        "application/json",
        "application/apply-patch+yaml",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
    ]
)
QUERIES = st.sampled_from(
    ["", "fieldManager=m&force=true", "fieldManager=m", "dryRun=All", "fieldValidation=Strict", "labelSelector=a in (b"]
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Mostly requests that are almost right."""
    api_version, kind, path = draw(KINDS)
    name = draw(st.sampled_from(["", "/a", "/widgets.h.test", "/a/status"]))
    body = draw(st.dictionaries(FIELDS, VALUES, max_size=5)) | {"apiVersion": api_version, "kind": kind}
    if draw(st.booleans()):
        body["metadata"] = {"name": (name or "/a").split("/")[1]} | draw(st.dictionaries(FIELDS, VALUES, max_size=2))
    content = draw(st.just(orjson.dumps(body)) | st.binary(max_size=20) | VALUES.map(orjson.dumps))
    method = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "WHAT"]))
    return Request(method, f"{path}{name}?{draw(QUERIES)}", {"content-type": draw(TYPES)}, content)


def answered(sandbox: Sandbox, request: Request) -> Response:
    response = sandbox.handle(request)
    assert 200 <= response.status < 600
    if response.content_type == "application/json":
        orjson.loads(response.body)
    return response


@settings(max_examples=40, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=15))
def test_requests_that_are_almost_right(sent: list[Request]) -> None:
    sandbox = Sandbox()
    answered(sandbox, Request("POST", DEFINITIONS, {}, orjson.dumps(definition("h.test"))))
    for request in sent:
        answered(sandbox, request)
        sandbox.tick()
    sandbox.tick_until_stable()
    # What was stored can be read, in every shape.
    for kind in filter(None, map(sandbox.state.kinds.find_resource, sandbox.state.store.resources())):
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        for shape in ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"):
            assert answered(sandbox, Request("GET", f"{root}/{kind.plural}", {"accept": shape})).status == 200


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, Any]:
    """A path and a realistic object for it, in which some values are others, or missing."""
    api_version, kind, content = OBJECTS[draw(st.sampled_from(sorted(OBJECTS)))]
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **json.loads(json.dumps(content))}
    many = collection(obj, "default")
    for _ in range(draw(st.integers(1, 3))):
        place: Any = obj
        while True:
            step = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            inner = place[step]
            if not isinstance(inner, dict | list) or not inner or draw(st.integers(0, 4)) == 0:
                break
            place = inner
        if draw(st.booleans()) or isinstance(place, list):
            place[step] = draw(VALUES | st.sampled_from(["", 0, -1, {}, [], [None], [{}], {"a": {}}, "-1", "1.5Gi"]))
        elif place is not obj:
            del place[step]
    return many, obj


@settings(max_examples=300, deadline=None)
@given(spoilt(), spoilt())
def test_objects_that_are_almost_right(first: tuple[str, Any], second: tuple[str, Any]) -> None:
    sandbox = Sandbox()
    for many, obj in (first, second):
        answered(sandbox, Request("POST", many, {}, orjson.dumps(obj)))
        for content_type in ("application/apply-patch+yaml", "application/merge-patch+json"):
            target = f"{many}/x?fieldManager=m&force=true" if "apply" in content_type else f"{many}/x"
            answered(sandbox, Request("PATCH", target, {"content-type": content_type}, orjson.dumps(obj)))
        answered(sandbox, Request("PUT", f"{many}/x", {}, orjson.dumps(obj)))
        answered(sandbox, Request("GET", many, {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}))
        answered(sandbox, Request("GET", f"{many}/x/scale"))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.sampled_from(["GET", "POST", "DELETE"]))
def test_any_address(target: str, method: str) -> None:
    answered(Sandbox(), Request(method, target))


def test_many_parameters() -> None:
    query = "&".join(f"p{number}=1" for number in range(5000))
    assert Sandbox().handle(Request("GET", f"{CONFIGS}?{query}")).status == 200


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["configmaps", "pods", "services", "secrets"]))
def test_protobuf_of_any_form(body: bytes, plural: str) -> None:
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    for sent in (body, b"k8s\x00" + body, b"k8s\x00\x12" + bytes([len(body)]) + body):
        answered(Sandbox(), Request("POST", f"/api/v1/namespaces/default/{plural}", headers, sent))


def nested(depth: int) -> bytes:
    return b'{"metadata":{"name":"a"},"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


@pytest.mark.parametrize("depth", [100, 300, 1000, 100_000])
@pytest.mark.parametrize(("method", "target"), [("POST", CONFIGS), ("PATCH", f"{CONFIGS}/a?fieldManager=m")])
def test_deep_bodies(depth: int, method: str, target: str) -> None:
    headers = {"content-type": "application/apply-patch+yaml" if method == "PATCH" else "application/json"}
    assert Sandbox().handle(Request(method, target, headers, nested(depth))).status in (400, 500)


@pytest.mark.parametrize("depth", [20, 115, 150, 200])
def test_a_definition_whose_schema_is_deep(depth: int) -> None:
    crd = definition("h.test")
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    sandbox = Sandbox()
    body = json.dumps(crd).encode()
    answered(sandbox, Request("POST", DEFINITIONS, {}, body))
    answered(sandbox, Request("GET", "/openapi/v3/apis/h.test/v1"))
    sandbox.tick_until_stable()


@pytest.mark.parametrize("metadata", [None, [], "x", {"name": None}, {"name": []}, {"labels": {"a": None}}])
@pytest.mark.parametrize("kind", ["Widget", "Other", None, 5])
def test_metadata_of_any_form(metadata: Any, kind: Any) -> None:
    sandbox = Sandbox()
    answered(sandbox, Request("POST", DEFINITIONS, {}, orjson.dumps(definition("h.test"))))
    body = orjson.dumps({"apiVersion": "h.test/v1", "kind": kind, "metadata": metadata, "spec": {"size": 1}})
    collection = "/apis/h.test/v1/namespaces/default/widgets"
    for method, target, content_type in (
        ("POST", collection, "application/json"),
        ("PUT", f"{collection}/a", "application/json"),
        ("PATCH", f"{collection}/a?fieldManager=m", "application/apply-patch+yaml"),
    ):
        assert answered(sandbox, Request(method, target, {"content-type": content_type}, body)).status >= 201


def test_a_json_patch_that_doubles_itself() -> None:
    """Each copy of the whole into itself doubles it; forty of them would fill any memory."""
    sandbox = Sandbox()
    body = orjson.dumps({"metadata": {"name": "a", "annotations": {"a": "x"}}})
    answered(sandbox, Request("POST", CONFIGS, {}, body))
    patch = [{"op": "copy", "from": "/metadata", "path": f"/metadata/x{number}"} for number in range(40)]
    headers = {"content-type": "application/json-patch+json"}
    assert sandbox.handle(Request("PATCH", f"{CONFIGS}/a", headers, orjson.dumps(patch))).status == 422


def test_one_bad_definition_does_not_hide_the_others() -> None:
    sandbox = Sandbox()
    hostile: list[Object] = [{}, {"names": 1}, {"versions": [1]}, {"versions": {}}, {"names": {"plural": ["x"]}}]
    for broken in hostile:
        body = {"metadata": {"name": "a.b"}, "spec": broken}
        assert answered(sandbox, Request("POST", DEFINITIONS, {}, orjson.dumps(body))).status in (400, 422)


@pytest.mark.parametrize(
    ("target", "patch", "found"),
    [
        ({"a": 1}, {"a": None}, {}),
        ({"a": {"b": 1}}, {"a": {"c": None, "d": 2}}, {"a": {"b": 1, "d": 2}}),
        ({"a": [1]}, {"a": {"b": None}}, {"a": {}}),
        ([1], {"a": 1}, {"a": 1}),
        ({"a": 1}, [1], [1]),
        ({}, {"a": [None, {"b": None}]}, {"a": [None, {}]}),
        ({"a": [1]}, {"a": [{"b": [{"c": None}]}]}, {"a": [{"b": [{}]}]}),
        ({"a": {"b": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_merge_patches(target: Any, patch: Any, found: Any) -> None:
    """RFC 7386, appendix A; nulls in lists as the API server's library has them."""
    before = orjson.dumps(target)
    assert apply_merge_patch(target, patch) == found
    assert orjson.dumps(target) == before


@pytest.mark.parametrize(
    ("target", "operation", "found"),
    [
        ({"a": [1, 2]}, {"op": "add", "path": "/a/1", "value": 9}, {"a": [1, 9, 2]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 9}, {"a": [1, 9]}),
        ({"a": {"b/c": 1}}, {"op": "remove", "path": "/a/b~1c"}, {"a": {}}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 1}}, {"b": 1}),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/b"}, {"b": 1}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"a": 1.0}, {"op": "test", "path": "/a", "value": 1}, {"a": 1.0}),
    ],
)
def test_json_patches(target: Any, operation: Any, found: Any) -> None:
    """RFC 6902, appendix A."""
    assert apply_json_patch(target, [operation]) == found


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/9", "value": 1},
        {"op": "add", "path": "/a/01", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "remove", "path": "/a/2"},
        {"op": "remove", "path": ""},
        {"op": "test", "path": "/t", "value": 1},
        {"op": "copy", "from": "/x", "path": "/y"},
        {"op": "add", "path": "/a/b/c", "value": 1},
        "add",
    ],
)
def test_json_patches_that_cannot_be_applied(operation: Any) -> None:
    with pytest.raises(PatchError):
        apply_json_patch({"a": [1, 2], "t": True}, [operation])
