"""Schemas and types of the kinds of objects: built into Kubernetes, defined by definitions, and declared by CRDs.

The fields of any other kind are unknown. Expressions may read any field of objects of an unknown kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from typing import Any, Final

from renderer import builtin_kinds
from renderer.cel.openapi import SchemaTypeReader, from_openapi
from renderer.cel.types import STRING, Record, StaticList, Type
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest

Schema = Mapping[str, Any]

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ANY_OBJECT_SCHEMA: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CONDITION_TYPE: Final = Record(dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), STRING))


@dataclass(frozen=True, slots=True, eq=False)
class DescribedKind:
    """A kind that a CRD describes, with a schema and a type for each version."""

    crd: Manifest
    schemas: Mapping[str, Schema]
    types: Mapping[str, Type]


@dataclass(frozen=True, slots=True)
class KindSchemas:
    """The kinds that a commit, a folder of schemas or a cluster describes, in addition to the built-in kinds."""

    described: Mapping[GroupKind, DescribedKind] = field(default_factory=dict)

    @property
    def crds(self) -> dict[GroupKind, Manifest]:
        return {kind: described_kind.crd for kind, described_kind in self.described.items()}

    def type_of(self, kind: GroupKind, version: str) -> Type | None:
        """Return the type of the objects of a kind, or None if the type is unknown."""
        if described := self.described.get(kind):
            return described.types.get(version)
        return _built_in_type(kind, version)

    def other_versions(self, kind: GroupKind, version: str) -> tuple[str, ...]:
        """Return the versions of `kind` if a CRD describes `kind` without `version`, or else an empty tuple."""
        described = self.described.get(kind)
        return tuple(described.types) if described and version not in described.types else ()

    def with_fallback(self, fallback: KindSchemas) -> KindSchemas:
        """Return a union of these kinds and the kinds that only `fallback` describes."""
        return KindSchemas({**fallback.described, **self.described})


def from_crds(crds: Iterable[Manifest], previous: KindSchemas) -> KindSchemas:
    """Return the kinds that `crds` describe. If several CRDs describe a kind, the last CRD takes precedence.

    The function does not parse a CRD again if `previous` contains the CRD. Two CRDs count as equal if both are one
    Python object, or have the same uid and resourceVersion.
    """
    described_kinds: dict[GroupKind, DescribedKind] = {}
    for crd in crds:
        match crd.get("spec"):
            case {"group": str(group), "names": {"kind": str(kind)}, "versions": list(versions)}:
                key = GroupKind(group, kind)
                previous_kind = previous.described.get(key)
                described_kinds[key] = (
                    previous_kind
                    if previous_kind and _is_same_crd(previous_kind.crd, crd)
                    else _describe_kind(crd, versions)
                )
    return KindSchemas(described_kinds)


def any_object() -> Record:
    """Return the type of an object of an unknown kind, with the fields for identity and metadata."""
    return Record({"apiVersion": STRING, "kind": STRING, "metadata": metadata_type()}, open=True)


@cache
def metadata_type() -> Record:
    """Return the type of an object's `metadata`: ObjectMeta of the built-in kinds."""
    object_meta = _built_in_reader().read_type({"$ref": _OBJECT_META})
    assert isinstance(object_meta, Record)
    return object_meta


def instance_type(spec: Schema, *, namespaced: bool) -> Record:
    """Return the type of the variable `schema`: an instance without its status."""
    fields = {name: kind for name, kind in metadata_type().fields.items() if namespaced or name != "namespace"}
    return Record({"apiVersion": STRING, "kind": STRING, "metadata": Record(fields), "spec": from_openapi(spec)})


def with_status(instance: Type, status: Type) -> Record:
    """Return the type of an instance with a status."""
    assert isinstance(instance, Record)
    return Record({**instance.fields, "status": status})


def with_conditions(instance: Type) -> Record:
    """Return the type of an instance with `status.conditions`, which only custom conditions may read."""
    return with_status(instance, Record({"conditions": StaticList(_CONDITION_TYPE)}))


def _is_same_crd(left: Manifest, right: Manifest) -> bool:
    return left is right or (_stored_version(left) == _stored_version(right) != (None, None))


def _stored_version(crd: Manifest) -> tuple[Any, Any]:
    metadata = crd.get("metadata") or {}
    return metadata.get("uid"), metadata.get("resourceVersion")


def _describe_kind(crd: Manifest, versions: Iterable[Any]) -> DescribedKind:
    schemas: dict[str, Schema] = {}
    for version in versions:
        match version:
            case {"served": False}:
                continue
            case {"name": str(name), "schema": {"openAPIV3Schema": dict(described)}}:
                schemas[name] = described
            case {"name": str(name)}:
                schemas[name] = _ANY_OBJECT_SCHEMA
    return DescribedKind(crd, schemas, {name: _object_type(described) for name, described in schemas.items()})


def _object_type(schema: Schema) -> Type:
    """Return the type of a CRD's objects, with the metadata that the API server adds to every schema."""
    declared = from_openapi(schema)
    common = any_object()
    return Record({**declared.fields, **common.fields}, open=declared.open) if isinstance(declared, Record) else common


@cache
def _built_in_type(kind: GroupKind, version: str) -> Type | None:
    schema = builtin_kinds.load_builtin_schemas().schema(kind.group, version, kind.kind)
    return _built_in_reader().read_type(schema) if schema else None


@cache
def _built_in_reader() -> SchemaTypeReader:
    return SchemaTypeReader(builtin_kinds.load_builtin_schemas().definitions)
