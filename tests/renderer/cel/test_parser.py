"""Text to tree, and hints about text that does not parse."""

import pytest

from renderer.cel.errors import EvaluationError
from renderer.cel.parser import MAX_SOURCE_CHARACTERS, parse
from renderer.cel.syntax_tree import Binary, Conditional, FunctionCall, Literal, Logic, Select, Variable


def test_precedence_and_chains() -> None:
    tree = parse("a || b && c || d == 1 + 2 * 3")
    assert isinstance(tree, Logic)
    assert (tree.operator, len(tree.operands)) == ("||", 3)
    comparison = tree.operands[2]
    assert isinstance(comparison, Binary)
    assert comparison.operator == "=="


def test_a_qualified_function_is_one_name() -> None:
    call = parse("json.marshal(a)")
    assert isinstance(call, FunctionCall)
    assert (call.function, call.target) == ("json.marshal", None)
    method = parse("a.marshal(b)")
    assert isinstance(method, FunctionCall)
    assert isinstance(method.target, Variable)


def test_several_arguments_of_a_variadic_function_are_one_list() -> None:
    call = parse("math.greatest(1, 2, 3)")
    assert isinstance(call, FunctionCall)
    assert len(call.arguments) == 1


def test_a_type_is_a_literal_and_has_no_fields() -> None:
    assert isinstance(parse("int"), Literal)
    selected = parse("list.size")
    assert isinstance(selected, Select)
    assert isinstance(selected.operand, Variable)
    assert isinstance(parse("a ? b : c"), Conditional)


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("", None, "the expression is empty"),
        ("a +", 3, "syntax error: the expression ends too early"),
        ("a = 1", 2, "syntax error: unexpected =; compare with =="),
        ("a and b", 2, "syntax error: unexpected and; write && for and"),
        ("'abc", 0, "syntax error: the string is not closed"),
        ("for", 0, "for is a reserved word and cannot be a variable"),
        ("a.in", 2, "syntax error: in is a keyword; write ['in']"),
        ("Thing{a: 1}", 5, "unknown message type Thing; a map is {'key': value}"),
    ],
)
def test_a_mistake_has_its_place_and_a_hint(text: str, offset: int | None, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        parse(text)
    assert (caught.value.offset, caught.value.message) == (offset, message)


def test_an_expression_has_a_largest_length() -> None:
    with pytest.raises(EvaluationError, match="longer than 32,768 characters"):
        parse("a" * (MAX_SOURCE_CHARACTERS + 1))
