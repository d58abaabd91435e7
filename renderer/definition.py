"""One ResourceGraphDefinition, compiled: schema, nodes in levels, status, CRD.

A definition builds whole or not at all; all its mistakes are reported together, each with the line it stands on (kro: `spec.schema`,
`spec.resources`; naming rules of kro's graph validation).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from renderer import crd, graph, keys, schema
from renderer.cel import Program
from renderer.documents import Document
from renderer.errors import ExpressionError, Problem
from renderer.identity import GroupKind, Manifest
from renderer.model import Origin
from renderer.template import Template, TemplateError, compile_template, parse_expression

_ID = re.compile(r"[a-z][a-zA-Z0-9]*")
_KIND = re.compile(r"[A-Z][a-zA-Z0-9]{0,62}")
_VERSION = re.compile(r"v[0-9]+(alpha[0-9]+|beta[0-9]+)?")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void while "
    "apiVersion context dependency dependencies each externalRef externalReference externalRefs externalReferences graph instance item items "
    "kind kro metadata object resource resourcegraphdefinition resourceGraphDefinition resources root runtime schema self serviceAccountName "
    "spec status this variables vars version".split()
)
_RESOURCE_FIELDS = frozenset({"id", "template", "externalRef", "readyWhen", "includeWhen", "forEach", "propagateWhen"})
_SCHEMA_FIELDS = frozenset(
    "kind apiVersion group scope spec types status additionalPrinterColumns shortNames categories metadata".split()
)
ALLOW_BREAKING = "kro.run/allow-breaking-changes"
_OWN_STATUS = frozenset({"state", "conditions"})
_FORBIDDEN_KEYS = ("kro.run/", "internal.kro.run/", "internal.levelgate.dev/", "applyset.kubernetes.io/")


@dataclass(frozen=True, slots=True)
class Node:
    """One resource of a definition. `depends_on` in declared order; `external` nodes are read, never written."""

    id: str
    group_kind: GroupKind
    template: Template
    level: int
    depends_on: tuple[str, ...]
    include_when: tuple[Program, ...]
    ready_when: tuple[Program, ...]
    external: bool
    line: int


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition that builds. `nodes` in order of level, inside a level as declared; `spec_schema` is OpenAPI v3 of the instance's spec."""

    name: str
    group_kind: GroupKind
    version: str
    namespaced: bool
    origin: Origin
    spec_schema: Mapping[str, Any]
    nodes: tuple[Node, ...]
    status: Template
    crd: Manifest
    allows_breaking_changes: bool

    @property
    def api_version(self) -> str:
        return f"{self.group_kind.group}/{self.version}"


class DefinitionErrors(Exception):
    """A definition does not build. `group_kind` is known where at least that part could be read."""

    def __init__(self, problems: list[Problem], group_kind: GroupKind | None) -> None:
        self.problems = problems
        self.group_kind = group_kind
        super().__init__("\n".join(map(str, problems)))


def build(document: Document) -> Definition:
    """Compile one ResourceGraphDefinition. Raises DefinitionErrors with all mistakes."""
    return _Builder(document).build()


def group_kind_of(document: Document) -> GroupKind | None:
    """Which kind the instances of this definition have; None where it cannot be told."""
    described = (
        (document.value.get("spec") or {}).get("schema") if isinstance(document.value.get("spec"), dict) else None
    )
    if not isinstance(described, dict) or not isinstance(described.get("kind"), str):
        return None
    group = described.get("group", "kro.run")
    return GroupKind(group, described["kind"]) if isinstance(group, str) else None


class _Builder:
    """Collects mistakes while it goes; the result is only given out when there are none."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        spec = document.value.get("spec")
        self.spec: dict[str, Any] = spec if isinstance(spec, dict) else {}
        described = self.spec.get("schema")
        self.schema: dict[str, Any] = described if isinstance(described, dict) else {}

    def fail(self, path: str, message: str) -> None:
        self.problems.append(Problem(self.document.file, self.document.line_of(path), path, message))

    def build(self) -> Definition:
        kind, version, group, namespaced = self._identity()
        openapi = self._spec_schema()
        nodes = self._nodes(openapi)
        status = self._status(nodes, openapi)
        name = self.document.value["metadata"]["name"]
        annotations = self.document.value["metadata"].get("annotations") or {}
        if self.problems:
            raise DefinitionErrors(sorted(self.problems), group_kind_of(self.document))
        return Definition(
            name=name,
            group_kind=GroupKind(group, kind),
            version=version,
            namespaced=namespaced,
            origin=Origin(self.document.file, self.document.line),
            spec_schema=openapi,
            nodes=tuple(nodes),
            status=status,
            crd=self._crd(name, kind, version, group, namespaced, openapi),
            allows_breaking_changes=annotations.get(ALLOW_BREAKING) == "true",
        )

    def _identity(self) -> tuple[str, str, str, bool]:
        if not isinstance(self.spec.get("schema"), dict):
            self.fail("spec.schema", "missing: a definition needs spec.schema with kind, apiVersion and spec")
        for field in sorted(self.schema.keys() - _SCHEMA_FIELDS):
            self.fail(f"spec.schema.{field}", _unknown_field(field, _SCHEMA_FIELDS))
        for field in sorted(self.spec.keys() - {"schema", "resources", "propagateWhen"}):
            self.fail(f"spec.{field}", _unknown_field(field, {"schema", "resources", "propagateWhen"}))
        kind = self._matching("kind", _KIND, "an UpperCamelCase word of at most 63 characters such as WebApp")
        version = self._matching("apiVersion", _VERSION, "a bare version such as v1alpha1, without a group")
        group = self._matching("group", _GROUP, "a lower-case DNS name such as kro.run", default="kro.run")
        scope = self.schema.get("scope", "Namespaced")
        if scope not in {"Namespaced", "Cluster"}:
            self.fail("spec.schema.scope", f"{scope!r} is neither Namespaced nor Cluster")
        return kind, version, group, scope != "Cluster"

    def _matching(self, field: str, pattern: re.Pattern[str], wanted: str, default: str | None = None) -> str:
        value = self.schema.get(field, default)
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        self.fail(f"spec.schema.{field}", f"{'missing' if value is None else repr(value)}: must be {wanted}")
        return ""

    def _spec_schema(self) -> Mapping[str, Any]:
        try:
            return schema.to_openapi(self.schema.get("spec") or {}, self.schema.get("types") or {})
        except schema.SchemaErrors as errors:
            for mistake in errors.mistakes:
                self.fail(f"spec.schema.{mistake.path}", mistake.message)
            return {}

    def _nodes(self, openapi: Mapping[str, Any]) -> list[Node]:
        resources = self.spec.get("resources") or []
        if not isinstance(resources, list):
            self.fail("spec.resources", "must be a list of resources, each with an id and a template")
            return []
        ids = self._ids(resources)
        drafts = [
            self._node(index, resource, ids, openapi)
            for index, resource in enumerate(resources)
            if isinstance(resource, dict)
        ]
        parents = {draft.id: draft.depends_on for draft in drafts if draft}
        if self.problems:
            return []
        try:
            levels = graph.levels(parents)
        except graph.CycleError as error:
            self.fail(f"spec.resources[{ids.index(error.path[0])}]", str(error))
            return []
        by_id = {draft.id: draft for draft in drafts if draft}
        return [replace(by_id[node], level=level) for level, nodes in enumerate(levels) for node in nodes]

    def _ids(self, resources: list[Any]) -> list[str]:
        ids: list[str] = []
        for index, resource in enumerate(resources):
            path = f"spec.resources[{index}]"
            node_id = resource.get("id") if isinstance(resource, dict) else None
            if not isinstance(resource, dict):
                self.fail(path, "must be a mapping with an id and a template")
            elif not isinstance(node_id, str):
                self.fail(f"{path}.id", "missing: expressions refer to a resource by its id")
            elif not _ID.fullmatch(node_id):
                self.fail(f"{path}.id", f"{node_id!r} must be lowerCamelCase: a small letter, then letters and digits")
            elif node_id in _RESERVED:
                self.fail(f"{path}.id", f"{node_id!r} is a reserved word; choose another id")
            elif node_id in ids:
                self.fail(f"{path}.id", f"{node_id!r} is used twice; ids are unique inside a definition")
            ids.append(node_id if isinstance(node_id, str) else "")
        return ids

    def _node(self, index: int, resource: dict[str, Any], ids: list[str], openapi: Mapping[str, Any]) -> Node | None:
        path = f"spec.resources[{index}]"
        for field in sorted(resource.keys() - _RESOURCE_FIELDS):
            self.fail(f"{path}.{field}", _unknown_field(field, _RESOURCE_FIELDS))
        if "forEach" in resource:
            self.fail(f"{path}.forEach", "collections are not supported yet")
        if ("template" in resource) == ("externalRef" in resource):
            self.fail(path, "must have exactly one of template and externalRef")
            return None
        field = "template" if "template" in resource else "externalRef"
        body = resource[field]
        if not self._has_shape(f"{path}.{field}", body):
            return None
        node_id = ids[index]
        template = self._template(f"{path}.{field}", body)
        include_when = self._conditions(f"{path}.includeWhen", resource.get("includeWhen"))
        ready_when = self._conditions(f"{path}.readyWhen", resource.get("readyWhen"))
        others = frozenset(ids) - {node_id}
        self._check_names(
            template.expressions if template else (), f"{path}.{field}", others | {"schema"}, openapi, node_id
        )
        self._check_names(_numbered(include_when), f"{path}.includeWhen", others | {"schema"}, openapi, node_id)
        self._check_names(_numbered(ready_when), f"{path}.readyWhen", frozenset({node_id, "schema"}), openapi, "")
        if template is None:
            return None
        names = template.names.union(*(condition.names for condition in include_when))
        return Node(
            id=node_id,
            group_kind=_group_kind(body),
            template=template,
            level=0,
            depends_on=tuple(other for other in ids if other in names and other != node_id),
            include_when=include_when,
            ready_when=ready_when,
            external=field == "externalRef",
            line=self.document.line_of(path),
        )

    def _has_shape(self, path: str, body: Any) -> bool:
        if not isinstance(body, dict):
            self.fail(path, "must be a Kubernetes object with apiVersion, kind and metadata")
            return False
        for field in ("apiVersion", "kind"):
            value = body.get(field)
            if not isinstance(value, str) or not value:
                self.fail(f"{path}.{field}", "missing: must be written out")
            elif "${" in value:
                self.fail(f"{path}.{field}", "must be literal; expressions are not allowed here")
        metadata = body.get("metadata")
        if not isinstance(metadata, dict):
            self.fail(f"{path}.metadata", "missing: must be a mapping with at least a name")
            return False
        if path.endswith("externalRef") and "selector" in metadata:
            self.fail(f"{path}.metadata.selector", "references by selector are not supported yet; use metadata.name")
        elif "name" not in metadata:
            self.fail(f"{path}.metadata.name", "missing")
        self._check_keys(path, metadata)
        return isinstance(body.get("apiVersion"), str) and isinstance(body.get("kind"), str)

    def _check_keys(self, path: str, metadata: dict[str, Any]) -> None:
        for place in ("labels", "annotations"):
            for key in metadata[place] if isinstance(metadata.get(place), dict) else ():
                if key.startswith(_FORBIDDEN_KEYS) or (
                    key.startswith("levelgate.dev/") and key not in keys.WRITTEN_BY_PEOPLE
                ):
                    self.fail(
                        f"{path}.metadata.{place}[{key}]",
                        f"keys of {key.partition('/')[0]}/ may not be set by a template",
                    )

    def _template(self, path: str, body: Any) -> Template | None:
        try:
            return compile_template(body)
        except TemplateError as errors:
            for error in errors.errors:
                self.fail(_join(path, error.path), str(error.error))
            return None

    def _conditions(self, path: str, written: Any) -> tuple[Program, ...]:
        if written is None:
            return ()
        if not isinstance(written, list):
            self.fail(path, "must be a list of expressions such as ${schema.spec.enabled}")
            return ()
        programs = []
        for index, text in enumerate(written):
            try:
                programs.append(parse_expression(text) if isinstance(text, str) else _not_an_expression(text))
            except ExpressionError as error:
                self.fail(f"{path}[{index}]", str(error))
        return tuple(programs)

    def _check_names(
        self,
        expressions: Iterable[tuple[str, Program]],
        path: str,
        scope: frozenset[str],
        openapi: Mapping[str, Any],
        own_id: str,
    ) -> None:
        for place, program in expressions:
            for name in sorted(program.names - scope):
                self.fail(_join(path, place), f"${{{program.text}}}: {_unknown_name(name, scope, own_id)}")
            for message in _unknown_schema_fields(program, openapi):
                self.fail(_join(path, place), f"${{{program.text}}}: {message}")

    def _status(self, nodes: list[Node], openapi: Mapping[str, Any]) -> Template:
        written = self.schema.get("status") or {}
        path = "spec.schema.status"
        if not isinstance(written, dict):
            self.fail(path, "must be a mapping whose values are expressions")
            return compile_template({})
        if "levelgate" in written:
            self.fail(f"{path}.levelgate", "is reserved for Levelgate's own status; rename the field")
        if "conditions" in written:
            self.fail(f"{path}.conditions", "conditions of your own are not supported yet")
        written = {field: value for field, value in written.items() if field not in _OWN_STATUS}
        template = self._template(path, written)
        if template is None:
            return compile_template({})
        for place in _constants(written, ""):
            self.fail(_join(path, place), "must contain an expression; constants are not allowed in status")
        if nodes or not self.problems:
            self._check_names(
                template.expressions, path, frozenset({node.id for node in nodes} | {"schema"}), openapi, ""
            )
        return template

    def _crd(
        self, name: str, kind: str, version: str, group: str, namespaced: bool, openapi: Mapping[str, Any]
    ) -> Manifest:
        metadata = self.schema.get("metadata") or {}
        return crd.custom_resource_definition(
            group=group,
            version=version,
            kind=kind,
            scope="Namespaced" if namespaced else "Cluster",
            spec_schema=dict(openapi),
            status_schema=_open_schema(self.schema.get("status") or {}),
            short_names=self.schema.get("shortNames") or (),
            categories=self.schema.get("categories") or (),
            printer_columns=self.schema.get("additionalPrinterColumns") or (),
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            definition=name,
        )


def _not_an_expression(value: Any) -> Program:
    raise ExpressionError(str(value), "is not an expression; write it as ${...}")


def _group_kind(body: Mapping[str, Any]) -> GroupKind:
    return GroupKind(body["apiVersion"].rpartition("/")[0], body["kind"])


def _numbered(programs: tuple[Program, ...]) -> Iterator[tuple[str, Program]]:
    return ((f"[{index}]", program) for index, program in enumerate(programs))


def _join(path: str, place: str) -> str:
    return f"{path}{place}" if not place or place.startswith("[") else f"{path}.{place}"


def _unknown_field(field: str, known: Iterable[str]) -> str:
    return f"no such field{_suggest(field, known)}"


def _suggest(word: str, known: Iterable[str]) -> str:
    known = sorted(known)
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}" if known else ""


def _unknown_name(name: str, scope: frozenset[str], own_id: str) -> str:
    if name == own_id:
        return f"{name!r} is this resource itself; self references are only allowed in readyWhen"
    return f"no resource or variable {name!r} in scope{_suggest(name, scope)}"


def _unknown_schema_fields(program: Program, openapi: Mapping[str, Any]) -> Iterator[str]:
    """`schema.spec` paths that the instance's schema does not have (kro checks these with its CEL checker)."""
    for read in program.reads:
        if read[:2] != ("schema", "spec"):
            if len(read) > 1 and read[0] == "schema" and read[1] not in {"apiVersion", "kind", "metadata", "spec"}:
                yield f"no field {read[1]!r} in schema; there are apiVersion, kind, metadata, spec"
            continue
        current: Mapping[str, Any] = openapi
        for depth, field in enumerate(read[2:], start=2):
            properties = current.get("properties")
            if not isinstance(properties, Mapping) or field.startswith("["):
                break
            if field not in properties:
                yield f"no field {field!r} in {'.'.join(read[:depth])}{_suggest(field, properties)}"
                break
            current = properties[field]


def _constants(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _constants(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _constants(item, f"{path}[{index}]")
    elif not (isinstance(value, str) and "${" in value):
        yield path


def _open_schema(status: Any) -> dict[str, Any]:
    """Schema of the author's status: the shape as written, every value open."""
    if isinstance(status, dict):
        return {
            "type": "object",
            "properties": {key: _open_schema(value) for key, value in status.items() if key not in _OWN_STATUS},
        }
    return {"x-kubernetes-preserve-unknown-fields": True}
