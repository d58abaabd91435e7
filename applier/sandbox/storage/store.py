"""Objects of a sandbox, and their recent history.

A `StoredObject` never changes, so readers and watchers share the object. Every write takes the next number of a single
counter as the resourceVersion of the object and the version of the event. The store does not interpret the content of
objects, apart from a few fields of metadata. The cost of an operation depends neither on objects of other kinds nor on
the watchers of other kinds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import takewhile
from typing import NamedTuple

import orjson

from applier.cluster import Object
from renderer.frozen import dataclass

MAX_EVENTS, MAX_EVENT_BYTES = 4096, 16 * 1024 * 1024
"""Limits for the history of a resource: the number of its events, and the size of their objects in bytes."""


class StoredKey(NamedTuple):
    """Key of an object."""

    resource: str
    """Plural with its group, such as `deployments.apps`, for all versions of a kind."""
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    """State of an object at a resourceVersion. The state never changes.

    `labels`, `owner_uids` and `is_deleting` repeat parts of `content`, so that selectors and the garbage collector need
    not parse the content.
    """

    key: StoredKey
    version: int
    uid: str
    content: bytes = field(repr=False)
    """JSON of the object without apiVersion and kind, with the metadata first."""
    labels: Mapping[str, str]
    owner_uids: tuple[str, ...] = ()
    is_deleting: bool = False

    def to_object(self) -> Object:
        """Return a mutable copy of the object, without apiVersion and kind."""
        obj: Object = orjson.loads(self.content)
        return obj


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """Change of an object."""

    version: int
    type: str
    """Type of the change: ADDED, MODIFIED or DELETED."""
    before: StoredObject | None
    """Object before the change. For ADDED, the value is None."""
    after: StoredObject
    """Object after the change. For DELETED, the value is the last state, with the version of the deletion."""


@dataclass(slots=True)
class ResourceStore:
    """Objects of a resource, in the order of namespace and name, and the recent events of the resource."""

    objects: dict[tuple[str, str], StoredObject] = field(default_factory=dict)
    sorted_keys: list[tuple[str, str]] = field(default_factory=list)
    events: deque[StoreEvent] = field(default_factory=deque)
    event_bytes: int = 0
    compacted_version: int = 0
    """Highest version of a dropped event. A watch must start at this version or later."""
    listeners: set[Callable[[], None]] = field(default_factory=set)

    @property
    def latest_version(self) -> int:
        """Return the version of the latest event, even if the history has dropped the event."""
        return self.events[-1].version if self.events else self.compacted_version

    def record(self, event: StoreEvent) -> None:
        """Append `event` to the history, drop events above the limits of the history, and call the listeners."""
        self.events.append(event)
        self.event_bytes += len(event.after.content)
        while len(self.events) > MAX_EVENTS or self.event_bytes > MAX_EVENT_BYTES:
            dropped = self.events.popleft()
            self.event_bytes -= len(dropped.after.content)
            self.compacted_version = dropped.version
        for listener in tuple(self.listeners):
            listener()

    def events_after(self, version: int) -> Iterator[StoreEvent]:
        """Return the events after `version`, with the oldest first.

        The search begins at the end of the history, because most watchers have positions near the end.
        """
        return reversed(list(takewhile(lambda event: event.version > version, reversed(self.events))))

    def sorted_objects(self, namespace: str = "") -> list[StoredObject]:
        """Return the objects of `namespace`, sorted by namespace and name.

        If `namespace` is empty, return all objects.
        """
        start = bisect_left(self.sorted_keys, (namespace, ""))
        # Names are ASCII without DEL, so no name sorts after DEL.
        end = bisect_left(self.sorted_keys, (namespace, "\x7f")) if namespace else len(self.sorted_keys)
        return [self.objects[key] for key in self.sorted_keys[start:end]]


class Store:
    """Objects of all resources, with indexes by uid and by owner.

    Args:
        journal: function that receives every event before the event is visible. If the function raises an exception,
            the write raises the same exception and changes no object.
    """

    def __init__(self, journal: Callable[[StoreEvent], None] | None = None) -> None:
        self.version = 0
        self.journal = journal
        self._compacted_version = 0
        self._resource_stores: dict[str, ResourceStore] = {}
        self._keys_by_uid: dict[str, StoredKey] = {}
        self._dependents: dict[str, set[StoredKey]] = {}

    def resource_store(self, resource: str) -> ResourceStore:
        """Return the store of `resource`, which is empty for a new resource."""
        resource_store = self._resource_stores.get(resource)
        if resource_store is None:
            resource_store = self._resource_stores[resource] = ResourceStore(compacted_version=self._compacted_version)
        return resource_store

    def resources(self) -> list[str]:
        """Return the resources with at least one object."""
        return [name for name, resource_store in self._resource_stores.items() if resource_store.objects]

    def get(self, key: StoredKey) -> StoredObject | None:
        resource_store = self._resource_stores.get(key.resource)
        return resource_store.objects.get(key[1:]) if resource_store else None

    def find_by_uid(self, uid: str) -> StoredObject | None:
        key = self._keys_by_uid.get(uid)
        return self.get(key) if key else None

    def dependents(self, uid: str) -> list[StoredKey]:
        """Return the keys of objects whose owner references name `uid`, in order."""
        return sorted(self._dependents.get(uid, ()))

    def owner_uids(self) -> list[str]:
        """Return all uids that occur in owner references."""
        return list(self._dependents)

    def put(self, key: StoredKey, obj: Object) -> StoredObject:
        """Store `obj` at `key` with the next resourceVersion.

        The store changes `obj` itself, not a copy.
        """
        after = _build_stored_object(key, self.version + 1, obj)
        before = self.get(key)
        self._commit(StoreEvent(after.version, "MODIFIED" if before else "ADDED", before, after))
        return after

    def remove(self, key: StoredKey) -> StoredObject | None:
        """Remove the object at `key`, and return its last state with the version of the removal.

        If the object is absent, return None.
        """
        before = self.get(key)
        if before is None:
            return None
        after = _build_stored_object(key, self.version + 1, before.to_object())
        self._commit(StoreEvent(after.version, "DELETED", before, after))
        return after

    def replace_content(self, key: StoredKey, obj: Object) -> None:
        """Replace the content of an object, but record no event.

        The resourceVersion of the object does not change.
        """
        before = self.get(key)
        assert before is not None
        self._remove_from_indexes(before)
        self._add_to_indexes(_build_stored_object(key, before.version, obj))

    def restore(self, contents: Mapping[StoredKey, bytes], version: int) -> None:
        """Fill an empty store with `contents` at `version`.

        A watch cannot start before `version`.
        """
        assert not self._resource_stores
        self.version = self._compacted_version = version
        for key in sorted(contents):
            obj = orjson.loads(contents[key])
            self._add_to_indexes(_build_stored_object(key, int(obj["metadata"]["resourceVersion"]), obj))

    def _commit(self, event: StoreEvent) -> None:
        if self.journal:
            self.journal(event)
        self.version = event.version
        if event.before:
            self._remove_from_indexes(event.before)
        if event.type != "DELETED":
            self._add_to_indexes(event.after)
        elif event.before:
            resource_store = self.resource_store(event.after.key.resource)
            del resource_store.objects[event.after.key[1:]]
            del resource_store.sorted_keys[bisect_left(resource_store.sorted_keys, event.after.key[1:])]
        self.resource_store(event.after.key.resource).record(event)

    def _add_to_indexes(self, stored: StoredObject) -> None:
        resource_store, namespaced_name = self.resource_store(stored.key.resource), stored.key[1:]
        if namespaced_name not in resource_store.objects:
            insort(resource_store.sorted_keys, namespaced_name)
        resource_store.objects[namespaced_name] = stored
        self._keys_by_uid[stored.uid] = stored.key
        for owner in stored.owner_uids:
            self._dependents.setdefault(owner, set()).add(stored.key)

    def _remove_from_indexes(self, stored: StoredObject) -> None:
        self._keys_by_uid.pop(stored.uid, None)
        for owner in stored.owner_uids:
            dependents = self._dependents[owner]
            dependents.discard(stored.key)
            if not dependents:
                del self._dependents[owner]


def _build_stored_object(key: StoredKey, version: int, obj: Object) -> StoredObject:
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(version)
    return StoredObject(
        key,
        version,
        metadata["uid"],
        orjson.dumps(obj),
        metadata.get("labels") or {},
        # Several owner references may name the same uid.
        tuple({owner["uid"]: None for owner in metadata.get("ownerReferences") or ()}),
        "deletionTimestamp" in metadata,
    )
