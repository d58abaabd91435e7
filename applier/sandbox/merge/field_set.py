"""Field sets: which fields of an object somebody owns, or which have changed.

A set is a tree of dicts in the shape of `fieldsV1` (KEP-555): `f:name` is a member of a map, `k:{"name":"x"}` an item by
its keys, `v:"x"` an item by its value; the key `.` says that the field itself is in the set. Unlike on the wire a field
without parts is `{".": {}}`, so `{}` is always the empty set and all operations are uniform. No node is empty.

Sets are never mutated once they are built; operations share what does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from applier.sandbox.merge.path_elements import InvalidFieldsError, canonicalize, format_element, sort_key
from applier.sandbox.merge.types import MergeType

Fields = dict[str, Any]
"""A set of fields; see the module's docstring."""

SELF: Final = "."
EMPTY_SET: Final[Fields] = {}
LEAF: Final[Fields] = {SELF: {}}

Path = tuple[str, ...]
"""The keys that lead to a field."""


def union(left: Fields, right: Fields) -> Fields:
    if left is right or not right:
        return left
    if not left:
        return right
    out = dict(left)
    for key, node in right.items():
        left_node = out.get(key)
        out[key] = node if left_node is None else union(left_node, node)
    return out


def intersection(left: Fields, right: Fields) -> Fields:
    out: Fields = {}
    for key, node in left.items():
        right_node = right.get(key)
        if right_node is None:
            continue
        if key == SELF:
            out[key] = node
        elif common := intersection(node, right_node):
            out[key] = common
    return out


def difference(left: Fields, right: Fields, *, subtrees: bool = False) -> Fields:
    """Return the fields of `left` that are not in `right`; having a field is not having its parts, except with `subtrees`."""
    if not right:
        return left
    out: Fields = {}
    for key, node in left.items():
        right_node = right.get(key)
        if right_node is None:
            out[key] = node
        elif not (node == right_node or (subtrees and SELF in right_node)) and (
            remaining := difference(node, right_node, subtrees=subtrees)
        ):
            out[key] = remaining
    return out


def with_declared_fields(fields: Fields, type_: MergeType | None) -> Fields:
    """With the declared fields whose parts are in the set; those are only recorded by their parts."""
    out: Fields = {}
    structure, items = (type_.map, type_.list) if type_ else (None, None)
    for key, node in fields.items():
        if key == SELF or (len(node) == 1 and SELF in node):
            out[key] = node
        elif key[0] == "f" and structure:
            child = with_declared_fields(node, structure.child(key[2:]))
            out[key] = {SELF: {}, **child} if key[2:] in structure.fields else child
        else:
            out[key] = with_declared_fields(node, items.element if key[0] == "k" and items else None)
    return out


@lru_cache(maxsize=256)
def from_paths(paths: frozenset[Sequence[str]]) -> Fields:
    """The set of fields that are reached by names, such as `("status",)`."""
    out: Fields = {}
    for path in paths:
        node = out
        for name in path:
            node = node.setdefault(f"f:{name}", {})
        node[SELF] = {}
    return out


def iterate_paths(fields: Fields, prefix: Path = ()) -> Iterator[Path]:
    """Every field of a set: of each level first the fields themselves, then what is below them."""
    keys = [key for key in _sort_keys(fields) if key != SELF]
    yield from ((*prefix, key) for key in keys if SELF in fields[key])
    for key in keys:
        yield from iterate_paths(fields[key], (*prefix, key))


def has_path(fields: Fields, path: Path) -> bool:
    for key in path:
        if (node := fields.get(key)) is None:
            return False
        fields = node
    return SELF in fields


def format_path(path: Path) -> str:
    """A path as the server writes it in messages: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(format_element, path))


def decode(fields: Mapping[str, Any]) -> Fields:
    """Reads `fieldsV1`. Raises `InvalidFieldsError`; keys of a kind that we do not know are left out, as the server does."""
    out: Fields = {}
    for key, node in fields.items():
        if not isinstance(node, dict):
            raise InvalidFieldsError(f"{key!r} is not an object")
        if key == SELF:
            out[key] = node
        elif canonical_key := canonicalize(key):
            out[canonical_key] = decode(node) or LEAF
    return out


def encode(fields: Fields) -> dict[str, Any]:
    """Writes `fieldsV1`, its keys in the server's order."""
    return {
        key: {} if key == SELF or (len(fields[key]) == 1 and SELF in fields[key]) else encode(fields[key])
        for key in _sort_keys(fields)
    }


def _sort_keys(fields: Fields) -> list[str]:
    """Return the keys in the server's order; names alone need no parsing."""
    return sorted(fields, key=sort_key if any(key[0] not in "f." for key in fields) else None)
