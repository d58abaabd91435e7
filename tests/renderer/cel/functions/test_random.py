"""Values computed from a seed, as kro computes them."""

from __future__ import annotations

import pytest

from renderer.cel.budget import MAX_TEXT_CHARACTERS, Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import random
from renderer.cel.values import INT_MAX, INT_MIN


@pytest.mark.parametrize(
    ("length", "text"), [(1, "2"), (7, "2q3xwip"), (8, "2q3xwip3"), (9, "2q3xwip32"), (20, "2q3xwip32q3xwip32q3x")]
)
def test_a_seeded_text_repeats_its_first_eight_characters(length: int, text: str) -> None:
    assert random.seeded_string(Meter(), length, "a") == text


def test_different_seeds_give_different_texts() -> None:
    assert len({random.seeded_string(Meter(), 8, seed) for seed in ("", "a", "b", "A", "é")}) == 5


@pytest.mark.parametrize("length", [0, -1, INT_MIN])
def test_a_seeded_text_has_a_positive_length(length: int) -> None:
    with pytest.raises(EvaluationError) as caught:
        random.seeded_string(Meter(), length, "a")
    assert caught.value.message == "random.seededString: the length must be positive"


@pytest.mark.parametrize("length", [MAX_TEXT_CHARACTERS + 1, INT_MAX])
def test_a_long_text_is_refused_before_it_is_built(length: int) -> None:
    with pytest.raises(BudgetError):
        random.seeded_string(Meter(), length, "a")


@pytest.mark.parametrize(
    ("low", "high", "number"),
    [
        (30000, 32768, 31146),
        (0, 2768, 1146),
        (-2768, 0, -1622),
        (5, 6, 5),
        (INT_MAX - 1, INT_MAX, INT_MAX - 1),
    ],
)
def test_a_seeded_int_has_its_known_value(low: int, high: int, number: int) -> None:
    assert random.seeded_int(low, high, "a") == number


def test_seeded_ints_reach_the_minimum_and_not_the_maximum() -> None:
    assert {random.seeded_int(-1, 2, str(seed)) for seed in range(50)} == {-1, 0, 1}
    assert INT_MIN <= random.seeded_int(INT_MIN, INT_MAX, "a") < INT_MAX


@pytest.mark.parametrize(("low", "high"), [(5, 5), (6, 5), (INT_MAX, INT_MIN)])
def test_the_minimum_is_less_than_the_maximum(low: int, high: int) -> None:
    with pytest.raises(EvaluationError) as caught:
        random.seeded_int(low, high, "a")
    assert caught.value.message == "random.seededInt: the minimum must be less than the maximum"
