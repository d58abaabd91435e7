"""Fields that others own, as the server says it."""

from __future__ import annotations

from applier.sandbox.merge.field_set import Path, format_path
from applier.sandbox.merge.managed_fields import ManagerKey
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Conflict:
    """A cause of a 409 with reason FieldManagerConflict: `.data.a`, `conflict with "m1" using v1`."""

    manager: str
    field: str
    message: str


class ApplyConflicts(Exception):
    """Others own fields to which the intent gives other values (409). The text is the message of the server's status."""

    def __init__(self, owned_paths: list[tuple[ManagerKey, Path]]) -> None:
        self.owned_paths = owned_paths
        texts = [(owner, format_path(path)) for owner, path in owned_paths]
        self.conflicts = tuple(Conflict(owner.manager, field, f"conflict with {owner}") for owner, field in texts)
        super().__init__(_format_summary(texts))


def _format_summary(owned_fields: list[tuple[ManagerKey, str]]) -> str:
    if len(owned_fields) == 1:
        owner, field = owned_fields[0]
        return f"Apply failed with 1 conflict: conflict with {owner}: {field}"
    lines: list[str] = []
    for owner in dict.fromkeys(owner for owner, _ in owned_fields):
        lines += [
            f"conflicts with {owner}:",
            *(f"- {field}" for other_owner, field in owned_fields if other_owner == owner),
        ]
    return f"Apply failed with {len(owned_fields)} conflicts: " + "\n".join(lines)
