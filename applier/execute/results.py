"""Results of single actions, for records, Events, metrics and output."""

from __future__ import annotations

from dataclasses import field

from applier.cluster import Object
from applier.errors import ClusterError
from applier.state.managed_fields import LostField
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one action on one object of a set."""

    set: ObjectKey
    """Key of the parent of the set."""
    key: ObjectKey
    action: str
    level: int | None = None
    """Level of the node, or None for a parent."""
    node: str = ""
    error: ClusterError | None = None
    lost_fields: tuple[LostField, ...] = ()
    """Fields that the action healed."""
    source: str = field(default="", compare=False)
    commit: str = field(default="", compare=False)
    """Commit of `source` at the time of the action."""

    @property
    def is_report(self) -> bool:
        """Return whether the action wrote a status or record at the end of a reconciliation."""
        return self.action in {"status", "stored", "dropped"}

    @property
    def is_bookkeeping(self) -> bool:
        """Return whether the action wrote only metadata or records of Levelgate, and no deployed content."""
        return self.is_report or self.action in {"covered", "shrunk", "kept", "recorded"}


Answer = tuple[Object | None, Result]
"""Object as the server stores it after an action, or None if that state is unknown, and the result of the action."""
