"""Writes `renderer/builtin_kinds/*.json.gz` from the real API server: `python -m tests.support.cluster.schemas`.

`kinds` holds what the server publishes about its built-in kinds, without the prose: discovery as it is served, the
definitions of the kinds that it names, and all that those refer to. `structures` holds what it does not publish, from
its sources: how those definitions are held in Go, and so what is left out when it is empty, and what their protobuf
means. The same server gives the same bytes.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from renderer import builtin_kinds
from tests.support.cluster.binaries import NotBuiltError
from tests.support.cluster.build import SOURCE, BuildError, find_go
from tests.support.cluster.control_plane import ControlPlane

Json = dict[str, Any]

_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
"""What clients send beside kinds that discovery names."""


def main() -> int:
    try:
        with tempfile.TemporaryDirectory() as directory, ControlPlane.start(Path(directory), ()) as server:
            content = published(server)
        structures = held(set(content["definitions"]))
    except (NotBuiltError, BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, found in ((builtin_kinds.KINDS_FILE, content), (builtin_kinds.STRUCTURES_FILE, structures)):
        file = Path(builtin_kinds.__file__).with_name(name)
        file.write_bytes(gzip.compress(orjson.dumps(found, option=orjson.OPT_SORT_KEYS), 9, mtime=0))
        print(f"{file}: {file.stat().st_size // 1024} KiB")
    return 0


def held(definitions: set[str]) -> Json:
    """`renderer.builtin_kinds.Structures` of these definitions, and of what is inlined in them."""
    command = [str(find_go()), "run", "-trimpath", "-buildvcs=false", "./structures"]
    environment = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    run = subprocess.run(command, cwd=SOURCE, env=environment, stdout=subprocess.PIPE, check=False)
    if run.returncode != 0:
        raise BuildError("go run failed, see above")
    found = json.loads(run.stdout)
    inlined = {inner for name in found for called, _, inner in found[name] if not called}
    return {name: found[name] for name in sorted(definitions | inlined) if name in found}


def published(server: ControlPlane) -> Json:
    """What the file holds; its parts are those of `renderer.builtin_kinds.Bundle`."""
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
        "definitions": {name: definitions[name] for name in _closure(definitions, {*kinds.values(), _OPTIONS})},
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
        yield builtin_kinds.kind_key(each["group"], each["version"], each["kind"])


def _named(groups: list[Json]) -> Iterator[str]:
    """The kinds that discovery names, of subresources too; where it leaves out group and version, they are those around."""
    for group in groups:
        for version in group["versions"]:
            for resource in version["resources"]:
                for each in (resource, *resource.get("subresources", ())):
                    kind = each.get("responseKind") or {}
                    yield builtin_kinds.kind_key(
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
