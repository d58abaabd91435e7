"""OpenAPI v3 documents, limited to the parts that kubectl reads for `explain` and for field validation.

The documents have no descriptions, because the published schemas in the sandbox have no descriptions.

Source: Kubernetes, "The Kubernetes API", "OpenAPI V3".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from applier.sandbox.kinds.registry import KindRegistry, ServedKind
from applier.sandbox.wire import Response, UnknownPathError, json_response
from renderer.builtin_kinds import BuiltinSchemas

Schema = Mapping[str, Any]

EMPTY_V2_DOCUMENT = Response(200, b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
"""Empty OpenAPI v2 document. In protobuf, an empty document has no bytes.

kubectl reads the OpenAPI v2 document only for `kind: List`.
"""

_REFERENCE_PREFIX = "#/components/schemas/"
_WRITE_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


class OpenApi:
    """Index and documents of OpenAPI v3. Each group version has a document, built for each request."""

    def __init__(self, kinds: KindRegistry, builtin_schemas: BuiltinSchemas) -> None:
        self._kinds = kinds
        self._builtin_schemas = builtin_schemas

    def answer(self, path: list[str]) -> Response:
        """Return the document at `path`, which is relative to /openapi/v3.

        Raises: UnknownPathError if no document has this path.
        """
        match path:
            case []:
                return json_response({"paths": dict(self._list_documents())})
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                raise UnknownPathError
        kinds = self._kinds.kinds(group, version)
        if not kinds:
            raise UnknownPathError
        return json_response(self._build_document(kinds))

    def _list_documents(self) -> Iterator[tuple[str, dict[str, str]]]:
        content_hash = hashlib.sha256(str(self._kinds.revision).encode()).hexdigest()[:16].upper()
        for group in self._kinds.groups():
            for version in self._kinds.versions(group):
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                yield path, {"serverRelativeURL": f"/openapi/v3/{path}?hash={content_hash}"}

    def _build_document(self, kinds: list[ServedKind]) -> dict[str, Any]:
        schemas: dict[str, Any] = {}
        for kind in kinds:
            name, schema = self._resolve_schema(kind)
            schemas[name] = schema
            self._add_references(schema, schemas)
        info = {"title": "Kubernetes", "version": self._builtin_schemas.version}
        paths = {path: item for kind in kinds for path, item in _build_paths(kind)}
        return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}

    def _resolve_schema(self, kind: ServedKind) -> tuple[str, Schema]:
        schema = self._builtin_schemas.schema(kind.group, kind.version, kind.kind)
        if schema is not None and not kind.is_custom:
            return self._builtin_schemas.kinds[f"{kind.group}/{kind.version}/{kind.kind}"], schema
        reversed_group = ".".join(reversed(kind.group.split(".")))
        identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        return f"{reversed_group}.{kind.version}.{kind.kind}", {
            **kind.model.schema,
            "x-kubernetes-group-version-kind": [identity],
        }

    def _add_references(self, value: Any, schemas: dict[str, Any]) -> None:
        """Add to `schemas` every definition to which `value` refers, directly or indirectly."""
        match value:
            case {"$ref": str(reference), **rest}:
                name = reference.removeprefix(_REFERENCE_PREFIX)
                if name not in schemas:
                    schemas[name] = self._builtin_schemas.definitions[name]
                    self._add_references(schemas[name], schemas)
                self._add_references(rest, schemas)
            case dict():
                for item in value.values():
                    self._add_references(item, schemas)
            case list():
                for item in value:
                    self._add_references(item, schemas)


def _build_paths(kind: ServedKind) -> Iterator[tuple[str, dict[str, Any]]]:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope_path = "/namespaces/{namespace}" if kind.namespaced else ""
    identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}

    def operation(action: str) -> dict[str, Any]:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": identity,
            "parameters": _WRITE_PARAMETERS,
            "responses": {"200": {"description": "OK"}},
        }

    yield f"{root}{scope_path}/{kind.plural}", {"get": operation("list"), "post": operation("post")}
    item_methods = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
    yield (
        f"{root}{scope_path}/{kind.plural}/{{name}}",
        {method: operation(action) for method, action in item_methods.items()},
    )
