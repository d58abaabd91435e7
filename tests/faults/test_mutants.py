"""The bench itself: with a safeguard switched off it reports a breach, with all of them on it reports none."""

from __future__ import annotations

import pytest

from tests.faults.lane import Lane
from tests.faults.mutants import MUTANTS, Mutant, verdict


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
async def test_a_safeguard_that_is_off_is_noticed(lane: Lane, mutant: Mutant) -> None:
    assert await mutant.probe(lane) == []
    assert await verdict(mutant, lane) != []
