"""View of a cluster with only the objects that a person may read, and a record of the rejected reads for reports.

Only commands that display data may use the view. A decision must not use the view, because an unreadable object looks
absent.
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
    """Reject a write, because the view is read-only. Raises: Denied."""
    raise Denied("this cluster is read-only")


@dataclass
class PermittedCluster(FencedCluster):
    """Read-only view of a cluster. If the server rejects a list, the view lists the permitted namespaces."""

    cluster: Cluster
    check: Callable[[], None] = _deny_write
    namespace: str = ""
    """Namespace to list if the server rejects the list of all namespaces.

    If `namespace` is empty, the view lists all namespaces in the records of sources.
    """
    denied: set[ResourceAttributes] = field(default_factory=set)
    """Reads that the server has rejected."""

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        """Return a live object, or None if the object does not exist.

        If the server rejects the read of a record of Levelgate or of a CRD, return None, because these objects only add
        detail.

        Raises: Denied for any other object.
        """
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
        """List objects of a kind. If the server rejects the list of all namespaces, list each candidate namespace.

        If the server rejects every candidate namespace too, record one rejection of the whole list.
        """
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
        """Return sentences that name the missing permissions, or an empty string if no permission is missing."""
        if not self.denied:
            return ""
        permissions = join_names(sorted(map(str, self.denied)), separator="; ")
        return (
            f"Some objects are missing, because you do not have the permissions: {permissions}. "
            "Ask for a role from deploy/people.yaml."
        )

    def append_denials(self, sentence: object) -> str:
        """Return `sentence`, followed by the note on missing permissions."""
        return ". ".join(filter(None, [str(sentence), self.denial_note]))

    async def _candidate_namespaces(self, kind: GroupKind) -> builtins.list[str]:
        """Return the known namespaces that may contain objects of `kind`."""
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
    """Return the namespaces of instances of `kind`, and of ApplySets with members of `kind`.

    If `kind` is None, return the namespaces of all instances and ApplySets.
    """
    return {
        namespace
        for record in records
        for key, scope in record.scopes.items()
        for namespace in (key.namespace, *(scope.namespaces if kind != key.group_kind else ()))
        if kind is None or kind == key.group_kind or kind in scope.kinds
    }
