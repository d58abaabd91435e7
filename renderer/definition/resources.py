"""The resources of a definition, compiled: nodes with their templates, conditions and dependencies, in levels.

Names, shapes and fields as kro checks them (its graph validation and builder); all mistakes are noted together.
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
from renderer.definition.variables import not_a_name
from renderer.frozen import dataclass
from renderer.graph.levels import CycleError, ancestors, levels
from renderer.identity import GroupKind, version_of
from renderer.kinds import SECRET, is_built_in, is_namespaced
from renderer.manifest_hash import without_servers_own
from renderer.schema.validation import shown
from renderer.template.template import Template

_RESOURCE_FIELDS = frozenset({"id", "template", "externalRef", "readyWhen", "includeWhen", "forEach", "propagateWhen"})


@dataclass(frozen=True, slots=True)
class ResourceNode:
    """One resource of a definition. `depends_on` in declared order; `external` nodes are read, never written.

    A node with dimensions is a collection of objects, and so is one that `selects` objects by their labels; others see either as a list.
    `propagate_when` is None where the definition says nothing, and empty where it says that there is no gate.
    """

    id: str
    group_kind: GroupKind
    template: Template
    level: int
    depends_on: tuple[str, ...]
    include_when: tuple[Program, ...]
    ready_when: tuple[Program, ...]
    external: bool
    line: int
    for_each: tuple[Dimension, ...] = ()
    selects: bool = False
    propagate_when: tuple[Gate, ...] | None = None

    @property
    def version(self) -> str:
        """Of its kind."""
        return version_of(self.template.source)

    def type(self, objects: KindSchemas) -> Type | None:
        """The type of its object, or of each of its objects; None where the kind is not known."""
        return objects.of(self.group_kind, self.version)

    @property
    def programs(self) -> Iterator[Program]:
        """All expressions, gates left out."""
        yield from (program for _, program in self.template.expressions)
        yield from self.include_when
        yield from self.ready_when
        yield from (dimension.program for dimension in self.for_each)


def scope_of(nodes: Iterable[ResourceNode], instance: Type, objects: KindSchemas) -> dict[str, Type]:
    """The types of `schema` and of the nodes, by their names in expressions."""
    found: dict[str, Type] = {"schema": instance}
    for node in nodes:
        kind = node.type(objects) or any_object()
        found[node.id] = StaticList(kind) if node.for_each or node.selects else kind
    return found


def build_nodes(resources: Any, found: ProblemCollector, *, namespaced: bool = True) -> list[ResourceNode]:
    """Nodes in order of level, inside a level as declared. Empty if there are mistakes. `namespaced` is the scope of instances."""
    return _Resources(found, namespaced).nodes(resources)


@dataclass(frozen=True)
class _Resources:
    found: ProblemCollector
    namespaced: bool

    def nodes(self, resources: Any) -> list[ResourceNode]:
        if not isinstance(resources, list):
            self.found.fail("spec.resources", "must be a list of resources, each with an id and a template")
            return []
        ids = self._ids(resources)
        drafts = [
            self._node(index, resource, ids) for index, resource in enumerate(resources) if isinstance(resource, dict)
        ]
        built = {draft.id: draft for draft in drafts if draft}
        parents = {draft.id: draft.depends_on for draft in built.values()}
        if len(built) == len(resources):
            gates = [self._gates(index, resources[index], built[name], built) for index, name in enumerate(ids)]
            built = {name: replace(built[name], propagate_when=own) for name, own in zip(ids, gates, strict=True)}
        if self.found.problems:
            return []
        try:
            node_levels = levels(parents)
        except CycleError as error:
            self.found.fail(f"spec.resources[{ids.index(error.path[0])}]", str(error))
            return []
        return [replace(built[node], level=level) for level, nodes in enumerate(node_levels) for node in nodes]

    def _ids(self, resources: list[Any]) -> list[str]:
        ids: list[str] = []
        for index, resource in enumerate(resources):
            path = f"spec.resources[{index}]"
            node_id = resource.get("id") if isinstance(resource, dict) else None
            if not isinstance(resource, dict):
                self.found.fail(path, "must be a mapping with an id and a template")
            elif not isinstance(node_id, str):
                wrong = (
                    "missing"
                    if node_id is None
                    else f"{shown(node_id)} is not text (n, y, no, yes, off and on are read as true or false)"
                )
                self.found.fail(f"{path}.id", f"{wrong}: expressions refer to a resource by its id")
            elif mistake := not_a_name(node_id):
                self.found.fail(f"{path}.id", mistake)
            elif node_id in ids:
                self.found.fail(f"{path}.id", f"{node_id!r} is used twice; ids are unique inside a definition")
            ids.append(node_id if isinstance(node_id, str) else "")
        return ids

    def _node(self, index: int, resource: dict[str, Any], ids: list[str]) -> ResourceNode | None:
        path = f"spec.resources[{index}]"
        self.found.unknown_fields(path, resource, _RESOURCE_FIELDS)
        if ("template" in resource) == ("externalRef" in resource):
            self.found.fail(path, "must have exactly one of template and externalRef")
            return None
        external = "externalRef" in resource
        place = "externalRef" if external else "template"
        body, node_id = resource[place], ids[index]
        kind = (check_reference if external else check_template)(body, f"{path}.{place}", self.found)
        template = self.found.template(f"{path}.{place}", without_servers_own(body) if kind else body)
        selects = external and kind is not None and "selector" in body["metadata"]
        for_each = self._for_each(f"{path}.forEach", resource.get("forEach"), ids, external=external)
        iterators = frozenset(dimension.iterator for dimension in for_each)
        include_when = self._conditions(f"{path}.includeWhen", resource.get("includeWhen"))
        ready_when = self._conditions(f"{path}.readyWhen", resource.get("readyWhen"))

        others = frozenset(ids) - {node_id} | {"schema"}
        self._names(_numbered(include_when), f"{path}.includeWhen", others, node_id)
        own = {"each"} if for_each else {node_id, "each"} if selects else {node_id}
        self._names(_numbered(ready_when), f"{path}.readyWhen", frozenset(own | {"schema"}), "")
        if template is None or kind is None:
            return None
        self._names(template.expressions, f"{path}.{place}", others | iterators, node_id)
        self._check_metadata(template, kind, iterators, f"{path}.{place}")
        read = [template.names - iterators, *(condition.names for condition in include_when)]
        names = frozenset().union(*read, *(dimension.program.names for dimension in for_each))
        return ResourceNode(
            id=node_id,
            group_kind=kind,
            template=template,
            level=0,
            depends_on=tuple(other for other in ids if other in names and other != node_id),
            include_when=include_when,
            ready_when=ready_when,
            external=external,
            line=self.found.document.line_of(path),
            for_each=for_each,
            selects=selects,
        )

    def _gates(
        self, index: int, resource: dict[str, Any], node: ResourceNode, nodes: Mapping[str, ResourceNode]
    ) -> tuple[Gate, ...] | None:
        """The gates of one resource: they read what is there before it, and of a collection its items."""
        path, written = f"spec.resources[{index}].propagateWhen", resource.get("propagateWhen")
        if written and node.external:
            self.found.fail(path, "may not stand beside externalRef: what is only read has nothing to hold back")
            return None
        parents = {name: other.depends_on for name, other in nodes.items()}
        upstream = {name: nodes[name] for name in ancestors(parents, [node.id]) - {node.id}}
        iterators = frozenset(dimension.iterator for dimension in node.for_each)
        own = frozenset({"each", node.id}) if node.for_each else frozenset()
        scope = GateScope(
            items=own - {node.id},
            collection=node.id if node.for_each else "",
            ancestors={name: bool(other.for_each or other.selects) for name, other in upstream.items()},
            values=iterators | {"schema"},
        )
        around = GateInputs(
            scope,
            secrets=frozenset(name for name, other in upstream.items() if other.group_kind == SECRET)
            | (own if node.group_kind == SECRET else frozenset()),
            elsewhere={
                **{name: f"{name} is no resource that this one depends on" for name in nodes},
                node.id: f"{node.id} is this resource itself",
            },
        )
        return compile_gates(written, path, around, self.found)

    def _names(self, expressions: Iterable[tuple[str, Program]], path: str, scope: frozenset[str], own_id: str) -> None:
        self.found.names(expressions, path, scope, own_id=own_id)

    def _for_each(self, path: str, written: Any, ids: list[str], *, external: bool) -> tuple[Dimension, ...]:
        if external and written is not None:
            self.found.fail(path, "may not stand beside externalRef; to read many objects, select them by their labels")
            return ()
        dimensions = compile_dimensions(written, path, ids, self.found)
        iterators = frozenset(dimension.iterator for dimension in dimensions)
        expressions = [(f"[{index}].{one.iterator}", one.program) for index, one in enumerate(dimensions)]
        self._names(expressions, path, frozenset(ids) | {"schema"} | iterators, "")
        return dimensions

    def _check_metadata(self, template: Template, kind: GroupKind, iterators: frozenset[str], path: str) -> None:
        """Rules for what identifies an object: every item needs a name of its own, and every object one of the right scope."""
        metadata = template.source["metadata"]
        namespaced = is_namespaced(kind, {})
        if not namespaced and metadata.get("namespace"):
            self.found.fail(f"{path}.metadata.namespace", f"{kind} objects have no namespace; take it out")
        required = namespaced and not self.namespaced and "selector" not in metadata
        if required and is_built_in(kind) and not metadata.get("namespace"):
            self.found.fail(
                f"{path}.metadata.namespace", "missing: instances have no namespace that the object could go to"
            )
        places = {"metadata.name"} | ({"metadata.namespace"} if namespaced else set())
        identity = [(place, program) for place, program in template.expressions if place in places]
        self.found.no_omit(
            [pair for pair in identity if pair[0] == "metadata.name" or required], path, "it identifies the object"
        )
        used = frozenset().union(*(program.names for _, program in identity))
        for name in sorted(iterators - used):
            where = " or metadata.namespace" if namespaced else ""
            self.found.fail(
                f"{path}.metadata.name", f"must use the iterator {name!r}, here{where}: items need different names"
            )

    def _conditions(self, path: str, written: Any) -> tuple[Program, ...]:
        if written is None:
            return ()
        if not isinstance(written, list):
            self.found.fail(path, "must be a list of expressions such as ${schema.spec.enabled}")
            return ()
        programs = [self.found.expression(f"{path}[{index}]", text) for index, text in enumerate(written)]
        found = tuple(program for program in programs if program)
        self.found.no_omit(_numbered(found), path, "a condition is true or false")
        return found


def _numbered(programs: tuple[Program, ...]) -> Iterator[tuple[str, Program]]:
    return ((f"[{index}]", program) for index, program in enumerate(programs))
