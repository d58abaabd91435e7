"""A cluster for somebody who may not read all of it: what may be read is answered, and what may not is kept, to be told.

For commands that show what is. Whoever decides on what a list holds must not use it: here what may not be read looks absent.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Iterable
from dataclasses import field

from applier.cluster import Cluster, Object, ResourceAttributes
from applier.errors import Denied
from applier.fenced_cluster import FencedCluster
from gitops.records.source_record import SourceRecord, read_records
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey
from renderer.kinds import CRD
from renderer.phrasing import join_names

_HTTP_FORBIDDEN = 403


def _deny_write() -> None:
    raise Denied("this cluster is read-only")


@dataclass
class PermittedCluster(FencedCluster):
    """`within` is the namespace that alone is asked for where all at once may not be listed; empty: those that the records of sources name.
    `refused` is what one may not do.
    """

    cluster: Cluster
    check: Callable[[], None] = _deny_write
    namespace: str = ""
    denied: set[ResourceAttributes] = field(default_factory=set)

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        """Raises Denied but for what only explains others: Levelgate's own records, and CRDs."""
        try:
            return await super().get(key, metadata_only=metadata_only)
        except Denied as error:
            if error.status != _HTTP_FORBIDDEN or (key.namespace != OWN_NAMESPACE and key.group_kind != CRD):
                raise
            self.denied |= {await self._permission("get", key.group_kind, key.namespace)}
            return None

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]:
        try:
            return await super().list(kind, namespace, selector=selector, metadata_only=metadata_only)
        except Denied as error:
            if error.status != _HTTP_FORBIDDEN:
                raise
        namespaces = await self._candidate_namespaces(kind) if namespace is None else []
        denied_before = set(self.denied)
        requests = (
            self.list(kind, candidate, selector=selector, metadata_only=metadata_only) for candidate in namespaces
        )
        listed_objects = [obj for objects in await asyncio.gather(*requests) for obj in objects]
        if len(self.denied - denied_before) >= len(namespaces):
            self.denied = denied_before | {await self._permission("list", kind, namespace or "")}
        return listed_objects

    @property
    def denial_note(self) -> str:
        """What is missing for want of rights, in one sentence; empty where nothing is."""
        if not self.denied:
            return ""
        permissions = join_names(sorted(map(str, self.denied)), separator="; ")
        return f"Not everything could be read: you may not {permissions} (deploy/people.yaml has roles)."

    def append_denials(self, sentence: object) -> str:
        """This, and what is missing."""
        return ". ".join(filter(None, [str(sentence), self.denial_note]))

    async def _candidate_namespaces(self, kind: GroupKind) -> builtins.list[str]:
        """Namespaces in which objects of this kind may be."""
        if self.namespace:
            return [self.namespace]
        resource = (await self.discover()).resources.get(kind)
        if resource is None or not resource.namespaced:
            return []
        try:
            records = [record for _, record in await read_records(self.cluster)]
        except Denied:
            return []
        return sorted((_namespaces(records, kind) or _namespaces(records)) - {""})

    async def _permission(self, verb: str, kind: GroupKind, namespace: str) -> ResourceAttributes:
        resource = (await self.discover()).resources.get(kind)
        return ResourceAttributes(kind.group, resource.plural if resource else kind.kind, namespace, verb=verb)


def _namespaces(records: Iterable[SourceRecord], kind: GroupKind | None = None) -> set[str]:
    """Those of the instances of this kind, and of those that have members of it; None: of all instances."""
    return {
        namespace
        for record in records
        for key, scope in record.scopes.items()
        for namespace in (key.namespace, *(scope.namespaces if kind != key.group_kind else ()))
        if kind is None or kind == key.group_kind or kind in scope.kinds
    }
