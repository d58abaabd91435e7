"""Translation of SimpleSchema to OpenAPI v3, with a report of all mistakes together.

The schema is structural, as Kubernetes requires. The translation sorts `required` lists and expands custom types in
place. Every default fits its own schema.

If an object has no required field and a child with a default, the object gets the default `{}`. Therefore the child's
default applies to instances that leave the object out.

Source: kro `pkg/simpleschema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from renderer.frozen import dataclass
from renderer.phrasing import suggestion
from renderer.schema.cel_rules import find_misplaced_transitions, rule_mistakes
from renderer.schema.constraints import Schema, apply_marker, check_bounds, check_list_type, parse_boolean
from renderer.schema.errors import SchemaErrors, SchemaMistake, child_path
from renderer.schema.markers import MarkerError, parse_markers
from renderer.schema.type_syntax import (
    BUILT_IN,
    TYPE_SYNONYMS,
    AnyObject,
    Atomic,
    CustomTypeSpec,
    ListSpec,
    MapSpec,
    TypeSpec,
    TypeSyntaxError,
    parse_type,
)
from renderer.schema.validation import validate

_T = TypeVar("_T")

MAX_NODES: Final = 10_000
"""Maximum number of nodes of a schema.

The translation expands custom types in place, so a few lines could yield a huge schema.
"""


def to_openapi(spec: Mapping[str, Any], types: Mapping[str, Any] | None = None) -> Schema:
    """Return the OpenAPI v3 schema of an instance's `spec`. Raises: SchemaErrors with all mistakes."""
    builder = _Builder(types or {})
    schema = builder.build(spec)
    if builder.mistakes:
        raise SchemaErrors(_in_file_order(builder.mistakes, {"types": types, "spec": spec}))
    return schema


def _in_file_order(mistakes: list[SchemaMistake], declarations: Mapping[str, Any]) -> list[SchemaMistake]:
    """Return `mistakes` in the order of the declared fields that contain the mistakes."""
    positions = {path: position for position, path in enumerate(_declared_paths(declarations))}

    def find_position(mistake: SchemaMistake) -> int:
        path = mistake.path
        while path not in positions:  # A field of a custom type is not declared at the place of the type's use.
            path = path[: max(path.rfind("."), path.rfind("["))]
        return positions[path]

    return sorted(mistakes, key=find_position)


def _declared_paths(fields: Mapping[str, Any], parent: str = "") -> Iterator[str]:
    for name, field in fields.items():
        path = child_path(parent, name)
        yield path
        if isinstance(field, Mapping):
            yield from _declared_paths(field, path)


@dataclass(frozen=True, slots=True)
class _Field:
    """A built field: its schema, whether its parent requires it, and the number of nodes of the schema."""

    schema: Schema
    required: bool = False
    nodes: int = 1


_BROKEN: Final = _Field({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
"""Placeholder for a field with a recorded mistake, so that the field causes no further mistakes."""


class _Builder:
    def __init__(self, types: Mapping[str, Any]) -> None:
        self.mistakes: list[SchemaMistake] = []
        self._types = types
        self._built: dict[str, _Field] = {}
        self._open_types: list[str] = []

    def build(self, spec: Mapping[str, Any]) -> Schema:
        self._check_mapping(self._types, "types")
        self._check_mapping(spec, "spec")
        if self.mistakes:
            return _BROKEN.schema
        for name in self._types:
            self._check_declared_type(name)
        schema = self._build_struct(spec, "spec").schema
        self.mistakes.extend(find_misplaced_transitions(schema, "spec"))
        return schema

    def _check_mapping(self, fields: Any, path: str) -> None:
        if not isinstance(fields, Mapping):
            self._add_mistake(path, f"{_format_value(fields)} is not a mapping from names to types")

    def _check_declared_type(self, name: str) -> None:
        if name in BUILT_IN:
            self._add_mistake(child_path("types", name), f"{name!r} is a built-in type; choose another name")
        self._build_named_type(name, child_path("types", name))

    def _build_struct(self, fields: Mapping[str, Any], path: str) -> _Field:
        built = {name: self._build_field(spec, child_path(path, name)) for name, spec in fields.items()}
        schema: Schema = {"type": "object", "properties": {name: field.schema for name, field in built.items()}}
        if required := sorted(name for name, field in built.items() if field.required):
            schema["required"] = required
        elif any("default" in field.schema for field in built.values()):
            schema["default"] = {}
        return self._check_size(_Field(schema, nodes=1 + sum(field.nodes for field in built.values())), path)

    def _build_field(self, spec: Any, path: str) -> _Field:
        match spec:
            case str():
                return self._build_text_field(spec, path)
            case Mapping():
                return self._build_struct(spec, path)
            case list():
                message = 'a YAML list is not a type; write a list type in quotes, such as "[]string"'
            case None:
                message = "the type is missing; write a type such as string"
            case _:
                value = _format_value(spec)
                message = f"{value} is not a type; for a default, write a type and a marker: 'integer | default=1'"
        self._add_mistake(path, message)
        return _BROKEN

    def _build_text_field(self, text: str, path: str) -> _Field:
        type_text, pipe, marker_text = text.partition("|")
        spec = self._try(path, parse_type, type_text)
        field = self._build_type(spec, path) if spec else _BROKEN
        return self._apply_markers(field, marker_text, path) if pipe else field

    def _build_type(self, spec: TypeSpec, path: str) -> _Field:
        match spec:
            case Atomic(name):
                return _Field({"type": name})
            case AnyObject():
                return _Field({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
            case ListSpec(item):
                inner = self._build_type(item, path)
                return self._check_size(_Field({"type": "array", "items": inner.schema}, nodes=inner.nodes + 1), path)
            case MapSpec(value):
                inner = self._build_type(value, path)
                schema = {"type": "object", "additionalProperties": inner.schema}
                return self._check_size(_Field(schema, nodes=inner.nodes + 1), path)
            case CustomTypeSpec(name):
                return self._build_named_type(name, path)

    def _build_named_type(self, name: str, path: str) -> _Field:
        if name in self._built:
            return self._built[name]
        if name not in self._types:
            self._add_mistake(path, self._describe_unknown_type(name))
            return _BROKEN
        if name in self._open_types:
            cycle = " -> ".join([*self._open_types[self._open_types.index(name) :], name])
            self._add_mistake(
                child_path("types", name), f"the type contains itself ({cycle}); break the cycle with 'object'"
            )
            return _BROKEN
        self._open_types.append(name)
        field = self._build_field(self._types[name], child_path("types", name))
        self._open_types.pop()
        self._built[name] = field
        return field

    def _describe_unknown_type(self, name: str) -> str:
        known_types = (*BUILT_IN, *self._types)
        if close := suggestion(name, self._types):
            return f"unknown type {name!r}{close}"
        if synonym := TYPE_SYNONYMS.get(name.lower()):
            return f"unknown type {name!r}; did you mean {synonym!r}?"
        return f"unknown type {name!r}{suggestion(name, known_types) or '; choose from ' + ', '.join(known_types)}"

    def _apply_markers(self, field: _Field, text: str, path: str) -> _Field:
        mistakes_before = len(self.mistakes)
        markers = self._try(path, parse_markers, text)
        if field is _BROKEN:
            return field
        schema, required = dict(field.schema), field.required
        for marker in markers or ():
            if marker.key == "required":
                required = self._try(path, parse_boolean, marker) or False
            else:
                self._try(path, apply_marker, schema, marker)
        if len(self.mistakes) == mistakes_before:
            self._check_markers(schema, path)
        if len(self.mistakes) > mistakes_before and schema["type"] == "array":
            return _BROKEN  # because the list type decides whether markers of the items are mistakes
        return _Field(schema, required, field.nodes)

    def _check_markers(self, schema: Schema, path: str) -> None:
        """Check the rules that concern several markers of one field."""
        self._try(path, check_bounds, schema)
        if schema["type"] == "array":
            self._try(path, check_list_type, schema)
        if "default" in schema:
            default = schema["default"]  # the API server validates a default without nested defaults
            for mistake in validate(schema, default) or rule_mistakes(schema, default):
                location = f" at {mistake.path}" if mistake.path else ""
                self._add_mistake(path, f"the default{location} does not fit the field: {mistake.message}")

    def _try(self, path: str, function: Callable[..., _T], *arguments: Any) -> _T | None:
        """Return the result of `function`. If `function` raises a mistake, note the mistake and return None."""
        try:
            return function(*arguments)
        except (MarkerError, TypeSyntaxError) as error:
            self._add_mistake(path, str(error))
            return None

    def _check_size(self, field: _Field, path: str) -> _Field:
        if field.nodes <= MAX_NODES:
            return field
        self._add_mistake(
            path, f"the schema has more than {MAX_NODES:,} nodes after the expansion of custom types; use 'object'"
        )
        return _BROKEN

    def _add_mistake(self, path: str, message: str) -> None:
        self.mistakes.append(SchemaMistake(path, message))


def _format_value(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
