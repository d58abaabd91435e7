"""Whether a value fits its schema, judged as the API server judges a custom resource.

Source: kube-openapi `pkg/validation/validate`; apiextensions-apiserver `pkg/apiserver/schema/objectmeta`. One rule is stricter: an unknown field
is a mistake here, where the server drops it silently; what Git says and the cluster ignores is never what its author meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from renderer.phrasing import suggestion
from renderer.schema.correlation import is_unchanged, items_before
from renderer.schema.errors import SchemaMistake, child
from renderer.schema.formats import has_format
from renderer.schema.patterns import matches

Schema = Mapping[str, Any]

_NAMES: Final = {"object": "an object", "array": "a list", "string": "text", "number": "a number"} | {
    "integer": "a whole number",
    "boolean": "true or false",
}

_Path = tuple[str | int, ...]
_Tell = Callable[[_Path, str, str], None]
"""Takes a mistake: where it is, the message, the rule. Only then is the place made a text: most values are right."""


def validate(schema: Schema, value: Any, *, old: Any = None) -> list[SchemaMistake]:
    """All mistakes, in the order of the value; paths are relative to it. Defaults are not applied first.

    What is as it was in `old` is no mistake: schemas become stricter, and what is stored stays (Kubernetes, "Validation ratcheting").
    """
    found: list[SchemaMistake] = []
    _check(schema, value, old, (), lambda path, message, rule: found.append(SchemaMistake(_text(path), message, rule)))
    return found


def _text(path: _Path) -> str:
    text = ""
    for step in path:
        text = f"{text}[{step}]" if isinstance(step, int) else child(text, step)
    return text


def _check(schema: Schema, value: Any, old: Any, path: _Path, tell: _Tell) -> None:
    """`old` is what the value was, None if that cannot be told."""
    if old is not None and is_unchanged(schema, value, old):
        return
    kind = schema.get("type")
    if value is None and (schema.get("nullable") or not (kind or schema.get("x-kubernetes-int-or-string"))):
        if schema.get("nullable") and None not in schema.get("enum", (None,)):
            tell(path, _not_in_enum(schema["enum"], value), "enum")
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not (_is_integer(value) or isinstance(value, str)):
            tell(path, f"{shown(value)} is neither a whole number nor text", "type")
            return
    elif kind is not None and not _IS_OF[kind](value):
        tell(path, _wrong_type(kind, value), "type")
        return
    if "enum" in schema and value not in schema["enum"]:
        tell(path, _not_in_enum(schema["enum"], value), "enum")
    if check := _CHECKS.get(type(value)):
        check(schema, value, old, path, tell)
    if not _JUNCTORS.isdisjoint(schema):
        _combined(schema, value, path, tell)


_JUNCTORS: Final = frozenset(("allOf", "anyOf", "oneOf", "not"))


def _combined(schema: Schema, value: Any, path: _Path, tell: _Tell) -> None:
    """Rules that are put together of others."""
    for part in schema.get("allOf", ()):
        for mistake in _broken(part, value, path):
            tell(*mistake)
    for rule, most in (("anyOf", None), ("oneOf", 1)):
        if not (parts := schema.get(rule)):
            continue
        broken = [_broken(part, value, path) for part in parts]
        fitting = broken.count([])
        if not fitting:
            meant = [each for each in broken if not any(one[0] == path and one[2] == "type" for one in each)]
            if len(meant) == 1:  # All others are for values of another type.
                for mistake in meant[0]:
                    tell(*mistake)
                continue
            why = "; or ".join(" and ".join(_said(one, path) for one in each) for each in broken)
            tell(path, f"fits none of the {len(parts)} forms that it may have: {why}", rule)
        elif most and fitting > most:
            tell(path, f"fits {fitting} of the {len(parts)} forms of which it must have one", rule)
    if "not" in schema and not _broken(schema["not"], value, path):
        tell(path, f"is what it must not be: {shown(schema['not'])}", "not")


_Told = tuple[_Path, str, str]


def _broken(part: Schema, value: Any, path: _Path) -> list[_Told]:
    """What of one of several rules does not hold; which fields there are the whole says, not its parts."""
    found: list[_Told] = []
    _check(part, value, None, path, lambda *mistake: found.append(mistake))
    return [mistake for mistake in found if mistake[2] != "unknown"]


def _said(mistake: _Told, path: _Path) -> str:
    where, message, _ = mistake
    place = _text(where[len(path) :])
    return f"{place} {message}" if place else message


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


def _string(schema: Schema, value: str, _: Any, path: _Path, tell: _Tell) -> None:
    _sized(len(value), "minLength", "maxLength", "characters", schema, path, tell)
    if "pattern" in schema and not matches(schema["pattern"], value):
        tell(path, f"{shown(value)} does not match the pattern {schema['pattern']}", "pattern")
    _formed(schema, value, path, tell)


def _formed(schema: Schema, value: str | float, path: _Path, tell: _Tell) -> None:
    if "format" in schema and not has_format(schema["format"], value):
        tell(path, f"{shown(value)} is not of the format {schema['format']}", "format")


def _number(schema: Schema, value: float, _: Any, path: _Path, tell: _Tell) -> None:
    least, greatest = schema.get("minimum"), schema.get("maximum")
    if least is not None:
        if value < least:
            tell(path, f"{value} is below the minimum {least}", "minimum")
        elif value == least and schema.get("exclusiveMinimum"):
            tell(path, f"{value} is not above {least}", "minimum")
    if greatest is not None:
        if value > greatest:
            tell(path, f"{value} is above the maximum {greatest}", "maximum")
        elif value == greatest and schema.get("exclusiveMaximum"):
            tell(path, f"{value} is not below {greatest}", "maximum")
    if (factor := schema.get("multipleOf")) and not _is_integer(round(value / factor, 9)):
        tell(path, f"{value} is no multiple of {factor}", "multipleOf")
    _formed(schema, value, path, tell)


def _sized(size: int, low: str, high: str, unit: str, schema: Schema, path: _Path, tell: _Tell) -> None:
    if size < schema.get(low, 0):
        tell(path, f"has {size} {unit}, at least {schema[low]} are needed", low)
    if high in schema and size > schema[high]:
        tell(path, f"has {size} {unit}, at most {schema[high]} are allowed", high)


def _array(schema: Schema, value: list[Any], old: Any, path: _Path, tell: _Tell) -> None:
    _sized(len(value), "minItems", "maxItems", "items", schema, path, tell)
    if items := schema.get("items"):
        before = items_before(schema, old)
        for index, item in enumerate(value):
            _check(items, item, before(item), (*path, index), tell)
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


def _object(schema: Schema, value: dict[str, Any], old: Any, path: _Path, tell: _Tell) -> None:
    _sized(len(value), "minProperties", "maxProperties", "fields", schema, path, tell)
    properties: Mapping[str, Schema] = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    embedded = _IDENTITY if schema.get("x-kubernetes-embedded-resource") else frozenset()
    is_open = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True or "type" not in schema
    before = old if isinstance(old, dict) else {}
    for name, item in value.items():
        if name in properties:
            _check(properties[name], item, before.get(name), (*path, name), tell)
        elif isinstance(additional, Mapping):
            _check(additional, item, before.get(name), (*path, name), tell)
        elif not is_open and name not in embedded:
            tell((*path, name), _unknown_field(name, properties), "unknown")
    for name in (*schema.get("required", ()), *(("apiVersion", "kind") if embedded else ())):
        if name not in value:
            tell((*path, name), "is required and not given", "required")


_IDENTITY: Final = frozenset(("apiVersion", "kind", "metadata"))
"""What every embedded object may have, whatever its schema says."""


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

_CHECKS: Final[dict[type, Callable[[Schema, Any, Any, _Path, _Tell], None]]] = {
    dict: _object,
    list: _array,
    str: _string,
    int: _number,
    float: _number,
}
"""By the type of the value: a rule is for values of its own kind, and says nothing of others."""
