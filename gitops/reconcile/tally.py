"""How many sets are where, and the one word for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gitops.reconcile.set_summaries import SetSummaries, SetSummary
from gitops.records.cause_rows import timestamp
from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StateCounts:
    """How many sets are settled, are held by gates, people and the calendar alone, are on their way, or have failed.

    `until` is the first time at which one that is held can go on, as far as that is known.
    """

    settled: int
    held: int
    waiting: int
    failed: int
    until: datetime | None = None

    @classmethod
    def of(cls, accounts: Iterable[SetSummary], at_rest: int = 0) -> StateCounts:
        """Sets by the worst that is said of them, and those that are `at_rest`."""
        counted = [one for one in accounts if one.exists]
        failed = sum(one.has_failed for one in counted)
        waiting = sum(one.is_on_its_way for one in counted)
        held = [one for one in counted if one.is_held]
        ends = (cause.until for one in held for _, cause, _ in one.rows if cause.until)
        settled = at_rest + len(counted) - failed - waiting - len(held)
        return cls(settled, len(held), waiting, failed, min(ends, default=None))

    @classmethod
    def of_all(cls, ledger: SetSummaries, source: str | None = None) -> StateCounts:
        """The sets of one source, or of all."""
        return cls.of(ledger.restless(source), ledger.at_rest(source))

    def state(self, *, held: bool = False) -> str:
        """The worst, as lists show it; something beside the sets may be `held` as well."""
        return "Failed" if self.failed else "Waiting" if self.waiting else "Held" if self.held or held else "Settled"

    def __str__(self) -> str:
        until = f" (until {timestamp(self.until)})" if self.until else ""
        return f"settled {self.settled}, held {self.held}{until}, waiting {self.waiting}, failed {self.failed}"
