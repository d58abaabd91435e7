"""Forms of our own objects, written down as OpenAPI v3: what `validate` reads and editors are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def object_form(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {"type": "object", "properties": properties, "required": list(required)}


def enum_form(words: Iterable[str]) -> dict[str, Any]:
    """One of these words."""
    return {"type": "string", "enum": [str(word) for word in words]}
