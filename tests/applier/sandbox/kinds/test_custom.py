"""Custom kinds by their structural schema."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.kinds.custom import CustomKindModel

SPEC = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"type": "string", "default": "x"}},
}
MODEL = CustomKindModel({"type": "object", "properties": {"spec": SPEC}}, definitions={}, evaluate=None)


def link(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "g.test/v1", "kind": "Link", "metadata": {"name": "x"}, "spec": spec}


def test_unknown_fields_are_pruned_and_named() -> None:
    decoded = MODEL.decode(link(a=1, c=2))
    assert (decoded.obj["spec"], decoded.unknown_fields) == ({"a": 1}, ("spec.c",))


@pytest.mark.parametrize(("merged", "spec"), [(False, {}), (True, {"a": None})])
def test_nulls_stay_for_the_validation_of_an_apply(merged: bool, spec: dict[str, Any]) -> None:
    assert MODEL.decode(link(a=None), merged=merged).obj["spec"] == spec


def test_defaults_and_mistakes() -> None:
    assert MODEL.default(link(), None)["spec"] == {"b": "x"}
    assert [cause.field for cause in MODEL.validate(link(a=0), None)] == ["spec.a"]
