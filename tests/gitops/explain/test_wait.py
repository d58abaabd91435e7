"""When a script may go on: applied, settled, at a commit (surface 1.2, 6; docs/people.md)."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.explain.wait import WaitGoal, WaitTarget
from gitops.records.instance_state import InstanceState
from gitops.records.source_record import SourceRecord

OLD, NEW = "4e01b7a" + "0" * 33, "9c1d2e7" + "0" * 33


def record(**said: Any) -> SourceRecord:
    return SourceRecord(**{"target": NEW, "applied": NEW, "own_objects_commit": NEW, "state": "Settled", **said})


def instance(
    *, reason: str = "Settled", healthy: str = "True", generation: int = 1, applied: int = 2
) -> dict[str, Any]:
    conditions = [
        {"type": "Healthy", "status": healthy, "observedGeneration": 1},
        {"type": "Propagated", "status": str(reason == "Settled"), "reason": reason, "observedGeneration": 1},
    ]
    pairs = {"target": {"revision": 2, "commit": "c"}, "applied": {"revision": applied, "commit": "c"}}
    return {
        "apiVersion": "g.test/v1",
        "kind": "Link",
        "metadata": {"name": "a", "namespace": "default", "generation": generation},
        "status": {"conditions": conditions, "levelgate": {"source": "platform", **pairs}},
    }


@pytest.mark.parametrize(
    ("found", "goal", "is_there"),
    [
        (record(), WaitGoal.SETTLED, True),
        (record(state="Waiting"), WaitGoal.SETTLED, False),
        (record(state="Waiting"), WaitGoal.APPLIED, True),
        (record(applied=OLD), WaitGoal.APPLIED, False),
        (record(applied=OLD, state="Held"), WaitGoal.SETTLED, False),
        (record(target=""), WaitGoal.APPLIED, False),
        (None, WaitGoal.APPLIED, False),
    ],
)
def test_a_source(found: SourceRecord | None, goal: WaitGoal, is_there: bool) -> None:
    assert WaitTarget(goal).check_source("platform", found).is_reached is is_there


def test_a_source_at_another_commit_and_one_that_is_held_there() -> None:
    at = WaitTarget(WaitGoal.SETTLED, NEW[:7])
    assert at.check_source("platform", record(target=OLD)).message == "platform is at 4e01b7a, not at 9c1d2e7 yet"
    held = record(target=OLD, offered=NEW, causes=({"reason": "HistoryRewritten", "message": "history was rewritten"},))
    assert at.check_source("platform", held) == (False, "platform stays at 4e01b7a: history was rewritten")


@pytest.mark.parametrize(
    ("found", "goal", "is_there"),
    [
        (instance(), WaitGoal.SETTLED, True),
        (instance(healthy="False"), WaitGoal.SETTLED, False),
        (instance(reason="WindowClosed", applied=1), WaitGoal.APPLIED, False),
        (instance(reason="Progressing", healthy="False"), WaitGoal.APPLIED, True),
        (instance(generation=2), WaitGoal.SETTLED, False),
        (None, WaitGoal.SETTLED, False),
    ],
)
def test_an_instance(found: dict[str, Any] | None, goal: WaitGoal, is_there: bool) -> None:
    """surface 6: settled needs Healthy; a status of an older spec says nothing."""
    assert WaitTarget(goal).check_instance("Link default/a", found, None).is_reached is is_there


def test_an_instance_at_a_commit_is_there_once_its_source_is_and_its_spec_is_written() -> None:
    at = WaitTarget(WaitGoal.SETTLED, NEW[:7])
    assert at.check_instance("a", instance(), record()).is_reached
    assert not at.check_instance("a", instance(), record(own_objects_commit=OLD)).is_reached
    assert not at.check_instance("a", instance(), record(target=OLD, own_objects_commit=OLD)).is_reached
    assert not at.check_instance("a", instance(), None).is_reached


def test_a_rollout_is_where_all_of_its_instances_are() -> None:
    both = [
        InstanceState.from_object(instance()),
        InstanceState.from_object(instance(reason="WindowClosed", applied=1)),
    ]
    assert WaitTarget(WaitGoal.SETTLED).check_rollout("links", both) == (
        False,
        "rollout links: Held, 1 of 2 instances settled",
    )
    assert WaitTarget(WaitGoal.SETTLED).check_rollout("links", both[:1]).is_reached
