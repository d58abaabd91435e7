"""JSON merge patches (RFC 7386) of plain JSON values. The functions never change their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from renderer.identity import is_same


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` applied.

    Null removes a field, an object merges into the field, and any other value replaces the field. As in the API
    server's library, the patch drops null fields of objects in a list, unless the list replaces an object.
    """
    if isinstance(patch, list) and not isinstance(target, dict):
        return [item if item is None else apply_merge_patch(None, item) for item in patch]
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), value)
    return merged


def find_contradiction(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the first field, such as `spec.replicas`, that two merge patches set differently.

    If both orders of the patches lead to the same result, return an empty text.
    """
    for name in sorted(one.keys() & other.keys()):
        left, right = one[name], other[name]
        if isinstance(left, dict) and isinstance(right, dict):
            if inner := find_contradiction(left, right):
                return f"{name}.{inner}"
        elif not is_same(left, right):
            return name
    return ""
