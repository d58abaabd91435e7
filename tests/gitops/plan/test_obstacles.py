"""Causes as obstacles of a plan, and deletions that do not end by themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from applier.causes import Cause, CauseRef, Reason
from gitops.plan.obstacles import ObstacleFinder, blocked_deletions, obstacle_of
from gitops.plan.report import Obstacle
from renderer.identity import ObjectKey
from tests.support.git.commits import previewed
from tests.support.properties.repositories import plain

OPENS = datetime(2026, 11, 23, 8, tzinfo=UTC)


def test_an_obstacle_has_the_first_name_and_the_time_of_its_cause() -> None:
    references = (
        CauseRef("Window", "monday", Reason.WINDOW_CLOSED),
        CauseRef("Window", "tuesday", Reason.WINDOW_CLOSED),
    )
    cause = Cause(Reason.WINDOW_CLOSED, "window monday is closed", references=references, until=OPENS)
    assert obstacle_of(cause) == Obstacle(Reason.WINDOW_CLOSED, "window monday is closed", "monday", OPENS)


@pytest.mark.parametrize(
    ("details", "is_of_items"),
    [({}, False), ({"position": {"wave": "prod"}}, False), ({"position": {"wave": ""}}, True)],
)
def test_a_position_without_a_wave_is_that_of_a_collections_items(details: dict[str, Any], is_of_items: bool) -> None:
    assert obstacle_of(Cause(Reason.PACE_REACHED, "1 of 1", details=details)).is_of_items is is_of_items


def test_an_object_waits_for_its_turn_only_where_one_is_found() -> None:
    prospects = previewed({"a.json": plain("a")}, {"a.json": plain("a", text="two")})
    (set_plan,) = prospects.due.plan.sets
    key = set_plan.nodes[0].node.key
    assert key
    turn = Cause(Reason.WAVE_NOT_REACHED, "wave prod has not begun")

    def find_turn(_: object, asked: ObjectKey) -> Cause | None:
        return turn if asked == key else None

    finder = ObstacleFinder(prospects.due, {}, find_turn)
    assert finder.of_turn(set_plan, key) == (obstacle_of(turn),)
    assert finder.of_turn(set_plan, key._replace(name="b")) == ()
    assert finder.describe_override(None) == ""


def test_nothing_is_a_blocked_deletion_where_nothing_is_deleted() -> None:
    prospects = previewed({"a.json": plain("a")}, {"b.json": plain("b")})
    assert blocked_deletions(prospects.due.plan) == {}
