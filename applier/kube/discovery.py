"""The kinds that a cluster serves, in two requests: aggregated discovery, which Kubernetes has from 1.30 on (KEP-3352).

An answer is kept until somebody asks for a refresh, which costs two conditional requests. That a kind is missing is
never kept: the next question asks again. A group whose API server does not answer is stale: its kinds are unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from applier.cluster import Discovery, Resource
from applier.errors import ClusterError, KindNotServed, Unavailable
from applier.kube.client import ApiRequest, Client, json_object
from renderer.identity import GroupKind

_AGGREGATED = "APIGroupDiscoveryList"
_ACCEPT = f"application/json;g=apidiscovery.k8s.io;v=v2;as={_AGGREGATED},application/json"
"""The plain form is taken as well: an older server answers with it, so that the error can say what it is."""
_ROOTS = ("/api", "/apis")

Document = Mapping[str, Any]


class DiscoveryCache:
    """The last answer of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: Discovery | None = None
        self._pages: dict[str, tuple[str, Document]] = {}
        self._asking = asyncio.Lock()
        self._started = 0

    async def current(self) -> Discovery:
        """The last answer; those who want the first share it."""
        return self._known or await self._after(-1)

    async def refresh(self) -> Discovery:
        """An answer that was asked for after this call; those who call at once share one."""
        return await self._after(self._started)

    async def _after(self, seen: int) -> Discovery:
        """An answer later than as many as were asked for."""
        async with self._asking:
            if self._known is None or self._started == seen:
                self._started += 1
                self._known = await self._ask()
            return self._known

    async def resource(self, kind: GroupKind) -> Resource:
        """How a kind is served; asks anew if it was not served so far. Raises KindNotServed, or Unavailable where
        that is not known.
        """
        found = (await self.current()).resources.get(kind)
        return found or served(await self.refresh(), kind)

    async def _ask(self) -> Discovery:
        return merged([aggregated(await self._page(root)) for root in _ROOTS])

    async def _page(self, path: str) -> Document:
        etag, kept = self._pages.get(path, ("", {}))
        call = ApiRequest("discover", "GET", path, f"discovery {path}", accept=_ACCEPT, etag=etag)
        answer = await self._client.ask(call)
        if answer.status == 304:
            return kept
        found = json_object(call, answer)
        if found.get("kind") != _AGGREGATED:
            raise ClusterError(
                f"{call.about}: the server answers without aggregated discovery: Levelgate needs Kubernetes 1.30 or later; upgrade the cluster, "
                "or let a proxy before it pass on the header Accept",
                status=answer.status,
            )
        self._pages[path] = (answer.headers.get("ETag", ""), found)
        return found


def served(discovery: Discovery, kind: GroupKind) -> Resource:
    """Raises KindNotServed; Unavailable if the kind's group could not be asked."""
    found = discovery.resources.get(kind)
    if found:
        return found
    if kind.group in discovery.stale:
        raise Unavailable(f"{kind}: the API server of group {kind.group} does not answer: see its APIService")
    raise KindNotServed(
        f"{kind}: the cluster does not serve this kind: is its CustomResourceDefinition installed?", status=404
    )


def merged(parts: Iterable[Discovery]) -> Discovery:
    """One answer of several, the first to name a kind wins."""
    known = list(parts)
    resources = _preferred(resource for part in known for resource in part.resources.values())
    return Discovery(resources, frozenset().union(*(part.stale for part in known)))


def aggregated(document: Document) -> Discovery:
    """From an `APIGroupDiscoveryList` (apidiscovery.k8s.io/v2)."""
    groups: list[Document] = document.get("items") or []
    stale = frozenset(
        _group_name(group)
        for group in groups
        if any(version.get("freshness") == "Stale" for version in group.get("versions") or [])
    )
    return Discovery(_preferred(_aggregated_resources(groups)), stale)


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


def _preferred(resources: Iterable[Resource]) -> dict[GroupKind, Resource]:
    """Per kind the first, which is the one of the version that the server prefers, with the versions of the others."""
    table: dict[GroupKind, list[Resource]] = {}
    for resource in resources:
        table.setdefault(resource.group_kind, []).append(resource)
    return {kind: _in_one(found) for kind, found in table.items()}


def _in_one(found: list[Resource]) -> Resource:
    preferred, *_ = found
    versions = dict.fromkeys(version for one in found for version in (one.version, *one.others))
    del versions[preferred.version]
    return replace(preferred, others=tuple(versions)) if versions else preferred
