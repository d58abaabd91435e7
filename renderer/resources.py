"""The resources of a definition, compiled: nodes with their templates, conditions and dependencies, in levels.

Names, shapes and fields as kro checks them (its graph validation and builder); all mistakes are noted together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from renderer import graph, keys
from renderer.cel import Program
from renderer.errors import ExpressionError
from renderer.findings import Findings
from renderer.identity import GroupKind, group_kind
from renderer.template import Template, parse_expression

_ID = re.compile(r"[a-z][a-zA-Z0-9]*")
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void while "
    "apiVersion context dependency dependencies each externalRef externalReference externalRefs externalReferences graph instance item items "
    "kind kro metadata object resource resourcegraphdefinition resourceGraphDefinition resources root runtime schema self serviceAccountName "
    "spec status this variables vars version".split()
)
_RESOURCE_FIELDS = frozenset({"id", "template", "externalRef", "readyWhen", "includeWhen", "forEach", "propagateWhen"})
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


def build_nodes(resources: Any, spec: Mapping[str, Any], found: Findings) -> list[Node]:
    """Nodes in order of level, inside a level as declared; `spec` is the OpenAPI schema of the instance's spec. Empty if there are mistakes."""
    return _Resources(spec, found).nodes(resources)


@dataclass(frozen=True)
class _Resources:
    spec: Mapping[str, Any]
    found: Findings

    def nodes(self, resources: Any) -> list[Node]:
        if not isinstance(resources, list):
            self.found.fail("spec.resources", "must be a list of resources, each with an id and a template")
            return []
        ids = self._ids(resources)
        drafts = [
            self._node(index, resource, ids) for index, resource in enumerate(resources) if isinstance(resource, dict)
        ]
        parents = {draft.id: draft.depends_on for draft in drafts if draft}
        if self.found.problems:
            return []
        try:
            levels = graph.levels(parents)
        except graph.CycleError as error:
            self.found.fail(f"spec.resources[{ids.index(error.path[0])}]", str(error))
            return []
        by_id = {draft.id: draft for draft in drafts if draft}
        return [replace(by_id[node], level=level) for level, nodes in enumerate(levels) for node in nodes]

    def _ids(self, resources: list[Any]) -> list[str]:
        ids: list[str] = []
        for index, resource in enumerate(resources):
            path = f"spec.resources[{index}]"
            node_id = resource.get("id") if isinstance(resource, dict) else None
            if not isinstance(resource, dict):
                self.found.fail(path, "must be a mapping with an id and a template")
            elif not isinstance(node_id, str):
                self.found.fail(f"{path}.id", "missing: expressions refer to a resource by its id")
            elif not _ID.fullmatch(node_id):
                self.found.fail(
                    f"{path}.id", f"{node_id!r} must be lowerCamelCase: a small letter, then letters and digits"
                )
            elif node_id in _RESERVED:
                self.found.fail(f"{path}.id", f"{node_id!r} is a reserved word; choose another id")
            elif node_id in ids:
                self.found.fail(f"{path}.id", f"{node_id!r} is used twice; ids are unique inside a definition")
            ids.append(node_id if isinstance(node_id, str) else "")
        return ids

    def _node(self, index: int, resource: dict[str, Any], ids: list[str]) -> Node | None:
        path = f"spec.resources[{index}]"
        self.found.unknown_fields(path, resource, _RESOURCE_FIELDS)
        if "forEach" in resource:
            self.found.fail(f"{path}.forEach", "collections are not supported yet")
        if resource.get("propagateWhen"):
            self.found.fail(f"{path}.propagateWhen", "gates are not supported yet; nothing may be written past one")
        if ("template" in resource) == ("externalRef" in resource):
            self.found.fail(path, "must have exactly one of template and externalRef")
            return None
        field = "template" if "template" in resource else "externalRef"
        body = resource[field]
        if not self._has_shape(f"{path}.{field}", body):
            return None
        node_id = ids[index]
        template = self.found.template(f"{path}.{field}", body)
        include_when = self._conditions(f"{path}.includeWhen", resource.get("includeWhen"))
        ready_when = self._conditions(f"{path}.readyWhen", resource.get("readyWhen"))
        others = frozenset(ids) - {node_id} | {"schema"}
        self.found.names(
            template.expressions if template else (), f"{path}.{field}", others, spec=self.spec, own_id=node_id
        )
        self.found.names(_numbered(include_when), f"{path}.includeWhen", others, spec=self.spec, own_id=node_id)
        self.found.names(_numbered(ready_when), f"{path}.readyWhen", frozenset({node_id, "schema"}), spec=self.spec)
        if template is None:
            return None
        names = template.names.union(*(condition.names for condition in include_when))
        return Node(
            id=node_id,
            group_kind=group_kind(body),
            template=template,
            level=0,
            depends_on=tuple(other for other in ids if other in names and other != node_id),
            include_when=include_when,
            ready_when=ready_when,
            external=field == "externalRef",
            line=self.found.document.line_of(path),
        )

    def _has_shape(self, path: str, body: Any) -> bool:
        if not isinstance(body, dict):
            self.found.fail(path, "must be a Kubernetes object with apiVersion, kind and metadata")
            return False
        for field in ("apiVersion", "kind"):
            value = body.get(field)
            if not isinstance(value, str) or not value:
                self.found.fail(f"{path}.{field}", "missing: must be written out")
            elif "${" in value:
                self.found.fail(f"{path}.{field}", "must be literal; expressions are not allowed here")
        metadata = body.get("metadata")
        if not isinstance(metadata, dict):
            self.found.fail(f"{path}.metadata", "missing: must be a mapping with at least a name")
            return False
        if path.endswith("externalRef") and "selector" in metadata:
            self.found.fail(
                f"{path}.metadata.selector", "references by selector are not supported yet; use metadata.name"
            )
        elif "name" not in metadata:
            self.found.fail(f"{path}.metadata.name", "missing")
        self._check_keys(path, metadata)
        return isinstance(body.get("apiVersion"), str) and isinstance(body.get("kind"), str)

    def _check_keys(self, path: str, metadata: dict[str, Any]) -> None:
        for place in ("labels", "annotations"):
            for key in metadata[place] if isinstance(metadata.get(place), dict) else ():
                if key.startswith(_FORBIDDEN_KEYS) or (
                    key.startswith("levelgate.dev/") and key not in keys.WRITTEN_BY_PEOPLE
                ):
                    self.found.fail(
                        f"{path}.metadata.{place}[{key}]",
                        f"keys of {key.partition('/')[0]}/ may not be set by a template",
                    )

    def _conditions(self, path: str, written: Any) -> tuple[Program, ...]:
        if written is None:
            return ()
        if not isinstance(written, list):
            self.found.fail(path, "must be a list of expressions such as ${schema.spec.enabled}")
            return ()
        programs = []
        for index, text in enumerate(written):
            try:
                programs.append(parse_expression(text) if isinstance(text, str) else _not_an_expression(text))
            except ExpressionError as error:
                self.found.fail(f"{path}[{index}]", str(error))
        return tuple(programs)


def _not_an_expression(value: Any) -> Program:
    raise ExpressionError(str(value), "is not an expression; write it as ${...}")


def _numbered(programs: tuple[Program, ...]) -> Iterator[tuple[str, Program]]:
    return ((f"[{index}]", program) for index, program in enumerate(programs))
