"""JSON in records."""

from __future__ import annotations

import pytest

from gitops.records.stored_json import dump_json, load_json, load_mapping


def test_equal_values_have_equal_text() -> None:
    assert dump_json({"b": 1, "a": [2]}) == dump_json({"a": [2], "b": 1}) == '{"a":[2],"b":1}'
    assert load_json(dump_json({"a": [2]})) == {"a": [2]}


@pytest.mark.parametrize("text", ["", "{", "nonsense"])
def test_unreadable_text_counts_as_empty(text: str) -> None:
    assert load_json(text) is None
    assert load_mapping(text) == {}


def test_only_an_object_is_a_mapping() -> None:
    assert load_mapping("[1]") == {}
    assert load_mapping('{"a":1}') == {"a": 1}
