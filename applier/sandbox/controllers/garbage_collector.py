"""Garbage collector and namespace controller, which work in deterministic steps.

Each `tick` processes every pending object once, in order.

Source: Kubernetes, "Garbage Collection"; kube-controller-manager `pkg/controller/garbagecollector` and `namespace`.
"""

from __future__ import annotations

from collections.abc import Iterator

from applier.cluster import Object
from applier.sandbox.api.delete_verbs import DeleteVerbs
from applier.sandbox.api.options import DeleteOptions
from applier.sandbox.api.state import ApiState
from applier.sandbox.controllers.crds import CRD_RESOURCE
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.storage.store import StoredKey, StoredObject

_FOREGROUND_FINALIZER, _ORPHAN_FINALIZER = "foregroundDeletion", "orphan"
_BACKGROUND_DELETION = DeleteOptions(propagation="Background")


class GarbageCollector:
    """Controller that carries out the consequences of deletions.

    The controller keeps the keys of pending objects: terminating namespaces and definitions, and owners that wait for
    their dependents. The uids of removed owners are in `ApiState.removed_uids`.
    """

    def __init__(self, state: ApiState, delete_verbs: DeleteVerbs) -> None:
        self._state = state
        self._delete_verbs = delete_verbs
        self._pending_keys: list[StoredKey] = []

    def enqueue(self, key: StoredKey) -> None:
        """Add `key`, the key of a terminating object, to the pending objects."""
        if key not in self._pending_keys:
            self._pending_keys.append(key)

    def restore(self) -> None:
        """Find the deletions in the store that an earlier process left unfinished."""
        store = self._state.store
        for resource in store.resources():
            for stored in store.resource_store(resource).objects.values():
                if stored.is_deleting:
                    self.enqueue(stored.key)
        self._state.removed_uids += [uid for uid in store.owner_uids() if store.find_by_uid(uid) is None]

    def tick(self) -> bool:
        """Process each pending deletion once, and return whether any object changed."""
        version = self._state.store.version
        removed_uids, self._state.removed_uids = self._state.removed_uids, []
        for uid in removed_uids:
            for kind, dependent in self._dependents(uid):
                self._collect(kind, dependent)
        pending_keys, self._pending_keys = self._pending_keys, []
        for key in pending_keys:
            stored = self._state.store.get(key)
            if stored and stored.is_deleting:
                self._advance(stored)
                if (remaining := self._state.store.get(key)) and remaining.is_deleting and self._has_work(remaining):
                    self.enqueue(key)
        return self._state.store.version != version

    def _dependents(self, uid: str) -> Iterator[tuple[ServedKind, StoredObject]]:
        """Yield the objects of served kinds whose owner references name `uid`.

        The function reads each object immediately before yielding the object.
        """
        for key in self._state.store.dependents(uid):
            kind, stored = self._state.kinds.find_resource(key.resource), self._state.store.get(key)
            if kind and stored:
                yield kind, stored

    def _has_work(self, stored: StoredObject) -> bool:
        if stored.key.resource in ("namespaces", CRD_RESOURCE):
            return True
        finalizers = stored.to_object()["metadata"].get("finalizers") or ()
        return _FOREGROUND_FINALIZER in finalizers or _ORPHAN_FINALIZER in finalizers

    def _advance(self, stored: StoredObject) -> None:
        resource = stored.key.resource
        if resource == "namespaces":
            self._empty_namespace(stored)
        elif resource == CRD_RESOURCE:
            self._empty_definition(stored)
        elif self._state.kinds.find_resource(resource):
            self._propagate(stored)

    # ---- owners and dependents

    def _collect(self, kind: ServedKind, stored: StoredObject) -> None:
        """If all owners of the dependent `stored` are gone, delete the dependent.

        If `stored` still has a live owner, only remove the references to absent owners.
        """
        obj, key = stored.to_object(), stored.key
        owners = obj["metadata"].get("ownerReferences") or []
        live_owners = [owner for owner in owners if self._is_live(owner["uid"], key.namespace)]
        if live_owners:
            if live_owners != owners:
                obj["metadata"]["ownerReferences"] = live_owners
                self._state.write(key, obj)
        elif not stored.is_deleting:
            self._delete(kind, key, _deletion_options(obj))

    def _delete(self, kind: ServedKind, key: StoredKey, options: DeleteOptions) -> None:
        """Delete the object `key`.

        If the garbage collector has to process a finalizer of the object, enqueue the object.
        """
        self._delete_verbs.delete(kind, key.namespace, key.name, options)
        if (remaining := self._state.store.get(key)) and remaining.is_deleting and self._has_work(remaining):
            self.enqueue(key)

    def _is_live(self, uid: str, namespace: str) -> bool:
        """Return whether the owner `uid` exists in `namespace` or in cluster scope."""
        owner = self._state.store.find_by_uid(uid)
        return owner is not None and owner.key.namespace in ("", namespace)

    def _propagate(self, stored: StoredObject) -> None:
        finalizers = stored.to_object()["metadata"].get("finalizers") or []
        if _ORPHAN_FINALIZER in finalizers:
            for _, dependent in self._dependents(stored.uid):
                self._remove_owner_reference(dependent, stored.uid)
            self._remove_finalizer(stored.key, _ORPHAN_FINALIZER)
        elif _FOREGROUND_FINALIZER in finalizers:
            is_blocked = False
            for kind, dependent in self._dependents(stored.uid):
                is_blocked |= self._delete_dependent(kind, dependent, stored.uid)
            if not is_blocked:
                self._remove_finalizer(stored.key, _FOREGROUND_FINALIZER)

    def _delete_dependent(self, kind: ServedKind, stored: StoredObject, owner: str) -> bool:
        """Delete the dependent `stored`, and return whether the owner has to wait until the dependent is gone.

        If `stored` is already terminating, do not change `stored`. If `stored` has other owners too, remove only the
        reference to `owner`.
        """
        key = stored.key
        if not stored.is_deleting and stored.owner_uids == (owner,):
            self._delete(kind, key, DeleteOptions(propagation="Foreground"))
        elif not stored.is_deleting:
            self._remove_owner_reference(stored, owner)
        blocks_owner = any(
            reference["uid"] == owner and reference.get("blockOwnerDeletion")
            for reference in stored.to_object()["metadata"]["ownerReferences"]
        )
        return blocks_owner and self._state.store.get(key) is not None

    def _remove_owner_reference(self, stored: StoredObject, uid: str) -> None:
        obj = stored.to_object()
        remaining_owners = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
        obj["metadata"]["ownerReferences"] = remaining_owners
        if not remaining_owners:
            del obj["metadata"]["ownerReferences"]
        self._state.write(stored.key, obj)

    def _remove_finalizer(self, key: StoredKey, name: str) -> None:
        stored = self._state.store.get(key)
        if stored is None:
            return
        obj = stored.to_object()
        remaining = [finalizer for finalizer in obj["metadata"].get("finalizers") or () if finalizer != name]
        if remaining:
            obj["metadata"]["finalizers"] = remaining
            self._state.write(key, obj)
        else:
            self._state.remove(key)

    # ---- namespaces and definitions

    def _empty_namespace(self, stored: StoredObject) -> None:
        """Delete every object in a Namespace. If no object is left, finish the Namespace.

        If the metadata of the empty Namespace has no finalizers, remove the Namespace. Otherwise remove the finalizers
        of its spec.
        """
        for kind, content in self._list_namespace_content(stored.key.name):
            if not content.is_deleting:
                self._delete_verbs.delete(kind, content.key.namespace, content.key.name, _BACKGROUND_DELETION)
        if self._list_namespace_content(stored.key.name):
            return
        obj = stored.to_object()
        if not obj["metadata"].get("finalizers"):
            self._state.remove(stored.key)
        elif obj["spec"].get("finalizers"):
            obj["spec"]["finalizers"] = []
            self._state.write(stored.key, obj)

    def _list_namespace_content(self, namespace: str) -> list[tuple[ServedKind, StoredObject]]:
        return [
            (kind, stored)
            for resource in self._state.store.resources()
            if (kind := self._state.kinds.find_resource(resource)) and kind.namespaced
            for stored in self._state.store.resource_store(resource).sorted_objects(namespace)
        ]

    def _empty_definition(self, stored: StoredObject) -> None:
        """Delete all objects of a custom kind. `CrdController.reconcile` removes the definition later."""
        spec = stored.to_object()["spec"]
        resource = f"{spec['names']['plural']}.{spec['group']}"
        if kind := self._state.kinds.find_resource(resource):
            custom_objects = self._state.store.resource_store(resource).sorted_objects()
            remaining = [custom_object for custom_object in custom_objects if not custom_object.is_deleting]
            self._delete_verbs.delete_all(kind, remaining, _BACKGROUND_DELETION)


def _deletion_options(obj: Object) -> DeleteOptions:
    """Return the options for the deletion of the dependent `obj`.

    The finalizers of `obj` decide the policy. If no finalizer belongs to a policy, the policy is Background.
    """
    finalizers = obj["metadata"].get("finalizers") or ()
    if _ORPHAN_FINALIZER in finalizers:
        return DeleteOptions(propagation="Orphan")
    return DeleteOptions(propagation="Foreground" if _FOREGROUND_FINALIZER in finalizers else "Background")
