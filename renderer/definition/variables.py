"""Names that an expression may use, and hints for misspelled names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from renderer.cel import Program
from renderer.phrasing import suggestion_or_names

_NAME = re.compile(r"[a-z][a-zA-Z0-9]*")
_CEL_WORDS = (
    "true false null in as break const continue else for function if import let loop package namespace return var void "
    "while"
)
_KRO_WORDS = (
    "apiVersion context dependency dependencies each externalRef externalReference externalRefs externalReferences "
    "graph instance item items kind kro metadata object resource resourcegraphdefinition resourceGraphDefinition "
    "resources root runtime schema self serviceAccountName spec status this variables vars version"
)
_RESERVED = frozenset(f"{_CEL_WORDS} {_KRO_WORDS}".split())


def find_name_mistake(name: Any) -> str:
    """Return the reason why `name` cannot name a resource or an iterator, or an empty text if `name` is allowed."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{name!r} must be lowerCamelCase: a lower-case letter, then letters and digits"
    return f"{name!r} is a reserved word; choose another name" if name in _RESERVED else ""


def find_mistakes(program: Program, scope: frozenset[str], *, own_id: str) -> Iterator[str]:
    """Yield a message for each name of an expression that is not in `scope`.

    Args:
        own_id: Id of the resource with the expression, or an empty text if the expression may name its own resource.
    """
    for name in sorted(program.names - scope):
        yield f"${{{program.text}}}: {_unknown_name(name, scope, own_id)}"


def _unknown_name(name: str, scope: frozenset[str], own_id: str) -> str:
    if name == own_id:
        return f"{name!r} is this resource itself; read it in readyWhen only"
    return f"{name!r} is not a resource or variable in scope{suggestion_or_names(name, scope)}"
