"""What is wrong with a definition whatever its instances say: every expression against the types of what it reads, every template against the
type of what it makes (kro documentation, "Static type checking").

Names were checked before, when the definition was compiled. What is not known is never wrong.
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
from renderer.definition.gates import LIFECYCLE, TYPES, Gate
from renderer.definition.kind_schemas import DescribedKind, KindSchemas
from renderer.definition.problem_collector import ProblemCollector, join
from renderer.definition.resources import ResourceNode, scope_of
from renderer.definition.template_types import misfit, misfits
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.template.typed_views import Path, holds_bytes, views_of

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
    """A definition that knows what its expressions read, and what is wrong with its types, in the order of the text."""

    definition: Definition
    problems: tuple[Problem, ...]


def checked(definition: Definition, objects: KindSchemas) -> CheckedDefinition:
    """Check a definition against what is known of the kinds that it uses."""
    return _checked(definition, tuple(objects.described.get(node.group_kind) for node in definition.nodes))


@lru_cache(maxsize=1024)
def _checked(definition: Definition, against: tuple[DescribedKind | None, ...]) -> CheckedDefinition:
    """Cached by identity: the same files give the same objects."""
    kinds = (node.group_kind for node in definition.nodes)
    found = _Static(definition, KindSchemas({kind: one for kind, one in zip(kinds, against, strict=True) if one}))
    return CheckedDefinition(found.typed(), tuple(sorted(set(found.found.problems))))


def unknown(definition: Definition, objects: KindSchemas) -> Iterator[ResourceNode]:
    """Nodes of a kind that is not known, of which some expression reads more than every object has."""
    reads = {read for program in definition.programs for read in program.reads}
    for node in definition.nodes:
        whole = {read[1:] for read in reads if read[0] == node.id}
        whole |= {read[1:] for program in node.ready_when for read in program.reads if read[0] == "each"}
        if node.type(objects) is None and any(rest[:1] not in ((), ("metadata",)) for rest in whole):
            yield node


class _Static:
    def __init__(self, definition: Definition, objects: KindSchemas) -> None:
        self.definition = definition
        self.objects = objects
        self.found = ProblemCollector(definition.document)
        instance = kind_schemas.instance_type(definition.spec_schema, namespaced=definition.namespaced)
        self.scope = scope_of(definition.nodes, instance, objects)

    def typed(self) -> Definition:
        """The definition, checked: with the views of its variables, and templates that know where bytes go."""
        resources = self.definition.manifest["spec"].get("resources") or ()
        index = {resource["id"]: number for number, resource in enumerate(resources)}
        nodes = tuple(self._node(node, f"spec.resources[{index[node.id]}]") for node in self.definition.nodes)
        item = kind_schemas.with_status(self.scope["schema"], DYN)
        gates = self._gates(self.definition.propagate_when, item, self.scope)
        self._template(self.definition.status.source, DYN, _STATUS, self.scope)
        scope = {**self.scope, "schema": kind_schemas.with_conditions(self.scope["schema"])}
        for number, entry in enumerate(self.definition.conditions):
            self._type(entry.program.text, f"{_STATUS}.conditions[{number}]", scope)
        return replace(self.definition, nodes=nodes, propagate_when=gates, views=views_of(self.scope, self._reads()))

    def _reads(self) -> Iterator[Path]:
        for program in self.definition.programs:
            yield from program.reads
        for node in self.definition.nodes:
            own = (read for program in node.ready_when for read in program.reads)
            yield from ((node.id, *read) for read in own if read[0] == "each")

    def _node(self, node: ResourceNode, path: str) -> ResourceNode:
        place = f"{path}.externalRef" if node.external else f"{path}.template"
        if versions := self.objects.unserved(node.group_kind, node.version):
            listed = ", ".join(versions)
            self.found.fail(
                f"{place}.apiVersion", f"{node.group_kind} has no version {node.version}; there are {listed}"
            )
        iterators: dict[str, Type] = {}
        for number, one in enumerate(node.for_each):
            values = self._wanted(one.program, StaticList(DYN), f"{path}.forEach[{number}].{one.iterator}", self.scope)
            iterators[one.iterator] = element_of(values)
        each = {"each": element_of(self.scope[node.id])} if node.for_each or node.selects else {}
        for number, program in enumerate(node.include_when):
            self._wanted(program, BOOL, f"{path}.includeWhen[{number}]", self.scope)
        for number, program in enumerate(node.ready_when):
            self._wanted(program, BOOL, f"{path}.readyWhen[{number}]", {**self.scope, **each})
        gates = self._gates(node.propagate_when, each.get("each", DYN), {**self.scope, **iterators})
        wanted = _REFERENCE if node.external else node.type(self.objects) or kind_schemas.any_object()
        self._template(node.template.source, wanted, place, {**self.scope, **iterators})
        return replace(
            node, propagate_when=gates, template=node.template.encoding(lambda place: holds_bytes(wanted, place))
        )

    def _gates(self, gates: Iterable[Gate] | None, item: Type, scope: Scope) -> tuple[Gate, ...] | None:
        """`item` is what a gate of a collection lets move; of all that gates read they may also ask how far it is."""
        if gates is None:
            return None
        found = []
        for gate in gates:
            own = {**dict.fromkeys(gate.scope.items, item), gate.scope.collection: StaticList(item)}
            asked = {name: _asked(kind) for name, kind in {**scope, **own}.items() if name != "schema"}
            self._wanted(gate.program, BOOL, gate.path, {**scope, **asked, **TYPES})
            found.append(replace(gate, views=views_of({**scope, **asked}, gate.program.reads)))
        return tuple(found)

    def _template(self, source: Any, wanted: Type, path: str, scope: Scope) -> None:
        def type_of(text: str, place: str) -> Type:
            return self._type(text, join(path, place), scope)

        for place, message in misfits(source, wanted, type_of):
            self.found.fail(join(path, place), message)

    def _wanted(self, program: Program, wanted: Type, path: str, scope: Scope) -> Type:
        given = self._checked(program.text, check_program(program, scope), path)
        if message := misfit(program.text, given, wanted):
            self.found.fail(path, message)
            return DYN
        return given

    def _type(self, text: str, path: str, scope: Scope) -> Type:
        return self._checked(text, check(text, scope), path)

    def _checked(self, text: str, checked: TypeCheckResult, path: str) -> Type:
        """The type of an expression; `DYN` where it has mistakes, which are noted."""
        for mistake in checked.mistakes:
            column = f" (column {mistake.column})" if mistake.column and mistake.column > 1 else ""
            self.found.fail(path, f"${{{text}}}{column}: {mistake.message}")
        return DYN if checked.mistakes else checked.type


def _asked(kind: Type) -> Type:
    """What a gate may read: an object, or the objects in a list, with the answers that only gates ask for."""
    match kind:
        case Record(fields=fields, open=is_open):
            return Record({**fields, **LIFECYCLE}, open=is_open)
        case StaticList(element=element):
            return StaticList(_asked(element))
    return kind
