"""From text to tree: parses, expands macros, resolves qualified function names, and says what is wrong with a text
that does not parse.

The callbacks of `_Builder` are called by Lark while it reduces, bottom up; no tree of Lark's is ever made. The
parser keeps no state between calls that matters, and is made once per process.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Final

from renderer.cel import literals
from renderer.cel.faults import Fault
from renderer.cel.functions import CONDITION_FIELDS, CONSTANTS, VARIADIC, is_function
from renderer.cel.grammar import make_parser
from renderer.cel.macros import METHODS
from renderer.cel.tree import (
    Binary,
    Call,
    Conditional,
    Has,
    Index,
    ListLiteral,
    Literal,
    Logic,
    Macro,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
)
from renderer.cel.values import TYPES, TypeValue

LONGEST_SOURCE: Final = 32_768
DEEPEST_TREE: Final = 250

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


def parse(text: str) -> Node:
    """The tree of an expression. Raises Fault with the place of the first mistake."""
    if len(text) > LONGEST_SOURCE:
        raise Fault(f"the expression is longer than {LONGEST_SOURCE:,} characters")
    if not text.strip():
        raise Fault("the expression is empty")
    from lark.exceptions import UnexpectedInput

    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_fault(text, error) from None
    assert isinstance(tree, Node)
    return tree


@cache
def _parser() -> Any:
    return make_parser(_Builder())


def _syntax_fault(text: str, error: Any) -> Fault:
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        return Fault("syntax error: the expression ends too early", at=len(text))
    at = error.pos_in_stream if token is None else token.start_pos
    found = text[at] if token is None else str(token)
    if found in "\"'" or (found[-1:] in "\"'" and found[:-1].lower() in ("r", "b", "br", "rb")):
        return Fault("syntax error: the string is not closed", at=at)
    hint = _HINTS.get(found) or _HINTS.get(_last_word(text[:at]))
    return Fault(f"syntax error: unexpected {found}" + (f"; {hint}" if hint else ""), at=at)


def _last_word(text: str) -> str:
    words = text.split()
    return words[-1] if words else ""


def _nest(at: int, end: int, *below: Node) -> tuple[int, int, int]:
    depth = 1 + max((node.depth for node in below), default=0)
    if depth > DEEPEST_TREE:
        raise Fault(f"the expression is nested deeper than {DEEPEST_TREE} levels", at=at)
    return at, end, depth


def _qualified(node: Node | None) -> str | None:
    """`a.b` of a chain of plain selections."""
    parts = []
    while isinstance(node, Select) and not node.optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Name):
        return None
    return ".".join((node.name, *reversed(parts)))


def _condition(node: Node) -> Node:
    """The argument of `runtime.newCondition`, whose keys are written without quotes, as an ordinary map."""
    if not isinstance(node, MapLiteral):
        raise Fault(
            "runtime.newCondition() takes a map {type: ..., status: ..., reason: ..., message: ...}", at=node.at
        )
    entries = tuple((_condition_key(key), value, optional) for key, value, optional in node.entries)
    names = [key.value for key, _, _ in entries]
    if missing := [name for name in ("type", "status") if name not in names]:
        raise Fault(f"runtime.newCondition(): {' and '.join(missing)} must be given", at=node.at)
    if len(set(names)) < len(names):
        raise Fault("runtime.newCondition(): a key is written twice", at=node.at)
    return replace(node, entries=entries)


def _condition_key(node: Node) -> Literal:
    name = node.value.name if isinstance(node, Literal) and isinstance(node.value, TypeValue) else None
    name = node.name if isinstance(node, Name) else name
    if name not in CONDITION_FIELDS:
        raise Fault(f"runtime.newCondition(): the keys are {', '.join(CONDITION_FIELDS)}, without quotes", at=node.at)
    return Literal(node.at, node.end, node.depth, name)


def _as_list(arguments: list[Node]) -> tuple[Node]:
    place = _nest(arguments[0].at, arguments[-1].end, *arguments)
    return (ListLiteral(*place, tuple((node, False) for node in arguments)),)


def _as_variable(node: Node) -> Node:
    """Types have no fields: what is selected from is a variable, even if it is called `list`."""
    match node:
        case Literal(value=TypeValue(name=name)):
            return Name(node.at, node.end, node.depth, name)
    return node


class _Builder:
    """One method per rule of the grammar, with the values of its parts, all tokens among them."""

    def expr(self, parts: list[Any]) -> Node:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        condition, _, then, _, otherwise = parts
        return Conditional(*_nest(condition.at, otherwise.end, condition, then, otherwise), condition, then, otherwise)

    def _logic(self, parts: list[Any]) -> Node:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        left, operator, right = parts
        if isinstance(left, Logic) and left.operator == operator:
            _, _, depth = _nest(left.at, right.end, right)
            return Logic(left.at, right.end, max(left.depth, depth), left.operator, (*left.operands, right))
        return Logic(*_nest(left.at, right.end, left, right), str(operator), (left, right))

    conditionalor = conditionaland = _logic

    def _binary(self, parts: list[Any]) -> Node:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        left, operator, right = parts
        return Binary(*_nest(left.at, right.end, left, right), str(operator), left, right)

    relation = addition = multiplication = _binary

    def unary(self, parts: list[Any]) -> Node:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        operator, operand = parts
        return Unary(*_nest(operator.start_pos, operand.end, operand), str(operator), operand)

    def member(self, parts: list[Any]) -> Node:
        return parts[0]  # type: ignore[no-any-return]

    primary = member

    def field(self, parts: list[Any]) -> Any:
        return parts[0]

    def member_dot(self, parts: list[Any]) -> Node:
        operand, field = _as_variable(parts[0]), parts[-1]
        name = str(field).strip("`")
        if name in _KEYWORDS and field[0] != "`":
            raise Fault(f"syntax error: {name} is a keyword; write [{name!r}]", at=field.start_pos)
        place = _nest(operand.at, field.end_pos, operand)
        select = Select(*place, operand, name, len(parts) == 4)
        full = _qualified(select)
        if full in TYPES:
            return Literal(*place, TYPES[full])
        return Literal(*place, CONSTANTS[full]) if full in CONSTANTS else select

    member_optional_dot = member_dot

    def member_index(self, parts: list[Any]) -> Node:
        operand, key, close = _as_variable(parts[0]), parts[-2], parts[-1]
        return Index(*_nest(operand.at, close.end_pos, operand, key), operand, key, len(parts) == 5)

    member_optional_index = member_index

    def exprlist(self, parts: list[Any]) -> list[Node]:
        return parts[::2]

    def member_dot_arg(self, parts: list[Any]) -> Node:
        target, _, token, *rest = parts
        name, end = str(token), rest[-1].end_pos
        arguments: list[Node] = rest[1] if len(rest) == 3 else []
        qualifier = _qualified(target)
        if qualifier == "runtime" and name == "newCondition":
            arguments = [_condition(argument) for argument in arguments]
        if qualifier is not None and is_function(full := f"{qualifier}.{name}"):
            operands = _as_list(arguments) if full in VARIADIC and len(arguments) > 1 else tuple(arguments)
            return Call(*_nest(target.at, end, *operands), full, None, operands)
        if qualifier == "cel" and (made := self._namespaced_macro(name, target.at, end, arguments)):
            return made
        target = _as_variable(target)
        form = METHODS.get((name, len(arguments)))
        if form is None:
            return Call(*_nest(target.at, end, target, *arguments), name, target, tuple(arguments))
        variables = tuple(_variable(name, node) for node in arguments[: form.variables])
        if len(set(variables)) < len(variables):
            raise Fault(f"{name}() needs two different variables", at=token.start_pos)
        bodies = tuple(arguments[form.variables :])
        return Macro(*_nest(target.at, end, target, *bodies), form.name, target, variables, bodies)

    def _namespaced_macro(self, name: str, at: int, end: int, arguments: list[Node]) -> Node | None:
        """`cel.bind`, and the forms that cel-go's and cel-java's optimizers write: `cel.block` and what names its slots."""
        match name, arguments:
            case "bind", _:
                return self._bind(at, end, arguments)
            case "block", [ListLiteral(elements=slots), body]:
                for index, (slot, _) in reversed(list(enumerate(slots))):
                    body = Macro(*_nest(at, end, slot, body), "cel.bind", slot, (f"@index{index}",), (body,))
                return body
            case "index", [Literal(value=int() as index)]:
                return Name(*_nest(at, end), f"@index{index}")
            case (("iterVar" | "accuVar"), [Literal(value=int() as depth), Literal(value=int() as index)]):
                return Name(*_nest(at, end), f"@{name}:{depth}:{index}")
        return None

    def _bind(self, at: int, end: int, arguments: list[Node]) -> Node:
        if len(arguments) != 3:
            raise Fault("cel.bind() takes a variable, its value, and an expression", at=at)
        variable, value, body = arguments
        return Macro(*_nest(at, end, value, body), "cel.bind", value, (_variable("cel.bind", variable),), (body,))

    def ident_arg(self, parts: list[Any]) -> Node:
        callee, *rest = parts
        name = callee.value.name if isinstance(callee, Literal) else callee.name
        at, end = callee.at, rest[-1].end_pos
        arguments: list[Node] = rest[1] if len(rest) == 3 else []
        if name == "has":
            return self._has(at, end, arguments)
        return Call(*_nest(at, end, *arguments), name, None, tuple(arguments))

    def _has(self, at: int, end: int, arguments: list[Node]) -> Node:
        match arguments:
            case [Select(operand=operand, field=field, optional=False)]:
                return Has(*_nest(at, end, operand), operand, field)
        raise Fault("has() takes a field selection, as in has(a.b); for keys in brackets use 'key' in a", at=at)

    def ident(self, parts: list[Any]) -> Node:
        token = parts[-1]
        name, place = str(token), _nest(token.start_pos, token.end_pos)
        if name in RESERVED:
            raise Fault(f"{name} is a reserved word and cannot be a variable", at=token.start_pos)
        if name in TYPES:
            return Literal(*place, TYPES[name])
        return Name(*place, name, len(parts) == 2)

    def paren_expr(self, parts: list[Any]) -> Node:
        return parts[1]  # type: ignore[no-any-return]

    def _sequence(self, parts: list[Any]) -> list[Any]:
        return [*parts[0], parts[2]] if len(parts) == 3 else parts

    elements = entries = fields = _sequence

    def assignment(self, parts: list[Any]) -> tuple[Node, Node, bool]:
        """A field of a message: as the entry of a map."""
        token = parts[-3]
        return Literal(*_nest(token.start_pos, token.end_pos), str(token).strip("`")), parts[-1], len(parts) == 4

    def member_object(self, parts: list[Any]) -> Node:
        name = _qualified(parts[0]) or getattr(getattr(parts[0], "value", None), "name", "")
        function = f"{name}{{}}"
        if not is_function(function):
            what = f"there is no message type {name}" if name else "syntax error: unexpected {"
            raise Fault(f"{what}; a map is {{'key': value}}", at=parts[1].start_pos)
        fields = self.map_lit(parts[1:])
        return Call(*_nest(parts[0].at, fields.end, fields), function, None, (fields,))

    def element(self, parts: list[Any]) -> tuple[Node, bool]:
        return parts[-1], len(parts) == 2

    def entry(self, parts: list[Any]) -> tuple[Node, Node, bool]:
        return parts[-3], parts[-1], len(parts) == 4

    def list_lit(self, parts: list[Any]) -> Node:
        elements = tuple(parts[1]) if len(parts) > 2 else ()
        place = _nest(parts[0].start_pos, parts[-1].end_pos, *(node for node, _ in elements))
        return ListLiteral(*place, elements)

    def map_lit(self, parts: list[Any]) -> Node:
        entries = tuple(parts[1]) if len(parts) > 2 else ()
        below = (node for key, value, _ in entries for node in (key, value))
        return MapLiteral(*_nest(parts[0].start_pos, parts[-1].end_pos, *below), entries)

    def literal(self, parts: list[Any]) -> Node:
        token = parts[0]
        try:
            value = _LITERALS[token.type](str(token))
        except Fault as fault:
            raise Fault(fault.message, at=token.start_pos) from None
        return Literal(*_nest(token.start_pos, token.end_pos), value)


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


def _variable(macro: str, node: Node) -> str:
    if isinstance(node, Name):
        return node.name
    raise Fault(f"the first argument of {macro}() must be a variable name", at=node.at)
