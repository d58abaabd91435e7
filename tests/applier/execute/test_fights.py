"""Repairs that others undo: how often they follow at once, how long the next one waits, when a fight is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from applier.errors import Unavailable
from applier.execute.fights import Fights
from applier.execute.results import Result
from applier.state.managed_fields import LostField
from renderer.identity import ObjectKey

KEY = ObjectKey("", "ConfigMap", "default", "a")
START = datetime(2026, 11, 20, 12, tzinfo=UTC)
REPLICAS = LostField(".spec.replicas", "autoscaler")


def repaired(*lost: LostField, action: str = "healed", failed: bool = False) -> Result:
    return Result(KEY, KEY, action, error=Unavailable("later") if failed else None, lost_fields=lost)


def after(*results: Result, every: timedelta = timedelta(seconds=1)) -> tuple[Fights, datetime]:
    fights, now = Fights(), START
    for result in results:
        now += every
        fights.record([result], now)
    return fights, now


@pytest.mark.parametrize(
    ("times", "minutes"), [(1, 0), (2, 0), (3, 1), (4, 2), (5, 4), (6, 8), (7, 16), (8, 30), (60, 30)]
)
def test_each_repair_of_a_fight_waits_twice_as_long(times: int, minutes: int) -> None:
    """I11: what fails for ever is bounded."""
    fights, now = after(*[repaired(REPLICAS)] * times)
    assert (KEY in fights.throttled(now)) is bool(minutes)
    assert KEY not in fights.throttled(now + timedelta(minutes=minutes))
    if minutes:
        assert KEY in fights.throttled(now + timedelta(minutes=minutes) - timedelta(seconds=1))
        assert KEY not in fights.throttled(now - timedelta(days=1)), "the clock was set back"


def test_the_other_side_is_named() -> None:
    fights, now = after(*[repaired(REPLICAS, LostField(".spec.paused"))] * 3)
    told = fights.throttled(now)[KEY].message
    assert told.startswith(".spec.replicas is changed by autoscaler; .spec.paused is removed, repeatedly")


def test_repairs_far_apart_are_no_fight() -> None:
    fights, now = after(*[repaired(REPLICAS)] * 9, every=timedelta(minutes=10))
    assert fights.throttled(now) == {}


def test_changes_of_other_fields_each_time_are_no_fight() -> None:
    """A person who edits one thing after another is put right each time."""
    fights, now = after(*(repaired(LostField(f".data.{name}", "kubectl-edit")) for name in "abcdef"))
    assert fights.throttled(now) == {}


def test_an_update_that_restores_what_others_changed_counts_and_one_of_git_does_not() -> None:
    """A Secret whose values are changed, or an object replaced without our record, is updated and not healed."""
    fights, now = after(*[repaired(REPLICAS, action="updated")] * 3)
    assert KEY in fights.throttled(now)
    fights, now = after(*[repaired(action="updated")] * 3)
    assert fights.throttled(now) == {}


def test_an_object_that_we_delete_ourselves_is_nobodys_doing() -> None:
    created, deleted = repaired(action="created"), repaired(action="deleted")
    fights, now = after(*[created, deleted] * 5)
    assert fights.throttled(now) == {}
    fights, now = after(*[created] * 3)
    assert "another client deletes the object" in fights.throttled(now)[KEY].message


def test_what_was_not_done_does_not_count() -> None:
    fights, now = after(*[repaired(REPLICAS, failed=True)] * 5)
    assert fights.throttled(now) == {}
