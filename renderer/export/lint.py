"""Lint: all errors and warnings of a commit, by file and line.

An error prevents Levelgate from rendering or applying an object. A warning reports a legal text whose author
probably meant something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from renderer import documents, schema
from renderer.catalog.catalog import Catalog
from renderer.cel.types import STRING
from renderer.definition import type_check
from renderer.definition.compile import Definition
from renderer.definition.kind_schemas import KindSchemas
from renderer.definition.problem_collector import join_path
from renderer.definition.resources import ResourceNode
from renderer.definition.template_types import find_misfits
from renderer.documents import Document
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, version_of
from renderer.kinds import RGD, is_built_in
from renderer.phrasing import join_names
from renderer.render.model import RenderedApplySet, Rendering
from renderer.template.expressions import Expression, scan
from renderer.template.template import find_keys_with_expressions, find_strings, format_path

_RULES_CHECKED_ELSEWHERE: Final = frozenset(("type", "unknown", "duplicate"))
"""Schema keywords that lint skips. The type check covers the keywords, or the keywords need values."""

_UNDECIDABLE_RULES: Final = _RULES_CHECKED_ELSEWHERE | {"oneOf", "not"}
"""Schema keywords that lint cannot decide for a template, where null represents every unknown value."""

_WORKLOADS: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "Job"})


class Severity(StrEnum):
    """The two severities of a finding."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class LintFinding:
    """One error or warning of lint, with its place."""

    problem: Problem
    severity: Severity
    is_certain: bool = True
    """False if a file outside of the linted files may refute the warning."""

    @property
    def fails_strict(self) -> bool:
        """Return whether a strict run fails because of this finding. Errors and certain warnings fail a strict run."""
        return self.severity is Severity.ERROR or self.is_certain

    def __str__(self) -> str:
        location, _, description = str(self.problem).partition(": ")
        return f"{location}: warning: {description}" if self.severity is Severity.WARNING else str(self.problem)


def lint(
    files: Mapping[str, bytes], catalog: Catalog, rendering: Rendering, schemas: KindSchemas | None = None
) -> list[LintFinding]:
    """Return all findings, sorted by file and line.

    Args:
        files: The files of `catalog`.
        rendering: The rendering of `catalog` without a cluster.
        schemas: Kinds that `catalog` does not describe.
    """
    types = catalog.types.with_fallback(schemas) if schemas else catalog.types
    errors = {
        *rendering.problems,
        *_render_errors(catalog, rendering),
        *_find_unservable(rendering.definitions.values(), types),
        *_find_unfit(catalog, types),
    }
    warnings = {
        *_find_undefined(catalog, types),
        *(
            problem
            for file, data in files.items()
            for problem in documents.ambiguities(file, data)
            if not _is_pace_key(problem, catalog)
        ),
        *(
            problem
            for definition in catalog.definitions.values()
            for problem in _definition_warnings(definition, types)
        ),
    }
    return sorted(
        [
            *(LintFinding(error, Severity.ERROR) for error in errors),
            *(LintFinding(warning, Severity.WARNING) for warning in warnings),
        ]
    )


def _is_pace_key(problem: Problem, catalog: Catalog) -> bool:
    """Return whether `problem` is about the key `n` of a pace. The reader of policies accepts this key as text."""
    return problem.message.startswith("n is read as") and any(
        rule.origin.file == problem.file for rule in catalog.rules
    )


def _render_errors(catalog: Catalog, rendering: Rendering) -> Iterator[Problem]:
    """Yield errors that appear only in the rendering of instances.

    If several instances have the same error, yield the error once.
    """
    places: dict[tuple[SourceLocation, str, str], list[str]] = {}
    origins = {definition.name: definition.origin for definition in catalog.definitions.values()}
    for rendered in rendering.instances.values():
        for origin, path, error in _errors_of(rendered, rendering, origins):
            places.setdefault((origin, path, error), []).append(str(rendered.parent))
    for (origin, path, error), names in places.items():
        yield Problem(origin.file, origin.line, path, f"{error} (in {join_names(names, limit=1)})")


def _errors_of(
    rendered: RenderedApplySet, rendering: Rendering, origins: Mapping[str, SourceLocation]
) -> Iterator[tuple[SourceLocation, str, str]]:
    if rendered.error and rendered.owner in rendering.instances:
        yield origins.get(rendered.definition, SourceLocation()), "", rendered.error
    for node in rendered.nodes:
        if node.error:
            yield node.origin, node.id, node.error


def _find_unservable(definitions: Iterable[Definition], types: KindSchemas) -> Iterator[Problem]:
    """Yield mistakes in templates whose objects break the schema of their kind."""
    for definition in definitions:
        for node in definition.nodes:
            described = types.described.get(node.group_kind)
            if described is None or node.external:
                continue
            path = f"{_node_path(definition, node)}.template"
            object_schema = described.schemas[node.version]
            blank_object = node.template.blank(schema.apply_defaults(object_schema, node.template.source))
            for mistake in schema.validate(object_schema, blank_object):
                if mistake.rule not in _UNDECIDABLE_RULES:
                    place = join_path(path, mistake.path)
                    yield Problem(definition.origin.file, definition.document.line_of(place), place, mistake.message)


def _find_unfit(catalog: Catalog, types: KindSchemas) -> Iterator[Problem]:
    """Yield mistakes in plain objects that break the schema of their kind."""
    for declared in catalog.objects:
        kind, version = declared.group_kind, version_of(declared.manifest)
        object_type = types.type_of(kind, version)
        if object_type is None or declared.refused_reason or kind in {*catalog.definitions, *catalog.broken}:
            continue
        messages_by_path = dict(find_misfits(_escape_expressions(declared.manifest), object_type, lambda *_: STRING))
        if described := types.described.get(kind):
            openapi = described.schemas[version]
            for mistake in schema.validate(openapi, schema.apply_defaults(openapi, declared.manifest)):
                if mistake.rule not in _RULES_CHECKED_ELSEWHERE:
                    messages_by_path.setdefault(mistake.path, mistake.message)
        for path, message in messages_by_path.items():
            yield Problem(declared.origin.file, declared.line_of(path), path, message)


def _escape_expressions(value: Any) -> Any:
    """Return the value with `${` broken up, because `${` is plain text outside of definitions."""
    match value:
        case str():
            return value.replace("${", "$ {")
        case dict():
            return {name: _escape_expressions(item) for name, item in value.items()}
        case list():
            return list(map(_escape_expressions, value))
    return value


def _find_undefined(catalog: Catalog, types: KindSchemas) -> Iterator[Problem]:
    """Yield a problem for each object whose kind is undefined although the commit defines other kinds of the group."""
    defined_kinds = {*catalog.definitions, *catalog.broken}
    groups = {kind.group for kind in defined_kinds}
    for declared in catalog.objects:
        kind = declared.group_kind
        if kind.group in groups and kind not in defined_kinds and kind not in types.described and kind != RGD:
            hint = "if another repository defines the kind, name that repository with --schemas"
            message = (
                f"{kind} is not defined in this repository; {hint}; otherwise Levelgate applies the object as written"
            )
            yield Problem(declared.origin.file, declared.line_of("kind"), "kind", message)


def _definition_warnings(definition: Definition, types: KindSchemas) -> Iterator[Problem]:
    document = definition.document
    warnings = (
        *_find_misread_strings(document),
        *_find_unused(definition),
        *_find_unready(definition),
        *_find_unknown_kinds(definition, types),
    )
    for path, message in warnings:
        yield Problem(document.file, document.line_of(path), path, message)


def _node_path(definition: Definition, node: ResourceNode) -> str:
    ids = [resource["id"] for resource in definition.manifest["spec"]["resources"]]
    return f"spec.resources[{ids.index(node.id)}]"


def _find_misread_strings(document: Document) -> Iterator[tuple[str, str]]:
    """Yield strings that look like expressions although Levelgate reads them, wholly or in part, as text."""
    spec = {
        "schema": {"status": document.value["spec"]["schema"].get("status")},
        "resources": document.value["spec"].get("resources"),
    }
    for path in find_keys_with_expressions(spec):
        yield (
            f"spec.{format_path(path)}",
            "Levelgate does not evaluate an expression in a key; make the whole map one expression",
        )
    for path, text in find_strings(spec):
        parts = scan(text)
        place = f"spec.{format_path(path)}"
        if any(isinstance(part, str) and "${" in part for part in parts):
            yield (
                place,
                "'${' is not closed, so Levelgate reads the value as text; "
                'close the expression, or write ${"${"} for the text',
            )
        expressions = [part for part in parts if isinstance(part, Expression)]
        blanks = [part for part in parts if isinstance(part, str)]
        if len(expressions) == 1 and blanks and not "".join(blanks).strip():
            yield (
                place,
                "blanks or a line end surround the expression, so the value is a text; "
                "to get the value of the expression, remove the blanks and line ends",
            )


def _find_unused(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield fields of instances that no expression reads, and custom types that no field uses."""
    schema_fields = definition.manifest["spec"]["schema"]
    reads = {read for program in definition.programs for read in program.reads if read[0] == "schema"}
    if not any(len(read) < 3 and read[1:] in ((), ("spec",)) for read in reads):
        read_fields = {read[2] for read in reads if read[1] == "spec"}
        for field in definition.spec_schema.get("properties", {}):
            if field not in read_fields:
                yield f"spec.schema.spec.{field}", f"no expression reads schema.spec.{field}; remove the field"
    types = schema_fields.get("types") or {}
    used_words = set(
        re.findall(
            r"\w+",
            " ".join(
                text.partition("|")[0] for _, text in find_strings([types, schema_fields.get("spec")], include_all=True)
            ),
        )
    )
    for name in types:
        if name not in used_words:
            yield f"spec.schema.types.{name}", f"no field has the type {name}; remove the type"


def _find_unready(definition: Definition) -> Iterator[tuple[str, str]]:
    if missing := [node for node in definition.nodes if _needs_ready_when(node)]:
        ids = ", ".join(node.id for node in missing)
        message = f"{ids}: no readyWhen, so Ready means only that the object exists; add readyWhen"
        yield _node_path(definition, missing[0]), message


def _find_unknown_kinds(definition: Definition, types: KindSchemas) -> Iterator[tuple[str, str]]:
    kinds: dict[GroupKind, list[ResourceNode]] = {}
    for node in type_check.find_unknown_nodes(definition, types):
        kinds.setdefault(node.group_kind, []).append(node)
    for kind, nodes in kinds.items():
        ids = ", ".join(node.id for node in nodes)
        advice = "commit the CustomResourceDefinition, or name a folder that contains it with --schemas"
        message = f"no schema of {kind} is known, so Levelgate cannot check the fields of {ids}; {advice}"
        yield _node_path(definition, nodes[0]), message


def _needs_ready_when(node: ResourceNode) -> bool:
    """Return whether the objects of `node` become ready only some time after they exist.

    A workload becomes ready after Kubernetes has started the Pods. A custom object becomes ready after a controller has
    processed the object.
    """
    has_lifecycle = (
        node.group_kind.kind in _WORKLOADS
        if is_built_in(node.group_kind)
        else not node.group_kind.group.endswith(".k8s.io")
    )
    return has_lifecycle and not node.ready_when and not node.external
