"""Structural defaulting, as the API server does on every read and write of a custom resource.

An absent field gets its default. A null in a field that is not nullable becomes the default. If the field has no
default, the API server drops the null. Defaults inside a default apply in the same way.

Source: apiextensions-apiserver `pkg/apiserver/schema/defaulting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def apply_defaults(schema: Schema, value: Any, *, keep_nulls: bool = False) -> Any:
    """Return a copy of `value` in which every absent field with a default is set.

    A `value` of None counts as absent. A null in a field that is not nullable counts as absent.

    Args:
        keep_nulls: True to keep a null in a field that has no default, False to drop the null.
    """
    if value is None and not schema.get("nullable"):
        value = _copy(schema.get("default"))
    return _fill(schema, value, keep_nulls=keep_nulls)


def _copy(value: Any) -> Any:
    """Return a copy that shares no map and no list with `value`."""
    match value:
        case dict():
            return {name: _copy(item) for name, item in value.items()}
        case list():
            return [_copy(item) for item in value]
        case _:
            return value


def _fill(schema: Schema, value: Any, *, keep_nulls: bool) -> Any:
    match value:
        case dict():
            return _fill_object(schema, value, keep_nulls=keep_nulls)
        case list():
            items = schema.get("items")
            if items is None:
                return _copy(value)
            return [_fill_item(items, item, keep_nulls=keep_nulls) for item in value]
        case _:
            return value


def _fill_object(schema: Schema, value: dict[str, Any], *, keep_nulls: bool) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    filled: dict[str, Any] = {}
    for name, item in value.items():
        field = properties.get(name, additional if isinstance(additional, Mapping) else None)
        if field is None:
            filled[name] = _copy(item)
        elif item is not None or field.get("nullable"):
            filled[name] = _fill(field, item, keep_nulls=keep_nulls)
        elif "default" in field:
            filled[name] = _fill(field, field["default"], keep_nulls=keep_nulls)
        elif keep_nulls:
            filled[name] = None
    for name, field in properties.items():
        if name not in value and "default" in field:
            filled[name] = _fill(field, field["default"], keep_nulls=keep_nulls)
    return filled


def _fill_item(items: Schema, item: Any, *, keep_nulls: bool) -> Any:
    """Return an item of a list with its defaults set.

    A null without a default stays, because the item has no key that the function could drop. Validation rejects the
    null.
    """
    if item is None and not items.get("nullable") and "default" in items:
        item = items["default"]
    return _fill(items, item, keep_nulls=keep_nulls)
