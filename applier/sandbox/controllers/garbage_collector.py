"""What the garbage collector and the namespace controller do, in steps.

Steps are deterministic: objects in order, one pass of each. `tick` is called until nothing changes, or by a clock.
Source: Kubernetes, "Garbage Collection"; kube-controller-manager `pkg/controller/garbagecollector` and `namespace`.
"""

from __future__ import annotations

from typing import Any

from applier.sandbox.api.delete_verbs import DeleteVerbs
from applier.sandbox.api.options import DeleteOptions
from applier.sandbox.api.state import ApiState, opened
from applier.sandbox.controllers.crds import RESOURCE as DEFINITIONS
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.storage.store import StoredKey, StoredObject

Object = dict[str, Any]

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_BACKGROUND = DeleteOptions(propagation="Background")


class Collector:
    """Works on what a deletion left to do: `pending` are namespaces and definitions that are being emptied, owners that
    wait for their dependents, and uids of owners that are gone.
    """

    def __init__(self, state: ApiState, deleting: DeleteVerbs) -> None:
        self._state = state
        self._deleting = deleting
        self._gone: list[str] = []
        self._waiting: list[StoredKey] = []

    def removed(self, stored: StoredObject) -> None:
        """An object is gone for good; its dependents are looked at in the next step."""
        if stored.uid not in self._gone:
            self._gone.append(stored.uid)

    def marked(self, key: StoredKey) -> None:
        """An object is being deleted and something may have to be done for that."""
        if key not in self._waiting:
            self._waiting.append(key)

    def restore(self) -> None:
        """Find again, after a start, what an earlier process had left to do."""
        store = self._state.store
        for resource in store.resources():
            for stored in store.shelf(resource).objects.values():
                if stored.deleting:
                    self.marked(stored.key)
        self._gone += [uid for uid in store.owner_uids() if store.find(uid) is None]

    def tick(self) -> bool:
        """One step; whether it changed anything."""
        version = self._state.store.version
        gone, self._gone = self._gone, []
        for uid in gone:
            for key in self._state.store.dependents(uid):
                self._collect(key)
        waiting, self._waiting = self._waiting, []
        for key in waiting:
            stored = self._state.store.get(key)
            if stored and stored.deleting:
                self._advance(key)
                if (left := self._state.store.get(key)) and left.deleting and self._has_work(left):
                    self.marked(key)
        return self._state.store.version != version

    def _kind(self, key: StoredKey) -> ServedKind | None:
        return self._state.kinds.stored(key.resource)

    def _has_work(self, stored: StoredObject) -> bool:
        if stored.key.resource in ("namespaces", DEFINITIONS):
            return True
        finalizers = stored.object()["metadata"].get("finalizers") or ()
        return _FOREGROUND in finalizers or _ORPHAN in finalizers

    def _advance(self, key: StoredKey) -> None:
        if key.resource == "namespaces":
            self._empty_namespace(key)
        elif key.resource == DEFINITIONS:
            self._empty_definition(key)
        else:
            self._propagate(key)

    # ---- owners and dependents

    def _collect(self, key: StoredKey) -> None:
        """A dependent of an owner that is gone: deleted when no owner is left, else it forgets those that are gone."""
        kind, stored = self._kind(key), self._state.store.get(key)
        if kind is None or stored is None:
            return
        obj = opened(kind, stored)
        owners = obj["metadata"].get("ownerReferences") or []
        live = [owner for owner in owners if self._is_live(owner["uid"], key.namespace)]
        if live:
            if live != owners:
                obj["metadata"]["ownerReferences"] = live
                self._state.write(key, obj)
        elif not stored.deleting:
            self._deleting.delete(kind, key.namespace, key.name, _policy_of(obj))

    def _is_live(self, uid: str, namespace: str) -> bool:
        """An owner in another namespace is as good as absent."""
        owner = self._state.store.find(uid)
        return owner is not None and owner.key.namespace in ("", namespace)

    def _propagate(self, key: StoredKey) -> None:
        kind, stored = self._kind(key), self._state.store.get(key)
        if kind is None or stored is None:
            return
        finalizers = stored.object()["metadata"].get("finalizers") or []
        if _ORPHAN in finalizers:
            for dependent in self._state.store.dependents(stored.uid):
                self._forget_owner(dependent, stored.uid)
            self._drop_finalizer(kind, key, _ORPHAN)
        elif _FOREGROUND in finalizers:
            blocking = False
            for dependent in self._state.store.dependents(stored.uid):
                blocking |= self._delete_first(dependent, stored.uid)
            if not blocking:
                self._drop_finalizer(kind, key, _FOREGROUND)

    def _delete_first(self, key: StoredKey, owner: str) -> bool:
        """Delete a dependent; whether the owner has to wait until it is gone."""
        kind, stored = self._kind(key), self._state.store.get(key)
        if kind is None or stored is None:
            return False
        if not stored.deleting and stored.owners == (owner,):
            self._deleting.delete(kind, key.namespace, key.name, DeleteOptions(propagation="Foreground"))
        elif not stored.deleting:
            self._forget_owner(key, owner)
        blocks = any(
            one["uid"] == owner and one.get("blockOwnerDeletion")
            for one in stored.object()["metadata"]["ownerReferences"]
        )
        return blocks and self._state.store.get(key) is not None

    def _forget_owner(self, key: StoredKey, uid: str) -> None:
        kind, stored = self._kind(key), self._state.store.get(key)
        if kind is None or stored is None:
            return
        obj = opened(kind, stored)
        left = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
        obj["metadata"]["ownerReferences"] = left
        if not left:
            del obj["metadata"]["ownerReferences"]
        self._state.write(key, obj)

    def _drop_finalizer(self, kind: ServedKind, key: StoredKey, name: str) -> None:
        stored = self._state.store.get(key)
        if stored is None:
            return
        obj = opened(kind, stored)
        left = [one for one in obj["metadata"].get("finalizers") or () if one != name]
        if left:
            obj["metadata"]["finalizers"] = left
            self._state.write(key, obj)
        else:
            removed = self._state.store.remove(key)
            if removed:
                self.removed(removed)

    # ---- namespaces and definitions

    def _empty_namespace(self, key: StoredKey) -> None:
        """Delete all that is in a namespace; without content it loses its own finalizer and goes."""
        content = self._content_of(key.name)
        for inner_kind, inner in content:
            stored = self._state.store.get(inner)
            if stored and not stored.deleting:
                self._deleting.delete(inner_kind, inner.namespace, inner.name, _BACKGROUND)
        kind = self._kind(key)
        stored = self._state.store.get(key)
        if kind is None or stored is None or self._content_of(key.name):
            return
        obj = opened(kind, stored)
        obj["spec"]["finalizers"] = []
        if obj["metadata"].get("finalizers"):
            if stored.object()["spec"].get("finalizers"):
                self._state.write(key, obj)
        else:
            removed = self._state.store.remove(key)
            if removed:
                self.removed(removed)

    def _content_of(self, namespace: str) -> list[tuple[ServedKind, StoredKey]]:
        found: list[tuple[ServedKind, StoredKey]] = []
        for resource in self._state.store.resources():
            kind = self._state.kinds.stored(resource)
            if kind and kind.namespaced:
                keys = self._state.store.shelf(resource).keys(namespace)
                found += [(kind, StoredKey(resource, *place)) for place in keys]
        return found

    def _empty_definition(self, key: StoredKey) -> None:
        """Delete all objects of a custom kind; `Definitions.settle` removes the definition after the last."""
        stored = self._state.store.get(key)
        assert stored is not None
        spec = stored.object()["spec"]
        resource = f"{spec['names']['plural']}.{spec['group']}"
        kind = self._state.kinds.stored(resource)
        if kind is None:
            return
        for place in self._state.store.shelf(resource).keys(None):
            found = self._state.store.get(StoredKey(resource, *place))
            if found and not found.deleting:
                self._deleting.delete(kind, *place, _BACKGROUND)


def _policy_of(obj: Object) -> DeleteOptions:
    """How a collected dependent is deleted: as its own finalizers say, else in the background."""
    finalizers = obj["metadata"].get("finalizers") or ()
    if _ORPHAN in finalizers:
        return DeleteOptions(propagation="Orphan")
    return DeleteOptions(propagation="Foreground" if _FOREGROUND in finalizers else "Background")
