"""Static type check of a definition (kro documentation, "Static type checking").

The check compares expressions with the types of their variables, and templates with the types of their objects. The
compilation of the definition has checked the names. An unknown type is never a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from renderer.cel import Program
from renderer.cel.type_check import Scope, TypeCheckResult, check, check_program
from renderer.cel.types import BOOL, DYN, STRING, Record, StaticList, StaticMap, Type, element_of
from renderer.definition import kind_schemas
from renderer.definition.compile import Definition
from renderer.definition.gates import LIFECYCLE_TYPES, VARIABLE_TYPES, Gate
from renderer.definition.kind_schemas import DescribedKind, KindSchemas
from renderer.definition.problem_collector import ProblemCollector, join_path
from renderer.definition.resources import ResourceNode, scope_of
from renderer.definition.template_types import describe_misfit, find_misfits
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.template.typed_views import FieldPath, holds_bytes, views_of

_SELECTOR: Final = Record(
    {
        "matchLabels": StaticMap(STRING, STRING),
        "matchExpressions": StaticList(Record({"key": STRING, "operator": STRING, "values": StaticList(STRING)})),
    }
)
_REFERENCE: Final = Record(
    {
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": Record({"name": STRING, "namespace": STRING, "selector": _SELECTOR}),
    }
)
_STATUS: Final = "spec.schema.status"


@dataclass(frozen=True, slots=True)
class CheckedDefinition:
    """A definition with the views of its variables set, and its type mistakes in the order of the file."""

    definition: Definition
    problems: tuple[Problem, ...]


def check_definition(definition: Definition, objects: KindSchemas) -> CheckedDefinition:
    """Check a definition against the known schemas of the kinds that the definition uses, and return the result."""
    return _check_cached(definition, tuple(objects.described.get(node.group_kind) for node in definition.nodes))


@lru_cache(maxsize=1024)
def _check_cached(definition: Definition, described_kinds: tuple[DescribedKind | None, ...]) -> CheckedDefinition:
    """Return the checked definition.

    The function caches the result by identity, because unchanged files yield the same `Definition` objects.
    """
    kinds = (node.group_kind for node in definition.nodes)
    checker = _StaticChecker(
        definition,
        KindSchemas({kind: described for kind, described in zip(kinds, described_kinds, strict=True) if described}),
    )
    return CheckedDefinition(checker.check_definition(), tuple(sorted(set(checker.collector.problems))))


def find_unknown_nodes(definition: Definition, objects: KindSchemas) -> Iterator[ResourceNode]:
    """Yield each node whose kind is unknown, if an expression reads a field of the node other than `metadata`."""
    reads = {read for program in definition.programs for read in program.reads}
    for node in definition.nodes:
        paths_read = {read[1:] for read in reads if read[0] == node.id}
        paths_read |= {read[1:] for program in node.ready_when for read in program.reads if read[0] == "each"}
        if node.object_type(objects) is None and any(path[:1] not in ((), ("metadata",)) for path in paths_read):
            yield node


class _StaticChecker:
    def __init__(self, definition: Definition, objects: KindSchemas) -> None:
        self.definition = definition
        self.objects = objects
        self.collector = ProblemCollector(definition.document)
        instance = kind_schemas.instance_type(definition.spec_schema, namespaced=definition.namespaced)
        self.scope = scope_of(definition.nodes, instance, objects)

    def check_definition(self) -> Definition:
        """Return the definition with the views of its variables set.

        The templates of the result write bytes as base64 into fields of the format `byte`.
        """
        resources = self.definition.manifest["spec"].get("resources") or ()
        index = {resource["id"]: number for number, resource in enumerate(resources)}
        nodes = tuple(self._check_node(node, f"spec.resources[{index[node.id]}]") for node in self.definition.nodes)
        item = kind_schemas.with_status(self.scope["schema"], DYN)
        gates = self._check_gates(self.definition.propagate_when, item, self.scope)
        self._check_template(self.definition.status.source, DYN, _STATUS, self.scope)
        scope = {**self.scope, "schema": kind_schemas.with_conditions(self.scope["schema"])}
        for number, entry in enumerate(self.definition.conditions):
            self._infer_type(entry.program.text, f"{_STATUS}.conditions[{number}]", scope)
        return replace(
            self.definition, nodes=nodes, propagate_when=gates, views=views_of(self.scope, self._paths_read())
        )

    def _paths_read(self) -> Iterator[FieldPath]:
        for program in self.definition.programs:
            yield from program.reads
        for node in self.definition.nodes:
            each_reads = (read for program in node.ready_when for read in program.reads)
            yield from ((node.id, *read) for read in each_reads if read[0] == "each")

    def _check_node(self, node: ResourceNode, path: str) -> ResourceNode:
        place = f"{path}.externalRef" if node.external else f"{path}.template"
        if versions := self.objects.other_versions(node.group_kind, node.version):
            version_list = ", ".join(versions)
            self.collector.fail(
                f"{place}.apiVersion", f"{node.group_kind} has no version {node.version}; choose from {version_list}"
            )
        iterators: dict[str, Type] = {}
        for number, dimension in enumerate(node.for_each):
            values = self._expect_type(
                dimension.program, StaticList(DYN), f"{path}.forEach[{number}].{dimension.iterator}", self.scope
            )
            iterators[dimension.iterator] = element_of(values)
        each = {"each": element_of(self.scope[node.id])} if node.for_each or node.selects else {}
        for number, program in enumerate(node.include_when):
            self._expect_type(program, BOOL, f"{path}.includeWhen[{number}]", self.scope)
        for number, program in enumerate(node.ready_when):
            self._expect_type(program, BOOL, f"{path}.readyWhen[{number}]", {**self.scope, **each})
        gates = self._check_gates(node.propagate_when, each.get("each", DYN), {**self.scope, **iterators})
        expected = _REFERENCE if node.external else node.object_type(self.objects) or kind_schemas.any_object()
        self._check_template(node.template.source, expected, place, {**self.scope, **iterators})
        return replace(
            node, propagate_when=gates, template=node.template.with_encoding(lambda place: holds_bytes(expected, place))
        )

    def _check_gates(self, gates: Iterable[Gate] | None, item: Type, scope: Scope) -> tuple[Gate, ...] | None:
        """Return the gates with their views set, or None if `gates` is None. Note all mistakes.

        In gates, objects also have lifecycle fields.

        Args:
            item: Type of the object that the gates hold.
        """
        if gates is None:
            return None
        checked_gates = []
        for gate in gates:
            item_types = {**dict.fromkeys(gate.scope.items, item), gate.scope.collection: StaticList(item)}
            lifecycle_types = {
                name: _with_lifecycle(kind) for name, kind in {**scope, **item_types}.items() if name != "schema"
            }
            self._expect_type(gate.program, BOOL, gate.path, {**scope, **lifecycle_types, **VARIABLE_TYPES})
            checked_gates.append(replace(gate, views=views_of({**scope, **lifecycle_types}, gate.program.reads)))
        return tuple(checked_gates)

    def _check_template(self, source: Any, expected: Type, path: str, scope: Scope) -> None:
        def type_of(text: str, place: str) -> Type:
            return self._infer_type(text, join_path(path, place), scope)

        for place, message in find_misfits(source, expected, type_of):
            self.collector.fail(join_path(path, place), message)

    def _expect_type(self, program: Program, expected: Type, path: str, scope: Scope) -> Type:
        given = self._report_mistakes(program.text, check_program(program, scope), path)
        if message := describe_misfit(program.text, given, expected):
            self.collector.fail(path, message)
            return DYN
        return given

    def _infer_type(self, text: str, path: str, scope: Scope) -> Type:
        return self._report_mistakes(text, check(text, scope), path)

    def _report_mistakes(self, text: str, result: TypeCheckResult, path: str) -> Type:
        """Return the type of an expression. If the expression has mistakes, note the mistakes and return `DYN`."""
        for mistake in result.mistakes:
            column = f" (column {mistake.column})" if mistake.column and mistake.column > 1 else ""
            self.collector.fail(path, f"${{{text}}}{column}: {mistake.message}")
        return DYN if result.mistakes else result.type


def _with_lifecycle(kind: Type) -> Type:
    """Return the type of an object, or of a list of objects, with the lifecycle fields that only gates read."""
    match kind:
        case Record(fields=fields, open=is_open):
            return Record({**fields, **LIFECYCLE_TYPES}, open=is_open)
        case StaticList(element=element):
            return StaticList(_with_lifecycle(element))
    return kind
