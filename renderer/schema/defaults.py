"""Structural defaulting, as the API server does it on every read and write of a custom resource.

Source: apiextensions-apiserver `pkg/apiserver/schema/defaulting`: nulls that a field may not have are dropped, or
replaced by the field's default; absent fields get theirs; then the same for what was found or put there.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def apply_defaults(schema: Schema, value: Any) -> Any:
    """A new value in which every absent field that has a default is set. `None` at the top is an absent value."""
    if value is None and not schema.get("nullable"):
        value = copy.deepcopy(schema.get("default"))
    return _defaulted(schema, value)


def _defaulted(schema: Schema, value: Any) -> Any:
    match value:
        case dict():
            return _object(schema, value)
        case list():
            items = schema.get("items")
            return [_item(items, item) for item in value] if items is not None else copy.deepcopy(value)
        case _:
            return value


def _object(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    filled: dict[str, Any] = {}
    for name, item in value.items():
        field = properties.get(name, additional if isinstance(additional, Mapping) else None)
        if field is None:
            filled[name] = copy.deepcopy(item)
        elif item is not None or field.get("nullable"):
            filled[name] = _defaulted(field, item)
        elif "default" in field:
            filled[name] = _defaulted(field, field["default"])
    for name, field in properties.items():
        if name not in value and "default" in field:
            filled[name] = _defaulted(field, field["default"])
    return filled


def _item(items: Schema, item: Any) -> Any:
    """A null in a list has no key to drop: without a default it stays, and is refused as a value."""
    if item is None and not items.get("nullable") and "default" in items:
        item = items["default"]
    return _defaulted(items, item)
