"""Macros, and calls with a namespace, in the syntax tree."""

import pytest

from renderer.cel.errors import EvaluationError
from renderer.cel.macro_expansion import MAX_TREE_DEPTH, METHODS, nest, qualified_name
from renderer.cel.parser import parse
from renderer.cel.syntax_tree import FunctionCall, Has, Literal, Macro, MapLiteral


@pytest.mark.parametrize(
    ("text", "name", "variables"),
    [
        ("a.map(x, x)", "map", ("x",)),
        ("a.existsOne(x, x)", "exists_one", ("x",)),
        ("a.all(k, v, v)", "all2", ("k", "v")),
        ("a.transformMap(k, v, v > 1, v)", "transformMap2", ("k", "v")),
        ("cel.bind(x, 1, x)", "cel.bind", ("x",)),
    ],
)
def test_a_macro_is_known_by_name_and_number_of_arguments(text: str, name: str, variables: tuple[str, ...]) -> None:
    macro = parse(text)
    assert isinstance(macro, Macro)
    assert (macro.name, macro.variables) == (name, variables)


def test_with_other_arguments_it_is_a_method() -> None:
    assert isinstance(parse("a.map(x)"), FunctionCall)
    assert ("map", 4) not in METHODS


def test_keys_of_a_condition_have_no_quotes() -> None:
    call = parse("runtime.newCondition({type: 'A', status: 'True'})")
    assert isinstance(call, FunctionCall)
    (fields,) = call.arguments
    assert isinstance(fields, MapLiteral)
    assert [key.value for key, _, _ in fields.entries if isinstance(key, Literal)] == ["type", "status"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.map(1, 2)", "the first argument of map() must be a variable name"),
        ("a.all(x, x, x)", "all() needs two different variables"),
        ("cel.bind(x)", "cel.bind() takes a variable, its value, and an expression"),
        ("has(a['b'])", "has() takes a field selection, as in has(a.b); for keys in brackets use 'key' in a"),
        ("runtime.newCondition({type: 'A'})", "runtime.newCondition() lacks status; add status"),
    ],
)
def test_a_wrong_form_is_refused(text: str, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        parse(text)
    assert caught.value.message == message


def test_presence_and_names() -> None:
    assert isinstance(parse("has(a.b)"), Has)
    assert qualified_name(parse("a.b.c")) == "a.b.c"
    assert qualified_name(parse("a.?b")) is None
    assert qualified_name(parse("a[0].b")) is None


def test_a_tree_has_a_largest_height() -> None:
    assert nest(0, 1) == (0, 1, 1)
    with pytest.raises(EvaluationError, match=f"nested deeper than {MAX_TREE_DEPTH} levels"):
        parse("!" * (MAX_TREE_DEPTH + 1) + "a")
