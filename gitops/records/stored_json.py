"""JSON in the data and annotations of records. Equal values have equal text; unreadable text counts as empty."""

from __future__ import annotations

from typing import Any

import orjson


def dump_json(value: Any) -> str:
    """Return a value as text, with sorted keys."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def load_json(text: str) -> Any:
    """Return the value of a text; None if it is empty or not JSON."""
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def load_mapping(text: str) -> dict[str, Any]:
    """Return the JSON object of a text; an empty one if it holds none."""
    value = load_json(text)
    return value if isinstance(value, dict) else {}
