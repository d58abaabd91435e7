"""Discovery: which kinds are served, in the aggregated form and in the old one, and what the server says of itself.

Source: Kubernetes, "The Kubernetes API", "Aggregated discovery" (KEP-3352).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from applier.sandbox.kinds.registry import Registry, ServedKind
from applier.sandbox.wire import JSON, TEXT, Request, Response, UnknownPathError

_VERBS = ["get", "patch", "update"]
"""Of subresources."""
_SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class DiscoveryService:
    """Answers are made once for each revision of the registry. `version` is the Kubernetes version to be: `v1.36.4`."""

    def __init__(self, kinds: Registry, version: str) -> None:
        self._kinds = kinds
        self._version = version
        self._made: dict[tuple[str, bool], Response] = {}
        self._revision = -1

    def answer(self, request: Request, path: list[str]) -> Response:
        """Raises UnknownPathError."""
        if self._revision != self._kinds.revision:
            self._made, self._revision = {}, self._kinds.revision
        aggregated = "as=APIGroupDiscoveryList" in request.headers.get("accept", "") and len(path) == 1
        key = ("/".join(path), aggregated)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(path, aggregated=aggregated)
        if aggregated and request.headers.get("if-none-match") == found.headers["ETag"]:
            # A cache replaces the headers that it kept by these.
            return Response(304, b"", _AGGREGATED, found.headers)
        return found

    def _make(self, path: list[str], *, aggregated: bool) -> Response:
        match path:
            case [("api" | "apis") as root] if aggregated:
                groups = [""] if root == "api" else [name for name in self._kinds.groups() if name]
                return _cached(
                    {
                        "kind": "APIGroupDiscoveryList",
                        "apiVersion": "apidiscovery.k8s.io/v2",
                        "metadata": {},
                        "items": [self._group(name) for name in groups],
                    }
                )
            case ["api"]:
                return _json({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
            case ["apis"]:
                legacy = [self._legacy_group(name) for name in self._kinds.groups() if name]
                return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": legacy})
            case ["apis", group] if group in self._kinds.groups():
                return _json({"kind": "APIGroup", "apiVersion": "v1", **self._legacy_group(group)})
            case ["api", version] if version in self._kinds.versions(""):
                return _json(self._legacy_resources("", version))
            case ["apis", group, version] if version in self._kinds.versions(group):
                return _json(self._legacy_resources(group, version))
            case ["version"]:
                return _json(self._about())
            case ["healthz" | "readyz" | "livez"]:
                return Response(200, b"ok", TEXT)
            case _:
                raise UnknownPathError

    def _group(self, group: str) -> dict[str, Any]:
        versions = [
            {
                "version": version,
                "resources": [_entry(kind) for kind in self._kinds.kinds(group, version)],
                "freshness": "Current",
            }
            for version in self._kinds.versions(group)
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}

    def _legacy_group(self, group: str) -> dict[str, Any]:
        versions = [{"groupVersion": f"{group}/{one}", "version": one} for one in self._kinds.versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _legacy_resources(self, group: str, version: str) -> dict[str, Any]:
        resources: list[dict[str, Any]] = []
        for kind in self._kinds.kinds(group, version):
            about = {"singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind}
            names = {"shortNames": kind.short_names, "categories": kind.categories}
            resources.append(
                {"name": kind.plural, **about, "verbs": kind.verbs}
                | {name: words for name, words in names.items() if words}
            )
            for subresource in kind.subresources:
                shown = {**about, **(_SCALE if subresource == "scale" else {}), "singularName": "", "verbs": _VERBS}
                resources.append({"name": f"{kind.plural}/{subresource}", **shown})
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}

    def _about(self) -> dict[str, str]:
        major, minor, *_ = self._version.removeprefix("v").split(".")
        return {
            "major": major,
            "minor": minor,
            "gitVersion": f"{self._version}+levelgate.sandbox",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "",
            "platform": "",
        }


def _entry(kind: ServedKind) -> dict[str, Any]:
    identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": identity,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    }
    if kind.short_names:
        entry["shortNames"] = kind.short_names
    if kind.categories:
        entry["categories"] = kind.categories
    if kind.subresources:
        entry["subresources"] = [
            {"subresource": name, "responseKind": _SCALE if name == "scale" else identity, "verbs": _VERBS}
            for name in kind.subresources
        ]
    return entry


def _json(document: Mapping[str, Any]) -> Response:
    return Response(200, orjson.dumps(document), JSON)


def _cached(document: Mapping[str, Any]) -> Response:
    body = orjson.dumps(document)
    tag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
    return Response(200, body, _AGGREGATED, {"ETag": tag, "Vary": "Accept", "Cache-Control": "public"})
