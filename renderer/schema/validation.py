"""Validation of a value against its schema, by the rules of the API server for custom resources.

This module is stricter than the API server about unknown fields. An unknown field is a mistake here, while the API
server silently drops the field. The last two functions build schemas of Levelgate's own objects.

Source: kube-openapi `pkg/validation/validate`; apiextensions-apiserver `pkg/apiserver/schema/objectmeta`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from renderer.phrasing import format_count, suggestion
from renderer.schema.correlation import is_unchanged, old_item_finder
from renderer.schema.errors import SchemaMistake, child_path
from renderer.schema.formats import has_format, matches

Schema = Mapping[str, Any]

_NAMES: Final = {"object": "an object", "array": "a list", "string": "text", "number": "a number"} | {
    "integer": "a whole number",
    "boolean": "true or false",
}

_Path = tuple[str | int, ...]
_Report = Callable[[_Path, str, str], None]
"""Function that receives the path, the message and the schema keyword of a mistake.

Only this function formats the path, because most values are valid.
"""


def validate(schema: Schema, value: Any, *, old: Any = None) -> list[SchemaMistake]:
    """Return all mistakes in `value`, in the order of its parts, with paths from the top of `value`.

    The function does not apply defaults.

    A part that is unchanged from `old` has no mistakes, because a schema may become stricter than the stored objects
    are (Kubernetes, "Validation ratcheting").
    """
    mistakes: list[SchemaMistake] = []
    _check(
        schema,
        value,
        old,
        (),
        lambda path, message, rule: mistakes.append(SchemaMistake(_format_path(path), message, rule)),
    )
    return mistakes


def _format_path(path: _Path) -> str:
    text = ""
    for step in path:
        text = f"{text}[{step}]" if isinstance(step, int) else child_path(text, step)
    return text


def _check(schema: Schema, value: Any, old: Any, path: _Path, report: _Report) -> None:
    """Report the mistakes of `value` and of all values inside `value`.

    Args:
        old: The previous value, or None if the previous value is unknown.
        report: Function that receives each mistake.
    """
    if old is not None and is_unchanged(schema, value, old):
        return
    kind = schema.get("type")
    if value is None and (schema.get("nullable") or not (kind or schema.get("x-kubernetes-int-or-string"))):
        if schema.get("nullable") and None not in schema.get("enum", (None,)):
            report(path, _describe_enum_mistake(schema["enum"], value), "enum")
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not (_is_integer(value) or isinstance(value, str)):
            report(path, f"{format_value(value)} is neither a whole number nor text", "type")
            return
    elif kind is not None and not _TYPE_TESTS[kind](value):
        report(path, _describe_type_mistake(kind, value), "type")
        return
    if "enum" in schema and value not in schema["enum"]:
        report(path, _describe_enum_mistake(schema["enum"], value), "enum")
    if check := _CHECKS.get(type(value)):
        check(schema, value, old, path, report)
    if not _COMBINATORS.isdisjoint(schema):
        _check_combined(schema, value, path, report)


_COMBINATORS: Final = frozenset(("allOf", "anyOf", "oneOf", "not"))


def _check_combined(schema: Schema, value: Any, path: _Path, report: _Report) -> None:
    """Report the mistakes of `allOf`, `anyOf`, `oneOf` and `not`."""
    for part in schema.get("allOf", ()):
        for mistake in _find_mistakes(part, value, path):
            report(*mistake)
    for rule, max_fitting in (("anyOf", None), ("oneOf", 1)):
        if not (parts := schema.get(rule)):
            continue
        mistakes_by_form = [_find_mistakes(part, value, path) for part in parts]
        fitting = mistakes_by_form.count([])
        if not fitting:
            intended = [
                form_mistakes
                for form_mistakes in mistakes_by_form
                if not any(problem[0] == path and problem[2] == "type" for problem in form_mistakes)
            ]
            if len(intended) == 1:  # The mistakes of forms for a different type would not help the author.
                for mistake in intended[0]:
                    report(*mistake)
                continue
            reasons = "; or ".join(
                " and ".join(_format_mistake(problem, path) for problem in form_mistakes)
                for form_mistakes in mistakes_by_form
            )
            report(path, f"fits none of the {len(parts)} allowed forms: {reasons}", rule)
        elif max_fitting and fitting > max_fitting:
            report(path, f"fits {fitting} of the {len(parts)} forms but must fit exactly one", rule)
    if "not" in schema and not _find_mistakes(schema["not"], value, path):
        report(path, f"must not match {format_value(schema['not'])}", "not")


_RawMistake = tuple[_Path, str, str]


def _find_mistakes(part: Schema, value: Any, path: _Path) -> list[_RawMistake]:
    """Return the mistakes of `value` against `part`, one schema of a combination. Ignore unknown fields.

    Only the whole schema decides which fields are known.
    """
    mistakes: list[_RawMistake] = []
    _check(part, value, None, path, lambda *mistake: mistakes.append(mistake))
    return [mistake for mistake in mistakes if mistake[2] != "unknown"]


def _format_mistake(mistake: _RawMistake, path: _Path) -> str:
    mistake_path, message, _ = mistake
    place = _format_path(mistake_path[len(path) :])
    return f"{place} {message}" if place else message


def _describe_type_mistake(kind: str, value: Any) -> str:
    if value is None:
        return f"null, where {_NAMES[kind]} is expected; remove the field or write a value"
    hint = ""
    if kind == "string":
        hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
    elif isinstance(value, str) and kind in ("integer", "number", "boolean"):
        hint = "; write it without quotes" if is_readable_as(kind, value) else ""
    return f"{format_value(value)} is not {_NAMES[kind]}{hint}"


def is_readable_as(kind: str, text: str) -> bool:
    """Return whether `text` without quotes is a value of the OpenAPI type `kind`."""
    try:
        return _TYPE_TESTS[kind](orjson.loads(text))
    except orjson.JSONDecodeError:
        return False


def _describe_enum_mistake(allowed: list[Any], value: Any) -> str:
    close = suggestion(value, (text for text in allowed if isinstance(text, str))) if isinstance(value, str) else ""
    return f"{format_value(value)} is not one of {', '.join(map(str, allowed))}{close}"


def _check_string(schema: Schema, value: str, _: Any, path: _Path, report: _Report) -> None:
    _check_size(len(value), "minLength", "maxLength", "character", schema, path, report)
    if "pattern" in schema and not matches(schema["pattern"], value):
        report(path, f"{format_value(value)} does not match the pattern {schema['pattern']}", "pattern")
    _check_format(schema, value, path, report)


def _check_format(schema: Schema, value: str | float, path: _Path, report: _Report) -> None:
    if "format" in schema and not has_format(schema["format"], value):
        report(path, f"{format_value(value)} does not have the format {schema['format']}", "format")


def _check_number(schema: Schema, value: float, _: Any, path: _Path, report: _Report) -> None:
    least, greatest = schema.get("minimum"), schema.get("maximum")
    if least is not None:
        if value < least:
            report(path, f"{value} is below the minimum {least}", "minimum")
        elif value == least and schema.get("exclusiveMinimum"):
            report(path, f"{value} is not above {least}", "minimum")
    if greatest is not None:
        if value > greatest:
            report(path, f"{value} is above the maximum {greatest}", "maximum")
        elif value == greatest and schema.get("exclusiveMaximum"):
            report(path, f"{value} is not below {greatest}", "maximum")
    if (factor := schema.get("multipleOf")) and not _is_integer(round(value / factor, 9)):
        report(path, f"{value} is not a multiple of {factor}", "multipleOf")
    _check_format(schema, value, path, report)


def _check_size(size: int, low: str, high: str, unit: str, schema: Schema, path: _Path, report: _Report) -> None:
    if size < schema.get(low, 0):
        report(path, f"has {format_count(size, unit)}, but must have at least {schema[low]}", low)
    if high in schema and size > schema[high]:
        report(path, f"has {format_count(size, unit)}, but may have at most {schema[high]}", high)


def _check_array(schema: Schema, value: list[Any], old: Any, path: _Path, report: _Report) -> None:
    _check_size(len(value), "minItems", "maxItems", "item", schema, path, report)
    if items := schema.get("items"):
        find_old_item = old_item_finder(schema, old)
        for index, item in enumerate(value):
            _check(items, item, find_old_item(item), (*path, index), report)
    _check_unique(schema, value, path, report)


def _check_unique(schema: Schema, value: list[Any], path: _Path, report: _Report) -> None:
    """Report equal items of a set, and items of a list map with equal keys."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in ("set", "map") and not schema.get("uniqueItems"):
        return
    keys = schema.get("x-kubernetes-list-map-keys", ()) if list_type == "map" else ()
    seen: dict[bytes, int] = {}
    for index, item in enumerate(value):
        if keys and not isinstance(item, dict):
            continue  # The check of the items has reported the type.
        identity = [item.get(key) for key in keys] if keys else item
        first = seen.setdefault(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS), index)
        if first != index:
            identity_text = (
                " and ".join(f"{key} {format_value(item.get(key))}" for key in keys) if keys else format_value(item)
            )
            report((*path, index), f"{identity_text} is already at [{first}]; remove one of the items", "duplicate")


def _check_object(schema: Schema, value: dict[str, Any], old: Any, path: _Path, report: _Report) -> None:
    _check_size(len(value), "minProperties", "maxProperties", "field", schema, path, report)
    properties: Mapping[str, Schema] = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    embedded = _IDENTITY_FIELDS if schema.get("x-kubernetes-embedded-resource") else frozenset()
    is_open = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True or "type" not in schema
    old_fields = old if isinstance(old, dict) else {}
    for name, item in value.items():
        if name in properties:
            _check(properties[name], item, old_fields.get(name), (*path, name), report)
        elif isinstance(additional, Mapping):
            _check(additional, item, old_fields.get(name), (*path, name), report)
        elif not is_open and name not in embedded:
            report((*path, name), _describe_unknown_field(name, properties), "unknown")
    for name in (*schema.get("required", ()), *(("apiVersion", "kind") if embedded else ())):
        if name not in value:
            report((*path, name), "is required and not given", "required")


_IDENTITY_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))
"""Fields that every embedded object may have, in addition to its schema."""


def _describe_unknown_field(name: str, properties: Mapping[str, Schema]) -> str:
    if close := suggestion(name, properties):
        return f"no field {name!r}{close}"
    known_fields = ", ".join(properties) if properties else "none at all"
    return f"no field {name!r}; the fields are {known_fields}"


def format_value(value: Any) -> str:
    """Return `value` as a text that is short enough for a message."""
    text = repr(value) if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer() and abs(value) < 2**53)


_TYPE_TESTS: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": lambda value: type(value) in (int, float),
}

_CHECKS: Final[dict[type, Callable[[Schema, Any, Any, _Path, _Report], None]]] = {
    dict: _check_object,
    list: _check_array,
    str: _check_string,
    int: _check_number,
    float: _check_number,
}
"""The function that checks the rules for values of each Python type, by type."""


def object_form(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that contains only the fields `properties`, and always the fields `required`."""
    return {"type": "object", "properties": properties, "required": list(required)}


def enum_form(words: Iterable[str]) -> dict[str, Any]:
    """Return the schema of a text that must be one of `words`."""
    return {"type": "string", "enum": [str(word) for word in words]}
