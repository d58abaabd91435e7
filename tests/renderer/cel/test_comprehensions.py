"""Loops of macros, and operations that evaluate only what they need."""

import pytest

from renderer.cel import comprehensions
from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.values import NONE, Optional


def test_a_loop_pays_for_all_rounds_first() -> None:
    meter = Meter()
    assert list(comprehensions.items([1, 2, 3], meter, 5)) == [1, 2, 3]
    assert meter.granted - meter.left == 15
    with pytest.raises(BudgetError):
        comprehensions.items([0] * 1000, meter, 10**6)


def test_a_map_yields_keys_or_pairs() -> None:
    assert list(comprehensions.items({"a": 1}, Meter(), 1)) == ["a"]
    assert list(comprehensions.pairs({"a": 1}, Meter(), 1)) == [("a", 1)]
    assert list(comprehensions.pairs(["x"], Meter(), 1)) == [(0, "x")]


def test_another_value_is_not_gone_through() -> None:
    for loop in (comprehensions.items, comprehensions.pairs):
        with pytest.raises(EvaluationError, match="expected list or map, got string"):
            loop("text", Meter(), 1)


def test_an_alternative_is_computed_only_where_it_is_needed() -> None:
    def never() -> object:
        raise AssertionError

    assert comprehensions.value_or(Optional(1), never) == 1
    assert comprehensions.optional_or(Optional(1), never) == Optional(1)
    assert comprehensions.value_or(NONE, lambda: 2) == 2
    assert comprehensions.optional_map(NONE, lambda _: never()) is NONE


def test_every_outcome_is_looked_at() -> None:
    outcomes = iter((True, True, False))
    assert not comprehensions.is_exactly_one(outcomes)
    assert list(outcomes) == []


def test_a_sort_is_stable() -> None:
    values = [{"n": 2, "a": 1}, {"n": 1, "a": 2}, {"n": 2, "a": 3}]
    assert [item["a"] for item in comprehensions.sort_by(values, Meter(), 1, lambda item: item["n"])] == [2, 1, 3]
