"""Changes between two schemas, and their effect on instances of the old schema.

The classes of changes are those of kro's `pkg/graph/crd/compat`. If a change can make a stored or committed instance
invalid, or remove a part of the instance, the change is breaking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from renderer.frozen import dataclass
from renderer.phrasing import join_names
from renderer.schema.errors import child_path

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class SchemaChange:
    """One difference between two schemas, and whether the difference breaks instances."""

    path: str
    """The path of the field in an instance."""
    message: str
    breaking: bool


def compatibility(old: Schema, new: Schema) -> list[SchemaChange]:
    """Return all changes of `spec` from `old` to `new`, in the order of the fields."""
    return list(_changes(old, new, "spec"))


def _changes(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if _kind(old) != _kind(new):
        yield SchemaChange(path, f"type changed from {_kind(old)} to {_kind(new)}", True)
        return
    for find_changes in (
        _properties,
        _required,
        _enum,
        _pattern,
        _bounds,
        _list_type,
        _rules,
        _documentation_changes,
    ):
        yield from find_changes(old, new, path)
    for key, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(old.get(key), Mapping) and isinstance(new.get(key), Mapping):
            yield from _changes(old[key], new[key], f"{path}{suffix}")


def _kind(schema: Schema) -> str:
    """Return the type of a schema as text. Maps, int-or-string and other objects have different texts."""
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    kind = str(schema.get("type", "any"))
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return "map"
    return kind


def _properties(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = old.get("properties", {}), new.get("properties", {})
    keeps_unknown = bool(new.get("x-kubernetes-preserve-unknown-fields"))
    if old.get("x-kubernetes-preserve-unknown-fields") and not keeps_unknown:
        yield SchemaChange(path, "fields that the schema does not name are no longer kept", True)
    if keeps_unknown and not old.get("x-kubernetes-preserve-unknown-fields"):
        yield SchemaChange(path, "fields that the schema does not name are kept", False)
    for name in before:
        if name in after:
            yield from _changes(before[name], after[name], child_path(path, name))
        else:
            yield SchemaChange(child_path(path, name), "field removed", not keeps_unknown)
    for name in after:
        if name not in before:
            yield SchemaChange(child_path(path, name), "field added", False)


def _required(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = set(old.get("required", ())), set(new.get("required", ()))
    fields = new.get("properties", {})
    for name in sorted(after - before):
        defaulted = "default" in fields.get(name, {})
        yield SchemaChange(
            child_path(path, name), "became required" + (" (and has a default)" if defaulted else ""), not defaulted
        )
    for name in sorted(before - after):
        if name in fields:
            yield SchemaChange(child_path(path, name), "no longer required", False)
    for name in sorted(before & after):
        if "default" in old.get("properties", {}).get(name, {}) and "default" not in fields.get(name, {}):
            yield SchemaChange(child_path(path, name), "default of a required field removed", True)


def _enum(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = old.get("enum"), new.get("enum")
    if before == after:
        return
    if after is None:
        yield SchemaChange(path, "enum removed", False)
    elif before is None:
        yield SchemaChange(path, "enum added", True)
    else:
        if removed := [value for value in before if value not in after]:
            yield SchemaChange(path, f"enum lost {join_names(removed)}", True)
        if added := [value for value in after if value not in before]:
            yield SchemaChange(path, f"enum gained {join_names(added)}", False)


def _pattern(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = old.get("pattern"), new.get("pattern")
    if before == after:
        return
    if after is None:
        yield SchemaChange(path, "pattern removed", False)
    else:
        yield SchemaChange(path, "pattern added" if before is None else "pattern changed", True)


LOWER_BOUNDS: Final = ("minimum", "minLength", "minItems")
UPPER_BOUNDS: Final = ("maximum", "maxLength", "maxItems")


def _bounds(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for key in (*LOWER_BOUNDS, *UPPER_BOUNDS):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if after is None:
            yield SchemaChange(path, f"{key} removed", False)
        elif before is None:
            yield SchemaChange(path, f"{key}={after} added", after != 0 or key not in ("minLength", "minItems"))
        else:
            tightened = after > before if key in LOWER_BOUNDS else after < before
            yield SchemaChange(path, f"{key} changed from {before} to {after}", tightened)


def _list_type(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = (schema.get("x-kubernetes-list-type", "atomic") for schema in (old, new))
    if before != after:
        yield SchemaChange(path, f"list type changed from {before} to {after}", after != "atomic")
    elif (keys := _list_keys(old)) != (other := _list_keys(new)):
        yield SchemaChange(path, f"keys of the list changed from {', '.join(keys)} to {', '.join(other)}", True)


def _list_keys(schema: Schema) -> list[str]:
    return sorted(schema.get("x-kubernetes-list-map-keys", ()))


def _rules(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = ([rule["rule"] for rule in schema.get("x-kubernetes-validations", ())] for schema in (old, new))
    for rule in after:
        if rule not in before:
            yield SchemaChange(path, f"validation added: {rule}", True)
    for rule in before:
        if rule not in after:
            yield SchemaChange(path, f"validation removed: {rule}", False)


def _documentation_changes(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for key in ("description", "default"):
        if (key in old, old.get(key)) != (key in new, new.get(key)):
            verb = "removed" if key not in new else "added" if key not in old else "changed"
            yield SchemaChange(path, f"{key} {verb}", False)
