"""Causes and sentences for closed windows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from applier.causes import Cause, Reason
from applier.plan.model import Operation
from gitops.rollouts.closed_windows import closed_window_cause, find_closed_waves
from gitops.rollouts.policy import Policy, Wave
from gitops.windows.verdict import TrustedTime, WindowSet, judge
from gitops.windows.window import LOCAL, Window, WindowTarget
from gitops.windows.window_reader import read_windows
from renderer.catalog.catalog import load
from renderer.identity import GroupKind

SATURDAY = datetime(2026, 11, 21, 12, tzinfo=UTC)
MONDAY = datetime(2026, 11, 23, 7, tzinfo=UTC)
SHOP = WindowTarget(GroupKind("apps", "Deployment"), "prod", LOCAL)


def office_hours(**fields: Any) -> Window:
    spec = {"kind": "Allow", "timeZone": "Europe/Berlin", "schedule": {"cron": "0 8 * * 1-5"}, "duration": "8h"}
    manifest = {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "PropagationWindow",
        "metadata": {"name": "office"},
        "spec": {**spec, **fields},
    }
    return read_windows(load({"office.json": orjson.dumps(manifest)})).rules["office"]


def test_a_closed_window_tells_its_ticket_and_when_it_opens_in_its_own_zone() -> None:
    verdict = judge([WindowSet([office_hours(ticket="CHG-7")])], SHOP, Operation.UPDATE, TrustedTime(SATURDAY))
    cause = closed_window_cause(verdict)
    assert cause.reason is Reason.WINDOW_CLOSED
    assert cause.message == "waits for window office (CHG-7), opens 2026-11-23T07:00Z (Mon 08:00 Europe/Berlin)"
    assert [(ref.kind, ref.name) for ref in cause.references] == [("Window", "office")]


def test_a_wave_waits_for_its_own_window_and_is_told_of_a_missing_one() -> None:
    office = office_hours()
    policy = Policy(waves=(Wave("first", windows=("office",)), Wave("second", windows=("ofice",)), Wave("third")))
    causes = dict(find_closed_waves(policy, {"office": office}, SATURDAY))
    assert causes.keys() == {"first", "second"}
    assert (causes["first"].reason, causes["first"].until) == (Reason.WINDOW_CLOSED, MONDAY)
    assert (causes["second"].reason, causes["second"].message) == (
        Reason.GATE_ERROR,
        "wave second: window ofice is missing; declare it",
    )
    assert not dict(find_closed_waves(policy, {"office": office, "ofice": office}, MONDAY))


def test_a_wave_waits_for_the_last_of_its_windows_and_is_told_of_all() -> None:
    """Whatever the order: the window that opens first says nothing of the start."""
    office = office_hours()
    later = replace(office_hours(schedule={"cron": "0 8 * * 3"}), name="later")
    ended = replace(
        office_hours(duration=None, schedule={"once": [{"start": "2026-01-01T00:00", "end": "2026-01-02T00:00"}]}),
        name="ended",
    )
    windows = {"office": office, "later": later, "ended": ended}

    def cause_of(*names: str) -> Cause:
        return dict(find_closed_waves(Policy(waves=(Wave("first", windows=names),)), windows, SATURDAY))["first"]

    for names in (("office", "later"), ("later", "office")):
        cause = cause_of(*names)
        assert (cause.reason, cause.until) == (Reason.WINDOW_CLOSED, MONDAY + timedelta(days=2))
        assert cause.message == "wave first waits for window later and window office"
        assert [ref.name for ref in cause.references] == ["later", "office"]
    assert (cause_of("ended", "office").reason, cause_of("ended", "office").until) == (Reason.NEVER_OPENS, None)
    assert cause_of("gone", "office").reason is Reason.GATE_ERROR
