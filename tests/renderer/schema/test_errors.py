"""Texts and order of mistakes in schemas, and paths in the notation of authors."""

from __future__ import annotations

import json

import pytest

from renderer.errors import RendererError
from renderer.schema.errors import SchemaErrors, SchemaMistake, child_path

FIRST = SchemaMistake("types.Port", "the type is missing")
SECOND = SchemaMistake("spec.a", "is required and not given", "required")


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("", "size", "size"),
        ("spec", "size", "spec.size"),
        ("spec.database", "size", "spec.database.size"),
        ("[2]", "name", "[2].name"),
        ("spec", "max_size-2", "spec.max_size-2"),
        ("ports", "80", "ports.80"),
        ("spec", "größe", "spec.größe"),
        ("labels", "a.b/c", 'labels["a.b/c"]'),
        ("labels", "two words", 'labels["two words"]'),
        ("labels", "", 'labels[""]'),
        ("", "a.b", '["a.b"]'),
        ("labels", 'say "hi"', r'labels["say \"hi\""]'),
        ("labels", r"C:\dir", r'labels["C:\\dir"]'),
        ("labels", r"\"", r'labels["\\\""]'),
    ],
)
def test_a_plain_word_is_a_field_and_any_other_name_an_index(path: str, name: str, expected: str) -> None:
    assert child_path(path, name) == expected


@pytest.mark.parametrize("name", ["a.b", 'a"', "a\\", 'a\\"b', '"]["', "a b"])
def test_an_index_is_a_json_text_of_the_name(name: str) -> None:
    assert json.loads(child_path("labels", name).removeprefix("labels")) == [name]


def test_two_fields_never_share_a_path() -> None:
    places = [("a", "b.c"), ("a.b", "c"), ("", "a.b.c"), ("a", 'b"]["c'), ('a["b"]', "c"), ("a", 'b["c')]
    assert len({child_path(path, name) for path, name in places}) == len(places)


def test_a_mistake_is_written_with_its_path() -> None:
    assert str(FIRST) == "types.Port: the type is missing"
    assert str(SchemaMistake("", "is not an object", "type")) == "is not an object"


def test_a_mistake_in_a_schema_breaks_no_rule() -> None:
    assert FIRST.rule == ""


def test_mistakes_are_ordered_by_path_then_message_then_rule() -> None:
    ordered = [
        SchemaMistake("a", "m", "enum"),
        SchemaMistake("a", "m", "type"),
        SchemaMistake("a", "n", "enum"),
        SchemaMistake("b", "a", "enum"),
    ]
    assert sorted(ordered[number] for number in (2, 0, 3, 1)) == ordered


def test_equal_mistakes_count_once_in_a_set() -> None:
    assert {SchemaMistake("a", "m", "type"), SchemaMistake("a", "m", "type")} == {SchemaMistake("a", "m", "type")}


def test_errors_keep_the_order_of_their_mistakes_and_give_each_a_line() -> None:
    errors = SchemaErrors(mistake for mistake in (FIRST, SECOND))
    assert errors.mistakes == (FIRST, SECOND)
    assert str(errors) == "types.Port: the type is missing\nspec.a: is required and not given"


def test_errors_of_a_schema_are_errors_of_the_renderer() -> None:
    """Callers that report a mistake of the repository catch `RendererError`."""
    assert isinstance(SchemaErrors([FIRST]), RendererError)
