"""Protobuf, which kubectl sends for built-in kinds: it means the same as the JSON of the same object."""

from __future__ import annotations

from itertools import count

import pytest

from applier.sandbox.api.protobuf import MEDIA_TYPE, decode_protobuf
from applier.sandbox.kinds.builtin import built_in_kinds
from tests.support.cluster.http_api import Api
from tests.support.conformance.objects import collection, lines, objects

_numbers = count()
KINDS = {(kind.api_version, kind.kind): kind for kind in built_in_kinds()}


@pytest.mark.cluster
@pytest.mark.parametrize("name", sorted(objects("x")))
def test_what_the_server_says_in_both_forms_is_the_same(both: tuple[Api, Api], name: str) -> None:
    """Nothing is lost, and nothing is added."""
    real, _ = both
    namespace = f"b{next(_numbers)}"
    obj = objects(namespace)[name]
    assert real.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).code == 201
    many = collection(obj, namespace)
    one = f"{many}/{obj['metadata']['name']}"
    assert real.post(many, obj).code == 201
    answer, body = real.get(one), real.get(one, accept=MEDIA_TYPE).raw
    model = KINDS[obj["apiVersion"], obj["kind"]].model
    assert model.go_type is not None
    found = decode_protobuf(body, model.go_type)
    known = {name: found["metadata"].pop(name, None) for name in ("labels", "annotations", "finalizers")}
    assert known == {name: answer.body["metadata"].get(name) for name in known}
    for whole in (found, answer.body):
        whole["metadata"] = {"name": whole["metadata"]["name"]}
    assert lines(model.decode(found).obj) == lines(answer.body)
    real.merge(one, {"metadata": {"finalizers": None}})
    real.delete(one)


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def message(api_version: str, kind: str, content: bytes) -> bytes:
    """As clients send it."""
    return b"k8s\x00" + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, content)


def test_a_create_and_a_deletion(api: Api, configs: str) -> None:
    config = field(1, field(1, b"a") + field(5, b"")) + field(2, field(1, b"k") + field(2, b"v"))
    created = api.request("POST", configs, message("v1", "ConfigMap", config), content_type=MEDIA_TYPE)
    assert (created.code, created.body.get("data")) == (201, {"k": "v"}), created.body
    wrong = message("v1", "DeleteOptions", field(2, field(1, b"some-uid")))
    assert api.request("DELETE", f"{configs}/a", wrong, content_type=MEDIA_TYPE).refusal == (409, "Conflict")
    options = message("v1", "DeleteOptions", field(4, b"Orphan"))
    gone = api.request("DELETE", f"{configs}/a", options, content_type=MEDIA_TYPE)
    assert gone.body["metadata"]["finalizers"] == ["orphan"]


@pytest.mark.parametrize(
    "body", [b"k8s", b"{}", b"k8s\x00\xff", message("v1", "Secret", b""), message("v1", "ConfigMap", b"\x0a\x05a")]
)
def test_what_is_no_such_message(api: Api, configs: str, body: bytes) -> None:
    assert api.request("POST", configs, body, content_type=MEDIA_TYPE).refusal == (400, "BadRequest")
