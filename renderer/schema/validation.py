"""Whether a value fits its schema, judged as the API server judges a custom resource.

Source: kube-openapi `pkg/validation/validate`. One rule is stricter: an unknown field is a mistake here, where the
server drops it silently; what Git says and the cluster ignores is never what its author meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from renderer.listing import suggestion
from renderer.schema.mistakes import SchemaMistake, child
from renderer.schema.patterns import matches

Schema = Mapping[str, Any]

_NAMES: Final = {"object": "an object", "array": "a list", "string": "text", "number": "a number"} | {
    "integer": "a whole number",
    "boolean": "true or false",
}

_Path = tuple[str | int, ...]
_Tell = Callable[[_Path, str, str], None]
"""Takes a mistake: where it is, the message, the rule. Only then is the place made a text: most values are right."""


def validate(schema: Schema, value: Any) -> list[SchemaMistake]:
    """All mistakes, in the order of the value; paths are relative to it. Defaults are not applied first."""
    found: list[SchemaMistake] = []
    _check(schema, value, (), lambda path, message, rule: found.append(SchemaMistake(_text(path), message, rule)))
    return found


def _text(path: _Path) -> str:
    text = ""
    for step in path:
        text = f"{text}[{step}]" if isinstance(step, int) else child(text, step)
    return text


def _check(schema: Schema, value: Any, path: _Path, tell: _Tell) -> None:
    if value is None and schema.get("nullable"):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if type(value) not in (int, str):
            tell(path, f"{shown(value)} is neither a whole number nor text", "type")
        return
    kind = schema.get("type")
    if kind is None:
        return
    if not _IS_OF[kind](value):
        tell(path, _wrong_type(kind, value), "type")
        return
    if "enum" in schema and value not in schema["enum"]:
        tell(path, _not_in_enum(schema["enum"], value), "enum")
    if check := _CHECKS.get(kind):
        check(schema, value, path, tell)


def _wrong_type(kind: str, value: Any) -> str:
    if value is None:
        return f"null, where {_NAMES[kind]} is expected; leave the field out or give a value"
    hint = ""
    if kind == "string":
        hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
    elif isinstance(value, str) and kind in ("integer", "number", "boolean"):
        hint = "; write it without quotes" if _reads_as(kind, value) else ""
    return f"{shown(value)} is not {_NAMES[kind]}{hint}"


def _reads_as(kind: str, text: str) -> bool:
    try:
        return _IS_OF[kind](orjson.loads(text))
    except orjson.JSONDecodeError:
        return False


def _not_in_enum(allowed: list[Any], value: Any) -> str:
    close = suggestion(value, allowed) if isinstance(value, str) else ""
    return f"{shown(value)} is not one of {', '.join(map(str, allowed))}{close}"


def _string(schema: Schema, value: str, path: _Path, tell: _Tell) -> None:
    _sized(len(value), "minLength", "maxLength", "characters", schema, path, tell)
    if "pattern" in schema and not matches(schema["pattern"], value):
        tell(path, f"{shown(value)} does not match the pattern {schema['pattern']}", "pattern")


def _number(schema: Schema, value: float, path: _Path, tell: _Tell) -> None:
    if "minimum" in schema and value < schema["minimum"]:
        tell(path, f"{value} is below the minimum {schema['minimum']}", "minimum")
    if "maximum" in schema and value > schema["maximum"]:
        tell(path, f"{value} is above the maximum {schema['maximum']}", "maximum")


def _sized(size: int, low: str, high: str, unit: str, schema: Schema, path: _Path, tell: _Tell) -> None:
    if size < schema.get(low, 0):
        tell(path, f"has {size} {unit}, at least {schema[low]} are needed", low)
    if high in schema and size > schema[high]:
        tell(path, f"has {size} {unit}, at most {schema[high]} are allowed", high)


def _array(schema: Schema, value: list[Any], path: _Path, tell: _Tell) -> None:
    _sized(len(value), "minItems", "maxItems", "items", schema, path, tell)
    items = schema.get("items")
    for index, item in enumerate(value):
        if items is not None:
            _check(items, item, (*path, index), tell)
    _unique(schema, value, path, tell)


def _unique(schema: Schema, value: list[Any], path: _Path, tell: _Tell) -> None:
    """Sets have no two equal items, maps no two items with equal keys."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in ("set", "map") and not schema.get("uniqueItems"):
        return
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: dict[bytes, int] = {}
    for index, item in enumerate(value):
        identity = [item.get(key) for key in keys] if list_type == "map" and isinstance(item, dict) else item
        first = seen.setdefault(_canonical(identity), index)
        if first != index:
            what = " and ".join(f"{key} {shown(item.get(key))}" for key in keys) if keys else shown(item)
            tell((*path, index), f"{what} is already given at [{first}]; it must be unique", "duplicate")


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _object(schema: Schema, value: dict[str, Any], path: _Path, tell: _Tell) -> None:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    open_ended = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True
    for name, item in value.items():
        if name in properties:
            _check(properties[name], item, (*path, name), tell)
        elif isinstance(additional, Mapping):
            _check(additional, item, (*path, name), tell)
        elif not open_ended:
            tell((*path, name), _unknown_field(name, properties), "unknown")
    for name in schema.get("required", ()):
        if name not in value:
            tell((*path, name), "is required and not given", "required")


def _unknown_field(name: str, properties: Mapping[str, Schema]) -> str:
    if close := suggestion(name, properties):
        return f"no field {name!r}{close}"
    known = ", ".join(properties) if properties else "none at all"
    return f"no field {name!r}; the fields are {known}"


def shown(value: Any) -> str:
    """A value for a message, short."""
    text = repr(value) if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer() and abs(value) < 2**53)


_IS_OF: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": lambda value: type(value) in (int, float),
}

_CHECKS: Final[dict[str, Callable[[Schema, Any, _Path, _Tell], None]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
}
