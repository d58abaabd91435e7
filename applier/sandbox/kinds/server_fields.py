"""What a client's write does not decide: fields that are the server's own, and what each subresource leaves alone."""

from __future__ import annotations

from typing import Any

from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.kinds.strategies import COUNTED
from applier.sandbox.merge import Reset

Object = dict[str, Any]

SERVERS_OWN = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def within(kind: ServedKind, subresource: str, live: Object, obj: Object, reset: Reset) -> Object:
    """What of a wanted object this address may write: the status of a custom object, else all that is not `reset`."""
    if kind.custom and subresource == "status":
        metadata = {**live["metadata"], "managedFields": obj["metadata"].get("managedFields")}
        found = {**live, "metadata": {name: value for name, value in metadata.items() if value is not None}}
        _restore(found, ("status",), obj)
        return found
    found = {**obj, "metadata": dict(obj["metadata"])}
    for path in reset - {("metadata",)}:
        _restore(found, path, live)
    return found


def _restore(obj: Object, path: tuple[str, ...], live: Object) -> None:
    """Give a field the value that it has in another object; what is above it is `obj`'s own."""
    *above, name = path
    for step in above:
        obj, live = obj[step], live[step]
    if name in live:
        obj[name] = live[name]
    else:
        obj.pop(name, None)


def keep_servers_own(metadata: Object, live: Object) -> None:
    """Give metadata the fields of stored metadata that no client writes."""
    for name in (*SERVERS_OWN, "resourceVersion", "generateName"):
        if name in live:
            metadata[name] = live[name]
        else:
            metadata.pop(name, None)


def counted(kind: ServedKind, obj: Object) -> Object:
    """What the generation counts changes of; a status is content where it cannot be written apart."""
    apart = ("metadata", "status") if "status" in kind.subresources or not kind.custom else ("metadata",)
    found = {name: value for name, value in obj.items() if name not in apart}
    return found | {f"metadata.{name}": obj["metadata"].get(name) for name in COUNTED.get(kind.resource, ())}


_ORDER = (
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


def ordered(metadata: Object) -> Object:
    """Metadata in the order in which the API server writes it."""
    return {name: metadata[name] for name in _ORDER if name in metadata}


def generated_name(prefix: str, uid: str) -> str:
    """`generateName` with five characters that differ from object to object: apimachinery `names.SimpleNameGenerator`."""
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    number = int.from_bytes(uid.encode(), "big") * 2654435761 >> 7
    return prefix[:58] + "".join(alphabet[number // 27**place % 27] for place in range(5))
