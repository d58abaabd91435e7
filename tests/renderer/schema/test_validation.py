"""Validation of a value against its schema."""

from typing import Any

import pytest

from renderer.schema.validation import enum_form, format_value, object_form, validate

SCHEMA = object_form(
    "name",
    name={"type": "string", "maxLength": 3},
    count={"type": "integer", "minimum": 1},
    mode=enum_form(["fast", "slow"]),
    port={"x-kubernetes-int-or-string": True},
    tags={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    choice={"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
)


@pytest.mark.parametrize(
    ("fields", "mistakes"),
    [
        ({}, []),
        ({"name": "long"}, [("name", "maxLength")]),
        ({"name": None}, [("name", "type")]),
        ({"count": 0}, [("count", "minimum")]),
        ({"count": True}, [("count", "type")]),
        ({"count": 1.0}, []),
        ({"mode": "fsat"}, [("mode", "enum")]),
        ({"port": 1.5}, [("port", "type")]),
        ({"tags": ["a", "b", "a"]}, [("tags[2]", "duplicate")]),
        ({"choice": {}}, [("choice", "oneOf")]),
        ({"choice": {"a": 1, "b": 1}}, [("choice", "oneOf")]),
        ({"nmae": 1}, [("nmae", "unknown")]),
    ],
)
def test_a_mistake_has_its_path_and_rule(fields: dict[str, Any], mistakes: list[tuple[str, str]]) -> None:
    found = validate(SCHEMA, {"name": "a", **fields})
    assert [(mistake.path, mistake.rule) for mistake in found] == mistakes


def test_equal_items_of_a_list_map_that_are_no_objects_are_mistakes_of_their_type() -> None:
    schema = {
        "type": "array",
        "items": object_form("k", k={"type": "string"}),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    found = validate(schema, ["a", "a", {"k": "a"}, {"k": "a"}])
    assert [(mistake.path, mistake.rule) for mistake in found] == [
        ("[0]", "type"),
        ("[1]", "type"),
        ("[3]", "duplicate"),
    ]


@pytest.mark.parametrize("allowed", [[80, "http"], [80], [True, None, "http"]])
def test_a_text_is_compared_with_the_texts_of_an_enum_only(allowed: list[Any]) -> None:
    (mistake,) = validate({"x-kubernetes-int-or-string": True, "enum": allowed}, "htp")
    assert mistake.message.endswith("; did you mean 'http'?") is ("http" in allowed)


def test_a_required_field() -> None:
    assert [str(mistake) for mistake in validate(SCHEMA, {})] == ["name: is required and not given"]


def test_a_message_says_what_was_probably_meant() -> None:
    first, second = validate(SCHEMA, {"name": "a", "count": "2", "nmae": 1})
    assert first.message == "'2' is not a whole number; write it without quotes"
    assert second.message == "no field 'nmae'; did you mean 'name'?"


def test_what_is_as_it_was_is_no_mistake() -> None:
    stored = {"name": "long", "count": 0}
    assert validate(SCHEMA, stored, old=stored) == []
    assert [mistake.path for mistake in validate(SCHEMA, {**stored, "count": -1}, old=stored)] == ["count"]


def test_a_value_in_a_message_is_short() -> None:
    assert format_value({"a": None}) == '{"a":null}'
    assert len(format_value("x" * 100)) == 60
