"""Actions that an explanation suggests, and the cause that a list names."""

from __future__ import annotations

import pytest

from applier.causes import Cause, CauseRef, Reason
from gitops.explain.explanation import CauseChain, WaitingLink
from gitops.explain.phrasing import describe_blocker, describe_node, suggest_actions
from gitops.records.display_state import DisplayState
from renderer.identity import ObjectKey, source_parent

SOURCE = source_parent("platform")
ACCEPTED, OFFERED = "4e01b7a" + "0" * 33, "9c1d2e7" + "0" * 33


def suggested(cause: Cause, key: ObjectKey = SOURCE) -> list[tuple[str, str]]:
    chain = (WaitingLink(key, cause),)
    return list(
        suggest_actions(
            CauseChain(
                str(key), DisplayState.HELD, key, chain=chain, source="platform", commit=ACCEPTED, offered=OFFERED
            )
        )
    )


@pytest.mark.parametrize("reason", [Reason.HISTORY_REWRITTEN, Reason.UNSIGNED, Reason.APPROVAL_REQUIRED])
def test_a_commit_that_is_not_accepted_yet_is_approved_by_its_own_id(reason: Reason) -> None:
    assert suggested(Cause(reason)) == [
        ("approve the commit", f"levelgate approve source/platform --commit {OFFERED[:12]}")
    ]


def test_the_brake_is_approved_by_the_id_of_the_accepted_commit() -> None:
    assert suggested(Cause(Reason.BRAKE_ENGAGED)) == [
        ("approve the deletions", f"levelgate approve source/platform --commit {ACCEPTED[:12]}")
    ]


def test_a_held_source_without_a_reference_is_a_pinned_one() -> None:
    assert suggested(Cause(Reason.HELD)) == [("follow its ref again", "levelgate unpin source/platform")]
    held = Cause(Reason.HELD, references=(CauseRef("Source", "platform", Reason.HELD),))
    assert suggested(held) == [("release the source", "levelgate release source/platform")]


def test_a_cause_names_what_it_waits_for() -> None:
    window = CauseRef("Window", "dba-hours", Reason.WINDOW_CLOSED)
    assert describe_blocker(None, Cause(Reason.WINDOW_CLOSED, references=(window,))) == "window/dba-hours"
    assert describe_blocker(None, Cause(Reason.GATE_CLOSED, details={"gates": [{"at": "a.yaml:3"}]})) == "gate a.yaml:3"
    assert describe_blocker(None, Cause(Reason.PROGRESSING, node="database")) == "node database"


def test_an_object_without_a_node_is_not_called_one() -> None:
    assert describe_node(Cause(Reason.APPLY_FAILED, node=str(SOURCE), object_key=SOURCE)) == ""
