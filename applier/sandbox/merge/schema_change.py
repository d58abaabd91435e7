"""Ownership of a field whose schema became atomic after the field was owned: of its parts becomes of the whole.

The other way round, from atomic to granular, nothing can be told, and nothing is done. Rules: structured-merge-diff,
`typed.ReconcileFieldSetWithSchema`.
"""

from __future__ import annotations

from applier.sandbox.merge.field_set import LEAF, SELF, Fields
from applier.sandbox.merge.types import DEDUCED, MergeMapType, MergeType


def evolved(type_: MergeType, fields: Fields) -> Fields:
    """`fields` as `type_` would record them; the very same if that is how they are."""
    structure, items = type_.map, type_.list
    if structure:
        if _is_free(structure):
            return fields
        return _of_whole(fields) if structure.atomic else _evolved_map(structure, fields)
    if items and not type_.scalar:
        if items.atomic:
            return _of_whole(fields)
        return _evolved_items(items.element, fields)
    return fields


def _is_free(structure: MergeMapType) -> bool:
    rest = structure.rest
    return not structure.names and rest is not None and (rest is DEDUCED or rest.scalar == "untyped")


def _of_whole(fields: Fields) -> Fields:
    return fields if fields.keys() == LEAF.keys() else LEAF


def _evolved_map(structure: MergeMapType, fields: Fields) -> Fields:
    changed: Fields = {}
    for key, node in fields.items():
        type_ = structure.child(key[2:]) if key != SELF else None
        if type_ and (after := evolved(type_, node)) is not node:
            changed[key] = after
    return {**fields, **changed} if changed else fields


def _evolved_items(element: MergeType, fields: Fields) -> Fields:
    changed: Fields = {}
    for key, node in fields.items():
        if key != SELF and (after := evolved(element, node)) is not node:
            changed[key] = after
    return {**fields, **changed} if changed else fields
