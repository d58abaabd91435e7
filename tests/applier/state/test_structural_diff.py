"""Structural difference of two JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from applier.state.structural_diff import FieldDiff, ItemPairs, diff_values


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2}}, []),
        ({"b": {"c": 2}, "a": 1}, {"b": {"c": 3}}, [("a", 1, None), ("b.c", 2, 3)]),
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        ({"a": {"x.dev/b": "1"}}, {"a": {"x.dev/b": "2"}}, [("a[x.dev/b]", "1", "2")]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, [("a[1].b", 2, 3)]),
        ([1, 2], [2, 1], [("[0]", 1, 2), ("[1]", 2, 1)]),
        ({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])]),
        ({"a": {}}, {"a": []}, [("a", {}, [])]),
        ({}, {"a": {}}, [("a", None, {})]),
    ],
)
def test_the_smallest_fields_that_differ_are_found(old: Any, new: Any, expected: list[Any]) -> None:
    assert list(diff_values(old, new)) == [FieldDiff(*parts) for parts in expected]


def test_the_caller_pairs_items_and_says_what_is_equal() -> None:
    def pair_by_name(old: Sequence[Any], new: Sequence[Any]) -> ItemPairs:
        return [(item["name"], item, next(other for other in new if other["name"] == item["name"])) for item in old]

    old, new = [{"name": "a", "v": "x"}, {"name": "b", "v": "y"}], [{"name": "b", "v": "z"}, {"name": "a", "v": "X"}]
    found = diff_values(
        old, new, is_equal=lambda left, right: str(left).lower() == str(right).lower(), pair_items=pair_by_name
    )
    assert list(found) == [FieldDiff("[b].v", "y", "z")]
