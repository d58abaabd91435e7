"""Comparison of a manifest with the object that the API server stores.

This module computes the normal form and the hash of a manifest. This module also decides whether a live object comes
from a manifest.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from renderer import well_known
from renderer.identity import Manifest, digest, group_kind
from renderer.kinds import SECRET

_SERVER_FIELDS = frozenset(
    "creationTimestamp deletionTimestamp deletionGracePeriodSeconds resourceVersion uid selfLink "
    "generation managedFields".split()
)


def render_hash(manifest: Manifest) -> str:
    """Return the hash of `manifest`, 32 hexadecimal digits. The hash of a Secret leaves out the Secret's values.

    The hash becomes an annotation, which every reader of metadata can read. A hash of a short value would reveal the
    value.
    """
    if group_kind(manifest) == SECRET:
        manifest = {
            name: sorted(value) if name in {"data", "stringData"} and value else value
            for name, value in manifest.items()
        }
    return digest(manifest)


def is_written_from(live: Mapping[str, Any], manifest: Manifest, rendered_hash: str = "") -> bool:
    """Return whether the last write of a live object wrote `manifest`.

    The hash of a Secret leaves out the Secret's values. Therefore the function compares the values, too.

    Args:
        rendered_hash: The hash of `manifest`, or an empty text to compute the hash.
    """
    annotations = live["metadata"].get("annotations") or {}
    if annotations.get(well_known.HASH) != (rendered_hash or render_hash(manifest)):
        return False
    if manifest["kind"] != "Secret":
        return True
    desired_data, live_data = without_nulls(manifest).get("data") or {}, live.get("data") or {}
    return all(_decode_base64(live_data.get(name)) == _decode_base64(value) for name, value in desired_data.items())


def _decode_base64(encoded: str | None) -> bytes | None:
    """Return the decoded value, or None if the value is absent or not base64.

    Callers compare decoded values, because base64 texts of one value may differ in line breaks.
    """
    try:
        return None if encoded is None else base64.b64decode(encoded)
    except ValueError:
        return None


def without_server_fields(manifest: Manifest) -> Manifest:
    """Return the content of `manifest`: no status, and no field that only the API server writes.

    Exported manifests contain fields that only the API server writes. The API server does not store the values that a
    client sends for these fields. Therefore the fields would always look like drift.
    """
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in _SERVER_FIELDS}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}


def without_nulls(value: Manifest) -> Manifest:
    """Return the manifest as the API server stores it: no null fields, and a Secret's `stringData` as `data`."""
    cleaned: Manifest = strip_nulls(value)
    if value["kind"] == "Secret" and value["apiVersion"] == "v1" and "stringData" in cleaned:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in cleaned.pop("stringData").items()}
        cleaned["data"] = {**cleaned.get("data", {}), **encoded}
    return cleaned


def strip_nulls(value: object) -> Any:
    """Return `value` without null fields."""
    if isinstance(value, dict):
        return {name: strip_nulls(item) for name, item in value.items() if item is not None}
    return [strip_nulls(item) for item in value] if isinstance(value, list) else value
