"""What the garbage collector and the namespace controller do, in steps.

Steps are deterministic: objects in order, one pass of each. `tick` is called until nothing changes, or by a clock.
Source: Kubernetes, "Garbage Collection"; kube-controller-manager `pkg/controller/garbagecollector` and `namespace`.
"""

from __future__ import annotations

from typing import Any

from applier.sandbox.api.delete_verbs import DeleteVerbs
from applier.sandbox.api.options import DeleteOptions
from applier.sandbox.api.state import ApiState, with_type_meta
from applier.sandbox.controllers.crds import CRD_RESOURCE as DEFINITIONS
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.storage.store import StoredKey, StoredObject

Object = dict[str, Any]

_FOREGROUND_FINALIZER, _ORPHAN_FINALIZER = "foregroundDeletion", "orphan"
_BACKGROUND_DELETION = DeleteOptions(propagation="Background")


class GarbageCollector:
    """Works on what a deletion left to do: `pending` are namespaces and definitions that are being emptied, owners that
    wait for their dependents, and uids of owners that are gone.
    """

    def __init__(self, state: ApiState, delete_verbs: DeleteVerbs) -> None:
        self._state = state
        self._delete_verbs = delete_verbs
        self._removed_uids: list[str] = []
        self._pending_keys: list[StoredKey] = []

    def enqueue_dependents(self, stored: StoredObject) -> None:
        """An object is gone for good; its dependents are looked at in the next step."""
        if stored.uid not in self._removed_uids:
            self._removed_uids.append(stored.uid)

    def enqueue(self, key: StoredKey) -> None:
        """An object is being deleted and something may have to be done for that."""
        if key not in self._pending_keys:
            self._pending_keys.append(key)

    def restore(self) -> None:
        """Find again, after a start, what an earlier process had left to do."""
        store = self._state.store
        for resource in store.resources():
            for stored in store.resource_store(resource).objects.values():
                if stored.is_deleting:
                    self.enqueue(stored.key)
        self._removed_uids += [uid for uid in store.owner_uids() if store.find_by_uid(uid) is None]

    def tick(self) -> bool:
        """One step; whether it changed anything."""
        version = self._state.store.version
        removed_uids, self._removed_uids = self._removed_uids, []
        for uid in removed_uids:
            for key in self._state.store.dependents(uid):
                self._collect(key)
        pending_keys, self._pending_keys = self._pending_keys, []
        for key in pending_keys:
            stored = self._state.store.get(key)
            if stored and stored.is_deleting:
                self._advance(key)
                if (remaining := self._state.store.get(key)) and remaining.is_deleting and self._has_work(remaining):
                    self.enqueue(key)
        return self._state.store.version != version

    def _kind_of(self, key: StoredKey) -> ServedKind | None:
        return self._state.kinds.find_resource(key.resource)

    def _has_work(self, stored: StoredObject) -> bool:
        if stored.key.resource in ("namespaces", DEFINITIONS):
            return True
        finalizers = stored.to_object()["metadata"].get("finalizers") or ()
        return _FOREGROUND_FINALIZER in finalizers or _ORPHAN_FINALIZER in finalizers

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
        kind, stored = self._kind_of(key), self._state.store.get(key)
        if kind is None or stored is None:
            return
        obj = with_type_meta(kind, stored)
        owners = obj["metadata"].get("ownerReferences") or []
        live_owners = [owner for owner in owners if self._is_live(owner["uid"], key.namespace)]
        if live_owners:
            if live_owners != owners:
                obj["metadata"]["ownerReferences"] = live_owners
                self._state.write(key, obj)
        elif not stored.is_deleting:
            self._delete_verbs.delete(kind, key.namespace, key.name, _deletion_options(obj))

    def _is_live(self, uid: str, namespace: str) -> bool:
        """An owner in another namespace is as good as absent."""
        owner = self._state.store.find_by_uid(uid)
        return owner is not None and owner.key.namespace in ("", namespace)

    def _propagate(self, key: StoredKey) -> None:
        kind, stored = self._kind_of(key), self._state.store.get(key)
        if kind is None or stored is None:
            return
        finalizers = stored.to_object()["metadata"].get("finalizers") or []
        if _ORPHAN_FINALIZER in finalizers:
            for dependent in self._state.store.dependents(stored.uid):
                self._remove_owner_reference(dependent, stored.uid)
            self._remove_finalizer(kind, key, _ORPHAN_FINALIZER)
        elif _FOREGROUND_FINALIZER in finalizers:
            is_blocked = False
            for dependent in self._state.store.dependents(stored.uid):
                is_blocked |= self._delete_dependent(dependent, stored.uid)
            if not is_blocked:
                self._remove_finalizer(kind, key, _FOREGROUND_FINALIZER)

    def _delete_dependent(self, key: StoredKey, owner: str) -> bool:
        """Delete a dependent; whether the owner has to wait until it is gone."""
        kind, stored = self._kind_of(key), self._state.store.get(key)
        if kind is None or stored is None:
            return False
        if not stored.is_deleting and stored.owner_uids == (owner,):
            self._delete_verbs.delete(kind, key.namespace, key.name, DeleteOptions(propagation="Foreground"))
        elif not stored.is_deleting:
            self._remove_owner_reference(key, owner)
        blocks_owner = any(
            reference["uid"] == owner and reference.get("blockOwnerDeletion")
            for reference in stored.to_object()["metadata"]["ownerReferences"]
        )
        return blocks_owner and self._state.store.get(key) is not None

    def _remove_owner_reference(self, key: StoredKey, uid: str) -> None:
        kind, stored = self._kind_of(key), self._state.store.get(key)
        if kind is None or stored is None:
            return
        obj = with_type_meta(kind, stored)
        remaining_owners = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
        obj["metadata"]["ownerReferences"] = remaining_owners
        if not remaining_owners:
            del obj["metadata"]["ownerReferences"]
        self._state.write(key, obj)

    def _remove_finalizer(self, kind: ServedKind, key: StoredKey, name: str) -> None:
        stored = self._state.store.get(key)
        if stored is None:
            return
        obj = with_type_meta(kind, stored)
        remaining = [finalizer for finalizer in obj["metadata"].get("finalizers") or () if finalizer != name]
        if remaining:
            obj["metadata"]["finalizers"] = remaining
            self._state.write(key, obj)
        else:
            removed = self._state.store.remove(key)
            if removed:
                self.enqueue_dependents(removed)

    # ---- namespaces and definitions

    def _empty_namespace(self, key: StoredKey) -> None:
        """Delete all that is in a namespace; without content it loses its own finalizer and goes."""
        content = self._list_namespace_content(key.name)
        for content_kind, content_key in content:
            stored = self._state.store.get(content_key)
            if stored and not stored.is_deleting:
                self._delete_verbs.delete(content_kind, content_key.namespace, content_key.name, _BACKGROUND_DELETION)
        kind = self._kind_of(key)
        stored = self._state.store.get(key)
        if kind is None or stored is None or self._list_namespace_content(key.name):
            return
        obj = with_type_meta(kind, stored)
        obj["spec"]["finalizers"] = []
        if obj["metadata"].get("finalizers"):
            if stored.to_object()["spec"].get("finalizers"):
                self._state.write(key, obj)
        else:
            removed = self._state.store.remove(key)
            if removed:
                self.enqueue_dependents(removed)

    def _list_namespace_content(self, namespace: str) -> list[tuple[ServedKind, StoredKey]]:
        content: list[tuple[ServedKind, StoredKey]] = []
        for resource in self._state.store.resources():
            kind = self._state.kinds.find_resource(resource)
            if kind and kind.namespaced:
                keys = self._state.store.resource_store(resource).keys(namespace)
                content += [(kind, StoredKey(resource, *namespaced_name)) for namespaced_name in keys]
        return content

    def _empty_definition(self, key: StoredKey) -> None:
        """Delete all objects of a custom kind; `Definitions.settle` removes the definition after the last."""
        stored = self._state.store.get(key)
        assert stored is not None
        spec = stored.to_object()["spec"]
        resource = f"{spec['names']['plural']}.{spec['group']}"
        kind = self._state.kinds.find_resource(resource)
        if kind is None:
            return
        for namespaced_name in self._state.store.resource_store(resource).keys(None):
            custom_object = self._state.store.get(StoredKey(resource, *namespaced_name))
            if custom_object and not custom_object.is_deleting:
                self._delete_verbs.delete(kind, *namespaced_name, _BACKGROUND_DELETION)


def _deletion_options(obj: Object) -> DeleteOptions:
    """How a collected dependent is deleted: as its own finalizers say, else in the background."""
    finalizers = obj["metadata"].get("finalizers") or ()
    if _ORPHAN_FINALIZER in finalizers:
        return DeleteOptions(propagation="Orphan")
    return DeleteOptions(propagation="Foreground" if _FOREGROUND_FINALIZER in finalizers else "Background")
