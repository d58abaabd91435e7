"""States of rollouts: times of decisions that are not stored yet, and equality with all fields of targets."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitops.rollouts.state import (
    UNDATED,
    Approval,
    DecisionRecord,
    Halt,
    RolloutState,
    TargetRevision,
    is_same_state,
)
from tests.support.rollouts.rollouts import START

TARGET = TargetRevision(2, "abc", reverts=1)


def test_a_state_gets_the_time_at_which_it_is_stored_and_keeps_earlier_times() -> None:
    earlier, now = START, START + timedelta(hours=1)
    state = RolloutState(
        halts=(Halt(1, earlier, "eve", "wrong"), Halt(2, UNDATED, "eve", "wrong")),
        approvals=(Approval(1, "10", earlier, "eve"), Approval(2, "10", UNDATED, "eve")),
        decisions=(DecisionRecord(earlier, "target", "r1"), DecisionRecord(UNDATED, "target", "r2")),
        externals={"a": earlier, "b": UNDATED},
    )
    dated = state.dated(now)
    assert [halt.since for halt in dated.halts] == [earlier, now]
    assert [approval.at for approval in dated.approvals] == [earlier, now]
    assert [entry.at for entry in dated.decisions] == [earlier, now]
    assert dated.externals == {"a": earlier, "b": now}
    assert dated.dated(now + timedelta(hours=1)) == dated


@pytest.mark.parametrize("other", [replace(TARGET, commit="def"), replace(TARGET, reverts=0), TargetRevision(3)])
@pytest.mark.parametrize("place", ["targets", "passed", "completed"])
def test_a_state_with_another_target_is_another_state(place: str, other: TargetRevision) -> None:
    def state(target: TargetRevision) -> RolloutState:
        fields: dict[str, Any] = {place: target if place == "completed" else {"all": target}}
        return replace(RolloutState(), **fields)

    assert is_same_state(state(TARGET), state(replace(TARGET)))
    assert not is_same_state(state(TARGET), state(other))


def test_a_missing_state_is_the_same_only_as_a_missing_one() -> None:
    assert is_same_state(None, None)
    assert not is_same_state(None, RolloutState())
    assert not is_same_state(RolloutState(), None)
