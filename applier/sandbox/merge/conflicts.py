"""Fields that others own, as the server says it."""

from __future__ import annotations

from applier.sandbox.merge.field_set import Path, text_of
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

    def __init__(self, owned: list[tuple[ManagerKey, Path]]) -> None:
        self.owned = owned
        texts = [(owner, text_of(path)) for owner, path in owned]
        self.conflicts = tuple(Conflict(owner.manager, field, f"conflict with {owner}") for owner, field in texts)
        super().__init__(_summary(texts))


def _summary(owned: list[tuple[ManagerKey, str]]) -> str:
    if len(owned) == 1:
        owner, field = owned[0]
        return f"Apply failed with 1 conflict: conflict with {owner}: {field}"
    lines: list[str] = []
    for owner in dict.fromkeys(owner for owner, _ in owned):
        lines += [f"conflicts with {owner}:", *(f"- {field}" for each, field in owned if each == owner)]
    return f"Apply failed with {len(owned)} conflicts: " + "\n".join(lines)
