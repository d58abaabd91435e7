"""Effects of markers on the schema of their field, by the table of kro's SimpleSchema.

The functions change the schema under construction. For a value that does not fit, every function raises MarkerError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from renderer.cel import compile_expression
from renderer.errors import ExpressionError
from renderer.schema.formats import PatternError, compile_pattern
from renderer.schema.markers import Marker, MarkerError, parse_json

Schema = dict[str, Any]

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"[0-9_.eE+-]+")
INT64: Final = range(-(2**63), 2**63)

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})

TYPE_TEXTS: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a float",
    "boolean": "a boolean",
    "array": "a list",
    "object": "an object",
}
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})


def apply_marker(schema: Schema, marker: Marker) -> None:
    """Apply `marker` to `schema`. The caller handles the marker `required`, which changes the parent's schema.

    Raises: MarkerError if `marker` does not fit `schema`.
    """
    _check_type(schema, marker)
    _EFFECTS[marker.key](schema, marker)


def parse_boolean(marker: Marker) -> bool:
    """Return the value of a marker whose value is a boolean. Raises: MarkerError for any other value."""
    if marker.value in _TRUE:
        return True
    if marker.value in _FALSE:
        return False
    raise MarkerError(f"{marker.key}={marker.value} is not a boolean; write true or false")


def check_bounds(schema: Mapping[str, Any]) -> None:
    """Check that the bounds do not exclude every value.

    Raises: MarkerError if a lower bound is above its upper bound.
    """
    for low, high in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        if low in schema and high in schema and schema[low] > schema[high]:
            raise MarkerError(f"{low}={schema[low]} is above {high}={schema[high]}; change one, because no value fits")


def check_list_type(schema: Mapping[str, Any]) -> None:
    """Check a list against the API server's rules for sets and maps.

    If the list broke a rule, the API server would refuse the whole CRD. Raises: MarkerError for a broken rule.
    """
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys and list_type != "map":
        raise MarkerError("listMapKey needs listType=map")
    if list_type == "set" and schema["items"].get("type") not in _SCALARS:
        raise MarkerError("a set (uniqueItems or listType=set) needs items that are strings, numbers or booleans")
    if list_type == "map":
        _check_list_map(schema["items"], keys)


def _check_list_map(items: Mapping[str, Any], keys: list[str] | None) -> None:
    if not keys:
        raise MarkerError("listType=map needs listMapKey=<field of the items>")
    fields = items.get("properties", {})
    for key in keys:
        if key not in fields:
            raise MarkerError(f"listMapKey={key}: the items have no field {key!r}; name a field of the items")
        if fields[key].get("type") not in _SCALARS:
            raise MarkerError(f"listMapKey={key}: the field must be a string, number or boolean")
        if key not in items.get("required", ()) and "default" not in fields[key]:
            raise MarkerError(f"listMapKey={key}: the field must have required=true or a default")


def _check_type(schema: Schema, marker: Marker) -> None:
    allowed = _TYPES.get(marker.key)
    if allowed is None or schema.get("type") in allowed:
        return
    allowed_texts = " or ".join(TYPE_TEXTS[name] for name in allowed)
    hint = ""
    if schema.get("type") == "array" and schema["items"].get("type") in allowed:
        hint = "; to restrict the items, define a type for the items under types"
    raise MarkerError(f"marker {marker.key} is for {allowed_texts}; the field is {TYPE_TEXTS[schema['type']]}{hint}")


def _apply_default(schema: Schema, marker: Marker) -> None:
    kind = schema["type"]
    if kind == "string":
        schema["default"] = marker.text
        return
    if not marker.value:
        raise MarkerError(f"default has no value; write a value for {TYPE_TEXTS[kind]}")
    value = parse_json(marker) if kind != "boolean" else parse_boolean_default(marker)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not _has_type(value, kind):
        raise MarkerError(f"default={marker.value} is not {TYPE_TEXTS[kind]}")
    schema["default"] = value


def parse_boolean_default(marker: Marker) -> bool:
    """Return the default of a boolean field. Raises: MarkerError if the default is neither `true` nor `false`."""
    if marker.value not in ("true", "false"):
        raise MarkerError(f"default={marker.value} is not a boolean; write true or false")
    return marker.value == "true"


def _has_type(value: object, kind: str) -> bool:
    match kind:
        case "integer":
            return type(value) is int and value in INT64
        case "number":
            return type(value) is int or (type(value) is float and math.isfinite(value))
        case "boolean":
            return type(value) is bool
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _apply_description(schema: Schema, marker: Marker) -> None:
    schema["description"] = marker.value


def _apply_enum(schema: Schema, marker: Marker) -> None:
    members = [member.strip() for member in marker.value.split(",")]
    if not all(members):
        raise MarkerError(f'enum="{marker.value}" has an empty member; separate the members by single commas')
    values = [_parse_whole(marker, member) for member in members] if schema["type"] == "integer" else members
    schema["enum"] = list(dict.fromkeys(values))


def _apply_bound(schema: Schema, marker: Marker) -> None:
    try:
        value = float(marker.value)
    except ValueError:
        value = math.nan
    # Go reads neither blanks nor digits of other scripts.
    if not math.isfinite(value) or not _NUMBER.fullmatch(marker.value):
        raise MarkerError(f"{marker.key}={marker.value}: write a number")
    if schema["type"] == "integer" and not value.is_integer():
        raise MarkerError(f"{marker.key}={marker.value}: write a whole number, because the field is an integer")
    schema[marker.key] = int(value) if value.is_integer() else value


def _apply_count(schema: Schema, marker: Marker) -> None:
    count = _parse_whole(marker, marker.value)
    if count < 0:
        raise MarkerError(f"{marker.key}={count}: the number must not be negative")
    schema[marker.key] = count


def _parse_whole(marker: Marker, text: str) -> int:
    if _WHOLE.fullmatch(text) and int(text) in INT64:
        return int(text)
    raise MarkerError(f"{marker.key}: {text!r} is not a whole number of 64 bits; write a number such as 5")


def _apply_pattern(schema: Schema, marker: Marker) -> None:
    if not marker.value:
        raise MarkerError("pattern is empty; write a regular expression or remove the marker")
    try:
        compile_pattern(marker.value)
    except PatternError as error:
        raise MarkerError(f"pattern {marker.value!r} is not a regular expression of RE2: {error}") from None
    schema["pattern"] = marker.value


def _apply_unique_items(schema: Schema, marker: Marker) -> None:
    if parse_boolean(marker):
        _set_list_type(schema, "set", marker)


def _apply_list_type(schema: Schema, marker: Marker) -> None:
    if marker.value not in ("atomic", "set", "map"):
        raise MarkerError(f"listType={marker.value} is not a list type; write atomic, set or map")
    _set_list_type(schema, marker.value, marker)


def _set_list_type(schema: Schema, value: str, marker: Marker) -> None:
    if schema.get("x-kubernetes-list-type", value) != value:
        raise MarkerError(f"{marker.key} contradicts the other marker: uniqueItems means listType=set; keep one")
    schema["x-kubernetes-list-type"] = value


def _apply_list_map_key(schema: Schema, marker: Marker) -> None:
    if not marker.value:
        raise MarkerError("listMapKey has no value; write the name of a field of the items")
    schema["x-kubernetes-list-map-keys"] = [*schema.get("x-kubernetes-list-map-keys", ()), marker.value]


def _apply_immutable(schema: Schema, marker: Marker) -> None:
    if parse_boolean(marker):
        _add_rule(schema, "self == oldSelf", "field is immutable")


def _apply_validation(schema: Schema, marker: Marker) -> None:
    if not marker.value.strip():
        raise MarkerError('validation is empty; write a CEL rule such as validation="self > 0"')
    try:
        unknown = compile_expression(marker.value).names - {"self", "oldSelf"}
    except ExpressionError as error:
        raise MarkerError(f"the rule {error}") from None
    if unknown:
        raise MarkerError(f"the rule {marker.value!r} reads {min(unknown)!r}; use only self and oldSelf")
    _add_rule(schema, marker.value, "validation failed")


def _add_rule(schema: Schema, rule: str, message: str) -> None:
    rules = schema.get("x-kubernetes-validations", ())
    schema["x-kubernetes-validations"] = [*rules, {"rule": rule, "message": message}]


_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "enum": ("string", "integer"),
    **dict.fromkeys(("minimum", "maximum"), ("integer", "number")),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), ("string",)),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "listType", "listMapKey"), ("array",)),
}

_EFFECTS: Final[dict[str, Callable[[Schema, Marker], None]]] = {
    "default": _apply_default,
    "description": _apply_description,
    "enum": _apply_enum,
    "minimum": _apply_bound,
    "maximum": _apply_bound,
    "minLength": _apply_count,
    "maxLength": _apply_count,
    "pattern": _apply_pattern,
    "minItems": _apply_count,
    "maxItems": _apply_count,
    "uniqueItems": _apply_unique_items,
    "listType": _apply_list_type,
    "listMapKey": _apply_list_map_key,
    "immutable": _apply_immutable,
    "validation": _apply_validation,
}
