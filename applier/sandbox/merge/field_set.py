"""Field sets: which fields of an object somebody owns, or which have changed.

A set is a tree of dicts in the shape of `fieldsV1` (KEP-555): `f:name` is a member of a map, `k:{"name":"x"}` an item by
its keys, `v:"x"` an item by its value; the key `.` says that the field itself is in the set. Unlike on the wire a field
without parts is `{".": {}}`, so `{}` is always the empty set and all operations are uniform. No node is empty.

Sets are never mutated once they are built; operations share what does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from applier.sandbox.merge.path_elements import InvalidFields, canonical, element_text, rank
from applier.sandbox.merge.types import MergeType

Fields = dict[str, Any]
"""A set of fields; see the module's docstring."""

SELF: Final = "."
NOTHING: Final[Fields] = {}
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
        mine = out.get(key)
        out[key] = node if mine is None else union(mine, node)
    return out


def intersection(left: Fields, right: Fields) -> Fields:
    out: Fields = {}
    for key, node in left.items():
        theirs = right.get(key)
        if theirs is None:
            continue
        if key == SELF:
            out[key] = node
        elif found := intersection(node, theirs):
            out[key] = found
    return out


def difference(left: Fields, right: Fields) -> Fields:
    """The fields of `left` that are not in `right`; having a field is not having its parts."""
    if not right:
        return left
    out: Fields = {}
    for key, node in left.items():
        theirs = right.get(key)
        if theirs is None:
            out[key] = node
        elif key != SELF and node != theirs and (rest := difference(node, theirs)):
            out[key] = rest
    return out


def outside(left: Fields, right: Fields) -> Fields:
    """The fields of `left` that are neither in `right` nor part of a field in it."""
    if not right:
        return left
    out: Fields = {}
    for key, node in left.items():
        theirs = right.get(key)
        if theirs is None:
            out[key] = node
        elif SELF not in theirs and (rest := outside(node, theirs)):
            out[key] = rest
    return out


def named_fields_too(fields: Fields, type_: MergeType | None) -> Fields:
    """With the declared fields whose parts are in the set; those are only recorded by their parts."""
    out: Fields = {}
    structure, items = (type_.map, type_.list) if type_ else (None, None)
    for key, node in fields.items():
        if key == SELF or (len(node) == 1 and SELF in node):
            out[key] = node
        elif key[0] == "f" and structure:
            child = named_fields_too(node, structure.child(key[2:]))
            out[key] = {SELF: {}, **child} if structure.declares(key[2:]) else child
        else:
            out[key] = named_fields_too(node, items.element if key[0] == "k" and items else None)
    return out


@lru_cache(maxsize=256)
def of_paths(paths: frozenset[Sequence[str]]) -> Fields:
    """The set of fields that are reached by names, such as `("status",)`."""
    out: Fields = {}
    for path in paths:
        node = out
        for name in path:
            node = node.setdefault(f"f:{name}", {})
        node[SELF] = {}
    return out


def paths(fields: Fields, prefix: Path = ()) -> Iterator[Path]:
    """Every field of a set: of each level first the fields themselves, then what is below them."""
    below = [(key, node) for key, node in _ordered(fields.items()) if key != SELF]
    yield from ((*prefix, key) for key, node in below if SELF in node)
    for key, node in below:
        yield from paths(node, (*prefix, key))


def has(fields: Fields, path: Path) -> bool:
    for key in path:
        if (node := fields.get(key)) is None:
            return False
        fields = node
    return SELF in fields


def text_of(path: Path) -> str:
    """A path as the server writes it in messages: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(element_text, path))


def decode(fields: Mapping[str, Any]) -> Fields:
    """Reads `fieldsV1`. Raises `InvalidFields`; keys of a kind that we do not know are left out, as the server does."""
    out: Fields = {}
    for key, node in fields.items():
        if not isinstance(node, dict):
            raise InvalidFields(f"{key!r} is not an object")
        if key == SELF:
            out[key] = node
        elif known := canonical(key):
            out[known] = decode(node) or LEAF
    return out


def encode(fields: Fields) -> dict[str, Any]:
    """Writes `fieldsV1`, its keys in the server's order."""
    return {
        key: {} if key == SELF or (len(node) == 1 and SELF in node) else encode(node)
        for key, node in _ordered(fields.items())
    }


def _ordered(nodes: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    pairs = list(nodes)
    if len(pairs) > 1:
        pairs.sort(key=_by_key if any(key[0] not in "f." for key, _ in pairs) else _by_name)
    return pairs


def _by_name(pair: tuple[str, Any]) -> str:
    return pair[0]


def _by_key(pair: tuple[str, Any]) -> tuple[Any, ...]:
    return rank(pair[0])
