"""Random windows around changes of the clock, against an evaluation minute by minute (more with LEVELGATE_FUZZ)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.plan.model import Operation
from gitops.windows import occurrences, verdict, zones
from gitops.windows.verdict import TrustedTime, WindowSet, judge
from gitops.windows.window import Drain, Window
from tests.support.properties.examples import examples
from tests.support.windows.documents import PROD, manifest, read
from tests.support.windows.naive import MINUTE, NaiveWindows, Walk, startable

CHANGES = [
    ("Europe/Berlin", "2026-03-29"), ("Europe/Berlin", "2026-10-25"), ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"), ("Australia/Lord_Howe", "2026-10-04"), ("Australia/Lord_Howe", "2026-04-05"),
    ("Pacific/Chatham", "2026-09-27"), ("Pacific/Chatham", "2026-04-05"), ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"), ("Africa/Casablanca", "2026-02-15"), ("Africa/Casablanca", "2026-03-22"),
    ("America/Havana", "2024-03-10"), ("America/Havana", "2024-11-03"), ("America/St_Johns", "2006-10-29"),
    ("America/St_Johns", "2006-04-02"), ("Asia/Beirut", "2026-03-29"), ("Asia/Beirut", "2026-10-25"),
    ("Pacific/Apia", "2011-12-30"), ("Asia/Kathmandu", "2026-02-28"), ("UTC", "2028-02-29"),
    ("America/Sao_Paulo", "2018-11-04"), ("America/Sao_Paulo", "2018-02-18"), ("Asia/Pyongyang", "2018-05-05"),
]  # fmt: skip
BEFORE, AFTER, AHEAD = timedelta(days=14), timedelta(days=5), timedelta(days=5)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
DRAINS = ("None", "Unit", "Level", "Instance", "Rollout")
Spec = tuple[dict[str, Any], NaiveWindows]


@pytest.fixture(scope="module", autouse=True)
def near_horizon() -> Iterator[None]:
    """Edges are looked for as far as the oracle walks, and farther: ten years of days for each window that never closes were most of the time."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (occurrences, verdict):
            patched.setattr(module, "HORIZON", timedelta(days=60))
        yield


hours = st.integers(0, 23) | st.sampled_from([0, 1, 2, 3, 23])
minutes = st.sampled_from([0, 1, 15, 30, 45, 59]) | st.integers(0, 59)


@st.composite
def specs(draw: st.DrawFn, zone: str, around: date, *, deny: bool | None = None) -> Spec:
    """A window as written, and the same in plain words."""
    deny = draw(st.booleans()) if deny is None else deny
    naive = NaiveWindows(zones.load_zone(zone), deny, lambda day: True, lambda at: True)
    naive, written = draw(st.one_of(crons(naive), rules(naive, around)))
    if draw(st.booleans()):
        naive = replace(
            naive, duration=draw(st.sampled_from([1, 30, 60, 90, 480, 1440, 1500, 2880]) | st.integers(1, 3000))
        )
        written["duration"] = f"{naive.duration}m"
    else:
        weekday, at = draw(st.none() | st.integers(0, 6)), time(draw(hours), draw(minutes))
        naive = replace(naive, until=(weekday, at))
        written["until"] = (
            f"{at:%H:%M}" if weekday is None else f"{'Mon Tue Wed Thu Fri Sat Sun'.split()[weekday]} {at:%H:%M}"
        )
    nearby = st.integers(-4, 4).map(lambda days: around + timedelta(days=days))
    exdates = draw(st.lists(nearby | st.builds(datetime.combine, nearby, st.builds(time, hours, minutes)), max_size=2))
    written["exdates"] = [f"{found:%Y-%m-%dT%H:%M}" if isinstance(found, datetime) else str(found) for found in exdates]
    first, last = draw(st.none() | nearby), draw(st.none() | nearby)
    if first and last and last < first:
        first, last = last, first
    written["effective"] = {name: str(day) for name, day in (("from", first), ("to", last)) if day}
    written |= {"kind": "Deny" if deny else "Allow", "zone": zone}
    return written, replace(naive, exdates=frozenset(exdates), first=first, last=last)


@st.composite
def some(draw: st.DrawFn, few: st.SearchStrategy[int], whole: int) -> list[int]:
    """A few, or now and then all there are: a window that opens at every minute is judged a hundred times as slowly."""
    return draw(st.lists(few, min_size=1, max_size=3, unique=True)) if draw(st.integers(0, 3)) else list(range(whole))


@st.composite
def crons(draw: st.DrawFn, naive: NaiveWindows) -> tuple[NaiveWindows, dict[str, Any]]:
    at_hours, at_minutes = draw(some(hours, 24)), draw(some(minutes, 60))
    weekdays = draw(st.none() | st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True))
    monthdays = (
        draw(st.none() | st.lists(st.integers(1, 31), min_size=1, max_size=20, unique=True)) if not weekdays else None
    )
    fields = (text(at_minutes, 60), text(at_hours, 24), text(monthdays), "*", text(weekdays))
    return replace(
        naive,
        on_day=lambda day: (
            (monthdays is None or day.day in monthdays) and (not weekdays or day.isoweekday() % 7 in weekdays)
        ),
        at_time=lambda at: at.hour in at_hours and at.minute in at_minutes,
    ), {"schedule": {"cron": " ".join(fields)}}


def text(values: list[int] | None, all_of_them: int = 0) -> str:
    return "*" if not values or len(values) == all_of_them else ",".join(map(str, values))


@st.composite
def rules(draw: st.DrawFn, naive: NaiveWindows, around: date) -> tuple[NaiveWindows, dict[str, Any]]:
    start = datetime.combine(around - timedelta(days=draw(st.integers(5, 90))), time(draw(hours), draw(minutes)))
    every, weekday, ordinal = draw(st.integers(1, 4)), draw(st.integers(0, 6)), draw(st.sampled_from([1, 2, -1]))
    written, on_day = draw(
        st.sampled_from(
            [
                (f"FREQ=DAILY;INTERVAL={every}", lambda day: (day - start.date()).days % every == 0),
                (f"FREQ=WEEKLY;BYDAY={WEEKDAYS[weekday]},SU", lambda day: day.weekday() in (weekday, 6)),
                (
                    f"FREQ=MONTHLY;BYMONTHDAY={every * 7},-1",
                    lambda day: day.day == every * 7 or (day + timedelta(1)).day == 1,
                ),
                (f"FREQ=MONTHLY;BYDAY={ordinal}{WEEKDAYS[weekday]}", lambda day: is_nth(day, weekday, ordinal)),
            ]
        )
    )
    return replace(
        naive,
        on_day=lambda day: day >= start.date() and on_day(day),
        at_time=lambda at: (at.hour, at.minute) == (start.hour, start.minute),
    ), {"schedule": {"rrule": written, "dtstart": f"{start:%Y-%m-%dT%H:%M}"}}


def is_nth(day: date, weekday: int, ordinal: int) -> bool:
    if ordinal == -1:
        return day.weekday() == weekday and (day + timedelta(days=7)).month != day.month
    return day.weekday() == weekday and (day.day - 1) // 7 == ordinal - 1


@cache
def walk(zone: str, around: date) -> tuple[Walk, int, int]:
    """Long enough before for what is still open and after for what closes; and the part to be judged, as indices."""
    middle = datetime.combine(around, time(), tzinfo=UTC)
    length = (BEFORE + AFTER + AHEAD) // MINUTE
    return Walk(middle - BEFORE, length, zones.load_zone(zone)), (BEFORE - AHEAD) // MINUTE, (BEFORE + AFTER) // MINUTE


def flips(states: list[bool]) -> list[int]:
    return [index for index in range(1, len(states)) if states[index] != states[index - 1]]


def made(written: dict[str, Any]) -> Window | None:
    """The window; None where what was drawn can never open, which is refused."""
    spec = {name: value for name, value in written.items() if name != "zone"}
    found = read({"w.json": manifest(timeZone=written["zone"], **spec)})
    assert all("can never" in problem.message or "can ever" in problem.message for problem in found.problems), found
    return None if found.problems else found.rules["w"]


@examples(200)
@given(place=st.sampled_from(CHANGES), data=st.data())
def test_a_window_is_active_in_exactly_the_minutes_of_the_naive_one(
    place: tuple[str, str], data: st.DataObject
) -> None:
    zone, around = place[0], date.fromisoformat(place[1])
    written, naive = data.draw(specs(zone, around))
    minutes, start, end = walk(zone, around)
    expected = minutes.active(naive)
    if (found := made(written)) is None:
        assert not any(expected[start:end]), "refused as never open, and it opens"
        return
    actual = [False] * len(expected)
    for opens, closes in found.timeline.intervals(minutes.start + start * MINUTE):
        first = 0 if opens is None else max(0, (opens - minutes.start) // MINUTE)
        if first >= end:
            break
        last = end if closes is None else min(end, (closes - minutes.start) // MINUTE)
        actual[first:last] = [True] * (last - first)
    assert actual[start:end] == expected[start:end]
    edges = flips(expected[:end])
    for index in data.draw(st.lists(st.integers(start, end - 1), min_size=3, max_size=3)):
        span = found.timeline.span(minutes.start + index * MINUTE)
        since, until = (
            max((e for e in edges if e <= index), default=None),
            min((e for e in edges if e > index), default=None),
        )
        assert span.active == expected[index]
        if since is not None and since >= start:
            assert span.since == minutes.start + since * MINUTE
        if until is not None:
            assert span.until == minutes.start + until * MINUTE


@examples(60)
@given(place=st.sampled_from(CHANGES), denies=st.integers(0, 2), allows=st.integers(0, 2), data=st.data())
def test_a_verdict_and_its_end_are_those_of_the_naive_windows(
    place: tuple[str, str], denies: int, allows: int, data: st.DataObject
) -> None:
    """6 and 11 of the semantics: Deny beats Allow, Allows are united, the default without any; until the first minute that differs."""
    zone, around = place[0], date.fromisoformat(place[1])
    minutes, start, end = walk(zone, around)
    denied, allowed = [False] * len(minutes.walls), [False] * len(minutes.walls)
    governed = [False] * len(minutes.walls)
    windows = []
    denies_by_drain: list[tuple[Drain, list[bool]]] = []
    for deny in [True] * denies + [False] * allows:
        written, naive = data.draw(specs(zone, around, deny=deny))
        written |= {"drain": data.draw(st.sampled_from(DRAINS)), "overrunLimit": "45m"}
        cutoff = 0 if deny else data.draw(st.sampled_from([0, 20, 90]))
        if (found := made(written | ({"cutoff": f"{cutoff}m"} if cutoff else {}))) is None:
            continue
        windows.append(found)
        active = minutes.active(naive)
        begins = minutes.first.get(datetime.combine(naive.first, time()), 0) if naive.first else 0
        if deny:
            denied = [a or b for a, b in zip(denied, active, strict=True)]
            denies_by_drain.append((found.drain, active))
        else:
            allowed = [a or b for a, b in zip(allowed, startable(active, cutoff), strict=True)]
            governed = [there or index >= begins for index, there in enumerate(governed)]
    states = [not deny and (allow or not there) for deny, allow, there in zip(denied, allowed, governed, strict=True)]
    edges = flips(states[:end])
    for index in data.draw(st.lists(st.integers(start, end - 1), min_size=5, max_size=5)):
        verdict = judge([WindowSet(windows)], PROD, Operation.UPDATE, TrustedTime(minutes.start + index * MINUTE))
        assert verdict.is_open == states[index]
        if strictest := min((drain for drain, active in denies_by_drain if active[index]), default=None):
            assert verdict.drain is not None
            assert verdict.drain <= strictest
            assert allows or verdict.drain is strictest
        if verdict.drain and verdict.drain.is_limited:
            assert verdict.closed_at
            assert verdict.drain_until == verdict.closed_at + timedelta(minutes=45) or len(windows) > 1
            assert verdict.drain_until
            assert verdict.drain_until - verdict.closed_at >= timedelta(minutes=45)
        if until := min((edge for edge in edges if edge > index), default=None):
            assert verdict.until == minutes.start + until * MINUTE
        else:
            assert verdict.until is None or verdict.until >= minutes.start + end * MINUTE


def test_the_list_of_changes_has_both_directions_and_odd_offsets() -> None:
    """The oracle is worth nothing without a change of the clock inside its walk."""
    for zone, day in CHANGES:
        minutes, _, _ = walk(zone, date.fromisoformat(day))
        changes = [b - a for a, b in zip(minutes.walls, minutes.walls[1:], strict=False) if b - a != MINUTE]
        assert bool(changes) == (zone not in {"Asia/Kathmandu", "UTC"}), (zone, day, changes)
    assert len(set(CHANGES)) == len(CHANGES)
