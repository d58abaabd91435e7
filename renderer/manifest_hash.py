"""A manifest against what the server stores of it: the form it is stored in, its hash, and whether a live object was written from it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from renderer import well_known
from renderer.identity import Manifest, digest, group_kind
from renderer.kinds import SECRET

_SERVER_FIELDS = frozenset(
    "creationTimestamp deletionTimestamp deletionGracePeriodSeconds resourceVersion uid selfLink generation managedFields".split()
)


def render_hash(manifest: Manifest) -> str:
    """What a manifest was rendered to, in 32 hexadecimal digits; of a Secret without its values.

    The hash is written on the object for everybody who may read metadata, and a hash of a short value tells the value.
    """
    if group_kind(manifest) == SECRET:
        manifest = {
            name: sorted(value) if name in {"data", "stringData"} and value else value
            for name, value in manifest.items()
        }
    return digest(manifest)


def is_written_from(live: Mapping[str, Any], manifest: Manifest, rendered_hash: str = "") -> bool:
    """Was this live object last written from this manifest, whose hash is `rendered`? Of a Secret the values themselves are compared, since its hash
    leaves them out.
    """
    annotations = live["metadata"].get("annotations") or {}
    if annotations.get(well_known.HASH) != (rendered_hash or render_hash(manifest)):
        return False
    if manifest["kind"] != "Secret":
        return True
    desired_data, live_data = without_nulls(manifest).get("data") or {}, live.get("data") or {}
    return all(_decode_base64(live_data.get(name)) == _decode_base64(value) for name, value in desired_data.items())


def _decode_base64(encoded: str | None) -> bytes | None:
    """Two texts of base64 may differ (by line breaks) and mean the same."""
    try:
        return None if encoded is None else base64.b64decode(encoded)
    except ValueError:
        return None


def without_server_fields(manifest: Manifest) -> Manifest:
    """What of a manifest is content: no status and none of the fields that only the server writes. What tools print has them, and a server that is
    given them keeps none, so they would be missed for ever.
    """
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in _SERVER_FIELDS}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}


def without_nulls(value: Manifest) -> Manifest:
    """A manifest without null fields, and a Secret's `stringData` as `data`: what the server would store of it (it treats null as absent)."""
    cleaned: Manifest = strip_nulls(value)
    if value["kind"] == "Secret" and value["apiVersion"] == "v1" and "stringData" in cleaned:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in cleaned.pop("stringData").items()}
        cleaned["data"] = {**cleaned.get("data", {}), **encoded}
    return cleaned


def strip_nulls(value: object) -> Any:
    """A value without fields that are null."""
    if isinstance(value, dict):
        return {name: strip_nulls(item) for name, item in value.items() if item is not None}
    return [strip_nulls(item) for item in value] if isinstance(value, list) else value
