"""Parts of an expression that have the same value in all of many evaluations, so that they need to be evaluated only once."""

from __future__ import annotations

from collections.abc import Mapping

from renderer.cel.analysis import analyse
from renderer.cel.syntax_tree import Macro, SyntaxNode, Variable, with_children


def hoist(tree: SyntaxNode, fixed: frozenset[str], costly: str) -> tuple[SyntaxNode, Mapping[str, SyntaxNode]]:
    """The tree with each largest part that reads the variable `costly`, and besides it nothing but `fixed` ones, replaced by a name; and those
    parts by name. The names cannot be written in an expression.
    """
    parts: dict[str, SyntaxNode] = {}

    def reduced(node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode:
        names = analyse(node).names
        if not isinstance(node, Variable) and costly in names and names <= (fixed | {costly}) - bound:
            name = f"@fixed{len(parts)}"
            parts[name] = node
            return Variable(node.at, node.end, node.depth, name)
        inner = bound | set(node.variables) if isinstance(node, Macro) else bound
        return with_children(node, lambda child: reduced(child, inner))

    return reduced(tree, frozenset()), parts
