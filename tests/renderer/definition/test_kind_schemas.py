"""Schemas and types of the kinds of objects."""

from typing import Any

from renderer.cel.types import INT, STRING, Record
from renderer.definition.kind_schemas import KindSchemas, any_object, from_crds, instance_type, with_conditions
from renderer.identity import GroupKind

SHOP = GroupKind("g.test", "Shop")


def crd(resource_version: str = "1", kind: str = "integer") -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"n": {"type": kind}}}}
    versions = [
        {"name": "v1", "schema": schema},
        {"name": "v2"},
        {"name": "v0", "served": False, "schema": schema},
    ]
    return {
        "metadata": {"uid": "u", "resourceVersion": resource_version},
        "spec": {"group": SHOP.group, "names": {"kind": SHOP.kind}, "versions": versions},
    }


def test_served_versions_have_types() -> None:
    kinds = from_crds([crd()], KindSchemas())
    shop = kinds.type_of(SHOP, "v1")
    assert isinstance(shop, Record)
    assert shop.fields["n"] == INT
    assert shop.fields["kind"] == STRING
    assert kinds.type_of(SHOP, "v2") == any_object()
    assert kinds.type_of(SHOP, "v0") is None
    assert kinds.other_versions(SHOP, "v0") == ("v1", "v2")
    assert kinds.other_versions(SHOP, "v1") == ()


def test_built_in_kinds_are_known_and_others_are_not() -> None:
    assert KindSchemas().type_of(GroupKind("apps", "Deployment"), "v1") is not None
    assert KindSchemas().type_of(SHOP, "v1") is None


def test_a_crd_of_the_same_resource_version_is_not_parsed_again() -> None:
    before = from_crds([crd()], KindSchemas())
    assert from_crds([crd()], before).described[SHOP] is before.described[SHOP]
    assert from_crds([crd("2")], before).described[SHOP] is not before.described[SHOP]


def test_a_fallback_describes_what_is_not_described() -> None:
    first, second = from_crds([crd(kind="string")], KindSchemas()), from_crds([crd()], KindSchemas())
    assert first.with_fallback(second).described == first.described
    assert KindSchemas().with_fallback(second).described == second.described


def test_an_instance_has_no_status_and_a_namespace_where_its_kind_has() -> None:
    namespaced, cluster = (instance_type({}, namespaced=scope) for scope in (True, False))
    for instance, expected in ((namespaced, True), (cluster, False)):
        metadata = instance.fields["metadata"]
        assert isinstance(metadata, Record)
        assert ("namespace" in metadata.fields) is expected
        assert "status" not in instance.fields
    assert "status" in with_conditions(namespaced).fields
