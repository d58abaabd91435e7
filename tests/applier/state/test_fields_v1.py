"""Keys of FieldsV1."""

from __future__ import annotations

from typing import Any

import pytest

from applier.state.fields_v1 import expected_key, format_element, matches, owned_at


@pytest.mark.parametrize(
    ("item", "key", "found"),
    [
        ({"name": "a", "v": 1}, 'k:{"name":"a"}', True),
        ({"name": "b"}, 'k:{"name":"a"}', False),
        ({"port": 80.0}, 'k:{"port":80,"protocol":"TCP"}', True),
        (1, "v:true", False),
        ("x", 'v:"x"', True),
        ("x", "i:2", True),
        ("x", "f:x", False),
    ],
)
def test_a_key_stands_for_an_item(item: Any, key: str, found: bool) -> None:
    assert matches(item, key, 2) is found


def test_an_item_is_looked_for_by_the_keys_of_its_list() -> None:
    assert expected_key({"name": "a", "v": 1}, 0, {'k:{"name":"b"}': {}}) == 'k:{"name":"a"}'
    assert expected_key("a", 3, {"i:0": {}}) == "i:3"
    assert expected_key("a", 3, {}) == 'v:"a"'


@pytest.mark.parametrize(
    ("key", "text"), [("f:a", ".a"), ('k:{"name":"a"}', '[name="a"]'), ('v:"a"', '[="a"]'), ("i:0", "[0]")]
)
def test_elements_are_written_as_in_conflicts(key: str, text: str) -> None:
    assert format_element(key) == text


def test_an_empty_entry_owns_all_below_it() -> None:
    assert owned_at({"f:a": {}}, ("f:a", "f:b")) == {}
    assert owned_at({"f:a": {"f:c": {}}}, ("f:a", "f:b")) is None
