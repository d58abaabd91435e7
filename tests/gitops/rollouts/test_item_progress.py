"""The progress clock, the healthy period and the flaps of one item."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitops.rollouts.item_progress import ItemProgress
from tests.support.rollouts.rollouts import MINUTE, START

EMPTY = ItemProgress()
TEN = 10 * MINUTE


def test_the_clock_starts_at_the_grant() -> None:
    assert ItemProgress.start(START).overdue_after(TEN) == START + TEN


def test_a_level_that_becomes_ready_starts_it_anew() -> None:
    progress = ItemProgress.start(START).with_observation(START + 8 * MINUTE, is_healthy=False, levels=1)
    assert progress.overdue_after(TEN) == START + 18 * MINUTE
    assert (
        progress.with_observation(START + 9 * MINUTE, is_healthy=False, levels=1).overdue_after(TEN)
        == START + 18 * MINUTE
    )


def test_it_stands_still_while_the_item_waits() -> None:
    progress = ItemProgress.start(START).with_observation(START + 4 * MINUTE, is_healthy=False, is_waiting=True)
    assert progress.overdue_after(TEN) is None
    progress = progress.with_observation(START + 900 * MINUTE, is_healthy=False)
    assert (progress.elapsed(START + 900 * MINUTE), progress.overdue_after(TEN)) == (4 * MINUTE, START + 906 * MINUTE)


def test_it_does_not_run_while_healthy_and_starts_anew_when_that_is_lost() -> None:
    progress = ItemProgress.start(START).with_observation(START + 9 * MINUTE, is_healthy=True, levels=3)
    assert (progress.ready_since, progress.overdue_after(TEN)) == (START + 9 * MINUTE, None)
    lost = progress.with_observation(START + 60 * MINUTE, is_healthy=False, levels=2)
    assert (lost.ready_since, lost.overdue_after(TEN)) == (None, START + 70 * MINUTE)


def test_the_healthy_period_is_the_one_that_lasts() -> None:
    progress = ItemProgress.start(START).with_observation(START + MINUTE, is_healthy=True)
    assert progress.with_observation(START + 5 * MINUTE, is_healthy=True).ready_since == START + MINUTE


def test_health_that_is_lost_while_baking_is_a_flap_and_later_it_is_not() -> None:
    progress = ItemProgress.start(START).with_observation(START, is_healthy=True, bake=5 * MINUTE)
    assert progress.with_observation(START + 4 * MINUTE, is_healthy=False, bake=5 * MINUTE).flaps == 1
    assert progress.with_observation(START + 5 * MINUTE, is_healthy=False, bake=5 * MINUTE).flaps == 0


def test_it_comes_back_from_a_status_as_it_was() -> None:
    """S1-28."""
    progress = ItemProgress(START, 2, 4 * MINUTE, START + MINUTE, 3)
    assert progress.to_dict() == {
        "readySince": "2026-11-20T13:00:00Z",
        "flaps": 2,
        "spent": "PT240S",
        "runningSince": "2026-11-20T13:01:00Z",
        "levels": 3,
    }
    assert ItemProgress.from_dict(progress.to_dict()) == progress
    assert (EMPTY.to_dict(), ItemProgress.from_dict({})) == ({}, EMPTY)


def test_a_status_that_cannot_be_read_tells_no_progress() -> None:
    for damage in ({"readySince": "yesterday"}, {"readySince": "2026-11-20T13:00:00"}, {"flaps": "many"}):
        assert ItemProgress.from_dict(damage) is None


PROGRESSES = st.builds(
    ItemProgress,
    st.sampled_from([None, START]),
    st.integers(0, 2),
    st.sampled_from([0 * MINUTE, MINUTE]),
    st.sampled_from([None, START]),
    st.integers(0, 2),
)


@given(PROGRESSES, st.booleans(), st.integers(0, 2), st.booleans())
def test_progress_reflects_an_observation_that_changes_nothing_later(
    progress: ItemProgress, is_healthy: bool, levels: int, is_waiting: bool
) -> None:
    later = START + 5 * MINUTE
    seen = progress.with_observation(later, is_healthy=is_healthy, levels=levels, is_waiting=is_waiting)
    reflects = progress.reflects(is_healthy=is_healthy, levels=levels, is_waiting=is_waiting)
    assert reflects == (seen == progress)
    assert seen.reflects(is_healthy=is_healthy, levels=levels, is_waiting=is_waiting)
