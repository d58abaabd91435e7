"""Representations of objects and lists on the wire: whole, metadata only, or as a table.

For a whole object, the server sends apiVersion and kind, then the stored bytes, so the server does not parse the
object.

Source: Kubernetes API concepts, "Alternate representations of resources".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import orjson

from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.printing.columns import build_row, columns_of
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
    """Form in which a client requests the answer."""

    shape: Shape = "whole"
    include: str = "Metadata"
    """Content of table rows: Metadata, None or Object."""
    now: float = 0.0
    """Time at which the ages in the table are computed, in seconds after 1970-01-01 00:00 UTC."""


def negotiate_shape(accept: str, *, is_list: bool) -> Shape:
    """Return the first supported shape in the Accept header `accept`.

    Raises: Refusal (406 if the header has no supported shape).
    """
    for media in accept.split(",") if accept.strip() else ["*/*"]:
        kind, *parameters = (part.strip() for part in media.split(";"))
        if kind not in (_ACCEPTED, "*/*", "application/*"):
            continue
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        name = options.get("as", "")
        if name == "PartialObjectMetadataList" and not is_list:
            raise _unacceptable_shape_refusal(f"you requested {name}, but the requested object is not a list")
        if name == "PartialObjectMetadata" and is_list:
            raise _unacceptable_shape_refusal(f"you requested {name}, but the requested object is a list")
        if name in _SHAPES and (not name or options.get("g", "meta.k8s.io") == "meta.k8s.io"):
            return _SHAPES[name]
    raise _unacceptable_shape_refusal(f"only the following media types are accepted: {_ACCEPTED}")


def _unacceptable_shape_refusal(message: str) -> Refusal:
    return Refusal(406, "NotAcceptable", message)


def encode_object(kind: ServedKind, stored: StoredObject, representation: Representation) -> bytes:
    """Return the object `stored` in the form `representation`.

    A table of an object has a single row.
    """
    match representation.shape:
        case "metadata":
            return _encode_metadata(stored)
        case "table":
            return encode_list(kind, [stored], representation, {"resourceVersion": str(stored.version)})
        case _:
            return kind.json_prefix + stored.content[1:]


def _encode_metadata(stored: StoredObject) -> bytes:
    partial_object = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.to_object()["metadata"],
    }
    return orjson.dumps(partial_object)


def encode_list(
    kind: ServedKind, items: Iterable[StoredObject], representation: Representation, metadata: dict[str, Any]
) -> bytes:
    """Return a list of `items` in the form `representation`, with `metadata` as the metadata of the list."""
    rows: Iterable[bytes]
    match representation.shape:
        case "table":
            return _encode_table(kind, items, representation, metadata)
        case "metadata":
            head, rows = ("PartialObjectMetadataList", "meta.k8s.io/v1"), map(_encode_metadata, items)
        case _ if kind.is_custom:
            prefix = kind.json_prefix
            head, rows = (kind.list_kind, kind.api_version), (prefix + item.content[1:] for item in items)
        case _:
            # Items of built-in lists have no apiVersion and kind, because the real server omits both fields.
            head, rows = (kind.list_kind, kind.api_version), (item.content for item in items)
    opening = orjson.dumps({"kind": head[0], "apiVersion": head[1], "metadata": metadata})
    return opening[:-1] + b',"items":[' + b",".join(rows) + b"]}"


def _encode_table(
    kind: ServedKind, items: Iterable[StoredObject], representation: Representation, metadata: dict[str, Any]
) -> bytes:
    columns = columns_of(kind)
    rows = []
    for item in items:
        obj = item.to_object()
        match representation.include:
            case "Object":
                row_object: Any = {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
            case "None":
                row_object = None
            case _:
                identity = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
                row_object = {**identity, "metadata": obj["metadata"]}
        rows.append({"cells": build_row(columns, obj, representation.now), "object": row_object})
    definitions = [column.definition for column in columns]
    table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions}
    return orjson.dumps({**table, "rows": rows})
