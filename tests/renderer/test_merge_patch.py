"""Two merge patches of one object: whether their order matters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderer.identity import is_same
from renderer.merge_patch import apply_merge_patch, find_contradiction

NAMES = st.sampled_from("abc")
SCALARS = st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["x", "y"])
LEAVES = SCALARS | st.lists(SCALARS | st.dictionaries(NAMES, SCALARS, max_size=2), max_size=2)
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    NAMES, st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=6), max_size=3
)


@given(OBJECTS, OBJECTS, OBJECTS)
def test_without_a_contradiction_the_order_of_two_patches_is_nothing(
    target: dict[str, Any], one: dict[str, Any], other: dict[str, Any]
) -> None:
    if not find_contradiction(one, other):
        first = apply_merge_patch(apply_merge_patch(target, one), other)
        assert is_same(first, apply_merge_patch(apply_merge_patch(target, other), one))
    assert find_contradiction(one, other) == find_contradiction(other, one)
    assert find_contradiction(one, one) == ""


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({"a": {"b": 1}}, {"a": {"c": 1}}, ""),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, ""),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b"),
        ({"a": {"b": 1}}, {"a": {"b": True}}, "a.b"),
        ({"a": {"b": 1}}, {"a": None}, "a"),
        ({"a": {"b": None}}, {"a": {"b": None}}, ""),
        ({"a": [1]}, {"a": [2]}, "a"),
    ],
)
def test_a_contradiction_is_named(one: dict[str, Any], other: dict[str, Any], found: str) -> None:
    assert find_contradiction(one, other) == found
