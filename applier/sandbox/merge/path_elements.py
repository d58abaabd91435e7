"""Elements of field paths as keys of `fieldsV1`, in a canonical form in which equal elements are equal strings.

`f:name` is a member of a map. `k:{"name":"x"}` identifies a list item by its sorted key fields. `v:"x"` identifies a
list item by its value, and `i:0` identifies a list item by its position. JSON in these keys has Go's form.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import orjson


class InvalidFieldsError(ValueError):
    """Rejection of an invalid entry of `managedFields`, with the reason."""


@lru_cache(maxsize=8192)
def canonicalize(key: str) -> str:
    """Return `key`, as a client sent it, in canonical form.

    The canonical form may differ from `key` in white space and in the order of names. If the kind of `key` is unknown,
    return an empty string.

    Raises: InvalidFieldsError if `key` is malformed.
    """
    if len(key) < 2 or key[1] != ":":
        raise InvalidFieldsError(f"{key!r} has no kind")
    kind, text = key[0], key[2:]
    try:
        match kind:
            case "f":
                return key
            case "k":
                value = orjson.loads(text)
                if not isinstance(value, dict):
                    raise InvalidFieldsError(f"{key!r} is not an object")
                names = sorted(value)
                return item_key(names, [value[name] for name in names])
            case "v":
                return value_key(orjson.loads(text))
            case "i":
                return f"i:{int(text)}"
            case _:
                return ""
    except ValueError as error:
        raise InvalidFieldsError(f"{key!r}: {error}") from error


def item_key(names: Sequence[str], values: Sequence[Any]) -> str:
    """Return the key of a list item.

    Args:
        names: sorted names of the key fields.
        values: values of the key fields, in the order of `names`.
    """
    try:
        return _item_key(tuple(names), *values)
    except TypeError:  # a map or list cannot be cached; the type check rejects it later
        return _item_key.__wrapped__(tuple(names), *values)


@lru_cache(maxsize=8192, typed=True)
def _item_key(names: tuple[str, ...], *values: Any) -> str:
    return (
        "k:{" + ",".join(f'"{name}":{_format_scalar(value)}' for name, value in zip(names, values, strict=True)) + "}"
    )


@lru_cache(maxsize=8192, typed=True)
def value_key(value: Any) -> str:
    """Return the key of a list item whose value identifies the item.

    Args:
        value: scalar item.
    """
    return f"v:{_format_scalar(value)}"


_MIN_EXPONENT_FLOAT: Final = 1e21
_HTML_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def _format_scalar(value: Any) -> str:
    if value.__class__ is int:
        return str(value)
    if value.__class__ is float and value.is_integer() and abs(value) < _MIN_EXPONENT_FLOAT:
        return str(int(value))  # Go writes whole numbers without a fraction
    return format_go_json(value)


def format_go_json(value: Any) -> str:
    """Return `value` as JSON in Go's form, with sorted names, and with characters escaped for HTML."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode().translate(_HTML_ESCAPES)


def format_element(key: str) -> str:
    """Return `key` in the form of the server's messages: `.name`, `[port=80]`, `[="x"]` or `[0]`."""
    kind, text = key[0], key[2:]
    match kind:
        case "f":
            return f".{text}"
        case "k":
            return "[" + ",".join(f"{name}={format_json(value)}" for name, value in orjson.loads(text).items()) + "]"
        case "v":
            return f"[={format_json(orjson.loads(text))}]"
        case _:
            return f"[{text}]"


def format_json(value: Any) -> str:
    """Return `value` as compact JSON, with names in their order, and without escapes for HTML."""
    return orjson.dumps(value).decode()


@lru_cache(maxsize=8192)
def sort_key(key: str) -> tuple[Any, ...]:
    """Return a sort key for the server's order of `key`: names, then items by keys, by value, by index.

    Numbers sort by size.
    """
    kind, text = key[0], key[2:]
    match kind:
        case ".":
            return (0,)
        case "f":
            return (1, text)
        case "k":
            return (2, *((name, *_value_sort_key(value)) for name, value in sorted(orjson.loads(text).items())))
        case "v":
            return (3, *_value_sort_key(orjson.loads(text)))
        case _:
            return (4, int(text))


def _value_sort_key(value: Any) -> tuple[int, Any]:
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case _:
            return (3, format_json(value))
