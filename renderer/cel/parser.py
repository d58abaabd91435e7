"""From text to tree: parses, expands macros, resolves qualified function names, and says what is wrong with a text
that does not parse.

The callbacks of `_Builder` are called by Lark while it reduces, bottom up; no tree of Lark's is ever made. The
parser keeps no state between calls that matters, and is made once per process.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from renderer.cel import literals
from renderer.cel.errors import EvaluationError
from renderer.cel.functions import CONSTANTS, VARIADIC, is_function
from renderer.cel.grammar import make_parser
from renderer.cel.macro_expansion import as_list, condition, has, namespaced_macro, nest, qualified, variable
from renderer.cel.macros import METHODS
from renderer.cel.syntax_tree import (
    Binary,
    Conditional,
    FunctionCall,
    Index,
    ListLiteral,
    Literal,
    Logic,
    Macro,
    MapLiteral,
    Select,
    SyntaxNode,
    Unary,
    Variable,
)
from renderer.cel.values import TYPES, TypeValue

LONGEST_SOURCE: Final = 32_768


RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_KEYWORDS: Final = frozenset(("true", "false", "null", "in"))

_HINTS: Final = {
    "=": "compare with ==",
    "&": "write && for and",
    "|": "write || for or",
    "and": "write && for and",
    "or": "write || for or",
    "not": "write ! for not",
    "is": "compare with ==",
    "if": "write condition ? a : b",
    "$": "an expression has no ${...} inside",
    "\\": "escapes belong inside quotes",
    "True": "write true",
    "False": "write false",
    "None": "write null",
    "“": 'use plain quotes "',
    "”": 'use plain quotes "',
    "‘": "use plain quotes '",
    "’": "use plain quotes '",
}


def parse(text: str) -> SyntaxNode:
    """The tree of an expression. Raises Fault with the place of the first mistake."""
    if len(text) > LONGEST_SOURCE:
        raise EvaluationError(f"the expression is longer than {LONGEST_SOURCE:,} characters")
    if not text.strip():
        raise EvaluationError("the expression is empty")
    from lark.exceptions import UnexpectedInput

    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_fault(text, error) from None
    assert isinstance(tree, SyntaxNode)
    return tree


@cache
def _parser() -> Any:
    return make_parser(_Builder())


def _syntax_fault(text: str, error: Any) -> EvaluationError:
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        return EvaluationError("syntax error: the expression ends too early", at=len(text))
    at = error.pos_in_stream if token is None else token.start_pos
    found = text[at] if token is None else str(token)
    if found in "\"'" or (found[-1:] in "\"'" and found[:-1].lower() in ("r", "b", "br", "rb")):
        return EvaluationError("syntax error: the string is not closed", at=at)
    hint = _HINTS.get(found) or _HINTS.get(_last_word(text[:at]))
    return EvaluationError(f"syntax error: unexpected {found}" + (f"; {hint}" if hint else ""), at=at)


def _last_word(text: str) -> str:
    words = text.split()
    return words[-1] if words else ""


def _as_variable(node: SyntaxNode) -> SyntaxNode:
    """Types have no fields: what is selected from is a variable, even if it is called `list`."""
    match node:
        case Literal(value=TypeValue(name=name)):
            return Variable(node.at, node.end, node.depth, name)
    return node


class _Builder:
    """One method per rule of the grammar, with the values of its parts, all tokens among them."""

    def expr(self, parts: list[Any]) -> SyntaxNode:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        condition, _, then, _, otherwise = parts
        return Conditional(*nest(condition.at, otherwise.end, condition, then, otherwise), condition, then, otherwise)

    def _logic(self, parts: list[Any]) -> SyntaxNode:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        left, operator, right = parts
        if isinstance(left, Logic) and left.operator == operator:
            _, _, depth = nest(left.at, right.end, right)
            return Logic(left.at, right.end, max(left.depth, depth), left.operator, (*left.operands, right))
        return Logic(*nest(left.at, right.end, left, right), str(operator), (left, right))

    conditionalor = conditionaland = _logic

    def _binary(self, parts: list[Any]) -> SyntaxNode:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        left, operator, right = parts
        return Binary(*nest(left.at, right.end, left, right), str(operator), left, right)

    relation = addition = multiplication = _binary

    def unary(self, parts: list[Any]) -> SyntaxNode:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        operator, operand = parts
        return Unary(*nest(operator.start_pos, operand.end, operand), str(operator), operand)

    def member(self, parts: list[Any]) -> SyntaxNode:
        return parts[0]  # type: ignore[no-any-return]

    primary = member

    def field(self, parts: list[Any]) -> Any:
        return parts[0]

    def member_dot(self, parts: list[Any]) -> SyntaxNode:
        operand, field = _as_variable(parts[0]), parts[-1]
        name = str(field).strip("`")
        if name in _KEYWORDS and field[0] != "`":
            raise EvaluationError(f"syntax error: {name} is a keyword; write [{name!r}]", at=field.start_pos)
        place = nest(operand.at, field.end_pos, operand)
        select = Select(*place, operand, name, len(parts) == 4)
        full = qualified(select)
        if full in TYPES:
            return Literal(*place, TYPES[full])
        return Literal(*place, CONSTANTS[full]) if full in CONSTANTS else select

    member_optional_dot = member_dot

    def member_index(self, parts: list[Any]) -> SyntaxNode:
        operand, key, close = _as_variable(parts[0]), parts[-2], parts[-1]
        return Index(*nest(operand.at, close.end_pos, operand, key), operand, key, len(parts) == 5)

    member_optional_index = member_index

    def exprlist(self, parts: list[Any]) -> list[SyntaxNode]:
        return parts[::2]

    def member_dot_arg(self, parts: list[Any]) -> SyntaxNode:
        target, _, token, *rest = parts
        name, end = str(token), rest[-1].end_pos
        arguments: list[SyntaxNode] = rest[1] if len(rest) == 3 else []
        qualifier = qualified(target)
        if qualifier == "runtime" and name == "newCondition":
            arguments = [condition(argument) for argument in arguments]
        if qualifier is not None and is_function(full := f"{qualifier}.{name}"):
            operands = as_list(arguments) if full in VARIADIC and len(arguments) > 1 else tuple(arguments)
            return FunctionCall(*nest(target.at, end, *operands), full, None, operands)
        if qualifier == "cel" and (made := namespaced_macro(name, target.at, end, arguments)):
            return made
        target = _as_variable(target)
        form = METHODS.get((name, len(arguments)))
        if form is None:
            return FunctionCall(*nest(target.at, end, target, *arguments), name, target, tuple(arguments))
        variables = tuple(variable(name, node) for node in arguments[: form.variables])
        if len(set(variables)) < len(variables):
            raise EvaluationError(f"{name}() needs two different variables", at=token.start_pos)
        bodies = tuple(arguments[form.variables :])
        return Macro(*nest(target.at, end, target, *bodies), form.name, target, variables, bodies)

    def ident_arg(self, parts: list[Any]) -> SyntaxNode:
        callee, *rest = parts
        name = callee.value.name if isinstance(callee, Literal) else callee.name
        at, end = callee.at, rest[-1].end_pos
        arguments: list[SyntaxNode] = rest[1] if len(rest) == 3 else []
        if name == "has":
            return has(at, end, arguments)
        return FunctionCall(*nest(at, end, *arguments), name, None, tuple(arguments))

    def ident(self, parts: list[Any]) -> SyntaxNode:
        token = parts[-1]
        name, place = str(token), nest(token.start_pos, token.end_pos)
        if name in RESERVED:
            raise EvaluationError(f"{name} is a reserved word and cannot be a variable", at=token.start_pos)
        if name in TYPES:
            return Literal(*place, TYPES[name])
        return Variable(*place, name, len(parts) == 2)

    def paren_expr(self, parts: list[Any]) -> SyntaxNode:
        return parts[1]  # type: ignore[no-any-return]

    def _sequence(self, parts: list[Any]) -> list[Any]:
        return [*parts[0], parts[2]] if len(parts) == 3 else parts

    elements = entries = fields = _sequence

    def assignment(self, parts: list[Any]) -> tuple[SyntaxNode, SyntaxNode, bool]:
        """A field of a message: as the entry of a map."""
        token = parts[-3]
        return Literal(*nest(token.start_pos, token.end_pos), str(token).strip("`")), parts[-1], len(parts) == 4

    def member_object(self, parts: list[Any]) -> SyntaxNode:
        name = qualified(parts[0]) or getattr(getattr(parts[0], "value", None), "name", "")
        function = f"{name}{{}}"
        if not is_function(function):
            what = f"there is no message type {name}" if name else "syntax error: unexpected {"
            raise EvaluationError(f"{what}; a map is {{'key': value}}", at=parts[1].start_pos)
        fields = self.map_lit(parts[1:])
        return FunctionCall(*nest(parts[0].at, fields.end, fields), function, None, (fields,))

    def element(self, parts: list[Any]) -> tuple[SyntaxNode, bool]:
        return parts[-1], len(parts) == 2

    def entry(self, parts: list[Any]) -> tuple[SyntaxNode, SyntaxNode, bool]:
        return parts[-3], parts[-1], len(parts) == 4

    def list_lit(self, parts: list[Any]) -> SyntaxNode:
        elements = tuple(parts[1]) if len(parts) > 2 else ()
        place = nest(parts[0].start_pos, parts[-1].end_pos, *(node for node, _ in elements))
        return ListLiteral(*place, elements)

    def map_lit(self, parts: list[Any]) -> SyntaxNode:
        entries = tuple(parts[1]) if len(parts) > 2 else ()
        below = (node for key, value, _ in entries for node in (key, value))
        return MapLiteral(*nest(parts[0].start_pos, parts[-1].end_pos, *below), entries)

    def literal(self, parts: list[Any]) -> SyntaxNode:
        token = parts[0]
        try:
            value = _LITERALS[token.type](str(token))
        except EvaluationError as fault:
            raise EvaluationError(fault.message, at=token.start_pos) from None
        return Literal(*nest(token.start_pos, token.end_pos), value)


_LITERALS: Final[dict[str, Any]] = {
    "INT": literals.integer,
    "UINT": literals.unsigned,
    "FLOAT": float,
    "STRING": literals.string,
    "BYTES": literals.octets,
    "NULL_LIT": lambda _: None,
    "TRUE": lambda _: True,
    "FALSE": lambda _: False,
}
