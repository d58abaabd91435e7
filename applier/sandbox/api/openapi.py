"""OpenAPI v3 of what is served, as far as kubectl reads it: `explain`, and whether fields are validated by the server.

Descriptions are left out, as in the published schemas that the sandbox carries. Source: Kubernetes, "The Kubernetes
API", "OpenAPI V3".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from applier.sandbox.kinds.registry import Registry, ServedKind
from applier.sandbox.wire import Response, UnknownPathError
from renderer.builtin_kinds import BuiltinSchemas

Schema = Mapping[str, Any]

NO_DOCUMENT = Response(200, b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
"""The old document, which kubectl reads for `kind: List` only: one that knows nothing, in protobuf, is no bytes at all."""

_PREFIX = "#/components/schemas/"
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


class OpenApi:
    """Documents by group version, made when they are asked for."""

    def __init__(self, kinds: Registry, bundle: BuiltinSchemas) -> None:
        self._kinds = kinds
        self._bundle = bundle

    def answer(self, path: list[str]) -> Response:
        """`path` comes after /openapi/v3. Raises UnknownPathError."""
        match path:
            case []:
                return _json({"paths": dict(self._links())})
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                raise UnknownPathError
        found = self._kinds.kinds(group, version)
        if not found:
            raise UnknownPathError
        return _json(self._document(found))

    def _links(self) -> Iterator[tuple[str, dict[str, str]]]:
        tag = hashlib.sha256(str(self._kinds.revision).encode()).hexdigest()[:16].upper()
        for group in self._kinds.groups():
            for version in self._kinds.versions(group):
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                yield path, {"serverRelativeURL": f"/openapi/v3/{path}?hash={tag}"}

    def _document(self, kinds: list[ServedKind]) -> dict[str, Any]:
        schemas: dict[str, Any] = {}
        for kind in kinds:
            name, schema = self._schema(kind)
            schemas[name] = schema
            self._add_references(schema, schemas)
        info = {"title": "Kubernetes", "version": self._bundle.version}
        paths = {path: item for kind in kinds for path, item in _paths(kind)}
        return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}

    def _schema(self, kind: ServedKind) -> tuple[str, Schema]:
        schema = self._bundle.schema(kind.group, kind.version, kind.kind)
        if schema is not None and not kind.custom:
            return self._bundle.kinds[f"{kind.group}/{kind.version}/{kind.kind}"], schema
        reverse = ".".join(reversed(kind.group.split(".")))
        identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        return f"{reverse}.{kind.version}.{kind.kind}", {
            **kind.model.schema,
            "x-kubernetes-group-version-kind": [identity],
        }

    def _add_references(self, value: Any, schemas: dict[str, Any]) -> None:
        """All definitions that a schema refers to, and those that they refer to."""
        match value:
            case {"$ref": str(reference), **rest}:
                name = reference.removeprefix(_PREFIX)
                if name not in schemas:
                    schemas[name] = self._bundle.definitions[name]
                    self._add_references(schemas[name], schemas)
                self._add_references(rest, schemas)
            case dict():
                for item in value.values():
                    self._add_references(item, schemas)
            case list():
                for item in value:
                    self._add_references(item, schemas)


def _paths(kind: ServedKind) -> Iterator[tuple[str, dict[str, Any]]]:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = "/namespaces/{namespace}" if kind.namespaced else ""
    identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}

    def operation(action: str) -> dict[str, Any]:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": identity,
            "parameters": _PARAMETERS,
            "responses": {"200": {"description": "OK"}},
        }

    yield f"{root}{place}/{kind.plural}", {"get": operation("list"), "post": operation("post")}
    one = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
    yield f"{root}{place}/{kind.plural}/{{name}}", {method: operation(action) for method, action in one.items()}


def _json(document: Mapping[str, Any]) -> Response:
    return Response(200, orjson.dumps(document))
