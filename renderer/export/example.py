"""An example instance of a definition with its required fields and defaults.

The example fits the schema, except for fields for which the module finds no fitting value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from renderer.definition.compile import Definition
from renderer.identity import Manifest
from renderer.schema import apply_defaults, validate
from renderer.schema.validation import Schema

# Example texts, tried in order until a text fits the pattern and the length that a schema requires.
_EXAMPLE_TEXTS: Final = (
    "example",
    "a",
    "1",
    "example-1",
    "Example",
    "EXAMPLE",
    "example.com",
    "ada@example.com",
    "https://example.com",
    "10.0.0.0/16",
    "10.0.0.1",
    "1.0.0",
    "v1.0.0",
    "1Gi",
    "100m",
    "30s",
    "us-east-1",
    "2026-01-01",
    "12:00",
)


def build_example(definition: Definition, *, all_fields: bool = False) -> Manifest:
    """Return an instance with every required field and every default.

    Args:
        all_fields: True to include every field.
    """
    metadata = {"name": f"my-{definition.group_kind.kind.lower()}"}
    spec = _example_value(definition.spec_schema, all_fields=all_fields)
    return {
        "apiVersion": definition.api_version,
        "kind": definition.group_kind.kind,
        "metadata": {**metadata, "namespace": "default"} if definition.namespaced else metadata,
        "spec": apply_defaults(definition.spec_schema, spec),
    }


def _example_value(schema: Schema, *, all_fields: bool) -> Any:
    if "default" in schema and not (all_fields and schema.get("properties")):
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return _example_object(schema, all_fields=all_fields)
        case "array":
            count = max(schema.get("minItems", 0), int(all_fields))
            return _example_items(schema["items"], count, all_fields=all_fields)
        case "string":
            return next((text for text in _sized_texts(schema) if not validate(schema, text)), _EXAMPLE_TEXTS[0])
        case "boolean":
            return False
        case "integer" | "number":
            return _example_number(schema)
    return {}


def _example_object(schema: Schema, *, all_fields: bool) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    included = [name for name in properties if all_fields or name in schema.get("required", ())]
    fields = {name: _example_value(properties[name], all_fields=all_fields) for name in included}
    values = schema.get("additionalProperties")
    return (
        {"key": _example_value(values, all_fields=all_fields)} if all_fields and isinstance(values, Mapping) else fields
    )


def _example_items(schema: Schema, count: int, *, all_fields: bool) -> list[Any]:
    """Return `count` items. If possible, the items differ, because a set accepts no equal items."""
    if "enum" in schema:
        return [schema["enum"][index % len(schema["enum"])] for index in range(count)]
    item = _example_value(schema, all_fields=all_fields)
    match item:
        case str():
            return [item if index == 0 else f"{item}-{index + 1}" for index in range(count)]
        case bool():
            return [index % 2 == 1 for index in range(count)]
        case int() | float():
            return [item + index for index in range(count)]
        case dict():
            return [
                {
                    key: f"{value}-{index + 1}" if index and isinstance(value, str) else value
                    for key, value in item.items()
                }
                for index in range(count)
            ]
    return [item] * count


def _sized_texts(schema: Schema) -> list[str]:
    min_length, max_length = schema.get("minLength", 0), schema.get("maxLength", 1 << 20)
    return [
        *_EXAMPLE_TEXTS,
        *(("x" * min_length,) if min_length <= 1000 else ()),
        *(text[:max_length] for text in _EXAMPLE_TEXTS),
    ]


def _example_number(schema: Schema) -> int | float:
    low, high = schema.get("minimum"), schema.get("maximum")
    value: int | float = low if low is not None else 1
    return high if high is not None and value > high else value
