"""Calendar of one source as tables and JSON: its windows, and the times at which governed objects may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from applier.plan.model import Operation
from gitops.durations import format_duration
from gitops.rollouts.source_rules import SourceRules
from gitops.text import TimeFormat, align_table
from gitops.timestamps import optional_timestamp
from gitops.windows.verdict import TrustedTime, WindowSet, WindowVerdict, judge, start_state
from gitops.windows.window import Window, WindowKind, WindowSelector, WindowTarget
from renderer.definition.gates import Gate
from renderer.frozen import dataclass

_DENY_NOTICE_PERIOD = timedelta(days=60)
"""Longest notice of a Deny window: the time from the announcement in the tables to the start of the window."""
_DEFAULT_OPERATIONS = frozenset({Operation.CREATE, Operation.UPDATE, Operation.PRUNE})
"""Operations that a window governs if it names no operations."""


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """Objects of one namespace that the same windows govern."""

    name: str
    target: WindowTarget
    """One object of the group. The verdicts on this object apply to all objects of the group."""
    windows: tuple[Window, ...]
    rules: WindowSet
    gate_windows: tuple[Window, ...] = ()
    """Further windows that have to be open, because gates of the objects require them."""

    def verdict_at(self, now: datetime, *, cutoff: bool = True) -> WindowVerdict:
        """Return the verdict on an update at the time `now`.

        Args:
            cutoff: True for the start of an update, False for the continuation of a started update.
        """
        governing, *gate_window_lists = [
            windows if cutoff else [replace(window, cutoff=timedelta()) for window in windows]
            for windows in (self.windows, *([_as_allow(window)] for window in self.gate_windows))
        ]
        rules = [replace(self.rules, windows=governing), *(WindowSet(windows) for windows in gate_window_lists)]
        return judge(rules, self.target, Operation.UPDATE, TrustedTime(now))

    @property
    def is_timed(self) -> bool:
        """Return whether the group has openings. A group with only Deny windows is open outside of the Deny windows."""
        return bool(self.gate_windows) or any(window.kind is WindowKind.ALLOW for window in self.windows)

    def openings(self, now: datetime) -> Iterator[tuple[datetime | None, datetime | None, datetime | None]]:
        """Yield the times of each opening from `now` on: the start of the opening, the last start, and the end.

        If the group is open already, the first time is None. If the opening has no last start or no end, this time is
        None.
        """
        verdict, opens = self.verdict_at(now), None
        while verdict.is_open or verdict.until:
            if not verdict.is_open:
                assert verdict.until
                opens = verdict.until
                verdict = self.verdict_at(opens)
            yield opens, verdict.until, self.verdict_at(opens or now, cutoff=False).until
            if verdict.until is None:
                return
            verdict = self.verdict_at(verdict.until)


@dataclass(frozen=True, slots=True)
class WindowCalendar:
    """Windows of one source, and the groups of objects that the windows govern."""

    source: str
    windows: tuple[Window, ...]
    groups: tuple[WindowGroup, ...]

    @classmethod
    def from_rules(
        cls,
        rules: SourceRules,
        targets: Iterable[WindowTarget],
        gates: Callable[[WindowTarget], Iterable[Gate]],
    ) -> WindowCalendar:
        """Return the calendar of `rules` for `targets`.

        Args:
            gates: function that returns the gates of an object.
        """
        windows = tuple(rules.windows.values())
        return cls(rules.source, windows, tuple(_group_targets(windows, rules.window_set(None), targets, gates)))

    def in_namespace(self, namespace: str) -> WindowCalendar:
        """Return the calendar with only the objects of one namespace."""
        return replace(self, groups=tuple(group for group in self.groups if group.target.namespace == namespace))


def _as_allow(window: Window) -> Window:
    """Return the window as an Allow window that governs all objects. The gate function `inWindow` uses the result."""
    return replace(
        window, kind=WindowKind.ALLOW, selector=WindowSelector(), operations=_DEFAULT_OPERATIONS, by_name=False
    )


def _group_targets(
    windows: Sequence[Window],
    rules: WindowSet,
    targets: Iterable[WindowTarget],
    gates: Callable[[WindowTarget], Iterable[Gate]],
) -> Iterator[WindowGroup]:
    """Yield the groups, sorted by namespace. Objects with equal windows share a group."""
    by_place: dict[str, dict[tuple[str, ...], WindowGroup]] = {}
    gated_groups: dict[str, WindowGroup] = {}
    for target in targets:
        needed_names = {name for gate in gates(target) for name in gate.needed_windows}
        gate_windows = tuple(window for window in windows if window.name in needed_names)
        governing = tuple(window for window in windows if window.governs(target, Operation.UPDATE))
        names = tuple(window.name for window in governing)
        place = target.namespace or "(cluster-scoped)"
        groups = by_place.setdefault(place, {})
        if gate_windows:
            group_name = f"{place}, in {' and '.join(window.name for window in gate_windows)}"
            gated_groups.setdefault(group_name, WindowGroup(group_name, target, governing, rules, gate_windows))
        else:
            groups.setdefault(names, WindowGroup(place, target, governing, rules))
    for place, groups in sorted(by_place.items()):
        for names, group in sorted(groups.items()):
            group_name = f"{place}, {' and '.join(names) or 'without a window'}"
            yield group if len(groups) == 1 else replace(group, name=group_name)
        yield from (gated_groups[name] for name in sorted(gated_groups) if name.startswith(f"{place}, in "))


def as_json(calendar: WindowCalendar, now: datetime, count: int) -> list[dict[str, Any]]:
    """Return the stable document of `windows -o json`.

    Times are RFC 3339 in UTC. If a time is more than ten years after `now`, the time is null.
    """
    return [_window_json(window, calendar, now, count) for window in calendar.windows]


def _window_json(window: Window, calendar: WindowCalendar, now: datetime, count: int) -> dict[str, Any]:
    return {
        **({"source": calendar.source} if calendar.source else {}),
        "name": window.name,
        "kind": window.kind,
        "timeZone": window.zone.key,
        "open": window.timeline.span(now).active,
        "occurrences": [
            {"opens": optional_timestamp(opens), "closes": optional_timestamp(closes)}
            for opens, closes in islice(window.timeline.intervals(now), count)
        ],
        "targets": [
            {"target": group.name, "open": verdict.is_open, "until": optional_timestamp(verdict.until)}
            for group in calendar.groups
            if window in (*group.windows, *group.gate_windows)
            for verdict in (group.verdict_at(now),)
        ],
        "description": window.description,
        "ticket": window.ticket,
    }


def format_tables(calendar: WindowCalendar, times: TimeFormat, now: datetime, count: int) -> Iterator[str]:
    """Yield the tables of windows and of openings, and the announcements of coming Deny windows."""
    rows: list[tuple[str, ...]] = [_window_row(window, times, now) for window in calendar.windows]
    yield from align_table([("WINDOW", "KIND", "NOW", "NEXT CHANGE", "GOVERNS"), *rows])
    if rows := [row for group in calendar.groups for row in _target_rows(group, times, now, count)]:
        yield from ("", *align_table([("TARGET", "NOW", "OPENS", "LAST START / CLOSES"), *rows]))
    for window in calendar.windows:
        if deny_lines := list(_upcoming_deny(window, calendar.groups, times, now)):
            yield from ("", *deny_lines)


def _window_row(window: Window, times: TimeFormat, now: datetime) -> tuple[str, str, str, str, str]:
    span = window.timeline.span(now)
    return (
        window.name,
        window.kind,
        "active" if span.active else "-",
        describe_next_change(window, times, now),
        describe_selector(window),
    )


def describe_next_change(window: Window, times: TimeFormat, now: datetime) -> str:
    """Return the next change: `last start 16:30 CET`, `closes 17:00 CET`, the start of the window, or `none`."""
    span = window.timeline.span(now)
    if span.until is None:
        return "none"
    if not span.active:
        return times.format_short(span.until, now)
    if window.cutoff and start_state(window, now).is_open:
        return f"last start {times.format_short(span.until - window.cutoff, now)}"
    return f"closes {times.format_short(span.until, now)}"


def describe_selector(window: Window) -> str:
    """Return the selector of a window in words."""
    if window.by_name:
        return "where it is named"
    selector = window.selector
    selector_terms = [("clusters ", selector.clusters), ("", selector.namespaces), ("rgds ", selector.rgds)]
    selector_terms += [("nodes ", selector.nodes), ("kinds ", selector.kinds)]
    terms = [f"{key}{', '.join(names)}" for key, names in selector_terms if names]
    terms += ["instances by label"] if selector.instances is not None else []
    scope = "; ".join(terms) or "everything"
    return (
        scope if window.operations == _DEFAULT_OPERATIONS else f"{scope} ({', '.join(sorted(window.operations))} only)"
    )


def _target_rows(group: WindowGroup, times: TimeFormat, now: datetime, count: int) -> list[tuple[str, ...]]:
    state = "open" if group.verdict_at(now).is_open else "closed"
    rows = [
        (
            times.format_full(opens) if opens else "(now)" if group.is_timed else "(always)",
            _format_end(last, closes, times, opens or now),
        )
        for opens, last, closes in islice(group.openings(now), count if group.is_timed else 1)
    ] or [("(never)", "")]
    return [(group.name, state, *rows[0]), *(("", "", *row) for row in rows[1:])]


def _format_end(last: datetime | None, closes: datetime | None, times: TimeFormat, opens: datetime) -> str:
    """Return last start and closing, such as `16:30 / 17:00 CET`. Without a cutoff, return the closing alone."""
    edges = [times.format_short(edge, opens) for edge in (last, closes) if edge]
    return " / ".join(dict.fromkeys(edges))


def _upcoming_deny(window: Window, groups: Sequence[WindowGroup], times: TimeFormat, now: datetime) -> Iterator[str]:
    """Yield the announcement of a coming Deny window, and the first opening of each governed group after the window."""
    span = window.timeline.span(now)
    if (
        window.kind is not WindowKind.DENY
        or span.active
        or span.until is None
        or span.until - now > _DENY_NOTICE_PERIOD
    ):
        return
    begins, ends = window.timeline.span(span.until)[1:]
    assert begins
    duration = f"for {format_duration(ends - begins)}" if ends else "for good"
    yield f"Ahead: {window.name} closes {describe_selector(window)} {duration} from {times.format_full(begins)}."
    for group in groups:
        if window in group.windows and group.is_timed and ends:
            opens = next(group.openings(ends), None)
            first_opening = times.format_full(opens[0] or ends) if opens else "never"
            yield f"       First opening after {window.name} for {group.name}: {first_opening}."
