"""The schema that serves instances of several revisions at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderer.schema import NoUnionError, to_openapi, union, validate


def merged(*specs: dict[str, Any], **types: Any) -> dict[str, Any]:
    return union([to_openapi(spec, types) for spec in specs])


def test_union_of_equal_schemas_is_that_schema() -> None:
    schema = to_openapi({"a": "string | default=b", "c": "[]integer | minItems=1"})
    assert union([schema, schema]) == schema


def test_all_properties_are_there() -> None:
    assert list(merged({"a": "string"}, {"b": "integer"}, {"a": "string", "c": "float"})["properties"]) == [
        "a",
        "b",
        "c",
    ]


def test_only_what_all_require_is_required() -> None:
    old = {"a": "string | required=true", "b": "string | required=true"}
    assert merged(old, {"a": "string | required=true", "b": "string", "c": "string | required=true"})["required"] == [
        "a"
    ]
    assert "required" not in merged(old, {"c": "string"})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("integer | minimum=1", "integer"),
        ("string | enum=a,b", "string"),
        ("string | pattern=^a", "string"),
        ("string | default=a", "string | default=b"),
        ("string", 'string | validation="self > 1"'),
        ("[]string", "[]string | uniqueItems=true maxItems=3"),
        ("[]string | default=[]", "[]string"),
    ],
)
def test_restrictions_on_which_revisions_differ_are_dropped(old: str, new: str) -> None:
    plain = to_openapi({"x": old.partition("|")[0]})["properties"]["x"]
    assert merged({"x": old}, {"x": new})["properties"]["x"] == plain
    assert merged({"x": new}, {"x": old})["properties"]["x"] == plain


def test_bounds_that_all_have_are_as_wide_as_the_widest() -> None:
    """Without any the server would reckon that a rule of the items costs too much."""
    old, new = "integer | minimum=1 maximum=5", "integer | minimum=2 maximum=9"
    assert merged({"x": old}, {"x": new})["properties"]["x"] == {"type": "integer", "minimum": 1, "maximum": 9}
    texts = merged({"x": "string | enum=a,b"}, {"x": "string | enum=c,a"})
    assert texts["properties"]["x"]["enum"] == ["a", "b", "c"]


def test_restrictions_on_which_all_agree_are_kept() -> None:
    old = 'string | minLength=1 maxLength=5 immutable=true description="old"'
    new = 'string | minLength=1 maxLength=6 immutable=true description="new"'
    assert merged({"x": old}, {"x": new})["properties"]["x"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 6,
        "description": "new",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "field is immutable"}],
    }


def test_default_of_a_new_field_does_not_reach_old_instances() -> None:
    schema = merged({"a": "string"}, {"a": "string", "b": {"c": "integer | default=1"}})
    assert "default" not in schema
    assert "default" not in schema["properties"]["b"]


def test_open_objects_stay_open() -> None:
    schema = merged({"a": {"b": "string"}}, {"a": "object"})
    assert validate(schema, {"a": {"b": "x", "c": [1]}}) == []


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ({"a": {"b": "string"}}, {"a": {"b": "integer"}}, "spec.a.b"),
        ({"a": "[]string"}, {"a": "[]integer"}, "spec.a[]"),
        ({"a": "map[string]string"}, {"a": "map[string]float"}, "spec.a.*"),
        ({"a": {"b": "string"}}, {"a": "map[string]string"}, "spec.a"),
        ({"a": "[]K | listType=map listMapKey=k"}, {"a": "[]L | listType=map listMapKey=k"}, "spec.a"),
        ({"a": "[]M | listType=map listMapKey=k"}, {"a": "[]M | listType=map listMapKey=l"}, "spec.a"),
    ],
)
def test_contradiction_is_named(old: dict[str, Any], new: dict[str, Any], path: str) -> None:
    keyed = {"k": "string | required=true", "l": "string | required=true"}
    with pytest.raises(NoUnionError) as caught:
        merged(old, new, K={"k": "string | required=true"}, L={"k": "string | default=x"}, M=keyed)
    assert caught.value.path == path


_TEXTS = st.sampled_from(
    """string|string default=a|string enum=a,b|string required=true maxLength=1|integer minimum=1|integer default=1|float
    |[]string minItems=1|[]string uniqueItems=true|map[string]string|object|T|[]T|map[string]T required=true""".split(
        "|"
    )
).map(lambda text: " | ".join(part for part in text.split(maxsplit=1)))
_SPECS = st.dictionaries(st.sampled_from("abc"), _TEXTS | st.dictionaries(st.sampled_from("pq"), _TEXTS, max_size=2))
_VALUES = st.recursive(
    st.sampled_from(["a", "b", "ccc", 0, 1, 2, 1.5]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcpqx"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=500, derandomize=True, deadline=None)
@given(_SPECS, _SPECS, st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=3))
def test_what_fits_one_revision_fits_the_union(old: dict[str, Any], new: dict[str, Any], value: dict[str, Any]) -> None:
    types = {"T": {"x": "integer | default=1", "p": "string | required=true"}}
    schemas = [to_openapi(old, types), to_openapi(new, types)]
    try:
        both = union(schemas)
    except NoUnionError:
        return
    if any(not validate(schema, value) for schema in schemas):
        assert validate(both, value) == []
