"""Who writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from applier.sandbox.merge.managed_fields import ManagerKey, Operation
from applier.sandbox.merge.reset_fields import ResetFields
from applier.sandbox.merge.types import MergeType
from renderer.frozen import dataclass

_UNKNOWN_MANAGER: Final = "unknown"


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Who writes what: `manager` in `version` (as in apiVersion) at `time` (RFC 3339, UTC, whole seconds).

    `others` are the types of the same kind in other API versions that are served; ownership in a version that is not
    among them is dropped. Objects are taken to look the same in all versions, as in a CustomResourceDefinition without
    conversion.

    `blank` is what the server holds of an object before anything is written: nobody comes to own it by a create. That of
    built-in kinds has the structures that are never absent (`spec: {}`), and what is in them.
    """

    manager: str
    type: MergeType
    version: str
    time: str
    subresource: str = ""
    reset_fields: ResetFields = frozenset()
    other_types: Mapping[str, MergeType] | None = None
    blank: Mapping[str, Any] = field(default_factory=dict)

    def manager_key(self, operation: Operation) -> ManagerKey:
        version = self.version if operation == "Update" else ""
        return ManagerKey(self.manager or _UNKNOWN_MANAGER, operation, version, self.subresource)

    @property
    def types_by_version(self) -> Mapping[str, MergeType]:
        """By API version, of all that are served."""
        return {**(self.other_types or {}), self.version: self.type}
