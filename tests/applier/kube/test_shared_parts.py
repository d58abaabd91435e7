"""Equal parts of objects that were read are one value."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest

from applier.kube.shared_parts import MAX_SHARED_TEXT, share_equal_parts


def obj(name: str, fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "managedFields": [{"manager": "levelgate", "fieldsV1": fields}]}}


def fields_of(document: dict[str, Any]) -> Any:
    return document["metadata"]["managedFields"][0]["fieldsV1"]


def test_equal_fields_are_one_value_in_objects_and_in_lists() -> None:
    one, two = obj("a", {"f:data": {"f:a": {}}}), obj("b", {"f:data": {"f:a": {}}})
    page = {"items": [obj("c", {"f:data": {"f:a": {}}}), obj("d", {"f:data": {"f:b": {}}})]}
    before = deepcopy([one, two, page])
    for document in (one, two, page):
        share_equal_parts(document)
    assert [one, two, page] == before
    assert fields_of(one) is fields_of(two) is fields_of(page["items"][0])
    assert fields_of(page["items"][1]) is not fields_of(one)


def test_equal_strings_are_one_value() -> None:
    one, two = (orjson.loads(b'{"kind": "Some Kind", "metadata": {"labels": {"a": "some label"}}}') for _ in range(2))
    assert one["kind"] is not two["kind"]
    for document in (one, two):
        share_equal_parts(document)
    assert one["kind"] is two["kind"]
    assert one["metadata"]["labels"]["a"] is two["metadata"]["labels"]["a"]


def live(name: str, text: str) -> dict[str, Any]:
    entry = {"manager": "levelgate", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}}
    condition = {"type": "Ready", "status": "True", "message": "all is ready"}
    metadata = {"labels": {"set": "an id"}, "annotations": {"name": name, "text": text}, "managedFields": [entry]}
    document = {"metadata": metadata, "data": {"name": name, "text": text}, "status": {"conditions": [condition]}}
    read: dict[str, Any] = orjson.loads(orjson.dumps(document))
    return read


def test_parts_that_repeat_in_one_definition_or_set_are_one_value() -> None:
    one, two = (live(name, "some text") for name in ("name one", "name two"))
    before = deepcopy([one, two])
    for document in (one, two):
        share_equal_parts(document)
    assert [one, two] == before
    for name in ("labels", "managedFields"):
        assert one["metadata"][name] is two["metadata"][name]
    assert one["metadata"]["annotations"]["text"] is two["metadata"]["annotations"]["text"] is two["data"]["text"]
    assert one["status"]["conditions"][0] is two["status"]["conditions"][0]


def test_a_long_text_is_not_kept_for_sharing() -> None:
    one, two = (live("name", "x" * (MAX_SHARED_TEXT + 1)) for _ in range(2))
    for document in (one, two):
        share_equal_parts(document)
    assert one["data"]["text"] is not two["data"]["text"]


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"f:a": found}
    return found


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"items": None},
        {"items": [None, "text", {"metadata": None}]},
        {"metadata": "text"},
        {"metadata": {"labels": ["text"], "annotations": ["text"]}, "data": ["text"], "status": ["text"]},
        {"metadata": {"labels": {"a": None}, "annotations": {"a": 1.5}}, "data": {"a": ["text", 1]}},
        {"status": {"conditions": {"a": "b"}}},
        {"status": {"conditions": [None, "text", {}, {"status": True, "observedGeneration": 1}, nested(300)]}},
        {"metadata": {"managedFields": {"a": "b"}}},
        {"metadata": {"managedFields": [None, "text", {}, {"fieldsV1": None}, {"fieldsV1": "text"}]}},
        obj("deep", nested(300)),
    ],
)
def test_what_a_server_says_in_another_form_stays_as_it_is(document: dict[str, Any]) -> None:
    before = repr(document)
    share_equal_parts(document)
    assert repr(document) == before
