"""The normal form of requests and outputs: what two records of the same program share, whenever and wherever they were made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

Value = Any

_DROPPED = frozenset(
    {
        "uid",
        "digest",  # Of a snapshot; it covers uids and times.
        "resourceVersion",
        "generation",
        "observedGeneration",
        "managedFields",
        "message",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
    }
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LOAD_BALANCER = re.compile(r"192\.0\.2\.\d+")  # The sandbox counts them in the order in which Ingresses get ready.
_PORT = re.compile(r"http://127\.0\.0\.1:\d+")
_MASKS = ((_TIME, "<time>"), (_UID, "<uid>"), (_LOAD_BALANCER, "<address>"), (_PORT, "<server>"))


def normal_text(text: str, names: Mapping[str, str]) -> str:
    """Return the text with `names` replaced and with times, uids and local addresses masked."""
    for name, stable in names.items():
        text = text.replace(name, stable)
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def normal(value: Value, names: Mapping[str, str]) -> Value:
    """Return a JSON value without what differs from record to record; JSON inside strings is opened."""
    if isinstance(value, dict):
        tested = str(value.get("path", "")).rpartition("/")[2] if "op" in value else ""
        return {
            normal_text(key, names): _merged(normal(inner, names)) if key == "passes" else normal(inner, names)
            for key, inner in sorted(value.items())
            if key not in _DROPPED and not (key == "value" and tested in _DROPPED)
        }
    if isinstance(value, list):
        items = [normal(inner, names) for inner in value]
        if items and all(isinstance(item, dict) and "passes" in item and "commit" in item for item in items):
            items.sort(key=lambda item: str(item["commit"]))  # Commits of one second have no order in a history.
        return items
    if isinstance(value, str):
        if value[:1] in {"{", "["}:
            try:
                return {"<json>": normal(json.loads(value), names)}
            except ValueError:
                pass
        return normal_text(value, names)
    return value


def _merged(passes: Value) -> Value:
    """Return the passes of each commit as one, with the state after the last: how many they are depends on time."""
    if isinstance(passes, dict):
        return {name: _merged(inner) for name, inner in passes.items()}
    if not isinstance(passes, list) or not all(isinstance(each, dict) for each in passes):
        return passes
    merged = []
    for commit, group in groupby(passes, lambda each: each.get("commit", "")):
        same = list(group)
        acts = {
            json.dumps(act, sort_keys=True): act for each in same for act in each.get("deeds") or each.get("did") or ()
        }
        did = [act for _, act in sorted(acts.items())]
        more = sum(each.get("more", 0) for each in same)
        merged.append({"commit": commit, "did": did, "more": more, "state": same[-1].get("state", "")})
    return merged


def write_of(method: str, path: str, body: bytes, names: Mapping[str, str]) -> Value:
    """Return one write: verb, path and normalised body."""
    content = normal(json.loads(body), names) if body else None
    return {"verb": method, "path": normal_text(path, names), "body": content}


def set_of(writes: Iterable[Value]) -> list[Value]:
    """Return the writes of one step as a sorted set; of each status and each record of a source only the last."""
    kept: dict[str, Value] = {}
    for write in writes:
        place = urlsplit(write["path"]).path
        if re.search(r"/(events|leases)(/|$)", place):
            continue
        key = json.dumps(write, sort_keys=True)
        if place.endswith("/status") or "/namespaces/levelgate-system/configmaps/" in place:
            key = f"{write['verb']} {place}"
        kept[key] = write
    return sorted(kept.values(), key=lambda write: json.dumps(write, sort_keys=True))
