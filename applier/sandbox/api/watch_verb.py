"""Verb watch: the changes of selected objects after a given resourceVersion.

A watcher has no queue, only a position in the history of its resource. If the events after the position are gone, the
watcher receives a 410, and the client lists again.

Source: Kubernetes API concepts, "Efficient detection of changes"; KEP-3157 for initial events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress

import orjson

from applier.sandbox.api.options import parse_list_options
from applier.sandbox.api.read_verbs import ObjectPredicate, parse_selection
from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.api.state import ApiState
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.printing.representations import Representation, encode_object
from applier.sandbox.storage.store import StoredObject, StoreEvent
from applier.sandbox.wire import Refusal, expired_refusal

MAX_WATCH_SECONDS, BOOKMARK_INTERVAL_SECONDS = 3600.0, 60.0
"""Longest duration of a watch, and interval between bookmarks of a watch without changes, both in seconds."""


class WatchVerb:
    """Implementation of the verb watch on the objects of an `ApiState`.

    When the server no longer serves the kind of a watch, the watch ends.
    """

    def __init__(self, state: ApiState) -> None:
        self._state = state

    def watch(
        self, kind: ServedKind, request_path: RequestPath, representation: Representation
    ) -> AsyncIterator[bytes]:
        """Return the events as lines of JSON.

        Raises: Refusal (400 or 422 for wrong options, 500 for a malformed resourceVersion) before the first event.
        """
        matches, _ = parse_selection(kind, request_path)
        options = parse_list_options(request_path.query, watching=True)
        cursor = _Cursor(self._state, kind, request_path.namespace, matches, representation)
        if options.send_initial_events or (options.send_initial_events is None and not options.version):
            initial_lines = cursor.take_initial_events(
                with_end_bookmark=options.allow_bookmarks and bool(options.send_initial_events)
            )
        else:
            cursor.position = options.version or self._state.store.version
            initial_lines = []
        timeout_seconds = min(options.timeout_seconds or MAX_WATCH_SECONDS, MAX_WATCH_SECONDS)
        return self._stream(cursor, initial_lines, timeout_seconds=timeout_seconds, bookmarks=options.allow_bookmarks)

    async def _stream(
        self, cursor: _Cursor, initial_lines: list[bytes], *, timeout_seconds: float, bookmarks: bool
    ) -> AsyncIterator[bytes]:
        change_event = asyncio.Event()
        resource_store = self._state.store.resource_store(cursor.kind.resource)
        resource_store.listeners.add(change_event.set)
        loop = asyncio.get_running_loop()
        deadline, next_bookmark = loop.time() + timeout_seconds, loop.time() + BOOKMARK_INTERVAL_SECONDS
        try:
            yield b"".join(initial_lines)
            while self._state.kinds.find(cursor.kind.group, cursor.kind.version, cursor.kind.plural):
                change_event.clear()
                try:
                    lines = b"".join(cursor.take_events())
                except Refusal as refusal:
                    yield _encode_line(b"ERROR", orjson.dumps(refusal.status))
                    return
                if lines:
                    yield lines
                    continue
                if bookmarks and loop.time() >= next_bookmark:
                    next_bookmark = loop.time() + BOOKMARK_INTERVAL_SECONDS
                    yield cursor.encode_bookmark()
                wait_seconds = min(deadline, next_bookmark if bookmarks else deadline) - loop.time()
                if loop.time() >= deadline:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):  # not `wait_for`, which may swallow a cancellation
                        await change_event.wait()
            yield b"".join(cursor.take_events())
        finally:
            resource_store.listeners.discard(change_event.set)


class _Cursor:
    """Position of a watcher in the history of a resource, with the watcher's selection."""

    def __init__(
        self,
        state: ApiState,
        kind: ServedKind,
        namespace: str,
        matches: ObjectPredicate,
        representation: Representation,
    ) -> None:
        self.kind = kind
        self.position = 0
        self._state = state
        self._resource_store = state.store.resource_store(kind.resource)
        self._namespace = namespace
        self._matches = matches
        self._representation = representation

    def take_initial_events(self, *, with_end_bookmark: bool) -> list[bytes]:
        """Return an ADDED event for each object that is in the selection now.

        Args:
            with_end_bookmark: True to append the bookmark that marks the end of the initial events.
        """
        self.position = self._state.store.version
        objects = self._resource_store.sorted_objects(self._namespace)
        lines = [self._encode_event(b"ADDED", stored) for stored in objects if self._matches(stored)]
        if with_end_bookmark:
            lines.append(self.encode_bookmark({"k8s.io/initial-events-end": "true"}))
        return lines

    def take_events(self) -> Iterator[bytes]:
        """Yield the events since the last call, and advance the position.

        Raises: Refusal (410 if the history no longer contains these events).
        """
        if self.position < self._resource_store.compacted_version:
            raise expired_refusal(
                f"too old resource version: {self.position} ({self._resource_store.compacted_version})"
            )
        for event in self._resource_store.events_after(self.position):
            self.position = event.version
            if not self._namespace or event.after.key.namespace == self._namespace:
                yield from self._translate_event(event)
        self.position = max(self.position, self._state.store.version)

    def _translate_event(self, event: StoreEvent) -> Iterator[bytes]:
        """Yield `event` in the form that a watcher with this selection receives.

        If the object enters the selection, the event becomes ADDED. If the object leaves the selection, the event
        becomes DELETED.
        """
        was_selected = event.before is not None and self._matches(event.before)
        is_selected = event.type != "DELETED" and self._matches(event.after)
        if is_selected:
            yield self._encode_event(b"MODIFIED" if was_selected else b"ADDED", event.after)
        elif was_selected:
            yield self._encode_event(
                b"DELETED", event.after if event.type == "DELETED" else _last_selected_state(event)
            )

    def _encode_event(self, event_type: bytes, stored: StoredObject) -> bytes:
        return _encode_line(event_type, encode_object(self.kind, stored, self._representation))

    def encode_bookmark(self, annotations: Mapping[str, str] | None = None) -> bytes:
        metadata = {"resourceVersion": str(self.position)} | ({"annotations": annotations} if annotations else {})
        kind, api_version = self.kind.kind, self.kind.api_version
        if self._representation.shape == "metadata":
            kind, api_version = "PartialObjectMetadata", "meta.k8s.io/v1"
        obj = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        return _encode_line(b"BOOKMARK", orjson.dumps(obj))


def _last_selected_state(event: StoreEvent) -> StoredObject:
    """Return the object before `event`, with the resourceVersion of `event`.

    The event removed the object from the selection.
    """
    assert event.before is not None
    obj = event.before.to_object()
    obj["metadata"]["resourceVersion"] = str(event.version)
    return StoredObject(event.before.key, event.version, event.before.uid, orjson.dumps(obj), event.before.labels)


def _encode_line(event_type: bytes, obj: bytes) -> bytes:
    return b'{"type":"' + event_type + b'","object":' + obj + b"}\n"
