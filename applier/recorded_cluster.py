"""Read-only cluster made of objects that a process has read or predicted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from applier.cluster import ClusterName, Discovery, Object, WatchEvent, WatchTarget
from applier.errors import Denied
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.label_selector import LabelSelector


@dataclass
class RecordedCluster:
    """Adapter of `applier.cluster.Cluster` over `objects`. Objects that are not in `objects` are absent.

    Writes and watches raise Denied.
    """

    name: ClusterName
    objects: Mapping[ObjectKey, Object]
    discovery: Discovery

    def __post_init__(self) -> None:
        self._by_kind: dict[GroupKind, list[ObjectKey]] = {}
        for key in self.objects:
            self._by_kind.setdefault(key.group_kind, []).append(key)

    @property
    def server_time(self) -> datetime | None:
        return None

    async def discover(self, *, refresh: bool = False) -> Discovery:
        return self.discovery

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        return self.objects.get(key)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> list[Object]:
        labels = LabelSelector.parse(selector)
        keys = sorted(key for key in self._by_kind.get(kind, ()) if namespace in {None, key.namespace})
        objects = (self.objects[key] for key in keys)
        return [obj for obj in objects if labels.matches(obj["metadata"].get("labels") or {})]

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        raise self._read_only_error()

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        raise self._read_only_error()

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        raise self._read_only_error()

    def with_user(self, user: str) -> RecordedCluster:
        return self  # recorded objects have no access rules

    def with_versions(self, versions: Mapping[GroupKind, str]) -> RecordedCluster:
        return self  # each object is recorded in a single version

    def without_retries(self) -> RecordedCluster:
        return self

    def with_write_check(self, check: Callable[[], None]) -> RecordedCluster:
        return self

    def watch(self, subject: WatchTarget) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        raise self._read_only_error()

    async def close(self) -> None:
        return

    def _read_only_error(self) -> Denied:
        return Denied(f"{self.name} is a snapshot, which cannot be changed; run the command on a cluster")
