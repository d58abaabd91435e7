"""Correlation of a new value with the old one: the old value of each part of the new value.

If the schema contains the fields of an object, the fields correlate by name. Items of a list map correlate by their
keys. Items of other lists have no old value.

Source: apiserver `pkg/cel/common` (`CorrelatedObject`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from renderer.identity import is_same

Schema = Mapping[str, Any]


def old_item_finder(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """Return a function that returns the old item with the same keys as a new item, or None if no such item exists.

    If the list is not a list map, the function returns None for every item.
    """
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda _: None

    def identity(item: Any) -> Any:
        return tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else None

    items_by_identity = {identity(item): item for item in old}
    return lambda item: items_by_identity.get(identity(item))


def is_unchanged(schema: Schema, value: Any, old: Any) -> bool:
    """Return whether `value` equals `old`. The order of items in a list map does not matter.

    An object with a field that `schema` does not have counts as changed.
    """
    match value, old:
        case dict(), dict():
            return value.keys() == old.keys() and all(
                (field := field_of(schema, name)) is not None and is_unchanged(field, item, old[name])
                for name, item in value.items()
            )
        case list(), list() if schema.get("x-kubernetes-list-type") == "map":
            find_old_item = old_item_finder(schema, old)
            items = schema.get("items") or {}
            return len(value) == len(old) and all(is_unchanged(items, item, find_old_item(item)) for item in value)
    return is_same(value, old)


def field_of(schema: Schema, name: str) -> Schema | None:
    """Return the schema of the field `name`, or None if `schema` does not have the field."""
    field = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
    return field if isinstance(field, Mapping) else None
