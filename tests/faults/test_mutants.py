"""The bench itself: with a safeguard switched off it reports a breach, with all of them on it reports none."""

from __future__ import annotations

import pytest

from tests.support.faults.extent import WHOLE
from tests.support.faults.lane import Lane
from tests.support.faults.mutants import MUTANTS, Mutant, verdict

each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))


@each_mutant
async def test_a_safeguard_that_is_off_is_noticed(lane: Lane, mutant: Mutant) -> None:
    assert await verdict(mutant, lane) != []


@pytest.mark.skipif(not WHOLE, reason="the other tests show as much: make faults")
@each_mutant
async def test_with_all_safeguards_on_nothing_is_found(lane: Lane, mutant: Mutant) -> None:
    assert await mutant.probe(lane) == []
