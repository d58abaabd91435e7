"""Compilation of a ResourceGraphDefinition to its schema, nodes in levels, status and CRD.

A definition compiles completely or not at all. The compiler reports all mistakes together, each with its line. The
naming rules are those of kro's graph validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from operator import itemgetter
from typing import Any

from renderer import schema, well_known
from renderer.cel import Program
from renderer.definition import crd
from renderer.definition.crd import KindIdentity
from renderer.definition.custom_conditions import ConditionExpression
from renderer.definition.gate_functions import GateScope
from renderer.definition.gates import Gate, GateInputs, compile_gates
from renderer.definition.kind_schemas import instance_type
from renderer.definition.problem_collector import ProblemCollector
from renderer.definition.resource_rules import check_keys
from renderer.definition.resources import ResourceNode, compile_nodes
from renderer.definition.status_fields import compile_status
from renderer.documents import Document
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, digest
from renderer.kinds import CRD
from renderer.manifest_hash import strip_nulls
from renderer.schema import manifest_rules
from renderer.template.template import Template
from renderer.template.typed_views import View

_KIND = re.compile(r"[A-Z][a-zA-Z0-9]{0,62}")
_VERSION = re.compile(r"v[0-9]+(alpha[0-9]+|beta[0-9]+)?")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
_SCHEMA_SHAPE = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("kind", "apiVersion", "group", "spec", "types", "status"), _OPEN),
        "scope": {"type": "string", "enum": ["Namespaced", "Cluster"]},
        "shortNames": manifest_rules.ALIASES_SCHEMA,
        "categories": manifest_rules.ALIASES_SCHEMA,
        "metadata": manifest_rules.METADATA_SCHEMA,
        "additionalPrinterColumns": manifest_rules.COLUMNS_SCHEMA,
    },
}
"""Schema of `spec.schema`. The compilation of each open field checks the content of the field."""

_FREE_FIELDS = frozenset({"spec", "types", "status"})
_SCHEMA_DEFAULTS = {"group": "kro.run", "scope": "Namespaced"}
_UNORDERED_FIELDS = frozenset({"readyWhen", "includeWhen", "shortNames", "categories"})
_SPEC_FIELDS = frozenset({"schema", "resources", "propagateWhen"})


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """The compiled form of a definition that has no mistakes."""

    name: str
    group_kind: GroupKind
    version: str
    namespaced: bool
    origin: SourceLocation
    spec_schema: Mapping[str, Any]
    """OpenAPI v3 schema of an instance's `spec`."""
    nodes: tuple[ResourceNode, ...]
    """The nodes in order of level. Within a level, nodes keep their declared order."""
    status: Template
    conditions: tuple[ConditionExpression, ...]
    crd: Manifest
    allows_breaking_changes: bool
    manifest: Manifest
    """The form of the definition that revisions store."""
    digest: str
    """Digest of the content. If only the name or the notation of the definition changes, the digest stays equal."""
    document: Document = field(repr=False)
    """The document in Git, as the source of line numbers."""
    propagate_when: tuple[Gate, ...] | None
    """The gates across instances.

    If the definition does not contain the field, the value is None. An empty list means that the definition has no
    gate.
    """
    views: Mapping[str, View] = field(default_factory=dict)
    """The conversion of JSON to the values that expressions read, by variable (`schema` or the id of a node).

    The type check sets the conversions, and leaves out variables that need no conversion.
    """

    @property
    def api_version(self) -> str:
        return f"{self.group_kind.group}/{self.version}"

    @property
    def resources(self) -> dict[str, ResourceNode]:
        """Return the nodes by id."""
        return {node.id: node for node in self.nodes}

    @property
    def declared_crds(self) -> list[Manifest]:
        """Return the CRDs among the resources. The kind that a CRD defines does not depend on an instance."""
        return [node.template.source for node in self.nodes if node.group_kind == CRD and not node.external]

    @property
    def status_fields(self) -> frozenset[str]:
        """Return the fields that the status of an instance can contain."""
        served = self.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return frozenset(served["properties"]["status"]["properties"])

    @property
    def programs(self) -> Iterator[Program]:
        """Return the programs of all expressions except gates."""
        yield from (program for _, program in self.status.expressions)
        yield from (entry.program for entry in self.conditions)
        for node in self.nodes:
            yield from node.programs

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Return all gates: the gates across instances, and the gates of nodes."""
        return (*(self.propagate_when or ()), *(gate for node in self.nodes for gate in node.propagate_when or ()))


class DefinitionErrors(Exception):
    """All mistakes of one definition.

    Attributes:
        group_kind: Kind of the definition, or None if the kind is unreadable.
    """

    def __init__(self, problems: list[Problem], group_kind: GroupKind | None) -> None:
        self.problems = problems
        self.group_kind = group_kind
        super().__init__("\n".join(map(str, problems)))


def compile_definition(document: Document) -> Definition:
    """Return the compiled form of a ResourceGraphDefinition. Raises: DefinitionErrors with all mistakes."""
    return _DefinitionCompiler(document).compile_definition()


def group_kind_of(document: Document) -> GroupKind | None:
    """Return the kind that a definition defines, or None if the kind is unreadable."""
    schema_fields = (
        (document.value.get("spec") or {}).get("schema") if isinstance(document.value.get("spec"), dict) else None
    )
    if not isinstance(schema_fields, dict) or not isinstance(schema_fields.get("kind"), str):
        return None
    group = schema_fields.get("group", "kro.run")
    return GroupKind(group, schema_fields["kind"]) if isinstance(group, str) else None


def _normalize_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Return one form for all specs with the same meaning (kro: hash of a GraphRevision).

    The order of resources, conditions, short names and categories has no meaning. An empty field means the same as an
    absent field, except in `propagateWhen`, where an empty list excludes all gates.
    """
    return {
        "schema": {**_SCHEMA_DEFAULTS, **_without_empty(spec["schema"])},
        "resources": sorted(map(_without_empty, spec.get("resources") or ()), key=itemgetter("id")),
        "propagateWhen": spec.get("propagateWhen"),
    }


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in fields.items() if value or (name == "propagateWhen" and value is not None)}
    return {name: sorted(value) if name in _UNORDERED_FIELDS else value for name, value in given.items()}


def _without_nulls(schema_fields: dict[str, Any]) -> dict[str, Any]:
    """Return `spec.schema` without null fields, because the API server prunes null fields from a CRD.

    The fields `spec`, `types` and `status` stay unchanged, because the CRD contains only their compiled form.
    """
    return {
        name: value if name in _FREE_FIELDS else strip_nulls(value)
        for name, value in schema_fields.items()
        if value is not None
    }


class _DefinitionCompiler:
    """Compiler of one definition.

    The compiler collects all mistakes, and returns a definition only if the definition has no mistakes.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.collector = ProblemCollector(document)
        spec = document.value.get("spec")
        self.spec: dict[str, Any] = spec if isinstance(spec, dict) else {}
        schema_fields = self.spec.get("schema")
        self.schema = _without_nulls(schema_fields) if isinstance(schema_fields, dict) else {}

    def compile_definition(self) -> Definition:
        kind = self._read_identity()
        openapi = self._compile_spec_schema()
        nodes = compile_nodes(self.spec.get("resources") or [], self.collector, namespaced=kind.namespaced)
        gates = self._compile_gates(kind.group_kind.kind)
        instance = instance_type(openapi, namespaced=kind.namespaced)
        status = compile_status(self.schema.get("status"), nodes, instance, self.collector)
        name = self.document.value["metadata"]["name"]
        annotations = self.document.value["metadata"].get("annotations") or {}
        if self.collector.problems:
            raise DefinitionErrors(sorted(self.collector.problems), group_kind_of(self.document))
        return Definition(
            name=name,
            group_kind=kind.group_kind,
            version=kind.version,
            namespaced=kind.namespaced,
            origin=SourceLocation(self.document.file, self.document.line),
            spec_schema=openapi,
            nodes=tuple(nodes),
            status=status.template,
            conditions=status.conditions,
            crd=self._build_crd(name, kind, openapi, status.schema),
            propagate_when=gates,
            allows_breaking_changes=annotations.get(well_known.ALLOW_BREAKING) == "true",
            manifest={
                "apiVersion": self.document.value["apiVersion"],
                "kind": self.document.value["kind"],
                "metadata": {"name": name},
                "spec": self.spec,
            },
            digest=digest(_normalize_spec(self.spec)),
            document=self.document,
        )

    def _read_identity(self) -> KindIdentity:
        if not isinstance(self.spec.get("schema"), dict):
            self.collector.fail("spec.schema", "missing: a definition needs spec.schema with kind, apiVersion and spec")
        for mistake in schema.validate(_SCHEMA_SHAPE, self.schema):
            self.collector.fail(f"spec.schema.{mistake.path}" if mistake.path else "spec.schema", mistake.message)
        if isinstance(metadata := self.schema.get("metadata"), dict):
            check_keys(metadata, "spec.schema", self.collector)
        self.collector.check_unknown_fields("spec", self.spec, _SPEC_FIELDS)
        kind = self._read_matching("kind", _KIND, "an UpperCamelCase word of at most 63 characters such as WebApp")
        version = self._read_matching("apiVersion", _VERSION, "a bare version such as v1alpha1, without a group")
        group = self._read_matching("group", _GROUP, "a lower-case DNS name such as kro.run", default="kro.run")
        return KindIdentity(
            GroupKind(group, kind),
            version,
            namespaced=self.schema.get("scope") != "Cluster",
            short_names=self.schema.get("shortNames") or (),
            categories=self.schema.get("categories") or (),
        )

    def _compile_gates(self, kind: str) -> tuple[Gate, ...] | None:
        """Return the compiled gates across instances, or None if the definition does not contain the field.

        In a gate across instances, the kind in lower case is the variable of an instance, and the plural is the
        variable of all instances.
        """
        collection = crd.plural(kind) if kind else ""
        items = {"each", kind.lower()} - {"", collection, "schema", "now", "target"}
        inputs = GateInputs(GateScope(items=frozenset(items), collection=collection, values=frozenset({"schema"})))
        return compile_gates(self.spec.get("propagateWhen"), "spec.propagateWhen", inputs, self.collector)

    def _read_matching(self, field: str, pattern: re.Pattern[str], expectation: str, default: str | None = None) -> str:
        value = self.schema.get(field, default)
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        self.collector.fail(
            f"spec.schema.{field}", f"{'missing' if value is None else repr(value)}: must be {expectation}"
        )
        return ""

    def _compile_spec_schema(self) -> Mapping[str, Any]:
        try:
            return schema.to_openapi(self.schema.get("spec") or {}, self.schema.get("types") or {})
        except schema.SchemaErrors as errors:
            for mistake in errors.mistakes:
                self.collector.fail(f"spec.schema.{mistake.path}", mistake.message)
            return {}

    def _inherited_annotations(self) -> dict[str, str]:
        """Return the annotations that the CRD inherits from the definition.

        The inherited annotations are deletion protection and the directives for all instances.
        """
        annotations = self.document.value["metadata"].get("annotations") or {}
        return {key: annotations[key] for key in well_known.INHERITED_BY_CRDS if isinstance(annotations.get(key), str)}

    def _build_crd(
        self, name: str, kind: KindIdentity, openapi: Mapping[str, Any], status_schema: Mapping[str, Any]
    ) -> Manifest:
        metadata = self.schema.get("metadata") or {}
        return crd.custom_resource_definition(
            kind,
            openapi,
            definition=name,
            status_schema=status_schema,
            printer_columns=self.schema.get("additionalPrinterColumns") or (),
            labels=metadata.get("labels") or {},
            annotations={**(metadata.get("annotations") or {}), **self._inherited_annotations()},
        )
