"""The syntax tree, and changes of it."""

from dataclasses import replace

from renderer.cel.parser import parse
from renderer.cel.syntax_tree import Literal, SyntaxNode, Variable, children, quote_source, walk, with_children

TEXT = "a.b + [c, 1].map(x, x > d ? 'y' : f(e))[0]"


def test_a_walk_meets_every_node_in_the_order_of_the_text() -> None:
    names = [node.name for node in walk(parse(TEXT)) if isinstance(node, Variable)]
    assert names == ["a", "c", "x", "d", "e"]


def test_a_node_quotes_its_part_of_the_text() -> None:
    left, right = children(parse("a.b  +\n" + "x" * 80))
    assert quote_source("a.b  +\n" + "x" * 80, left) == "a.b"
    assert quote_source("a.b  +\n" + "x" * 80, right) == "x" * 57 + "..."


def renamed(node: SyntaxNode) -> SyntaxNode:
    if isinstance(node, Variable):
        return replace(node, name=node.name.upper())
    return with_children(node, renamed)


def test_a_change_reaches_nested_tuples_and_leaves_the_rest() -> None:
    tree = parse(TEXT)
    assert [node.name for node in walk(renamed(tree)) if isinstance(node, Variable)] == ["A", "C", "X", "D", "E"]
    literals = [node for node in walk(tree) if isinstance(node, Literal)]
    kept = [node for node in walk(renamed(tree)) if isinstance(node, Literal)]
    assert all(new is old for new, old in zip(kept, literals, strict=True))


def test_no_change_gives_the_same_tree() -> None:
    tree = parse(TEXT)
    assert with_children(tree, lambda node: node) is tree
