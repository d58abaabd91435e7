"""SimpleSchema to OpenAPI: types, markers, custom types, propagation of defaults, and messages to authors."""

from __future__ import annotations

import random
from typing import Any

import pytest

from renderer.schema.errors import SchemaErrors
from renderer.schema.simple_schema import MAX_NODES, to_openapi


def field(text: Any, **types: Any) -> dict[str, Any]:
    """Return the schema of one field `x`."""
    schema: dict[str, Any] = to_openapi({"x": text}, types)["properties"]["x"]
    return schema


def mistakes(spec: Any, **types: Any) -> list[str]:
    with pytest.raises(SchemaErrors) as caught:
        to_openapi(spec, types)
    return [str(mistake) for mistake in caught.value.mistakes]


def complaint(text: Any, **types: Any) -> str:
    (only,) = mistakes({"x": text}, **types)
    return only


STRING = {"type": "string"}
PERSON = {"name": "string", "age": "integer"}
PERSON_SCHEMA = {"type": "object", "properties": {"name": STRING, "age": {"type": "integer"}}}


# --- types -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("string", STRING),
        (" integer ", {"type": "integer"}),
        ("boolean", {"type": "boolean"}),
        ("float", {"type": "number"}),
        ("object", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ("[]string", {"type": "array", "items": STRING}),
        ("[] string", {"type": "array", "items": STRING}),
        ("[][]float", {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
        ("map[string]string", {"type": "object", "additionalProperties": STRING}),
        ("map[string][]string", {"type": "object", "additionalProperties": {"type": "array", "items": STRING}}),
        (
            "[]map[string]integer",
            {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}},
        ),
        ("Person", PERSON_SCHEMA),
        ("[]Person", {"type": "array", "items": PERSON_SCHEMA}),
        ("map[string]Person", {"type": "object", "additionalProperties": PERSON_SCHEMA}),
        (PERSON, PERSON_SCHEMA),
        ({}, {"type": "object", "properties": {}}),
    ],
)
def test_type_becomes_its_schema(text: Any, schema: dict[str, Any]) -> None:
    assert field(text, Person=PERSON) == schema


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("int", "unknown type 'int'; did you mean 'integer'?"),
        ("number", "unknown type 'number'; did you mean 'float'?"),
        ("bool", "did you mean 'boolean'?"),
        ("any", "did you mean 'object'?"),
        ("array", "did you mean '[]string'?"),
        ("strng", "did you mean 'string'?"),
        ("Persn", "did you mean 'Person'?"),
        ("xyzzy", "choose from string, integer, boolean, float, object, Person"),
        ("[]Nothing", "unknown type 'Nothing'"),
        ("", "the type is missing"),
        ("  | required=true", "the type is missing"),
        ("[]", "'[]' lacks the type of its items"),
        ("map[string]", "lacks the type of its items"),
        ("map[integer]string", "write map[string]string"),
        ("map[string", "is not closed"),
        ("[]" * 17 + "string", "deeper than 16 levels"),
        ("string required=true", "markers follow after '|'"),
        (None, "the type is missing"),
        (1, "1 is not a type"),
        (True, "true is not a type"),
        (["string"], 'such as "[]string"'),
    ],
)
def test_text_that_is_no_type_is_explained(text: Any, reason: str) -> None:
    found = complaint(text, Person=PERSON)
    assert found.startswith("spec.x: ")
    assert reason in found


def test_sixteen_levels_of_nesting_are_allowed() -> None:
    assert field("[]" * 16 + "string")["type"] == "array"


# --- markers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ('string | default="a.b"', {"default": "a.b"}),
        ("string | default=default", {"default": "default"}),
        ("string | default=100", {"default": "100"}),
        ("string | default=1.11.3", {"default": "1.11.3"}),
        ("string | default=coredns/coredns", {"default": "coredns/coredns"}),
        ("string | default=a=b", {"default": "a=b"}),
        ('string | default=""', {"default": ""}),
        ("string | default=", {"default": ""}),
        ('string | default="say \\"hi\\""', {"default": 'say "hi"'}),
        ('string | default="C:\\\\dir"', {"default": "C:\\dir"}),
        ('string | default="two\\nlines\\u0021"', {"default": "two\nlines!"}),
        ('string | default="\\d+"', {"default": "\\d+"}),
        ('string | default="a | b"', {"default": "a | b"}),
        ("string | default='x'", {"default": "'x'"}),
        ("string | default={not json}", {"default": "{not json}"}),
        ("integer | default=1", {"default": 1}),
        ('integer | default="1"', {"default": 1}),
        ("integer | default=-7", {"default": -7}),
        ("integer | default=1e3", {"default": 1000}),
        ("float | default=1", {"default": 1}),
        ("float | default=0.25", {"default": 0.25}),
        ("boolean | default=false", {"default": False}),
        ('boolean | default="true"', {"default": True}),
        ('[]string | default=["a","b"]', {"default": ["a", "b"]}),
        ('[]string | default=[ "a b", "]" ]', {"default": ["a b", "]"]}),
        ("[]string | default=[]", {"default": []}),
        ('map[string]string | default={"k": "\\"true\\""}', {"default": {"k": '"true"'}}),
        ('object | default={"a": {"b": [1, null]}}', {"default": {"a": {"b": [1, None]}}}),
        ('string | description="A helpful \\"text\\""', {"description": 'A helpful "text"'}),
        ("string | description=one", {"description": "one"}),
        ('string | enum="a, b ,c"', {"enum": ["a", "b", "c"]}),
        ("string | enum=a,b", {"enum": ["a", "b"]}),
        ('integer | enum="400,404"', {"enum": [400, 404]}),
        ("integer | minimum=0 maximum=100", {"minimum": 0, "maximum": 100}),
        ("float | minimum=0.5 maximum=1e2", {"minimum": 0.5, "maximum": 100}),
        ("string | minLength=3 maxLength=20", {"minLength": 3, "maxLength": 20}),
        ('string | pattern="^(a|b)\\d{2,4}$"', {"pattern": "^(a|b)\\d{2,4}$"}),
        ('string | pattern="^[\\\\w\\\\.-]+$"', {"pattern": "^[\\w\\.-]+$"}),
        ("string | pattern=^[a-z]+$", {"pattern": "^[a-z]+$"}),
        ("[]string | minItems=0 maxItems=5", {"minItems": 0, "maxItems": 5}),
        ("[]string | uniqueItems=true", {"x-kubernetes-list-type": "set"}),
        ("[]string | uniqueItems=false", {}),
        ("[]string | uniqueItems=true listType=set", {"x-kubernetes-list-type": "set"}),
        ("[]string | listType=atomic", {"x-kubernetes-list-type": "atomic"}),
        ("string | immutable=false", {}),
        ("string | required=false", {}),
        (
            'string | validation="self"',
            {"x-kubernetes-validations": [{"rule": "self", "message": "validation failed"}]},
        ),
        (
            'string | immutable=true validation="self.size() > 0" validation="self < \'z\'"',
            {
                "x-kubernetes-validations": [
                    {"rule": "self == oldSelf", "message": "field is immutable"},
                    {"rule": "self.size() > 0", "message": "validation failed"},
                    {"rule": "self < 'z'", "message": "validation failed"},
                ]
            },
        ),
        ("string|default=x", {"default": "x"}),
        (r'string | default="\ud83d\ude00 \ud83d"', {"default": "\U0001f600 \ufffd"}),
        (r'object | default={"a":"\ud83d","b":36893488147419103232}', {"default": {"a": "\ufffd", "b": 2.0**65}}),
        ("integer | default=9223372036854775807", {"default": 2**63 - 1}),
        ("string | default=x ", {"default": "x"}),
        ("string | default = x", {"default": "x"}),
        ('string | default = "x y"  description=z', {"default": "x y", "description": "z"}),
        ("string | default= description=z", {"default": "", "description": "z"}),
        ("string |\n  default=x\n  maxLength=3", {"default": "x", "maxLength": 3}),
    ],
)  # fmt: skip
def test_marker_adds_to_the_schema(text: str, added: dict[str, Any]) -> None:
    plain = field(text.partition("|")[0])
    assert field(text) == plain | added


def test_required_fields_are_listed_in_order() -> None:
    names = [f"field{n}" for n in range(20)]
    random.Random(7).shuffle(names)
    schema = to_openapi(dict.fromkeys(names, "string | required=true"))
    assert schema["required"] == sorted(names)


@pytest.mark.parametrize(
    "text", ["required = true", "required=true ", "required=True", "required=1", 'required="true"']
)
def test_required_is_read_in_every_form(text: str) -> None:
    assert to_openapi({"x": f"string | {text}"})["required"] == ["x"]


def test_list_map_needs_keys_that_are_always_there() -> None:
    item = {"port": "integer | required=true", "name": "string | default=a", "loose": "string", "deep": {"a": "string"}}
    assert field("[]Item | listType=map listMapKey=port listMapKey=name", Item=item) | {"items": None} == {
        "type": "array",
        "items": None,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "name"],
    }
    for key, reason in {
        "loose": "required=true or a default",
        "deep": "must be a string, number or boolean",
        "none": "the items have no field 'none'",
    }.items():
        assert reason in complaint(f"[]Item | listType=map listMapKey={key}", Item=item)
    assert "needs listMapKey" in complaint("[]Item | listType=map", Item=item)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("string |", "nothing follows '|'"),
        ("string | |", "a second '|'"),
        ("string | default=1 | minLength=2", "a second '|'"),
        ("string | optional", "a field without required=true is optional"),
        ("string | required", "marker required has no value"),
        ("string | default=a b", "'b' is neither a marker nor part of a value"),
        ("string | =x", "'=x' is not a marker"),
        ("string | requird=true", "unknown marker 'requird'; did you mean 'required'?"),
        ("string | nullable=true", "leave out a field that is not required"),
        ("string | zzz=1", "choose from required, default,"),
        ('string | description="open', "are not closed"),
        ('string | enum="a","b"', "follows the quoted value of enum"),
        ('object | default={"a": "b"', "close the bracket"),
        ("string | default=}", "'}' closes nothing"),
        ("string | default=a default=b", "given twice"),
        ("string | required=maybe", "required=maybe is not a boolean; write true or false"),
        ("string | immutable=si", "write true or false"),
        ("[]string | uniqueItems=x", "write true or false"),
        ("integer | default=one", "is not JSON"),
        ("integer | default=1.5", "default=1.5 is not an integer"),
        ("integer | default=true", "is not an integer"),
        ("integer | default=null", "is not an integer"),
        ("integer | default=", "default has no value"),
        ("integer | default=9223372036854775808", "is not an integer"),
        ("float | default=NaN", "not a number"),
        ("float | default=x", "is not JSON"),
        ("boolean | default=yes", "write true or false"),
        ("[]string | default=[a, b]", "put text in double quotes"),
        ("[]string | default=a", "is not JSON"),
        ("[]string | default={}", "is not a list"),
        ("map[string]string | default=[]", "is not an object"),
        ("[]string | default=[1]", "the default at [0] does not fit the field: 1 is not text"),
        ('map[string]integer | default={"a": "1"}', "the default at a does not fit the field"),
        ("integer | default=0 minimum=1", "the default does not fit the field: 0 is below the minimum 1"),
        ("string | default=d enum=a,b", "'d' is not one of a, b"),
        ('string | enum="a,,c"', "empty member"),
        ('string | enum=""', "empty member"),
        ('integer | enum="1,x"', "'x' is not a whole number of 64 bits; write a number such as 5"),
        ('boolean | enum="true"', "marker enum is for a string or an integer; the field is a boolean"),
        ("[]string | enum=a", "to restrict the items, define a type for the items under types"),
        ("string | minimum=1", "marker minimum is for an integer or a float; the field is a string"),
        ("integer | minimum=x", "write a number"),
        ("integer | minimum=inf", "write a number"),
        ("integer | minimum=0.5", "write a whole number"),
        ("integer | minimum=2 maximum=1", "no value fits"),
        ("integer | minLength=1", "marker minLength is for a string; the field is an integer"),
        ("string | minLength=a", "'a' is not a whole number of 64 bits; write a number such as 5"),
        ("string | minLength=-1", "the number must not be negative"),
        ("string | minLength=3 maxLength=2", "no value fits"),
        ('string | pattern=""', "pattern is empty"),
        ('string | pattern="[a"', "is not a regular expression of RE2"),
        ('string | pattern="(?=a)"', "is not a regular expression of RE2"),
        ('integer | pattern="a"', "marker pattern is for a string"),
        ("string | minItems=1", "marker minItems is for a list"),
        ("string | uniqueItems=true", "marker uniqueItems is for a list"),
        ("[]string | uniqueItems=true listType=atomic", "contradicts"),
        ("[]string | listType=map uniqueItems=true", "contradicts"),
        ("[]string | listType=bag", "listType=bag is not a list type; write atomic, set or map"),
        ("[]string | listMapKey=a", "listMapKey needs listType=map"),
        ("[]object | uniqueItems=true", "a set (uniqueItems or listType=set) needs items that are strings"),
        ('string | validation=" "', "validation is empty"),
        (
            'integer | default=1 validation="self > 1"',
            "the default does not fit the field: validation failed: self > 1",
        ),
        ('string | validation="self >"', "the rule ${self >}: "),
        ('string | validation="self.nosuch()"', "nosuch"),
        ('string | validation="schema.spec.x > 1"', "reads 'schema'; use only self and oldSelf"),
    ],
)
def test_marker_that_does_not_fit_is_explained(text: str, reason: str) -> None:
    found = complaint(text)
    assert found.startswith("spec.x: ")
    assert reason in found


def test_all_mistakes_are_reported_with_their_paths() -> None:
    assert [line.split(": ")[0] for line in mistakes(
        {"a": "int", "b": {"c": "string | minLength=x maxLength=y", "d.e/f": "nope"}, "ok": "string"},
        T={"g": "bool"},
    )] == ["types.T.g", "spec.a", "spec.b.c", "spec.b.c", 'spec.b["d.e/f"]']  # fmt: skip


@pytest.mark.parametrize("text", ["[]Fixed", "[]Holder", "map[string][]Fixed", "[]Holder | listType=atomic"])
def test_immutable_inside_of_a_list_is_refused(text: str) -> None:
    found = complaint(text, Fixed="string | immutable=true", Holder={"fixed": "Fixed"})
    assert "do not work inside a list" in found


def test_immutable_inside_of_a_list_is_reported_beside_other_mistakes_in_the_order_of_the_file() -> None:
    spec = {"before": "int", "list": "[]Fixed", "deep": {"list": "[]Fixed"}, "after": "int"}
    assert [line.split(": ")[0] for line in mistakes(spec, Fixed={"x": "string | immutable=true", "y": "int"})] == [
        "types.Fixed.y",
        "spec.before",
        "spec.list.x",
        "spec.deep.list.x",
        "spec.after",
    ]


@pytest.mark.parametrize(
    "markers", ["listType=mpa listMapKey=k", "listType=map listMapKey=q", "listType=map, listMapKey=k", "listtype=map"]
)
def test_a_list_of_unknown_type_does_not_make_immutable_a_mistake(markers: str) -> None:
    types = {"Keyed": {"k": "string | required=true", "fixed": "string | immutable=true"}}
    assert complaint(f"[]Keyed | {markers}", **types).startswith("spec.x: ")
    (found,) = mistakes({"x": "Lists"}, **types, Lists=f"[]Keyed | {markers}")
    assert found.startswith("types.Lists: ")


def test_immutable_on_a_list_in_a_map_or_in_a_list_map_is_allowed() -> None:
    types = {"Fixed": "string | immutable=true", "Keyed": {"k": "string | required=true", "fixed": "Fixed"}}
    for text in ("[]string | immutable=true", "map[string]Fixed", "[]Keyed | listType=map listMapKey=k"):
        field(text, **types)


# --- custom types ------------------------------------------------------------------------------------------------


def test_alias_brings_its_markers_and_may_be_extended_where_it_is_used() -> None:
    assert field("Port | default=80", Port="integer | minimum=1 maximum=65535") == {
        "type": "integer",
        "minimum": 1,
        "maximum": 65535,
        "default": 80,
    }


def test_markers_where_an_alias_is_used_leave_the_alias_alone() -> None:
    types = {"Name": "string | validation=\"self != ''\""}
    schema = to_openapi({"a": "Name | immutable=true default=x", "b": "Name"}, types)
    assert len(schema["properties"]["a"]["x-kubernetes-validations"]) == 2
    assert schema["properties"]["b"] == {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self != ''", "message": "validation failed"}],
    }


def test_required_alias_makes_every_direct_use_required() -> None:
    types = {"Key": "string | required=true", "Again": "Key", "Holder": {"key": "Key"}}
    spec = {"a": "Key", "b": "Again", "c": "[]Key", "d": "map[string]Key", "e": "Key | required=false", "f": "Holder"}
    schema = to_openapi(spec, types)
    assert schema["required"] == ["a", "b"]
    assert schema["properties"]["f"]["required"] == ["key"]


def test_types_may_refer_to_each_other_in_any_order() -> None:
    types = {"A": {"b": "[]B"}, "B": {"c": "C"}, "C": "integer | default=1"}
    assert field("A", **types)["properties"]["b"]["items"] == {
        "type": "object",
        "properties": {"c": {"type": "integer", "default": 1}},
        "default": {},
    }


@pytest.mark.parametrize(
    ("types", "cycle"),
    [
        ({"A": "B", "B": "A"}, "A -> B -> A"),
        ({"A": {"deep": {"list": "[]A"}}}, "A -> A"),
        ({"A": {"b": "B"}, "B": {"c": "map[string]C"}, "C": {"a": "[]B"}}, "B -> C -> B"),
    ],
)
def test_type_that_contains_itself_is_refused(types: dict[str, Any], cycle: str) -> None:
    (found,) = mistakes({"x": "string"}, **types)
    assert found == f"types.{cycle[0]}: the type contains itself ({cycle}); break the cycle with 'object'"


def test_mistake_in_a_type_is_reported_once_even_if_it_is_used_often_or_never() -> None:
    assert mistakes({"a": "T", "b": "[]T"}, T={"x": "nope"}, Unused="string | minLength=a") == [
        "types.T.x: unknown type 'nope'; choose from string, integer, boolean, float, object, T, Unused",
        "types.Unused: minLength: 'a' is not a whole number of 64 bits; write a number such as 5",
    ]


def test_mistakes_of_types_stand_in_the_order_of_the_types_and_not_of_their_use() -> None:
    types = {"A": {"b": "B", "c": "nope"}, "C": "nope", "B": {"c": "C", "d": "nope"}}
    assert [line.split(": ")[0] for line in mistakes({"x": "B"}, **types)] == ["types.A.c", "types.C", "types.B.d"]


def test_built_in_names_cannot_be_declared() -> None:
    message = "types.string: 'string' is a built-in type; choose another name"
    assert mistakes({"x": "string"}, string="integer") == [message]


def test_a_mistake_in_a_marker_stands_beside_a_mistake_in_the_type() -> None:
    assert mistakes({"x": "int | minimum"}) == [
        "spec.x: unknown type 'int'; did you mean 'integer'?",
        "spec.x: marker minimum has no value; write minimum=...",
    ]


def test_a_broken_field_causes_no_further_mistake() -> None:
    """Markers need a known type, and the default is checked only if every marker of the field is right."""
    assert complaint("int | default=1 minimum=2") == "spec.x: unknown type 'int'; did you mean 'integer'?"
    assert complaint("Broken | default=1 minimum=2", Broken="int").startswith("types.Broken: unknown type 'int'; ")
    assert complaint("integer | default=1 minimum=2 maximum=x") == "spec.x: maximum=x: write a number"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int", "unknown type 'int'; did you mean 'integer'?"),
        ("Lists", "unknown type 'Lists'; did you mean 'List'?"),
        ("xyzzy", "unknown type 'xyzzy'; choose from string, integer, boolean, float, object, List"),
        (["string"], 'a YAML list is not a type; write a list type in quotes, such as "[]string"'),
        (None, "the type is missing; write a type such as string"),
        (1.5, "1.5 is not a type; for a default, write a type and a marker: 'integer | default=1'"),
        (False, "false is not a type; for a default, write a type and a marker: 'integer | default=1'"),
        ("integer | default=0 minimum=1", "the default does not fit the field: 0 is below the minimum 1"),
        ("[]string | default=[1]", "the default at [0] does not fit the field: 1 is not text; put it in quotes"),
        (
            "List | default={}",
            "the default at items does not fit the field: is required and not given",
        ),
        (
            'integer | default=1 validation="self > 1"',
            "the default does not fit the field: validation failed: self > 1",
        ),
    ],
)
def test_author_is_told_what_is_wrong_with_a_field(text: Any, message: str) -> None:
    assert complaint(text, List={"items": "[]string | required=true"}) == f"spec.x: {message}"


@pytest.mark.parametrize(
    ("spec", "types", "messages"),
    [
        ("string", None, ["spec: 'string' is not a mapping from names to types"]),
        (["a"], None, ["spec: ['a'] is not a mapping from names to types"]),
        (1, None, ["spec: 1 is not a mapping from names to types"]),
        (True, None, ["spec: true is not a mapping from names to types"]),
        ({"x": "T"}, ["T"], ["types: ['T'] is not a mapping from names to types"]),
        (
            None,
            1,
            ["types: 1 is not a mapping from names to types", "spec: None is not a mapping from names to types"],
        ),
    ],
)
def test_only_mappings_declare_fields_and_types(spec: Any, types: Any, messages: list[str]) -> None:
    with pytest.raises(SchemaErrors) as caught:
        to_openapi(spec, types)
    assert list(map(str, caught.value.mistakes)) == messages


@pytest.mark.parametrize("types", [None, {}])
def test_a_schema_needs_no_custom_types(types: dict[str, Any] | None) -> None:
    assert to_openapi({"x": "string"}, types) == {"type": "object", "properties": {"x": STRING}}


def test_the_translation_leaves_its_arguments_alone() -> None:
    spec, types = {"a": "T | default=b", "b": {"c": "[]T"}}, {"T": "string | maxLength=3"}
    to_openapi(spec, types)
    assert (spec, types) == ({"a": "T | default=b", "b": {"c": "[]T"}}, {"T": "string | maxLength=3"})


TOO_LARGE = "the schema has more than 10,000 nodes after the expansion of custom types; use 'object'"
HUNDRED = {f"f{n}": "string" for n in range(99)}


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("string", 1),
        ("object", 1),
        ("[]string", 2),
        ("map[string]string", 2),
        ("[]map[string]string", 3),
        ("Hundred", 100),
        ("[]Hundred", 101),
        ("[]Hundred | minItems=1", 101),
        (HUNDRED, 100),
    ],
)
def test_a_schema_has_at_most_ten_thousand_nodes(text: Any, nodes: int) -> None:
    """The object itself is a node, and every use of a custom type counts in full."""
    count, rest = divmod(MAX_NODES - 1, nodes)
    spec = {f"a{n}": text for n in range(count)} | {f"b{n}": "string" for n in range(rest)}
    assert len(to_openapi(spec, {"Hundred": HUNDRED})["properties"]) == count + rest
    assert mistakes(spec | {"last": "string"}, Hundred=HUNDRED) == [f"spec: {TOO_LARGE}"]


def test_the_innermost_part_that_is_too_large_is_named_once() -> None:
    full = {f"f{n}": "string" for n in range(MAX_NODES - 1)}
    assert mistakes({"x": "[]Full"}, Full=full) == [f"spec.x: {TOO_LARGE}"]
    assert mistakes({"x": "map[string]Full"}, Full=full) == [f"spec.x: {TOO_LARGE}"]
    assert mistakes({"x": {"y": "Full"}}, Full=full) == [f"spec.x: {TOO_LARGE}"]
    assert mistakes({"x": "string"}, Unused=full | {"last": "string"}) == [f"types.Unused: {TOO_LARGE}"]


def test_types_that_explode_when_expanded_are_refused() -> None:
    types = {"T0": "string"} | {f"T{n}": {f"f{m}": f"T{n - 1}" for m in range(10)} for n in range(1, 10)}
    assert any("more than 10,000 nodes" in line for line in mistakes({"x": "T9"}, **types))


# --- default propagation -----------------------------------------------------------------------------------------


def test_object_whose_child_has_a_default_gets_an_empty_default() -> None:
    schema = to_openapi({"a": {"b": {"c": "integer | default=1"}}, "d": "string"})
    assert schema["default"] == {}
    assert schema["properties"]["a"]["default"] == {}
    assert schema["properties"]["a"]["properties"]["b"]["default"] == {}


def test_required_field_stops_the_default_at_its_level_only() -> None:
    schema = to_openapi(
        {
            "outer": {
                "inner": {"name": "string | required=true", "size": "integer | default=1"},
                "x": "string | default=y",
            }
        }
    )
    assert schema["default"] == {}
    assert schema["properties"]["outer"]["default"] == {}
    assert "default" not in schema["properties"]["outer"]["properties"]["inner"]


def test_defaults_of_items_do_not_spread() -> None:
    assert "default" not in to_openapi({"a": "[]T"}, {"T": {"x": "integer | default=1"}})


def test_no_default_no_propagation() -> None:
    assert "default" not in to_openapi({"a": {"b": "string"}})


def test_a_default_of_the_object_itself_spreads_without_a_default_of_its_fields() -> None:
    """The parent gets `{}`, because a child has a default; the child keeps the default that its author wrote."""
    schema = to_openapi({"a": 'T | default={"b": "c"}'}, {"T": {"b": "string"}})
    assert schema["default"] == {}
    assert schema["properties"]["a"]["default"] == {"b": "c"}


def test_the_default_of_an_author_replaces_the_empty_default() -> None:
    types = {"T": {"b": "integer | default=1"}}
    assert field("T", **types)["default"] == {}
    assert field('T | default={"b": 2}', **types)["default"] == {"b": 2}


def test_default_that_only_a_nested_default_completes_is_refused() -> None:
    """The API server validates a default without the defaults of its fields."""
    message = "spec.x: the default at a does not fit the field: is required and not given"
    assert complaint("T | default={}", T={"a": "string | required=true default=x"}) == message
