"""Shapes: how many of N items may have been started when s have settled."""

from __future__ import annotations

import pytest

from gitops.rollouts.shapes import Exponential, Shape, Unpaced, frontier
from tests.support.rollouts.rollouts import linear


@pytest.mark.parametrize(
    ("shape", "sliding", "expected"),
    [
        (linear(1), False, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]),
        (linear(3), False, [3, 3, 3, 6, 6, 6, 9, 9, 9, 10, 10]),
        (linear(4), False, [4, 4, 4, 4, 8, 8, 8, 8, 10, 10, 10]),
        (Exponential(2), False, [1, 2, 4, 4, 8, 8, 8, 8, 10, 10, 10]),
        (Exponential(3), False, [1, 3, 3, 9, 9, 9, 9, 9, 9, 10, 10]),
        (linear(3), True, [3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10]),
        (Exponential(2), True, [1, 2, 4, 6, 8, 10, 10, 10, 10, 10, 10]),
        (linear("25%"), False, [2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 10]),
        (linear("1%"), False, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]),
        (linear("100%"), False, [10] * 11),
        (Unpaced(), False, [10] * 11),
    ],
    ids=str,
)
def test_frontier_by_settled_count(shape: Shape, sliding: bool, expected: list[int]) -> None:
    """S1-9, S1-18: N = 10; a share is rounded down, at least 1."""
    assert [frontier(shape, settled, 10, sliding=sliding) for settled in range(11)] == expected


@pytest.mark.parametrize(
    ("factor", "settled", "expected"),
    [
        (5, 124, 125),
        (5, 125, 625),
        (5, 5**6 - 1, 5**6),
        (6, 6**3 - 1, 6**3),
        (6, 6**6 - 1, 6**6),
        (7, 7**5 - 1, 7**5),
        (2, 2**29 - 1, 2**29),
        (2, 2**29, 2**30),
        (3, 3**20 - 1, 3**20),
    ],
)
def test_powers_where_logarithms_go_wrong(factor: int, settled: int, expected: int) -> None:
    """In IEEE doubles ceil(log(125)/log(5)) is 4: factor 5 would open 625 instead of 125."""
    assert frontier(Exponential(factor), settled, 2**40) == expected


@pytest.mark.parametrize(
    "shape", [linear(1), linear(3), linear("25%"), Exponential(2), Exponential(3), Exponential(7)], ids=str
)
@pytest.mark.parametrize("sliding", [False, True])
def test_a_frontier_never_decreases_and_always_lets_one_more_go(shape: Shape, sliding: bool) -> None:
    for total in range(60):
        reach = [frontier(shape, settled, total, sliding=sliding) for settled in range(total + 1)]
        assert reach == sorted(reach)
        assert all(value >= min(total, settled + 1) for settled, value in enumerate(reach))
        assert all(value <= total for value in reach)


@pytest.mark.parametrize(
    "shape", [linear(1), linear(3), linear("25%"), Exponential(2), Exponential(3), Exponential(7)], ids=str
)
def test_sliding_never_opens_less_than_batches(shape: Shape) -> None:
    for total in range(60):
        for settled in range(total + 1):
            assert frontier(shape, settled, total, sliding=True) >= frontier(shape, settled, total)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear(0), "n is 0; it must be at least 1"),
        (lambda: linear("0%"), "n is 0%; it must be at least 1"),
        (lambda: linear(-1), "-1 is below 0"),
        (lambda: linear("101%"), "neither a whole number nor a percentage"),
        (lambda: linear("2.5%"), "neither a whole number nor a percentage"),
        (lambda: Exponential(1), "factor is 1; it must be a whole number of at least 2"),
    ],
)
def test_refused_parameters_say_what_is_valid(make: object, message: str) -> None:
    """S1-17, S1-18."""
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
