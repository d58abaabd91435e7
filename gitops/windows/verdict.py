"""May this be done to this target now? The answer, why, and when it changes.

Rules of one source: an active Deny closes. Else, where an Allow governs the target, one of them has to be active, with more time left than
its cutoff. Else the default. Sources are judged apart and all have to agree. An Allow that has ended still governs: nothing opens by running
out. Invariant: between an instant and the `until` of its verdict the answer stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from applier.causes import Reason
from applier.plan.model import Operation
from gitops.windows.occurrences import HORIZON
from gitops.windows.window import Drain, Openness, Window, WindowKind, WindowTarget
from renderer.frozen import dataclass

MAX_SKEW: Final = timedelta(minutes=5)
MAX_SERVER_SKEW: Final = timedelta(seconds=30)
"""By so much the clock may go back, and be apart from the server's."""

_MAX_EDGES: Final = 10_000
"""So many edges are gone through; after that the instant reached is the answer, up to which nothing changes."""

_MAX_TIME: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WindowSet:
    """The windows of one source and how they are read. `break_glass` is the instant until which someone goes past them, None for nobody."""

    windows: Sequence[Window] = ()
    source: str = ""
    no_window: Openness = Openness.OPEN
    expired_allow: Openness = Openness.CLOSED
    break_glass_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """One window that closes: since when, and when it next lets pass (None: never, or not known)."""

    window: Window
    source: str
    reason: Reason
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class WindowVerdict:
    """Open or closed, and `until` when: the instant of the next change, None where there is none within ten years.

    Closed: `reason` and `closings` say why, `closed_at` since when, `drain` what may be finished that was begun before that (None: everything, as
    only the last part of a window has begun), `drain_until` how long. Open only by a break-glass: `overridden` are the windows that it goes past.
    `next_edge` is when to look again, as any window that governs changes then.
    """

    is_open: bool
    next_edge: datetime
    until: datetime | None = None
    reason: Reason | None = None
    closed_windows: tuple[ClosedWindow, ...] = ()
    overridden: tuple[ClosedWindow, ...] = ()
    drain: Drain | None = None
    drain_until: datetime | None = None
    closed_at: datetime | None = None


class TrustedTime(NamedTuple):
    """A time to judge by. `skewed`: the clock went back so far, or is so far from the server's, that no Allow may be trusted."""

    now: datetime
    is_skewed: bool = False


def make_trusted_time(now: datetime, last: datetime | None, server: datetime | None = None) -> TrustedTime:
    """Time that never goes back: the `last` reading stands until the clock has caught up with it. `server`: what the API server's clock says."""
    differs_from_server = server is not None and abs(now - server) > MAX_SERVER_SKEW
    if last is None or now >= last:
        return TrustedTime(now, is_skewed=differs_from_server)
    return TrustedTime(last, is_skewed=differs_from_server or last - now > MAX_SKEW)


def judge(
    sources: Iterable[WindowSet], target: WindowTarget, operation: Operation, trusted_time: TrustedTime
) -> WindowVerdict:
    """Return whether *operation* may start on *target* at the trusted time, and why it may not."""
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
    until = _change_cache_for(tuple(source_windows.state_inputs for source_windows in governing)).find_next_change(
        [source_windows.state for source_windows in governing], now
    )
    if all(source_windows.state(now).is_open for source_windows in governing):
        return WindowVerdict(True, edge, until, overridden=overridden)
    closed_sources = [source_windows for source_windows in governing if not source_windows.state(now).is_open]
    drain_rules = [drain_rule for source_windows in closed_sources if (drain_rule := source_windows.drain_rule(now))]
    drain, drain_until = _strictest_rule(drain_rules) if drain_rules else (None, None)
    closed_at = _earliest(source_windows.closed_since(now) for source_windows in closed_sources)
    reason = Reason.WINDOW_CLOSED if until else Reason.NEVER_OPENS
    return WindowVerdict(False, edge, until, reason, closed_windows, overridden, drain, drain_until, closed_at)


def is_in_window(window: Window, now: datetime) -> bool:
    """Has the window an active occurrence, with more time left than its cutoff? True inside a Deny as well; the selector does not count."""
    return start_state(window, now).is_open


class OpenState(NamedTuple):
    """Open or not, and an instant before which that certainly does not change; None is never."""

    is_open: bool
    until: datetime | None


def start_state(window: Window, now: datetime) -> OpenState:
    """Whether something may be started in an occurrence of the window, its cutoff counted."""
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


def make_closed_window(window: Window, now: datetime, source: str = "") -> ClosedWindow:
    """Since when nothing may be started in the window, and until when that stays so. Of one that is open: since when it is, and how long."""
    span, state = window.timeline.span(now), start_state(window, now)
    in_cutoff = span.active and span.until and not state.is_open
    since = span.until - window.cutoff if in_cutoff and span.until else span.since
    return ClosedWindow(window, source, Reason.WINDOW_CLOSED if state.until else Reason.NEVER_OPENS, since, state.until)


class _DrainRule(NamedTuple):
    """What may be finished, and until when; None: that is for the cluster to say, as nothing new is written."""

    drain: Drain
    until: datetime | None


def _drain_rule_of(windows: Sequence[Window], now: datetime) -> _DrainRule:
    """Return the rule of windows that closed together; of several that are equally strict the first limit counts.

    Where it is not known since when they are closed, no limit would end it: nothing new is written.
    """
    strictest = min(window.drain for window in windows)
    limits = [
        since + window.overrun_limit
        for window in windows
        if window.drain is strictest and strictest.is_limited and (since := window.timeline.span(now).since)
    ]
    return _DrainRule(strictest if limits else min(strictest, Drain.UNIT), min(limits, default=None))


def _strictest_rule(rules: Sequence[_DrainRule]) -> _DrainRule:
    """Return the strictest scope, within the first limit of all."""
    drain = min(rule.drain for rule in rules)
    return _DrainRule(drain, _earliest(rule.until for rule in rules) if drain.is_limited else None)


@dataclass(frozen=True, slots=True)
class _SourceWindows:
    """The windows of one source that govern one target and operation."""

    rules: WindowSet
    allows: tuple[Window, ...]
    denies: tuple[Window, ...]
    allows_break_glass: bool

    @classmethod
    def select(cls, rules: WindowSet, target: WindowTarget, operation: Operation) -> _SourceWindows:
        governing = [window for window in rules.windows if window.governs(target, operation)]
        return cls(
            rules,
            tuple(window for window in governing if window.kind is WindowKind.ALLOW),
            tuple(window for window in governing if window.kind is WindowKind.DENY),
            not any(window.forbids_break_glass for window in governing),
        )

    @property
    def state_inputs(self) -> tuple[object, ...]:
        """All that `state` depends on but the time."""
        rules, break_glass_until = self.rules, self.rules.break_glass_until if self.allows_break_glass else None
        start_times = _start_times_of(self.allows), _start_times_of(self.denies)
        return *start_times, rules.no_window, rules.expired_allow, break_glass_until

    def state(self, now: datetime) -> OpenState:
        """Open or not, with a break-glass."""
        state = self._state_by_windows(now)
        break_glass_until = self.rules.break_glass_until
        if break_glass_until is None or now >= break_glass_until or not self.allows_break_glass or state.is_open:
            return state
        return OpenState(True, break_glass_until)

    def overridden_windows(self, now: datetime) -> tuple[ClosedWindow, ...]:
        return self._closing_windows(now) if self.state(now).is_open and not self._state_by_windows(now).is_open else ()

    def closed_windows(self, now: datetime) -> tuple[ClosedWindow, ...]:
        return () if self.state(now).is_open else self._closing_windows(now)

    def current_allows(self, now: datetime) -> list[Window]:
        """The Allows that govern at this time: those that have begun, also those that have ended unless the policy says otherwise."""
        return [
            window
            for window in self.allows
            if window.timeline.has_begun(now)
            and not (self.rules.expired_allow is Openness.OPEN and window.timeline.has_ended(now))
        ]

    def active_denies(self, now: datetime) -> list[Window]:
        return [window for window in self.denies if window.timeline.span(now).active]

    def _state_by_windows(self, now: datetime) -> OpenState:
        if denies := self.active_denies(now):
            return OpenState(False, _latest([window.timeline.span(now).until for window in denies]))
        next_deny = [window.timeline.span(now).until for window in self.denies]
        begins = [window.timeline.begins for window in self.allows if not window.timeline.has_begun(now)]
        if not (allows := self.current_allows(now)):
            is_open = self.rules.no_window is Openness.OPEN
            return OpenState(is_open, _earliest([*next_deny, *begins] if is_open else begins))
        states = [start_state(window, now) for window in allows]
        if any(state.is_open for state in states):
            return OpenState(True, _earliest([*next_deny, _latest([state.until for state in states if state.is_open])]))
        # Where the policy says so, Allows govern no more once all of them have ended.
        governs_ended = self.rules.expired_allow is Openness.CLOSED
        end = None if governs_ended else _latest([window.timeline.ends for window in allows])
        return OpenState(False, _earliest([*(state.until for state in states), end, *begins]))

    def _closing_windows(self, now: datetime) -> tuple[ClosedWindow, ...]:
        if denies := self.active_denies(now):
            return tuple(self._closed_by_deny(window, now) for window in denies)
        return tuple(make_closed_window(window, now, self.rules.source) for window in self.current_allows(now))

    def drain_rule(self, now: datetime) -> _DrainRule | None:
        """Return what may be finished, and until when, while it is closed; None where an Allow has only come into its last part.

        The strictest of the active Denies says it, else the strictest of the Allows that closed last. A Deny that begins
        when Allows have closed already adds to what they say. After the end of a break-glass nothing new is written.
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
        if not rules or self._is_past_break_glass(
            now
        ):  # a break-glass ends with its own time, and nobody asked for more
            rules.append(_DrainRule(Drain.UNIT, None))
        return _strictest_rule(rules)

    def _allows_closed_last(self, now: datetime) -> list[Window] | None:
        """Return the Allows that closed last; None where one of them is active."""
        allows = self.current_allows(now)
        if any(window.timeline.span(now).active for window in allows):
            return None
        last = max((since for window in allows if (since := window.timeline.span(now).since)), default=None)
        return [window for window in allows if window.timeline.span(now).since == last]

    def _is_closed_before(
        self, denies: Sequence[Window], closed_allows: Sequence[Window] | None, now: datetime
    ) -> bool:
        """Return whether Allows had closed when the first of the active Denies began."""
        began, closed = (
            min((since for window in windows if (since := window.timeline.span(now).since)), default=None)
            for windows in (denies, closed_allows or ())
        )
        return began is not None and closed is not None and closed < began

    def _is_past_break_glass(self, now: datetime) -> bool:
        """Return whether a break-glass has ended since these windows closed."""
        until, closed_at = self.rules.break_glass_until, self.closed_since(now)
        return self.allows_break_glass and until is not None and closed_at is not None and closed_at < until <= now

    def closed_since(self, now: datetime) -> datetime | None:
        """Return since when nothing may be started: the start of the first active Deny, or the end of the last Allow, if that was before."""
        denies, closed_allows = self.active_denies(now), self._allows_closed_last(now)
        if closed_allows and self._is_closed_before(denies, closed_allows, now):
            return closed_allows[0].timeline.span(now).since
        times = [closed_window.since for closed_window in self._closing_windows(now) if closed_window.since]
        return (min if denies else max)(times, default=None)

    def _closed_by_deny(self, window: Window, now: datetime) -> ClosedWindow:
        span = window.timeline.span(now)
        reason = Reason.WINDOW_CLOSED if span.until else Reason.NEVER_OPENS
        return ClosedWindow(window, self.rules.source, reason, span.since, span.until)


def _start_times_of(windows: Iterable[Window]) -> tuple[object, ...]:
    """Return what decides when something may be started in windows, whatever their names, and whomever they govern."""
    timelines = ((window.timeline, window.cutoff) for window in windows)
    return tuple((timeline.occurrences, timeline.begins, timeline.ends, cutoff) for timeline, cutoff in timelines)


@dataclass(slots=True)
class _ChangeCache:
    """What the last look ahead of gates found: from `since` to `reached` they answer the same, and otherwise from `change` on, if that is known.

    What never opens has thousands of edges in ten years, and each pass asks for it, of each target.
    """

    since: datetime = _MAX_TIME
    reached: datetime = _MAX_TIME
    change: datetime | None = None

    def find_next_change(
        self, state_functions: Sequence[Callable[[datetime], OpenState]], now: datetime
    ) -> datetime | None:
        """As the function; goes on from where the last look has come to."""
        if not self.since <= now < (self.change or self.reached):
            self.since = self.reached = now
        elif self.change:
            return self.change
        self.reached, self.change = _find_change(state_functions, self.reached, now + HORIZON)
        if self.change == self.reached:  # Given up after too many edges: who asks later looks as far again.
            self.since = _MAX_TIME
        return self.change


@lru_cache(maxsize=256)
def _change_cache_for(_state_inputs: tuple[tuple[object, ...], ...]) -> _ChangeCache:
    """One for all gates that are alike: each commit reads its windows anew, and each target has gates of its own."""
    return _ChangeCache()


def find_next_change(state_functions: Sequence[Callable[[datetime], OpenState]], now: datetime) -> datetime | None:
    """The first instant at which all gates together answer otherwise than now; None where that does not come in ten years."""
    return _find_change(state_functions, now, now + HORIZON)[1]


def _find_change(
    state_functions: Sequence[Callable[[datetime], OpenState]], moment: datetime, horizon: datetime
) -> tuple[datetime, datetime | None]:
    """The last instant found to be answered as the first, and that of the change; goes from edge to edge, never by the clock."""
    states = [state_at(moment) for state_at in state_functions]
    first = all(state.is_open for state in states)
    for _ in range(_MAX_EDGES):
        following = (
            _earliest([s.until for s in states]) if first else _latest([s.until for s in states if not s.is_open])
        )
        if following is None or following > horizon:
            return moment, None
        states = [state_at(following) for state_at in state_functions]
        if all(state.is_open for state in states) is not first:
            return moment, following
        moment = following
    return moment, moment


def _next_edge(governing: Sequence[_SourceWindows], now: datetime) -> datetime:
    """When the first of the windows changes, or comes into its cutoff; at the latest in a year."""
    edges = [source_windows.rules.break_glass_until for source_windows in governing]
    for window in (
        window for source_windows in governing for window in (*source_windows.allows, *source_windows.denies)
    ):
        closes = window.timeline.span(now).until
        edges += [closes, closes - window.cutoff if closes else None, window.timeline.begins, window.timeline.ends]
    return _earliest([edge for edge in edges if edge and edge > now]) or now + timedelta(days=365)


def _earliest(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment), default=None)


def _latest(moments: Sequence[datetime | None]) -> datetime | None:
    """The latest of instants; None, which is never, is later than all."""
    return None if None in moments else max((moment for moment in moments if moment), default=None)
