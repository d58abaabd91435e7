"""Discovery documents: the served kinds in the aggregated and the legacy form, and the version of the server.

Source: Kubernetes, "The Kubernetes API", "Aggregated discovery" (KEP-3352).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from applier.sandbox.kinds.registry import KindRegistry, ServedKind
from applier.sandbox.wire import TEXT, Request, Response, UnknownPathError, json_response

_SUBRESOURCE_VERBS = ["get", "patch", "update"]
"""Verbs of all subresources."""
_SCALE_KIND = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
_AGGREGATED_CONTENT_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class DiscoveryService:
    """Discovery documents, built once for each revision of the registry.

    Args:
        version: version of Kubernetes, such as `v1.36.4`.
    """

    def __init__(self, kinds: KindRegistry, version: str) -> None:
        self._kinds = kinds
        self._version = version
        self._responses: dict[tuple[str, bool], Response] = {}
        self._revision = -1

    def answer(self, request: Request, path: list[str]) -> Response:
        """Return the document at `path`.

        Raises: UnknownPathError if no document has this path.
        """
        if self._revision != self._kinds.revision:
            self._responses, self._revision = {}, self._kinds.revision
        aggregated = "as=APIGroupDiscoveryList" in request.headers.get("accept", "") and len(path) == 1
        key = ("/".join(path), aggregated)
        response = self._responses.get(key)
        if response is None:
            response = self._responses[key] = self._build_response(path, aggregated=aggregated)
        if aggregated and request.headers.get("if-none-match") == response.headers["ETag"]:
            # A 304 repeats the headers, because an HTTP cache updates its stored headers from the 304.
            return Response(304, b"", _AGGREGATED_CONTENT_TYPE, response.headers)
        return response

    def _build_response(self, path: list[str], *, aggregated: bool) -> Response:
        match path:
            case [("api" | "apis") as root] if aggregated:
                groups = [""] if root == "api" else [name for name in self._kinds.groups() if name]
                return _cacheable_response(
                    {
                        "kind": "APIGroupDiscoveryList",
                        "apiVersion": "apidiscovery.k8s.io/v2",
                        "metadata": {},
                        "items": [self._describe_group(name) for name in groups],
                    }
                )
            case ["api"]:
                return json_response({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
            case ["apis"]:
                legacy_groups = [self._describe_legacy_group(name) for name in self._kinds.groups() if name]
                return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": legacy_groups})
            case ["apis", group] if group in self._kinds.groups():
                return json_response({"kind": "APIGroup", "apiVersion": "v1", **self._describe_legacy_group(group)})
            case ["api", version] if version in self._kinds.versions(""):
                return json_response(self._describe_legacy_resources("", version))
            case ["apis", group, version] if version in self._kinds.versions(group):
                return json_response(self._describe_legacy_resources(group, version))
            case ["version"]:
                return json_response(self._describe_server())
            case ["healthz" | "readyz" | "livez"]:
                return Response(200, b"ok", TEXT)
            case _:
                raise UnknownPathError

    def _describe_group(self, group: str) -> dict[str, Any]:
        versions = [
            {
                "version": version,
                "resources": [_describe_resource(kind) for kind in self._kinds.kinds(group, version)],
                "freshness": "Current",
            }
            for version in self._kinds.versions(group)
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}

    def _describe_legacy_group(self, group: str) -> dict[str, Any]:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version} for version in self._kinds.versions(group)
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _describe_legacy_resources(self, group: str, version: str) -> dict[str, Any]:
        resources: list[dict[str, Any]] = []
        for kind in self._kinds.kinds(group, version):
            common_fields = {"singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind}
            optional_names = {"shortNames": kind.short_names, "categories": kind.categories}
            resources.append(
                {"name": kind.plural, **common_fields, "verbs": kind.verbs}
                | {name: values for name, values in optional_names.items() if values}
            )
            for subresource in kind.subresources:
                subresource_fields = {
                    **common_fields,
                    **(_SCALE_KIND if subresource == "scale" else {}),
                    "singularName": "",
                    "verbs": _SUBRESOURCE_VERBS,
                }
                resources.append({"name": f"{kind.plural}/{subresource}", **subresource_fields})
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}

    def _describe_server(self) -> dict[str, str]:
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


def _describe_resource(kind: ServedKind) -> dict[str, Any]:
    identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    subresources = [
        {
            "subresource": name,
            "responseKind": _SCALE_KIND if name == "scale" else identity,
            "verbs": _SUBRESOURCE_VERBS,
        }
        for name in kind.subresources
    ]
    optional_fields = {"shortNames": kind.short_names, "categories": kind.categories, "subresources": subresources}
    return {
        "resource": kind.plural,
        "responseKind": identity,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": kind.verbs,
        **{name: values for name, values in optional_fields.items() if values},
    }


def _cacheable_response(document: Mapping[str, Any]) -> Response:
    body = orjson.dumps(document)
    etag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
    return Response(200, body, _AGGREGATED_CONTENT_TYPE, {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"})
