"""Type check of templates, with the kinds of a commit and with given types (kro, "Static type checking")."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderer.catalog.catalog import Catalog, load
from renderer.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    STRING,
    Dyn,
    Record,
    Scalar,
    StaticList,
    StaticMap,
    StaticOptional,
    Type,
)
from renderer.definition.template_types import describe_misfit, find_misfits, format_type
from renderer.export.lint import Severity, lint
from renderer.identity import GroupKind
from renderer.render.render import render
from tests.support.properties.repositories import GROUP, config_map, definition, widget, widgets

INNER = {
    "name": "string | required=true",
    "size": "integer | default=1 minimum=1",
    "ratio": "float",
    "tags": "[]string",
    "labels": "map[string]string",
    "free": "object",
    "deep": {"port": "integer | required=true"},
}
OUTER = {"text": "string", "count": "integer", "names": "[]string", "any": "object"}
SPEC = {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": True}, "on": {"type": "boolean"}}}
WIDGET = widgets("w.test", {"properties": {"spec": SPEC}})


def catalog(spec: Any, *, kind: str = "Inner", version: str = "v1", group: str = GROUP) -> Catalog:
    node = config_map("node", name="n")
    node["template"] = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "n"}, "spec": spec}
    files = {
        "inner.json": definition(
            "Inner", [config_map("i", name="i-${schema.spec.name}")], spec={**INNER, "text": "string"}
        ),
        "outer.json": definition("Outer", [node, widget("web", name="w")], spec=OUTER),
        "widget.json": json.dumps(WIDGET),
    }
    return load({name: text.encode() for name, text in files.items()})


def found(spec: Any, **more: str) -> list[tuple[str, str]]:
    """Return the parts of a template that do not fit the kind of its object, as (path, message)."""
    read = catalog(spec, **more)
    assert (GroupKind(GROUP, "Outer") in read.broken) is bool(read.problems)
    below = "spec.resources[0].template."
    return [(problem.path.removeprefix(below), problem.message) for problem in read.problems]


def unservable(spec: Any) -> list[tuple[str, str]]:
    """Return the errors of lint for a template whose types fit, as (path, message)."""
    read = catalog(spec)
    errors = [one.problem for one in lint({}, read, render([read])) if one.severity is Severity.ERROR]
    return [(problem.path.removeprefix("spec.resources[0].template."), problem.message) for problem in errors]


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "n"},
        {"name": "${schema.spec.text}", "size": "${schema.spec.count}", "tags": "${schema.spec.names}"},
        {
            "name": "x-${schema.spec.text}",
            "ratio": "${double(schema.spec.count)}",
            "tags": ["a", "${schema.spec.text}"],
        },
        {"name": "${web.status.name}", "size": "${web.status.size}", "deep": "${web.status.deep}"},
        {"name": None, "free": {"any": ["thing", 1]}, "labels": {"a": "${schema.spec.text}"}},
        {"name": "n", "deep": {"port": 1}, "size": 2, "ratio": 1},
        {"name": "${schema.spec.any.name}", "size": "${omit()}"},
        "${schema.spec.any}",
    ],
)
def test_what_fits_or_cannot_be_told_is_no_mistake(spec: Any) -> None:
    assert found(spec) == []


@pytest.mark.parametrize(
    ("spec", "path", "told"),
    [
        ({"name": "n", "siez": 1}, "spec.siez", "no field 'siez'; did you mean 'size'?"),
        ({"name": "n", "deep": {"port": 1, "x": 1}}, "spec.deep.x", "no field 'x'; the fields are port"),
        ({"name": 1}, "spec.name", "1 is an integer, where a string is needed; put it in quotes"),
        ({"name": True}, "spec.name", "True is a boolean, where a string is needed; put it in quotes"),
        ({"size": "2"}, "spec.size", "'2' is a string, where an integer is needed; write it without quotes"),
        ({"size": 1.5}, "spec.size", "1.5 is a float, where an integer is needed"),
        ({"free": 5}, "spec.free", "5 is an integer, where an object is needed"),
        ({"name": "${schema.spec.count}"}, "spec.name",
         "${schema.spec.count}: is an integer, where a string is needed; write string(schema.spec.count)"),
        ({"ratio": "${schema.spec.count}"}, "spec.ratio",
         "${schema.spec.count}: is an integer, where a float is needed; write double(schema.spec.count)"),
        ({"size": "a${schema.spec.text}"}, "spec.size", "a${schema.spec.text} is a string, where an integer is needed"),
        ({"size": "${1.5}"}, "spec.size", "${1.5}: is a float, where an integer is needed; write int(1.5)"),
        ({"tags": "${schema.spec.text}"}, "spec.tags", "${schema.spec.text}: is a string, where a list is needed"),
        ({"tags": "${[schema.spec.count]}"}, "spec.tags",
         "${[schema.spec.count]}: [] is an integer, where a string is needed"),
        ({"tags": ["a", 1]}, "spec.tags[1]", "1 is an integer, where a string is needed; put it in quotes"),
        ({"labels": {"a/b": 1}}, 'spec.labels["a/b"]', "1 is an integer, where a string is needed; put it in quotes"),
        ({"labels": []}, "spec.labels", "[] is a list, where an object is needed"),
        ({"labels": "${{'a': 1}}"}, "spec.labels", "${{'a': 1}}: .a is an integer, where a string is needed"),
        ({"deep": "${{'prot': 1}}"}, "spec.deep", "${{'prot': 1}}: no field 'prot'; did you mean 'port'?"),
        ({"deep": "${{'port': '1'}}"}, "spec.deep", "${{'port': '1'}}: .port is a string, where an integer is needed"),
        ({"deep": "${{schema.spec.text: true}}"}, "spec.deep",
         "${{schema.spec.text: true}}: the values of the map are a boolean, which no field accepts"),
        ({"name": "${quantity('1')}"}, "spec.name",
         "${quantity('1')}: is a quantity, which cannot be a field; use string(...) or one of its methods"),
        ({"name": "${ip('::1')}"}, "spec.name",
         "${ip('::1')}: is an ip, which cannot be a field; use string(...) or one of its methods"),
        ({"name": "${schema.spec.?count}"}, "spec.name",
         "${schema.spec.?count}: is an integer, where a string is needed; write string(schema.spec.?count)"),
        ({"name": "a-${schema.spec.?text}"}, "spec.name",
         "${schema.spec.?text}: is an optional, where a string is needed; write schema.spec.?text.orValue('')"),
        ({"name": "a-${schema.spec.count}"}, "spec.name",
         "${schema.spec.count}: is an integer, where a string is needed; write string(schema.spec.count)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_its_path(spec: Any, path: str, told: str) -> None:
    """Rgd 1.3 rule 6, 1.11; the definition is broken, nothing else of the commit."""
    assert found(spec) == [(path, told)]


@pytest.mark.parametrize(
    ("spec", "path", "told"),
    [
        ({}, "spec.name", "is required and not given"),
        ({"name": "n", "deep": {}}, "spec.deep.port", "is required and not given"),
        ({"name": "n", "size": 0}, "spec.size", "0 is below the minimum 1"),
    ],
)
def test_what_the_server_would_refuse_is_told_by_lint(spec: Any, path: str, told: str) -> None:
    """Kro accepts such a definition, and so do we: something else may complete the object on its way."""
    assert found(spec) == []
    assert unservable(spec) == [(path, told)]


def test_crds_of_the_commit_count_too() -> None:
    assert found({"port": "http", "on": True}, kind="Widget", group="w.test") == []
    assert found({"on": "${schema.spec.text}"}, kind="Widget", group="w.test") == [
        ("spec.on", "${schema.spec.text}: is a string, where a boolean is needed")
    ]
    assert found({"port": True}, kind="Widget", group="w.test") == [
        ("spec.port", "True is a boolean, where a string or an integer is needed")
    ]
    assert found({}, kind="Widget", group="w.test", version="v2") == [
        ("apiVersion", "Widget.w.test has no version v2; choose from v1")
    ]


def test_a_kind_without_a_schema_is_not_checked() -> None:
    assert found({"what": "ever"}, kind="Gadget", group="w.test") == []


# --- types of expressions ----------------------------------------------------------------------------------------

NULL, OMIT, UINT, TIMESTAMP, DURATION, QUANTITY = map(
    Scalar, ("null", "omit", "uint", "timestamp", "duration", "quantity")
)


def only(*names: str) -> Dyn:
    """Return the type of a field with several OpenAPI types."""
    return Dyn(frozenset(names))


@pytest.mark.parametrize("kind", [STRING, INT, BOOL, DOUBLE, BYTES, TIMESTAMP, DURATION, StaticList(INT), DYN])
def test_a_type_fits_itself(kind: Type) -> None:
    assert describe_misfit("x", kind, kind) == ""


@pytest.mark.parametrize("given", [NULL, OMIT, DYN, StaticOptional(DYN), StaticOptional(NULL)])
@pytest.mark.parametrize(
    "expected",
    [
        STRING,
        INT,
        BOOL,
        DOUBLE,
        BYTES,
        StaticList(INT),
        StaticMap(STRING, INT),
        Record({"a": INT}),
        DYN,
        only("object"),
    ],
)
def test_null_and_an_unknown_type_fit_everywhere(given: Type, expected: Type) -> None:
    assert describe_misfit("x", given, expected) == ""


@pytest.mark.parametrize("given", [STRING, INT, BOOL, DOUBLE, TIMESTAMP, StaticList(INT), Record({"a": INT})])
def test_every_json_value_fits_a_field_of_unknown_type(given: Type) -> None:
    assert describe_misfit("x", given, DYN) == ""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (UINT, INT),
        (TIMESTAMP, STRING),
        (STRING, TIMESTAMP),
        (DURATION, STRING),
        (STRING, DURATION),
        (STRING, BYTES),
        (INT, only("number")),
        (DOUBLE, only("number", "string")),
        (TIMESTAMP, only("string")),
        (StaticList(INT), only("array")),
        (Record({"a": INT}), only("object")),
        (only("integer", "boolean"), INT),
        (only("number"), INT),
        (only("string"), BYTES),
        (only("string"), TIMESTAMP),
        (only("array"), StaticList(INT)),
        (only("object"), Record({"a": INT})),
        (only("integer", "string"), only("string", "boolean")),
        (StaticOptional(INT), INT),
        (StaticList(DYN), StaticList(INT)),
        (StaticMap(STRING, UINT), StaticMap(STRING, INT)),
    ],
)
def test_a_type_fits_where_its_json_values_do(given: Type, expected: Type) -> None:
    assert describe_misfit("x", given, expected) == ""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Record({}), Record({"a": INT})),
        (Record({"a": INT}), Record({"a": INT, "b": INT})),
        (Record({"a": INT, "b": BOOL}), Record({"a": INT}, open=True)),
        (Record({"a": INT, "b": UINT}), StaticMap(STRING, INT)),
        (StaticMap(STRING, INT), Record({"a": STRING, "b": INT})),
        (StaticMap(STRING, INT), Record({"a": STRING}, open=True)),
        (StaticMap(STRING, INT), Record({})),
    ],
)
def test_a_map_with_known_keys_may_lack_fields_of_the_expected_type(given: Type, expected: Type) -> None:
    assert describe_misfit("x", given, expected) == ""


@pytest.mark.parametrize(
    ("given", "expected", "message"),
    [
        (INT, STRING, "is an integer, where a string is needed; write string(x)"),
        (UINT, STRING, "is an integer, where a string is needed; write string(x)"),
        (DOUBLE, STRING, "is a float, where a string is needed; write string(x)"),
        (BOOL, STRING, "is a boolean, where a string is needed; write string(x)"),
        (BYTES, STRING, "is bytes, where a string is needed; write string(x) or base64.encode(x)"),
        (INT, DOUBLE, "is an integer, where a float is needed; write double(x)"),
        (UINT, DOUBLE, "is an integer, where a float is needed; write double(x)"),
        (STRING, INT, "is a string, where an integer is needed; write int(x)"),
        (DOUBLE, INT, "is a float, where an integer is needed; write int(x)"),
        (StaticOptional(INT), STRING, "is an integer, where a string is needed; write string(x)"),
        (STRING, BOOL, "is a string, where a boolean is needed"),
        (BYTES, INT, "is bytes, where an integer is needed"),
        (INT, TIMESTAMP, "is an integer, where a timestamp is needed"),
        (TIMESTAMP, DURATION, "is a timestamp, where a duration is needed"),
        (STRING, StaticList(STRING), "is a string, where a list is needed"),
        (StaticList(STRING), STRING, "is a list, where a string is needed"),
        (Record({"a": INT}), StaticList(INT), "is an object, where a list is needed"),
        (INT, only("string", "boolean"), "is an integer, where a boolean or a string is needed"),
        (StaticList(INT), only("object"), "is a list, where an object is needed"),
        (only("integer", "boolean"), STRING, "is a boolean or an integer, where a string is needed"),
        (only("object"), StaticList(INT), "is an object, where a list is needed"),
        (only("integer"), only("boolean"), "is an integer, where a boolean is needed"),
    ],
)
def test_a_type_that_never_fits_is_told_with_its_conversion(given: Type, expected: Type, message: str) -> None:
    assert describe_misfit("x", given, expected) == f"${{x}}: {message}"


@pytest.mark.parametrize("expected", [DYN, STRING, StaticList(STRING)])
def test_a_value_without_a_form_in_json_is_never_a_field(expected: Type) -> None:
    message = "is a quantity, which cannot be a field; use string(...) or one of its methods"
    assert describe_misfit("x", QUANTITY, expected) == f"${{x}}: {message}"


@pytest.mark.parametrize(
    ("given", "place"), [(BYTES, ""), (StaticList(BYTES), " []"), (StaticMap(STRING, BYTES), " []")]
)
def test_bytes_fit_no_field_of_unknown_type(given: Type, place: str) -> None:
    message = "is bytes, which cannot be a field; use base64.encode(...) or string(...)"
    assert describe_misfit("x", given, DYN) == f"${{x}}:{place} {message}"


@pytest.mark.parametrize(
    ("given", "expected", "message"),
    [
        (StaticList(INT), StaticList(STRING), "[] is an integer, where a string is needed"),
        (StaticList(StaticList(INT)), StaticList(StaticList(STRING)), "[][] is an integer, where a string is needed"),
        (StaticMap(STRING, INT), StaticMap(STRING, BOOL), "[] is an integer, where a boolean is needed"),
        (Record({"a": INT}), StaticMap(STRING, BOOL), ".a is an integer, where a boolean is needed"),
        (
            StaticList(Record({"a": INT})),
            StaticList(Record({"a": STRING})),
            "[].a is an integer, where a string is needed",
        ),
        (
            Record({"a": Record({"b/c": INT})}),
            Record({"a": Record({"b/c": BOOL})}),
            '.a["b/c"] is an integer, where a boolean is needed',
        ),
        (
            Record({"a": BOOL, "b": INT, "c": INT}),
            Record({"a": BOOL, "b": STRING, "c": STRING}),
            ".b is an integer, where a string is needed",
        ),
        (Record({"prot": INT}), Record({"port": INT}), "no field 'prot'; did you mean 'port'?"),
        (Record({"x": INT}), Record({"port": INT, "name": STRING}), "no field 'x'; the fields are name, port"),
        (Record({"x": INT}), Record({}), "no field 'x'"),
        (
            Record({"deep": Record({"prot": INT})}),
            Record({"deep": Record({"port": INT})}),
            ".deep: no field 'prot'; did you mean 'port'?",
        ),
        (
            StaticMap(STRING, BOOL),
            Record({"a": INT, "b": STRING}),
            "the values of the map are a boolean, which no field accepts",
        ),
        (
            StaticList(StaticMap(STRING, BOOL)),
            StaticList(Record({"a": INT})),
            "[]: the values of the map are a boolean, which no field accepts",
        ),
    ],
)
def test_the_first_part_that_never_fits_is_told_with_its_place(given: Type, expected: Type, message: str) -> None:
    assert describe_misfit("x", given, expected) == f"${{x}}: {message}"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (STRING, "a string"),
        (UINT, "an integer"),
        (DOUBLE, "a float"),
        (BYTES, "bytes"),
        (TIMESTAMP, "a timestamp"),
        (QUANTITY, "a quantity"),
        (StaticList(INT), "a list"),
        (StaticMap(STRING, INT), "an object"),
        (Record({}), "an object"),
        (StaticOptional(INT), "an optional"),
        (only("string"), "a string"),
        (only("string", "integer", "number"), "a float or a string or an integer"),
    ],
)
def test_a_type_is_named_with_its_article(kind: Type, text: str) -> None:
    assert format_type(kind) == text


# --- parts of a template -----------------------------------------------------------------------------------------


def misfits(value: Any, expected: Type, given: Type = DYN) -> list[tuple[str, str]]:
    """Return the misfits of a template whose expressions all have the type `given`."""
    return list(find_misfits(value, expected, lambda _text, _path: given))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", STRING),
        ("", STRING),
        ("x", BYTES),
        ("1h", DURATION),
        (1, INT),
        (1.0, INT),
        (1, DOUBLE),
        (1.5, DOUBLE),
        (True, BOOL),
        (1, only("integer", "string")),
        (1, only("number")),
        ("http", only("integer", "string")),
        ([], StaticList(INT)),
        ({}, Record({"a": INT})),
        ({}, StaticMap(STRING, INT)),
        ([], only("array")),
        ({"a": 1}, only("object")),
        ([1, "a", {"b": None}], DYN),
    ],
)
def test_a_literal_of_the_type_of_its_field_fits(value: Any, expected: Type) -> None:
    assert misfits(value, expected) == []


@pytest.mark.parametrize("expected", [STRING, INT, StaticList(INT), Record({"a": INT}), only("boolean"), DYN])
def test_a_literal_null_fits_everywhere(expected: Type) -> None:
    assert misfits(None, expected) == []


@pytest.mark.parametrize(
    ("value", "expected", "message"),
    [
        (1, STRING, "1 is an integer, where a string is needed; put it in quotes"),
        (1.5, STRING, "1.5 is a float, where a string is needed; put it in quotes"),
        (False, STRING, "False is a boolean, where a string is needed; put it in quotes"),
        ("-5", INT, "'-5' is a string, where an integer is needed; write it without quotes"),
        ("true", BOOL, "'true' is a string, where a boolean is needed; write it without quotes"),
        ("five", INT, "'five' is a string, where an integer is needed"),
        ("true", INT, "'true' is a string, where an integer is needed"),
        ("5", BOOL, "'5' is a string, where a boolean is needed"),
        ("1.5", INT, "'1.5' is a string, where an integer is needed"),
        ("1.5", DOUBLE, "'1.5' is a string, where a float is needed; write it without quotes"),
        ("--5", INT, "'--5' is a string, where an integer is needed"),
        ("٥", INT, "'٥' is a string, where an integer is needed"),
        (True, INT, "True is a boolean, where an integer is needed"),
        (True, DOUBLE, "True is a boolean, where a float is needed"),
        (1, BOOL, "1 is an integer, where a boolean is needed"),
        (1.5, INT, "1.5 is a float, where an integer is needed"),
        (float("inf"), INT, "inf is a float, where an integer is needed"),
        ([1], STRING, "[1] is a list, where a string is needed"),
        ({"a": 1}, StaticList(INT), "{'a': 1} is an object, where a list is needed"),
        ([1], Record({"a": INT}), "[1] is a list, where an object is needed"),
        ("x", StaticList(STRING), "'x' is a string, where a list is needed"),
        (True, only("integer", "string"), "True is a boolean, where a string or an integer is needed"),
        ([], only("object"), "[] is a list, where an object is needed"),
        ({}, only("array"), "{} is an object, where a list is needed"),
    ],
)
def test_a_literal_of_another_type_is_told_with_its_quotes(value: Any, expected: Type, message: str) -> None:
    assert misfits(value, expected) == [("", message)]


@pytest.mark.parametrize(
    ("length", "shown"), [(58, repr("x" * 58)), (59, f"{repr('x' * 59)[:57]}...")], ids=["sixty", "sixty-one"]
)
def test_a_message_shows_at_most_sixty_characters_of_a_literal(length: int, shown: str) -> None:
    assert len(shown) == 60
    assert misfits("x" * length, INT) == [("", f"{shown} is a string, where an integer is needed")]


def test_every_misfit_is_told_in_the_order_of_the_template() -> None:
    expected = Record({"name": STRING, "ports": StaticList(INT), "labels": StaticMap(STRING, STRING)})
    template = {"ports": [1, True, 2, "x"], "siez": 1, "labels": {"a/b": 1, "c": "d"}, "name": 5}
    assert list(find_misfits(template, expected, lambda _text, _path: DYN, "spec")) == [
        ("spec.ports[1]", "True is a boolean, where an integer is needed"),
        ("spec.ports[3]", "'x' is a string, where an integer is needed"),
        ("spec.siez", "no field 'siez'; the fields are labels, name, ports"),
        ('spec.labels["a/b"]', "1 is an integer, where a string is needed; put it in quotes"),
        ("spec.name", "5 is an integer, where a string is needed; put it in quotes"),
    ]


def test_a_map_that_may_have_other_keys_accepts_any_field() -> None:
    assert misfits({"a": 1, "b": [True]}, Record({"a": INT}, open=True)) == []
    assert misfits({"a": True}, Record({"a": INT}, open=True)) == [
        ("a", "True is a boolean, where an integer is needed")
    ]


@pytest.mark.parametrize(("count", "rest"), [(20, ""), (21, " and 1 more"), (30, " and 10 more")])
def test_a_message_lists_at_most_twenty_fields(count: int, rest: str) -> None:
    names = [f"field{number:02}" for number in range(count)]
    assert misfits({"x": 1}, Record(dict.fromkeys(reversed(names), INT))) == [
        ("x", f"no field 'x'; the fields are {', '.join(names[:20])}{rest}")
    ]


def test_the_check_asks_once_for_the_type_of_each_expression() -> None:
    asked = list[tuple[str, str]]()

    def type_of(text: str, path: str) -> Type:
        asked.append((text, path))
        return STRING

    template = {"a": "${ one }", "b": ["x-${two}-${ three }"], "c": {"d": "${four}"}, "e": "text", "f": 1}
    assert list(find_misfits(template, DYN, type_of, "spec")) == []
    assert asked == [("one", "spec.a"), ("two", "spec.b[0]"), ("three", "spec.b[0]"), ("four", "spec.c.d")]


@pytest.mark.parametrize(
    ("value", "expected", "path"),
    [
        ("${x}", DYN, ""),
        ({"a": ["${x}"]}, DYN, "a[0]"),
        ({"a": "${x}"}, Record({}, open=True), "a"),
        (["${x}"], StaticList(DYN), "[0]"),
    ],
)
def test_an_expression_in_a_field_of_unknown_type_is_checked_too(value: Any, expected: Type, path: str) -> None:
    message = "${x}: is a quantity, which cannot be a field; use string(...) or one of its methods"
    assert misfits(value, expected, QUANTITY) == [(path, message)]


@pytest.mark.parametrize(
    ("value", "expected", "path", "message"),
    [
        ({"b": "${x}"}, Record({"a": INT}), "b", "no field 'b'; the fields are a"),
        (["${x}"], INT, "", "['${x}'] is a list, where an integer is needed"),
        ({"b": "${x}"}, INT, "", "{'b': '${x}'} is an object, where an integer is needed"),
    ],
)
def test_an_expression_inside_of_a_misfit_is_checked_too(value: Any, expected: Type, path: str, message: str) -> None:
    first, second = misfits(value, expected, QUANTITY)
    assert first == (path, message)
    assert second[1].startswith("${x}: is a quantity, which cannot be a field")


@pytest.mark.parametrize("given", [STRING, DYN])
def test_text_around_expressions_that_may_be_strings_is_a_string(given: Type) -> None:
    assert misfits("a-${x}", STRING, given) == []
    assert misfits("a-${x}", DYN, given) == []
    assert misfits("a-${x}", INT, given) == [("", "a-${x} is a string, where an integer is needed")]


def test_every_expression_that_text_cannot_contain_is_told() -> None:
    """Only strings may stand inside of text."""
    assert misfits("${ a }-${b}", STRING, INT) == [
        ("", "${a}: is an integer, where a string is needed; write string(a)"),
        ("", "${b}: is an integer, where a string is needed; write string(b)"),
    ]
    assert misfits("a-${x}", STRING, TIMESTAMP) == [
        ("", "${x}: is a timestamp, where a string is needed; write string(x)")
    ]
    assert misfits("a-${x}", DYN, StaticOptional(STRING)) == [
        ("", "${x}: is an optional, where a string is needed; write x.orValue('')")
    ]
