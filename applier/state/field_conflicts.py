"""Conflicts over fields that Git sets and another manager owns. Pure.

A conflict is drift or an intent. An update by any client is drift, and so is a manual apply with kubectl. The apply of
another manager is an intent, because the manager wants to keep the value. Replicas set through the subresource `scale`
are also an intent. The owner of an intent is an autoscaler, or another tool that manages the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from renderer.frozen import dataclass

HUMAN_MANAGER_PREFIXES: Final = ("kubectl", "before-first-apply")
"""Prefixes of the field managers of people. The fields that people apply are also drift."""

_UPDATE: Final = "Update"
_SCALE: Final = "scale"
_SUBRESOURCE_WORDS: Final = ' with subresource "'
_VERSION_WORD: Final = " using "


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """Owner of fields, in the form of `managedFields` and of the server's conflict messages."""

    name: str
    is_update: bool
    subresource: str = ""

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> FieldOwner:
        """Return the owner that `entry` of `managedFields` names."""
        return cls(str(entry.get("manager")), entry.get("operation") == _UPDATE, entry.get("subresource") or "")

    @classmethod
    def from_conflict(cls, message: str) -> FieldOwner:
        """Return the owner that `message` names: `conflict with "m" with subresource "scale" using apps/v1`.

        The server adds a version only for updates.

        Source: apimachinery, `managedfields/internal/conflict.go`.
        """
        name, _, rest = message.partition('"')[2].partition('"')
        subresource = rest.partition(_SUBRESOURCE_WORDS)[2].partition('"')[0]
        return cls(name, _VERSION_WORD in rest, subresource)

    @property
    def is_drift(self) -> bool:
        """Return whether the fields of this owner come from an update or from a person.

        Fields from an update or from a person express no lasting intent of the owner. Fields set through the
        subresource `scale` are never drift.
        """
        return self.subresource != _SCALE and (self.is_update or self.name.startswith(HUMAN_MANAGER_PREFIXES))

    def __str__(self) -> str:
        if self.is_drift:
            return self.name
        return f"{self.name} (scale)" if self.subresource == _SCALE else f"{self.name} (apply)"


class ConflictPolicy(StrEnum):
    """Policy for fields that Git sets and another manager owns.

    With `Heal`, Levelgate takes over drift, and leaves applied or scaled fields. With `Report`, Levelgate takes over no
    field. With `Force`, Levelgate takes over every field.
    """

    HEAL = "Heal"
    REPORT = "Report"
    FORCE = "Force"

    @classmethod
    def from_text(cls, text: str) -> ConflictPolicy | None:
        """Return the policy named `text`, in upper or lower case, or None if no policy has this name."""
        return next((policy for policy in cls if policy.lower() == text.lower()), None)

    def takes_from(self, manager: FieldOwner) -> bool:
        """Return whether Levelgate takes over the fields of `manager`."""
        return self is ConflictPolicy.FORCE or (self is ConflictPolicy.HEAL and manager.is_drift)


DEFAULT_CONFLICT_POLICY: Final = ConflictPolicy.HEAL
