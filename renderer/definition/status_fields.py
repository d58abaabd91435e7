"""The status that a definition declares for its instances (kro's `spec.schema.status`).

A status contains conditions, and fields with one expression each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from renderer.cel.openapi import to_openapi
from renderer.cel.type_check import Scope, check
from renderer.cel.types import DYN, Type
from renderer.definition import variables
from renderer.definition.custom_conditions import ConditionExpression, compile_entries
from renderer.definition.kind_schemas import KindSchemas
from renderer.definition.problem_collector import ProblemCollector, join_path
from renderer.definition.resources import ResourceNode, scope_of
from renderer.errors import ExpressionError
from renderer.frozen import dataclass
from renderer.template.expressions import Expression, scan
from renderer.template.template import Template, compile_template

_PATH: Final = "spec.schema.status"
_RESERVED_FIELDS: Final = frozenset({"state", "conditions"})
"""Fields that the author cannot set. As kro does, Levelgate drops a value for `state`."""


@dataclass(frozen=True, slots=True)
class StatusProjection:
    """The template of the author's status fields, the OpenAPI schema of the fields, and the author's conditions.

    The author's conditions replace kro's conditions.
    """

    template: Template
    schema: Mapping[str, Any] = field(default_factory=dict)
    conditions: tuple[ConditionExpression, ...] = ()


def compile_status(
    status: Any, nodes: Sequence[ResourceNode], instance: Type, collector: ProblemCollector
) -> StatusProjection:
    """Return the compiled status of a definition, and add mistakes to `collector`.

    The schema depends on the definition alone, so that no other file changes the CRD. Therefore this function knows the
    types of built-in kinds only.

    Args:
        instance: Type of an instance without status.
    """
    if not isinstance(status or {}, dict):
        collector.fail(_PATH, "must be a mapping whose values are expressions")
        return StatusProjection(compile_template({}))
    status = status or {}
    scope = scope_of(nodes, instance, KindSchemas())
    # If resources have mistakes, there are no nodes. Then the names of resources must not be reported as unknown.
    with_names = bool(nodes) or not collector.problems
    conditions = _compile_conditions(status.get("conditions"), scope, collector, with_names=with_names)
    if "levelgate" in status:
        collector.fail(f"{_PATH}.levelgate", "is reserved for Levelgate's own status; rename the field")
    fields = {name: value for name, value in status.items() if name not in _RESERVED_FIELDS}
    template = collector.read_template(_PATH, fields)
    if template is None:
        return StatusProjection(compile_template({}))
    for place in _find_constants(fields, ""):
        collector.fail(join_path(_PATH, place), "is a constant; write an expression that reads a resource or schema")
    for place in _find_constant_expressions(template):
        collector.fail(join_path(_PATH, place), "does not read a resource or schema; write an expression that does")
    if with_names:
        collector.check_names(template.expressions, _PATH, frozenset(scope))
    collector.refuse_omit(template.expressions, _PATH, "Levelgate already leaves out a field that is not known yet")
    return StatusProjection(template, _infer_schema(fields, scope), conditions)


def _compile_conditions(
    expressions: Any, scope: Scope, collector: ProblemCollector, *, with_names: bool
) -> tuple[ConditionExpression, ...]:
    """Return the author's compiled conditions. If the result is empty, instances keep kro's conditions."""
    if expressions is None:
        return ()
    path, entries = f"{_PATH}.conditions", []
    for place, entry in compile_entries(expressions):
        if isinstance(entry, ExpressionError):
            collector.fail(path + place, str(entry))
            continue
        entries.append(entry)
        collector.refuse_omit([(place, entry.program)], path, "a condition either exists or does not exist")
        names = frozenset(scope) if with_names else entry.program.names
        for message in variables.find_mistakes(entry.program, names, own_id=""):
            collector.fail(path + place, message)
    return tuple(entries)


def _find_constants(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _find_constants(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_constants(item, f"{path}[{index}]")
    elif not (isinstance(value, str) and "${" in value):
        yield path


def _find_constant_expressions(template: Template) -> Iterator[str]:
    names: dict[str, frozenset[str]] = {}
    for place, program in template.expressions:
        names[place] = names.get(place, frozenset()) | program.names
    return (place for place, names_read in names.items() if not names_read)


def _infer_schema(template_value: Any, scope: Scope) -> dict[str, Any]:
    """Return the schema of the author's status: the shape as written, with the inferred types of the expressions."""
    match template_value:
        case dict():
            return {
                "type": "object",
                "properties": {key: _infer_schema(value, scope) for key, value in template_value.items()},
            }
        case list():
            items = [_infer_schema(item, scope) for item in template_value]
            return {
                "type": "array",
                "items": items[0]
                if items and all(item_schema == items[0] for item_schema in items)
                else to_openapi(DYN),
            }
        case str():
            parts = scan(template_value)
            if len(parts) == 1 and isinstance(parts[0], Expression):
                return to_openapi(check(parts[0].text.strip(), scope).type)
            return {"type": "string"}
    return to_openapi(DYN)
