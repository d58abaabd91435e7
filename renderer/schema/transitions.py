"""Rules that compare with the old value, in places where the API server has no old value to give.

Source: Kubernetes, "Validation rules", transition rules: an item of a list can be found again in the old object only
if the list is a map.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from renderer.schema.errors import SchemaMistake, child_path

_OLD_SELF = re.compile(r"\boldSelf\b")
_MESSAGE = (
    "immutable, and rules with oldSelf, do not work inside of a list, whose items have no old value; "
    "use listType=map and listMapKey, or put the marker on the list"
)


def find_misplaced_transitions(
    schema: Mapping[str, Any], path: str, *, traceable: bool = True
) -> Iterator[SchemaMistake]:
    """A mistake for every rule with `oldSelf` below a list that is not a map."""
    rules = schema.get("x-kubernetes-validations", ())
    if not traceable and any(_OLD_SELF.search(rule["rule"]) for rule in rules):
        yield SchemaMistake(path, _MESSAGE)
    for name, field in schema.get("properties", {}).items():
        yield from find_misplaced_transitions(field, child_path(path, name), traceable=traceable)
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        yield from find_misplaced_transitions(values, path, traceable=traceable)
    if items := schema.get("items"):
        is_traceable = traceable and schema.get("x-kubernetes-list-type") == "map"
        yield from find_misplaced_transitions(items, path, traceable=is_traceable)
