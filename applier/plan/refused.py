"""A write that the server has refused, and whether it would be the same one again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from applier.cluster import Object
from applier.errors import ClusterError
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

RefusedWriteKey = tuple[ObjectKey, ObjectKey]
"""The parent of the set for which something is written, and the object."""


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """What was answered (`error`) to which `intent`, when the object was as `live` says (None: absent). See `essence`."""

    error: ClusterError
    intent: Any
    live: Mapping[str, Any] | None

    def is_same(self, intent: Any, live: Object | None) -> bool:
        """Would this be the same write on the same object?"""
        return bool(self.intent == intent) and self.live == refusal_relevant_state(live)


def refusal_relevant_state(live: Object | None) -> Mapping[str, Any] | None:
    """All of an object that a write may be refused because of: not its status, nor who wrote that, nor when."""
    if live is None:
        return None
    metadata = {
        name: value for name, value in live["metadata"].items() if name not in {"resourceVersion", "managedFields"}
    }
    entries = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in live["metadata"].get("managedFields") or ()
        if entry.get("subresource") != "status"
    ]
    return {**live, "status": None, "metadata": {**metadata, "managedFields": entries}}
