"""Equality of JSON values, and keys of list items."""

from __future__ import annotations

from typing import Any

import pytest

from applier.sandbox.merge.types import DEDUCED, MergeListType
from applier.sandbox.merge.values import MissingListKeyError, group_by_key, is_equal, key_of

SET = MergeListType(atomic=False, items=lambda: DEDUCED)
MAP = MergeListType(atomic=False, items=lambda: DEDUCED, keys=("name",))


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [(80, 80.0, True), (True, 1, False), ([1], [True], False), ({"a": {"b": 0}}, {"a": {"b": False}}, False)],
)
def test_a_boolean_is_not_a_number(left: Any, right: Any, equal: bool) -> None:
    assert is_equal(left, right) is equal


def test_items_are_grouped_by_their_keys() -> None:
    assert group_by_key(MAP, [{"name": "a", "v": 1}, {"name": "b"}, {"name": "a"}]) == {
        'k:{"name":"a"}': [{"name": "a", "v": 1}, {"name": "a"}],
        'k:{"name":"b"}': [{"name": "b"}],
    }
    assert key_of(SET, "x") == 'v:"x"'


@pytest.mark.parametrize(("items", "item"), [(MAP, {}), (MAP, "x"), (MAP, None), (SET, {}), (SET, []), (SET, None)])
def test_items_without_a_key(items: MergeListType, item: Any) -> None:
    with pytest.raises(MissingListKeyError):
        key_of(items, item)
