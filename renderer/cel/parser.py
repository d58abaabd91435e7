"""Translation of text to a tree: parsing, macros, qualified function names, and hints about syntax errors.

During the parse, Lark calls the methods of `_Builder` from the leaves upwards. Therefore Lark never builds a second
tree. Each process makes the parser once. The parser keeps no state between calls.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from renderer.cel import literals
from renderer.cel.errors import EvaluationError
from renderer.cel.functions import CONSTANTS, VARIADIC, is_function
from renderer.cel.grammar import make_parser
from renderer.cel.macro_expansion import (
    METHODS,
    as_list,
    expand_condition,
    expand_has,
    expand_namespaced_macro,
    nest,
    qualified_name,
    variable_name,
)
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

MAX_SOURCE_CHARACTERS: Final = 32_768


RESERVED_WORDS: Final = frozenset(
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
    "$": "remove ${ and }",
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
    """Return the tree of the expression `text`. Raises: EvaluationError with the offset of the first mistake."""
    if len(text) > MAX_SOURCE_CHARACTERS:
        raise EvaluationError(
            f"the expression is longer than {MAX_SOURCE_CHARACTERS:,} characters; shorten the expression"
        )
    if not text.strip():
        raise EvaluationError("the expression is empty")
    from lark.exceptions import UnexpectedInput

    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    assert isinstance(tree, SyntaxNode)
    return tree


@cache
def _parser() -> Any:
    return make_parser(_Builder())


def _syntax_error(text: str, error: Any) -> EvaluationError:
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        return EvaluationError("syntax error: the expression ends too early", offset=len(text))
    offset = error.pos_in_stream if token is None else token.start_pos
    token_text = text[offset] if token is None else str(token)
    if token_text in "\"'" or (token_text[-1:] in "\"'" and token_text[:-1].lower() in ("r", "b", "br", "rb")):
        return EvaluationError("syntax error: the string is not closed", offset=offset)
    hint = _HINTS.get(token_text) or _HINTS.get(_last_word(text[:offset]))
    return EvaluationError(f"syntax error: unexpected {token_text}" + (f"; {hint}" if hint else ""), offset=offset)


def _last_word(text: str) -> str:
    words = text.split()
    return words[-1] if words else ""


def _as_variable(node: SyntaxNode) -> SyntaxNode:
    """Return a variable if `node` is the name of a type, or else `node` itself.

    Types have no fields, so `list` in `list.name` is a variable.
    """
    match node:
        case Literal(value=TypeValue(name=name)):
            return Variable(node.at, node.end, node.depth, name)
    return node


class _Builder:
    """Callbacks with one method for each grammar rule.

    A method receives the values of the rule's parts, including all tokens, and returns the value of the rule.
    """

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
            raise EvaluationError(f"syntax error: {name} is a keyword; write [{name!r}]", offset=field.start_pos)
        position = nest(operand.at, field.end_pos, operand)
        select = Select(*position, operand, name, len(parts) == 4)
        full_name = qualified_name(select)
        if full_name in TYPES:
            return Literal(*position, TYPES[full_name])
        return Literal(*position, CONSTANTS[full_name]) if full_name in CONSTANTS else select

    member_optional_dot = member_dot

    def member_index(self, parts: list[Any]) -> SyntaxNode:
        operand, key, closing = _as_variable(parts[0]), parts[-2], parts[-1]
        return Index(*nest(operand.at, closing.end_pos, operand, key), operand, key, len(parts) == 5)

    member_optional_index = member_index

    def exprlist(self, parts: list[Any]) -> list[SyntaxNode]:
        return parts[::2]

    def member_dot_arg(self, parts: list[Any]) -> SyntaxNode:
        target, _, token, *argument_parts = parts
        name, end = str(token), argument_parts[-1].end_pos
        arguments: list[SyntaxNode] = argument_parts[1] if len(argument_parts) == 3 else []
        qualifier = qualified_name(target)
        if qualifier == "runtime" and name == "newCondition":
            arguments = [expand_condition(argument) for argument in arguments]
        if qualifier is not None and is_function(full_name := f"{qualifier}.{name}"):
            operands = as_list(arguments) if full_name in VARIADIC and len(arguments) > 1 else tuple(arguments)
            return FunctionCall(*nest(target.at, end, *operands), full_name, None, operands)
        if qualifier == "cel" and (expanded := expand_namespaced_macro(name, target.at, end, arguments)):
            return expanded
        target = _as_variable(target)
        form = METHODS.get((name, len(arguments)))
        if form is None:
            return FunctionCall(*nest(target.at, end, target, *arguments), name, target, tuple(arguments))
        variables = tuple(variable_name(name, node) for node in arguments[: form.variables])
        if len(set(variables)) < len(variables):
            raise EvaluationError(f"{name}() needs two different variables", offset=token.start_pos)
        bodies = tuple(arguments[form.variables :])
        return Macro(*nest(target.at, end, target, *bodies), form.name, target, variables, bodies)

    def ident_arg(self, parts: list[Any]) -> SyntaxNode:
        callee, *argument_parts = parts
        name = callee.value.name if isinstance(callee, Literal) else callee.name
        start, end = callee.at, argument_parts[-1].end_pos
        arguments: list[SyntaxNode] = argument_parts[1] if len(argument_parts) == 3 else []
        if name == "has":
            return expand_has(start, end, arguments)
        return FunctionCall(*nest(start, end, *arguments), name, None, tuple(arguments))

    def ident(self, parts: list[Any]) -> SyntaxNode:
        token = parts[-1]
        name, position = str(token), nest(token.start_pos, token.end_pos)
        if name in RESERVED_WORDS:
            raise EvaluationError(f"{name} is a reserved word and cannot be a variable", offset=token.start_pos)
        if name in TYPES:
            return Literal(*position, TYPES[name])
        return Variable(*position, name, len(parts) == 2)

    def paren_expr(self, parts: list[Any]) -> SyntaxNode:
        return parts[1]  # type: ignore[no-any-return]

    def _sequence(self, parts: list[Any]) -> list[Any]:
        return [*parts[0], parts[2]] if len(parts) == 3 else parts

    elements = entries = fields = _sequence

    def assignment(self, parts: list[Any]) -> tuple[SyntaxNode, SyntaxNode, bool]:
        """Return a field of a message as a map entry."""
        token = parts[-3]
        return Literal(*nest(token.start_pos, token.end_pos), str(token).strip("`")), parts[-1], len(parts) == 4

    def member_object(self, parts: list[Any]) -> SyntaxNode:
        name = qualified_name(parts[0]) or getattr(getattr(parts[0], "value", None), "name", "")
        function = f"{name}{{}}"
        if not is_function(function):
            complaint = f"unknown message type {name}" if name else "syntax error: unexpected {"
            raise EvaluationError(f"{complaint}; a map is {{'key': value}}", offset=parts[1].start_pos)
        fields = self.map_lit(parts[1:])
        return FunctionCall(*nest(parts[0].at, fields.end, fields), function, None, (fields,))

    def element(self, parts: list[Any]) -> tuple[SyntaxNode, bool]:
        return parts[-1], len(parts) == 2

    def entry(self, parts: list[Any]) -> tuple[SyntaxNode, SyntaxNode, bool]:
        return parts[-3], parts[-1], len(parts) == 4

    def list_lit(self, parts: list[Any]) -> SyntaxNode:
        elements = tuple(parts[1]) if len(parts) > 2 else ()
        position = nest(parts[0].start_pos, parts[-1].end_pos, *(node for node, _ in elements))
        return ListLiteral(*position, elements)

    def map_lit(self, parts: list[Any]) -> SyntaxNode:
        entries = tuple(parts[1]) if len(parts) > 2 else ()
        children = (node for key, value, _ in entries for node in (key, value))
        return MapLiteral(*nest(parts[0].start_pos, parts[-1].end_pos, *children), entries)

    def literal(self, parts: list[Any]) -> SyntaxNode:
        token = parts[0]
        try:
            value = _LITERALS[token.type](str(token))
        except EvaluationError as fault:
            raise EvaluationError(fault.message, offset=token.start_pos) from None
        return Literal(*nest(token.start_pos, token.end_pos), value)


_LITERALS: Final[dict[str, Any]] = {
    "INT": literals.parse_integer,
    "UINT": literals.parse_unsigned,
    "FLOAT": literals.parse_double,
    "STRING": literals.parse_string,
    "BYTES": literals.parse_bytes,
    "NULL_LIT": lambda _: None,
    "TRUE": lambda _: True,
    "FALSE": lambda _: False,
}
