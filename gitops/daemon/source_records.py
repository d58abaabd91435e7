"""What the records of sources in the cluster say before a pass has read them, and what is told there where no pass is run.

A person's word counts from the start: a source that is pinned is not fetched otherwise first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Final

from applier.cluster import CONTENT_MANAGER, STATUS_MANAGER, Cluster, Object
from applier.errors import ClusterError
from applier.state.observed import annotation
from gitops.clock import Clock
from gitops.errors import SourceError
from gitops.reconcile.context import ReconcileResult
from gitops.records.cause_rows import MAX_MESSAGE_CHARACTERS
from gitops.records.installation import ensure_namespace
from gitops.records.instance_state import describe_suspension
from gitops.records.source_record import UnreadableSource, initial_source_body, is_approval
from gitops.records.source_requests import Pin, pin_of
from gitops.timestamps import timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import source_parent

_NUMBER: Final = re.compile(r"\d+")


@dataclass(slots=True)
class SourceRecords:
    """Of the sources of one cluster."""

    cluster: Cluster
    clock: Clock
    _pins: dict[str, Pin | None] = field(default_factory=dict)
    _first_lookups: dict[str, Object | None] = field(default_factory=dict)
    _reported: dict[str, UnreadableSource | None] = field(default_factory=dict)

    async def load_missing(self, sources: Iterable[str]) -> None:
        """Look up those that no pass has seen yet."""
        for name in sources:
            if name not in self._pins:
                try:
                    record = self._first_lookups[name] = await self.cluster.get(source_parent(name))
                except ClusterError:
                    continue  # the pass will say what is wrong with the cluster
                self._pins[name] = pin_of(record, self.clock.now())
                self._reported[name] = UnreadableSource.from_record(record) if record else None

    async def get_record(self, source: str) -> Object | None:
        """As it was looked up before anything else, once, else as it is now. Raises ClusterError."""
        if source in self._first_lookups:
            return self._first_lookups.pop(source)
        return await self.cluster.get(source_parent(source))

    def pin(self, source: str) -> Pin | None:
        """The one that held when it was last looked at."""
        return self._pins.get(source)

    @property
    def next_pin_expiry(self) -> datetime | None:
        """When the next pin ends by itself."""
        return min((pin.until for pin in self._pins.values() if pin and pin.until), default=None)

    def find_changed_pins(self, sources: Iterable[str], result: ReconcileResult) -> set[str]:
        """Those of which this pass has seen that a pin began, ended or was changed."""
        changed_sources = set[str]()
        for name in self._pins.keys() & set(sources):
            if not result.observed.is_known(source_parent(name)):
                del self._pins[name]  # a pass without this source has not looked; who asks its server does
                continue
            pin = pin_of(result.observed.objects.get(source_parent(name)), self.clock.now())
            if pin != self._pins[name]:
                self._pins[name] = pin
                changed_sources.add(name)
        return changed_sources

    async def expire_approval(self, source: str, record: Object | None, previous_commit: str, commit: str) -> None:
        """An approval of a commit ends when the source goes on from it: who sets the server back to it asks again. Raises ClusterError."""
        approval = annotation(record, well_known.APPROVED_COMMIT) if record else ""
        if (
            previous_commit == commit
            or not is_approval(approval, previous_commit)
            or await describe_suspension(self.cluster, self.clock.now())
        ):
            return
        await self._annotate(source, well_known.APPROVED_COMMIT, None)

    async def report_error(self, source: str, error: SourceError | None) -> None:
        """Say that a source cannot be read, or that it can again: whoever asks the cluster is to know how old the news is."""
        previous = self._reported.get(source)
        since = previous.since if previous else timestamp(self.clock.now())
        unreadable = UnreadableSource(since, str(error)[:MAX_MESSAGE_CHARACTERS]) if error else None
        if unreadable == previous or (unreadable and previous and is_same_message(unreadable.why, previous.why)):
            return
        with suppress(ClusterError):  # it is tried again when the server is asked the next time
            if await describe_suspension(self.cluster, self.clock.now()):
                return
            if unreadable:
                await self._ensure_parent(source)
            if await self._annotate(source, well_known.UNREADABLE, unreadable.encode() if unreadable else None):
                self._reported[source] = unreadable

    async def _ensure_parent(self, source: str) -> None:
        """There is an object that tells of the source, and that people can answer, also before anything of it was taken."""
        key = source_parent(source)
        if await self.cluster.get(key, metadata_only=True) is None:
            await ensure_namespace(self.cluster)
            await self.cluster.apply(initial_source_body(source), manager=CONTENT_MANAGER)

    async def _annotate(self, source: str, key: str, value: str | None) -> Object | None:
        patch = {"metadata": {"annotations": {key: value}}}
        return await self.cluster.merge(source_parent(source), patch, manager=STATUS_MANAGER)


def is_same_message(first: str, second: str) -> bool:
    """Do they say the same, but for numbers? How many bytes were missing is no news, and news costs a write and a pass."""
    return _NUMBER.sub("0", first) == _NUMBER.sub("0", second)
