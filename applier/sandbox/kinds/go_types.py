"""How the API server holds built-in kinds: structures of Go. They decide what of an object is written, and what its
protobuf means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from renderer.builtin_kinds import BuiltinSchemas
from renderer.builtin_kinds import Structures as Published
from renderer.frozen import dataclass

Schema = Mapping[str, Any]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
FIELDS: Final = f"{_META}FieldsV1"
DELETE_OPTIONS: Final = f"{_META}DeleteOptions"
TIMES: Final = frozenset({f"{_META}Time", f"{_META}MicroTime"})
_VALUES: Final = frozenset({QUANTITY, INT_OR_STRING, RAW, FIELDS, *TIMES})
"""Definitions that stand for a single value."""
_ZERO: Final[Mapping[str, Any]] = {
    QUANTITY: "0",
    INT_OR_STRING: 0,
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
}
"""By type; for others null."""


@dataclass(frozen=True, slots=True)
class GoField:
    """A field of a structure. `name` is empty where its own fields belong to the structure in JSON; `presence` is that of
    `renderer.schemas.Structures`; `default` is a scalar, None if there is none.
    """

    name: str
    number: int
    presence: str
    form: GoType
    default: Any = None


@dataclass(frozen=True)
class GoType:
    """What a value is: a schema, and if that is a definition its name."""

    definition: str
    schema: Schema
    _structures: Structures

    @cached_property
    def parts(self) -> Sequence[GoField]:
        """The fields of a structure as it is held; empty for all else."""
        return self._structures.parts(self.definition, self.schema)

    @cached_property
    def fields(self) -> Mapping[str, GoField]:
        """The fields of a structure in JSON, by name; empty for all else."""
        return {part.name: part for part in self._flat()}

    def _flat(self) -> Iterator[GoField]:
        for part in self.parts:
            if part.name:
                yield part
            else:
                yield from part.form._flat()

    @cached_property
    def given(self) -> Sequence[GoField]:
        """The fields that are written even if they were not given."""
        return [
            part for part in self.fields.values() if part.presence in ("always", "null") or part.default is not None
        ]

    @cached_property
    def zero(self) -> Any:
        """What the server holds, before any default, of one that was not given."""
        if not self.parts:
            return _ZERO.get(self.type)
        given = [part for part in self.given if part.presence in ("always", "null")]
        return {part.name: part.form.zero if part.presence == "always" else None for part in given}

    @cached_property
    def vanishes(self) -> bool:
        """A list or a map: an empty one is no other than none."""
        return self.type == "array" or (self.type == "object" and not self.parts and self.items is not None)

    @cached_property
    def items(self) -> GoType | None:
        """What is in a list or a map; None for what may hold anything."""
        inner = self.schema.get("items") or self.schema.get("additionalProperties")
        return self._structures.form(inner) if isinstance(inner, Mapping) and self.definition not in _VALUES else None

    @cached_property
    def type(self) -> str:
        """The type of its schema, for a definition that stands for a single value that definition."""
        return self.definition if self.definition in _VALUES else self.schema.get("type", "")


class Structures:
    """Of all built-in kinds; each is read when it is first met."""

    def __init__(self, bundle: BuiltinSchemas, published: Published) -> None:
        self._bundle = bundle
        self._published = published
        self._named: dict[str, GoType] = {}

    def kind(self, group: str, version: str, kind: str) -> GoType | None:
        """What a kind's objects are; None if its schema is not published."""
        name = self._bundle.kinds.get(f"{group}/{version}/{kind}")
        return self.definition(name) if name else None

    def form(self, schema: Schema) -> GoType:
        parts: Sequence[Schema] = schema.get("allOf", ())
        reference = schema.get("$ref") or (parts[0].get("$ref") if len(parts) == 1 else "")
        return self.definition(reference.rpartition("/")[2]) if reference else GoType("", schema, self)

    def definition(self, name: str) -> GoType:
        if name not in self._named:
            self._named[name] = GoType(name, self._bundle.definitions.get(name, {}), self)
        return self._named[name]

    def parts(self, definition: str, schema: Schema) -> Sequence[GoField]:
        if definition in _VALUES:
            return ()
        properties = schema.get("properties", {})
        found = []
        for name, number, presence in self._published.get(definition, ()):
            if name in properties:
                field = properties[name]
                found.append(GoField(name, number, presence, self.form(field), _default(field, presence)))
            elif not name and presence in self._published:
                found.append(GoField("", number, "", GoType(presence, schema, self)))
        return found


def _default(schema: Schema, presence: str) -> Any:
    """The published default of a field; the empty ones of fields that are left out when they are empty say nothing."""
    found = schema.get("default")
    return found if presence != "always" and found != {} and (found or presence in ("pointer", "null")) else None
