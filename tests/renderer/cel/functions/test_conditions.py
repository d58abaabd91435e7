"""Conditions that `runtime` makes and reads."""

from __future__ import annotations

from typing import Any

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import conditions

EMPTY = {"type": "", "status": "", "reason": "", "message": ""}
READY = {"type": "Ready", "status": "True", "reason": "Up", "message": "all pods run"}


def holder(*items: Any) -> dict[str, Any]:
    """Return an object with the conditions `items`."""
    return {"status": {"conditions": list(items)}}


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_a_new_condition_has_all_fields_and_empty_texts_for_the_absent_ones(status: str) -> None:
    assert conditions.new_condition({"status": status, "type": "Ready"}) == {**EMPTY, "type": "Ready", "status": status}


def test_a_new_condition_keeps_its_texts_in_the_order_of_the_fields() -> None:
    made = conditions.new_condition(dict(reversed(READY.items())))
    assert made == READY
    assert tuple(made) == conditions.FIELDS == ("type", "status", "reason", "message")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": 1, "status": "True"}, "runtime.newCondition: type must be a string, not int"),
        ({"type": "Ready", "status": True}, "runtime.newCondition: status must be a string, not bool"),
        (
            {"type": "Ready", "status": "True", "reason": None},
            "runtime.newCondition: reason must be a string, not null",
        ),
        (
            {"type": "Ready", "status": "True", "message": []},
            "runtime.newCondition: message must be a string, not list",
        ),
        ({"type": "", "status": "True"}, "runtime.newCondition: type must not be empty"),
        ({"type": "Ready", "status": "true"}, "runtime.newCondition: status must be True, False, Unknown, not 'true'"),
        ({"type": "Ready", "status": ""}, "runtime.newCondition: status must be True, False, Unknown, not ''"),
    ],
)
def test_a_value_that_a_condition_cannot_have_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        conditions.new_condition(fields)
    assert caught.value.message == message


def test_a_condition_is_found_by_its_type() -> None:
    other = {"type": "Synced", "status": "False"}
    assert conditions.condition(Meter(), holder(other, READY), "Ready") == READY
    assert conditions.condition(Meter(), holder(other, READY), "Synced") == {**EMPTY, **other}


@pytest.mark.parametrize(
    "absent",
    [{}, {"status": {}}, holder(), holder(READY), holder({"type": "other"}), holder({}), holder({"type": None})],
)
def test_an_absent_condition_has_empty_texts(absent: dict[str, Any]) -> None:
    assert conditions.condition(Meter(), absent, "Other") == EMPTY


def test_a_read_condition_has_the_four_texts_only() -> None:
    stored = {"type": "Ready", "status": True, "reason": None, "lastTransitionTime": "2026-01-31T08:00:00Z"}
    assert conditions.condition(Meter(), holder(stored), "Ready") == {**EMPTY, "type": "Ready"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"status": "up"}, "runtime.condition: obj.status must be of type map, not string"),
        ({"status": None}, "runtime.condition: obj.status must be of type map, not null"),
        ({"status": {"conditions": {}}}, "runtime.condition: obj.status.conditions must be of type list, not map"),
        (holder("Ready"), "runtime.condition: a condition must be a map, not string"),
        (holder(None, READY), "runtime.condition: a condition must be a map, not null"),
    ],
)
def test_a_field_of_a_wrong_type_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        conditions.condition(Meter(), wrong, "Ready")
    assert caught.value.message == message


def test_a_search_pays_for_each_condition() -> None:
    found = holder(READY, READY, READY)
    assert conditions.condition(Meter(3), found, "Ready") == READY
    with pytest.raises(BudgetError):
        conditions.condition(Meter(2), found, "Ready")
