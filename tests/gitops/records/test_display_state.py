"""States that users see: complete, ordered, and as the reference says."""

import re
from pathlib import Path

import pytest

from applier.causes import Reason
from gitops.records.display_state import DisplayState

REFERENCE = Path(__file__).parents[3] / "docs" / "reference.md"


def test_the_reference_lists_every_state_with_its_reasons_the_worst_first() -> None:
    section = REFERENCE.read_text().split("\n## States\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    documented = [(state.strip(" `"), set(re.findall(r"`(\w+)`", reasons))) for state, reasons in rows]
    given_by = [
        (str(state), {str(reason) for reason in Reason if DisplayState.from_reason(reason) is state})
        for state in DisplayState
    ]
    assert documented == given_by


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_gives_a_state(reason: Reason) -> None:
    assert (DisplayState.from_reason(reason) is DisplayState.FAILED) == (
        reason.is_failure or reason is Reason.NOT_IN_GIT
    )
    assert not DisplayState.from_reason(reason).needs_person_or_time or reason.is_hold


def test_a_queue_position_is_waiting_and_a_window_is_held() -> None:
    assert DisplayState.from_reason(Reason.PACE_REACHED) is DisplayState.WAITING
    assert DisplayState.from_reason(Reason.WAVE_NOT_REACHED) is DisplayState.WAITING
    assert DisplayState.from_reason(Reason.WINDOW_CLOSED) is DisplayState.HELD


@pytest.mark.parametrize(
    ("reasons", "state"),
    [
        ((), DisplayState.SETTLED),
        ((Reason.SETTLED, Reason.BAKING), DisplayState.PROGRESSING),
        ((Reason.PROGRESSING, Reason.PACE_REACHED), DisplayState.WAITING),
        ((Reason.PACE_REACHED, Reason.WINDOW_CLOSED), DisplayState.HELD),
        ((Reason.WINDOW_CLOSED, Reason.SUSPENDED), DisplayState.SUSPENDED),
        ((Reason.SUSPENDED, Reason.HALTED), DisplayState.HALTED),
        ((Reason.HALTED, Reason.UNHEALTHY), DisplayState.FAILED),
    ],
)
def test_the_worst_reason_gives_the_state(reasons: tuple[Reason, ...], state: DisplayState) -> None:
    assert DisplayState.from_reasons(reasons) is state
    assert DisplayState.from_reasons(reversed(reasons)) is state
