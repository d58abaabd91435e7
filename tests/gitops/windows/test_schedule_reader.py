"""Times of a window: the timeline they make, and the problems of a spec."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from gitops.windows.occurrences import Interval, Repeating, WindowTimeline
from gitops.windows.problem_collector import FieldProblems
from gitops.windows.schedule_reader import ScheduleReader
from gitops.windows.zones import load_zone
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import SourceLocation

DAILY = {"schedule": {"cron": "0 9 * * *"}, "duration": "8h"}


def read(spec: dict[str, Any], cutoff: timedelta = timedelta()) -> tuple[WindowTimeline | None, list[tuple[str, str]]]:
    """The timeline of a spec, and its problems by path."""
    problems = FieldProblems(DeclaredObject({}, SourceLocation("windows.yaml", 1), None))
    timeline = ScheduleReader({"kind": "Allow", **spec}, problems, {}, load_zone("UTC")).read_timeline(cutoff)
    return timeline, [(problem.path, problem.message) for problem in problems.problems]


def test_both_effective_dates_are_inclusive() -> None:
    timeline, problems = read({**DAILY, "effective": {"from": "2026-03-01", "to": "2026-03-02"}})
    assert timeline is not None
    assert problems == []
    assert timeline.begins == datetime(2026, 3, 1, tzinfo=UTC)
    assert timeline.ends == datetime(2026, 3, 3, tzinfo=UTC)


def test_a_spec_that_can_never_open_is_a_problem() -> None:
    timeline, problems = read(DAILY, cutoff=timedelta(hours=8))
    assert timeline is None or problems
    assert [path for path, _ in problems] == ["spec.cutoff"]
    _, problems = read({**DAILY, "effective": {"from": "2026-03-02", "to": "2026-03-01"}})
    assert [path for path, _ in problems] == ["spec.effective.to"]


@pytest.mark.parametrize("end", [{"duration": "24h"}, {"until": "00:00"}])
def test_a_window_that_is_always_open_is_read_without_a_search_for_its_end(
    end: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its merged occurrence has no end within ten years; of each commit all windows are read."""
    days, looked_at = list[date](), Repeating._occurrences_on

    def on(self: Repeating, day: date) -> tuple[Interval, ...]:
        days.append(day)
        return looked_at(self, day)

    monkeypatch.setattr(Repeating, "_occurrences_on", on)
    _, problems = read({"schedule": {"cron": "0 0 * * *"}, **end}, cutoff=timedelta(hours=1))
    assert problems == []
    assert 0 < len(days) < 10


def test_a_cutoff_that_covers_single_occurrences_leaves_a_window_whose_occurrences_touch() -> None:
    _, problems = read({"schedule": {"cron": "0 0 * * *"}, "duration": "24h"}, cutoff=timedelta(hours=24))
    assert problems == []


def test_an_effective_time_that_cuts_an_occurrence_short_counts_for_the_cutoff() -> None:
    """Seven hours are left of the first occurrence, one hour of the second; the whole occurrence has eight."""
    day = {"effective": {"from": "2026-03-01", "to": "2026-03-01"}}
    short = {"schedule": {"cron": "0 23 * * *"}, "duration": "8h", **day}
    assert [path for path, _ in read(short, cutoff=timedelta(hours=7))[1]] == ["spec.cutoff"]
    assert read(short, cutoff=timedelta(hours=6))[1] == []


def test_all_problems_are_reported_together() -> None:
    _, problems = read({"schedule": {"cron": "* *"}, "exdates": ["soon"], "duration": "8h", "until": "17:00"})
    assert [path for path, _ in problems] == ["spec.exdates[0]", "spec.until", "spec.schedule.cron"]


def test_a_single_occurrence_has_its_own_end() -> None:
    once = {"schedule": {"once": [{"start": "2026-03-01T09:00", "end": "2026-03-01T17:00"}]}}
    timeline, problems = read(once)
    assert timeline is not None
    assert problems == []
    assert timeline.span(datetime(2026, 3, 1, 12, tzinfo=UTC)).active
    assert [path for path, _ in read({**once, "duration": "1h"})[1]] == ["spec.duration"]
