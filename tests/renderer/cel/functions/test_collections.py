"""Lists, maps and sets."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import collections
from renderer.cel.nanoseconds import duration_from_nanoseconds
from renderer.cel.values import NONE, Associative, TypeValue


def test_equal_numbers_are_one_element() -> None:
    assert collections.distinct(Meter(), [1, 1.0, True, "a", "a"]) == [1, True, "a"]
    assert collections.contains_all(Meter(), [1, 2], [2.0])


def test_a_deep_merge_replaces_lists() -> None:
    base = {"a": {"x": 1, "l": [1]}, "b": 1}
    assert collections.deep_merge(Meter(), base, {"a": {"l": [2]}, "b": {"y": 1}}) == {
        "a": {"x": 1, "l": [2]},
        "b": {"y": 1},
    }
    assert base == {"a": {"x": 1, "l": [1]}, "b": 1}


def test_a_sum_needs_numbers_or_durations() -> None:
    assert collections.total(Meter(), []) == 0
    assert collections.total(Meter(), [1, 2]) == 3
    assert collections.total(Meter(), [duration_from_nanoseconds(1), timedelta(hours=1)]) > timedelta(hours=1)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a"], "string"),
        ([b"a"], "bytes"),
        ([True], "bool"),
        ([None], "null"),
        ([{}], "map"),
        ([Associative([1], lambda item: item)], "list"),
        ([NONE], "optional"),
        ([TypeValue("int")], "type"),
        ([datetime(2026, 1, 31, tzinfo=UTC)], "timestamp"),
        ([timedelta(hours=1), datetime(2026, 1, 31, tzinfo=UTC)], "timestamp"),
    ],
)
def test_no_other_elements_have_a_sum(values: list[Any], kind: str) -> None:
    with pytest.raises(EvaluationError, match=f"sum: elements are {kind}, not numbers or durations"):
        collections.total(Meter(), values)


def test_indexes_have_bounds() -> None:
    assert collections.insert_at(Meter(), [1], 1, 2) == [1, 2]
    with pytest.raises(EvaluationError, match="index 1 out of range"):
        collections.remove_at(Meter(), [1], 1)
    with pytest.raises(EvaluationError, match="is outside of a list of 1"):
        collections.slice_list(Meter(), [1], 0, 2)


def test_work_is_paid_for_before_it_is_done() -> None:
    with pytest.raises(BudgetError):
        collections.number_range(Meter(), 10**12)
