"""What is valid in windows and probably not meant."""

from __future__ import annotations

from datetime import date

from gitops.windows.lint import find_clock_changes, find_common_opening, find_warnings
from tests.support.windows.documents import utc, window

NOW = utc("2026-03-01 00:00")


def test_windows_that_are_never_open_together_do_not_meet() -> None:
    morning, evening = window("a", cron="0 9 * * *", until="12:00"), window("b", cron="0 12 * * *", until="15:00")
    assert find_common_opening([morning, evening], NOW) is None
    tokyo = window("c", zone="Asia/Tokyo", cron="0 17 * * *", until="18:00")
    assert find_common_opening([morning, tokyo], NOW) == utc("2026-03-01 08:00")


def test_an_allow_that_is_wholly_denied_is_warned_of() -> None:
    night = window("night", cron="0 1 * * *", until="03:00")
    wide = window("wide", kind="Deny", cron="0 0 * * *", until="04:00")
    elsewhere = window("wide", kind="Deny", cron="0 0 * * *", until="04:00", selector={"namespaces": ["staging"]})
    only_prune = window("wide", kind="Deny", cron="0 0 * * *", until="04:00", verbs=["prune"])
    assert [warning.message for warning in find_warnings([night, wide], NOW)] == [
        "is wholly denied by wide, so it never opens; correct one of them"
    ]
    assert find_warnings([night, elsewhere], NOW) == ()
    assert find_warnings([night, only_prune], NOW) == ()


def test_an_allow_that_runs_out_is_warned_of_thirty_days_ahead() -> None:
    rule = {"rrule": "FREQ=DAILY;COUNT=10", "dtstart": "2026-03-01T09:00"}
    ends = window("ends", zone="UTC", schedule=rule, duration="1h")
    assert find_warnings([ends], utc("2026-02-01 00:00")) == ()
    assert "does not open again after 2026-03-10 10:00" in find_warnings([ends], NOW)[0].message
    assert "never opens again" in find_warnings([ends], utc("2026-03-10 10:00"))[0].message


def test_a_deny_may_end_without_a_warning() -> None:
    once = {"once": [{"start": "2026-01-01T00:00", "end": "2026-01-02T00:00"}]}
    assert find_warnings([window(kind="Deny", schedule=once)], NOW) == ()


def test_days_on_which_the_clock_moves_an_edge_are_named() -> None:
    assert list(find_clock_changes(window(cron="30 2 * * *", until="03:00"), NOW)) == [
        (date(2026, 3, 29), "opens at 03:00, as 02:30 is skipped"),
        (date(2026, 10, 25), "opens once, at the first 02:30 of that day"),
    ]
    deny = window(kind="Deny", cron="0 1 * * *", until="02:30")
    assert list(find_clock_changes(deny, NOW)) == [
        (date(2026, 3, 29), "closes at 03:00, as 02:30 is skipped"),
        (date(2026, 10, 25), "closes once, at the second 02:30 of that day"),
    ]
    assert list(find_clock_changes(window(cron="0 9 * * *", until="17:00"), NOW)) == []
