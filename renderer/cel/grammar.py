"""The grammar of expressions (celpy's grammar with extensions for kro), and the LALR parser of the grammar.

Levels of precedence and the forms of expressions are those of celpy's grammar. This module adds optional selection,
index, element and entry (`.?f`, `[?k]`, `[?e]`, `{?k: v}`), escaped field names (`` .`a.b/c` ``) and trailing commas.

The terminals for numbers, strings and bytes follow the CEL language definition, "Syntax". celpy's terminals accept
invalid text and end raw strings in the wrong place. The grammar has one rule for each level of operators instead of one
rule for each operator, so that Lark builds the parser faster.

Levelgate reads only the grammar file of celpy and never imports celpy. The compilation of the first expression imports
Lark.

`make grammar` stores the parser's tables as package data. Computing the tables takes about 70 ms, most of the time of a
short command. If the stored tables do not match the grammar or the version of Lark, this module builds the parser from
the grammar instead.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from renderer.identity import digest

TABLES_FILE: Final = "tables.json.gz"

GRAMMAR: Final = r"""
%import cel (expr, conditionalor, conditionaland, relation, addition, multiplication, unary)
%import cel (member, member_dot, member_dot_arg, member_index, member_object)
%import cel (primary, ident_arg, ident, paren_expr, list_lit, map_lit, exprlist, literal)
%import cel (IDENT, NULL_LIT, WHITESPACE, COMMENT)

%override relation: addition | relation RELATION addition
%override addition: multiplication | addition SUM multiplication
%override multiplication: unary | multiplication PRODUCT unary
%override unary: member | SIGN unary

%override member: primary | member_dot | member_optional_dot | member_dot_arg | member_index | member_optional_index
    | member_object
%override member_dot: member "." field
member_optional_dot: member "." "?" field
member_optional_index: member "[" "?" expr "]"
field: IDENT | ESCAPED
%override member_object: member "{" "}" | member "{" fields "}" | member "{" fields "," "}"
fields: assignment | fields "," assignment
assignment: field ":" expr | "?" field ":" expr

%override primary: literal | ident_arg | ident | paren_expr | list_lit | map_lit
%override ident: IDENT | "." IDENT
%override ident_arg: ident "(" exprlist ")" | ident "(" ")"

%override list_lit: "[" "]" | "[" elements "]" | "[" elements "," "]"
elements: element | elements "," element
element: expr | "?" expr

%override map_lit: "{" "}" | "{" entries "}" | "{" entries "," "}"
entries: entry | entries "," entry
entry: expr ":" expr | "?" expr ":" expr

%override literal: UINT | FLOAT | INT | STRING | BYTES | NULL_LIT | TRUE | FALSE

RELATION.1: /<=?|>=?|==|!=|in(?![A-Za-z0-9_])/
SUM: /[+-]/
PRODUCT: /[*\/%]/
SIGN: /[!-]/
TRUE: "true"
FALSE: "false"
ESCAPED: /`[a-zA-Z0-9_.\-\/ ]+`/
INT.2: /-?(0x[0-9a-fA-F]+|[0-9]+)/
UINT.3: /(0x[0-9a-fA-F]+|[0-9]+)[uU]/
FLOAT.4: /-?([0-9]*\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)/

RAW: /[rR](?:'''(.|\n)*?'''|\"\"\"(.|\n)*?\"\"\"|'[^'\n\r]*'|"[^"\n\r]*")/
COOKED: /(?:'''(\\(.|\n)|[^\\])*?'''|\"\"\"(\\(.|\n)|[^\\])*?\"\"\"|'(\\.|[^\\'\n\r])*'|"(\\.|[^\\"\n\r])*")/
STRING.5: RAW | COOKED
BYTES.6: /[bB]/ RAW | /[bB]/ COOKED | /[rR][bB]/ COOKED

%ignore WHITESPACE
%ignore COMMENT
"""


@cache
def find_grammar_folder() -> str:
    """Return the folder of celpy's `cel.lark` without importing celpy.

    Raises: ImportError if celpy is not installed.
    """
    package_spec = find_spec("celpy")
    if package_spec is None or not package_spec.submodule_search_locations:
        raise ImportError("the package cel-python with the grammar of CEL is missing; install cel-python")
    return str(package_spec.submodule_search_locations[0])


def make_parser(callbacks: Any) -> Any:
    """Return a Lark parser that calls `callbacks` for each rule during the parse."""
    from lark import Lark

    stored = json.loads(gzip.decompress(resources.files(__package__).joinpath(TABLES_FILE).read_bytes()))
    if stored["made_from"] != grammar_digest():
        return build_parser(callbacks)
    data, memo = stored["data"], _with_integer_keys(stored["memo"])
    table = data["parser"]["parser"]
    table["states"] = _with_integer_keys(table["states"])
    return Lark._load_from_dict(data, memo, transformer=callbacks)


def build_parser(callbacks: Any) -> Any:
    """Return a parser as `make_parser` does, but built from the grammar instead of the stored tables."""
    from lark import Lark

    return Lark(
        GRAMMAR,
        parser="lalr",
        start="expr",
        import_paths=[find_grammar_folder()],
        transformer=callbacks,
        keep_all_tokens=True,
        maybe_placeholders=False,
    )


def grammar_digest() -> str:
    """Return a digest of everything that affects the tables: both grammars and the version of Lark."""
    import lark

    celpy_grammar = (Path(find_grammar_folder()) / "cel.lark").read_text(encoding="utf-8")
    return digest([GRAMMAR, celpy_grammar, lark.__version__])


def serialize_tables() -> bytes:
    """Return the content of the tables file for the current grammar."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = build_parser(None).memo_serialize([TerminalDef, Rule])
    del data["options"]["import_paths"]
    stored = {"made_from": grammar_digest(), "data": data, "memo": memo}
    return gzip.compress(json.dumps(stored).encode(), mtime=0)


def _with_integer_keys(table: dict[str, Any]) -> dict[int, Any]:
    """Return `table` with its keys as integers. JSON stores object keys as strings."""
    return {int(number): item for number, item in table.items()}
