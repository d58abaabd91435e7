"""Refused writes: when a write is the same as one that the server refused."""

from __future__ import annotations

from typing import Any

import pytest

from applier.errors import Invalid
from applier.plan.constraints import PlanConstraints, RefusedWrite, refusal_relevant_state
from tests.support.apply_sets import PARENT, SOURCE, key, live

INTENT = {"data": {"text": "new"}}


@pytest.mark.parametrize(
    ("change", "is_refused"),
    [
        ({}, True),
        ({"status": {"ready": True}}, True),
        ({"resourceVersion": "2"}, True),
        ({"labels": {"a": "b"}}, False),
        ({"data": {"text": "other"}}, False),
        ({"intent": {"data": {"text": "newer"}}}, False),
        ({"live": None}, False),
    ],
    ids=lambda value: next(iter(value), "nothing") if isinstance(value, dict) else "",
)
def test_a_write_is_refused_again_until_it_or_its_object_differs(change: dict[str, Any], is_refused: bool) -> None:
    """A status and a version say nothing about a refusal; content, labels, and the absence of the object do."""
    error, before = Invalid("apply"), live(SOURCE, "a")
    refused_write = RefusedWrite(error, INTENT, refusal_relevant_state(before))
    constraints = PlanConstraints(refused_writes={(PARENT, key("a")): refused_write})
    metadata = {name: value for name, value in change.items() if name in {"resourceVersion", "labels"}}
    content = {name: value for name, value in change.items() if name in {"data", "status"}}
    now = {**before, **content, "metadata": {**before["metadata"], **metadata}} if "live" not in change else None
    found = constraints.refusal(PARENT, key("a"), change.get("intent", INTENT), now)
    assert found is (error if is_refused else None)
    assert constraints.refusal(PARENT, key("b"), INTENT, before) is None
