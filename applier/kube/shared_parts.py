"""Shared values for equal parts of the objects that API servers return.

`managedFields` use half of the memory of an object, and are equal in objects of one shape: 10,000 instances have a few
dozen different values. Kinds, namespaces, labels and times also repeat. No code changes an object after the read, so
objects can share equal parts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import orjson

MAX_SHARED_FIELDS: Final = 2048
"""Maximum number of different `fieldsV1` values that the process keeps for sharing. Each object keeps its own
reference, so the limit affects only memory use.
"""

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


def _share_metadata(metadata: dict[str, Any]) -> None:
    _share_strings(metadata, _PLACE)
    if isinstance(labels := metadata.get("labels"), dict):
        _share_strings(labels, labels)
    entries = metadata.get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            _share_strings(entry, entry)
            if isinstance(fields := entry.get("fieldsV1"), dict):
                # orjson parses deeper nesting than it serialises. Fields with such nesting stay unshared.
                with suppress(orjson.JSONEncodeError):
                    entry["fieldsV1"] = _shared_fields(orjson.dumps(fields))


def _share_strings(values: dict[str, Any], names: Iterable[str]) -> None:
    """Intern the strings of `values` with the names `names`.

    Python frees an interned string together with its last reference.
    """
    for name in names:
        if type(value := values.get(name)) is str:
            values[name] = sys.intern(value)


@lru_cache(maxsize=MAX_SHARED_FIELDS)
def _shared_fields(text: bytes) -> Any:
    return orjson.loads(text)
