"""Sets of fields that a manager owns, or that have changed.

A set is a tree of dicts in the form of `fieldsV1` (KEP-555). `f:name` is a member of a map. `k:{"name":"x"}` identifies
a list item by its keys, and `v:"x"` identifies a list item by its value. The key `.` means that the field itself is in
the set.

On the wire, a field without parts is `{}`. In this module such a field is `{".": {}}`, so `{}` is always the empty set.
No node of a set is empty. No operation changes a set, so sets share unchanged parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from applier.sandbox.merge.path_elements import InvalidFieldsError, canonicalize, format_element, sort_key
from applier.sandbox.merge.types import MergeType

Fields = dict[str, Any]
"""Set of fields, as a tree of dicts in the form of `fieldsV1`."""

SELF: Final = "."
EMPTY_SET: Final[Fields] = {}
LEAF: Final[Fields] = {SELF: {}}

Path = tuple[str, ...]
"""Keys of `Fields` that lead to a field, from the root."""


def union(left: Fields, right: Fields) -> Fields:
    """Return the fields that are in `left` or in `right`."""
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
    """Return the fields that are in both `left` and `right`."""
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
    """Return the fields of `left` that are not in `right`.

    Args:
        subtrees: True to remove each field of `right` together with its parts. If false, the parts stay in the result.
    """
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
    """Return `fields`, extended by the declared fields that have parts in `fields`.

    Usually, a set contains the parts of a declared field, but not the field itself.
    """
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
    """Return the set of the fields at `paths`.

    Args:
        paths: sequences of names, such as `("status",)`.
    """
    out: Fields = {}
    for path in paths:
        node = out
        for name in path:
            node = node.setdefault(f"f:{name}", {})
        node[SELF] = {}
    return out


def iterate_paths(fields: Fields, prefix: Path = ()) -> Iterator[Path]:
    """Yield the path of every field in `fields`. Every path begins with `prefix`.

    The paths at a level of the tree precede the paths below that level.
    """
    keys = [key for key in _sort_keys(fields) if key != SELF]
    yield from ((*prefix, key) for key in keys if SELF in fields[key])
    for key in keys:
        yield from iterate_paths(fields[key], (*prefix, key))


def has_path(fields: Fields, path: Path) -> bool:
    """Return whether the field at `path` is itself in `fields`.

    Parts of the field alone do not count.
    """
    for key in path:
        if (node := fields.get(key)) is None:
            return False
        fields = node
    return SELF in fields


def format_path(path: Path) -> str:
    """Return `path` in the form of the server's messages: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(format_element, path))


def decode(fields: Mapping[str, Any]) -> Fields:
    """Return the set of fields in `fields`, a value of `fieldsV1`.

    The result has no keys of unknown kinds, because the server drops such keys too.

    Raises: InvalidFieldsError if a key or a value is malformed.
    """
    out: Fields = {}
    for key, node in fields.items():
        if not isinstance(node, dict):
            raise InvalidFieldsError(f"{key!r} is not an object")
        if key == SELF:
            out[key] = {}  # the server skips what a client sends below "."
        elif canonical_key := canonicalize(key):
            out[canonical_key] = decode(node) or LEAF
    return out


def encode(fields: Fields) -> dict[str, Any]:
    """Return `fields` as `fieldsV1`, with keys in the server's order."""
    return {
        key: {} if key == SELF or (len(fields[key]) == 1 and SELF in fields[key]) else encode(fields[key])
        for key in _sort_keys(fields)
    }


def _sort_keys(fields: Fields) -> list[str]:
    """Return the keys of `fields` in the server's order.

    If all keys are names, the function parses no key.
    """
    return sorted(fields, key=sort_key if any(key[0] not in "f." for key in fields) else None)
