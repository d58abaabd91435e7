"""Conditions that a definition's author writes (kro documentation, "Custom conditions")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from renderer.definition.custom_conditions import ConditionExpression, CustomConditions, compile_entries
from renderer.errors import ExpressionError

BUILT_IN = [{"type": "Ready", "status": "False", "reason": "NotReady", "message": "b waits"}]


def entries(*texts: str) -> tuple[ConditionExpression, ...]:
    found = [entry for _, entry in compile_entries(list(texts))]
    assert all(isinstance(entry, ConditionExpression) for entry in found), found
    return tuple(entry for entry in found if isinstance(entry, ConditionExpression))


def made(*texts: str, before: list[dict[str, str]] | None = None, **values: Any) -> tuple[list[dict[str, str]], str]:
    return CustomConditions(entries(*texts), {"schema": {"spec": {"on": True}}, **values}).evaluate(
        BUILT_IN, before or []
    )


def wrong(*written: Any) -> list[str]:
    return [f"{place} {entry}" for place, entry in compile_entries(list(written)) if isinstance(entry, ExpressionError)]


SERVING = "${runtime.newCondition({type: 'Serving', status: web.ok ? 'True' : 'False', reason: 'Pods'})}"


def test_an_expression_makes_a_condition() -> None:
    found, problem = made(SERVING, web={"ok": True})
    assert found == [{"type": "Serving", "status": "True", "reason": "Pods", "message": ""}]
    assert problem == ""


def test_an_expression_may_make_a_list_of_them() -> None:
    text = "${workers.map(w, runtime.newCondition({type: 'Up-' + w.name, status: 'True'}))}"
    found, _ = made(text, workers=[{"name": "a"}, {"name": "b"}])
    assert [one["type"] for one in found] == ["Up-a", "Up-b"]


def test_conditions_of_other_objects_are_read_and_absent_ones_are_empty() -> None:
    text = (
        "${runtime.newCondition({type: 'Db', status: runtime.condition(db, 'Up').status == 'True' ? 'True' : 'False'})}"
    )
    dbs: list[Mapping[str, Any]] = [
        {"status": {"conditions": [{"type": "Up", "status": "True"}]}},
        {},
        {"status": {"conditions": []}},
    ]
    assert [made(text, db=db)[0][0]["status"] for db in dbs] == [
        "True",
        "False",
        "False",
    ]


def test_the_instances_own_conditions_may_be_read() -> None:
    text = (
        "${runtime.newCondition({type: 'Told', status: 'True', message: runtime.condition(schema, 'Ready').message})}"
    )
    assert made(text)[0][0]["message"] == "b waits"


def test_what_is_not_known_yet_keeps_the_last_condition() -> None:
    before = [{"type": "Serving", "status": "True", "reason": "Pods", "message": "m", "lastTransitionTime": "t"}]
    assert made(SERVING, before=before, web={}) == (
        [{"type": "Serving", "status": "True", "reason": "Pods", "message": "m"}],
        "",
    )
    assert made(SERVING, web={}) == ([], "")


def test_two_of_one_type_are_both_dropped_and_told() -> None:
    text = "${['a', 'b', 'a'].map(n, runtime.newCondition({type: n, status: 'True'}))}"
    found, problem = made(text)
    assert [one["type"] for one in found] == ["b"]
    assert problem == "status.conditions: more than one condition has the type a; use different types"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${runtime.newCondition({type: 'A', status: web.text})}", "status must be True, False, Unknown, not 'maybe'"),
        ("${runtime.newCondition({type: web.empty, status: 'True'})}", "type must not be empty"),
        ("${runtime.newCondition({type: 'A', status: 'True', message: web.n})}", "message must be a string, not int"),
        ("${[runtime.newCondition({type: 'A', status: 'True'}), 1][1]}", "must yield a condition"),
    ],
)
def test_conditions_that_turn_out_wrong_are_told(text: str, told: str) -> None:
    found, problem = made(text, web={"text": "maybe", "empty": "", "n": 1})
    assert found == []
    assert told in problem


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("text", "write exactly one expression"),
        (1, "is not an expression"),
        ("${true}", "does not make a condition"),
        ("${runtime.newCondition({type: 'A'})}", "add status"),
        ("${runtime.newCondition({status: 'True'})}", "add type"),
        ("${runtime.newCondition({type: 'A', status: 'true'})}", "True, False or Unknown, not 'true'"),
        ("${runtime.newCondition({type: 'A', status: true})}", "True, False or Unknown, not True"),
        (
            "${runtime.newCondition({type: 'A', status: 'True', colour: 'red'})}",
            "the keys are type, status, reason, message, without quotes",
        ),
        ("${runtime.newCondition('A')}", "takes a map"),
        ("${runtime.newCondition()}", "takes 1 argument, not 0"),
        ("${runtime.newCondition({type: 'Healthy', status: 'True'})}", "Levelgate's own"),
        ("${runtime.newCondition({type: 'Propagated', status: 'True'})}", "Levelgate's own"),
        (
            "${runtime.newCondition({type: 'A', status: runtime.condition(schema, 'B').status})}",
            "an expression can read; choose from InstanceManaged, GraphResolved, ResourcesReady, Ready, Healthy, Propagated",
        ),
    ],
)
def test_conditions_that_cannot_be(text: Any, told: str) -> None:
    (only,) = wrong(text)
    assert told in only


def test_a_type_is_made_by_one_entry() -> None:
    (only,) = wrong(SERVING, SERVING)
    assert only.startswith("[1] ")
    assert "two expressions make the condition Serving" in only


def test_the_list_is_a_list() -> None:
    assert "must be a list" in str(next(iter(compile_entries({})))[1])
