"""The dated cases W1 to W30: each expectation was worked out by hand from the wall clocks of the zones."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from applier.causes import Reason
from applier.plan.model import Operation
from gitops.windows import zones
from gitops.windows.lint import find_common_opening, find_warnings
from gitops.windows.verdict import TrustedTime, WindowSet, is_in_window, judge
from gitops.windows.window import Drain, Openness, Window
from tests.support.windows.documents import PROD, active, between, following, manifest, read, utc, verdict, window

NEW_YORK = "America/New_York"


def business_hours(**spec: Any) -> Window:
    return window("business-hours", cron="0 9 * * 1-5", duration="8h", **spec)


def year_end() -> Window:
    once = [{"start": "2026-12-23T00:00", "end": "2027-01-04T00:00"}]
    return window("freeze", kind="Deny", schedule={"once": once})


def test_w1_weekdays_in_winter() -> None:
    assert active(business_hours(), "2026-03-16 08:00") == between("2026-03-16 08:00", "2026-03-16 16:00")


def test_w2_half_open_and_monday_after_the_change_of_the_clock() -> None:
    assert verdict(business_hours(), at="2026-03-27 15:59:59").is_open
    closed = verdict(business_hours(), at="2026-03-27 16:00:00")
    assert (closed.is_open, closed.reason, closed.until) == (False, Reason.WINDOW_CLOSED, utc("2026-03-30 07:00"))


@pytest.mark.parametrize(
    ("case", "zone", "cron", "end", "at", "opens", "closes"),
    [
        ("w3", "Europe/Berlin", "30 2 * * *", {"duration": "2h"}, "2026-03-29 01:00", "2026-03-29 01:00", "2026-03-29 03:00"),
        ("w4", "Europe/Berlin", "0 1 * * *", {"duration": "3h"}, "2026-03-29 00:00", "2026-03-29 00:00", "2026-03-29 03:00"),
        ("w5", "Europe/Berlin", "0 22 * * *", {"until": "06:00"}, "2026-03-29 01:00", "2026-03-28 21:00", "2026-03-29 04:00"),
        ("w6", "Europe/Berlin", "0 22 * * *", {"duration": "8h"}, "2026-03-29 01:00", "2026-03-28 21:00", "2026-03-29 05:00"),
        ("w7", "Europe/Berlin", "30 2 * * *", {"duration": "1h"}, "2026-10-25 00:30", "2026-10-25 00:30", "2026-10-25 01:30"),
        ("w8", "Europe/Berlin", "0 22 * * *", {"until": "06:00"}, "2026-10-25 01:00", "2026-10-24 20:00", "2026-10-25 05:00"),
        ("w9 as Allow", "Europe/Berlin", "0 1 * * *", {"until": "02:30"}, "2026-10-25 00:00", "2026-10-24 23:00", "2026-10-25 00:30"),
        ("w10", "Europe/Berlin", "30 1 * * *", {"until": "02:30"}, "2026-03-29 00:45", "2026-03-29 00:30", "2026-03-29 01:00"),
        ("w11", NEW_YORK, "15 2 * * *", {"duration": "1h"}, "2026-03-08 07:00", "2026-03-08 07:00", "2026-03-08 08:00"),
        ("w12", NEW_YORK, "30 1 * * *", {"duration": "2h"}, "2026-11-01 06:45", "2026-11-01 05:30", "2026-11-01 07:30"),
        ("w20 gap", "Australia/Lord_Howe", "15 2 * * *", {"duration": "1h"}, "2026-10-03 16:00", "2026-10-03 15:30", "2026-10-03 16:30"),
        ("w20 fold", "Australia/Lord_Howe", "45 1 * * *", {"duration": "1h"}, "2026-04-04 15:15", "2026-04-04 14:45", "2026-04-04 15:45"),
        ("w21", "Pacific/Chatham", "45 2 * * *", {"duration": "1h"}, "2026-09-26 14:30", "2026-09-26 14:00", "2026-09-26 15:00"),
    ],
)  # fmt: skip
def test_daily_around_a_change_of_the_clock(
    case: str, zone: str, cron: str, end: dict[str, str], at: str, opens: str, closes: str
) -> None:
    """W3 to W12, W20, W21: W3, W4, W5, W6, W7, W8, W9, W10, W11, W12 in Berlin and New York; half an hour and odd offsets elsewhere."""
    assert active(window(zone=zone, cron=cron, **end), at) == between(opens, closes), case


def test_w4_a_duration_is_elapsed_time_and_not_a_shift_of_the_wall_clock() -> None:
    """Adding to a local time of Python moves the wall clock: one hour is missing on that night."""
    opening = datetime(2026, 3, 29, 1, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert (opening + timedelta(hours=3)).astimezone(zones.load_zone("UTC")) == utc("2026-03-29 02:00")
    assert active(window(cron="0 1 * * *", duration="3h"), "2026-03-29 02:59:59")[1] == utc("2026-03-29 03:00")


def test_w7_the_repeated_hour_does_not_open_twice() -> None:
    assert not window(cron="30 2 * * *", duration="1h").timeline.span(utc("2026-10-25 01:30")).active


def test_w9_a_deny_closes_at_the_second_of_two_equal_times() -> None:
    deny = window(kind="Deny", cron="0 1 * * *", until="02:30")
    assert active(deny, "2026-10-25 01:00") == between("2026-10-24 23:00", "2026-10-25 01:30")


@pytest.mark.parametrize(
    ("opens", "closes", "hours"),
    [("2026-03-06 23:00", "2026-03-09 10:00", 59), ("2026-10-30 22:00", "2026-11-02 11:00", 61)],
)
def test_w13_a_weekend_is_as_long_as_the_wall_clock_says(opens: str, closes: str, hours: int) -> None:
    weekend = window(kind="Deny", zone=NEW_YORK, cron="0 18 * * 5", until="Mon 06:00")
    assert active(weekend, opens) == between(opens, closes)
    assert utc(closes) - utc(opens) == timedelta(hours=hours)


def test_w14_29_february_is_skipped_in_common_years() -> None:
    rule = {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "dtstart": "2024-02-29T09:00"}
    leap = window(zone=NEW_YORK, schedule=rule, duration="8h")
    assert following(leap, "2026-11-21 00:00") == between("2028-02-29 14:00", "2028-02-29 22:00")


def test_w15_the_31st_is_skipped_in_short_months() -> None:
    rule = {"rrule": "FREQ=MONTHLY;BYMONTHDAY=31", "dtstart": "2026-01-31T00:00"}
    last = window(zone="UTC", schedule=rule, duration="1h")
    assert following(last, "2026-01-31 01:00") == between("2026-03-31 00:00", "2026-03-31 01:00")


def test_w16_a_deny_beats_an_allow_and_the_next_opening_knows() -> None:
    assert active(year_end(), "2026-12-24 10:00") == between("2026-12-22 23:00", "2027-01-03 23:00")
    denied = verdict(business_hours(), year_end(), at="2026-12-24 10:00")
    assert [closing.window.name for closing in denied.closed_windows] == ["freeze"]
    assert denied.until == utc("2027-01-04 08:00")
    after_hours = verdict(business_hours(), year_end(), at="2026-12-22 17:00")
    assert [closing.window.name for closing in after_hours.closed_windows] == ["business-hours"]
    assert after_hours.until == utc("2027-01-04 08:00")


def test_w17_no_seam_between_windows_that_touch() -> None:
    morning = window("morning", cron="0 9 * * *", until="12:00")
    afternoon = window("afternoon", cron="0 12 * * *", until="15:00")
    found = verdict(morning, afternoon, at="2026-03-16 11:00:00")
    assert found.is_open
    assert verdict(morning, afternoon, at="2026-03-16 11:59:59").until == utc("2026-03-16 14:00")
    assert (found.until, found.drain) == (utc("2026-03-16 14:00"), None)


def test_w18_in_the_cutoff_nothing_starts_and_what_was_started_goes_on() -> None:
    hours = business_hours(cutoff="30m")
    assert verdict(hours, at="2026-03-16 15:29:59").is_open
    late = verdict(hours, at="2026-03-16 15:30:00")
    assert (late.is_open, late.drain, late.until) == (False, None, utc("2026-03-17 08:00"))
    assert not is_in_window(hours, utc("2026-03-16 15:30:00"))


@pytest.mark.parametrize(
    ("day", "opens", "closes"),
    [
        ("2026-03-16", "2026-03-16 13:00", "2026-03-16 16:00"),
        ("2026-04-06", "2026-04-06 13:00", "2026-04-06 15:00"),
    ],
)
def test_w19_two_windows_at_once_overlap_differently_while_only_one_zone_has_changed(
    day: str, opens: str, closes: str
) -> None:
    both = [window(zone=zone, cron="0 9 * * *", until="17:00") for zone in ("Europe/Berlin", NEW_YORK)]
    assert find_common_opening(both, utc(f"{day} 00:00")) == utc(opens)
    assert all(is_in_window(one, utc(opens)) for one in both)
    assert all(is_in_window(one, utc(closes) - timedelta(seconds=1)) for one in both)
    assert not all(is_in_window(one, utc(closes)) for one in both)


def test_w22_once_over_the_end_of_the_year() -> None:
    once = window(schedule={"once": [{"start": "2026-12-31T22:00", "end": "2027-01-01T02:00"}]})
    assert active(once, "2026-12-31 23:30") == between("2026-12-31 21:00", "2027-01-01 01:00")


def test_w23_the_second_tuesday() -> None:
    rule = {"rrule": "FREQ=MONTHLY;BYDAY=2TU", "dtstart": "2026-01-13T20:00"}
    assert following(window(schedule=rule, duration="2h"), "2026-12-01 00:00") == between(
        "2026-12-08 19:00", "2026-12-08 21:00"
    )


def test_w24_without_a_window_that_governs_the_default_holds() -> None:
    elsewhere = business_hours(selector={"namespaces": ["staging"]})
    found = verdict(elsewhere, at="2026-03-16 03:00")
    assert (found.is_open, found.closed_windows, found.until) == (True, (), None)
    closed = judge(
        [WindowSet([elsewhere], no_window=Openness.CLOSED)],
        PROD,
        Operation.UPDATE,
        TrustedTime(utc("2026-03-16 03:00")),
    )
    assert (closed.is_open, closed.closed_windows, closed.reason) == (False, (), Reason.NEVER_OPENS)


def test_w25_an_allow_that_has_ended_still_governs_and_never_opens() -> None:
    ended = business_hours(effective={"to": "2026-03-31"})
    found = verdict(ended, at="2026-04-01 10:00")
    assert (found.is_open, found.reason, found.until) == (False, Reason.NEVER_OPENS, None)
    assert [closing.reason for closing in found.closed_windows] == [Reason.NEVER_OPENS]
    by_policy = WindowSet([ended], expired_allow=Openness.OPEN)
    assert judge([by_policy], PROD, Operation.UPDATE, TrustedTime(utc("2026-04-01 10:00"))).is_open
    assert "does not open again after 2026-03-31 17:00" in str(find_warnings([ended], utc("2026-03-05 10:00"))[0])
    assert "has ended; it still governs" in str(find_warnings([ended], utc("2026-04-01 10:00"))[0])
    assert not find_warnings([ended], utc("2026-02-20 10:00"))


def test_w26_a_break_glass_opens_a_deny_until_its_end() -> None:
    rules = WindowSet([year_end()], break_glass_until=utc("2026-12-24 10:00"))
    inside = judge([rules], PROD, Operation.UPDATE, TrustedTime(utc("2026-12-24 09:59:59")))
    assert (inside.is_open, inside.until) == (True, utc("2026-12-24 10:00"))
    assert [closing.window.name for closing in inside.overridden] == ["freeze"]
    after = judge([rules], PROD, Operation.UPDATE, TrustedTime(utc("2026-12-24 10:00:00")))
    assert (after.is_open, after.drain) == (False, Drain.UNIT)


def test_w27_cron_with_both_day_fields_is_refused() -> None:
    found = read({"w.json": manifest(kind="Allow", timeZone="UTC", schedule={"cron": "0 9 1 * 1"}, duration="1h")})
    assert found.rules == {}
    assert [problem.path for problem in found.problems] == ["spec.schedule.cron"]
    assert "restricts day-of-month and day-of-week" in found.problems[0].message


def test_w28_at_closing_the_started_unit_is_followed_and_the_rest_starts_at_the_next_opening() -> None:
    """Of this case the calendar's part: nothing starts, a unit that was written may be finished, and it opens again."""
    closed = verdict(business_hours(drain="Unit"), at="2026-03-16 16:00")
    assert (closed.is_open, closed.drain, closed.until) == (False, Drain.UNIT, utc("2026-03-17 08:00"))


def test_w29_a_deny_with_drain_none_lets_nothing_be_finished() -> None:
    """The Deny's own drain governs what an Allow had started; of several Denies the strictest."""
    deny = window("outage", kind="Deny", drain="None", schedule={"once": [{"start": "2026-03-16T12:00", "end": "2026-03-16T13:00"}]})  # fmt: skip
    mild = window("mild", kind="Deny", drain="Rollout", schedule={"once": [{"start": "2026-03-16T12:00", "end": "2026-03-16T14:00"}]})  # fmt: skip
    found = verdict(business_hours(drain="Level"), deny, mild, at="2026-03-16 11:00")
    assert (found.is_open, found.drain, found.until) == (False, Drain.NONE, utc("2026-03-16 13:00"))


def test_w30_a_change_during_a_deny_is_woken_when_it_ends() -> None:
    found = verdict(year_end(), at="2026-12-26 12:00")
    assert (found.until, found.next_edge) == (utc("2027-01-03 23:00"), utc("2027-01-03 23:00"))
    assert verdict(year_end(), at="2027-01-03 23:00").is_open
