"""Compilation of the resources of a definition to nodes in levels, with templates, conditions and dependencies.

The rules for names, shapes and fields are those of kro's graph validation and builder. The compiler notes all mistakes,
so that the author sees all mistakes together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from renderer.cel import Program
from renderer.cel.types import StaticList, Type
from renderer.definition.for_each import Dimension, compile_dimensions
from renderer.definition.gate_functions import GateScope
from renderer.definition.gates import Gate, GateInputs, compile_gates
from renderer.definition.kind_schemas import KindSchemas, any_object
from renderer.definition.problem_collector import ProblemCollector
from renderer.definition.resource_rules import check_reference, check_template
from renderer.definition.variables import find_name_mistake
from renderer.frozen import dataclass
from renderer.graph.levels import CycleError, ancestors, compute_levels
from renderer.identity import GroupKind, version_of
from renderer.kinds import SECRET, is_built_in, is_namespaced
from renderer.manifest_hash import strip_nulls, without_server_fields
from renderer.schema.validation import format_value
from renderer.template.template import Template

_RESOURCE_FIELDS = frozenset({"id", "template", "externalRef", "readyWhen", "includeWhen", "forEach", "propagateWhen"})


@dataclass(frozen=True, slots=True)
class ResourceNode:
    """One resource of a definition.

    A node with dimensions is a collection. An external node that selects objects by labels is a collection too. In
    expressions, the value of a collection is a list.
    """

    id: str
    group_kind: GroupKind
    template: Template
    level: int
    depends_on: tuple[str, ...]
    """Ids of the direct dependencies, in declared order."""
    include_when: tuple[Program, ...]
    ready_when: tuple[Program, ...]
    external: bool
    """True if Levelgate reads the objects and never writes them."""
    line: int
    for_each: tuple[Dimension, ...]
    selects: bool
    """True if the resource selects objects by labels."""
    propagate_when: tuple[Gate, ...] | None = None
    """The gates, or None if the resource has no `propagateWhen`. An empty list means that the resource has no gate."""

    @property
    def version(self) -> str:
        """Return the API version of the objects."""
        return version_of(self.template.source)

    def object_type(self, objects: KindSchemas) -> Type | None:
        """Return the type of the object, or of each object of a collection. If the kind is unknown, return None."""
        return objects.type_of(self.group_kind, self.version)

    @property
    def programs(self) -> Iterator[Program]:
        """Return the programs of all expressions except gates."""
        yield from (program for _, program in self.template.expressions)
        yield from self.include_when
        yield from self.ready_when
        yield from (dimension.program for dimension in self.for_each)


def scope_of(nodes: Iterable[ResourceNode], instance: Type, objects: KindSchemas) -> dict[str, Type]:
    """Return the types of `schema` and of the nodes, by their names in expressions."""
    types: dict[str, Type] = {"schema": instance}
    for node in nodes:
        kind = node.object_type(objects) or any_object()
        types[node.id] = StaticList(kind) if node.for_each or node.selects else kind
    return types


def compile_nodes(resources: Any, collector: ProblemCollector, *, namespaced: bool) -> list[ResourceNode]:
    """Return the nodes in order of level. If the resources have mistakes, return an empty list.

    Within a level, nodes keep their declared order.

    Args:
        namespaced: True if instances are namespaced.
    """
    return _NodeCompiler(collector, namespaced).compile_nodes(resources)


@dataclass(frozen=True)
class _NodeCompiler:
    collector: ProblemCollector
    namespaced: bool

    def compile_nodes(self, resources: Any) -> list[ResourceNode]:
        if not isinstance(resources, list):
            self.collector.fail("spec.resources", "must be a list of resources, each with an id and a template")
            return []
        ids = self._read_ids(resources)
        drafts = [
            self._compile_node(index, resource, ids)
            for index, resource in enumerate(resources)
            if isinstance(resource, dict)
        ]
        built = {draft.id: draft for draft in drafts if draft}
        parents = {draft.id: draft.depends_on for draft in built.values()}
        if len(built) == len(resources):
            gates = [self._compile_gates(index, resources[index], built[name], built) for index, name in enumerate(ids)]
            built = {
                name: replace(built[name], propagate_when=node_gates)
                for name, node_gates in zip(ids, gates, strict=True)
            }
        if self.collector.problems:
            return []
        try:
            node_levels = compute_levels(parents)
        except CycleError as error:
            self.collector.fail(f"spec.resources[{ids.index(error.path[0])}]", str(error))
            return []
        return [replace(built[node], level=level) for level, nodes in enumerate(node_levels) for node in nodes]

    def _read_ids(self, resources: list[Any]) -> list[str]:
        ids: list[str] = []
        for index, resource in enumerate(resources):
            path = f"spec.resources[{index}]"
            node_id = resource.get("id") if isinstance(resource, dict) else None
            if not isinstance(resource, dict):
                self.collector.fail(path, "must be a mapping with an id and a template")
            elif not isinstance(node_id, str):
                reason = (
                    "missing"
                    if node_id is None
                    else f"{format_value(node_id)} is not text (YAML reads n, y, no, yes, off and on as true or false)"
                )
                self.collector.fail(
                    f"{path}.id", f"{reason}; write a word such as webapp, by which expressions refer to the resource"
                )
            elif mistake := find_name_mistake(node_id):
                self.collector.fail(f"{path}.id", mistake)
            elif node_id in ids:
                self.collector.fail(f"{path}.id", f"{node_id!r} is the id of two resources; change one of them")
            ids.append(node_id if isinstance(node_id, str) else "")
        return ids

    def _compile_node(self, index: int, resource: dict[str, Any], ids: list[str]) -> ResourceNode | None:
        path = f"spec.resources[{index}]"
        self.collector.check_unknown_fields(path, resource, _RESOURCE_FIELDS)
        external = resource.get("externalRef") is not None
        if external == (resource.get("template") is not None):
            self.collector.fail(path, "must have exactly one of template and externalRef")
            return None
        place = "externalRef" if external else "template"
        body, node_id = strip_nulls(resource[place]) if external else resource[place], ids[index]
        kind = (check_reference if external else check_template)(body, f"{path}.{place}", self.collector)
        template = self.collector.read_template(f"{path}.{place}", without_server_fields(body) if kind else body)
        selects = external and kind is not None and "selector" in body["metadata"]
        for_each = self._compile_for_each(f"{path}.forEach", resource.get("forEach"), ids, external=external)
        iterators = frozenset(dimension.iterator for dimension in for_each)
        include_when = self._compile_conditions(f"{path}.includeWhen", resource.get("includeWhen"))
        ready_when = self._compile_conditions(f"{path}.readyWhen", resource.get("readyWhen"))

        others = frozenset(ids) - {node_id} | {"schema"}
        self.collector.check_names(_with_index_paths(include_when), f"{path}.includeWhen", others, own_id=node_id)
        own_names = {"each"} if for_each else {node_id, "each"} if selects else {node_id}
        self.collector.check_names(
            _with_index_paths(ready_when), f"{path}.readyWhen", frozenset(own_names | {"schema"})
        )
        if template is None or kind is None:
            return None
        self.collector.check_names(template.expressions, f"{path}.{place}", others | iterators, own_id=node_id)
        self._check_metadata(template, kind, iterators, f"{path}.{place}")
        names_read = [template.names - iterators, *(condition.names for condition in include_when)]
        names = frozenset().union(*names_read, *(dimension.program.names for dimension in for_each))
        return ResourceNode(
            id=node_id,
            group_kind=kind,
            template=template,
            level=0,
            depends_on=tuple(other for other in ids if other in names and other != node_id),
            include_when=include_when,
            ready_when=ready_when,
            external=external,
            line=self.collector.document.line_of(path),
            for_each=for_each,
            selects=selects,
        )

    def _compile_gates(
        self, index: int, resource: dict[str, Any], node: ResourceNode, nodes: Mapping[str, ResourceNode]
    ) -> tuple[Gate, ...] | None:
        """Return the compiled gates of one resource, or None if the resource has no `propagateWhen`.

        Gates may read the resource's ancestors and, for a collection, its items.
        """
        path, expressions = f"spec.resources[{index}].propagateWhen", resource.get("propagateWhen")
        if expressions and node.external:
            self.collector.fail(
                path,
                "cannot be combined with externalRef: Levelgate never writes the object; remove the gates",
            )
            return None
        parents = {name: other.depends_on for name, other in nodes.items()}
        upstream = {name: nodes[name] for name in ancestors(parents, [node.id]) - {node.id}}
        iterators = frozenset(dimension.iterator for dimension in node.for_each)
        own_names = frozenset({"each", node.id}) if node.for_each else frozenset()
        scope = GateScope(
            items=own_names - {node.id},
            collection=node.id if node.for_each else "",
            ancestors={name: bool(other.for_each or other.selects) for name, other in upstream.items()},
            values=iterators | {"schema"},
        )
        inputs = GateInputs(
            scope,
            secrets=frozenset(name for name, other in upstream.items() if other.group_kind == SECRET)
            | (own_names if node.group_kind == SECRET else frozenset()),
            unavailable_hints={
                **{name: f"{name} is not a resource that this resource depends on" for name in nodes},
                node.id: f"{node.id} is this resource itself",
            },
        )
        return compile_gates(expressions, path, inputs, self.collector)

    def _compile_for_each(self, path: str, entries: Any, ids: list[str], *, external: bool) -> tuple[Dimension, ...]:
        if external and entries:
            self.collector.fail(
                path, "cannot be combined with externalRef; to read many objects, select the objects by labels"
            )
            return ()
        dimensions = compile_dimensions(entries, path, ids, self.collector)
        iterators = frozenset(dimension.iterator for dimension in dimensions)
        expressions = [(f"[{index}].{current.iterator}", current.program) for index, current in enumerate(dimensions)]
        self.collector.check_names(expressions, path, frozenset(ids) | {"schema"} | iterators)
        return dimensions

    def _check_metadata(self, template: Template, kind: GroupKind, iterators: frozenset[str], path: str) -> None:
        """Note mistakes in names and namespaces.

        Each item of a collection needs its own identity. Objects of a cluster-scoped kind must not have a namespace. If
        instances are cluster-scoped, objects of a namespaced built-in kind must have a namespace.
        """
        metadata = template.source["metadata"]
        namespaced = is_namespaced(kind, {})
        if not namespaced and metadata.get("namespace"):
            self.collector.fail(f"{path}.metadata.namespace", f"{kind} objects have no namespace; remove the namespace")
        required = namespaced and not self.namespaced and "selector" not in metadata
        if required and is_built_in(kind) and not metadata.get("namespace"):
            self.collector.fail(f"{path}.metadata.namespace", "missing; name a namespace, because instances have none")
        places = {"metadata.name"} | ({"metadata.namespace"} if namespaced else set())
        identity = [(place, program) for place, program in template.expressions if place in places]
        self.collector.refuse_omit(
            [pair for pair in identity if pair[0] == "metadata.name" or required],
            path,
            "the field identifies the object",
        )
        used_names = frozenset().union(*(program.names for _, program in identity))
        for name in sorted(iterators - used_names):
            or_namespace = " or metadata.namespace" if namespaced else ""
            self.collector.fail(
                f"{path}.metadata.name",
                f"must use the iterator {name!r} in metadata.name{or_namespace}, because items need different names",
            )

    def _compile_conditions(self, path: str, expressions: Any) -> tuple[Program, ...]:
        if expressions is None:
            return ()
        if not isinstance(expressions, list):
            self.collector.fail(path, "must be a list of expressions such as ${schema.spec.enabled}")
            return ()
        programs = [self.collector.read_expression(f"{path}[{index}]", text) for index, text in enumerate(expressions)]
        valid_programs = tuple(program for program in programs if program)
        self.collector.refuse_omit(_with_index_paths(valid_programs), path, "a condition is true or false")
        return valid_programs


def _with_index_paths(programs: tuple[Program, ...]) -> Iterator[tuple[str, Program]]:
    return ((f"[{index}]", program) for index, program in enumerate(programs))
