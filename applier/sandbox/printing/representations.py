"""How objects and lists look on the wire: whole, metadata only, or as a table for people.

Source: Kubernetes API concepts, "Alternate representations of resources". Whole objects are stored bytes with their
apiVersion and kind put in front; nothing is parsed to serve them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import orjson

from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.printing.table import columns_of, row
from applier.sandbox.storage.store import StoredObject
from applier.sandbox.wire import Refusal
from renderer.frozen import dataclass

Shape = Literal["whole", "metadata", "table"]

_ACCEPTED = "application/json"
_SHAPES: dict[str, Shape] = {
    "": "whole",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


@dataclass(frozen=True, slots=True)
class Representation:
    """The shape that a client asks for. `include` says what the rows of a table carry: Metadata, None or Object."""

    shape: Shape = "whole"
    include: str = "Metadata"
    now: float = 0.0


def wanted_shape(accept: str, *, many: bool) -> Shape:
    """The first shape of an Accept header that can be served. Raises Refusal (406)."""
    for media in accept.split(",") if accept.strip() else ["*/*"]:
        kind, *parameters = (part.strip() for part in media.split(";"))
        if kind not in (_ACCEPTED, "*/*", "application/*"):
            continue
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        name = given.get("as", "")
        if name == "PartialObjectMetadataList" and not many:
            raise _wrong_shape(f"you requested {name}, but the requested object is not a list")
        if name == "PartialObjectMetadata" and many:
            raise _wrong_shape(f"you requested {name}, but the requested object is a list")
        if name in _SHAPES and (not name or given.get("g", "meta.k8s.io") == "meta.k8s.io"):
            return _SHAPES[name]
    raise _wrong_shape(f"only the following media types are accepted: {_ACCEPTED}")


def _wrong_shape(message: str) -> Refusal:
    return Refusal(406, "NotAcceptable", message)


def object_bytes(kind: ServedKind, stored: StoredObject, look: Representation) -> bytes:
    """One object by itself."""
    match look.shape:
        case "metadata":
            return _metadata(stored)
        case "table":
            return list_bytes(kind, [stored], look, {"resourceVersion": str(stored.version)})
        case _:
            return kind.prefix + stored.content[1:]


def _metadata(stored: StoredObject) -> bytes:
    found = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": stored.object()["metadata"]}
    return orjson.dumps(found)


def list_bytes(
    kind: ServedKind, items: Iterable[StoredObject], look: Representation, metadata: dict[str, Any]
) -> bytes:
    """A list, with the given metadata of its own."""
    rows: Iterable[bytes]
    match look.shape:
        case "table":
            return _table(kind, items, look, metadata)
        case "metadata":
            head, rows = ("PartialObjectMetadataList", "meta.k8s.io/v1"), map(_metadata, items)
        case _ if kind.custom:
            prefix = kind.prefix
            head, rows = (kind.list_kind, kind.api_version), (prefix + item.content[1:] for item in items)
        case _:
            # Items of built-in lists do not say what they are.
            head, rows = (kind.list_kind, kind.api_version), (item.content for item in items)
    opening = orjson.dumps({"kind": head[0], "apiVersion": head[1], "metadata": metadata})
    return opening[:-1] + b',"items":[' + b",".join(rows) + b"]}"


def _table(kind: ServedKind, items: Iterable[StoredObject], look: Representation, metadata: dict[str, Any]) -> bytes:
    columns = columns_of(kind)
    rows = []
    for item in items:
        obj = item.object()
        match look.include:
            case "Object":
                shown: Any = {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
            case "None":
                shown = None
            case _:
                identity = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
                shown = {**identity, "metadata": obj["metadata"]}
        rows.append({"cells": row(columns, obj, look.now), "object": shown})
    definitions = [column.definition for column in columns]
    table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions}
    return orjson.dumps({**table, "rows": rows})
