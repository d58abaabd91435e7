"""Watches: what happens to a selection of objects, from a version on.

A watcher holds a position in the history of its resource, and no queue of its own: one that is too slow, like one that
asks for a version whose events are gone, is told so (410) and lists again. Source: Kubernetes API concepts, "Efficient
detection of changes", and KEP-3157 for initial events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress

import orjson

from applier.sandbox.api.options import list_options
from applier.sandbox.api.read_verbs import Match, selection
from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.api.state import ApiState
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.printing.representations import Representation, object_bytes
from applier.sandbox.storage.store import StoredObject, StoreEvent
from applier.sandbox.wire import Refusal, expired

LONGEST, BOOKMARK_EVERY = 3600.0, 60.0
"""Seconds: the most that a watch lasts, and between two bookmarks of one that nothing happens to."""


class WatchVerb:
    """`served` says whether a kind is still served: a watch ends with its kind."""

    def __init__(self, state: ApiState, *, served: Callable[[ServedKind], bool]) -> None:
        self._state = state
        self._served = served

    def watch(self, kind: ServedKind, address: RequestPath, look: Representation) -> AsyncIterator[bytes]:
        """The events, as lines of JSON. Raises Refusal (400, 422, 500) at once."""
        matches, _ = selection(kind, address)
        options = list_options(address.query, watching=True)
        cursor = _Cursor(self._state, kind, address.namespace, matches, look)
        if options.initial or (options.initial is None and not options.version):
            first = cursor.present(mark=options.bookmarks and bool(options.initial))
        else:
            cursor.position = options.version or self._state.store.version
            first = []
        seconds = min(options.seconds or LONGEST, LONGEST)
        return self._stream(cursor, first, seconds=seconds, bookmarks=options.bookmarks)

    async def _stream(
        self, cursor: _Cursor, first: list[bytes], *, seconds: float, bookmarks: bool
    ) -> AsyncIterator[bytes]:
        happened = asyncio.Event()
        shelf = self._state.store.shelf(cursor.kind.resource)
        shelf.listeners.add(happened.set)
        loop = asyncio.get_running_loop()
        end, mark = loop.time() + seconds, loop.time() + BOOKMARK_EVERY
        try:
            yield b"".join(first)
            while self._served(cursor.kind):
                happened.clear()
                try:
                    lines = b"".join(cursor.news())
                except Refusal as refusal:
                    yield _line(b"ERROR", orjson.dumps(refusal.status))
                    return
                if lines:
                    yield lines
                    continue
                if bookmarks and loop.time() >= mark:
                    mark = loop.time() + BOOKMARK_EVERY
                    yield cursor.bookmark()
                wait = min(end, mark if bookmarks else end) - loop.time()
                if loop.time() >= end:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):  # `wait_for` may swallow that somebody ends the watch
                        await happened.wait()
            yield b"".join(cursor.news())
        finally:
            shelf.listeners.discard(happened.set)


class _Cursor:
    """One watcher's place in the history."""

    def __init__(self, state: ApiState, kind: ServedKind, namespace: str, matches: Match, look: Representation) -> None:
        self.kind = kind
        self.position = 0
        self._state = state
        self._shelf = state.store.shelf(kind.resource)
        self._namespace = namespace
        self._matches = matches
        self._look = look

    def present(self, *, mark: bool) -> list[bytes]:
        """What is there, as if just added, and on request the bookmark that ends it."""
        self.position = self._state.store.version
        objects = (self._shelf.objects[key] for key in self._shelf.keys(self._namespace or None))
        lines = [self._event(b"ADDED", stored) for stored in objects if self._matches(stored)]
        if mark:
            lines.append(self.bookmark({"k8s.io/initial-events-end": "true"}))
        return lines

    def news(self) -> Iterator[bytes]:
        """Events since the last call. Raises Refusal (410) where they are gone."""
        if self.position < self._shelf.forgotten:
            raise expired(f"too old resource version: {self.position} ({self._shelf.forgotten})")
        for event in self._shelf.since(self.position):
            self.position = event.version
            if not self._namespace or event.after.key.namespace == self._namespace:
                yield from self._told(event)
        self.position = max(self.position, self._state.store.version)

    def _told(self, event: StoreEvent) -> Iterator[bytes]:
        """An object that comes to be selected is added, one that no longer is deleted."""
        before = event.before is not None and self._matches(event.before)
        after = event.type != "DELETED" and self._matches(event.after)
        if after:
            yield self._event(b"MODIFIED" if before else b"ADDED", event.after)
        elif before:
            yield self._event(b"DELETED", event.after if event.type == "DELETED" else _last_seen(event))

    def _event(self, kind: bytes, stored: StoredObject) -> bytes:
        return _line(kind, object_bytes(self.kind, stored, self._look))

    def bookmark(self, annotations: Mapping[str, str] | None = None) -> bytes:
        metadata = {"resourceVersion": str(self.position)} | ({"annotations": annotations} if annotations else {})
        kind, api_version = self.kind.kind, self.kind.api_version
        if self._look.shape == "metadata":
            kind, api_version = "PartialObjectMetadata", "meta.k8s.io/v1"
        obj = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        return _line(b"BOOKMARK", orjson.dumps(obj))


def _last_seen(event: StoreEvent) -> StoredObject:
    """The object as it was while it was selected, with the version of its leaving."""
    assert event.before is not None
    obj = event.before.object()
    obj["metadata"]["resourceVersion"] = str(event.version)
    return StoredObject(event.before.key, event.version, event.before.uid, orjson.dumps(obj), event.before.labels)


def _line(kind: bytes, obj: bytes) -> bytes:
    return b'{"type":"' + kind + b'","object":' + obj + b"}\n"
