"""What is special to built-in kinds: structures that are never absent, and what each write cannot change."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.merge import Type, Writer, reset_by, solid, track_update, type_of_schema
from renderer import schemas

BUNDLE = schemas.bundle()


def built_in(group: str, version: str, kind: str) -> Type:
    schema = BUNDLE.schema(group, version, kind)
    assert schema is not None
    return type_of_schema(schema, crd=False, definitions=BUNDLE.definitions)


def test_an_empty_service_has_a_spec_and_a_status_with_a_load_balancer() -> None:
    assert solid(built_in("", "v1", "Service"), {}) == {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}


def test_what_is_whole_already_stays_the_very_same() -> None:
    service: dict[str, Any] = {"metadata": {}, "spec": {"ports": [{"port": 80}]}, "status": {"loadBalancer": {}}}
    assert solid(built_in("", "v1", "Service"), service) is service


def test_lists_that_may_not_be_left_out_are_null() -> None:
    assert solid(built_in("", "v1", "Pod"), {}) == {"metadata": {}, "spec": {"containers": None}, "status": {}}


def test_a_create_owns_what_is_in_a_structure_and_not_itself() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "a", "image": "i"}]},
    }
    writer = Writer("m1", built_in("", "v1", "Pod"), "v1", "2030-01-01T00:00:00Z")
    entry = track_update(None, pod, writer)["metadata"]["managedFields"][0]
    container = {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}
    assert entry["fieldsV1"] == {"f:spec": {"f:containers": {'k:{"name":"a"}': container}}}


@pytest.mark.parametrize(
    ("resource", "subresource", "reset"),
    [
        ("configmaps", "", set()),
        ("deployments.apps", "", {("status",)}),
        ("deployments.apps", "status", {("spec",), ("metadata", "labels")}),
        ("deployments.apps", "scale", {("status",)}),
        ("services", "status", {("spec",)}),
        ("things.example.dev", "status", {("spec",), ("metadata",)}),
    ],
)
def test_nobody_comes_to_own_what_a_write_cannot_change(
    resource: str, subresource: str, reset: set[tuple[str, ...]]
) -> None:
    assert reset_by(resource, subresource, has_status=resource != "configmaps") == reset
