"""The cluster as a pass left it, from memory: the commands that ask a cluster are asked here, so that the page says what they say.

Nothing is asked of the real one, however many people look. What the pass wrote at its end (statuses, records, the calendar) is computed again, as
it would be written.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

from applier.cluster import Change, ClusterName, Discovery, Object, Subject
from applier.errors import Denied
from gitops.passes.known import Pass
from gitops.passes.statements import source_record, statuses
from gitops.records import calendar
from gitops.records.causes import timestamp
from gitops.records.record import SourceRecord
from gitops.records.rollouts import ROLLOUT, rollout_key
from renderer import keys
from renderer.identity import GroupKind, ObjectKey
from renderer.render import OWN_NAMESPACE, source_parent


class Recorded:
    """See `applier.cluster.Cluster`. What the pass did not read is absent; writing raises Denied."""

    def __init__(self, name: str, found: Pass) -> None:
        self.name = ClusterName(name)
        self._discovery = found.observed.discovery
        self._objects = {**found.observed.objects, **dict(_concluded(found))}

    async def discover(self, *, refresh: bool = False) -> Discovery:
        return self._discovery

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        return self._objects.get(key)

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]:
        return [
            obj
            for key, obj in self._objects.items()
            if key.group_kind == kind and namespace in {None, key.namespace} and _selected(obj, selector)
        ]

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        _refuse()

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        _refuse()

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        _refuse()

    def watch(self, subject: Subject) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        _refuse()

    async def close(self) -> None:
        return


def _refuse() -> NoReturn:
    raise Denied("this is a record of the last pass: it can be read, and nothing else")


def _selected(obj: Object, selector: str) -> bool:
    """By one label, or one label and its value."""
    name, separator, value = selector.partition("=")
    labels = obj["metadata"].get("labels") or {}
    return not selector or (labels.get(name) == value if separator else name in labels)


def _concluded(found: Pass) -> Iterator[tuple[ObjectKey, Object]]:
    """What the pass wrote at its end. Where everything is suspended nothing was written: all stays as it was observed."""
    if found.propagation.stopped or found.now is None:
        return
    for rendered, parent, status in statuses(found.plan, found.sources, found.propagation, found.now):
        yield rendered.parent, {**parent, "status": status}
    for source in found.sources:
        key = source_parent(source.catalog.source)
        if (record := found.observed.objects.get(key)) is not None:
            said = source_record(source, found.plan, SourceRecord.read(record), now=timestamp(found.now))
            yield key, {**record, "data": said.data()}
    for name, state in found.propagation.states.items():
        yield _config_map(rollout_key(name), ROLLOUT, state.data())
    yield _config_map(calendar.KEY, calendar.KEY.name, calendar.published(found.propagation.rules))


def _config_map(key: ObjectKey, record: str, data: dict[str, str]) -> tuple[ObjectKey, Object]:
    metadata = {"name": key.name, "namespace": OWN_NAMESPACE, "labels": {keys.RECORD: record}}
    return key, {"apiVersion": "v1", "kind": key.kind, "metadata": metadata, "data": data}
