"""The type of a SimpleSchema field."""

import pytest

from renderer.schema.type_syntax import (
    AnyObject,
    Atomic,
    CustomTypeSpec,
    ListSpec,
    MapSpec,
    TypeSpec,
    TypeSyntaxError,
    parse_type,
)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (" string ", Atomic("string")),
        ("float", Atomic("number")),
        ("object", AnyObject()),
        ("[]integer", ListSpec(Atomic("integer"))),
        ("map[string][]Person", MapSpec(ListSpec(CustomTypeSpec("Person")))),
        ("[] map[ string ] boolean", ListSpec(MapSpec(Atomic("boolean")))),
    ],
)
def test_a_type(text: str, spec: TypeSpec) -> None:
    assert parse_type(text) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the type is missing"),
        ("[]", "'[]' lacks the type of its items"),
        ("map[integer]string", "keys of a map are text"),
        ("map[string", "is not closed"),
        ("string default=x", "markers follow after '|'"),
        ("[]" * 17 + "string", "nested deeper than 16 levels"),
    ],
)
def test_a_text_that_is_not_a_type(text: str, message: str) -> None:
    with pytest.raises(TypeSyntaxError) as caught:
        parse_type(text)
    assert message in str(caught.value)
