"""Every mistake in a window is reported with its line and what would be valid; one mistake does not hide another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from applier.plan.model import Operation
from gitops.windows.window import Drain
from renderer.label_selector import LabelSelector, Operator, Requirement
from tests.support.windows.calendars import CALENDAR
from tests.support.windows.documents import active, between, manifest, read, window

VALID: dict[str, Any] = {
    "kind": "Allow",
    "timeZone": "Europe/Berlin",
    "schedule": {"cron": "0 9 * * 1-5"},
    "until": "17:00",
}


LABELS = "selector.instances"


def by_rule(text: str) -> dict[str, Any]:
    return {"schedule": {"rrule": text, "dtstart": "2026-01-01T09:00"}}


def by_label(term: dict[str, Any]) -> dict[str, Any]:
    return {"selector": {"instances": {"matchExpressions": [term]}}}


@pytest.mark.parametrize(
    ("changed", "path", "message"),
    [
        ({"kind": "allow"}, "kind", "is not one of Allow, Deny; did you mean 'Allow'?"),
        ({"kind": None}, "kind", "is required and not given"),
        ({"timezone": "UTC"}, "timezone", "no field 'timezone'; did you mean 'timeZone'?"),
        ({"timeZone": "+02:00"}, "timeZone", "is not a time zone; write a name of the IANA database such as Europe/Berlin"),
        ({"timeZone": "Europe/Berln"}, "timeZone", "did you mean 'Europe/Berlin'?"),
        ({"timeZone": "../etc/passwd"}, "timeZone", "is not a time zone"),
        ({"schedule": {}}, "schedule", "has nothing; give exactly one of cron, rrule, once, calendar"),
        ({"schedule": {"cron": "0 9 * * *", "rrule": "FREQ=DAILY"}}, "schedule", "has cron and rrule; give exactly one"),
        ({"schedule": {"cron": "0 9 * *"}}, "schedule.cron", "has 4 fields; write five"),
        ({"schedule": {"cron": "0 0 9 * * *"}}, "schedule.cron", "has 6 fields; write five"),
        ({"schedule": {"cron": "@daily"}}, "schedule.cron", "has 1 field; write five"),
        ({"schedule": {"cron": "0 25 * * *"}}, "schedule.cron", "hour is not valid; write, for example,"),
        ({"schedule": {"cron": "0 9 30 2 *"}}, "schedule.cron", "day-of-month is not valid, or no such day exists"),
        ({"schedule": {"cron": "0 9 */2 * 1"}}, "schedule.cron", "restricts day-of-month and day-of-week"),
        ({"schedule": {"cron": "0 9 * * *", "dtstart": "2026-01-01T09:00"}}, "schedule.dtstart", "belongs to rrule"),
        ({"schedule": {"rrule": "FREQ=DAILY"}}, "schedule", "rrule needs dtstart"),
        (by_rule("FREQ=HOURLY"), "schedule.rrule", "FREQ is HOURLY; write one of DAILY"),
        (by_rule("FREQ=DAILY;BYHOUR=9"), "schedule.rrule", "'BYHOUR=9' is not supported; use only"),
        (by_rule("FREQ=WEEKLY;BYDAY=2TU"), "schedule.rrule", "numbered days need FREQ=MONTHLY"),
        (by_rule("FREQ=WEEKLY;BYDAY=XX"), "schedule.rrule", "write days as MO, TU"),
        (by_rule("FREQ=DAILY;COUNT=0"), "schedule.rrule", "COUNT '0' is not valid; write a number from 1"),
        (by_rule("FREQ=DAILY;COUNT=2;UNTIL=20270101"), "schedule.rrule", "exclude one another"),
        (by_rule("FREQ=DAILY;UNTIL=2027"), "schedule.rrule", "write the last local day, such as 20261231"),
        (by_rule("FREQ=DAILY;UNTIL=20250101"), "schedule.rrule", "so the window can never open"),
        (by_rule("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"), "schedule.rrule", "no such day exists"),
        ({"schedule": {"rrule": "FREQ=DAILY", "dtstart": "2026-01-01"}}, "schedule.dtstart", "write for example 2026-12-18T12:00, without an offset"),
        ({"schedule": {"once": []}}, "schedule.once", "has 0 items"),
        ({"schedule": {"once": [{"start": "2026-12-18T12:00"}]}}, "schedule.once[0].end", "is required and not given"),
        ({"until": "5pm"}, "until", "write for example 17:00, 00:00 for midnight, or Mon 06:00"),
        ({"until": 17}, "until", "17 is not text; put it in quotes"),
        ({"until": "24:00"}, "until", "00:00 for midnight"),
        ({"until": "Mo 06:00"}, "until", "is not a time of day"),
        ({"duration": "8h"}, "until", "duration and until exclude one another"),
        ({"until": None}, "", "neither duration nor until"),
        ({"until": None, "duration": "8 hours"}, "duration", "write for example 90s, 30m, 1h30m or 2d"),
        ({"until": None, "duration": "0s"}, "duration", "can never open"),
        ({"until": None, "duration": "400d"}, "duration", "is longer than 366d"),
        ({"cutoff": "-30m"}, "cutoff", "is not a duration; write for example 90s"),
        ({"cutoff": "8h"}, "cutoff", "no change can ever start; shorten the cutoff"),
        ({"kind": "Deny", "cutoff": "30m"}, "cutoff", "only an Allow window has a cutoff"),
        ({"overrunLimit": "-1h"}, "overrunLimit", "is not a duration"),
        ({"drain": "unit"}, "drain", "did you mean 'Unit'?"),
        ({"breakGlass": "Never"}, "breakGlass", "is not one of Allowed, Forbidden"),
        ({"byName": "yes"}, "byName", "is not true or false"),
        ({"verbs": ["delete"]}, "verbs[0]", "is not one of create, update, prune, heal"),
        ({"verbs": []}, "verbs", "has 0 items"),
        ({"selector": {"namespace": ["prod"]}}, "selector.namespace", "did you mean 'namespaces'?"),
        ({"selector": {"namespaces": []}}, "selector.namespaces", "has 0 items"),
        ({"selector": {"namespaces": "prod"}}, "selector.namespaces", "'prod' is not a list"),
        ({"selector": {"namespaces": ["pr?d"]}}, "selector.namespaces[0]", "does not match the pattern"),
        (by_label({"key": "tier", "operator": "In"}), LABELS, "operator In needs values"),
        (by_label({"key": "tier", "operator": "Exists", "values": ["a"]}), LABELS, "operator Exists takes no values"),
        ({"effective": {"from": "2026-05-01", "to": "2026-04-01"}}, "effective.to", "so the window can never open"),
        ({"effective": {"to": "next year"}}, "effective.to", "write for example 2026-12-18"),
        ({"effective": {"from": "2026-05-02", "to": "2026-05-03"}}, "schedule", "schedule, exdates and effective leave no opening"),
        ({"exdates": ["2026-13-01"]}, "exdates[0]", "is not a date; write for example 2026-12-18"),
        ({"exdates": ["2026-12-24T09:00Z"]}, "exdates[0]", "without an offset"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_and_what_would_be_valid(
    changed: dict[str, Any], path: str, message: str
) -> None:
    spec = {name: value for name, value in {**VALID, **changed}.items() if value is not None}
    found = read({"w.json": manifest(**spec)})
    assert (found.rules, list(found.broken)) == ({}, ["w"])
    assert [(problem.file, problem.path) for problem in found.problems] == [("w.json", f"spec.{path}".rstrip("."))]
    assert message in found.problems[0].message


def test_all_mistakes_are_reported_together_with_their_lines() -> None:
    text = b"""apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata:
  name: w
spec:
  kind: Allow
  timeZone: Berlin
  schedule:
    cron: "0 9 1 * 1"
  until: 25:00
  cutoff: -5m
  exdates:
  - 2026-12-25
  - christmas
  verb: [create]
"""
    assert [(problem.line, problem.path) for problem in read({"w.yaml": text}).problems] == [
        (7, "spec.timeZone"),
        (9, "spec.schedule.cron"),
        (10, "spec.until"),
        (11, "spec.cutoff"),
        (14, "spec.exdates[1]"),
        (15, "spec.verb"),
    ]


@pytest.mark.parametrize("spec", [b"null", b"[]", b'"text"', b"7"])
def test_a_spec_that_is_none_is_a_mistake_and_no_failure(spec: bytes) -> None:
    found = read({"w.json": manifest().replace(b'"spec":{}', b'"spec":' + spec)})
    assert {problem.path for problem in found.problems} >= {"spec.kind", "spec.timeZone", "spec.schedule"}


def test_an_end_that_is_not_after_the_start_can_never_open() -> None:
    once = {"once": [{"start": "2026-12-18T12:00", "end": "2026-12-18T12:00"}]}
    found = read({"w.json": manifest(kind="Deny", timeZone="UTC", schedule=once)})
    assert [problem.path for problem in found.problems] == ["spec.schedule.once[0].end"]
    assert "is not after 2026-12-18T12:00; correct the times" in found.problems[0].message


def test_a_day_that_a_zone_skipped_is_no_time_to_be_in_effect() -> None:
    """Samoa crossed the date line on 30 December 2011."""
    effective = {"from": "2011-12-30", "to": "2011-12-30"}
    found = read({"w.json": manifest(**{**VALID, "timeZone": "Pacific/Apia"}, effective=effective)})
    assert [(problem.path, problem.message) for problem in found.problems] == [
        ("spec.effective", "Pacific/Apia skipped 2011-12-30, so the window can never open; correct the dates")
    ]


def test_once_has_its_own_ends() -> None:
    once = {"once": [{"start": "2026-12-18T12:00", "end": "2026-12-18T13:00"}]}
    found = read({"w.json": manifest(kind="Deny", timeZone="UTC", schedule=once, duration="1h")})
    assert [problem.path for problem in found.problems] == ["spec.duration"]


def test_another_version_and_fields_beside_spec_are_refused() -> None:
    text = manifest(**VALID).replace(b"v1alpha1", b"v1").replace(b'"metadata"', b'"status":{},"metadata"')
    assert [problem.path for problem in read({"w.json": text}).problems] == ["apiVersion", "status"]


def test_of_two_windows_with_one_name_none_counts() -> None:
    found = read({"a.json": manifest(**VALID), "b.json": manifest(**{**VALID, "kind": "Deny"})})
    assert (set(found.rules), set(found.broken)) == (set(), {"w"})
    assert [(problem.file, problem.path) for problem in found.problems] == [
        ("a.json", "metadata.name"),
        ("b.json", "metadata.name"),
    ]


def test_a_broken_window_leaves_the_others() -> None:
    found = read({"a.json": manifest("a", **VALID), "b.json": manifest("b", **{**VALID, "until": "x"})})
    assert (list(found.rules), {name: str(at) for name, at in found.broken.items()}) == (
        ["a"],
        {"b": "b.json:1"},
    )


def test_what_is_left_out_has_its_default() -> None:
    found = window(cron="0 9 * * *", duration="1h")
    assert found.operations == {Operation.CREATE, Operation.UPDATE, Operation.PRUNE}
    assert (found.cutoff, found.drain, found.overrun_limit) == (timedelta(), Drain.INSTANCE, timedelta(hours=1))
    assert (found.forbids_break_glass, found.by_name, found.description, found.ticket) == (False, False, "", "")
    assert found.selector.instances is None


def test_every_field_is_read() -> None:
    found = window(
        cron="0 9 * * *", duration="1h30m", cutoff="10m", drain="Rollout", overrunLimit="2h", breakGlass="Forbidden",
        byName=True, verbs=["heal"], description="why", ticket="CHG-1",
        selector={
            "clusters": ["eu-*"], "namespaces": ["prod"], "rgds": ["webapp.kro.run"], "nodes": ["db"], "kinds": ["Secret"],
            "instances": {"matchLabels": {"tier": "prod"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
        },
    )  # fmt: skip
    assert (found.operations, found.cutoff, found.drain) == (
        frozenset({Operation.HEAL}),
        timedelta(minutes=10),
        Drain.ROLLOUT,
    )
    assert (found.overrun_limit, found.forbids_break_glass, found.by_name) == (timedelta(hours=2), True, True)
    assert (found.description, found.ticket) == ("why", "CHG-1")
    selector = found.selector
    assert (selector.clusters, selector.namespaces, selector.rgds) == (("eu-*",), ("prod",), ("webapp.kro.run",))
    assert (selector.nodes, selector.kinds) == (("db",), ("Secret",))
    assert selector.instances == LabelSelector(
        (Requirement("tier", Operator.IN, frozenset({"prod"})), Requirement("x", Operator.EXISTS))
    )


def test_an_exdate_takes_out_one_opening_or_a_whole_day() -> None:
    twice = window(zone="UTC", cron="0 9,13 * * *", duration="1h", exdates=["2026-12-24T13:00", "2026-12-25"])
    assert active(twice, "2026-12-24 09:30") == between("2026-12-24 09:00", "2026-12-24 10:00")
    assert twice.timeline.span(twice.timeline.span(between("2026-12-24 12:00", "2026-12-24 12:00")[0]).until)[1:] == between(  # type: ignore[arg-type]
        "2026-12-26 09:00", "2026-12-26 10:00"
    )  # fmt: skip


def calendar(data: bytes, name: str = "freezes.ics") -> Any:
    spec = manifest(kind="Deny", timeZone="America/New_York", schedule={"calendar": name})
    return read({"team/w.json": spec, "team/freezes.ics": data})


def test_a_calendar_gives_its_events_in_their_own_zones() -> None:
    """Floating and all-day events are in the zone of the window; cancelled ones are none."""
    (found,) = calendar(CALENDAR).rules.values()
    assert list(found.timeline.intervals(between("2026-12-01", "2026-12-01")[0])) == [
        between("2026-12-18 11:00", "2026-12-18 13:00"),
        between("2026-12-25 05:00", "2026-12-27 05:00"),
        between("2027-01-01 12:00", "2027-01-01 13:30"),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        (b"BEGIN:VCALENDAR", b"\xef\xbb\xbfBEGIN:VCALENDAR"),
        (b"SUMMARY:folded over", "SUMMARY:folded ov\u00e9r".encode().replace(b"\xa9", b"\r\n \xa9")),
        (b"SUMMARY:folded over", "SUMMARY:two\u2028lines\x0bof one".encode()),
    ],
    ids=["a mark of the byte order", "folded within a letter", "separators that end no line"],
)
def test_calendars_as_programs_write_them(changed: tuple[bytes, bytes]) -> None:
    """RFC 5545, 3.1: a line ends with CRLF, and may be folded between any two octets."""
    assert calendar(CALENDAR.replace(*changed)).rules == calendar(CALENDAR).rules != {}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ((b"STATUS:CANCELLED", b"RRULE:FREQ=DAILY"), "team/freezes.ics:27: RRULE: recurring events are not supported"),
        ((b"20270101T120000Z", b"tomorrow"), "team/freezes.ics:23: DTSTART is 'tomorrow'; write 20261224"),
        ((b"20270101T120000Z", b"99990101T120000Z"), "DTSTART is '99990101T120000Z'"),
        ((b"PT1H30M", b"90m"), "DURATION '90m' is not valid; write, for example, P1D or PT8H30M"),
        ((b"DTEND;TZID=Europe/Berlin", b"DTEND;TZID=W. Europe Standard Time"), "is not an IANA time zone"),
        ((b"END:VCALENDAR", b""), "the file ends inside of VCALENDAR; export the calendar again"),
        ((b"BEGIN:VCALENDAR", b"X-HTML:1"), "not a calendar"),
        ((b"END:VALARM", b"END:VEVENT"), "has no matching BEGIN"),
        ((b"SUMMARY:", b"SUMM ARY:"), "is not a property; write NAME:VALUE"),
        ((b"two lines", b"\xff"), "team/freezes.ics:10: the line is not UTF-8 text; save the file as UTF-8"),
    ],
)  # fmt: skip
def test_a_calendar_that_cannot_be_read_is_refused_with_its_line(changed: tuple[bytes, bytes], message: str) -> None:
    found = calendar(CALENDAR.replace(*changed))
    assert found.rules == {}
    assert [problem.path for problem in found.problems] == ["spec.schedule.calendar"]
    assert message in found.problems[0].message


def test_a_calendar_that_is_not_there_names_those_that_are() -> None:
    found = calendar(CALENDAR, name="../freezes.ics")
    assert "calendar 'freezes.ics' is not in this commit" in found.problems[0].message
    assert "relative to the window's file: team/freezes.ics" in found.problems[0].message
