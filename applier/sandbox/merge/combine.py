"""Laying one value over another, and taking fields out of a value. Rules: structured-merge-diff, `typed`.

Values are never changed; what stays the same is shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from applier.sandbox.merge.field_set import SELF, Fields
from applier.sandbox.merge.types import MergeListType, MergeMapType, MergeType
from applier.sandbox.merge.values import equal, key_of


def merged(type_: MergeType, left: Any, right: Any) -> Any:
    """`right` laid over `left`; nothing is removed. The very `left` if that changes nothing."""
    kind = right.__class__
    if kind is dict and left.__class__ is dict and type_.map and not type_.map.atomic:
        return _merged_maps(type_.map, left, right)
    if kind is list and left.__class__ is list and type_.list and not type_.list.atomic:
        return _merged_lists(type_.list, left, right)
    if right is None and left and _keeps_parts(type_, left):
        return left  # A null is an empty map or list here.
    return left if equal(left, right) else right


def _keeps_parts(type_: MergeType, value: Any) -> bool:
    if value.__class__ is dict:
        return bool(type_.map and not type_.map.atomic)
    return (
        value.__class__ is list
        and type_.map is None
        and not type_.scalar
        and bool(type_.list and not type_.list.atomic)
    )


def _merged_maps(structure: MergeMapType, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    changed = {}
    for name, value in right.items():
        if name not in left:
            changed[name] = value
            continue
        before = left[name]
        after = merged(structure.child(name) or MergeType(), before, value)
        if after is not before:
            changed[name] = after
    return {**left, **changed} if changed else left


def _merged_lists(items: MergeListType, left: list[Any], right: list[Any]) -> list[Any]:
    if not right:
        return left
    ours, theirs = [key_of(items, item) for item in left], [key_of(items, item) for item in right]
    before: dict[str, Any] = {}
    for key, item in zip(ours, left, strict=True):
        before[key] = None if key in before else item  # Items with one key are not merged, but replaced.
    wanted = dict(zip(theirs, right, strict=True))

    def combined(key: str) -> Any:
        return merged(items.element, before[key], wanted[key]) if key in before else wanted[key]

    out = [combined(key) for key in theirs] if ours == theirs else _ordered(left, ours, theirs, combined)
    return left if len(out) == len(left) and all(map(lambda a, b: a is b, out, left)) else out


def _ordered(left: list[Any], ours: list[str], theirs: list[str], item: Callable[[str], Any]) -> list[Any]:
    """The items in an order that keeps that of both lists where they agree, else that of the newer one."""
    known, wanted = set(ours), set(theirs)
    shared = iter([key for key in theirs if key in known])
    upcoming = next(shared, None)
    done: set[str] = set()
    out: list[Any] = []
    ahead, behind = 0, 0
    while ahead < len(ours) or behind < len(theirs):
        if ahead < len(ours):
            key = ours[ahead]
            if behind < len(theirs):
                if key == theirs[behind]:
                    out.append(item(key))
                    done.add(key)
                    ahead, behind = ahead + 1, behind + 1
                    upcoming = next(shared, None)
                    continue
                if key in wanted and upcoming is not None and upcoming != key:
                    ahead += 1
                    continue
            if key not in wanted:
                out.append(left[ahead])
                ahead += 1
                continue
            if key in done:
                ahead += 1
        if behind < len(theirs):
            key = theirs[behind]
            out.append(item(key))
            done.add(key)
            behind += 1
            if upcoming == key:
                upcoming = next(shared, None)
    return out


def without(type_: MergeType, value: Any, fields: Fields) -> Any:
    """`value` without the members and items in `fields`. A map or list that loses all its parts becomes null."""
    if value.__class__ is dict and type_.map and not type_.map.atomic:
        return _map_without(type_.map, value, fields) or None
    if value.__class__ is list and type_.list and not type_.list.atomic:
        return _list_without(type_.list, value, fields) or None
    return None if value.__class__ in (dict, list) or value is None else value


def _map_without(structure: MergeMapType, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    out = {}
    for name, member in value.items():
        node = fields.get(f"f:{name}")
        if node is None:
            out[name] = member
        elif SELF not in node:
            out[name] = without(structure.child(name) or MergeType(), member, node)
    return out


def _list_without(items: MergeListType, value: list[Any], fields: Fields) -> list[Any]:
    out = []
    for item in value:
        node = fields.get(key_of(items, item))
        if node is None:
            out.append(item)
        elif SELF not in node:
            out.append(without(items.element, item, node))
    return out
