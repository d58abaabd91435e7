"""Merge of two values, and removal of fields from a value.

No function changes its arguments, but results share equal parts with the arguments.

Source: structured-merge-diff, `typed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from applier.sandbox.merge.field_set import SELF, Fields
from applier.sandbox.merge.types import MergeListType, MergeMapType, MergeType
from applier.sandbox.merge.values import is_equal, key_of


def merge_values(type_: MergeType, left: Any, right: Any) -> Any:
    """Return `right` merged over `left`, or `left` itself if the merge changes no value.

    The merge removes no fields.
    """
    kind = right.__class__
    if kind is dict and left.__class__ is dict and type_.map and not type_.map.atomic:
        return _merge_maps(type_.map, left, right)
    if kind is list and left.__class__ is list and type_.list and not type_.list.atomic:
        return _merge_lists(type_.list, left, right)
    if right is None and left and _is_granular(type_, left):
        return left  # null stands for an empty map or list
    return left if is_equal(left, right) else right


def _is_granular(type_: MergeType, value: Any) -> bool:
    if value.__class__ is dict:
        return bool(type_.map and not type_.map.atomic)
    return (
        value.__class__ is list
        and type_.map is None
        and not type_.scalar
        and bool(type_.list and not type_.list.atomic)
    )


def _merge_maps(structure: MergeMapType, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    changed = {}
    for name, value in right.items():
        if name not in left:
            changed[name] = value
            continue
        before = left[name]
        after = merge_values(structure.child(name) or MergeType(), before, value)
        if after is not before:
            changed[name] = after
    return {**left, **changed} if changed else left


def _merge_lists(items: MergeListType, left: list[Any], right: list[Any]) -> list[Any]:
    if not right:
        return left
    left_keys, right_keys = [key_of(items, item) for item in left], [key_of(items, item) for item in right]
    left_items: dict[str, Any] = {}
    for key, item in zip(left_keys, left, strict=True):
        left_items[key] = None if key in left_items else item  # several items with one key are replaced, not merged
    right_items = dict(zip(right_keys, right, strict=True))

    def combined(key: str) -> Any:
        return merge_values(items.element, left_items[key], right_items[key]) if key in left_items else right_items[key]

    out = (
        [combined(key) for key in right_keys]
        if left_keys == right_keys
        else _order_items(left, left_keys, right_keys, combined)
    )
    return left if len(out) == len(left) and all(map(lambda a, b: a is b, out, left)) else out


def _order_items(
    left: list[Any], left_keys: list[str], right_keys: list[str], item_of: Callable[[str], Any]
) -> list[Any]:
    """Return the items of the left and the right list in an order that agrees with both lists.

    Where the lists disagree, the right list decides.

    Args:
        left: items of the left list.
        left_keys: keys of the left list.
        right_keys: keys of the right list.
        item_of: function that returns the merged item of a key.
    """
    left_key_set, right_key_set = set(left_keys), set(right_keys)
    shared = iter([key for key in right_keys if key in left_key_set])
    next_shared_key = next(shared, None)
    done: set[str] = set()
    out: list[Any] = []
    ahead, behind = 0, 0
    while ahead < len(left_keys) or behind < len(right_keys):
        if ahead < len(left_keys):
            key = left_keys[ahead]
            if behind < len(right_keys):
                if key == right_keys[behind]:
                    out.append(item_of(key))
                    done.add(key)
                    ahead, behind = ahead + 1, behind + 1
                    next_shared_key = next(shared, None)
                    continue
                if key in right_key_set and next_shared_key is not None and next_shared_key != key:
                    ahead += 1
                    continue
            if key not in right_key_set:
                out.append(left[ahead])
                ahead += 1
                continue
            if key in done:
                ahead += 1
        if behind < len(right_keys):
            key = right_keys[behind]
            out.append(item_of(key))
            done.add(key)
            behind += 1
            if next_shared_key == key:
                next_shared_key = next(shared, None)
    return out


def remove_fields(type_: MergeType, value: Any, fields: Fields) -> Any:
    """Return `value` without the members and items in `fields`.

    A map or list that loses all its parts becomes null.
    """
    if value.__class__ is dict and type_.map and not type_.map.atomic:
        return _remove_map_fields(type_.map, value, fields) or None
    if value.__class__ is list and type_.list and not type_.list.atomic:
        return _remove_list_fields(type_.list, value, fields) or None
    return None if value.__class__ in (dict, list) or value is None else value


def _remove_map_fields(structure: MergeMapType, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    out = {}
    for name, member in value.items():
        node = fields.get(f"f:{name}")
        if node is None:
            out[name] = member
        elif SELF not in node:
            out[name] = remove_fields(structure.child(name) or MergeType(), member, node)
    return out


def _remove_list_fields(items: MergeListType, value: list[Any], fields: Fields) -> list[Any]:
    out = []
    for item in value:
        node = fields.get(key_of(items, item))
        if node is None:
            out.append(item)
        elif SELF not in node:
            out.append(remove_fields(items.element, item, node))
    return out
