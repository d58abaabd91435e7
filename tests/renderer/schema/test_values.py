"""Defaults and validation of values, as the API server does both."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderer.schema import apply_defaults, to_openapi, validate

SPEC = {
    "name": "string | required=true minLength=2 maxLength=5 pattern=^[a-z]",
    "replicas": "integer | default=1 minimum=0 maximum=9",
    "ratio": "float | minimum=0.5",
    "mode": "string | enum=fast,safe default=safe",
    "on": "boolean | default=false",
    "tags": "[]string | uniqueItems=true minItems=1 maxItems=3",
    "labels": 'map[string]string | default={"a": "b"}',
    "free": "object",
    "db": {"size": "string | default=10Gi", "retain": {"days": "integer | default=7"}},
    "ports": "[]Port | listType=map listMapKey=port",
    "extra": "map[string]Port",
}
TYPES = {"Port": {"port": "integer | required=true", "protocol": "string | default=TCP"}}
SCHEMA = to_openapi(SPEC, TYPES)


def mistakes(**value: Any) -> list[str]:
    return [str(mistake) for mistake in validate(SCHEMA, {"name": "web", **value})]


# --- defaults ----------------------------------------------------------------------------------------------------


def test_absent_fields_get_their_defaults_at_every_depth() -> None:
    assert apply_defaults(SCHEMA, {"name": "web"}) == {
        "name": "web",
        "replicas": 1,
        "mode": "safe",
        "on": False,
        "labels": {"a": "b"},
        "db": {"size": "10Gi", "retain": {"days": 7}},
    }


def test_given_values_stay() -> None:
    value = {"name": "web", "replicas": 0, "on": True, "mode": "fast", "labels": {}, "db": {"size": "", "retain": {}}}
    assert apply_defaults(SCHEMA, value) == {**value, "db": {"size": "", "retain": {"days": 7}}}


def test_null_becomes_the_default_or_vanishes() -> None:
    filled = apply_defaults(
        SCHEMA, {"name": None, "replicas": None, "db": None, "labels": {"x": None}, "free": {"x": None}}
    )
    assert filled["replicas"] == 1
    assert filled["db"] == {"size": "10Gi", "retain": {"days": 7}}
    assert filled["labels"] == {}
    assert filled["free"] == {"x": None}
    assert "name" not in filled


def test_items_and_map_values_are_defaulted() -> None:
    filled = apply_defaults(
        SCHEMA, {"ports": [{"port": 80}], "extra": {"a": {"port": 1}, "b": {"port": 2, "protocol": "UDP"}}}
    )
    assert filled["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert filled["extra"] == {"a": {"port": 1, "protocol": "TCP"}, "b": {"port": 2, "protocol": "UDP"}}


def test_null_in_a_list_stays_and_is_refused() -> None:
    filled = apply_defaults(SCHEMA, {"name": "web", "tags": [None]})
    assert filled["tags"] == [None]
    assert [mistake.path for mistake in validate(SCHEMA, filled)] == ["tags[0]"]


def test_default_of_an_object_is_filled_from_its_fields() -> None:
    schema = to_openapi({"a": 'T | default={"x": 5}'}, {"T": {"x": "integer | default=1", "y": "integer | default=2"}})
    assert apply_defaults(schema, {}) == {"a": {"x": 5, "y": 2}}


def test_absent_value_gets_the_default_of_the_whole() -> None:
    assert apply_defaults(to_openapi({"a": "integer | default=1"}), None) == {"a": 1}
    assert apply_defaults(to_openapi({"a": "integer"}), None) is None


def test_neither_the_value_nor_the_schema_is_changed_or_shared() -> None:
    value = {"name": "web", "free": {"deep": [1]}, "ports": [{"port": 1}]}
    before = copy.deepcopy((SCHEMA, value))
    filled = apply_defaults(SCHEMA, value)
    filled["labels"]["new"] = "x"
    filled["free"]["deep"].append(2)
    filled["ports"][0]["port"] = 3
    assert (SCHEMA, value) == before


def test_values_of_the_wrong_type_are_left_for_validation() -> None:
    assert apply_defaults(SCHEMA, {"db": "text", "ports": {"a": 1}})["db"] == "text"
    assert apply_defaults(SCHEMA, ["x"]) == ["x"]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 20) | st.floats(0, 9) | st.sampled_from(["", "web", "fast", "TCP"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*SPEC, "port", "protocol", "size", "retain", "days", "zz"]), inner, max_size=5
        )
    ),
    max_leaves=15,
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(_VALUES)
def test_defaulting_twice_is_defaulting_once(value: Any) -> None:
    once = apply_defaults(SCHEMA, value)
    assert apply_defaults(SCHEMA, once) == once


@settings(max_examples=300, derandomize=True, deadline=None)
@given(_VALUES)
def test_defaulting_makes_no_valid_value_invalid(value: Any) -> None:
    if not validate(SCHEMA, value):
        assert not validate(SCHEMA, apply_defaults(SCHEMA, value))


# --- validation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"replicas": 0, "ratio": 1, "mode": "fast", "on": True},
        {"replicas": 3.0, "ratio": 0.5},
        {"tags": ["a", "b"], "labels": {"any.key/x": "y"}, "free": {"any": [{"thing": None}]}},
        {"ports": [{"port": 1}, {"port": 2}], "extra": {"a": {"port": 1}}},
        {"name": "aé"},
    ],
)
def test_fitting_value_has_no_mistakes(value: dict[str, Any]) -> None:
    assert mistakes(**value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"replica": 2}, "replica: no field 'replica'; did you mean 'replicas'?"),
        ({"db": {"sze": "1"}}, "db.sze: no field 'sze'; did you mean 'size'?"),
        ({"db": {"qqq": "1"}}, "db.qqq: no field 'qqq'; the fields are size, retain"),
        ({"ports": [{"port": 1, "nme": 1}]}, "ports[0].nme: no field 'nme'; the fields are port, protocol"),
        ({"replicas": "3"}, "replicas: '3' is not a whole number; write it without quotes"),
        ({"replicas": "three"}, "replicas: 'three' is not a whole number"),
        ({"replicas": 1.5}, "replicas: 1.5 is not a whole number"),
        ({"replicas": True}, "replicas: true is not a whole number"),
        ({"replicas": 10}, "replicas: 10 is above the maximum 9"),
        ({"replicas": -1}, "replicas: -1 is below the minimum 0"),
        ({"ratio": 0.25}, "ratio: 0.25 is below the minimum 0.5"),
        ({"ratio": "1"}, "ratio: '1' is not a number; write it without quotes"),
        ({"on": "true"}, "on: 'true' is not true or false; write it without quotes"),
        ({"on": 1}, "on: 1 is not true or false"),
        ({"mode": "sfe"}, "mode: 'sfe' is not one of fast, safe; did you mean 'safe'?"),
        ({"name": 5}, "name: 5 is not text; put it in quotes"),
        ({"name": True}, "name: true is not text; put it in quotes"),
        ({"name": None}, "name: null, where text is expected; remove the field or write a value"),
        ({"name": "a"}, "name: has 1 character, but must have at least 2"),
        ({"name": "abcdef"}, "name: has 6 characters, but may have at most 5"),
        ({"name": "Web"}, "name: 'Web' does not match the pattern ^[a-z]"),
        ({"tags": []}, "tags: has 0 items, but must have at least 1"),
        ({"tags": ["a", "b", "c", "d"]}, "tags: has 4 items, but may have at most 3"),
        ({"tags": ["a", "b", "a"]}, "tags[2]: 'a' is already at [0]; remove one of the items"),
        ({"tags": "a"}, "tags: 'a' is not a list"),
        ({"tags": [1]}, "tags[0]: 1 is not text; put it in quotes"),
        ({"labels": {"a.b/c": 1}}, 'labels["a.b/c"]: 1 is not text; put it in quotes'),
        ({"labels": []}, "labels: [] is not an object"),
        ({"free": "x"}, "free: 'x' is not an object"),
        ({"ports": [{}]}, "ports[0].port: is required and not given"),
        ({"ports": [{"port": 1}, {"port": 1}]}, "ports[1]: port 1 is already at [0]; remove one of the items"),
        ({"extra": {"a": {}}}, "extra.a.port: is required and not given"),
    ],
)  # fmt: skip
def test_value_that_does_not_fit_is_explained(value: dict[str, Any], expected: str) -> None:
    assert mistakes(**value) == [expected]


def test_missing_required_field_is_a_mistake_at_its_place() -> None:
    assert [str(mistake) for mistake in validate(SCHEMA, {})] == ["name: is required and not given"]


def test_all_mistakes_are_found() -> None:
    found = mistakes(replicas="x", db={"size": 1, "retain": {"days": "y"}}, tags=[1, 2], nope=1)
    assert len(found) == 6


def test_fields_of_an_open_object_with_known_fields_are_checked() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": True}
    assert validate(schema, {"b": 1}) == []
    assert [mistake.path for mistake in validate(schema, {"a": 1})] == ["a"]


def test_int_or_string_and_untyped_schemas_are_understood() -> None:
    assert validate({"x-kubernetes-int-or-string": True}, 1) == []
    assert validate({"x-kubernetes-int-or-string": True}, "50%") == []
    assert validate({"x-kubernetes-int-or-string": True}, True) != []
    assert validate({"x-kubernetes-preserve-unknown-fields": True}, [None, {"a": 1}]) == []


def test_pattern_is_linear_in_the_length_of_the_text() -> None:
    schema = to_openapi({"x": 'string | pattern="^(a+)+$"'})
    assert validate(schema, {"x": "a" * 50_000 + "!"}) != []


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (
            {
                "additionalProperties": True,
                "type": "object",
                "oneOf": [{"required": ["a"]}, {"required": ["b"], "maxProperties": 0}],
            },
            {"b": 2},
            "fits none of the 2 allowed forms: a is required and not given; or has 1 field, but may have at most 0",
        ),
        (
            {"type": "string", "oneOf": [{"minLength": 1}, {"pattern": "a"}]},
            "a",
            "fits 2 of the 2 forms but must fit exactly one",
        ),
        ({"type": "string", "not": {"enum": ["a"]}}, "a", 'must not match {"enum":["a"]}'),
        ({"type": "string", "format": "date"}, "5 May", "'5 May' does not have the format date"),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, 0, "0 is not above 0"),
    ],
)
def test_what_is_put_together_says_what_is_wrong(schema: dict[str, Any], value: Any, message: str) -> None:
    assert [str(mistake) for mistake in validate(schema, value)] == [message]


def test_null_stands_for_what_is_not_known_in_a_rule_that_is_put_together() -> None:
    """A template has nulls for its expressions; whether they fit is not for these rules to say."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "anyOf": [{"properties": {"a": {"enum": ["x"]}}}],
    }
    assert [mistake.rule for mistake in validate(schema, {"a": None})] == ["type"]
