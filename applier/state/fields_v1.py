"""Keys of FieldsV1, the form of `managedFields` (KEP-555): how keys identify list items, and how messages show keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

Fields = Mapping[str, Any]
"""Map of the fields that an entry owns, in the form FieldsV1.

A key that begins with `f:` names a member of a map. The other keys identify a list item by key (`k:`), by value (`v:`)
or by index (`i:`). The key `.` represents the value itself.
"""


def count_key_fields(item: Any, names: tuple[str, ...]) -> int:
    """Return how many of the key fields `names` the list item `item` has."""
    return sum(name in item for name in names) if isinstance(item, Mapping) else 0


def key_names(entries: Fields) -> tuple[str, ...]:
    """Return the names of the key fields of the list that `entries` describe.

    If the items of the list have no key fields, return no names.
    """
    first = next((key for key in entries if key.startswith("k:")), None)
    return tuple(parse_key(first[2:])) if first else ()


def matches(item: Any, key: str, index: int) -> bool:
    """Return whether `key`, the key of an entry, identifies `item`.

    An absent key field matches every value, because an item may rely on the default of the field.

    Args:
        index: position of `item` in its list.
    """
    kind, text = key[:1], key[2:]
    match kind:
        case "k":
            names = parse_key(text)
            return isinstance(item, Mapping) and all(
                name not in item or _is_json_equal(item[name], expected) for name, expected in names.items()
            )
        case "v":
            return _is_json_equal(item, parse_key(text))
        case "i":
            return text == str(index)
        case _:
            return False


@lru_cache(maxsize=4096)
def parse_key(text: str) -> Any:
    """Return the JSON value in `text`, the key of an entry.

    The function caches the value, because names of containers, ports and variables recur in all objects.
    """
    return orjson.loads(text)


def _is_json_equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal.

    The numbers 80 and 80.0 are equal, but true and 1 are not.
    """
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def expected_key(item: Any, index: int, entries: Fields) -> str:
    """Return the key that `item` would have in `entries`.

    With this key, a caller can find the item in the entries of other managers.
    """
    names = key_names(entries)
    if names and isinstance(item, Mapping):
        return f"k:{orjson.dumps({name: item[name] for name in names if name in item}).decode()}"
    return f"i:{index}" if any(key.startswith("i:") for key in entries) else f"v:{orjson.dumps(item).decode()}"


def format_element(key: str) -> str:
    """Return `key` in the form of the server's conflict messages: `[name="app"]`, `[="x"]`, `[0]`, `.field`."""
    kind, text = key[:1], key[2:]
    match kind:
        case "k":
            return "[" + ",".join(f"{name}={_to_json(value)}" for name, value in parse_key(text).items()) + "]"
        case "v":
            return f"[={text}]"
        case "i":
            return f"[{text}]"
        case _:
            return f".{text}"


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def owned_at(fields: Fields | None, keys: tuple[str, ...]) -> Fields | None:
    """Return the part of `fields` that an entry owns at `keys`.

    If the entry owns no field at `keys`, return None. If the entry owns the whole value, return an empty mapping.
    """
    for key in keys:
        if not fields:
            break
        fields = fields.get(key)
    return fields
