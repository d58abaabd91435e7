"""What a reader of Markdown makes of a comment: CommonMark with tables and HTML, by a parser that is not ours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

_READER = MarkdownIt("commonmark", {"html": True}).enable("table")
_CODE = {"code_inline", "code_block", "fence"}


def outside_of_code(markdown: str) -> str:
    """All that may mean something to a forge: text, HTML, and where links and images lead. What stands in code, that of HTML too, does not."""
    return "\n".join(_said(one) for one in _flat(_READER.parse(markdown)) if one.type not in _CODE)


def marks(markdown: str) -> set[str]:
    """The tags of HTML, and the kinds of what Markdown makes of the rest: `<b>`, `link_open`."""
    tokens = [one for one in _flat(_READER.parse(markdown)) if one.type not in _CODE]
    html = "\n".join(_said(one) for one in tokens if one.type.startswith("html"))
    return {one.type for one in tokens if not one.type.startswith("html")} | set(re.findall(r"<!--|<[^>]*>?", html))


def _said(token: Token) -> str:
    if token.type.startswith("html"):
        return re.sub(r"<code>.*?</code>", "", token.content, flags=re.DOTALL)
    return f"{'' if token.children else token.content} {' '.join(map(str, token.attrs.values()))}"


def _flat(tokens: list[Token]) -> Iterator[Token]:
    for one in tokens:
        yield one
        yield from _flat(one.children or [])
