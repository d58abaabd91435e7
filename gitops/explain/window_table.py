"""The calendar of one source: when its windows are open, and when what they govern may change; as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from applier.plan.model import Operation
from gitops.records.cause_rows import timestamp
from gitops.rollouts.source_rules import SourceRules
from gitops.text import aligned
from gitops.times import TimeFormat, length
from gitops.windows.verdict import TrustedTime, WindowSet, WindowVerdict, judge, startable
from gitops.windows.window import Window, WindowKind, WindowSelector, WindowTarget
from renderer.definition.gates import Gate
from renderer.frozen import dataclass

_AHEAD = timedelta(days=60)
_USUAL = frozenset({Operation.CREATE, Operation.UPDATE, Operation.PRUNE})


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """Targets of one place that the same windows of a source govern. `named` are windows that their gates ask for: these have to be open as well."""

    name: str
    target: WindowTarget
    windows: tuple[Window, ...]
    rules: WindowSet
    named: tuple[Window, ...] = ()

    def judged(self, now: datetime, *, cutoff: bool = True) -> WindowVerdict:
        governing, *named = [
            windows if cutoff else [replace(window, cutoff=timedelta()) for window in windows]
            for windows in (self.windows, *([_as_allow(window)] for window in self.named))
        ]
        rules = [replace(self.rules, windows=governing), *(WindowSet(windows) for windows in named)]
        return judge(rules, self.target, Operation.UPDATE, TrustedTime(now))

    @property
    def is_timed(self) -> bool:
        """Does it open and close, or only close?"""
        return bool(self.named) or any(window.kind is WindowKind.ALLOW for window in self.windows)

    def openings(self, now: datetime) -> Iterator[tuple[datetime | None, datetime | None, datetime | None]]:
        """Opening (None: it is open now), last start and closing; None where that does not come."""
        verdict, opens = self.judged(now), None
        while verdict.open or verdict.until:
            if not verdict.open:
                assert verdict.until
                opens = verdict.until
                verdict = self.judged(opens)
            yield opens, verdict.until, self.judged(opens or now, cutoff=False).until
            if verdict.until is None:
                return
            verdict = self.judged(verdict.until)


@dataclass(frozen=True, slots=True)
class WindowCalendar:
    """The windows of one source, and what they govern."""

    source: str
    windows: tuple[Window, ...]
    groups: tuple[WindowGroup, ...]

    @classmethod
    def of(
        cls,
        rules: SourceRules,
        targets: Iterable[WindowTarget],
        gates: Callable[[WindowTarget], Iterable[Gate]] = lambda _: (),
    ) -> WindowCalendar:
        windows = tuple(rules.windows.values())
        return cls(rules.source, windows, tuple(_groups(windows, rules.for_windows(None), targets, gates)))

    def within(self, namespace: str) -> WindowCalendar:
        """With what is in this namespace only."""
        return replace(self, groups=tuple(group for group in self.groups if group.target.namespace == namespace))


def _as_allow(window: Window) -> Window:
    """As `inWindow` asks for it: whatever its kind, and whomever it governs."""
    return replace(window, kind=WindowKind.ALLOW, selector=WindowSelector(), verbs=_USUAL, by_name=False)


def _groups(
    windows: Sequence[Window],
    rules: WindowSet,
    targets: Iterable[WindowTarget],
    gates: Callable[[WindowTarget], Iterable[Gate]],
) -> Iterator[WindowGroup]:
    """Targets by place and by the windows that govern them, or that their gates need."""
    by_place: dict[str, dict[tuple[str, ...], WindowGroup]] = {}
    needing: dict[str, WindowGroup] = {}
    for target in targets:
        needed = {name for gate in gates(target) for name in gate.needed_windows}
        named = tuple(window for window in windows if window.name in needed)
        governing = tuple(window for window in windows if window.governs(target, Operation.UPDATE))
        names = tuple(window.name for window in governing)
        place = target.namespace or "(cluster-scoped)"
        groups = by_place.setdefault(place, {})
        if named:
            told = f"{place}, in {' and '.join(window.name for window in named)}"
            needing.setdefault(told, WindowGroup(told, target, governing, rules, named))
        else:
            groups.setdefault(names, WindowGroup(place, target, governing, rules))
    for place, groups in sorted(by_place.items()):
        for names, group in sorted(groups.items()):
            told = f"{place}, {' and '.join(names) or 'without a window'}"
            yield group if len(groups) == 1 else replace(group, name=told)
        yield from (needing[name] for name in sorted(needing) if name.startswith(f"{place}, in "))


def as_json(calendar: WindowCalendar, now: datetime, count: int) -> list[dict[str, Any]]:
    """The stable contract of `windows -o json`. Times are RFC 3339 in UTC; null is beyond ten years."""
    return [_as_json(window, calendar, now, count) for window in calendar.windows]


def _as_json(window: Window, calendar: WindowCalendar, now: datetime, count: int) -> dict[str, Any]:
    return {
        **({"source": calendar.source} if calendar.source else {}),
        "name": window.name,
        "kind": window.kind,
        "timeZone": window.zone.key,
        "open": window.timeline.span(now).active,
        "occurrences": [
            {"opens": _time(opens), "closes": _time(closes)}
            for opens, closes in islice(window.timeline.intervals(now), count)
        ],
        "targets": [
            {"target": group.name, "open": verdict.open, "until": _time(verdict.until)}
            for group in calendar.groups
            if window in (*group.windows, *group.named)
            for verdict in (group.judged(now),)
        ],
        "description": window.description,
        "ticket": window.ticket,
    }


def _time(moment: datetime | None) -> str | None:
    return timestamp(moment) if moment else None


def tables(calendar: WindowCalendar, times: TimeFormat, now: datetime, count: int) -> Iterator[str]:
    """Lines: the windows, what they govern, and which Deny is ahead."""
    rows: list[tuple[str, ...]] = [_window_row(window, times, now) for window in calendar.windows]
    yield from aligned([("WINDOW", "KIND", "NOW", "NEXT CHANGE", "GOVERNS"), *rows])
    if rows := [row for group in calendar.groups for row in _target_rows(group, times, now, count)]:
        yield from ("", *aligned([("TARGET", "NOW", "OPENS", "LAST START / CLOSES"), *rows]))
    for window in calendar.windows:
        if ahead := list(_ahead(window, calendar.groups, times, now)):
            yield from ("", *ahead)


def _window_row(window: Window, times: TimeFormat, now: datetime) -> tuple[str, str, str, str, str]:
    span = window.timeline.span(now)
    return (
        window.name,
        window.kind,
        "active" if span.active else "-",
        next_change(window, times, now),
        governs(window),
    )


def next_change(window: Window, times: TimeFormat, now: datetime) -> str:
    """`last start 16:30 CET`, `closes 17:00 CET`, or when it becomes active; `none` where it never changes any more."""
    span = window.timeline.span(now)
    if span.until is None:
        return "none"
    if not span.active:
        return times.short(span.until, now)
    if window.cutoff and startable(window, now).open:
        return f"last start {times.short(span.until - window.cutoff, now)}"
    return f"closes {times.short(span.until, now)}"


def governs(window: Window) -> str:
    """What it selects, in words."""
    if window.by_name:
        return "where it is named"
    selector = window.selector
    named = [("clusters ", selector.clusters), ("", selector.namespaces), ("rgds ", selector.rgds)]
    named += [("nodes ", selector.nodes), ("kinds ", selector.kinds)]
    terms = [f"{key}{', '.join(names)}" for key, names in named if names]
    terms += ["instances by label"] if selector.instances is not None else []
    where = "; ".join(terms) or "everything"
    return where if window.verbs == _USUAL else f"{where} ({', '.join(sorted(window.verbs))} only)"


def _target_rows(group: WindowGroup, times: TimeFormat, now: datetime, count: int) -> list[tuple[str, ...]]:
    state = "open" if group.judged(now).open else "closed"
    rows = [
        (
            times.full(opens) if opens else "(now)" if group.is_timed else "(always)",
            _end(last, closes, times, opens or now),
        )
        for opens, last, closes in islice(group.openings(now), count if group.is_timed else 1)
    ] or [("(never)", "")]
    return [(group.name, state, *rows[0]), *(("", "", *row) for row in rows[1:])]


def _end(last: datetime | None, closes: datetime | None, times: TimeFormat, opens: datetime) -> str:
    """`16:30 / 17:00 CET`, or one time where there is no cutoff."""
    shown = [times.short(edge, opens) for edge in (last, closes) if edge]
    return " / ".join(dict.fromkeys(shown))


def _ahead(window: Window, groups: Sequence[WindowGroup], times: TimeFormat, now: datetime) -> Iterator[str]:
    """A Deny that begins soon, and what it leaves of the openings."""
    span = window.timeline.span(now)
    if window.kind is not WindowKind.DENY or span.active or span.until is None or span.until - now > _AHEAD:
        return
    begins, ends = window.timeline.span(span.until)[1:]
    assert begins
    lasts = f"for {length(ends - begins)}" if ends else "for good"
    yield f"Ahead: {window.name} closes {governs(window)} {lasts} from {times.full(begins)}."
    for group in groups:
        if window in group.windows and group.is_timed and ends:
            opens = next(group.openings(ends), None)
            yield f"       First opening after it for {group.name}: {times.full(opens[0] or ends) if opens else 'never'}."
