"""Writes `renderer/schemas/kinds.json.gz` from the real API server: `python -m tests.controlplane.schemas`.

The file holds what the server publishes about its built-in kinds, without the prose: discovery as it is served, the
definitions of the kinds that it names, and all that those refer to. The same server gives the same bytes.
"""

import gzip
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from renderer import schemas
from tests.controlplane.binaries import NotBuiltError
from tests.controlplane.server import ControlPlane

_FILE = Path(schemas.__file__).with_name(schemas.FILE)

Json = dict[str, Any]


def main() -> int:
    try:
        with tempfile.TemporaryDirectory() as directory, ControlPlane.start(Path(directory), ()) as server:
            content = published(server)
    except NotBuiltError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    _FILE.write_bytes(gzip.compress(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), 9, mtime=0))
    print(f"{_FILE}: {len(content['kinds'])} kinds, {_FILE.stat().st_size // 1024} KiB")
    return 0


def published(server: ControlPlane) -> Json:
    """What the file holds; its parts are those of `renderer.schemas.Bundle`."""
    groups = [group for root in ("/api", "/apis") for group in _discovery(server, root)]
    definitions = _definitions(server)
    kinds = {
        kind: name
        for name, definition in definitions.items()
        for kind in _kinds(definition)
        if kind in set(_named(groups))
    }
    return {
        "version": server.request("GET", "/version").body["gitVersion"],
        "discovery": groups,
        "kinds": kinds,
        "definitions": {name: definitions[name] for name in _closure(definitions, set(kinds.values()))},
    }


def _discovery(server: ControlPlane, root: str) -> Iterator[Json]:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    for group in server.request("GET", root, accept=accept).body["items"]:
        yield {"metadata": {"name": group["metadata"].get("name", "")}, "versions": group["versions"]}


def _definitions(server: ControlPlane) -> Json:
    found: Json = {}
    for path, place in server.request("GET", "/openapi/v3").body["paths"].items():
        if path.startswith("api"):
            document = server.request("GET", place["serverRelativeURL"]).body
            found |= (document.get("components") or {}).get("schemas") or {}
    return {name: _without_prose(schema) for name, schema in found.items()}


def _without_prose(schema: Any) -> Any:
    """A schema without its descriptions; properties may well have that name."""
    if not isinstance(schema, dict):
        return schema
    out = {name: value for name, value in schema.items() if name != "description"}
    if "properties" in out:
        out["properties"] = {name: _without_prose(child) for name, child in out["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in out:
            out[keyword] = _without_prose(out[keyword])
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in out:
            out[keyword] = [_without_prose(child) for child in out[keyword]]
    return out


def _kinds(definition: Json) -> Iterator[str]:
    for each in definition.get("x-kubernetes-group-version-kind", ()):
        yield schemas.key(each["group"], each["version"], each["kind"])


def _named(groups: list[Json]) -> Iterator[str]:
    """The kinds that discovery names, of subresources too; where it leaves out group and version, they are those around."""
    for group in groups:
        for version in group["versions"]:
            for resource in version["resources"]:
                for each in (resource, *resource.get("subresources", ())):
                    kind = each.get("responseKind") or {}
                    yield schemas.key(
                        kind.get("group") or group["metadata"]["name"],
                        kind.get("version") or version["version"],
                        kind.get("kind", ""),
                    )


def _closure(definitions: Json, names: set[str]) -> list[str]:
    known: set[str] = set()
    while names:
        known |= names
        names = {found for name in names for found in _references(definitions[name])} - known
    return sorted(known)


def _references(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str(reference), **rest}:
            yield reference.rpartition("/")[2]
            yield from _references(rest)
        case dict():
            for child in schema.values():
                yield from _references(child)
        case list():
            for child in schema:
                yield from _references(child)


if __name__ == "__main__":
    sys.exit(main())
