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
    """State of an API.

    `clock` returns seconds since 1970, `new_uid` a text that was never used before. `removed_uids` are those of removed
    objects that the garbage collector has not processed yet.
    """

    store: Store
    kinds: KindRegistry
    clock: Callable[[], float]
    new_uid: Callable[[], str]
    removed_uids: list[str] = field(default_factory=list)

    def now(self) -> str:
        """Return the time as objects show it: RFC 3339, UTC, whole seconds."""
        return format_timestamp(int(self.clock()))

    def find(self, kind: ServedKind, namespace: str, name: str) -> StoredObject:
        """Return an object. Raises: Refusal (404)."""
        stored = self.store.get(kind.key(namespace, name))
        if stored is None:
            raise not_found_refusal(kind.subject(name))
        return stored

    def read(self, kind: ServedKind, key: StoredKey) -> Object | None:
        """Return a copy of an object, with the apiVersion of the kind; None where it is absent."""
        stored = self.store.get(key)
        return with_type_meta(kind, stored) if stored else None

    def write(self, key: StoredKey, obj: Object) -> StoredObject:
        """Store an object, and set its resourceVersion."""
        return self.store.put(key, without_type_meta(obj))

    def remove(self, key: StoredKey) -> None:
        """Remove an object for good."""
        if removed := self.store.remove(key):
            self.removed_uids.append(removed.uid)


def with_type_meta(kind: ServedKind, stored: StoredObject) -> Object:
    """Return a stored object with apiVersion and kind, in the version of *kind*."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **stored.to_object()}


def without_type_meta(obj: Object) -> Object:
    """Return the object without apiVersion and kind, with the metadata first."""
    content = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {"metadata": obj["metadata"], **content}


@lru_cache(maxsize=4)
def format_timestamp(seconds: int) -> str:
    """Return a time in seconds since 1970 as RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
