"""The fast evaluation: Python source from a tree."""

import pytest

from renderer.cel.codegen import CodeBuilder, is_boolean, weight
from renderer.cel.parser import parse
from renderer.cel.syntax_tree import Macro


def source(text: str) -> str:
    return CodeBuilder().emit_expression(parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("schema.spec.name + '-db'", "add(v['schema']['spec']['name'], '-db', m)"),
        ("a + '-' + b", "concatenate(m, v['a'], '-', v['b'])"),
        ("a == 'x'", "(v['a'] == 'x')"),
        ("a == 1", "equal(v['a'], 1, m)"),
        ("a == 9007199254740991", "(v['a'] == 9007199254740991)"),
        ("a == 9007199254740992", "equal(v['a'], 9007199254740992, m)"),
        ("a == 9007199254740992.0", "equal(v['a'], 9007199254740992.0, m)"),
        ("a != b", "(not equal(v['a'], v['b'], m))"),
        ("a && b > 2", "(truth(v['a']) and greater(v['b'], 2, m))"),
        ("a ? 1 : 2", "(1 if truth(v['a']) else 2)"),
        ("x.filter(i, i > 1)", "[i0 for i0 in items(v['x'], m, 3) if greater(i0, 1, m)]"),
        ("x.all(k, y, y)", "all(truth(i1) for i0, i1 in pairs(v['x'], m, 1))"),
        ("x.transformMap(k, y, y)", "make_map([(i0, i1) for i0, i1 in pairs(v['x'], m, 1)])"),
        ("cel.bind(a, 1, a)", "(lambda i0: i0)(1)"),
        ("a.?b", "optional_field(v['a'], 'b')"),
        ("a[b]", "at(v['a'], v['b'])"),
        ("{'a': 1, 'b': x}", "{'a': 1, 'b': v['x']}"),
    ],
)
def test_the_source_of_an_expression(text: str, expected: str) -> None:
    assert source(text) == expected


def test_no_text_of_an_author_gets_into_the_source_but_as_a_literal() -> None:
    assert source("'\\'); import os'") == repr("'); import os")


def test_only_a_bool_needs_no_test() -> None:
    assert is_boolean(parse("a == b && has(a.b)"))
    assert is_boolean(parse("a ? true : 'x'.contains('x')"))
    assert not is_boolean(parse("a ? true : b"))


def test_a_round_costs_the_nodes_of_its_body() -> None:
    macro = parse("x.map(i, i + 1)")
    assert isinstance(macro, Macro)
    assert weight(macro) == 3
