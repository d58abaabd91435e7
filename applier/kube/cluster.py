"""Implementation of the port `applier.cluster.Cluster` for a real API server. Objects are plain dicts.

Discovery determines the path of each request. If discovery or the server does not know a kind, the cluster refreshes
discovery and repeats the request once. So the cluster finds the kind of a definition that Levelgate applied a moment
ago.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache
from math import inf
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import orjson

from applier.cluster import Discovery, Object, Resource, ResourceAttributes, WatchEvent, WatchTarget, context_name
from applier.errors import ClusterError, Invalid, KindNotServed, NotFound, Unavailable
from applier.kube.client import ApiRequest, Client, copy_with
from applier.kube.discovery import DiscoveryCache, require_resource
from applier.kube.transport_port import Transport
from applier.kube.watch import follow_changes
from applier.token_bucket import Rate
from renderer.identity import GroupKind, ObjectKey, group_kind

T = TypeVar("T")

PAGE_SIZE = 500
"""Maximum number of objects on a page of a list."""

_MAX_LIST_RESTARTS = 3
"""Maximum number of attempts to read a list whose pages expire."""
_GONE_STATUS = 410
_JSON = "application/json"
_APPLY_PATCH, _MERGE_PATCH = "application/apply-patch+yaml", "application/merge-patch+json"
_METADATA_ACCEPT = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{_JSON}"
_METADATA_LIST_ACCEPT = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{_JSON}"
"""Media types for a list of metadata. Plain JSON is the fallback, because some aggregated API servers cannot return
metadata alone and send whole objects.
"""


class KubeCluster:
    """Cluster behind a real API server. See `applier.cluster.Cluster`.

    `name` is the name of the context, and `namespace` is the default namespace of the context. `requests`, `answers`
    and `delayed_requests` are the counts of `applier.kube.client.Client`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        concurrency: int,
        sleep: Callable[[float], Awaitable[None]],
        rng: Callable[[], float],
        unreachable_seconds: float = inf,
        rate: Rate | None = None,
    ) -> None:
        self.name = context_name(transport.name)
        self.namespace = transport.namespace
        self._client = Client(
            transport,
            concurrency=concurrency,
            sleep=sleep,
            rng=rng,
            unreachable_seconds=unreachable_seconds,
            rate=rate,
        )
        self._discovery = DiscoveryCache(self._client)
        self._rng = rng
        self._versions: Mapping[GroupKind, str] = {}

    @property
    def requests(self) -> Counter[str]:
        return self._client.requests

    @property
    def answers(self) -> Counter[tuple[str, int]]:
        return self._client.answers

    @property
    def delayed_requests(self) -> int:
        return self._client.delayed_requests

    @property
    def server_time(self) -> datetime | None:
        return self._client.server_time

    def with_user(self, user: str) -> KubeCluster:
        return copy_with(self, _client=self._client.with_user(user))

    def with_versions(self, versions: Mapping[GroupKind, str]) -> KubeCluster:
        return copy_with(self, _versions=versions)

    def without_retries(self) -> KubeCluster:
        return copy_with(self, _client=self._client.without_retries())

    def with_write_check(self, check: Callable[[], None]) -> KubeCluster:
        return copy_with(self, _client=self._client.with_write_check(check))

    async def discover(self, *, refresh: bool = False) -> Discovery:
        return await (self._discovery.refresh() if refresh else self._discovery.get_current())

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        async def ask(preferred: Resource) -> Object | None:
            resource, accept = self._in_read_version(preferred), _METADATA_ACCEPT if metadata_only else _JSON
            call = _api_request("get", "GET", _object_path(resource, key), subject=key, accept=accept)
            return _set_type(await self._client.request_json(call), resource)

        return await self._request_existing(key.group_kind, ask)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]:
        async def ask(preferred: Resource) -> builtins.list[Object]:
            resource = self._in_read_version(preferred)
            path = _collection_path(resource, namespace)
            accept = _METADATA_LIST_ACCEPT if metadata_only else _JSON
            # The items of a typed list have no kind, and the items of a metadata list have the kind
            # PartialObjectMetadata.
            return [
                _set_type(item, resource) for item in await self._pages(path, kind, selector=selector, accept=accept)
            ]

        return await self._request_served(kind, ask)

    async def _pages(self, path: str, kind: GroupKind, *, selector: str, accept: str) -> builtins.list[Object]:
        """Return the items of all pages.

        If the server drops the listed state before the last page (410), read the list from its start.

        Raises: ClusterError, or Unavailable if the server drops the listed state too often.
        """
        for _ in range(_MAX_LIST_RESTARTS):
            try:
                return await self._read_pages(path, kind, selector=selector, accept=accept)
            except ClusterError as error:
                if error.status != _GONE_STATUS:
                    raise
        raise Unavailable(
            f"list {kind}: the server dropped the list before the last page, {_MAX_LIST_RESTARTS} times; "
            "check the load of the API server",
            status=_GONE_STATUS,
        )

    async def _read_pages(self, path: str, kind: GroupKind, *, selector: str, accept: str) -> builtins.list[Object]:
        items: builtins.list[Object] = []
        query: dict[str, str] = {"limit": str(PAGE_SIZE)} | ({"labelSelector": selector} if selector else {})
        while True:
            page = await self._client.request_json(
                _api_request("list", "GET", f"{path}?{urlencode(query)}", subject=kind, accept=accept)
            )
            items += page.get("items") or []
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return items

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        key = ObjectKey.from_manifest(manifest)
        query, body = _apply_query(manager, force=force, dry_run=dry_run), _encode(manifest, key)

        async def ask(resource: Resource) -> Object:
            # The path must name the API version of the body, which may differ from the version that the server prefers.
            path = _object_path(resource, key, api_version=manifest["apiVersion"], subresource=subresource)
            call = _api_request("apply", "PATCH", f"{path}?{query}", subject=key, body=body, content_type=_APPLY_PATCH)
            return await self._client.request_json(call)

        try:
            return await self._request_served(group_kind(manifest), ask)
        except KindNotServed:
            served_resource = (await self._discovery.get_current()).resources.get(group_kind(manifest))
            if served_resource is None or served_resource.api_version == manifest["apiVersion"]:
                raise
            raise KindNotServed(
                f"apply {key}: the server serves {served_resource.api_version} and not {manifest['apiVersion']}; "
                "write the served version as apiVersion",
                status=404,
            ) from None

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        body = _encode(patch, key)

        async def ask(resource: Resource) -> Object | None:
            path = f"{_object_path(resource, key)}?{urlencode(query)}"
            call = _api_request("merge", "PATCH", path, subject=key, body=body, content_type=_MERGE_PATCH)
            return await self._client.request_json(call)

        return await self._request_existing(key.group_kind, ask)

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": propagation,
        }

        async def ask(resource: Resource) -> None:
            call = _api_request(
                "delete", "DELETE", _object_path(resource, key), subject=key, body=orjson.dumps(options)
            )
            await self._client.request(call)

        await self._request_existing(key.group_kind, ask)  # an absent object needs no deletion

    @asynccontextmanager
    async def watch(self, subject: WatchTarget) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        resource = await self._discovery.get_resource(subject.kind)
        path = _collection_path(resource, subject.namespace)
        query = {"labelSelector": subject.selector} if subject.selector else {}
        query |= {"fieldSelector": f"metadata.name={subject.name}"} if subject.name else {}
        first_page_query = urlencode({**query, "limit": "1"})
        call = _api_request(
            "list", "GET", f"{path}?{first_page_query}", subject=subject.kind, accept=_METADATA_LIST_ACCEPT
        )
        first_page = await self._client.request_json(replace(call, begins_watch=True))

        def call_from(since: str, seconds: int) -> ApiRequest:
            watch_query = {
                "watch": "1",
                "allowWatchBookmarks": "true",
                "resourceVersion": since,
                "timeoutSeconds": seconds,
            }
            return _api_request(
                "watch",
                "GET",
                f"{path}?{urlencode({**query, **watch_query})}",
                subject=subject.kind,
                accept=_METADATA_ACCEPT,
            )

        async with aclosing(
            follow_changes(self._client, call_from, first_page["metadata"]["resourceVersion"], rng=self._rng)
        ) as events:
            yield (WatchEvent(_set_type(event.object, resource), event.deleted) async for event in events)

    async def version(self) -> str:
        """Return the server's Kubernetes version, such as `v1.36.4`.

        Raises: ClusterError.
        """
        info = await self._client.request_json(ApiRequest("get", "GET", "/version", "the version of the server"))
        return str(info.get("gitVersion", ""))

    async def may(self, permission: ResourceAttributes) -> bool:
        """Return whether the server grants `permission` to Levelgate (SelfSubjectAccessReview).

        Raises: ClusterError.
        """
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": permission.attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        call = ApiRequest("review", "POST", path, f"may Levelgate {permission}", body=orjson.dumps(review))
        return (await self._client.request_json(call)).get("status", {}).get("allowed") is True

    async def user(self) -> str:
        """Return the user name by which the server knows Levelgate, such as `system:anonymous` (SelfSubjectReview).

        Raises: ClusterError.
        """
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        call = ApiRequest("review", "POST", path, "own identity", body=orjson.dumps(review))
        info = (await self._client.request_json(call)).get("status", {}).get("userInfo") or {}
        return str(info.get("username", ""))

    async def probe(self) -> int:
        """Return the HTTP status of the answer to one request for `/readyz`.

        Raises: Unavailable, and ConfigurationError if credentials can no longer be read.
        """
        return await self._client.probe()

    async def renew_credentials(self) -> bool:
        """Read changed credentials and use the new credentials from now on. Watches stay open, and caches stay valid.

        If the credentials belong to another server or authority, change nothing and return False.

        Raises: ConfigurationError if the credentials cannot be read. In this case, nothing changes.
        """
        return await self._client.transport.renew()

    async def close(self) -> None:
        await self._client.transport.close()

    def _in_read_version(self, resource: Resource) -> Resource:
        """Return `resource` in the version for reads.

        If the server has the version that `with_versions` set for the kind, use this version. Otherwise use the
        preferred version.
        """
        version = self._versions.get(resource.group_kind)
        return replace(resource, version=version) if version in resource.other_versions else resource

    async def _request_existing(self, kind: GroupKind, ask: Callable[[Resource], Awaitable[T]]) -> T | None:
        """Return the result of the request `ask`, or None if the object does not exist.

        Raises: ClusterError.
        """
        try:
            return await self._request_served(kind, ask)
        except NotFound:
            return None

    async def _request_served(self, kind: GroupKind, ask: Callable[[Resource], Awaitable[T]]) -> T:
        """Return the result of the request `ask`.

        If the cluster does not know `kind`, refresh discovery and send the request again.

        Raises: ClusterError.
        """
        resource = await self._discovery.get_resource(kind)
        try:
            return await ask(resource)
        except KindNotServed:
            return await ask(require_resource(await self._discovery.refresh(), kind))


def _api_request(
    verb: str,
    method: str,
    path: str,
    *,
    subject: ObjectKey | GroupKind,
    accept: str = _JSON,
    content_type: str = _JSON,
    body: bytes | None = None,
) -> ApiRequest:
    return ApiRequest(
        verb,
        method,
        path,
        f"{verb} {subject}",
        is_secret=(subject.group, subject.kind) == ("", "Secret"),
        accept=accept,
        content_type=content_type,
        body=body,
    )


@cache
def _apply_query(manager: str, *, force: bool, dry_run: bool) -> str:
    query = {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}
    return urlencode(query | ({"dryRun": "All"} if dry_run else {}))


def _collection_path(resource: Resource, namespace: str | None, *, api_version: str = "") -> str:
    prefix = "/apis" if resource.group else "/api"
    return _join_path(
        prefix, api_version or resource.api_version, namespace if resource.namespaced else None, resource.plural
    )


@lru_cache(maxsize=4096)
def _join_path(prefix: str, version: str, namespace: str | None, plural: str) -> str:
    namespace_part = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{prefix}/{quote(version)}{namespace_part}/{plural}"


def _object_path(resource: Resource, key: ObjectKey, *, api_version: str = "", subresource: str = "") -> str:
    """Return the path of the object `key`.

    Without the namespace, the path of a namespaced object would be the path of a different resource.

    Raises: Invalid if the kind is namespaced and `key` has no namespace.
    """
    if resource.namespaced and not key.namespace:
        raise Invalid(f"{key}: {resource.kind} is namespaced, and no namespace is given; set metadata.namespace")
    path = f"{_collection_path(resource, key.namespace, api_version=api_version)}/{quote(key.name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def _set_type(item: Object, resource: Resource) -> Object:
    item["apiVersion"], item["kind"] = resource.api_version, resource.kind
    return item


def _encode(manifest: Mapping[str, Any], key: ObjectKey) -> bytes:
    try:
        return orjson.dumps(manifest)
    except TypeError:  # orjson's message may quote the value
        raise Invalid(
            f"{key}: the manifest contains a number beyond 64 bits, or text that is not UTF-8; correct the value"
        ) from None
