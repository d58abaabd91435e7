"""The metadata of every object: how it is read, and its rules.

Source: apimachinery `pkg/api/validation`; the words are those that users know from kubectl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from applier.sandbox.kinds.names import labels, named, qualified
from applier.sandbox.wire import StatusCause, forbidden, invalid, required, too_long

Object = dict[str, Any]

ANNOTATION_BYTES = 256 * 1024
"""Keys and values of all annotations of one object."""

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_MAPS = ("labels", "annotations")
_TEXTS = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
)
_KNOWN = frozenset(
    {
        *_MAPS,
        *_TEXTS,
        "generation",
        "deletionGracePeriodSeconds",
        "finalizers",
        "ownerReferences",
        "managedFields",
    }
)
_OWNER = frozenset({"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"})


def read(metadata: Any) -> tuple[Object, list[str], str]:
    """Metadata without nulls and unknown fields, the paths of the latter, and why it cannot be read ("" if it can)."""
    if metadata is None:
        return {}, [], ""
    if not isinstance(metadata, dict):
        return {}, [], _mismatch(metadata, "metadata", "v1.ObjectMeta", struct="")
    kept = {name: value for name, value in metadata.items() if value is not None and name in _KNOWN}
    for name in _MAPS:
        if isinstance(texts := kept.get(name), dict):
            kept[name] = {key: "" if text is None else text for key, text in texts.items()}
    unknown = [f"metadata.{name}" for name in metadata if name not in _KNOWN]
    for name, value in kept.items():
        if mistake := _misfit(name, value):
            return {}, [], mistake
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in kept and not kept[name]:
            del kept[name]
    for name in _TEXTS:
        if kept.get(name) == "":
            del kept[name]
    kept.pop("selfLink", None)  # Nothing sets it any more.
    if owners := kept.get("ownerReferences"):
        for index, owner in enumerate(owners):
            unknown += [f"metadata.ownerReferences[{index}].{name}" for name in owner if name not in _OWNER]
        kept["ownerReferences"] = [{name: owner[name] for name in owner if name in _OWNER} for owner in owners]
    return kept, unknown, ""


def drop_repeated_owners(metadata: Object) -> list[str]:
    """Leave one of owner references that are equal; answers the uids of the others."""
    kept: list[Object] = []
    repeated: list[str] = []
    for owner in metadata.get("ownerReferences", ()):
        if owner in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept.append(owner)
    if repeated:
        metadata["ownerReferences"] = kept
    return repeated


def _misfit(name: str, value: Any) -> str:
    match name:
        case "labels" | "annotations":
            if not isinstance(value, dict):
                return _mismatch(value, name, "map[string]string")
            for text in value.values():
                if not isinstance(text, str):
                    return _mismatch(text, name, "string")
        case "finalizers":
            if not isinstance(value, list):
                return _mismatch(value, name, "[]string")
            for text in value:
                if not isinstance(text, str):
                    return _mismatch(text, name, "string")
        case "ownerReferences":
            return _misfit_owners(value)
        case "managedFields":
            if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
                return _mismatch(value, name, "[]v1.ManagedFieldsEntry")
        case "generation" | "deletionGracePeriodSeconds":
            if type(value) is not int:
                return _mismatch(value, name, "int64")
        case _:
            if not isinstance(value, str):
                return _mismatch(value, name, "string")
    return ""


def _misfit_owners(value: Any) -> str:
    if not isinstance(value, list):
        return _mismatch(value, "ownerReferences", "[]v1.OwnerReference")
    for owner in value:
        if not isinstance(owner, dict):
            return _mismatch(owner, "ownerReferences", "v1.OwnerReference")
        for field, text in owner.items():
            if field not in _OWNER:
                continue
            wanted, go = (bool, "bool") if field in ("controller", "blockOwnerDeletion") else (str, "string")
            if text is not None and not isinstance(text, wanted):
                return _mismatch(text, field, go, struct="OwnerReference")
    return ""


def _mismatch(value: Any, field: str, go_type: str, *, struct: str = "ObjectMeta") -> str:
    place = f"{struct}.{field}" if struct else field
    return f"json: cannot unmarshal {go_kind(value)} into Go struct field {place} of type {go_type}"


def go_kind(value: Any) -> str:
    """What Go's JSON decoder calls a value."""
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


def validate(metadata: Object, *, rule: str, standard_finalizers: bool) -> list[StatusCause]:
    """Mistakes of the metadata of an object that is to be stored; `rule` says which names its kind takes.

    Kinds with `standard_finalizers` take no finalizers of one word but Kubernetes' own.
    """
    return [
        *_name(metadata, rule),
        *labels(metadata.get("labels") or {}),
        *_annotations(metadata.get("annotations") or {}),
        *_owners(metadata.get("ownerReferences") or []),
        *_finalizers(metadata.get("finalizers") or [], standard=standard_finalizers),
    ]


def validate_update(metadata: Object, live: Object) -> list[StatusCause]:
    """What of the metadata may not change."""
    found: list[StatusCause] = []
    if "deletionTimestamp" in live:
        before = live.get("finalizers") or []
        if added := [name for name in metadata.get("finalizers") or [] if name not in before]:
            words = ", ".join(f'"{name}"' for name in added)
            found.append(
                forbidden(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{words}}}",
                )
            )
    if metadata.get("uid") != live.get("uid"):
        found.append(invalid("metadata.uid", metadata.get("uid", ""), "field is immutable"))
    return found


def _name(metadata: Object, rule: str) -> Iterator[StatusCause]:
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif rule == "segment":
        if name in (".", "..") or "/" in name or "%" in name:
            yield invalid("metadata.name", name, "may not be '.' or '..', nor contain '/' or '%'")
    else:
        yield from named(name, "metadata.name", rule)


def _annotations(annotations: Mapping[str, str]) -> Iterator[StatusCause]:
    size = 0
    for key, value in annotations.items():
        yield from qualified(key.lower(), "metadata.annotations")
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATION_BYTES:
        yield too_long("metadata.annotations", f"may not be more than {ANNOTATION_BYTES} bytes")


def _owners(owners: list[Object]) -> Iterator[StatusCause]:
    field = "metadata.ownerReferences"
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version or version.count("/") > 1 or version.endswith("/"):
            yield invalid(f"{field}.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield invalid(f"{field}.{name}", owner.get(name, ""), "must not be empty")
        if owner.get("kind") == "Event" and version in ("v1", "events.k8s.io/v1"):
            yield invalid(field, owner, "an Event is disallowed from being an owner")
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        yield invalid(field, owners, "Only one reference can have Controller set to true")


def _finalizers(finalizers: list[str], *, standard: bool) -> Iterator[StatusCause]:
    field = "metadata.finalizers"
    for index, name in enumerate(finalizers):
        yield from qualified(name, field)
        if standard and "/" not in name and name not in _STANDARD_FINALIZERS:
            yield invalid(
                f"{field}[{index}]", name, "name is neither a standard finalizer name nor is it fully qualified"
            )
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield invalid(field, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
