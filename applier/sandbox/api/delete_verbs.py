"""Delete one object, or many.

An object with finalizers stays, marked with deletionTimestamp, until the last finalizer is gone. Propagation policies
become finalizers that the garbage collector works on; namespaces and CustomResourceDefinitions have their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from applier.sandbox.api.options import DeleteOptions
from applier.sandbox.api.state import ApiState, opened
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.storage.store import StoredObject
from applier.sandbox.wire import Refusal, conflict, not_found

Object = dict[str, Any]

_OF_POLICY = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_KEPT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class DeleteVerbs:
    """`gone` is told what was removed for good."""

    def __init__(self, state: ApiState, *, gone: Callable[[ServedKind, StoredObject], None]) -> None:
        self._state = state
        self._gone = gone

    def delete(self, kind: ServedKind, namespace: str, name: str, options: DeleteOptions) -> Object:
        """The object that is going away, or a Status that it is gone. Raises Refusal (403, 404, 409)."""
        stored = self._state.store.get(kind.key(namespace, name))
        if stored is None:
            raise not_found(kind.subject(name))
        live = opened(kind, stored)
        _check_preconditions(kind, live, options)
        if kind.resource == "namespaces" and name in _KEPT_NAMESPACES:
            message = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            raise Refusal(403, "Forbidden", message, details=kind.subject(name).details())
        return self._deleted(kind, live, options)

    def _deleted(self, kind: ServedKind, live: Object, options: DeleteOptions) -> Object:
        metadata = live["metadata"]
        key = kind.key(metadata.get("namespace", ""), metadata["name"])
        wanted = _finalizers(kind, metadata.get("finalizers") or [], options.propagation)
        marked = self._marked(kind, live, wanted)
        if wanted or is_held(kind, marked):
            if not options.dry_run and marked != live:
                self._state.write(key, marked)
            return marked
        if not options.dry_run:
            removed = self._state.store.remove(key)
            if removed:
                self._gone(kind, removed)
        details = kind.subject(metadata["name"]).details(uid=metadata["uid"])
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _marked(self, kind: ServedKind, live: Object, finalizers: list[str]) -> Object:
        metadata = dict(live["metadata"])
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = self._state.now()
            # These two have finalizers of their own, and no grace period.
            if kind.resource not in ("namespaces", "customresourcedefinitions.apiextensions.k8s.io"):
                metadata["deletionGracePeriodSeconds"] = 0
                if "generation" in metadata:
                    metadata["generation"] += 1
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        marked = {**live, "metadata": metadata}
        if kind.resource == "namespaces":
            marked["status"] = {**(live.get("status") or {}), "phase": "Terminating"}
        return marked

    def delete_all(self, kind: ServedKind, found: list[StoredObject], options: DeleteOptions) -> None:
        for stored in found:
            live = self._state.store.get(stored.key)
            if live:
                self._deleted(kind, opened(kind, live), options)


def _check_preconditions(kind: ServedKind, live: Object, options: DeleteOptions) -> None:
    metadata = live["metadata"]
    subject = kind.subject(metadata["name"])
    for wanted, field, word, hint in (
        (options.uid, "uid", "UID", "deleted and then recreated"),
        (options.version, "resourceVersion", "ResourceVersion", "modified"),
    ):
        if wanted and wanted != metadata[field]:
            why = (
                f"the {word} in the precondition ({wanted}) does not match the {word} in record ({metadata[field]}). "
                f"The object might have been {hint}"
            )
            raise conflict(subject, why, content=True)


def _finalizers(kind: ServedKind, present: list[str], policy: str) -> list[str]:
    """The finalizers of an object that is to be deleted by a policy; without one those that are there decide."""
    if kind.resource == "namespaces":
        return present
    if policy:
        present = [name for name in present if name not in _OF_POLICY.values()]
    if added := _OF_POLICY.get(policy):
        return [*present, added]
    return present


def is_held(kind: ServedKind, obj: Object) -> bool:
    """Namespaces have finalizers in their spec too."""
    return kind.resource == "namespaces" and bool((obj.get("spec") or {}).get("finalizers"))
