"""Shared values for equal parts of the objects that API servers return.

`managedFields` use half of the memory of an object. The fields are equal in objects of one shape: 10,000 instances have
a few dozen different values. Whole entries are equal in objects that a client writes within one second. Members of one
set have equal labels, and instances of one definition repeat most of their annotations, data and conditions. No code
changes an object after the read, so objects can share equal parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from sys import intern
from typing import Any, Final

import orjson

MAX_SHARED_FIELDS: Final = 2048
"""Maximum number of different `fieldsV1` values that the process keeps for sharing. Each object keeps its own
reference, so the limit affects only memory use.
"""

MAX_SHARED_PARTS: Final = 512
"""Maximum number of different lists of `managedFields`, and of different labels and conditions, that the process keeps
for sharing. The limit is lower, because these parts repeat only in objects that are read or written together.
"""

MAX_SHARED_TEXT: Final = 1024
"""Maximum length of a shared value in annotations and data. A longer text rarely repeats."""

_KIND: Final = ("apiVersion", "kind")
_PLACE: Final = ("namespace", "creationTimestamp")
"""Metadata that repeats between objects. The name, UID and version of an object do not repeat."""


def share_equal_parts(document: dict[str, Any]) -> None:
    """Replace parts of `document`, or of each object in a list `document`, by shared equal values."""
    items = document.get("items")
    for obj in items if isinstance(items, list) else (document,):
        if isinstance(obj, dict):
            _share_strings(obj, _KIND)
            if isinstance(metadata := obj.get("metadata"), dict):
                _share_metadata(metadata)
            if isinstance(data := obj.get("data"), dict):
                _share_texts(data)
            status = obj.get("status")
            if isinstance(status, dict) and isinstance(conditions := status.get("conditions"), list):
                status["conditions"] = [_shared(_shared_part, condition) for condition in conditions]


def _share_metadata(metadata: dict[str, Any]) -> None:
    _share_strings(metadata, _PLACE)
    if isinstance(annotations := metadata.get("annotations"), dict):
        _share_texts(annotations)
    for name, share in _SHARED_METADATA:
        if value := metadata.get(name):
            metadata[name] = _shared(share, value)


def _share_strings(values: dict[str, Any], names: Iterable[str]) -> None:
    """Intern the strings of `values` with the names `names`.

    Python frees an interned string together with its last reference.
    """
    for name in names:
        if type(value := values.get(name)) is str:
            values[name] = intern(value)


def _share_texts(values: dict[str, Any]) -> None:
    """Intern all strings of `values` that are not longer than `MAX_SHARED_TEXT`."""
    for name, value in values.items():
        if type(value) is str and len(value) <= MAX_SHARED_TEXT:
            values[name] = intern(value)


def _shared(share: Callable[[bytes], Any], value: Any) -> Any:
    """Return the result of `share` for the JSON text of `value`.

    orjson parses deeper nesting than it serialises. A value with such nesting stays unshared.
    """
    try:
        return share(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return value


@lru_cache(maxsize=MAX_SHARED_FIELDS)
def _shared_fields(text: bytes) -> Any:
    return orjson.loads(text)


@lru_cache(maxsize=MAX_SHARED_PARTS)
def _shared_part(text: bytes) -> Any:
    """Return labels or a condition, whose strings also repeat in other parts."""
    part = orjson.loads(text)
    if isinstance(part, dict):
        _share_texts(part)
    return part


@lru_cache(maxsize=MAX_SHARED_PARTS)
def _shared_entries(text: bytes) -> Any:
    """Return `managedFields`, whose fields also repeat in lists with other times."""
    entries = orjson.loads(text)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            _share_texts(entry)
            if isinstance(fields := entry.get("fieldsV1"), dict):
                entry["fieldsV1"] = _shared(_shared_fields, fields)
    return entries


_SHARED_METADATA: Final = (("labels", _shared_part), ("managedFields", _shared_entries))
