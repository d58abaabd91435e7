"""Verdicts of windows: whether an operation on a target may start now, the reason if not, and the next change.

The windows of a source decide in this order. If a Deny that governs the target is active, the target is closed.
Otherwise, if Allows govern the target, one of these Allows must be active with more time left than its cutoff.
Otherwise, the default of the source applies.

Each source has its own answer. If every source is open, an operation may start. By default, an Allow that has ended
still governs, so that no target opens because a window has expired.

Invariant: between the instant of a verdict and its `until`, `is_open` does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from applier.causes import Reason
from applier.plan.model import Operation
from gitops.windows.change_search import OpenState, change_cache_for, earliest, latest
from gitops.windows.occurrences import HORIZON
from gitops.windows.window import Drain, Openness, Window, WindowKind, WindowTarget
from renderer.frozen import dataclass

MAX_SKEW: Final = timedelta(minutes=5)
"""Longest time by which the clock may go back."""
MAX_SERVER_SKEW: Final = timedelta(seconds=30)
"""Largest tolerated difference between the clock of this process and the clock of the API server."""


@dataclass(frozen=True, slots=True)
class WindowSet:
    """Windows of one source, with the rules for all windows of the source."""

    windows: Sequence[Window] = ()
    source: str = ""
    no_window: Openness = Openness.OPEN
    """Answer for a target that no Allow governs."""
    expired_allow: Openness = Openness.CLOSED
    """Effect of an Allow that has ended. With CLOSED, the Allow still governs. With OPEN, the Allow no longer governs.
    """
    break_glass_until: datetime | None = None
    """End in UTC of a break-glass for the judged target, or None if no break-glass is set."""


@dataclass(frozen=True, slots=True)
class WindowPeriod:
    """Window with its present period, in which the window is open or closed."""

    window: Window
    source: str
    """Source of the window, or an empty string if the caller does not name the source."""
    reason: Reason
    """WindowClosed, or NeverOpens if `until` is None.

    For an open window, the reason describes a gate that negates the window, such as `!inWindow("freeze")`.
    """
    since: datetime | None
    """Start of the period in UTC, or None if the start is unknown."""
    until: datetime | None
    """End of the period in UTC, or None if the period never ends or the end is unknown."""


@dataclass(frozen=True, slots=True)
class WindowVerdict:
    """Answer to the question of whether one operation on one target may start at one instant. Instants are in UTC."""

    is_open: bool
    next_edge: datetime
    """Next instant at which a governing window changes and the target needs a new verdict."""
    until: datetime | None = None
    """Next instant at which `is_open` changes, or None if `is_open` does not change within ten years."""
    reason: Reason | None = None
    """Reason why the operation may not start, or None if the operation may start."""
    closed_windows: tuple[WindowPeriod, ...] = ()
    """Windows that keep the target closed, each with the period in which the window does so."""
    overridden: tuple[WindowPeriod, ...] = ()
    """Closed windows that a break-glass bypasses."""
    drain: Drain | None = None
    """Scope that may finish if it began before `closed_at`.

    If only the cutoff of an Allow has begun, `drain` is None, and every change that began before may finish.
    """
    drain_until: datetime | None = None
    """Time in UTC until which the scope may finish, or None if this time has no limit."""
    closed_at: datetime | None = None
    """Instant in UTC since which nothing may start, or None if the instant is unknown."""


class TrustedTime(NamedTuple):
    """Present time for verdicts, and whether the clock is trustworthy."""

    now: datetime
    is_skewed: bool = False
    """True if the clock differs too much from its last reading or from the API server. Then no Allow opens."""


def make_trusted_time(now: datetime, last: datetime | None, server: datetime | None = None) -> TrustedTime:
    """Return the present time, which never goes back.

    If the clock goes back, return `last` until the clock has passed `last`.

    Args:
        now: reading of the clock in UTC.
        last: previous reading of the clock in UTC, or None for the first reading.
        server: time of the API server in UTC, or None if the time is unknown.
    """
    differs_from_server = server is not None and abs(now - server) > MAX_SERVER_SKEW
    if last is None or now >= last:
        return TrustedTime(now, is_skewed=differs_from_server)
    return TrustedTime(last, is_skewed=differs_from_server or last - now > MAX_SKEW)


def judge(
    sources: Iterable[WindowSet], target: WindowTarget, operation: Operation, trusted_time: TrustedTime
) -> WindowVerdict:
    """Return whether `operation` may start on `target` at `trusted_time`, or the reason why `operation` may not start.

    Args:
        sources: windows of each source that may govern `target`.
    """
    governing = [_SourceWindows.select(rules, target, operation) for rules in sources]
    now = trusted_time.now
    closed_windows = tuple(
        closed_window for source_windows in governing for closed_window in source_windows.closed_windows(now)
    )
    edge = _next_edge(governing, now)
    if trusted_time.is_skewed and any(source_windows.current_allows(now) for source_windows in governing):
        return WindowVerdict(False, edge, None, Reason.CLOCK_SKEW, closed_windows, drain=Drain.UNIT)
    overridden = tuple(
        overridden_window
        for source_windows in governing
        for overridden_window in source_windows.overridden_windows(now)
    )
    until = change_cache_for(tuple(source_windows.state_inputs for source_windows in governing)).find_next_change(
        [source_windows.state for source_windows in governing], now
    )
    if all(source_windows.state(now).is_open for source_windows in governing):
        return WindowVerdict(True, edge, until, overridden=overridden)
    closed_sources = [source_windows for source_windows in governing if not source_windows.state(now).is_open]
    drain_rules = [drain_rule for source_windows in closed_sources if (drain_rule := source_windows.drain_rule(now))]
    drain, drain_until = _strictest_rule(drain_rules) if drain_rules else (None, None)
    closed_at = earliest(source_windows.closed_since(now) for source_windows in closed_sources)
    reason = Reason.WINDOW_CLOSED if until else Reason.NEVER_OPENS
    return WindowVerdict(False, edge, until, reason, closed_windows, overridden, drain, drain_until, closed_at)


def is_in_window(window: Window, now: datetime) -> bool:
    """Return whether an occurrence of `window` is active at `now` with more time left than its cutoff."""
    return start_state(window, now).is_open


def start_state(window: Window, now: datetime) -> OpenState:
    """Return whether a change may start in an occurrence of `window` at `now`, and when the answer changes.

    While an occurrence is active and its cutoff has not begun, a change may start.
    """
    moment = now
    while moment <= now + HORIZON:
        span = window.timeline.span(moment)
        if not span.active:
            if span.until is None:
                return OpenState(False, None)
            moment = span.until
        elif span.until is None:
            return OpenState(moment == now, moment if moment > now else None)
        elif moment < (last_start := span.until - window.cutoff):
            return OpenState(True, last_start) if moment == now else OpenState(False, moment)
        else:
            moment = span.until
    return OpenState(False, None)


def find_window_period(window: Window, now: datetime, source: str = "") -> WindowPeriod:
    """Return `window` with its period at `now`: the time in which changes may start, or in which no change may start.

    If the cutoff of an occurrence has begun at `now`, the period starts with the cutoff.
    """
    span, state = window.timeline.span(now), start_state(window, now)
    in_cutoff = span.active and span.until and not state.is_open
    since = span.until - window.cutoff if in_cutoff and span.until else span.since
    return WindowPeriod(window, source, Reason.WINDOW_CLOSED if state.until else Reason.NEVER_OPENS, since, state.until)


class _DrainRule(NamedTuple):
    """Scope that may finish, and the time until which it may finish."""

    drain: Drain
    until: datetime | None
    """Time in UTC until which the scope may finish, or None if the scope allows no new writes."""


def _drain_rule_of(windows: Sequence[Window], now: datetime) -> _DrainRule:
    """Return the rule of `windows`, which closed together: the strictest scope, with the earliest limit of that scope.

    If the time of closing is unknown, no limit could end new writes. Then the scope is at most `Drain.UNIT`, which
    allows no new writes.
    """
    strictest = min(window.drain for window in windows)
    limits = [
        since + window.overrun_limit
        for window in windows
        if window.drain is strictest and strictest.is_limited and (since := window.timeline.span(now).since)
    ]
    return _DrainRule(strictest if limits else min(strictest, Drain.UNIT), min(limits, default=None))


def _strictest_rule(rules: Sequence[_DrainRule]) -> _DrainRule:
    """Return the strictest scope in `rules`, with the earliest limit of all rules."""
    drain = min(rule.drain for rule in rules)
    return _DrainRule(drain, earliest(rule.until for rule in rules) if drain.is_limited else None)


@dataclass(frozen=True, slots=True)
class _SourceWindows:
    """Windows of one source that govern one operation on one target."""

    rules: WindowSet
    allows: tuple[Window, ...]
    denies: tuple[Window, ...]
    allows_break_glass: bool
    """True if no governing window forbids a break-glass."""

    @classmethod
    def select(cls, rules: WindowSet, target: WindowTarget, operation: Operation) -> _SourceWindows:
        """Return the windows in `rules` that govern `operation` on `target`."""
        governing = [window for window in rules.windows if window.governs(target, operation)]
        return cls(
            rules,
            tuple(window for window in governing if window.kind is WindowKind.ALLOW),
            tuple(window for window in governing if window.kind is WindowKind.DENY),
            not any(window.forbids_break_glass for window in governing),
        )

    @property
    def state_inputs(self) -> tuple[object, ...]:
        """Return everything that `state` depends on except the time."""
        rules, break_glass_until = self.rules, self.rules.break_glass_until if self.allows_break_glass else None
        start_times = _start_times_of(self.allows), _start_times_of(self.denies)
        return *start_times, rules.no_window, rules.expired_allow, break_glass_until

    def state(self, now: datetime) -> OpenState:
        """Return whether the target is open at `now`, with regard to a break-glass, and when the answer changes."""
        state = self._state_by_windows(now)
        break_glass_until = self.rules.break_glass_until
        if break_glass_until is None or now >= break_glass_until or not self.allows_break_glass or state.is_open:
            return state
        return OpenState(True, break_glass_until)

    def overridden_windows(self, now: datetime) -> tuple[WindowPeriod, ...]:
        """Return the closed windows that a break-glass bypasses at `now`."""
        return self._closing_windows(now) if self.state(now).is_open and not self._state_by_windows(now).is_open else ()

    def closed_windows(self, now: datetime) -> tuple[WindowPeriod, ...]:
        """Return the windows that keep the target closed at `now`."""
        return () if self.state(now).is_open else self._closing_windows(now)

    def current_allows(self, now: datetime) -> list[Window]:
        """Return the Allows that govern at `now`.

        An Allow governs from the start of its effective time on. If `expired_allow` is OPEN, the Allow governs only
        until the end of its effective time.
        """
        return [
            window
            for window in self.allows
            if window.timeline.has_begun(now)
            and not (self.rules.expired_allow is Openness.OPEN and window.timeline.has_ended(now))
        ]

    def active_denies(self, now: datetime) -> list[Window]:
        """Return the Denies that are active at `now`."""
        return [window for window in self.denies if window.timeline.span(now).active]

    def _state_by_windows(self, now: datetime) -> OpenState:
        """Return whether the target is open at `now`, without regard to a break-glass, and when the answer changes."""
        if denies := self.active_denies(now):
            return OpenState(False, latest([window.timeline.span(now).until for window in denies]))
        next_deny = [window.timeline.span(now).until for window in self.denies]
        begins = [window.timeline.begins for window in self.allows if not window.timeline.has_begun(now)]
        if not (allows := self.current_allows(now)):
            is_open = self.rules.no_window is Openness.OPEN
            return OpenState(is_open, earliest([*next_deny, *begins] if is_open else begins))
        states = [start_state(window, now) for window in allows]
        if any(state.is_open for state in states):
            return OpenState(True, earliest([*next_deny, latest([state.until for state in states if state.is_open])]))
        # With expired_allow OPEN the target opens once all Allows have ended.
        governs_ended = self.rules.expired_allow is Openness.CLOSED
        end = None if governs_ended else latest([window.timeline.ends for window in allows])
        return OpenState(False, earliest([*(state.until for state in states), end, *begins]))

    def _closing_windows(self, now: datetime) -> tuple[WindowPeriod, ...]:
        """Return the active Denies, or the Allows that govern if no Deny is active."""
        if denies := self.active_denies(now):
            return tuple(self._closed_by_deny(window, now) for window in denies)
        return tuple(find_window_period(window, now, self.rules.source) for window in self.current_allows(now))

    def drain_rule(self, now: datetime) -> _DrainRule | None:
        """Return the scope that may finish while the target is closed.

        The windows that decide:

        - If no Deny is active and only the cutoff of an Allow has begun, return None.
        - If the Allows had closed before the active Denies began, all of these Allows and Denies count.
        - Otherwise, the active Denies count. If no Deny is active, the Allows that closed last count.

        The strictest rule of these windows applies. After the end of a break-glass, no new write starts.
        """
        denies, closed_allows = self.active_denies(now), self._allows_closed_last(now)
        if not denies and closed_allows is None:
            return None
        groups = (
            [denies, closed_allows or []]
            if self._is_closed_before(denies, closed_allows, now)
            else [denies or closed_allows or []]
        )
        rules = [_drain_rule_of(windows, now) for windows in groups if windows]
        # A break-glass is granted up to its end, so no write may start after its end.
        if not rules or self._is_past_break_glass(now):
            rules.append(_DrainRule(Drain.UNIT, None))
        return _strictest_rule(rules)

    def _allows_closed_last(self, now: datetime) -> list[Window] | None:
        """Return the Allows that closed last, or None if an Allow is active at `now`."""
        allows = self.current_allows(now)
        if any(window.timeline.span(now).active for window in allows):
            return None
        last = max((since for window in allows if (since := window.timeline.span(now).since)), default=None)
        return [window for window in allows if window.timeline.span(now).since == last]

    def _is_closed_before(
        self, denies: Sequence[Window], closed_allows: Sequence[Window] | None, now: datetime
    ) -> bool:
        """Return whether `closed_allows` had closed when the first of `denies` began."""
        began, closed = (
            min((since for window in windows if (since := window.timeline.span(now).since)), default=None)
            for windows in (denies, closed_allows or ())
        )
        return began is not None and closed is not None and closed < began

    def _is_past_break_glass(self, now: datetime) -> bool:
        """Return whether a break-glass has ended since the windows of this source closed."""
        until, closed_at = self.rules.break_glass_until, self.closed_since(now)
        return self.allows_break_glass and until is not None and closed_at is not None and closed_at < until <= now

    def closed_since(self, now: datetime) -> datetime | None:
        """Return the instant since which nothing may start, or None if the instant is unknown.

        The instant is the start of the first active Deny. If the last Allow ended before that Deny, the instant is the
        end of the Allow.
        """
        denies, closed_allows = self.active_denies(now), self._allows_closed_last(now)
        if closed_allows and self._is_closed_before(denies, closed_allows, now):
            return closed_allows[0].timeline.span(now).since
        times = [closed_window.since for closed_window in self._closing_windows(now) if closed_window.since]
        return (min if denies else max)(times, default=None)

    def _closed_by_deny(self, window: Window, now: datetime) -> WindowPeriod:
        """Return the active Deny `window` with the period in which it closes the target."""
        span = window.timeline.span(now)
        reason = Reason.WINDOW_CLOSED if span.until else Reason.NEVER_OPENS
        return WindowPeriod(window, self.rules.source, reason, span.since, span.until)


def _start_times_of(windows: Iterable[Window]) -> tuple[object, ...]:
    """Return everything that decides when changes may start in `windows`, without names and selectors."""
    timelines = ((window.timeline, window.cutoff) for window in windows)
    return tuple((timeline.occurrences, timeline.begins, timeline.ends, cutoff) for timeline, cutoff in timelines)


def _next_edge(governing: Sequence[_SourceWindows], now: datetime) -> datetime:
    """Return the next instant at which a window in `governing` opens, closes or reaches its cutoff.

    Limits of effective times and ends of a break-glass count too. If no such instant is known, return the instant 365
    days after `now`.
    """
    edges = [source_windows.rules.break_glass_until for source_windows in governing]
    for window in (
        window for source_windows in governing for window in (*source_windows.allows, *source_windows.denies)
    ):
        closes = window.timeline.span(now).until
        edges += [closes, closes - window.cutoff if closes else None, window.timeline.begins, window.timeline.ends]
    return earliest([edge for edge in edges if edge and edge > now]) or now + timedelta(days=365)
