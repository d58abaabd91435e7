"""The record of a rollout: a ConfigMap's data, there and back."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from gitops.records.rollout_records import Rollouts, decode_rollout, encode_rollout, rollout_body
from gitops.rollouts.state import Approval, DecisionRecord, Halt, RolloutState, TargetRevision
from renderer import well_known

NOW = datetime(2026, 11, 20, 13, 0, 7, tzinfo=UTC)
FULL = RolloutState(
    targets={"canary": TargetRevision(13, "9c1d2e7a5b0c", reverts=11), "prod": TargetRevision(12)},
    passed={"canary": TargetRevision(12)},
    completed=TargetRevision(11),
    halts=(Halt(13, NOW, "levelgate", "1 of 2 failed"),),
    forgiven={"prod": 1},
    approvals=(Approval(12, "canary", NOW, "ada", 'said "yes"'),),
    decisions=(DecisionRecord(NOW, "granted", "r12, wave prod: prod/äpi", "levelgate", ""),),
)


def test_a_record_comes_back_as_it_was() -> None:
    """S1-28: a restart loses nothing."""
    assert asdict(decode_rollout(encode_rollout(FULL), now=NOW)) == asdict(FULL)
    assert all(isinstance(text, str) for text in encode_rollout(FULL).values())
    assert (
        encode_rollout(FULL)["halts"]
        == '[{"by":"levelgate","since":"2026-11-20T13:00:07Z","target":13,"why":"1 of 2 failed"}]'
    )


def test_no_record_is_a_new_rollout() -> None:
    assert decode_rollout({}, now=NOW) == RolloutState()
    assert encode_rollout(RolloutState()) == {}


def test_keys_of_others_are_passed_over() -> None:
    assert decode_rollout({"note": "mine"}, now=NOW) == RolloutState()


@pytest.mark.parametrize(
    "damage",
    ["{", '[{"target":"x"}]', "7", '[{"target":13,"since":"2026-11-20T13:00:07","by":"b","why":"w"}]'],
    ids=["no JSON", "wrong type", "no list", "no zone"],
)
def test_a_record_that_cannot_be_read_is_halted(damage: str) -> None:
    """A halt may be what it said, so nothing moves until a person looks."""
    state = decode_rollout({**encode_rollout(FULL), "halts": damage}, now=NOW)
    halt = state.halt_of(TargetRevision(99))
    assert halt
    assert halt.why.startswith("the record of this rollout cannot be read")


def test_only_the_last_fifty_decisions_are_kept_and_each_is_short() -> None:
    state = RolloutState()
    for number in range(60):
        state = state.with_decision(DecisionRecord(NOW, "granted", f"{number} " + "x" * 2000))
    assert [entry.subject.split()[0] for entry in state.decisions] == [str(number) for number in range(10, 60)]
    assert sum(map(len, encode_rollout(state).values())) < 64 * 1024


def test_a_pending_state_answers_the_requests_to_its_rollout_alone() -> None:
    stored = [rollout_body(name, RolloutState()) for name in ("a", "b")]
    for record in stored:
        record["metadata"]["annotations"] = {well_known.RESUME: "*", "other": "kept"}
    rollouts = Rollouts.from_objects(stored)
    assert set(rollouts.requests) == {"a", "b"}
    pending = rollouts.with_pending_states({"a": FULL, "new": FULL})
    assert set(pending.requests) == {"b"}
    assert pending.records["a"]["metadata"]["annotations"] == {"other": "kept"}
    assert {name: state == FULL for name, state in pending.states(NOW).items()} == {"a": True, "b": False, "new": True}
    assert not pending.changed_names({"a": FULL, "new": FULL}, includes_report=True)
    assert set(rollouts.requests) == {"a", "b"}
