"""Fields that a client's write cannot change: fields of the server, and fields outside of the requested subresource."""

from __future__ import annotations

from applier.cluster import Object
from applier.sandbox.kinds.admission import GENERATION_METADATA
from applier.sandbox.kinds.metadata import METADATA_FIELDS
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.merge import ResetFields

SERVER_FIELDS = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def restrict_to_subresource(
    kind: ServedKind, subresource: str, live: Object, obj: Object, reset_fields: ResetFields
) -> Object:
    """Return `obj` with only the changes that a write to `subresource` may make.

    A write to the status of a custom object may change its status and managedFields. Any other write may change all
    fields outside of `reset_fields`. All other fields equal the fields of `live`.
    """
    if kind.is_custom and subresource == "status":
        metadata = {**live["metadata"], "managedFields": obj["metadata"].get("managedFields")}
        restricted = {**live, "metadata": {name: value for name, value in metadata.items() if value is not None}}
        _restore_field(restricted, ("status",), obj)
        return restricted
    restricted = {**obj, "metadata": dict(obj["metadata"])}
    for path in reset_fields - {("metadata",)}:
        _restore_field(restricted, path, live)
    return restricted


def _restore_field(obj: Object, path: tuple[str, ...], live: Object) -> None:
    """Copy the field at `path` from `live` to `obj`. If `live` lacks the field, remove the field from `obj`."""
    *parents, name = path
    for step in parents:
        obj, live = obj[step], live[step]
    if name in live:
        obj[name] = live[name]
    else:
        obj.pop(name, None)


def keep_server_fields(metadata: Object, live: Object) -> None:
    """Replace the fields of `metadata` that no client may write with the fields of the stored metadata `live`."""
    for name in (*SERVER_FIELDS, "resourceVersion", "generateName"):
        _restore_field(metadata, (name,), live)


def generation_content(kind: ServedKind, obj: Object) -> Object:
    """Return the content of `obj` whose changes increment the generation.

    The status counts only if a custom kind has no status subresource.
    """
    excluded = ("metadata", "status") if "status" in kind.subresources or not kind.is_custom else ("metadata",)
    content = {name: value for name, value in obj.items() if name not in excluded}
    return content | {
        f"metadata.{name}": obj["metadata"].get(name) for name in GENERATION_METADATA.get(kind.resource, ())
    }


def sort_metadata(metadata: Object) -> Object:
    """Return `metadata` in the order in which the API server writes its fields."""
    return {name: metadata[name] for name in METADATA_FIELDS if name in metadata}


def generate_name(prefix: str, uid: str) -> str:
    """Return at most 58 characters of `prefix`, followed by five characters derived from `uid`.

    Source: apiserver `pkg/storage/names`, SimpleNameGenerator.
    """
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    number = int.from_bytes(uid.encode(), "big") * 2654435761 >> 7
    return prefix[:58] + "".join(alphabet[number // 27**position % 27] for position in range(5))
