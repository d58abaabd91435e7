"""Do templates fit the schemas of the kinds that they make? As far as both are known, before any instance is.

Rules of kro's static checks: every field must exist, literals and expressions whose type is known must have the field's type, null passes
anywhere, and where the schema is open nothing is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from renderer import schema, scope
from renderer.catalog import Catalog
from renderer.cel import compile_expression
from renderer.definition import Definition
from renderer.identity import GroupKind, Manifest
from renderer.inference import Scope, type_of
from renderer.kinds import CRD
from renderer.resources import Node
from renderer.schema.constraints import SHOWN
from renderer.schema.mistakes import child, suggestion
from renderer.template import Expression, scan

Schema = Mapping[str, Any]
Schemas = Mapping[GroupKind, Mapping[str, Schema]]
"""OpenAPI schemas of whole objects, by kind and version."""

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_EVERYWHERE: Final = frozenset({"apiVersion", "kind", "metadata"})


def known_schemas(catalog: Catalog) -> Schemas:
    """The schemas that a commit holds: of its definitions, and of CRDs that stand in it."""
    crds = [definition.crd for definition in catalog.definitions.values()]
    crds += [declared.manifest for declared in catalog.objects if declared.group_kind == CRD]
    return {kind: versions for crd in crds for kind, versions in _versions(crd)}


def misfits(definition: Definition, schemas: Schemas) -> Iterator[tuple[str, str, str]]:
    """What of the templates does not fit, as (node id, path below the template, message)."""
    instance = scope.instance_schema(definition.spec_schema, namespaced=definition.namespaced)
    known = {"schema": instance, **{node.id: node.type for node in definition.nodes}}
    for node in definition.nodes:
        versions = schemas.get(node.group_kind)
        if versions is None or node.external:
            continue
        version = node.template.source["apiVersion"].rpartition("/")[2]
        if version not in versions:
            yield node.id, "apiVersion", f"{node.group_kind} has no version {version}; there are {', '.join(versions)}"
            continue
        for path, message in _of_node(node, versions[version], known):
            yield node.id, path, message


def _versions(crd: Manifest) -> Iterator[tuple[GroupKind, dict[str, Schema]]]:
    match crd.get("spec"):
        case {"group": str(group), "names": {"kind": str(kind)}, "versions": list(versions)}:
            found: dict[str, Schema] = {}
            for version in versions:
                match version:
                    case {"name": str(name), "schema": {"openAPIV3Schema": dict(described)}}:
                        found[name] = described
            yield GroupKind(group, kind), found


def _of_node(node: Node, described: Schema, known: Scope) -> Iterator[tuple[str, str]]:
    body = {name: value for name, value in node.template.source.items() if name not in _EVERYWHERE}
    fields = {name: field for name, field in described.get("properties", {}).items() if name not in _EVERYWHERE}
    required = [name for name in described.get("required", ()) if name not in _EVERYWHERE]
    yield from _misfits(body, {**described, "properties": fields, "required": required}, known, "")


def _misfits(value: Any, described: Schema, known: Scope, path: str) -> Iterator[tuple[str, str]]:
    kind = described.get("type")
    if value is None or kind is None or described.get("x-kubernetes-int-or-string"):
        return
    match value:
        case str() if any(isinstance(part, Expression) for part in scan(value)):
            yield from _of_text(value, kind, known, path)
        case dict() if kind == "object":
            yield from _of_object(value, described, known, path)
        case list() if kind == "array":
            for index, item in enumerate(value):
                yield from _misfits(item, described.get("items", {}), known, f"{path}[{index}]")
        case _:
            yield from ((path, mistake.message) for mistake in schema.validate({**described, _OPEN: True}, value))


def _of_text(text: str, kind: str, known: Scope, path: str) -> Iterator[tuple[str, str]]:
    parts = scan(text)
    if len(parts) > 1:
        given = "string"
    else:
        program = compile_expression(parts[0].text.strip()) if isinstance(parts[0], Expression) else None
        given = (type_of(program, known) or {}).get("type", "") if program else ""
    if given and given != kind and (given, kind) != ("integer", "number"):
        yield path, f"{text} is {SHOWN[given]}, where {SHOWN.get(kind, kind)} is needed"


def _of_object(value: dict[str, Any], described: Schema, known: Scope, path: str) -> Iterator[tuple[str, str]]:
    properties: Mapping[str, Schema] = described.get("properties", {})
    values = described.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            yield from _misfits(item, properties[name], known, child(path, name))
        elif isinstance(values, Mapping):
            yield from _misfits(item, values, known, child(path, name))
        elif not (described.get(_OPEN) or values):
            yield child(path, name), f"no field {name!r}{suggestion(name, properties) or _listed(properties)}"
    for name in described.get("required", ()):
        if name not in value and "default" not in properties.get(name, {}):
            yield child(path, name), "is required and not given"


def _listed(properties: Iterable[str]) -> str:
    names = sorted(properties)
    return f"; the fields are {', '.join(names[:20])}{' ...' if len(names) > 20 else ''}" if names else ""
