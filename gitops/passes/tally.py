"""How many sets are where, and the one word for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from applier.plan import SetPlan
from gitops.records.causes import blocked_rows, timestamp
from gitops.records.instance_status import has_failed, is_held, is_waiting


@dataclass(frozen=True, slots=True)
class Tally:
    """How many sets are settled, are held by gates, people and the calendar alone, are on their way, or have failed.

    `until` is the first time at which one that is held can go on, as far as that is known.
    """

    settled: int
    held: int
    waiting: int
    failed: int
    until: datetime | None = None

    @classmethod
    def of(cls, sets: Iterable[SetPlan]) -> Tally:
        """Sets by the worst that is said of them; an instance that does not exist yet is its owner's matter."""
        counted = [one for one in sets if one.parent is not None or one.rendered.is_source]
        failed = sum(map(has_failed, counted))
        waiting = sum(map(is_on_its_way, counted))
        held = [one for one in counted if is_held(one) and not has_failed(one) and not is_on_its_way(one)]
        ends = (cause.until for one in held for _, cause, _ in blocked_rows(one) if cause.until)
        settled = len(counted) - failed - waiting - len(held)
        return cls(settled, len(held), waiting, failed, min(ends, default=None))

    def state(self, *, held: bool = False) -> str:
        """The worst, as lists show it; something beside the sets may be `held` as well."""
        return "Failed" if self.failed else "Waiting" if self.waiting else "Held" if self.held or held else "Settled"

    def __str__(self) -> str:
        until = f" (until {timestamp(self.until)})" if self.until else ""
        return f"settled {self.settled}, held {self.held}{until}, waiting {self.waiting}, failed {self.failed}"


def is_on_its_way(one: SetPlan) -> bool:
    """Time alone, or a fresh look, will bring it further."""
    return not has_failed(one) and (
        is_waiting(one) or (one.parent is None and one.rendered.is_source and bool(one.nodes))
    )
