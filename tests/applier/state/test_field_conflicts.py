"""Managers as the server names them, and whose fields are taken under which policy."""

from __future__ import annotations

from typing import Any

import pytest

from applier.state.field_conflicts import ConflictPolicy, FieldOwner
from applier.state.managed_fields import LostField, without_fields

HEAL, REPORT, FORCE = ConflictPolicy.HEAL, ConflictPolicy.REPORT, ConflictPolicy.FORCE


@pytest.mark.parametrize(
    ("entry", "message", "shown", "taking"),
    [
        ({"operation": "Update"}, 'conflict with "m" using v1', "m", {HEAL, FORCE}),
        (
            {"operation": "Update"},
            'conflict with "m" using apps/v1 at 2026-11-26T16:00:00Z',
            "m",
            {HEAL, FORCE},
        ),
        ({"operation": "Apply"}, 'conflict with "m"', "m (apply)", {FORCE}),
        (
            {"operation": "Update", "subresource": "scale"},
            'conflict with "m" with subresource "scale" using apps/v1',
            "m (scale)",
            {FORCE},
        ),
        (
            {"operation": "Update", "subresource": "resize"},
            'conflict with "m" with subresource "resize" using v1',
            "m",
            {HEAL, FORCE},
        ),
    ],
    ids=["update", "update with its time", "apply", "scale", "another subresource"],
)
def test_the_operation_decides(entry: dict[str, str], message: str, shown: str, taking: set[ConflictPolicy]) -> None:
    """Conflicts: an entry of managedFields and the message of a conflict name the same manager."""
    manager = FieldOwner.from_entry({"manager": "m", **entry})
    assert FieldOwner.from_conflict(message) == manager
    assert str(manager) == shown
    assert {policy for policy in ConflictPolicy if policy.takes_from(manager)} == taking


def test_what_a_person_applies_is_drift_and_what_he_scales_is_meant() -> None:
    """Conflicts: as a set that kubectl hands back, whose members it had applied."""
    assert FieldOwner("kubectl", is_update=False).is_drift
    assert not FieldOwner("kubectl", is_update=True, subresource="scale").is_drift


def test_a_name_that_looks_like_an_operation_is_a_name() -> None:
    assert FieldOwner.from_conflict('conflict with "x using y"') == FieldOwner("x using y", is_update=False)


@pytest.mark.parametrize(("text", "policy"), [("force", FORCE), ("Heal", HEAL), ("REPORT", REPORT), ("", None)])
def test_a_policy_is_named_in_any_case(text: str, policy: ConflictPolicy | None) -> None:
    assert ConflictPolicy.from_text(text) is policy


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (("f:data", "f:a"), {"items": [{"name": "x", "image": "i"}, {"name": "y"}], "set": ["a"]}),
        (
            ("f:items", 'k:{"name":"x"}', "f:image"),
            {"data": {"a": 1}, "items": [{"name": "x"}, {"name": "y"}], "set": ["a"]},
        ),
        (("f:items", 'k:{"name":"y"}'), {"data": {"a": 1}, "items": [{"name": "x", "image": "i"}], "set": ["a"]}),
        (("f:set", 'v:"a"'), {"data": {"a": 1}, "items": [{"name": "x", "image": "i"}, {"name": "y"}]}),
        (("f:set", 'v:"b"'), {"data": {"a": 1}, "items": [{"name": "x", "image": "i"}, {"name": "y"}], "set": ["a"]}),
        (("f:no", "f:such"), {"data": {"a": 1}, "items": [{"name": "x", "image": "i"}, {"name": "y"}], "set": ["a"]}),
    ],
    ids=["the last of a map", "in an item by its key", "an item", "the last of a set", "no such item", "no such field"],
)
def test_an_intent_without_a_field(keys: tuple[str, ...], left: dict[str, Any]) -> None:
    """What is left to others is not sent, and no empty map in its place, which would be a claim."""
    intent = {"data": {"a": 1}, "items": [{"name": "x", "image": "i"}, {"name": "y"}], "set": ["a"]}
    assert without_fields(intent, [LostField("", keys=keys)]) == left
