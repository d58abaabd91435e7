"""Label selectors from both of their forms: which labels they match, and what the API server would refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderer.identity import GroupKind
from renderer.label_selector import LabelSelector, Operator, Requirement, Selection, SelectorError

LABELS = {"app": "a", "tier": "x", "generation": "7"}


def expression(key: Any, operator: Any, *values: Any) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def reference(selector: Any, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"selector": selector, **metadata}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app=a", True),
        ("app==a", True),
        ("app=b", False),
        ("app=", False),
        ("nothing=", False),
        ("app!=b", True),
        ("app!=a", False),
        ("nothing!=a", True),
        ("app=a,tier", True),
        ("app=a,tier,!app", False),
        (" tier = x , app in ( b , a ) ", True),
        ("app in (b,c)", False),
        ("app notin (b,c)", True),
        ("nothing notin (b)", True),
        ("app notin (a)", False),
        ("!nothing", True),
        ("!app", False),
        ("nothing", False),
        ("nothing in (a)", False),
        ("nothing in ()", False),
        ("generation>6", True),
        ("generation>7", False),
        ("generation<8", True),
        ("generation<7", False),
        ("app>1", False),
        ("nothing<1", False),
    ],
)
def test_which_labels_a_text_matches(text: str, expected: bool) -> None:
    """apimachinery `pkg/labels`: `!=` and `notin` match where the label is absent."""
    assert LabelSelector.parse(text).matches(LABELS) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "a", "tier": "y"}}, False),
        (expression("app", "In", "b", "a"), True),
        (expression("app", "In", "b"), False),
        (expression("nothing", "In", "b"), False),
        (expression("app", "NotIn", "b"), True),
        (expression("app", "NotIn", "a"), False),
        (expression("nothing", "NotIn", "a"), True),
        (expression("app", "Exists"), True),
        (expression("nothing", "Exists"), False),
        (expression("app", "DoesNotExist"), False),
        (expression("nothing", "DoesNotExist"), True),
        ({"matchLabels": {"app": "a"}} | expression("tier", "DoesNotExist"), False),
    ],
)
def test_which_labels_an_object_matches(selector: dict[str, Any], expected: bool) -> None:
    assert LabelSelector.from_object(selector).matches(LABELS) is expected


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({}, ""),
        ({"matchLabels": {"b": "2", "a.b/c": ""}}, "a.b/c=,b=2"),
        (expression("a", "In", "y", "x"), "a in (x,y)"),
        (expression("a", "In", "x"), "a in (x)"),
        (expression("a", "NotIn", "x"), "a notin (x)"),
        (expression("a", "Exists"), "a"),
        (expression("a", "DoesNotExist"), "!a"),
        ({"matchLabels": {"z": "1"}} | expression("a", "Exists"), "a,z=1"),
        ({"matchLabels": {"app": "x"}} | expression("app", "Exists"), "app,app=x"),
    ],
)
def test_the_text_form(selector: dict[str, Any], text: str) -> None:
    """Kubernetes documentation, "Labels and Selectors"; sorted by key, as the API server prints a selector."""
    assert str(LabelSelector.from_object(selector)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("z,a", "a,z"), ("a==b", "a=b"), ("a!=b", "a!=b"), ("a in (c, b)", "a in (b,c)"), ("a>4,a<9", "a<9,a>4")],
)
def test_a_text_has_one_canonical_form(text: str, canonical: str) -> None:
    assert str(LabelSelector.parse(text)) == canonical


KEYS, VALUES = st.sampled_from(["a", "in", "a.b/c"]), st.sampled_from(["", "x", "notin", "10"])
OBJECTS = st.builds(
    lambda labels, expressions: {"matchLabels": labels, "matchExpressions": expressions},
    st.dictionaries(KEYS, VALUES, max_size=2),
    st.lists(
        st.one_of(
            st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
            st.fixed_dictionaries(
                {
                    "key": KEYS,
                    "operator": st.sampled_from(["In", "NotIn"]),
                    "values": st.lists(VALUES, min_size=1, max_size=3),
                }
            ),
        ),
        max_size=3,
    ),
)


@given(OBJECTS)
def test_an_object_and_its_text_are_one_selector(selector: dict[str, Any]) -> None:
    read = LabelSelector.from_object(selector)
    parsed = LabelSelector.parse(str(read))
    assert (parsed, str(parsed)) == (read, str(read))


def test_equality_is_the_meaning_of_a_requirement() -> None:
    equal = LabelSelector.parse("a=x")
    assert equal == LabelSelector.parse("a in (x)") == LabelSelector((Requirement("a", Operator.IN, frozenset({"x"})),))
    assert equal != LabelSelector.parse("a!=x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,=b", "found '=', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (x,", "unable to parse requirement: found '', expected: ',', or identifier"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_texts_that_the_server_would_refuse(text: str, message: str) -> None:
    """In its words; `tests/conformance/test_reading.py` compares them with those of a real server."""
    with pytest.raises(SelectorError) as raised:
        LabelSelector.parse(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ([], "must be a mapping with matchLabels or matchExpressions"),
        ({"matchLabels": "x"}, "matchLabels must be a mapping from labels to their values"),
        ({"matchLabels": {"a": 1}}, "1 cannot be the value of the label a"),
        ({"matchLabels": {"a": []}}, "[] cannot be the value of the label a"),
        ({"matchExpressions": "x"}, "matchExpressions must be a list of key, operator and values"),
        ({"matchExpressions": ["x"]}, "matchExpressions must be a list of key, operator and values"),
        (expression(None, "Exists"), "None is not the name of a label"),
        (expression("a", "In"), "label a: operator In needs values"),
        (expression("a", "Exists", "x"), "label a: operator Exists takes no values"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": "x"}]}, "label a: values must be a list"),
        (expression("a", "Gt", "1"), "label a: operator 'Gt' is not one of In, NotIn, Exists, DoesNotExist"),
        (expression("a", {}), "label a: operator {} is not one of In, NotIn, Exists, DoesNotExist"),
    ],
)
def test_objects_that_the_server_would_refuse(selector: Any, message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        LabelSelector.from_object(selector, "spec.selector")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"matchLabels": {"a": "x,y in (z)"}}, "cannot be the value of the label a"),
        ({"matchLabels": {"a b": "x"}}, "'a b' is not the name of a label"),
        (expression("a b", "Exists"), "'a b' is not the name of a label"),
        (expression("a", "In", "x", "y" * 64), "cannot be the value of the label a"),
    ],
)
def test_a_strict_selector_refuses_what_no_label_can_be(selector: dict[str, Any], message: str) -> None:
    assert not LabelSelector.from_object(selector).matches(LABELS)
    with pytest.raises(SelectorError) as raised:
        LabelSelector.from_object(selector, strict=True)
    assert message in str(raised.value)


def test_a_selection_contains_the_objects_of_its_namespace_with_its_labels() -> None:
    found = Selection.from_reference(reference({"matchLabels": {"app": "a"}}, namespace="default"))
    assert found == Selection(GroupKind("", "Secret"), "default", LabelSelector.parse("app=a"))
    assert found.selects("default", LABELS)
    assert not found.selects("other", LABELS)
    assert not found.selects("default", {"app": "b"})
    assert found._replace(namespace=None).selects("other", LABELS)


def test_a_selection_says_what_it_selects() -> None:
    selection = Selection.from_reference(reference({"matchLabels": {"app": "a"}}, namespace="team"))
    assert str(selection) == "Secret objects in team with app=a"
    assert str(Selection.from_reference(reference(None))) == "Secret objects with any labels"


@pytest.mark.parametrize(
    ("mistaken", "message"),
    [
        (reference({"matchLabels": {"a b": "x"}}), "'a b' is not the name of a label"),
        (reference([1]), "metadata.selector must be a mapping with matchLabels or matchExpressions"),
        (reference({"matchLabels": "x"}), "metadata.selector.matchLabels must be a mapping"),
        (reference({}, namespace=1), "metadata.namespace must be a text"),
    ],
)
def test_references_that_select_nothing_valid(mistaken: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        Selection.from_reference(mistaken)
    assert message in str(raised.value)
