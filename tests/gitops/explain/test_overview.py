"""A rollout in an overview: its present wave, and its targets."""

from __future__ import annotations

from gitops.explain.overview import RolloutOverview
from gitops.records.display_state import DisplayState
from gitops.rollouts.state import RolloutState, TargetRevision, WaveProgress


def rollout(*waves: tuple[str, int, int, int]) -> RolloutOverview:
    """Return a rollout whose waves have these totals, settled and held instances."""
    progress = tuple(WaveProgress(name, "", total, settled, 0, held, 0) for name, total, settled, held in waves)
    targets = {"canary": TargetRevision(9), "prod": TargetRevision(10)}
    return RolloutOverview("r", RolloutState(targets=targets, waves=progress), DisplayState.HELD, None, {})


def test_the_present_wave_is_the_first_that_can_still_move() -> None:
    assert rollout(("canary", 2, 1, 0), ("prod", 3, 0, 0)).wave == "canary 1/2"
    assert rollout(("canary", 2, 1, 1), ("prod", 3, 0, 0)).wave == "prod 2/2"
    assert rollout(("canary", 2, 2, 0), ("prod", 3, 3, 0)).wave == ""


def test_a_wave_without_instances_does_not_count() -> None:
    assert rollout(("canary", 0, 0, 0), ("prod", 3, 1, 0)).wave == ""
    assert [wave.name for wave in rollout(("canary", 0, 0, 0), ("prod", 3, 1, 0)).waves] == ["prod"]


def test_targets_are_sorted_by_number_the_newest_first() -> None:
    assert rollout().targets == "r10, r9"
