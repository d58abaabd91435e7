"""What became of one action, for whoever records, tells or counts it."""

from __future__ import annotations

from dataclasses import field

from applier.cluster import Object
from applier.errors import ClusterError
from applier.state.managed_fields import LostField
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(frozen=True, slots=True)
class Result:
    """One action carried out, or not: what was done to which object of which set. `level` is None for parents; `lost` is what was put right.
    It was done for this `source` at this `revision`, its commit.
    """

    set: ObjectKey
    key: ObjectKey
    action: str
    level: int | None = None
    node: str = ""
    error: ClusterError | None = None
    lost_fields: tuple[LostField, ...] = ()
    source: str = field(default="", compare=False)
    commit: str = field(default="", compare=False)

    @property
    def is_report(self) -> bool:
        """It says how the pass has ended."""
        return self.action in {"status", "stored", "dropped"}

    @property
    def is_bookkeeping(self) -> bool:
        """Nothing that anybody deployed was touched."""
        return self.is_report or self.action in {"covered", "shrunk", "kept", "recorded"}


Answer = tuple[Object | None, Result]
"""What was done, with the object as it is stored now where that is known."""
