"""Which requests are refused, with which code and reason."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.support.cluster.http_api import APPLY, JSON_PATCH, MERGE, Api

MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def stored(api: Api, configs: str) -> dict[str, Any]:
    """A ConfigMap named a."""
    answer = api.post(configs, {"metadata": {"name": "a"}, "data": {"a": "1"}})
    assert answer.code == 201
    found: dict[str, Any] = answer.body
    return found


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"metadata": {"name": "a"}}, (409, "AlreadyExists")),
        ({"metadata": {}}, (422, "Invalid")),
        ({"metadata": {"name": "A_b"}}, (422, "Invalid")),
        ({"metadata": {"name": "b" * 254}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "namespace": "other"}}, (400, "BadRequest")),
        ({**MAP, "kind": "Secret", "metadata": {"name": "b"}}, (400, "BadRequest")),
        ({**MAP, "apiVersion": "v2", "metadata": {"name": "b"}}, (400, "BadRequest")),
        (b"{bad", (400, "BadRequest")),
        (b"[]", (400, "BadRequest")),
        (b"", (400, "BadRequest")),
        ({"metadata": {"name": "b"}, "data": {"a": 1}}, (400, "BadRequest")),
        ({"metadata": {"name": "b"}, "data": []}, (400, "BadRequest")),
        ({"metadata": {"name": "b"}, "binaryData": {"a": "%"}}, (400, "BadRequest")),
        ({"metadata": {"name": "b"}, "data": {"a/b": "1"}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "labels": {"a": 1}}}, (400, "BadRequest")),
        ({"metadata": {"name": "b", "labels": {"a b": "c"}}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "labels": {"a": "c d"}}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "labels": {"a": "c" * 64}}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "annotations": {"a/b/c": "d"}}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "annotations": {"a": "x" * 262144}}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "finalizers": ["short"]}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "ownerReferences": [{"kind": "ConfigMap"}]}}, (422, "Invalid")),
        ({"metadata": {"name": "b", "resourceVersion": "1"}}, (500, "")),
    ],
)
def test_a_create(api: Api, configs: str, stored: object, body: Any, refusal: tuple[int, str]) -> None:
    assert api.post(configs, body).refusal == refusal


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("fieldValidation=Other", (422, "Invalid")),
        ("dryRun=Some", (422, "Invalid")),
        ("fieldManager=" + "m" * 129, (422, "Invalid")),
    ],
)
def test_options_of_a_create(api: Api, configs: str, query: str, refusal: tuple[int, str]) -> None:
    assert api.post(f"{configs}?{query}", {"metadata": {"name": "b"}}).refusal == refusal


@pytest.mark.parametrize(
    ("name", "body", "refusal"),
    [
        ("a", {"metadata": {"name": "b"}}, (400, "BadRequest")),
        ("a", {"metadata": {}}, (400, "BadRequest")),
        ("a", {"metadata": {"name": "a", "resourceVersion": "1"}}, (409, "Conflict")),
        ("a", {"metadata": {"name": "a", "resourceVersion": "x"}}, (500, "")),
        ("a", {"metadata": {"name": "a", "uid": "1"}}, (409, "Conflict")),
        ("new", {"metadata": {"name": "new"}}, (404, "NotFound")),
        ("new", {"metadata": {"name": "new", "uid": "1", "resourceVersion": "1"}}, (404, "NotFound")),
    ],
)
def test_an_update(api: Api, configs: str, stored: object, name: str, body: Any, refusal: tuple[int, str]) -> None:
    assert api.put(f"{configs}/{name}", body).refusal == refusal


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"data": {"b": 2}}, (422, "Invalid")),
        ({"data": "x"}, (422, "Invalid")),
        (b"x", (400, "BadRequest")),
        (b"[]", (400, "BadRequest")),
        ({"kind": "Other"}, (422, "Invalid")),
        ({"metadata": {"name": "q"}}, (400, "BadRequest")),
        ({"metadata": {"namespace": "q"}}, (400, "BadRequest")),
        ({"metadata": {"uid": "q"}}, (422, "Invalid")),
        ({"metadata": {"resourceVersion": "1"}}, (409, "Conflict")),
    ],
)
def test_a_merge_patch(api: Api, configs: str, stored: object, body: Any, refusal: tuple[int, str]) -> None:
    assert api.merge(f"{configs}/a", body).refusal == refusal


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ([{"op": "test", "path": "/data/a", "value": "other"}], (422, "Invalid")),
        ([{"op": "remove", "path": "/data/absent"}], (422, "Invalid")),
        ([{"op": "unknown", "path": "/data/a", "value": "1"}], (422, "Invalid")),
        ([{"op": "add", "path": "/absent/a", "value": "1"}], (422, "Invalid")),
        ({"op": "add"}, (400, "BadRequest")),
    ],
)
def test_a_json_patch(api: Api, configs: str, stored: object, body: Any, refusal: tuple[int, str]) -> None:
    assert api.json_patch(f"{configs}/a", body).refusal == refusal


@pytest.mark.parametrize(
    ("query", "body", "refusal"),
    [
        ("", MAP, (422, "Invalid")),
        ("fieldManager=" + "m" * 129, MAP, (422, "Invalid")),
        ("fieldManager=m", {**MAP, "metadata": {"name": "b"}}, (400, "BadRequest")),
        ("fieldManager=m", {**MAP, "metadata": {"name": "a", "namespace": "b"}}, (400, "BadRequest")),
        ("fieldManager=m", {**MAP, "kind": "Other"}, (400, "BadRequest")),
        ("fieldManager=m", {"kind": "ConfigMap"}, (400, "BadRequest")),
        ("fieldManager=m", b"{bad", (400, "BadRequest")),
        ("fieldManager=m", b"[]", (400, "BadRequest")),
        ("fieldManager=m", {**MAP, "metadata": {"managedFields": [{"manager": "x"}]}}, (400, "BadRequest")),
        ("fieldManager=m", {**MAP, "zz": 1}, (500, "")),
        ("fieldManager=m", {**MAP, "data": {"a": 1}}, (500, "")),
        ("fieldManager=m", {**MAP, "data": {"a": "2"}}, (409, "Conflict")),
        ("fieldManager=m", {**MAP, "metadata": {"resourceVersion": "1"}}, (409, "Conflict")),
        ("fieldManager=m", {**MAP, "metadata": {"uid": "other"}}, (422, "Invalid")),
    ],
)
def test_an_apply(api: Api, configs: str, stored: object, query: str, body: Any, refusal: tuple[int, str]) -> None:
    assert api.request("PATCH", f"{configs}/a?{query}", body, content_type=APPLY).refusal == refusal


def test_an_apply_is_named_as_its_author_named_it(api: Api, configs: str) -> None:
    """The namespace of the address is not in the message, where the body does not say it."""
    here = configs.split("/")[4]
    for namespace, place in (({}, "/b"), ({"namespace": here}, f"{here}/b")):
        answer = api.apply(f"{configs}/b", {**MAP, "metadata": {"name": "b", **namespace}, "zz": 1})
        assert answer.body["message"].startswith(
            f"failed to create typed patch object ({place}; /v1, Kind=ConfigMap): "
        )
    assert api.apply(f"{configs}/b", {**MAP, "metadata": {"name": "b"}}).body["metadata"]["namespace"] == here


def test_an_apply_without_a_name_creates_nothing(api: Api, configs: str, stored: object) -> None:
    assert api.apply(f"{configs}/b", MAP).refusal == (400, "BadRequest")
    assert api.apply(f"{configs}/a", MAP).code == 200


def test_an_apply_with_a_uid_never_creates(api: Api, configs: str) -> None:
    answer = api.apply(f"{configs}/b", {**MAP, "metadata": {"name": "b", "uid": "x"}})
    assert answer.refusal == (409, "Conflict")
    assert "uid mismatch" in answer.body["message"]


def test_an_apply_with_a_resource_version_only_creates(api: Api, configs: str) -> None:
    assert api.apply(f"{configs}/b", {**MAP, "metadata": {"name": "b", "resourceVersion": "5"}}).code == 201


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"preconditions": {"uid": "x"}}, (409, "Conflict")),
        ({"preconditions": {"resourceVersion": "1"}}, (409, "Conflict")),
        ({"propagationPolicy": "Other"}, (422, "Invalid")),
        ({"dryRun": ["Some"]}, (422, "Invalid")),
    ],
)
def test_a_delete(api: Api, configs: str, stored: object, body: Any, refusal: tuple[int, str]) -> None:
    assert api.delete(f"{configs}/a", body).refusal == refusal


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("labelSelector=a%20b", (400, "BadRequest")),
        ("labelSelector=a%20in%20(", (400, "BadRequest")),
        ("labelSelector=%3Dx", (400, "BadRequest")),
        ("labelSelector=a%3Db%20c", (400, "BadRequest")),
        ("labelSelector=a%20lt%207", (400, "BadRequest")),
        ("labelSelector=a%3Ex", (400, "BadRequest")),
        ("fieldSelector=foo%3Dbar", (400, "BadRequest")),
        ("fieldSelector=foo", (400, "BadRequest")),
        ("limit=x", (400, "BadRequest")),
        ("continue=x", (400, "BadRequest")),
        ("resourceVersion=99999999", (504, "Timeout")),
        ("resourceVersion=abc", (400, "BadRequest")),
        ("resourceVersionMatch=Exact", (422, "Invalid")),
        ("resourceVersionMatch=Other&resourceVersion=1", (422, "Invalid")),
        ("watch=1&sendInitialEvents=true", (422, "Invalid")),
        ("watch=1&timeoutSeconds=x", (400, "BadRequest")),
        ("watch=1&resourceVersion=abc", (500, "")),
    ],
)
def test_a_list(api: Api, configs: str, query: str, refusal: tuple[int, str]) -> None:
    assert api.get(f"{configs}?{query}").refusal == refusal


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/foos", 404),
        ("GET", "/apis/foo/v1/foos", 404),
        ("GET", "/nope", 404),
        ("POST", "/api/v1/configmaps", 405),
        ("PUT", "/api/v1/namespaces/default/configmaps", 405),
        ("POST", "/api/v1/namespaces/default/configmaps/a", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("GET", "/api/v1/namespaces/default/configmaps/a/status", 404),
        ("DELETE", "/api/v1/namespaces/default", 403),
        ("GET", "/api/v1/namespaces/default/configmaps/absent", 404),
        ("DELETE", "/api/v1/namespaces/default/configmaps/absent", 404),
    ],
)
def test_addresses(api: Api, method: str, path: str, code: int) -> None:
    assert api.request(method, path, {} if method in ("POST", "PUT") else None).code == code


def test_what_is_not_served_says_so_in_plain_text(api: Api) -> None:
    """A client tells a kind that is not served from an object that is absent by the form of the answer."""
    assert api.get("/apis/foo/v1/foos").body == "404 page not found\n"
    assert api.get("/api/v1/namespaces/default/configmaps/absent").body["details"] == {
        "name": "absent",
        "kind": "configmaps",
    }


def test_a_namespace_that_is_absent(api: Api) -> None:
    for answer in (
        api.post("/api/v1/namespaces/absent/configmaps", {"metadata": {"name": "b"}}),
        api.apply("/api/v1/namespaces/absent/configmaps/b", {**MAP, "metadata": {"name": "b"}}),
    ):
        assert answer.refusal == (404, "NotFound")
        assert answer.body["details"] == {"name": "absent", "kind": "namespaces"}
    assert api.get("/api/v1/namespaces/absent/configmaps").body["items"] == []


def test_media_types(api: Api, configs: str, stored: object) -> None:
    assert api.get(configs, accept="text/html").refusal == (406, "NotAcceptable")
    partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert api.get(configs, accept=partial).refusal == (406, "NotAcceptable")
    listed = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert api.get(f"{configs}/a", accept=listed).refusal == (406, "NotAcceptable")
    other = api.request("PATCH", f"{configs}/a", {}, content_type="application/other")
    assert other.refusal == (415, "UnsupportedMediaType")
    force = api.request("PATCH", f"{configs}/a?force=true", {}, content_type=MERGE)
    assert force.refusal == (422, "Invalid")
    assert force.causes == [("FieldValueForbidden", "force")]
    absent = api.request("PATCH", f"{configs}/absent", [], content_type=JSON_PATCH)
    assert absent.refusal == (404, "NotFound")


def test_a_body_that_is_too_large(api: Api, configs: str) -> None:
    body = b'{"metadata":{"name":"big"},"data":{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}}'
    assert api.post(configs, body).refusal == (413, "RequestEntityTooLarge")


def test_strict_validation_names_what_is_unknown(api: Api, configs: str) -> None:
    body = {"metadata": {"name": "b", "zz": 1}, "yy": 1}
    strict = api.post(f"{configs}?fieldValidation=Strict", body)
    assert strict.refusal == (400, "BadRequest")
    assert 'unknown field "metadata.zz", unknown field "yy"' in strict.body["message"]
    twice = api.post(f"{configs}?fieldValidation=Strict", b'{"metadata":{"name":"b"},"data":{},"data":{}}')
    assert 'duplicate field "data"' in twice.body["message"]
    warned = api.post(f"{configs}?fieldValidation=Warn&dryRun=All", {"metadata": {"name": "b"}, "yy": 1})
    assert warned.code == 201
    assert 'unknown field \\"yy\\"' in warned.headers["warning"]
    assert "yy" not in warned.body
    assert "warning" not in api.post(f"{configs}?fieldValidation=Ignore&dryRun=All", body).headers


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{}]},
        {"ownerReferences": [OWNER]},
        {"ownerReferences": [OWNER | {"apiVersion": "a/b/c"}]},
        {"ownerReferences": [OWNER | {"kind": "Event"}]},
        {"ownerReferences": [OWNER | {"controller": True}, OWNER | {"uid": "v", "controller": True}]},
        {"ownerReferences": [OWNER | {"unknown": 1}]},
        {"finalizers": ["short"]},
        {"finalizers": ["kubernetes"]},
        {"finalizers": ["a/b/c"]},
        {"finalizers": [""]},
        {"finalizers": ["orphan", "foregroundDeletion"]},
        {"selfLink": "/x"},
        {"generateName": "a-"},
        {"labels": {"/a": "b"}},
        {"labels": {"a" * 64: "b"}},
        {"annotations": {"": "a"}},
        {"uid": "mine"},
    ],
)
def test_metadata(both: tuple[Api, Api], metadata: Any) -> None:
    body = {"metadata": {"name": "b", **metadata}}
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"
    real, ours = (api.post(path, body) for api in both)
    assert (ours.code, ours.causes) == (real.code, real.causes), real.body
    if real.code == 201:
        assert ours.body["metadata"].keys() == real.body["metadata"].keys()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (LEASES, {"spec": {"holderIdentity": "a"}}),
        (BUDGETS, {"spec": {"maxUnavailable": 1}}),
        ("/api/v1/namespaces/default/configmaps", {"data": {"a": "b"}}),
    ],
)
def test_an_update_that_does_not_say_of_what(both: tuple[Api, Api], path: str, body: Any) -> None:
    """Some kinds have to say which version they replace, even where nothing changes."""
    name = f"u-{uuid4().hex[:8]}"
    answers = []
    for api in both:
        assert api.post(path, {"metadata": {"name": name}, **body}).code == 201
        answers.append(api.put(f"{path}/{name}", {"metadata": {"name": name}, **body}))
    real, ours = answers
    assert (ours.code, ours.causes) == (real.code, real.causes)


@pytest.mark.parametrize(
    ("metadata", "answer"),
    [
        ({}, (201, "")),
        ({"resourceVersion": "5"}, (201, "")),
        ({"resourceVersion": "x"}, (500, "")),
        ({"uid": "x"}, (409, "Conflict")),
        ({"labels": {"a b": "c"}}, (422, "Invalid")),
        ({"namespace": "other"}, (400, "BadRequest")),
    ],
)
def test_an_update_creates_what_is_of_some_kinds(api: Api, metadata: Any, answer: tuple[int, str]) -> None:
    name = f"u-{uuid4().hex[:8]}"
    updated = api.put(f"{LEASES}/{name}", {"metadata": {"name": name, **metadata}, "spec": {"holderIdentity": "a"}})
    assert updated.refusal == answer
    if updated.code == 201:
        (entry,) = updated.body["metadata"]["managedFields"]
        assert entry["operation"] == "Update"
        assert api.get(f"{LEASES}/{name}").body == updated.body
