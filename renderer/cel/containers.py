"""Operations on lists, maps and optionals: selection, indexing, presence, and the literals that differ from Python's.

A missing key raises MissingKeyError. A container or key of an unsuitable type raises NoOverloadError. If the key is
missing or the container is null, an optional access yields `NONE`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from renderer.cel.errors import EvaluationError, MissingKeyError, NoOverloadError
from renderer.cel.values import LISTS, MAPS, NONE, MixedMap, Optional, UInt, type_name
from renderer.phrasing import format_count

NUMBERS: Final = frozenset((int, UInt, float))
KEYS: Final = frozenset((str, int, UInt, bool))


def lookup(container: Any, key: Any) -> Optional:
    """Return an optional of the value at `key` in a map or list, or `NONE` if `key` is missing.

    Raises: NoOverloadError if `container` is neither a map nor a list, or does not accept the type of `key`.
    """
    if type(container) in MAPS:
        return _lookup_key(container, key)
    if type(container) in LISTS:
        return _lookup_index(container, key)
    raise NoOverloadError(f"{type_name(container)}[{type_name(key)}]", (container, key))


def _lookup_key(container: dict[Any, Any], key: Any) -> Optional:
    """Return an optional of the value at `key`. Unlike CEL, a Python dict treats `1` and `True` as one key."""
    if type(key) not in KEYS and type(key) is not float:
        raise NoOverloadError(f"map[{type_name(key)}]", (container, key))
    if key not in container:
        return NONE
    if type(key) is not str and key in (0, 1):
        stored_key = next(existing_key for existing_key in container if existing_key == key)
        if (type(stored_key) is bool) is not (type(key) is bool):
            return NONE
    return Optional(container[key])


def _lookup_index(container: list[Any], key: Any) -> Optional:
    if type(key) not in NUMBERS or (type(key) is float and not key.is_integer()):
        raise NoOverloadError(f"list[{type_name(key)}]", (container, key))
    return Optional(container[int(key)]) if 0 <= key < len(container) else NONE


def get_item(container: Any, key: Any) -> Any:
    """Return `container[key]`.

    Raises: MissingKeyError if `key` is missing, and NoOverloadError for a container or key of an unsuitable type.
    """
    if type(container) is Optional:
        return get_optional_item(container, key)
    item = lookup(container, key)
    if item.present:
        return item.value
    raise MissingKeyError(missing_message(container, key))


def get_optional_item(container: Any, key: Any) -> Optional:
    """Return `container[?key]`, or `NONE` if `container` is null or does not have `key`.

    A value of a type that no map accepts as a key is missing in every map. Raises: NoOverloadError.
    """
    if type(container) is Optional:
        return get_optional_item(container.value, key) if container.present else NONE
    is_absent = container is None or (type(container) in MAPS and type(key) not in KEYS and type(key) is not float)
    return NONE if is_absent else lookup(container, key)


def get_field(operand: Any, name: str) -> Any:
    """Return `operand.name`.

    Raises: MissingKeyError if the field is missing, and NoOverloadError if `operand` cannot have fields.
    """
    if type(operand) in MAPS and name in operand:
        return operand[name]
    if type(operand) is Optional:
        return get_optional_field(operand, name)
    if operand is None or type(operand) in MAPS:
        raise MissingKeyError(missing_message(operand, name))
    raise NoOverloadError(f"{type_name(operand)}.{name}", (operand,))


def get_optional_field(operand: Any, name: str) -> Optional:
    """Return `operand.?name`. Raises: NoOverloadError if `operand` cannot have fields."""
    if type(operand) is Optional:
        return get_optional_field(operand.value, name) if operand.present else NONE
    if type(operand) in MAPS:
        return Optional(operand[name]) if name in operand else NONE
    if operand is None:
        return NONE
    raise NoOverloadError(f"{type_name(operand)}.?{name}", (operand,))


def has_field(operand: Any, name: str) -> bool:
    """Return `has(operand.name)`. Raises: NoOverloadError if `operand` cannot have fields."""
    if type(operand) in MAPS:
        return name in operand
    return get_optional_field(operand, name).present


def missing_message(container: Any, key: Any) -> str:
    """Return the message that `container` does not have `key`, or that the index `key` is out of range."""
    if container is None:
        return f"no such key {key!r} in null"
    if type(container) in LISTS:
        return f"index {key} out of range ({format_count(len(container), 'item')})"
    return f"no such key {key!r}"


def make_map(entries: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return the map of a map literal.

    Raises: EvaluationError if a key is not a bool, int, uint or string, or if two keys are equal. Equal numbers are
    equal keys.
    """
    result: dict[Any, Any] = {}
    for key, value in entries:
        if type(key) not in KEYS:
            raise EvaluationError(f"{type_name(key)} cannot be the key of a map")
        if key in result:
            raise EvaluationError(f"the map literal has the key {key!r} twice; keep one")
        result[key] = value
    return result if all(type(key) is str for key in result) else MixedMap(result)


def present_values(value: Any) -> tuple[Any, ...]:
    """Return the elements that `[?value]` adds to a list, at most one.

    Raises: EvaluationError if `value` is not an optional.
    """
    if type(value) is not Optional:
        raise EvaluationError(f"expected optional after ?, got {type_name(value)}")
    return (value.value,) if value.present else ()
