"""Which changes of a schema break instances."""

from __future__ import annotations

from typing import Any

import pytest

from renderer.schema import SchemaChange, compatibility, to_openapi


def changes(old: Any, new: Any, **types: Any) -> list[SchemaChange]:
    return compatibility(
        to_openapi({"x": old, "keep": "string"}, types), to_openapi({"x": new, "keep": "string"}, types)
    )


def test_equal_schemas_have_no_changes() -> None:
    spec = {"a": "[]T | minItems=1", "b": "map[string]T", "c": "string | enum=a,b default=a"}
    types = {"T": {"x": "integer | required=true minimum=1", "y": 'string | pattern="^a"'}}
    assert compatibility(to_openapi(spec, types), to_openapi(spec, types)) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("string", "integer", "type changed from string to integer"),
        ("string", "[]string", "type changed from string to array"),
        ({"a": "string"}, "map[string]string", "type changed from object to map"),
        ("object", "map[string]string", "type changed from object to map"),
        ("[]string", "[]integer", "type changed from string to integer"),
        ("map[string]string", "map[string]float", "type changed from string to number"),
        ({"a": "string"}, {"b": "string"}, "field removed"),
        ("object", {"a": "string"}, "fields that the schema does not name are no longer kept"),
        ("string", "string | required=true", "became required"),
        ("string | required=true default=a", "string | required=true", "default of a required field removed"),
        ("string | enum=a,b,c", "string | enum=a,c", "enum lost b"),
        ("string", "string | enum=a", "enum added"),
        ("string", "string | pattern=^a", "pattern added"),
        ("string | pattern=^b", "string | pattern=^a", "pattern changed"),
        ("integer | minimum=1", "integer | minimum=2", "minimum changed from 1 to 2"),
        ("integer", "integer | minimum=0", "minimum=0 added"),
        ("integer | maximum=9", "integer | maximum=8", "maximum changed from 9 to 8"),
        ("integer", "integer | maximum=9", "maximum=9 added"),
        ("string", "string | minLength=1", "minLength=1 added"),
        ("string | maxLength=9", "string | maxLength=8", "maxLength changed from 9 to 8"),
        ("[]string | minItems=1", "[]string | minItems=2", "minItems changed from 1 to 2"),
        ("[]string", "[]string | maxItems=1", "maxItems=1 added"),
        ("[]string", "[]string | uniqueItems=true", "list type changed from atomic to set"),
        ("[]M | listType=map listMapKey=k", "[]M | listType=map listMapKey=l", "keys of the list changed from k to l"),
        ("integer", 'integer | validation="self > 1"', "validation added: self > 1"),
        ("integer", "integer | immutable=true", "validation added: self == oldSelf"),
    ],
)
def test_breaking_change_is_named(old: Any, new: Any, message: str) -> None:
    keyed = {"k": "string | required=true", "l": "string | required=true"}
    assert message in [change.message for change in changes(old, new, M=keyed) if change.breaking]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ({"a": "string"}, {"a": "string", "b": "string"}, "field added"),
        ({"a": "string"}, "object", "fields that the schema does not name are kept"),
        ("string | required=true", "string", "no longer required"),
        ("string", "string | required=true default=a", "became required (and has a default)"),
        ("string | enum=a", "string | enum=a,b", "enum gained b"),
        ("string | enum=a", "string", "enum removed"),
        ("string | pattern=^a", "string", "pattern removed"),
        ("integer | minimum=2", "integer | minimum=1", "minimum changed from 2 to 1"),
        ("integer | minimum=2", "integer", "minimum removed"),
        ("integer | maximum=8", "integer | maximum=9", "maximum changed from 8 to 9"),
        ("string | maxLength=8", "string", "maxLength removed"),
        ("string", "string | minLength=0", "minLength=0 added"),
        ("[]string | minItems=2", "[]string", "minItems removed"),
        ("[]string | uniqueItems=true", "[]string", "list type changed from set to atomic"),
        ('integer | validation="self > 1"', "integer", "validation removed: self > 1"),
        ("string", 'string | description="x"', "description added"),
        ("string | default=a", "string | default=b", "default changed"),
        ("string | default=a", "string", "default removed"),
        ("boolean | default=true", "boolean | default=false", "default changed"),
    ],
)
def test_harmless_change_is_named_and_breaks_nothing(old: Any, new: Any, message: str) -> None:
    found = changes(old, new)
    assert message in [change.message for change in found]
    assert not any(change.breaking for change in found)


def test_changes_have_the_path_of_their_field() -> None:
    old = to_openapi({"db": {"size": "string"}, "ports": "[]T", "by": "map[string]T"}, {"T": {"p": "integer"}})
    new = to_openapi({"db": {"size": "integer"}, "ports": "[]T", "by": "map[string]T"}, {"T": {"p": "string"}})
    assert [change.path for change in compatibility(old, new)] == ["spec.db.size", "spec.ports[].p", "spec.by.*.p"]
