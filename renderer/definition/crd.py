"""The CustomResourceDefinition of a definition. Equal input yields equal JSON.

The CRD has one version, served and stored, with the status subresource. In addition to kro's content, the CRD contains
the ApplySet label, the name of the definition, printer columns, and `status.levelgate`.

Source: kro `pkg/graph/crd`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import CRD
from renderer.schema.manifest_rules import open_object
from renderer.schema.plurals import plural

__all__ = [
    "DEFAULT_PRINTER_COLUMNS",
    "KindIdentity",
    "crd_name",
    "custom_resource_definition",
    "key_of",
    "plural",
    "with_spec_schema",
]


def _column(name: str, path: str, description: str, *, kind: str = "string", priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "description": description, "jsonPath": path}
    return {**column, "priority": priority} if priority else column


def _condition_path(kind: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


DEFAULT_PRINTER_COLUMNS: Final = (
    _column("State", ".status.state", "The state of a ResourceGraphDefinition instance"),
    _column("Ready", _condition_path("Ready", "status"), "Whether a ResourceGraphDefinition instance is ready"),
    _column("Healthy", _condition_path("Healthy", "status"), "Whether all objects of the instance work"),
    _column(
        "Revision",
        ".status.levelgate.applied.revision",
        "The revision of the definition that the instance was last brought to",
        kind="integer",
    ),
    _column(
        "Propagated", _condition_path("Propagated", "reason"), "Whether the instance is as Git has it, or why it is not"
    ),
    _column("Age", ".metadata.creationTimestamp", "Age of the resource", kind="date"),
    _column(
        "Target",
        ".status.levelgate.target.revision",
        "The revision of the definition that the instance is to reach",
        kind="integer",
        priority=1,
    ),
    _column("Commit", ".status.levelgate.target.commit", "The commit that the instance is to reach", priority=1),
    _column("Node", ".status.levelgate.blocked[0].node", "The first resource that waits or failed", priority=1),
    _column("Message", _condition_path("Propagated", "message"), "What the instance waits for, in words", priority=1),
)
"""Columns of `kubectl get` for every kind. Source: kro, for the descriptions of State, Ready and Age."""

_CONDITIONS: Final = {
    "type": "array",
    # A list map, so that server-side apply tracks an owner for each condition.
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["status", "type"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string"},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "lastTransitionTime": {"type": "string"},
            "observedGeneration": {"type": "integer"},
        },
    },
}


_TEXT: Final = {"type": "string"}
_REVISION: Final = open_object(revision={"type": "integer"}, commit=_TEXT)

_LEVELGATE: Final = open_object(
    target=_REVISION,
    applied=_REVISION,
    settled=_REVISION,
    source=_TEXT,
    synced=_TEXT,
    begun=_TEXT,
    rollout=open_object(name=_TEXT, wave=_TEXT),
    nodes={"type": "object", "additionalProperties": {"type": "integer"}},
    asked={"type": "object", "additionalProperties": open_object(said=_TEXT, since=_TEXT)},
    progress=open_object(),
    blocked={
        "type": "array",
        "items": open_object(**dict.fromkeys(("node", "object", "reason", "message", "since", "until"), _TEXT)),
    },
)
"""Schema of `status.levelgate`.

Clients other than Levelgate may have the right to write a status. With this schema, the API server refuses a status
that Levelgate could not read.
"""

_RESERVED_STATUS: Final = {"state": {"type": "string"}, "conditions": _CONDITIONS, "levelgate": _LEVELGATE}


def crd_name(kind: str, group: str) -> str:
    """Return the name of the CRD of a kind, such as `webapps.kro.run`."""
    return f"{plural(kind)}.{group}"


def key_of(kind: GroupKind) -> ObjectKey:
    """Return the key of the CRD of a kind."""
    return ObjectKey(*CRD, "", crd_name(kind.kind, kind.group))


def with_spec_schema(manifest: Manifest, spec: Mapping[str, Any]) -> Manifest:
    """Return the CRD `manifest` with the schema `spec` for the `spec` of instances."""
    version = manifest["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]
    served = {"openAPIV3Schema": {**root, "properties": {**root["properties"], "spec": dict(spec)}}}
    return {**manifest, "spec": {**manifest["spec"], "versions": [{**version, "schema": served}]}}


@dataclass(frozen=True, slots=True)
class KindIdentity:
    """The names, version and scope that a CRD declares for its kind."""

    group_kind: GroupKind
    version: str
    namespaced: bool
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()


def custom_resource_definition(
    kind: KindIdentity,
    spec_schema: Mapping[str, Any],
    *,
    definition: str,
    status_schema: Mapping[str, Any] | None = None,
    printer_columns: Sequence[Mapping[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the complete manifest of the CRD of a kind.

    Args:
        definition: Name of the definition.
        printer_columns: Columns in place of the default columns, or an empty list for the default columns.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": key_of(kind.group_kind).name,
            "labels": {**(labels or {}), well_known.IS_PARENT_TYPE: "true"},
            "annotations": {**(annotations or {}), well_known.DEFINITION: definition},
        },
        "spec": {
            "group": kind.group_kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": _names(kind),
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _root_schema(spec_schema, status_schema)},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [dict(column) for column in printer_columns or DEFAULT_PRINTER_COLUMNS],
                }
            ],
        },
    }


def _names(kind: KindIdentity) -> dict[str, Any]:
    aliases = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    name = kind.group_kind.kind
    return {
        "kind": name,
        "listKind": f"{name}List",
        "plural": plural(name),
        "singular": name.lower(),
        **{name: words for name, words in aliases.items() if words},
    }


def _root_schema(spec: Mapping[str, Any], status: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": dict(spec),
            "status": _status_schema(status or {}),
        },
    }


def _status_schema(inferred: Mapping[str, Any]) -> dict[str, Any]:
    """Return `inferred` with the reserved fields added. A definition cannot override the reserved fields."""
    return {**inferred, "type": "object", "properties": {**inferred.get("properties", {}), **_RESERVED_STATUS}}
