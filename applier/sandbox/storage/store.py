"""The objects, and what happened to them lately.

Invariants: a `Stored` value never changes, so readers and watchers share it. Every write takes the next number of one
counter; that number is the object's resourceVersion and the version of its event. Nothing here knows what an object
means. Cost of an operation does not depend on the number of objects of other kinds, nor on their watchers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

import orjson

from renderer.frozen import dataclass

Object = dict[str, Any]

EVENTS, EVENT_BYTES = 4096, 16 * 1024 * 1024
"""History of one resource that watches can go back to: events, and bytes of their objects."""


class StoredKey(NamedTuple):
    """Where an object is; `resource` is the plural with its group (`deployments.apps`), whatever the version."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as of one version. `content` is its JSON without apiVersion and kind, beginning with the metadata.

    What selectors and the garbage collector ask for is kept beside it: `labels`, `owners` (uids) and `deleting`.
    """

    key: StoredKey
    version: int
    uid: str
    content: bytes = field(repr=False)
    labels: Mapping[str, str]
    owners: tuple[str, ...] = ()
    deleting: bool = False

    def object(self) -> Object:
        """A copy to work on, without apiVersion and kind."""
        obj: Object = orjson.loads(self.content)
        return obj


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """`type` is ADDED, MODIFIED or DELETED; `before` is None for ADDED; `after` of DELETED is the last state, with the
    version of the deletion.
    """

    version: int
    type: str
    before: StoredObject | None
    after: StoredObject


@dataclass(slots=True)
class Shelf:
    """All objects of one resource, in the order of namespace and name, and its latest events."""

    objects: dict[tuple[str, str], StoredObject] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)
    events: deque[StoreEvent] = field(default_factory=deque)
    event_bytes: int = 0
    forgotten: int = 0
    """Versions up to this one cannot be watched from: their events are gone."""
    listeners: set[Callable[[], None]] = field(default_factory=set)

    def record(self, event: StoreEvent) -> None:
        self.events.append(event)
        self.event_bytes += len(event.after.content)
        while len(self.events) > EVENTS or self.event_bytes > EVENT_BYTES:
            dropped = self.events.popleft()
            self.event_bytes -= len(dropped.after.content)
            self.forgotten = dropped.version
        for listener in tuple(self.listeners):
            listener()

    def since(self, version: int) -> Iterator[StoreEvent]:
        """Events after a version, oldest first; found from the end, where watchers mostly are."""
        newer = 0
        for event in reversed(self.events):
            if event.version <= version:
                break
            newer += 1
        return iter([self.events[index] for index in range(len(self.events) - newer, len(self.events))])

    def keys(self, namespace: str | None, after: tuple[str, str] = ("", "")) -> list[tuple[str, str]]:
        """Keys in order, of one namespace or (None) of all, greater than `after`."""
        start = bisect_left(self.order, max(after, (namespace or "", "")))
        if start < len(self.order) and self.order[start] == after:
            start += 1
        # No name sorts after this: names are ASCII.
        end = len(self.order) if namespace is None else bisect_left(self.order, (namespace, "\x7f"))
        return self.order[start:end]


class Store:
    """See the module. `journal` is told of every event before anybody can see it, so that it can be made durable; what it
    raises, the write raises, and nothing has happened.
    """

    def __init__(self, journal: Callable[[StoreEvent], None] | None = None) -> None:
        self.version = 0
        self.journal = journal
        self._forgotten = 0
        self._shelves: dict[str, Shelf] = {}
        self._by_uid: dict[str, StoredKey] = {}
        self._dependents: dict[str, set[StoredKey]] = {}

    def shelf(self, resource: str) -> Shelf:
        """The objects of a resource, none if it is new."""
        found = self._shelves.get(resource)
        if found is None:
            found = self._shelves[resource] = Shelf(forgotten=self._forgotten)
        return found

    def resources(self) -> list[str]:
        """Resources with at least one object."""
        return [name for name, shelf in self._shelves.items() if shelf.objects]

    def get(self, key: StoredKey) -> StoredObject | None:
        shelf = self._shelves.get(key.resource)
        return shelf.objects.get(key[1:]) if shelf else None

    def find(self, uid: str) -> StoredObject | None:
        key = self._by_uid.get(uid)
        return self.get(key) if key else None

    def dependents(self, uid: str) -> list[StoredKey]:
        """Objects whose owner references name this uid, in order."""
        return sorted(self._dependents.get(uid, ()))

    def owner_uids(self) -> list[str]:
        """Every uid that an owner reference names."""
        return list(self._dependents)

    def put(self, key: StoredKey, obj: Object) -> StoredObject:
        """Store an object (taken over, not copied) with the next version in its metadata."""
        after = _stored(key, self.version + 1, obj)
        before = self.get(key)
        self._commit(StoreEvent(after.version, "MODIFIED" if before else "ADDED", before, after))
        return after

    def remove(self, key: StoredKey) -> StoredObject | None:
        """Remove an object; answers its last state, with the version of the removal."""
        before = self.get(key)
        if before is None:
            return None
        after = _stored(key, self.version + 1, before.object())
        self._commit(StoreEvent(after.version, "DELETED", before, after))
        return after

    def reread(self, key: StoredKey, obj: Object) -> None:
        """Show an object otherwise from now on: nothing is written, its version stays, and nobody is told."""
        before = self.get(key)
        assert before is not None
        self._displace(before)
        self._place(_stored(key, before.version, obj))

    def restore(self, contents: Mapping[StoredKey, bytes], version: int) -> None:
        """Fill an empty store with what a journal kept; no watch can go back behind `version`."""
        assert not self._shelves
        self.version = self._forgotten = version
        for key in sorted(contents):
            obj = orjson.loads(contents[key])
            self._place(_stored(key, int(obj["metadata"]["resourceVersion"]), obj))

    def _commit(self, event: StoreEvent) -> None:
        if self.journal:
            self.journal(event)
        self.version = event.version
        if event.before:
            self._displace(event.before)
        if event.type != "DELETED":
            self._place(event.after)
        elif event.before:
            shelf = self.shelf(event.after.key.resource)
            del shelf.objects[event.after.key[1:]]
            del shelf.order[bisect_left(shelf.order, event.after.key[1:])]
        self.shelf(event.after.key.resource).record(event)

    def _place(self, stored: StoredObject) -> None:
        shelf, place = self.shelf(stored.key.resource), stored.key[1:]
        if place not in shelf.objects:
            insort(shelf.order, place)
        shelf.objects[place] = stored
        self._by_uid[stored.uid] = stored.key
        for owner in stored.owners:
            self._dependents.setdefault(owner, set()).add(stored.key)

    def _displace(self, stored: StoredObject) -> None:
        self._by_uid.pop(stored.uid, None)
        for owner in stored.owners:
            rest = self._dependents[owner]
            rest.discard(stored.key)
            if not rest:
                del self._dependents[owner]


def _stored(key: StoredKey, version: int, obj: Object) -> StoredObject:
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(version)
    return StoredObject(
        key,
        version,
        metadata["uid"],
        orjson.dumps(obj),
        metadata.get("labels") or {},
        # References that differ otherwise may name one uid.
        tuple({owner["uid"]: None for owner in metadata.get("ownerReferences") or ()}),
        "deletionTimestamp" in metadata,
    )
