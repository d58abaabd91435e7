"""Equality of JSON values, and the keys of list items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from applier.sandbox.merge.path_elements import item_key, value_key
from applier.sandbox.merge.types import MergeListType


class MissingListKeyError(ValueError):
    """Rejection of a list item without a valid key, with the message of the server."""


def is_equal(left: Any, right: Any) -> bool:
    """Return whether the JSON values `left` and `right` are equal.

    The numbers 80 and 80.0 are equal, but true and 1 are not.
    """
    if left is right:
        return True
    if left != right:
        return False
    kind = left.__class__
    if kind is dict:
        return all(is_equal(value, right[name]) for name, value in left.items())
    if kind is list:
        return all(map(is_equal, left, right))
    return (kind is bool) == (right.__class__ is bool)


def key_of(items: MergeListType, item: Any) -> str:
    """Return the path element of `item` in a list of type `items`.

    Raises: MissingListKeyError if `item` has no valid key.
    """
    if not items.keys:
        return _value_key(item)
    if item is None:
        raise MissingListKeyError("associative list with keys may not have a null element")
    if item.__class__ is not dict:
        raise MissingListKeyError("associative list with keys may not have non-map elements")
    names, values = [], []
    for name in items.sorted_keys:
        if name in item or name in items.key_defaults:
            names.append(name)
            values.append(item[name] if name in item else items.key_defaults[name])
    if not names:
        key_names = " ".join(f'"{name}"' for name in items.keys)
        raise MissingListKeyError(
            f"associative list with keys has an element that omits all key fields [{key_names}]"
            " (and doesn't have default values for any key fields)"
        )
    return item_key(names, values)


def _value_key(item: Any) -> str:
    if item.__class__ is dict:
        raise MissingListKeyError("associative list without keys has an element that's a map type")
    if item.__class__ is list:
        raise MissingListKeyError("not supported: associative list with lists as elements")
    if item is None:
        raise MissingListKeyError("associative list without keys has an element that's an explicit null")
    return value_key(item)


def group_by_key(items: MergeListType, values: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the items in `values` by their keys, in order.

    A key may have several items, because an update may store several items with the same key.

    Raises: MissingListKeyError if an item has no valid key.
    """
    groups: dict[str, list[Any]] = {}
    for item in values:
        groups.setdefault(key_of(items, item), []).append(item)
    return groups
