"""Strategic merge patch: a merge patch in which the lists of built-in kinds merge too.

Which lists do, and by which key, is in the published schemas. Source: Kubernetes, "Update API Objects in Place Using
kubectl patch", and apimachinery `pkg/util/strategicpatch`. Nothing given is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from applier.sandbox.merge.json_patch import PatchError

Schema = Mapping[str, Any]
Resolve = Callable[[Schema], Schema]
"""A schema itself, where a reference stands for it."""

_DIRECTIVE, _RETAIN = "$patch", "$retainKeys"
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def strategic_merge(target: Any, patch: Mapping[str, Any], schema: Schema, resolve: Resolve) -> Any:
    """Raises PatchError for directives that it does not know and list items without their key."""
    return _Merge(resolve).maps(target, patch, schema)


class _Merge:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def maps(self, target: Any, patch: Mapping[str, Any], schema: Schema) -> Any:
        found = dict(target) if isinstance(target, dict) else {}
        match patch.get(_DIRECTIVE, "merge"):
            case "replace":
                return {name: value for name, value in patch.items() if name != _DIRECTIVE}
            case "delete":
                return {}
            case "merge":
                pass
            case other:
                raise PatchError(f"unknown directive {other!r}")
        if _RETAIN in patch:
            kept = _strings(patch[_RETAIN])
            found = {name: value for name, value in found.items() if name in kept}
        for name, value in patch.items():
            if name.startswith(_DELETE_FROM):
                field, gone = name.removeprefix(_DELETE_FROM), value
                if isinstance(found.get(field), list) and isinstance(gone, list):
                    found[field] = [item for item in found[field] if item not in gone]
            elif not name.startswith("$"):
                self._set(found, name, value, self._field(schema, name))
        for name, value in patch.items():
            if name.startswith(_ORDER):
                field = name.removeprefix(_ORDER)
                if isinstance(found.get(field), list) and isinstance(value, list):
                    key = self._field(schema, field).get("x-kubernetes-patch-merge-key", "")
                    found[field] = _ordered(found[field], value, key)
        return found

    def _field(self, schema: Schema, name: str) -> Schema:
        """The schema of a member, with the keywords that stand beside its reference."""
        parent = self._resolve(schema)
        field = (parent.get("properties") or {}).get(name) or parent.get("additionalProperties")
        return field if isinstance(field, Mapping) else {}

    def _set(self, found: dict[str, Any], name: str, value: Any, field: Schema) -> None:
        strategies = field.get("x-kubernetes-patch-strategy", "").split(",")
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict) and "replace" not in strategies:
            found[name] = self.maps(found.get(name), value, field)
        elif isinstance(value, list) and "merge" in strategies:
            key = field.get("x-kubernetes-patch-merge-key", "")
            old = found.get(name)
            found[name] = self._lists(old if isinstance(old, list) else [], value, field.get("items") or {}, key)
        else:
            found[name] = value

    def _lists(self, target: list[Any], patch: list[Any], items: Schema, key: str) -> list[Any]:
        if not key:
            return [*target, *(item for item in patch if item not in target)]
        directives = [item.get(_DIRECTIVE) for item in patch if isinstance(item, dict)]
        if "replace" in directives:
            return [item for item in patch if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "replace")]
        found = list(target)
        for item in patch:
            if not isinstance(item, dict) or key not in item:
                raise PatchError(f"an item of a list does not contain the merge key {key!r}")
            place = next(
                (index for index, old in enumerate(found) if isinstance(old, dict) and old.get(key) == item[key]), None
            )
            if item.get(_DIRECTIVE) == "delete":
                if place is not None:
                    del found[place]
            elif place is None:
                found.append(self.maps({}, item, items))
            else:
                found[place] = self.maps(found[place], item, items)
        return found


def _strings(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise PatchError(f"{_RETAIN} is a list of names")
    return frozenset(value)


def _ordered(found: list[Any], wanted: list[Any], key: str) -> list[Any]:
    """In the order that the patch wants; what it does not name comes after, as it was."""

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    order = [identity(item) for item in wanted]
    return sorted(found, key=lambda item: order.index(identity(item)) if identity(item) in order else len(order))
