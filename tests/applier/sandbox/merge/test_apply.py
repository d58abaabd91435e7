"""Applying to maps, with one manager and with several."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.merge import (
    ApplyConflicts,
    FieldManager,
    TypeMismatchError,
    apply,
    keep_times,
    track_update,
    type_of_schema,
)

META = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
CONFIG_MAP = type_of_schema(
    {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    },
    crd=False,
    definitions={"Meta": META},
)


def writer(manager: str, *, time: str = "2030-01-01T00:00:00Z") -> FieldManager:
    return FieldManager(manager, CONFIG_MAP, "v1", time)


def config_map(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


def owned(obj: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {(each["manager"], each["operation"]): each["fieldsV1"] for each in obj["metadata"]["managedFields"]}


def test_the_first_apply_owns_every_leaf_but_the_identity() -> None:
    obj = apply(None, config_map(a="1"), writer("m1"))
    assert obj["data"] == {"a": "1"}
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2030-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        }
    ]


def test_a_field_that_is_left_out_and_owned_by_nobody_else_goes() -> None:
    first = apply(None, config_map(a="1", b="2"), writer("m1"))
    assert apply(first, config_map(a="1"), writer("m1"))["data"] == {"a": "1"}


def test_a_field_that_is_left_out_stays_while_another_owns_it() -> None:
    first = apply(None, config_map(a="1", b="2"), writer("m1"))
    both = apply(first, config_map(b="2"), writer("m2"))
    after = apply(both, config_map(a="1"), writer("m1"))
    assert after["data"] == {"a": "1", "b": "2"}
    assert owned(after) == {("m1", "Apply"): {"f:data": {"f:a": {}}}, ("m2", "Apply"): {"f:data": {"f:b": {}}}}


def test_another_value_conflicts_in_the_words_of_the_server() -> None:
    live = apply(None, config_map(a="1"), writer("m1"))
    with pytest.raises(ApplyConflicts) as caught:
        apply(live, config_map(a="2"), writer("m2"))
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    assert [(each.manager, each.field, each.message) for each in caught.value.conflicts] == [
        ("m1", ".data.a", 'conflict with "m1"')
    ]


def test_force_takes_the_field_away() -> None:
    live = apply(None, config_map(a="1", b="1"), writer("m1"))
    after = apply(live, config_map(a="2"), writer("m2"), force=True)
    assert after["data"] == {"a": "2", "b": "1"}
    assert owned(after) == {("m1", "Apply"): {"f:data": {"f:b": {}}}, ("m2", "Apply"): {"f:data": {"f:a": {}}}}


def test_the_same_intent_again_changes_nothing_not_even_the_time() -> None:
    live = apply(None, config_map(a="1"), writer("m1"))
    assert apply(live, config_map(a="1"), writer("m1", time="2031-01-01T00:00:00Z")) == live


def test_an_update_takes_what_it_changes_and_leaves_the_rest() -> None:
    live = apply(None, config_map(a="1", b="1"), writer("m1"))
    after = track_update(live, {**live, "data": {"a": "2", "b": "1", "c": "3"}}, writer("editor"))
    assert owned(after) == {
        ("m1", "Apply"): {"f:data": {"f:b": {}}},
        ("editor", "Update"): {"f:data": {"f:a": {}, "f:c": {}}},
    }


def test_an_unknown_field_is_refused_in_the_words_of_the_server() -> None:
    with pytest.raises(TypeMismatchError) as caught:
        apply(None, {**config_map(), "spec": {"zz": 1}}, writer("m1"))
    assert str(caught.value) == (
        "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .spec: field not declared in schema"
    )


def test_what_differs_in_times_only_needs_no_write() -> None:
    live = apply(None, config_map(a="1"), writer("m1"))
    later = apply(None, config_map(a="1"), writer("m1", time="2031-01-01T00:00:00Z"))
    assert keep_times(live, later) is live
