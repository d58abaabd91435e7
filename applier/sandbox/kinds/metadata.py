"""Metadata of all objects: decoding and validation.

The error messages are the same as those of the API server.

Source: apimachinery `pkg/api/validation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from applier.cluster import Object
from applier.errors import StatusCause
from applier.sandbox.kinds.names import validate_labels, validate_name, validate_qualified_name
from applier.sandbox.wire import forbidden_field, invalid_value, required_value, too_long_value

MAX_ANNOTATION_BYTES = 256 * 1024
"""Maximum total size of the keys and values of all annotations of an object, in bytes of UTF-8."""

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_MAP_FIELDS = ("labels", "annotations")
METADATA_FIELDS = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
"""Fields of metadata in the order in which the API server writes them."""

_FIELD_TYPES: Mapping[str, tuple[Any, str]] = {
    "labels": (dict, "map[string]string"),
    "annotations": (dict, "map[string]string"),
    "finalizers": (list, "[]string"),
    "ownerReferences": (list, "[]v1.OwnerReference"),
    "managedFields": (list, "[]v1.ManagedFieldsEntry"),
    "generation": (int, "int64"),
    "deletionGracePeriodSeconds": (int, "int64"),
}
"""Types in Python and in Go of the fields that are not strings."""

_KEPT_WHEN_EMPTY = frozenset({"generation", "deletionGracePeriodSeconds", "managedFields"})
_OWNER_FIELDS = frozenset({"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"})


def read_metadata(metadata: Any) -> tuple[Object, list[str], str]:
    """Return `metadata` without nulls and unknown fields, the paths of unknown fields, and an error message.

    If `metadata` is valid, the message is empty. Otherwise the message is the one that Go's JSON decoder gives, and the
    other two results are empty.
    """
    if metadata is None:
        return {}, [], ""
    if not isinstance(metadata, dict):
        return {}, [], _format_type_error(metadata, "metadata", "v1.ObjectMeta", struct="")
    known_metadata = {name: value for name, value in metadata.items() if value is not None and name in METADATA_FIELDS}
    for name in _MAP_FIELDS:
        if isinstance(entries := known_metadata.get(name), dict):
            known_metadata[name] = {key: "" if text is None else text for key, text in entries.items()}
    unknown = [f"metadata.{name}" for name in metadata if name not in METADATA_FIELDS]
    for name, value in known_metadata.items():
        if mistake := _find_type_error(name, value):
            return {}, [], mistake
    known_metadata = {
        name: value
        for name, value in known_metadata.items()
        if (value or name in _KEPT_WHEN_EMPTY) and name != "selfLink"  # Kubernetes has dropped it since 1.24
    }
    if owners := known_metadata.get("ownerReferences"):
        for index, owner in enumerate(owners):
            unknown += [f"metadata.ownerReferences[{index}].{name}" for name in owner if name not in _OWNER_FIELDS]
        known_metadata["ownerReferences"] = [
            {name: owner[name] for name in owner if name in _OWNER_FIELDS} for owner in owners
        ]
    return known_metadata, unknown, ""


def drop_repeated_owners(metadata: Object) -> list[str]:
    """Remove from `metadata` every owner reference that repeats an earlier reference, and return the removed uids."""
    unique_owners: list[Object] = []
    repeated_uids: list[str] = []
    for owner in metadata.get("ownerReferences", ()):
        if owner in unique_owners:
            repeated_uids.append(owner.get("uid", ""))
        else:
            unique_owners.append(owner)
    if repeated_uids:
        metadata["ownerReferences"] = unique_owners
    return repeated_uids


def _find_type_error(name: str, value: Any) -> str:
    expected_type, go_type = _FIELD_TYPES.get(name, (str, "string"))
    if type(value) is not expected_type:
        return _format_type_error(value, name, go_type)
    match name:
        case "labels" | "annotations" | "finalizers":
            texts = value.values() if isinstance(value, dict) else value
            mistakes = (_format_type_error(text, name, "string") for text in texts if not isinstance(text, str))
        case "managedFields" if not all(isinstance(entry, dict) for entry in value):
            return _format_type_error(value, name, go_type)
        case "ownerReferences":
            mistakes = (mistake for owner in value for mistake in _owner_type_errors(owner))
        case _:
            return ""
    return next(mistakes, "")


def _owner_type_errors(owner: Any) -> Iterator[str]:
    if not isinstance(owner, dict):
        yield _format_type_error(owner, "ownerReferences", "v1.OwnerReference")
        return
    for field in (name for name in owner if name in _OWNER_FIELDS):
        expected_type, go_type = (bool, "bool") if field in ("controller", "blockOwnerDeletion") else (str, "string")
        if owner[field] is not None and not isinstance(owner[field], expected_type):
            yield _format_type_error(owner[field], field, go_type, struct="OwnerReference")


def _format_type_error(value: Any, field: str, go_type: str, *, struct: str = "ObjectMeta") -> str:
    go_field = f"{struct}.{field}" if struct else field
    return f"json: cannot unmarshal {go_kind(value)} into Go struct field {go_field} of type {go_type}"


def go_kind(value: Any) -> str:
    """Return the name that messages of Go's JSON decoder use for the JSON type of `value`."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def validate_metadata(metadata: Object, *, rule: str, standard_finalizers: bool) -> list[StatusCause]:
    """Return the status causes of the mistakes in `metadata`.

    Args:
        rule: rule for the name of the object.
        standard_finalizers: True if a finalizer without a domain must be a finalizer of Kubernetes.
    """
    return [
        *_validate_name(metadata, rule),
        *validate_labels(metadata.get("labels") or {}),
        *_validate_annotations(metadata.get("annotations") or {}),
        *_validate_owners(metadata.get("ownerReferences") or []),
        *_validate_finalizers(metadata.get("finalizers") or [], only_standard=standard_finalizers),
    ]


def validate_metadata_update(metadata: Object, live: Object) -> list[StatusCause]:
    """Return the causes of forbidden changes from `live` to `metadata`.

    A client may not change the uid, and may not add finalizers during a deletion.
    """
    mistakes: list[StatusCause] = []
    if "deletionTimestamp" in live:
        old_finalizers = live.get("finalizers") or []
        if added_finalizers := [name for name in metadata.get("finalizers") or [] if name not in old_finalizers]:
            quoted_names = ", ".join(f'"{name}"' for name in added_finalizers)
            mistakes.append(
                forbidden_field(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{quoted_names}}}",
                )
            )
    if metadata.get("uid") != live.get("uid"):
        mistakes.append(invalid_value("metadata.uid", metadata.get("uid", ""), "field is immutable"))
    return mistakes


def _validate_name(metadata: Object, rule: str) -> Iterator[StatusCause]:
    name = metadata.get("name")
    if not name:
        yield required_value("metadata.name", "name or generateName is required")
    elif rule == "segment":
        if name in (".", "..") or "/" in name or "%" in name:
            yield invalid_value("metadata.name", name, "may not be '.' or '..', nor contain '/' or '%'")
    else:
        yield from validate_name(name, "metadata.name", rule)


def _validate_annotations(annotations: Mapping[str, str]) -> Iterator[StatusCause]:
    size = 0
    for key, value in annotations.items():
        yield from validate_qualified_name(key.lower(), "metadata.annotations")
        size += len(key.encode()) + len(value.encode())
    if size > MAX_ANNOTATION_BYTES:
        yield too_long_value("metadata.annotations", f"may not be more than {MAX_ANNOTATION_BYTES} bytes")


def _validate_owners(owners: list[Object]) -> Iterator[StatusCause]:
    field = "metadata.ownerReferences"
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version or version.count("/") > 1 or version.endswith("/"):
            yield invalid_value(f"{field}.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield invalid_value(f"{field}.{name}", owner.get(name, ""), "must not be empty")
        if owner.get("kind") == "Event" and version in ("v1", "events.k8s.io/v1"):
            yield invalid_value(field, owner, "an Event is disallowed from being an owner")
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        yield invalid_value(field, owners, "Only one reference can have Controller set to true")


def _validate_finalizers(finalizers: list[str], *, only_standard: bool) -> Iterator[StatusCause]:
    field = "metadata.finalizers"
    for index, name in enumerate(finalizers):
        yield from validate_qualified_name(name, field)
        if only_standard and "/" not in name and name not in _STANDARD_FINALIZERS:
            yield invalid_value(
                f"{field}[{index}]", name, "name is neither a standard finalizer name nor is it fully qualified"
            )
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield invalid_value(field, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
