"""Field ownership after a schema change that makes a field atomic.

The owners of parts then own the whole field. The opposite change, from atomic to granular, leaves ownership unchanged,
because the new owners are ambiguous.

Source: structured-merge-diff, `typed.ReconcileFieldSetWithSchema`.
"""

from __future__ import annotations

from collections.abc import Callable

from applier.sandbox.merge.field_set import LEAF, SELF, Fields
from applier.sandbox.merge.types import DEDUCED, MergeMapType, MergeType


def reconcile_fields(type_: MergeType, fields: Fields) -> Fields:
    """Return `fields` in the form that `type_` requires, or `fields` itself if the form is already right."""
    structure, items = type_.map, type_.list
    if structure:
        if _is_free(structure):
            return fields
        return _collapse_to_leaf(fields) if structure.atomic else _reconcile_parts(structure.child, fields)
    if items and not type_.scalar:
        if items.atomic:
            return _collapse_to_leaf(fields)
        return _reconcile_parts(lambda _: items.element, fields)
    return fields


def _is_free(structure: MergeMapType) -> bool:
    additional = structure.additional_type
    return not structure.fields and additional is not None and (additional is DEDUCED or additional.scalar == "untyped")


def _collapse_to_leaf(fields: Fields) -> Fields:
    return fields if fields.keys() == LEAF.keys() else LEAF


def _reconcile_parts(type_of: Callable[[str], MergeType | None], fields: Fields) -> Fields:
    changed = {
        key: after
        for key, node in fields.items()
        if key != SELF and (type_ := type_of(key[2:])) and (after := reconcile_fields(type_, node)) is not node
    }
    return {**fields, **changed} if changed else fields
