"""Do windows leave enough room for changes? Against a look at every hour of the year."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random

from gitops.rollouts.lint import Shortage, find_shortages, find_worst_period
from gitops.rollouts.policy import Availability
from gitops.rollouts.source_rules import resolve_rules
from gitops.windows.window import LOCAL, WindowTarget
from renderer.catalog.catalog import load
from renderer.identity import GroupKind
from tests.support.windows.documents import manifest, utc

HOUR = timedelta(hours=1)
NOW = utc("2026-11-20 12:00")
WANTED = Availability(48 * HOUR, timedelta(days=32), 4 * HOUR)
POLICY = """apiVersion: levelgate.dev/v1alpha1
kind: PropagationPolicy
metadata: {name: all}
spec: {windows: {availability: {atLeast: 48h, per: 32d, contiguous: 4h}}}
"""
HOURS = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * 1-5"}, "until": "17:00"}
PROD, TEST = (WindowTarget(GroupKind("", "ConfigMap"), namespace, LOCAL) for namespace in ("prod", "test"))


def found(policy: str = POLICY, **windows: Mapping[str, object]) -> list[Shortage]:
    files = {f"{name}.json": manifest(name, **spec) for name, spec in windows.items()}
    catalog = load({**files, "policy.yaml": policy.encode()}, source="platform")
    rules = resolve_rules(catalog, {})
    assert not rules.problems
    return list(find_shortages(rules, [PROD, TEST, PROD], NOW))


def test_office_hours_are_enough_and_a_long_freeze_is_not() -> None:
    """The worst 32 days begin in the middle of the last day before the freeze, and end before enough of the first day after it has passed."""
    assert found(hours=HOURS) == []
    freeze = {"once": [{"start": "2026-12-04T00:00", "end": "2027-01-02T00:00"}]}
    shortage = found(hours=HOURS, freeze={"kind": "Deny", "timeZone": "UTC", "schedule": freeze})
    assert [(one.windows, one.open_for // HOUR) for one in shortage] == [(("freeze", "hours"), 4)]
    assert shortage[0].begins == utc("2026-12-03 12:59:59")


def test_pieces_that_are_too_short_do_not_count() -> None:
    """Three hours on each day are many, and none of them is long enough."""
    (shortage,) = found(short={**HOURS, "until": "12:00"})
    assert (shortage.begins, shortage.open_for) == (NOW, timedelta())


def test_what_other_windows_govern_is_judged_apart_and_nothing_where_nobody_asks() -> None:
    short = {**HOURS, "until": "12:00", "selector": {"namespaces": ["prod"]}}
    assert [one.windows for one in found(short=short)] == [("short",)]
    assert found(POLICY.partition("spec:")[0] + "spec: {}\n", short=short) == []


def test_the_least_is_the_least_of_all_periods() -> None:
    """S1-10, 3.2: with pieces drawn at random, a look at every hour finds no period that has less."""
    draw = Random(5)
    for _ in range(20):
        pieces, moment = [], NOW
        while moment < NOW + timedelta(days=60):
            opens = moment + draw.randrange(1, 60) * HOUR
            moment = opens + draw.randrange(1, 12) * HOUR
            pieces.append((opens, moment))
        wanted = Availability(HOUR, timedelta(days=draw.randrange(1, 9)), draw.randrange(6) * HOUR)
        until = NOW + timedelta(days=50)
        begins, open_for = find_worst_period(pieces, wanted, NOW, until)
        every = [
            _naive(pieces, wanted, NOW + number * HOUR) for number in range((until - NOW - wanted.per) // HOUR + 1)
        ]
        assert open_for <= min(every)
        assert open_for == _naive(pieces, wanted, begins)


def _naive(pieces: list[tuple[datetime, datetime]], wanted: Availability, begins: datetime) -> timedelta:
    total = timedelta()
    for opens, closes in pieces:
        length = min(closes, begins + wanted.per) - max(opens, begins)
        total += length if length >= max(wanted.contiguous, timedelta()) else timedelta()
    return total
