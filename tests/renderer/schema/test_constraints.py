"""Effects of markers on the schema of their field."""

from typing import Any

import pytest

from renderer.schema.constraints import apply_marker, check_bounds, check_list_type
from renderer.schema.markers import MarkerError, parse_markers


def applied(schema: dict[str, Any], text: str) -> dict[str, Any]:
    schema = dict(schema)
    for marker in parse_markers(text):
        apply_marker(schema, marker)
    return schema


@pytest.mark.parametrize(
    ("kind", "text", "added"),
    [
        ("integer", "default=3 minimum=0", {"default": 3, "minimum": 0}),
        ("string", 'enum="a, b,a"', {"enum": ["a", "b"]}),
        ("integer", 'enum="1,2"', {"enum": [1, 2]}),
        ("number", "maximum=1.5", {"maximum": 1.5}),
        ("array", "uniqueItems=true", {"x-kubernetes-list-type": "set"}),
        (
            "string",
            "immutable=true",
            {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "field is immutable"}]},
        ),
    ],
)
def test_a_marker(kind: str, text: str, added: dict[str, Any]) -> None:
    schema = {"type": kind, "items": {"type": "string"}} if kind == "array" else {"type": kind}
    assert applied(schema, text) == schema | added


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("integer", "pattern=x", "marker pattern is for a string; the field is an integer"),
        ("integer", "default=1.5", "default=1.5 is not an integer"),
        ("integer", "minimum=0.5", "write a whole number, because the field is an integer"),
        ("integer", "minimum=٣", "minimum=٣: write a number"),
        ("integer", 'maximum=" 5"', "maximum= 5: write a number"),
        ("string", "maxLength=-1", "the number must not be negative"),
        ("string", "maxLength=-+5", "maxLength: '-+5' is not a whole number of 64 bits; write a number such as 5"),
        ("integer", 'enum="1,-+5"', "enum: '-+5' is not a whole number of 64 bits; write a number such as 5"),
        ("string", 'pattern="("', "is not a regular expression of RE2"),
        ("string", 'validation="other > 0"', "use only self and oldSelf"),
    ],
)
def test_a_value_that_does_not_fit(kind: str, text: str, message: str) -> None:
    with pytest.raises(MarkerError) as caught:
        applied({"type": kind}, text)
    assert message in str(caught.value)


def test_bounds_must_leave_a_value() -> None:
    check_bounds({"minimum": 1, "maximum": 1})
    with pytest.raises(MarkerError, match="minLength=3 is above maxLength=2; change one, because no value fits"):
        check_bounds({"minLength": 3, "maxLength": 2})


def test_a_list_map_needs_keys_that_are_always_there() -> None:
    items = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    with pytest.raises(MarkerError, match="must have required=true or a default"):
        check_list_type(schema)
    check_list_type({**schema, "items": {**items, "required": ["name"]}})
