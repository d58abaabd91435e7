"""Values of a wrong type, put into any place of a document."""

from __future__ import annotations

import json
from typing import Any

ODD: list[Any] = [
    None,
    "",
    "text",
    0,
    7,
    -1,
    1.5,
    True,
    [],
    ["a"],
    [[]],
    {},
    {"a": "b"},
    {"a": None},
    "${",
    "${x}",
    "é",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside *value*."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        found += places(item, (*path, step))
    return found


def bent(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """Return a copy with *odd* in one place; `...` removes the place."""
    copy = json.loads(json.dumps(value))
    place = copy
    for step in path[:-1]:
        place = place[step]
    if odd is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = odd
    return copy
