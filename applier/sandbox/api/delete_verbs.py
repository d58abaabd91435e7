"""Verbs delete (a single object) and deletecollection (all selected objects).

An object with finalizers stays, marked with deletionTimestamp. When a client removes the last finalizer, the server
removes the object. The propagation policies Foreground and Orphan become finalizers of the object, which the garbage
collector processes. As long as the spec of a Namespace has finalizers, the Namespace also stays.
"""

from __future__ import annotations

from applier.cluster import Object
from applier.sandbox.api.options import DeleteOptions
from applier.sandbox.api.state import ApiState, with_type_meta
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.storage.store import StoredObject
from applier.sandbox.wire import Refusal, conflict

_POLICY_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_UNDELETABLE_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class DeleteVerbs:
    """Implementation of the verbs delete and deletecollection on the objects of an `ApiState`."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    def delete(self, kind: ServedKind, namespace: str, name: str, options: DeleteOptions) -> Object:
        """Delete the object `name`.

        If finalizers keep the object, return the object. Otherwise return a Status of success.

        Raises: Refusal (403 if the Namespace may not be deleted, 404 if the object is absent, 409 if a precondition
        fails).
        """
        live = with_type_meta(kind, self._state.find(kind, namespace, name))
        _check_preconditions(kind, live, options)
        if kind.resource == "namespaces" and name in _UNDELETABLE_NAMESPACES:
            message = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            raise Refusal(403, "Forbidden", message, details=kind.subject(name).details())
        return self._mark_or_remove(kind, live, options)

    def _mark_or_remove(self, kind: ServedKind, live: Object, options: DeleteOptions) -> Object:
        metadata = live["metadata"]
        key = kind.key(metadata.get("namespace", ""), metadata["name"])
        finalizers = _select_finalizers(kind, metadata.get("finalizers") or [], options.propagation)
        terminating = self._mark_terminating(kind, live, finalizers)
        if finalizers or has_spec_finalizers(kind, terminating):
            if not options.dry_run and terminating != live:
                self._state.write(key, terminating)
            return terminating
        if not options.dry_run:
            self._state.remove(key)
        details = kind.subject(metadata["name"]).details(uid=metadata["uid"])
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _mark_terminating(self, kind: ServedKind, live: Object, finalizers: list[str]) -> Object:
        metadata = dict(live["metadata"])
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = self._state.now()
            # The real server sets neither a grace period nor a new generation on Namespaces and CRDs.
            if kind.resource not in ("namespaces", "customresourcedefinitions.apiextensions.k8s.io"):
                metadata["deletionGracePeriodSeconds"] = 0
                if "generation" in metadata:
                    metadata["generation"] += 1
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        terminating = {**live, "metadata": metadata}
        if kind.resource == "namespaces":
            terminating["status"] = {**(live.get("status") or {}), "phase": "Terminating"}
        return terminating

    def delete_all(self, kind: ServedKind, stored_objects: list[StoredObject], options: DeleteOptions) -> None:
        for stored in stored_objects:
            if live := self._state.read(kind, stored.key):
                self._mark_or_remove(kind, live, options)


def _check_preconditions(kind: ServedKind, live: Object, options: DeleteOptions) -> None:
    metadata = live["metadata"]
    subject = kind.subject(metadata["name"])
    for expected, field, label, hint in (
        (options.uid, "uid", "UID", "deleted and then recreated"),
        (options.version, "resourceVersion", "ResourceVersion", "modified"),
    ):
        if expected and expected != metadata[field]:
            detail = (
                f"the {label} in the precondition ({expected}) does not match the {label} in record "
                f"({metadata[field]}). The object might have been {hint}"
            )
            raise conflict(subject, detail, content=True)


def _select_finalizers(kind: ServedKind, present: list[str], policy: str) -> list[str]:
    """Return the finalizers that an object with the finalizers `present` has after a deletion with `policy`.

    If `kind` is Namespace or `policy` is empty, the result is `present`. Otherwise the result has the finalizer of
    `policy`, if any, in place of the finalizers of other policies.
    """
    if kind.resource == "namespaces":
        return present
    if policy:
        present = [name for name in present if name not in _POLICY_FINALIZERS.values()]
    if added := _POLICY_FINALIZERS.get(policy):
        return [*present, added]
    return present


def has_spec_finalizers(kind: ServedKind, obj: Object) -> bool:
    """Return whether `obj` is a Namespace with finalizers in its spec."""
    return kind.resource == "namespaces" and bool((obj.get("spec") or {}).get("finalizers"))
