"""Markers of a SimpleSchema field: the text after the first `|`."""

import pytest

from renderer.schema.markers import MarkerError, parse_json, parse_markers


def test_markers_are_read_in_order() -> None:
    markers = parse_markers(' required=true default = "two words" enum="a,b" validation="self > 0" validation=x ')
    assert [(marker.key, marker.value) for marker in markers] == [
        ("required", "true"),
        ("default", "two words"),
        ("enum", "a,b"),
        ("validation", "self > 0"),
        ("validation", "x"),
    ]


def test_a_bare_value_ends_at_a_blank_outside_of_brackets_and_quotes() -> None:
    (default, minimum) = parse_markers('default={"a": [1, 2], "b": "x y"} minItems=1')
    assert parse_json(default) == {"a": [1, 2], "b": "x y"}
    assert minimum.value == "1"


def test_escapes_of_a_quoted_value() -> None:
    (marker,) = parse_markers(r'default="a\"b\\c\d\n"')
    assert marker.value == r'a"b\c\d\n'
    assert marker.text == 'a"b\\c\\d\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing follows '|'"),
        ("required", "marker required has no value; write required=..."),
        ("default=1 default=2", "marker default is given twice; keep one"),
        ("minimun=1", "unknown marker 'minimun'; did you mean 'minimum'?"),
        ("nullable=true", "leave out a field that is not required"),
        ('default="x', "are not closed"),
        ("default={", "close the bracket"),
        ("default=1 | minimum=2", "a second '|'; separate markers by blanks"),
    ],
)
def test_a_mistake_says_what_to_do(text: str, message: str) -> None:
    with pytest.raises(MarkerError) as caught:
        parse_markers(text)
    assert message in str(caught.value)
