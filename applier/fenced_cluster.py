"""Cluster that sends writes only for the leader: a fence checks the lease before every write."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field, replace
from datetime import datetime

from applier.cluster import Cluster, ClusterName, Discovery, Object, WatchEvent, WatchTarget
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey


@dataclass
class FencedCluster:
    """Adapter of `applier.cluster.Cluster` that rejects writes while the process is not the leader.

    Reads and dry runs pass.
    """

    cluster: Cluster
    check: Callable[[], None]
    """Function that raises an exception if the process may no longer write. The cluster calls the function before each
    attempt, because the lease may expire between two attempts.
    """
    name: ClusterName = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.cluster.name
        self._checked_cluster = self.cluster.with_write_check(self.check)

    @property
    def server_time(self) -> datetime | None:
        return self.cluster.server_time

    async def discover(self, *, refresh: bool = False) -> Discovery:
        return await self.cluster.discover(refresh=refresh)

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        return await self.cluster.get(key, metadata_only=metadata_only)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]:
        return await self.cluster.list(kind, namespace, selector=selector, metadata_only=metadata_only)

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        return await (self.cluster if dry_run else self._checked_cluster).apply(
            manifest, manager=manager, force=force, dry_run=dry_run, subresource=subresource
        )

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        return await self._checked_cluster.merge(key, patch, manager=manager)

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        await self._checked_cluster.delete(key, uid=uid, resource_version=resource_version, propagation=propagation)

    def with_user(self, user: str) -> Cluster:
        return replace(self, cluster=self.cluster.with_user(user))

    def with_versions(self, versions: Mapping[GroupKind, str]) -> Cluster:
        return replace(self, cluster=self.cluster.with_versions(versions))

    def without_retries(self) -> Cluster:
        return replace(self, cluster=self.cluster.without_retries())

    def with_write_check(self, check: Callable[[], None]) -> Cluster:
        return replace(self, cluster=self.cluster.with_write_check(check))

    def watch(self, subject: WatchTarget) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        return self.cluster.watch(subject)

    async def close(self) -> None:
        await self.cluster.close()
