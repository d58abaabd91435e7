"""What may be done to a target: selectors, verbs, several sources, break-glass, drains, a clock that goes back."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from applier.causes import Reason
from applier.plan.model import Operation
from gitops.windows.occurrences import ActiveSpan, Interval, Repeating, WindowTimeline
from gitops.windows.verdict import TrustedTime, WindowSet, is_in_window, judge, make_trusted_time
from gitops.windows.window import Drain, Openness, Window, WindowTarget
from renderer.identity import GroupKind
from renderer.kinds import CRD
from tests.support.windows.documents import DEPLOYMENT, PROD, utc, verdict, window

NOON = "2026-03-16 12:00"


def deny(name: str = "deny", **spec: Any) -> Window:
    """Active on the whole of 16 March 2026, UTC."""
    once = {"once": [{"start": "2026-03-16T00:00", "end": "2026-03-17T00:00"}]}
    return window(name, kind="Deny", zone="UTC", schedule=once, **spec)


PLAIN = WindowTarget(DEPLOYMENT, "prod", "eu-1")
CLUSTERED = WindowTarget(GroupKind("", "Namespace"), "", "eu-1")
MEMBER = WindowTarget(DEPLOYMENT, "prod", "eu-1", "webapp.kro.run", "deployment", {"tier": "gold"})
OF_DEFINITION = WindowTarget(CRD, "", "eu-1", "webapp.kro.run")


@pytest.mark.parametrize(
    ("selector", "governed"),
    [
        ({}, {"plain", "clustered", "member", "crd"}),
        ({"clusters": ["eu-*"]}, {"plain", "clustered", "member", "crd"}),
        ({"clusters": ["us-*"]}, set()),
        ({"namespaces": ["prod", "other"]}, {"plain", "member"}),
        ({"namespaces": ["*"]}, {"plain", "member"}),
        ({"rgds": ["webapp.*"]}, {"member", "crd"}),
        ({"rgds": ["*"]}, {"member", "crd"}),
        ({"nodes": ["deploy*"]}, {"member"}),
        ({"kinds": ["Deployment"]}, {"plain", "member"}),
        ({"kinds": ["Deployment.apps"]}, {"plain", "member"}),
        ({"kinds": ["deployment"]}, set()),
        ({"kinds": ["Custom*", "Namespace"]}, {"clustered", "crd"}),
        ({"instances": {}}, {"member"}),
        ({"instances": {"matchLabels": {"tier": "gold"}}}, {"member"}),
        ({"instances": {"matchLabels": {"tier": "free"}}}, set()),
        ({"instances": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["free"]}]}}, {"member"}),
        ({"instances": {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}}, {"member"}),
        ({"instances": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}, set()),
        ({"instances": {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}}, {"member"}),
        ({"namespaces": ["prod"], "kinds": ["Secret"]}, set()),
    ],
)  # fmt: skip
def test_a_selector_is_and_between_fields_and_or_inside(selector: dict[str, Any], governed: set[str]) -> None:
    found = deny(selector=selector)
    targets = {"plain": PLAIN, "clustered": CLUSTERED, "member": MEMBER, "crd": OF_DEFINITION}
    assert {name for name, target in targets.items() if found.governs(target, Operation.UPDATE)} == governed


def test_healing_is_governed_only_where_it_is_listed() -> None:
    assert verdict(deny(), at=NOON, verb=Operation.HEAL).is_open
    assert not verdict(deny(verbs=["heal"]), at=NOON, verb=Operation.HEAL).is_open
    assert verdict(deny(verbs=["heal"]), at=NOON, verb=Operation.PRUNE).is_open


def test_a_window_by_name_governs_nothing_and_can_be_asked() -> None:
    named = deny(byName=True)
    assert verdict(named, at=NOON).is_open
    assert is_in_window(named, utc(NOON))
    assert not is_in_window(named, utc("2026-03-17 00:00"))


def test_of_several_allows_one_is_enough() -> None:
    early, late = (
        window("a", zone="UTC", cron="0 8 * * *", until="10:00"),
        window("b", zone="UTC", cron="0 12 * * *", until="14:00"),
    )
    assert verdict(early, late, at="2026-03-16 09:00").until == utc("2026-03-16 10:00")
    closed = verdict(early, late, at="2026-03-16 10:00")
    assert (closed.is_open, closed.until) == (False, utc("2026-03-16 12:00"))
    assert [(one.window.name, one.since, one.until) for one in closed.closed_windows] == [
        ("a", utc("2026-03-16 10:00"), utc("2026-03-17 08:00")),
        ("b", utc("2026-03-15 14:00"), utc("2026-03-16 12:00")),
    ]


def test_sources_are_judged_apart_and_all_have_to_agree() -> None:
    morning = WindowSet([window("a", zone="UTC", cron="0 8 * * *", until="12:00")], source="platform")
    noon = WindowSet([window("b", zone="UTC", cron="0 10 * * *", until="14:00")], source="shop")
    found = judge([morning, noon], PROD, Operation.UPDATE, TrustedTime(utc("2026-03-16 09:00")))
    assert (found.is_open, found.until) == (False, utc("2026-03-16 10:00"))
    assert [(one.source, one.window.name) for one in found.closed_windows] == [("shop", "b")]
    assert judge([morning, noon], PROD, Operation.UPDATE, TrustedTime(utc("2026-03-16 10:00"))).until == utc(
        "2026-03-16 12:00"
    )
    late = judge([morning, noon], PROD, Operation.UPDATE, TrustedTime(utc("2026-03-16 12:00")))
    assert (late.is_open, late.until) == (False, utc("2026-03-17 10:00"))


def test_a_break_glass_in_one_source_does_not_pass_the_deny_of_another() -> None:
    glass = utc("2026-03-16 13:00")
    sources = [WindowSet([deny("mine")], break_glass_until=glass), WindowSet([deny("theirs")], source="other")]
    found = judge(sources, PROD, Operation.UPDATE, TrustedTime(utc(NOON)))
    assert (found.is_open, [one.window.name for one in found.closed_windows]) == (False, ["theirs"])


def test_a_window_can_forbid_break_glass() -> None:
    rules = WindowSet([deny(breakGlass="Forbidden")], break_glass_until=utc("2026-03-16 13:00"))
    assert not judge([rules], PROD, Operation.UPDATE, TrustedTime(utc(NOON))).is_open


def test_windows_that_exclude_one_another_never_open() -> None:
    night = window("night", zone="UTC", cron="0 1 * * *", until="03:00")
    always = window("always", kind="Deny", zone="UTC", cron="0 0 * * *", until="04:00")
    found = verdict(night, always, at=NOON)
    assert (found.is_open, found.reason, found.until) == (False, Reason.NEVER_OPENS, None)


def test_ten_years_of_edges_are_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit reads its windows anew, and each pass asks for them at another time: who asks again goes on from where it was known."""
    span, asked_for = WindowTimeline.span, list[datetime]()

    def counted(timeline: WindowTimeline, moment: datetime) -> ActiveSpan:
        asked_for.append(moment)
        return span(timeline, moment)

    monkeypatch.setattr(WindowTimeline, "span", counted)

    def asked(at: str) -> tuple[datetime | None, int]:
        asked_for.clear()
        night = window("night", zone="UTC", cron="0 1 * * *", until="02:00")
        closed = window("closed", kind="Deny", zone="UTC", cron="30 0 * * *", until="04:00")
        noon = {"once": [{"start": "2036-03-19T12:00", "end": "2036-03-19T13:00"}]}
        return verdict(night, closed, window("noon", zone="UTC", schedule=noon), at=at).until, len(asked_for)

    assert asked(NOON)[0] is None
    (never, some), (day, few) = asked("2026-03-17 12:00"), asked("2026-03-20 12:00")
    assert (never, day) == (None, utc("2036-03-19 12:00"))
    assert some < few < 200
    assert asked("2026-03-20 13:00")[0] == day
    before, many = asked("2026-03-15 12:00")
    assert (before, many > 10_000) == (None, True), "what held later is not known to have held before"
    assert asked("2036-03-19 12:30")[0] == utc("2036-03-19 13:00")


def test_before_it_is_in_effect_an_allow_does_not_govern() -> None:
    later = window(zone="UTC", cron="0 9 * * *", until="17:00", effective={"from": "2026-03-18"})
    assert verdict(later, at="2026-03-16 03:00").until == utc("2026-03-18 00:00")
    assert not verdict(later, at="2026-03-18 00:00").is_open


def test_what_ends_inside_an_occurrence_cuts_it() -> None:
    """Both dates are inclusive: the window ends with the last of the day."""
    night = window(zone="UTC", cron="0 22 * * *", until="06:00", effective={"from": "2026-03-16", "to": "2026-03-17"})
    assert list(night.timeline.intervals(utc("2026-03-01 00:00"))) == [
        (utc("2026-03-16 00:00"), utc("2026-03-16 06:00")),
        (utc("2026-03-16 22:00"), utc("2026-03-17 06:00")),
        (utc("2026-03-17 22:00"), utc("2026-03-18 00:00")),
    ]


@pytest.mark.parametrize(
    ("drain", "hours"), [("None", None), ("Unit", None), ("Level", 2), ("Instance", 2), ("Rollout", 2)]
)
def test_what_may_be_finished_after_closing_and_how_long(drain: str, hours: int | None) -> None:
    allow = window(zone="UTC", cron="0 9 * * *", until="10:00", drain=drain, overrunLimit="2h")
    found = verdict(allow, at=NOON)
    assert found.drain is Drain[drain.upper()]
    assert found.drain_until == (utc("2026-03-16 10:00") + timedelta(hours=hours) if hours else None)


def test_the_allow_that_closed_last_says_what_may_be_finished() -> None:
    early = window("a", zone="UTC", cron="0 8 * * *", until="10:00", drain="None")
    late = window("b", zone="UTC", cron="0 9 * * *", until="11:00", drain="Rollout")
    assert verdict(early, late, at=NOON).drain is Drain.ROLLOUT


def test_of_windows_that_are_equally_strict_the_first_limit_counts() -> None:
    """The order of the windows in the repository does not."""
    denies = [
        window(name, kind="Deny", zone="UTC", cron=f"{minute} 11 * * *", duration="3h", overrunLimit="45m")
        for name, minute in (("late", 50), ("early", 20))
    ]
    for order in (denies, denies[::-1]):
        assert verdict(*order, at=NOON).drain_until == utc("2026-03-16 12:05")


def test_a_deny_that_begins_after_an_allow_has_closed_gives_no_more_time() -> None:
    """What the Allow would not let be finished any more, the Deny does not either."""
    allow = window("hours", zone="UTC", cron="0 8 * * *", until="10:30")
    deny = window("night", kind="Deny", zone="UTC", cron="45 11 * * *", duration="3h")
    found = verdict(allow, deny, at=NOON)
    assert (found.drain, found.drain_until) == (Drain.INSTANCE, utc("2026-03-16 11:30"))
    assert found.closed_at == utc("2026-03-16 10:30")
    unit = window("hours", zone="UTC", cron="0 8 * * *", until="10:30", drain="Unit")
    assert verdict(unit, deny, at=NOON).drain is Drain.UNIT


def test_after_a_break_glass_nothing_new_is_written_but_one_of_long_ago_says_nothing() -> None:
    deny = window("night", kind="Deny", zone="UTC", cron="0 11 * * *", duration="3h")
    ends = {"2026-03-16 11:30": Drain.UNIT, "2026-03-15 11:30": Drain.INSTANCE}
    for until, drain in ends.items():
        rules = WindowSet([deny], break_glass_until=utc(until))
        assert judge([rules], PROD, Operation.UPDATE, TrustedTime(utc(NOON))).drain is drain


def test_of_two_sources_that_close_the_one_with_its_window_over_says_what_may_be_finished() -> None:
    over = WindowSet([window("over", zone="UTC", cron="0 8 * * *", until="10:00", drain="None")])
    last_part = WindowSet([window("last", zone="UTC", cron="0 8 * * *", until="13:00", cutoff="2h", drain="Rollout")])
    reading = TrustedTime(utc(NOON))
    assert judge([last_part], PROD, Operation.UPDATE, reading).drain is None
    assert judge([last_part, over], PROD, Operation.UPDATE, reading).drain is Drain.NONE


def test_time_does_not_go_back() -> None:
    """A small step is waited for; after one of more than five minutes no Allow is trusted."""
    last = utc(NOON)
    assert make_trusted_time(utc("2026-03-16 12:01"), last) == TrustedTime(utc("2026-03-16 12:01"))
    assert make_trusted_time(utc("2026-03-16 11:55"), last) == TrustedTime(last)
    assert make_trusted_time(utc("2026-03-16 11:54:59"), last) == TrustedTime(last, is_skewed=True)
    assert make_trusted_time(last, None) == TrustedTime(last)


def test_a_clock_that_is_not_the_servers_is_not_trusted() -> None:
    """I5: who judges writes judges by the server's clock."""
    for seconds, skewed in [(30, False), (31, True), (-30, False), (-31, True)]:
        assert make_trusted_time(utc(NOON), None, utc(NOON) + timedelta(seconds=seconds)) == TrustedTime(
            utc(NOON), is_skewed=skewed
        )


def test_with_a_skewed_clock_allows_are_closed_and_the_rest_is_as_before() -> None:
    allow = window(zone="UTC", cron="0 9 * * *", until="17:00")
    skewed = judge([WindowSet([allow])], PROD, Operation.UPDATE, TrustedTime(utc(NOON), is_skewed=True))
    assert (skewed.is_open, skewed.reason, skewed.until) == (False, Reason.CLOCK_SKEW, None)
    assert judge([WindowSet()], PROD, Operation.UPDATE, TrustedTime(utc(NOON), is_skewed=True)).is_open


def test_a_verdict_holds_until_the_next_edge() -> None:
    """Who has asked need not ask again before."""
    rules = [
        WindowSet(
            [
                window("a", zone="UTC", cron="0 9 * * *", until="17:00", cutoff="30m"),
                window("b", kind="Deny", zone="UTC", cron="0 12 * * 1", duration="1h"),
            ],
            no_window=Openness.CLOSED,
        )
    ]
    held = judge(rules, PROD, Operation.UPDATE, TrustedTime(utc("2026-03-15 00:00")))
    edges = 0
    for minutes in range(0, 3 * 1440, 10):
        reading = TrustedTime(utc("2026-03-15 00:00") + timedelta(minutes=minutes))
        found = judge(rules, PROD, Operation.UPDATE, reading)
        if reading.now < held.next_edge:
            assert found == held
        else:
            held, edges = found, edges + 1
    assert edges >= 3 * 3 + 2
    skewed = TrustedTime(utc("2026-03-16 10:00"), is_skewed=True)
    assert judge(rules, PROD, Operation.UPDATE, skewed).reason is Reason.CLOCK_SKEW


def test_a_window_without_end_is_open_for_good_and_found_quickly() -> None:
    """Every minute of ten years is not looked at."""
    always = window(zone="UTC", cron="* * * * *", duration="1m")
    assert always.timeline.span(utc(NOON)) == (True, None, None)
    found = verdict(always, at=NOON)
    assert (found.is_open, found.until) == (True, None)


def test_who_asks_again_looks_on_from_where_the_run_of_occurrences_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass costs a window that is always open no ten years of days; and the answer is the one from scratch."""
    always = window(cron="0 0 * * *", until="00:00")
    assert always.timeline.span(utc(NOON)) == (True, None, None)
    days, looked_at = list[date](), Repeating._occurrences_on

    def on(self: Repeating, day: date) -> tuple[Interval, ...]:
        days.append(day)
        return looked_at(self, day)

    monkeypatch.setattr(Repeating, "_occurrences_on", on)
    assert always.timeline.span(utc(NOON) + timedelta(minutes=5)) == (True, None, None)
    assert 0 < len(days) < 10
    later = utc(NOON) + timedelta(days=400)
    assert always.timeline.span(later) == replace(always.timeline).span(later)
