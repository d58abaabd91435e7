"""JSON merge patches (RFC 7386) of plain JSON values. The functions never change their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from renderer.identity import is_same


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` applied: null removes a field, objects are merged, any other value replaces.

    As in the API server's library, null fields of objects in a list are dropped, unless the list replaces an object.
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

    Return an empty text if both orders of the patches lead to the same result.
    """
    for name in sorted(one.keys() & other.keys()):
        left, right = one[name], other[name]
        if isinstance(left, dict) and isinstance(right, dict):
            if inner := find_contradiction(left, right):
                return f"{name}.{inner}"
        elif not is_same(left, right):
            return name
    return ""
