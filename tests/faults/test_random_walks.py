"""Random commits and faults, then quiet: equal to a run on an empty lane that only saw the last commit, then no write for five passes."""

from __future__ import annotations

import pytest

from tests.support.faults.extent import first
from tests.support.faults.lane import Lane
from tests.support.faults.random_walks import walk


@pytest.mark.parametrize("seed", first(1, [1, 2, 3]))
async def test_after_a_random_history_all_is_as_the_last_commit_says(lane: Lane, seed: int) -> None:
    """I2, I7."""
    assert await walk(lane, seed) == []
