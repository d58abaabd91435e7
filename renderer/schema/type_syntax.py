"""The type of a SimpleSchema field: `[]map[string]Person`.

Grammar: atomic | `object` | `[]` type | `map[string]` type | name of a custom type. A type has at most 16 prefixes `[]`
and `map[string]`, counted together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from renderer.frozen import dataclass

MAX_NESTING: Final = 16

ATOMIC_TYPES: Final = {"string": "string", "integer": "integer", "boolean": "boolean", "float": "number"}
"""The name in OpenAPI of each scalar type, by its name in SimpleSchema."""

BUILT_IN: Final = (*ATOMIC_TYPES, "object")

# Names of types in Go, JSON Schema, Python and Terraform, for hints.
TYPE_SYNONYMS: Final = {
    **dict.fromkeys(("int", "int32", "int64", "long", "uint"), "integer"),
    **dict.fromkeys(("number", "double", "float32", "float64", "decimal"), "float"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("str", "text", "quantity"), "string"),
    **dict.fromkeys(("any", "json", "dict", "struct", "map"), "object"),
    **dict.fromkeys(("array", "list", "slice"), "[]string"),
}


@dataclass(frozen=True, slots=True)
class Atomic:
    """A scalar type."""

    name: str
    """Name of the type in OpenAPI."""


@dataclass(frozen=True, slots=True)
class AnyObject:
    """The type `object`, which accepts any fields."""


@dataclass(frozen=True, slots=True)
class ListSpec:
    """A list of items of one type, written `[]T`."""

    item: TypeSpec


@dataclass(frozen=True, slots=True)
class MapSpec:
    """A map with text keys and values of one type, written `map[string]T`."""

    value: TypeSpec


@dataclass(frozen=True, slots=True)
class CustomTypeSpec:
    """A reference to a custom type, which need not exist."""

    name: str


TypeSpec = Atomic | AnyObject | ListSpec | MapSpec | CustomTypeSpec


class TypeSyntaxError(ValueError):
    """A text that does not follow the grammar of types. The message contains the remedy."""


def parse_type(text: str) -> TypeSpec:
    """Return the type that `text` names.

    The function does not look up custom types.

    Args:
        text: The part of a field before the first `|`.

    Raises: TypeSyntaxError if `text` is not a type.
    """
    wrappers = list[type[ListSpec] | type[MapSpec]]()
    innermost = text.strip()
    for wrapper, inner_text in _unwrap(innermost):
        wrappers.append(wrapper)
        innermost = inner_text
        if len(wrappers) > MAX_NESTING:
            raise TypeSyntaxError(
                f"the type is nested deeper than {MAX_NESTING} levels; write 'object' for an inner type"
            )
    spec = _parse_innermost(innermost, text)
    for wrapper in reversed(wrappers):
        spec = wrapper(spec)
    return spec


def _unwrap(text: str) -> Iterator[tuple[type[ListSpec] | type[MapSpec], str]]:
    while True:
        if text.startswith("[]"):
            text = text[2:].strip()
            yield ListSpec, text
        elif text.startswith("map["):
            key, bracket, rest = text[4:].partition("]")
            if not bracket:
                raise TypeSyntaxError(f"the bracket of {text!r} is not closed; write a type such as map[string]integer")
            if key.strip() != "string":
                raise TypeSyntaxError(f"keys of a map are text; write map[string]{rest}, not map[{key}]{rest}")
            text = rest.strip()
            yield MapSpec, text
        else:
            return


def _parse_innermost(name: str, text: str) -> TypeSpec:
    if not name:
        raise TypeSyntaxError(
            "the type is missing; write a type such as string"
            if not text.strip()
            else f"{text.strip()!r} lacks the type of its items; add a type such as string"
        )
    if name in ATOMIC_TYPES:
        return Atomic(ATOMIC_TYPES[name])
    if name == "object":
        return AnyObject()
    if any(character.isspace() or character in "[]{}=\"'," for character in name):
        raise TypeSyntaxError(f"{name!r} is not a type; markers follow after '|', as in 'string | default=x'")
    return CustomTypeSpec(name)
