"""An example instance of a definition: what is required, and what has a default. It fits the schema wherever a value can be found that does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from renderer.definition.compile import Definition
from renderer.identity import Manifest
from renderer.schema import apply_defaults, validate
from renderer.schema.validation import Schema

# Tried in order where a pattern or a length asks for more than any text.
_TEXTS: Final = (
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


def example(definition: Definition, *, every: bool = False) -> Manifest:
    """An instance with every required field and every default; with `every`, all other fields too."""
    metadata = {"name": f"my-{definition.group_kind.kind.lower()}"}
    spec = _value(definition.spec_schema, every=every)
    return {
        "apiVersion": definition.api_version,
        "kind": definition.group_kind.kind,
        "metadata": {**metadata, "namespace": "default"} if definition.namespaced else metadata,
        "spec": apply_defaults(definition.spec_schema, spec),
    }


def _value(schema: Schema, *, every: bool) -> Any:
    if "default" in schema and not (every and schema.get("properties")):
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return _object(schema, every=every)
        case "array":
            count = max(schema.get("minItems", 0), int(every))
            return _items(schema["items"], count, every=every)
        case "string":
            return next((text for text in _sized(schema) if not validate(schema, text)), _TEXTS[0])
        case "boolean":
            return False
        case "integer" | "number":
            return _number(schema)
    return {}


def _object(schema: Schema, *, every: bool) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    wanted = [name for name in properties if every or name in schema.get("required", ())]
    found = {name: _value(properties[name], every=every) for name in wanted}
    values = schema.get("additionalProperties")
    return {"key": _value(values, every=every)} if every and isinstance(values, Mapping) else found


def _items(schema: Schema, count: int, *, every: bool) -> list[Any]:
    """Different ones where they can be, since a set takes no two equal items."""
    if "enum" in schema:
        return [schema["enum"][index % len(schema["enum"])] for index in range(count)]
    one = _value(schema, every=every)
    match one:
        case str():
            return [one if index == 0 else f"{one}-{index + 1}" for index in range(count)]
        case bool():
            return [index % 2 == 1 for index in range(count)]
        case int() | float():
            return [one + index for index in range(count)]
        case dict():
            return [
                {
                    key: f"{value}-{index + 1}" if index and isinstance(value, str) else value
                    for key, value in one.items()
                }
                for index in range(count)
            ]
    return [one] * count


def _sized(schema: Schema) -> list[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 1 << 20)
    return [*_TEXTS, *(("x" * least,) if least <= 1000 else ()), *(text[:most] for text in _TEXTS)]


def _number(schema: Schema) -> int | float:
    low, high = schema.get("minimum"), schema.get("maximum")
    value: int | float = low if low is not None else 1
    return high if high is not None and value > high else value
