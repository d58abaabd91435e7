"""Counts of ApplySets by state, and the state of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from gitops.reconcile.set_summaries import SetSummaries, SetSummary
from gitops.records.display_state import DisplayState
from gitops.timestamps import timestamp
from renderer.frozen import dataclass

_ALWAYS_SHOWN = (
    DisplayState.SETTLED,
    DisplayState.PROGRESSING,
    DisplayState.WAITING,
    DisplayState.HELD,
    DisplayState.FAILED,
)


@dataclass(frozen=True, slots=True)
class StateCounts:
    """Number of sets in each state; `until`: the earliest time at which a held one can start, as far as that is known."""

    by_state: Mapping[DisplayState, int]
    until: datetime | None = None

    @classmethod
    def of(cls, accounts: Iterable[SetSummary], at_rest: int = 0) -> StateCounts:
        """Return the counts of these sets, and of `at_rest` settled ones."""
        existing = [account for account in accounts if account.exists]
        held = (account for account in existing if account.state.needs_person_or_time)
        ends = (cause.until for account in held for cause in account.rows if cause.until)
        by_state = Counter(account.state for account in existing)
        by_state[DisplayState.SETTLED] += at_rest
        return cls(by_state, min(ends, default=None))

    @classmethod
    def of_all(cls, ledger: SetSummaries, source: str | None = None) -> StateCounts:
        """Return the counts of the sets of one source, or of all."""
        return cls.of(ledger.restless(source), ledger.at_rest(source))

    @property
    def total(self) -> int:
        return sum(self.by_state.values())

    @property
    def held(self) -> int:
        """Return how many wait for a person, a gate or a window: held, suspended or halted."""
        return sum(number for state, number in self.by_state.items() if state.needs_person_or_time)

    @property
    def state(self) -> DisplayState:
        """Return the worst state that a set has."""
        return DisplayState.worst(state for state, number in self.by_state.items() if number)

    def __str__(self) -> str:
        """`settled 5, progressing 1, waiting 0, held 3 (until 2026-11-23T08:00:00Z), failed 0`"""
        until = f" (until {timestamp(self.until)})" if self.until else ""
        return ", ".join(
            f"{state.lower()} {self.by_state.get(state, 0)}{until if state is DisplayState.HELD else ''}"
            for state in reversed(DisplayState)
            if state in _ALWAYS_SHOWN or self.by_state.get(state)
        )
