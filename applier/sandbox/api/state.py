"""State shared by all verbs: objects, kinds, time and new uids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime
from functools import lru_cache

from applier.cluster import Object
from applier.sandbox.kinds.registry import KindRegistry, ServedKind
from applier.sandbox.storage.store import Store, StoredKey, StoredObject
from applier.sandbox.wire import not_found_refusal
from renderer.frozen import dataclass


@dataclass(slots=True)
class ApiState:
    """Objects and kinds of a sandbox, with the sources of time and uids."""

    store: Store
    kinds: KindRegistry
    clock: Callable[[], float]
    """Function that returns the seconds since 1970-01-01 00:00 UTC."""
    new_uid: Callable[[], str]
    """Function that returns a new uid each time."""
    removed_uids: list[str] = field(default_factory=list)
    """Uids of removed objects that the garbage collector has not processed yet."""

    def now(self) -> str:
        """Return the current time in the form of object timestamps: RFC 3339, UTC, whole seconds."""
        return format_timestamp(int(self.clock()))

    def find(self, kind: ServedKind, namespace: str, name: str) -> StoredObject:
        """Return the stored object `name`.

        Raises: Refusal (404 if the object is absent).
        """
        stored = self.store.get(kind.key(namespace, name))
        if stored is None:
            raise not_found_refusal(kind.subject(name))
        return stored

    def read(self, kind: ServedKind, key: StoredKey) -> Object | None:
        """Return a copy of the object at `key`, with the apiVersion of `kind`, or None if the object is absent."""
        stored = self.store.get(key)
        return with_type_meta(kind, stored) if stored else None

    def write(self, key: StoredKey, obj: Object) -> StoredObject:
        """Store `obj` at `key`, set its resourceVersion, and return the stored object."""
        return self.store.put(key, without_type_meta(obj))

    def remove(self, key: StoredKey) -> None:
        """Remove the object at `key`, regardless of finalizers, and add the uid of the object to `removed_uids`."""
        if removed := self.store.remove(key):
            self.removed_uids.append(removed.uid)


def with_type_meta(kind: ServedKind, stored: StoredObject) -> Object:
    """Return the object in `stored`, with the apiVersion and kind of `kind`."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **stored.to_object()}


def without_type_meta(obj: Object) -> Object:
    """Return `obj` without apiVersion and kind, with the metadata first."""
    content = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {"metadata": obj["metadata"], **content}


@lru_cache(maxsize=4)
def format_timestamp(seconds: int) -> str:
    """Return `seconds` after 1970-01-01 00:00 UTC as an RFC 3339 time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
