"""What is known of the objects of each kind: Kubernetes' own kinds, those of definitions, and those of CRDs.

A kind that is none of these is not known; expressions may read anything of it.
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

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CONDITION: Final = Record(dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), STRING))


@dataclass(frozen=True, slots=True, eq=False)
class DescribedKind:
    """A kind as one CRD describes it: the types of its objects, and their schemas, by version."""

    crd: Manifest
    schemas: Mapping[str, Schema]
    types: Mapping[str, Type]


@dataclass(frozen=True, slots=True)
class KindSchemas:
    """The kinds that a commit, a folder of schemas or a cluster describes, beside those of Kubernetes."""

    described: Mapping[GroupKind, DescribedKind] = field(default_factory=dict)

    def of(self, kind: GroupKind, version: str) -> Type | None:
        """The type of a kind's objects; None where it is not known."""
        if found := self.described.get(kind):
            return found.types.get(version)
        return _built_in(kind, version)

    def unserved(self, kind: GroupKind, version: str) -> tuple[str, ...]:
        """The versions that there are of a kind that is described, where this is none of them."""
        found = self.described.get(kind)
        return tuple(found.types) if found and version not in found.types else ()

    def beside(self, others: KindSchemas) -> KindSchemas:
        """With those of `others` that are not described here."""
        return KindSchemas({**others.described, **self.described})


def of_crds(crds: Iterable[Manifest], previous: KindSchemas) -> KindSchemas:
    """The kinds of these CRDs; the last that describes a kind stands. A CRD of `previous` is not read again: the same value, or the same object of a
    cluster at the same resourceVersion.
    """
    found: dict[GroupKind, DescribedKind] = {}
    for crd in crds:
        match crd.get("spec"):
            case {"group": str(group), "names": {"kind": str(kind)}, "versions": list(versions)}:
                key = GroupKind(group, kind)
                known = previous.described.get(key)
                found[key] = known if known and _is_same(known.crd, crd) else _described(crd, versions)
    return KindSchemas(found)


def any_object() -> Record:
    """What is known of every object: its identity and metadata. Everything else is open."""
    return Record({"apiVersion": STRING, "kind": STRING, "metadata": metadata()}, open=True)


@cache
def metadata() -> Record:
    found = _built_in_reader().type({"$ref": _META})
    assert isinstance(found, Record)
    return found


def instance_type(spec: Schema, *, namespaced: bool) -> Record:
    """What expressions see as `schema`: an instance without its status."""
    fields = {name: kind for name, kind in metadata().fields.items() if namespaced or name != "namespace"}
    return Record({"apiVersion": STRING, "kind": STRING, "metadata": Record(fields), "spec": from_openapi(spec)})


def with_status(instance: Type, status: Type) -> Record:
    """An instance with a status."""
    assert isinstance(instance, Record)
    return Record({**instance.fields, "status": status})


def with_conditions(instance: Type) -> Record:
    """An instance with the conditions of its status, which only conditions may read."""
    return with_status(instance, Record({"conditions": StaticList(_CONDITION)}))


def _is_same(one: Manifest, other: Manifest) -> bool:
    return one is other or (_stored(one) == _stored(other) != (None, None))


def _stored(crd: Manifest) -> tuple[Any, Any]:
    metadata = crd.get("metadata") or {}
    return metadata.get("uid"), metadata.get("resourceVersion")


def _described(crd: Manifest, versions: Iterable[Any]) -> DescribedKind:
    found: dict[str, Schema] = {}
    for version in versions:
        match version:
            case {"served": False}:
                continue
            case {"name": str(name), "schema": {"openAPIV3Schema": dict(described)}}:
                found[name] = described
            case {"name": str(name)}:
                found[name] = _ANYTHING
    return DescribedKind(crd, found, {name: _of_object(described) for name, described in found.items()})


def _of_object(described: Schema) -> Type:
    """The server adds to a CRD's schema what all objects have."""
    found = from_openapi(described)
    always = any_object()
    return Record({**found.fields, **always.fields}, open=found.open) if isinstance(found, Record) else always


@cache
def _built_in(kind: GroupKind, version: str) -> Type | None:
    found = builtin_kinds.bundle().schema(kind.group, version, kind.kind)
    return _built_in_reader().type(found) if found else None


@cache
def _built_in_reader() -> SchemaTypeReader:
    return SchemaTypeReader(builtin_kinds.bundle().definitions)
