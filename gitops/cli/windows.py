"""`levelgate windows`: the calendar of a repository."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click
import orjson

from applier.plan import Effect
from gitops import compose
from gitops.cli.text import described
from gitops.clock import SystemClock
from gitops.propagation import zones
from gitops.propagation.fields import windows_of
from gitops.propagation.judge import Reading, Rules, Verdict, judge, startable
from gitops.propagation.lint import warnings
from gitops.propagation.targets import targets
from gitops.propagation.window import Kind, Target, Window
from renderer.render import render

_AHEAD = timedelta(days=60)
_YEARS = range(1970, 2490)
_USUAL = frozenset({Effect.CREATE, Effect.UPDATE, Effect.PRUNE})


@dataclass(frozen=True, slots=True)
class _Group:
    """Targets of one place that the same windows govern."""

    name: str
    target: Target
    windows: tuple[Window, ...]

    def judged(self, now: datetime, *, cutoff: bool = True) -> Verdict:
        windows = self.windows if cutoff else [replace(window, cutoff=timedelta()) for window in self.windows]
        return judge([Rules(windows)], self.target, Effect.UPDATE, Reading(now))

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
class _Times:
    """How times are shown: in the zone of the terminal, or UTC."""

    utc: bool

    def full(self, moment: datetime) -> str:
        return f"{self._shown(moment):%a %Y-%m-%d %H:%M %Z}"

    def short(self, moment: datetime, day: datetime) -> str:
        """Without the date where it is that of `day`."""
        shown = self._shown(moment)
        return f"{shown:%H:%M %Z}" if shown.date() == self._shown(day).date() else self.full(moment)

    def read(self, text: str) -> datetime:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            found = None
        if found is None or found.year not in _YEARS:
            raise click.BadParameter(
                f"{text!r} is not a time; write for example 2026-12-24T10:00 or 2026-12-24T09:00:00Z", param_hint="--at"
            )
        return (found.replace(tzinfo=UTC) if self.utc and found.tzinfo is None else found).astimezone(UTC)

    def _shown(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC) if self.utc else moment.astimezone()


@click.command()
@click.argument("place", metavar="PATH|URL")
@click.option(
    "--revision", metavar="REV", default="", help="Read this commit (branch, tag or id) instead of the working tree."
)
@click.option("--at", metavar="TIME", help="Look from this time on, such as 2026-12-24T10:00; else from now on.")
@click.option(
    "--next", "count", type=click.IntRange(1, 100), default=3, show_default=True, help="So many openings of each."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--utc", is_flag=True, help="Show and read times in UTC instead of the zone of the terminal.")
def command(place: str, revision: str, at: str | None, count: int, output: str, utc: bool) -> int:
    """Show the calendar of a repository: its windows, and when what they govern may change.

    Needs no cluster. Exits 1 when a window, or a file that may hold one, cannot be read; the others are shown all the same.

    \b
    levelgate windows sample-repo
    levelgate windows . --at 2026-12-24T10:00 --next 5
    levelgate windows . --utc -o json
    """
    times = _Times(utc)
    now = times.read(at) if at else SystemClock().now()
    snapshot = compose.read(place, revision=revision)
    catalog = compose.catalog_of(snapshot)
    found = windows_of(catalog)
    groups = _groups(found.windows, targets(render([catalog]), catalog.definitions))
    if output == "json":
        content = [_as_json(window, groups, now, count) for window in found.windows]
        click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
    else:
        header = f"{place}: {described(snapshot, revision)}\n{times.full(now)} ({now:%H:%MZ}), tzdata {zones.version()}"
        click.echo("\n".join([header, "", *_calendar(found.windows, groups, times, now, count)]))
    problems = [*(problem for problem in catalog.problems if problem.file in catalog.unreadable), *found.problems]
    for problem in problems:
        click.echo(f"{problem}", err=True)
    for warning in warnings(found.windows, now):
        click.echo(f"warning: {warning}", err=True)
    return 1 if problems else 0


def _groups(windows: Sequence[Window], found: Iterator[Target]) -> list[_Group]:
    """Targets by place and by the windows that govern them. A cluster is known by its name in a window only, or any other."""
    clusters = dict.fromkeys(["", *(name for window in windows for name in window.selector.clusters or ())])
    by_place: dict[str, dict[tuple[str, ...], _Group]] = {}
    for target in found:
        for cluster in clusters:
            there = replace(target, cluster=cluster)
            governing = tuple(window for window in windows if window.governs(there, Effect.UPDATE))
            names = tuple(window.name for window in governing)
            place = " ".join(filter(None, (cluster, target.namespace or "(cluster-scoped)")))
            by_place.setdefault(place, {}).setdefault(names, _Group(place, there, governing))
    return [
        group if len(groups) == 1 else replace(group, name=f"{place}, {' and '.join(names) or 'without a window'}")
        for place, groups in sorted(by_place.items())
        for names, group in sorted(groups.items())
    ]


def _as_json(window: Window, groups: Sequence[_Group], now: datetime, count: int) -> dict[str, Any]:
    """The stable contract of `windows -o json`. Times are RFC 3339 in UTC; null is beyond ten years."""
    return {
        "name": window.name,
        "kind": window.kind,
        "timeZone": window.zone.key,
        "open": window.timeline.span(now).active,
        "occurrences": [
            {"opens": _rfc3339(opens), "closes": _rfc3339(closes)}
            for opens, closes in islice(window.timeline.intervals(now), count)
        ],
        "targets": [
            {"target": group.name, "open": verdict.open, "until": _rfc3339(verdict.until)}
            for group in groups
            if window in group.windows
            for verdict in (group.judged(now),)
        ],
        "description": window.description,
        "ticket": window.ticket,
    }


def _rfc3339(moment: datetime | None) -> str | None:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def _calendar(
    windows: Sequence[Window], groups: Sequence[_Group], times: _Times, now: datetime, count: int
) -> Iterator[str]:
    if not windows:
        yield "No windows: the calendar holds nothing back."
        return
    yield from _columns(
        [("WINDOW", "KIND", "NOW", "NEXT CHANGE", "GOVERNS"), *(_window_row(window, times, now) for window in windows)]
    )
    if rows := [row for group in groups for row in _target_rows(group, times, now, count)]:
        yield from ("", *_columns([("TARGET", "NOW", "OPENS", "LAST START / CLOSES"), *rows]))
    for window in windows:
        if ahead := list(_ahead(window, groups, times, now)):
            yield from ("", *ahead)


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _window_row(window: Window, times: _Times, now: datetime) -> tuple[str, str, str, str, str]:
    span = window.timeline.span(now)
    return (
        window.name,
        window.kind,
        "active" if span.active else "-",
        _next_change(window, times, now),
        _governs(window),
    )


def _next_change(window: Window, times: _Times, now: datetime) -> str:
    span = window.timeline.span(now)
    if span.until is None:
        return "none"
    if not span.active:
        return times.short(span.until, now)
    if window.cutoff and startable(window, now).open:
        return f"last start {times.short(span.until - window.cutoff, now)}"
    return f"closes {times.short(span.until, now)}"


def _governs(window: Window) -> str:
    if window.by_name:
        return "where it is named"
    selector = window.selector
    named = [("clusters ", selector.clusters), ("", selector.namespaces), ("rgds ", selector.rgds)]
    named += [("nodes ", selector.nodes), ("kinds ", selector.kinds)]
    terms = [f"{key}{', '.join(names)}" for key, names in named if names]
    terms += ["instances by label"] if selector.instances is not None else []
    where = "; ".join(terms) or "everything"
    return where if window.verbs == _USUAL else f"{where} ({', '.join(sorted(window.verbs))} only)"


def _target_rows(group: _Group, times: _Times, now: datetime, count: int) -> list[tuple[str, ...]]:
    state = "open" if group.judged(now).open else "closed"
    allowed = any(window.kind is Kind.ALLOW for window in group.windows)
    rows = [
        (
            times.full(opens) if opens else "(now)" if allowed else "(always)",
            _end(last, closes, times, opens or now),
        )
        for opens, last, closes in islice(group.openings(now), count if allowed else 1)
    ] or [("(never)", "")]
    return [(group.name, state, *rows[0]), *(("", "", *row) for row in rows[1:])]


def _end(last: datetime | None, closes: datetime | None, times: _Times, opens: datetime) -> str:
    """`16:30 / 17:00 CET`, or one time where there is no cutoff."""
    shown = [times.short(edge, opens) for edge in (last, closes) if edge]
    return " / ".join(dict.fromkeys(shown))


def _ahead(window: Window, groups: Sequence[_Group], times: _Times, now: datetime) -> Iterator[str]:
    """A Deny that begins soon, and what it leaves of the openings."""
    span = window.timeline.span(now)
    if window.kind is not Kind.DENY or span.active or span.until is None or span.until - now > _AHEAD:
        return
    begins, ends = window.timeline.span(span.until)[1:]
    assert begins
    length = f"for {_length(ends - begins)}" if ends else "for good"
    yield f"Ahead: {window.name} closes {_governs(window)} {length} from {times.full(begins)}."
    for group in groups:
        if window in group.windows and any(other.kind is Kind.ALLOW for other in group.windows) and ends:
            opens = next(group.openings(ends), None)
            yield f"       First opening after it for {group.name}: {times.full(opens[0] or ends) if opens else 'never'}."


def _length(duration: timedelta) -> str:
    """`16d 18h`, `2h 30m`."""
    minutes = int(duration.total_seconds()) // 60
    parts = [(minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m")]
    return " ".join(f"{number}{unit}" for number, unit in parts if number) or "less than a minute"
