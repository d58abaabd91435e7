"""Kinds that a cluster serves, from two requests for aggregated discovery (KEP-3352, Kubernetes 1.30 and later).

The cache keeps an answer until a refresh, which costs two conditional requests. If the answer does not contain a kind,
the next query for the kind refreshes the cache. If the API server of a group does not answer, the group is stale, and
its kinds are unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from applier.cluster import Discovery, Resource
from applier.errors import ClusterError, KindNotServed, Unavailable
from applier.kube.client import ApiRequest, Client, parse_json_object
from renderer.identity import GroupKind

_AGGREGATED = "APIGroupDiscoveryList"
_ACCEPT = f"application/json;g=apidiscovery.k8s.io;v=v2;as={_AGGREGATED},application/json"
"""Media types for discovery. Plain JSON is the fallback for an older server, so that the error message can name the
kind of the returned document.
"""
_ROOTS = ("/api", "/apis")

Document = Mapping[str, Any]


class DiscoveryCache:
    """Cache of the last discovery of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._discovery: Discovery | None = None
        self._pages: dict[str, tuple[str, Discovery]] = {}
        self._lock = asyncio.Lock()
        self._request_count = 0

    async def get_current(self) -> Discovery:
        """Return the cached answer. Concurrent callers share the first request.

        Raises: ClusterError.
        """
        return self._discovery or await self._newer_than(-1)

    async def refresh(self) -> Discovery:
        """Return the answer to a request that begins after this call. Concurrent callers share a request.

        Raises: ClusterError.
        """
        return await self._newer_than(self._request_count)

    async def _newer_than(self, request_count: int) -> Discovery:
        """Return the answer to a request that began after the request with the number `request_count`."""
        async with self._lock:
            if self._discovery is None or self._request_count == request_count:
                self._request_count += 1
                self._discovery = await self._fetch()
            return self._discovery

    async def get_resource(self, kind: GroupKind) -> Resource:
        """Return the resource under which the server serves `kind`. If the cached answer omits `kind`, refresh first.

        Raises: KindNotServed, or Unavailable if the server of the group does not answer.
        """
        resource = (await self.get_current()).resources.get(kind)
        return resource or require_resource(await self.refresh(), kind)

    async def _fetch(self) -> Discovery:
        return merge_discoveries([await self._fetch_root(root) for root in _ROOTS])

    async def _fetch_root(self, path: str) -> Discovery:
        etag, cached_discovery = self._pages.get(path, ("", Discovery({})))
        call = ApiRequest("discover", "GET", path, f"discovery {path}", accept=_ACCEPT, etag=etag)
        answer = await self._client.request(call)
        if answer.status == 304:
            return cached_discovery
        document = parse_json_object(call, answer)
        if document.get("kind") != _AGGREGATED:
            raise ClusterError(
                f"{call.description}: the server answers without aggregated discovery: "
                "Levelgate needs Kubernetes 1.30 or later; upgrade the cluster, "
                "or configure its proxy to forward the header Accept",
                status=answer.status,
            )
        try:
            discovery = parse_aggregated(document)
        except (AttributeError, KeyError, TypeError):
            raise Unavailable(
                f"{call.description}: the answer is malformed, so the kinds of the cluster are not known; "
                "check the aggregated API servers, and the proxies before the API server",
                status=answer.status,
            ) from None
        self._pages[path] = (answer.headers.get("ETag", ""), discovery)
        return discovery


def require_resource(discovery: Discovery, kind: GroupKind) -> Resource:
    """Return the resource under which the server serves `kind`.

    Raises: KindNotServed, or Unavailable if the server of the group does not answer.
    """
    resource = discovery.resources.get(kind)
    if resource:
        return resource
    if kind.group in discovery.stale_groups:
        raise Unavailable(
            f"{kind}: the API server of group {kind.group} does not answer; check its APIService", status=503
        )
    raise KindNotServed(
        f"{kind}: the cluster does not serve this kind; install its CustomResourceDefinition", status=404
    )


def merge_discoveries(parts: Iterable[Discovery]) -> Discovery:
    """Return the union of `parts`. If several parts contain a kind, the first of them decides its preferred version."""
    discoveries = list(parts)
    resources = _preferred_resources(resource for part in discoveries for resource in part.resources.values())
    return Discovery(resources, frozenset().union(*(part.stale_groups for part in discoveries)))


def parse_aggregated(document: Document) -> Discovery:
    """Return the kinds of an `APIGroupDiscoveryList` (apidiscovery.k8s.io/v2)."""
    groups: list[Document] = document.get("items") or []
    stale = frozenset(
        _group_name(group)
        for group in groups
        if any(version.get("freshness") == "Stale" for version in group.get("versions") or [])
    )
    return Discovery(_preferred_resources(_aggregated_resources(groups)), stale)


def _group_name(group: Document) -> str:
    return group.get("metadata", {}).get("name") or ""


def _aggregated_resources(groups: Iterable[Document]) -> Iterator[Resource]:
    for group in groups:
        for version in group.get("versions") or []:
            for entry in version.get("resources") or []:
                kind = (entry.get("responseKind") or {}).get("kind")
                if kind:  # a resource that has only subresources answers no kind of its own
                    yield Resource(
                        _group_name(group),
                        version["version"],
                        kind,
                        entry["resource"],
                        entry.get("scope") == "Namespaced",
                        frozenset(entry.get("verbs") or ()),
                        tuple(entry.get("shortNames") or ()),
                    )


def _preferred_resources(resources: Iterable[Resource]) -> dict[GroupKind, Resource]:
    """Return the first resource of each kind, with the versions of the other resources of this kind.

    The first resource has the preferred version of the server.
    """
    resources_by_kind: dict[GroupKind, list[Resource]] = {}
    for resource in resources:
        resources_by_kind.setdefault(resource.group_kind, []).append(resource)
    return {kind: _merge_versions(served_versions) for kind, served_versions in resources_by_kind.items()}


def _merge_versions(resources: list[Resource]) -> Resource:
    preferred, *_ = resources
    versions = dict.fromkeys(
        version for resource in resources for version in (resource.version, *resource.other_versions)
    )
    del versions[preferred.version]
    return replace(preferred, other_versions=tuple(versions)) if versions else preferred
