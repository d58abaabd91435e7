"""What an instance's own status tells of it."""

from __future__ import annotations

import pytest

from gitops.records.display_state import DisplayState
from gitops.records.instance_state import InstanceState


@pytest.mark.parametrize(("reason", "nodes"), [("ApplyFailed", ["map"]), ("ApprovalRequired", ["", "map"])])
def test_a_failure_is_told_by_its_node_alone_and_a_gate_by_the_instance_too(reason: str, nodes: list[str]) -> None:
    """A gate that both wait for is one of the rollout, where people look for who can open it."""
    rows = [{"reason": reason, "message": "why"}, {"reason": reason, "message": "why", "node": "map"}]
    metadata = {"name": "a", "namespace": "default"}
    told = InstanceState.from_object(
        {"apiVersion": "g/v1", "kind": "K", "metadata": metadata, "status": {"levelgate": {"blocked": rows}}}
    )
    assert [one.node for one in told.causes] == nodes


def test_an_instance_that_is_being_deleted_is_terminating_whatever_its_causes_are() -> None:
    metadata = {"name": "a", "namespace": "default", "deletionTimestamp": "2026-11-20T12:00:00Z"}
    conditions = [{"type": "Propagated", "status": "False", "reason": "DeletionBlocked", "message": "why"}]
    state = InstanceState.from_object(
        {"apiVersion": "g/v1", "kind": "K", "metadata": metadata, "status": {"conditions": conditions}}
    )
    assert state.state is DisplayState.TERMINATING
    assert [cause.reason for cause in state.display_causes] == ["DeletionBlocked"]
