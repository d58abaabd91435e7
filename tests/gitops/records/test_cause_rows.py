"""Causes as the rows of a status come back as they were written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from applier.causes import Cause, CauseRef, Reason
from gitops.records.cause_rows import (
    MAX_CAUSE_REFS,
    MAX_MESSAGE_CHARACTERS,
    MAX_ROWS,
    format_rows,
    parse_row,
    with_wave_progress,
)
from gitops.rollouts.queue_position import BlockingItem, StartForecast, WaveForecast
from gitops.rollouts.state import WaveProgress
from gitops.timestamps import timestamp
from renderer.identity import ObjectKey

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MONDAY = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
DATABASE = ObjectKey("g.test", "Database", "prod", "cart")
FULL = Cause(
    Reason.WINDOW_CLOSED,
    "waits for window dba-hours",
    node="database",
    object_key=DATABASE,
    since=NOON,
    until=MONDAY,
    references=(
        CauseRef("Window", "dba-hours", Reason.WINDOW_CLOSED, NOON, MONDAY),
        CauseRef("Gate", "windows['dba-hours'].open", Reason.GATE_CLOSED),
    ),
    dependents=("deployment", "service"),
    details={"gates": [{"expression": "windows['dba-hours'].open", "at": "webapp.yaml:12"}]},
)
FULL_ROW = {
    "node": "database",
    "object": "Database.g.test/prod/cart",
    "reason": "WindowClosed",
    "message": "waits for window dba-hours",
    "since": "2026-11-20T12:00:00Z",
    "until": "2026-11-23T08:00:00Z",
    "blockedBy": [
        {
            "kind": "Window",
            "name": "dba-hours",
            "reason": "WindowClosed",
            "since": "2026-11-20T12:00:00Z",
            "until": "2026-11-23T08:00:00Z",
        },
        {"kind": "Gate", "name": "windows['dba-hours'].open", "reason": "GateClosed"},
    ],
    "behind": ["deployment", "service"],
    "gates": [{"expression": "windows['dba-hours'].open", "at": "webapp.yaml:12"}],
}
QUEUED = Cause(
    Reason.PACE_REACHED,
    "8th of 8",
    until=MONDAY,
    references=(CauseRef("Instance", "prod/cart", Reason.GATE_CLOSED, until=MONDAY),),
    details={"position": {"place": 8, "total": 8, "wave": "prod", "shape": "exponential 2"}},
    is_shared=True,
)


def written(*causes: Cause, previous: tuple[dict[str, Any], ...] = ()) -> list[dict[str, Any]]:
    return format_rows(causes, {}, previous, timestamp(NOON))


def test_a_cause_is_stored_as_the_contract_says_and_comes_back() -> None:
    (row,) = written(FULL)
    assert list(row.items()) == list(FULL_ROW.items())
    assert parse_row(row) == FULL


@pytest.mark.parametrize("reason", Reason)
def test_a_plain_cause_comes_back_whatever_its_reason(reason: Reason) -> None:
    (row,) = written(Cause(reason, "why"))
    assert row == {"reason": str(reason), "message": "why", "since": "2026-11-20T12:00:00Z"}
    assert parse_row(row) == Cause(reason, "why", since=NOON)


def test_what_a_row_does_not_tell_is_empty_and_a_reason_of_another_version_is_progress() -> None:
    assert parse_row({}) == Cause(Reason.PROGRESSING)
    assert parse_row({"reason": "Invented", "object": "no key"}) == Cause(Reason.PROGRESSING)


def test_a_cause_keeps_its_time_while_its_node_waits_for_the_same_reason() -> None:
    before = ({"node": "database", "reason": "WindowClosed", "since": "2026-11-19T00:00:00Z"},)
    assert [row["since"] for row in written(FULL, replace(FULL, node="other"), previous=before)] == [
        "2026-11-19T00:00:00Z",
        "2026-11-20T12:00:00Z",
    ]


def test_the_object_is_that_of_the_node_where_the_cause_names_none() -> None:
    causes = [replace(FULL, object_key=None), Cause(Reason.PROGRESSING, node="service")]
    rows = format_rows(causes, {"database": DATABASE, "service": None}, (), timestamp(NOON))
    assert [row.get("object") for row in rows] == [str(DATABASE), None]


def test_rows_references_and_messages_are_bounded() -> None:
    many = replace(FULL, references=FULL.references * MAX_CAUSE_REFS, message="m" * 2 * MAX_MESSAGE_CHARACTERS)
    rows = written(*[many] * (MAX_ROWS + 1))
    assert len(rows) == MAX_ROWS
    assert (len(rows[0]["blockedBy"]), len(rows[0]["message"])) == (MAX_CAUSE_REFS, MAX_MESSAGE_CHARACTERS)


def test_what_many_wait_for_is_read_from_the_record_of_their_rollout() -> None:
    """The row of a place in a wave stays as it is while the others get on."""
    (row,) = written(QUEUED)
    assert row.keys() == {"reason", "message", "since", "position"}
    forecast = WaveForecast((BlockingItem("prod/cart", "GateClosed", MONDAY),), (StartForecast(5, MONDAY),))
    progress = WaveProgress("prod", "exponential 2", 8, 3, 1, 0, 0, limit=4, then=8, ahead=forecast)
    position = {**QUEUED.details["position"], "limit": 4, "moved": 4, "then": 8}
    assert with_wave_progress(parse_row(row), progress) == replace(
        QUEUED, since=NOON, details={"position": position}, is_shared=False
    )
    assert with_wave_progress(FULL, progress) is FULL
