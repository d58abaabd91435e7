"""JSON in the data and annotations of records. Equal values have equal text. Unreadable text counts as empty."""

from __future__ import annotations

from typing import Any

import orjson


def dump_json(value: Any) -> str:
    """Return `value` as JSON text with sorted keys."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def load_json(text: str) -> Any:
    """Return the value of the JSON in `text`, or None if `text` is empty or not JSON."""
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def load_mapping(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`, or an empty mapping if `text` is not a JSON object."""
    value = load_json(text)
    return value if isinstance(value, dict) else {}
