"""Kinds that come and go, and the order of their versions."""

from __future__ import annotations

from applier.sandbox.kinds.custom import CustomKindModel
from applier.sandbox.kinds.registry import KindRegistry, ServedKind, version_priority

MODEL = CustomKindModel({}, definitions={}, evaluate=None)


def test_stable_and_new_versions_come_first() -> None:
    versions = ["foo", "v1alpha1", "v1", "v2beta1", "v10", "v2", "v1beta2"]
    assert sorted(versions, key=version_priority) == ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]


def test_a_resource_is_served_until_its_last_version_is_removed() -> None:
    kinds = [ServedKind("g.test", version, "Link", "links", True, MODEL) for version in ("v1", "v1beta1")]
    registry = KindRegistry(kinds)
    revision = registry.revision
    assert registry.find_resource("links.g.test") == kinds[0]
    registry.remove("g.test", "links")
    assert registry.find_resource("links.g.test") is None
    assert registry.groups() == []
    assert registry.revision > revision
