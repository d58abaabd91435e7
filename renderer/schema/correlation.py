"""What part of an old value a part of the new one was, where a schema lets that be told.

Source: apiserver `pkg/cel/common` (`CorrelatedObject`): members that the schema has by their names, items by the keys of their list; those of other
lists were nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from renderer.identity import is_same

Schema = Mapping[str, Any]


def old_item_finder(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """Finds the earlier item of a list map with the same keys; None where there is none."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda _: None

    def identity(item: Any) -> Any:
        return tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else None

    items_by_identity = {identity(item): item for item in old}
    return lambda item: items_by_identity.get(identity(item))


def is_unchanged(schema: Schema, value: Any, old: Any) -> bool:
    """Is it as it was? Items that have keys may stand in another order; of members that the schema does not have that cannot be told."""
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
    """What the schema says of a member; None where it does not have it."""
    field = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
    return field if isinstance(field, Mapping) else None
