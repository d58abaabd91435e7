"""Facts about an expression without its evaluation."""

import pytest

from renderer.cel.analysis import analyse, find_call_mistake, hoist
from renderer.cel.parser import parse
from renderer.cel.syntax_tree import FunctionCall


def test_reads_are_the_longest_chains_from_a_variable() -> None:
    facts = analyse(parse("a.b[0].c + x.?y.z + (has(h.i) ? string(a.b[k].d) : '')"))
    assert facts.names == {"a", "x", "h", "k"}
    assert facts.reads == (("a", "b"), ("a", "b", "[0]", "c"), ("h", "i"), ("k",), ("x", "y", "z"))
    assert facts.optional_reads == {("x", "y", "z"), ("h", "i")}
    assert facts.calls == {"string"}


def test_a_path_that_is_read_for_certain_too_is_not_optional() -> None:
    assert analyse(parse("has(a.b) && a.b")).optional_reads == frozenset()


def test_variables_of_macros_are_not_read() -> None:
    facts = analyse(parse("list.map(x, x.a + y)"))
    assert facts.reads == (("list",), ("y",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nosuch(1)", "unknown function nosuch()"),
        ("'a'.splt(',')", "unknown method splt(); did you mean 'split'?"),
        ("trim(a)", "unknown function trim(); write x.trim(...)"),
        ("string(1, 2)", "string() takes 1 argument, not 2"),
    ],
)
def test_a_call_that_no_data_could_help(text: str, message: str) -> None:
    call = parse(text)
    assert isinstance(call, FunctionCall)
    mistake = find_call_mistake(call)
    assert mistake is not None
    assert mistake.message == message


def test_fixed_parts_are_hoisted() -> None:
    tree, parts = hoist(parse("all.size() > now && each.x in all.map(a, a.n)"), frozenset({"now"}), "all")
    assert analyse(tree).names == {"each", "@fixed0", "@fixed1"}
    assert {name: analyse(part).names for name, part in parts.items()} == {
        "@fixed0": {"all", "now"},
        "@fixed1": {"all"},
    }
