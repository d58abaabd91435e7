"""Fields of a value, and fields that differ between two values of a type.

If a declared field has parts, a set contains only the parts. For a member of a free map or an item of a list, a set
contains the member or item and its parts. So a manager can own the existence of the member or item.

Source: structured-merge-diff, `typed`.
"""

from __future__ import annotations

from typing import Any, Final

from applier.sandbox.merge.field_set import EMPTY_SET, LEAF, SELF, Fields, union
from applier.sandbox.merge.types import MergeListType, MergeMapType, MergeType
from applier.sandbox.merge.values import group_by_key, is_equal

ABSENT: Final[Any] = object()
"""Marker of an absent value. None represents a null."""

Comparison = tuple[Fields, Fields]
"""Pair of the added or changed fields and the removed fields."""

_NO_DIFFERENCE: Final[Comparison] = (EMPTY_SET, EMPTY_SET)


def fields_of(type_: MergeType, value: Any) -> Fields:
    """Return every field that a manager owns after an apply of `value`.

    For items with equal keys, return only the key.
    """
    structure, items = _granular_structure(type_, value)
    if structure:
        return _map_fields(structure, value)
    if items:
        return _list_fields(items, value)
    return LEAF


def _map_fields(structure: MergeMapType, value: dict[str, Any]) -> Fields:
    out: Fields = {}
    for name, member in value.items():
        type_ = structure.child(name) or _SCALAR
        kind = member.__class__
        if kind is not dict and kind is not list:
            out[f"f:{name}"] = LEAF
            continue
        node = fields_of(type_, member)
        if (kind is dict and not member) or name not in structure.fields:
            node = {SELF: {}, **node}
        if node:
            out[f"f:{name}"] = node
    return out


def _list_fields(items: MergeListType, value: list[Any]) -> Fields:
    element = items.element
    return {
        key: {SELF: {}, **fields_of(element, group[0])} if len(group) == 1 else LEAF
        for key, group in group_by_key(items, value).items()
    }


def compare(type_: MergeType, left: Any, right: Any) -> Comparison:
    """Return the fields that `right` adds to or changes in `left`, and the fields that `right` removes.

    If a side has no value, the argument is `ABSENT`.
    """
    if left is right:
        return _NO_DIFFERENCE
    if left is ABSENT:
        return fields_with_descendants(type_, right), EMPTY_SET
    if right is ABSENT:
        return EMPTY_SET, fields_with_descendants(type_, left)
    if left.__class__ is right.__class__ or left is None or right is None:
        return _compare_alike(type_, left, right)
    return _compare_unlike(type_, left, right)


def _compare_alike(type_: MergeType, left: Any, right: Any) -> Comparison:
    value = right if left is None else left
    structure, items = _granular_structure(type_, value)
    if structure and (left or right):
        return _compare_maps(structure, left or {}, right or {})
    if items and (left or right):
        return _compare_lists(items, left or [], right or [])
    return _NO_DIFFERENCE if is_equal(left, right) else (LEAF, EMPTY_SET)


def _compare_unlike(type_: MergeType, left: Any, right: Any) -> Comparison:
    """Return the comparison of values of different JSON types, where `type_` allows several types.

    The parts of `left` count as removed, and the parts of `right` count as added. A value without parts counts as
    changed.
    """
    changed, removed = EMPTY_SET, EMPTY_SET
    if left.__class__ in _CONTAINERS and left and any(_granular_structure(type_, left)):
        removed = _without_self(fields_with_descendants(type_, left))
    elif not is_equal(left, right):
        changed = LEAF
    if right.__class__ in _CONTAINERS and right and any(_granular_structure(type_, right)):
        changed = union(changed, _without_self(fields_with_descendants(type_, right)))
    elif not is_equal(left, right):
        changed = union(changed, LEAF)
    return changed, removed


_CONTAINERS: Final = (dict, list)


def _without_self(fields: Fields) -> Fields:
    return {key: node for key, node in fields.items() if key != SELF}


def _compare_maps(structure: MergeMapType, left: dict[str, Any], right: dict[str, Any]) -> Comparison:
    changed: Fields = {}
    removed: Fields = {}
    for name, value in right.items():
        before = left.get(name, ABSENT)
        if before is value:
            continue
        added, dropped = compare(structure.child(name) or _SCALAR, before, value)
        if added:
            changed[f"f:{name}"] = added
        if dropped:
            removed[f"f:{name}"] = dropped
    for name, value in left.items():
        if name not in right:
            removed[f"f:{name}"] = fields_with_descendants(structure.child(name) or _SCALAR, value)
    return changed, removed


def _compare_lists(items: MergeListType, left: list[Any], right: list[Any]) -> Comparison:
    changed: Fields = {}
    removed: Fields = {}
    before, after = group_by_key(items, left), group_by_key(items, right)
    for key in {**before, **after}:
        added, dropped = _compare_items(items.element, before.get(key, []), after.get(key, []))
        if added:
            changed[key] = added
        if dropped:
            removed[key] = dropped
    return changed, removed


def _compare_items(element: MergeType, left: list[Any], right: list[Any]) -> Comparison:
    """Return the comparison of all items that have the same key.

    If a list has several items with this key, the items count as a single value.
    """
    match len(left) > 1, len(right) > 1:
        case False, False:
            return compare(element, left[0] if left else ABSENT, right[0] if right else ABSENT)
        case True, True:
            return _NO_DIFFERENCE if is_equal(left, right) else (LEAF, EMPTY_SET)
        case True, _:
            return fields_with_descendants(element, right[0]) if right else EMPTY_SET, LEAF
        case _:
            return LEAF, fields_with_descendants(element, left[0]) if left else EMPTY_SET


def fields_with_descendants(type_: MergeType, value: Any) -> Fields:
    """Return the field that contains `value`, and every field below that field."""
    structure, items = _granular_structure(type_, value)
    if structure and value:
        return {SELF: {}} | {
            f"f:{name}": fields_with_descendants(structure.child(name) or _SCALAR, member)
            for name, member in value.items()
        }
    if items and value:
        return {SELF: {}} | {
            key: fields_with_descendants(items.element, group[0]) if len(group) == 1 else LEAF
            for key, group in group_by_key(items, value).items()
        }
    return LEAF


_SCALAR: Final = MergeType(scalar="untyped")


def _granular_structure(type_: MergeType, value: Any) -> tuple[MergeMapType | None, MergeListType | None]:
    """Return the map facet and the list facet of `type_`, each None if the facet does not fit `value`.

    An atomic facet does not count.
    """
    kind = value.__class__
    if kind is dict and (structure := type_.map) and not structure.atomic:
        return structure, None
    if kind is list and (items := type_.list) and not items.atomic:
        return None, items
    return None, None
