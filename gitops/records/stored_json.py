"""JSON in the data and the annotations of our records: equal values give equal text, and what cannot be read counts as nothing."""

from __future__ import annotations

from typing import Any

import orjson


def dump_json(value: Any) -> str:
    """Return the text that stores a value."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def load_json(text: str) -> Any:
    """Return what a text stores; None where it is empty, or no JSON."""
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def load_mapping(text: str) -> dict[str, Any]:
    """Return the mapping that a text stores; an empty one where it stores none."""
    value = load_json(text)
    return value if isinstance(value, dict) else {}
