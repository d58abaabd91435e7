"""What part of an old value a part of the new one was, where a schema lets that be told.

Source: apiserver `pkg/cel/common` (`CorrelatedObject`): members by their names, items by the keys of their list; those of other lists were nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]


def items_before(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """Finds the earlier item of a list map with the same keys; None where there is none."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda _: None

    def identity(item: Any) -> Any:
        return tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else None

    known = {identity(item): item for item in old}
    return lambda item: known.get(identity(item))
