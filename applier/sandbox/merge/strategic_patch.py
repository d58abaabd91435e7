"""Strategic merge patch: a merge patch that also merges lists of built-in kinds.

The published schemas declare the lists that merge, and the merge key of each list. No function changes the values that
its caller passes.

Source: Kubernetes, "Update API Objects in Place Using kubectl patch", and apimachinery `pkg/util/strategicpatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from applier.sandbox.merge.json_patch import PatchError

Schema = Mapping[str, Any]
Resolve = Callable[[Schema], Schema]
"""Function that returns the definition to which a schema refers."""

_DIRECTIVE, _RETAIN_KEYS = "$patch", "$retainKeys"
_DELETE_PREFIX, _ORDER_PREFIX = "$deleteFromPrimitiveList/", "$setElementOrder/"


def apply_strategic_merge(target: Any, patch: Mapping[str, Any], schema: Schema, resolve: Resolve) -> Any:
    """Return the result of applying `patch` to `target`.

    Args:
        schema: schema of `target`.
        resolve: function that follows the references of `schema`.

    Raises: PatchError if a directive is unknown or malformed, or if a list item lacks its merge key.
    """
    return _StrategicMerge(resolve).merge_maps(target, patch, schema)


class _StrategicMerge:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def merge_maps(self, target: Any, patch: Mapping[str, Any], schema: Schema) -> Any:
        match patch.get(_DIRECTIVE, "merge"):
            case "replace":
                return {name: value for name, value in patch.items() if name != _DIRECTIVE}
            case "delete":
                return {}
            case "merge":
                return self._merge_members(dict(target) if isinstance(target, dict) else {}, patch, schema)
            case other:
                raise PatchError(f"unknown directive {other!r}")

    def _merge_members(self, merged: dict[str, Any], patch: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
        if _RETAIN_KEYS in patch:
            retained = _parse_names(patch[_RETAIN_KEYS])
            merged = {name: value for name, value in merged.items() if name in retained}
        for name, value in patch.items():
            if name.startswith(_DELETE_PREFIX):
                _delete_items(merged, name.removeprefix(_DELETE_PREFIX), value)
            elif not name.startswith("$"):
                self._merge_member(merged, name, value, self._field_schema(schema, name))
        # Lists are sorted last, because the requested order also contains items that `patch` adds.
        for name, value in patch.items():
            if name.startswith(_ORDER_PREFIX):
                field = name.removeprefix(_ORDER_PREFIX)
                if isinstance(merged.get(field), list) and isinstance(value, list):
                    key = self._field_schema(schema, field).get("x-kubernetes-patch-merge-key", "")
                    merged[field] = _sort_items(merged[field], value, key)
        return merged

    def _field_schema(self, schema: Schema, name: str) -> Schema:
        """Return the schema of the member `name`.

        The function does not resolve a reference, because the keywords beside the reference decide how lists merge.
        """
        parent = self._resolve(schema)
        field = (parent.get("properties") or {}).get(name) or parent.get("additionalProperties")
        return field if isinstance(field, Mapping) else {}

    def _merge_member(self, merged: dict[str, Any], name: str, value: Any, field_schema: Schema) -> None:
        strategies = field_schema.get("x-kubernetes-patch-strategy", "").split(",")
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and "replace" not in strategies:
            merged[name] = self.merge_maps(merged.get(name), value, field_schema)
        elif isinstance(value, list) and "merge" in strategies:
            key = field_schema.get("x-kubernetes-patch-merge-key", "")
            old = merged.get(name)
            merged[name] = self._merge_lists(
                old if isinstance(old, list) else [], value, field_schema.get("items") or {}, key
            )
        else:
            merged[name] = value

    def _merge_lists(self, target: list[Any], patch: list[Any], items: Schema, key: str) -> list[Any]:
        if not key:
            return [*target, *(item for item in patch if item not in target)]
        directives = [item.get(_DIRECTIVE) for item in patch if isinstance(item, dict)]
        if "replace" in directives:
            return [item for item in patch if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "replace")]
        merged = list(target)
        for item in patch:
            if not isinstance(item, dict) or key not in item:
                raise PatchError(f"an item of a list does not contain the merge key {key!r}")
            position = next(
                (index for index, old in enumerate(merged) if isinstance(old, dict) and old.get(key) == item[key]), None
            )
            if item.get(_DIRECTIVE) == "delete":
                if position is not None:
                    del merged[position]
            elif position is None:
                merged.append(self.merge_maps({}, item, items))
            else:
                merged[position] = self.merge_maps(merged[position], item, items)
        return merged


def _delete_items(merged: dict[str, Any], field: str, deleted: Any) -> None:
    if isinstance(merged.get(field), list) and isinstance(deleted, list):
        merged[field] = [item for item in merged[field] if item not in deleted]


def _parse_names(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise PatchError(f"{_RETAIN_KEYS} is not a list of names")
    return frozenset(value)


def _sort_items(items: list[Any], requested_order: list[Any], key: str) -> list[Any]:
    """Return `items` in the requested order.

    Items that are not in `requested_order` follow in their current order.
    """

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    order = [identity(item) for item in requested_order]
    return sorted(items, key=lambda item: order.index(identity(item)) if identity(item) in order else len(order))
