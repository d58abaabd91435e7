"""Ownership after a change of the schema."""

from __future__ import annotations

from typing import Any

from applier.sandbox.merge.field_set import LEAF, from_paths
from applier.sandbox.merge.schema_change import reconcile_fields
from applier.sandbox.merge.types import MergeType, type_of_schema

FIELDS = from_paths(frozenset({("spec", "a")}))


def type_with(**keywords: Any) -> MergeType:
    spec = {"type": "object", "properties": {"a": {"type": "string"}}, **keywords}
    return type_of_schema({"type": "object", "properties": {"spec": spec}}, crd=False, definitions={})


def test_owners_of_parts_own_a_map_that_became_atomic() -> None:
    assert reconcile_fields(type_with(**{"x-kubernetes-map-type": "atomic"}), FIELDS) == {"f:spec": LEAF}


def test_ownership_is_the_same_object_where_nothing_changed() -> None:
    assert reconcile_fields(type_with(), FIELDS) is FIELDS
