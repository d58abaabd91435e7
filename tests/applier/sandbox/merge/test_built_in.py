"""What is special to built-in kinds: structures that are never absent, and what each write cannot change."""

from __future__ import annotations

import pytest

from applier.cluster import Object
from applier.sandbox.kinds.builtin import built_in_kinds
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.merge import FieldManager, reset_fields_of, track_update

KINDS = {(kind.api_version, kind.kind): kind for kind in built_in_kinds()}


def built_in(api_version: str, kind: str) -> ServedKind:
    return KINDS[api_version, kind]


def test_an_empty_service_has_a_spec_and_a_status_with_a_load_balancer() -> None:
    assert built_in("v1", "Service").model.blank == {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}


def test_lists_that_may_not_be_left_out_are_null() -> None:
    assert built_in("v1", "Pod").model.blank == {"metadata": {}, "spec": {"containers": None}, "status": {}}


def test_numbers_that_may_not_be_left_out_are_zero() -> None:
    assert built_in("apps/v1", "StatefulSet").model.blank["status"] == {"replicas": 0, "availableReplicas": 0}


def test_a_create_owns_what_is_in_a_structure_and_not_itself() -> None:
    kind = built_in("v1", "Pod")
    containers = [{"name": "a", "image": "i", "resources": {}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}}
    writer = FieldManager("m1", kind.model.type, "v1", "2030-01-01T00:00:00Z", blank=kind.model.blank)
    entry = track_update(None, pod, writer)["metadata"]["managedFields"][0]
    container: Object = {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}
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
    assert reset_fields_of(resource, subresource, has_status=resource != "configmaps") == reset
