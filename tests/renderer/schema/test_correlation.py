"""Which part of an old value a part of the new one was."""

from typing import Any

import pytest

from renderer.schema.correlation import field_of, is_unchanged, old_item_finder

MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}},
}
OLD = [{"name": "a", "n": 1}, {"name": "b", "n": 2}]


def test_items_of_a_list_map_are_found_by_their_keys() -> None:
    find = old_item_finder(MAP, OLD)
    assert find({"name": "b", "n": 9}) == {"name": "b", "n": 2}
    assert find({"name": "c"}) is None


def test_items_of_other_lists_have_no_old_value() -> None:
    assert old_item_finder({"type": "array"}, OLD)(OLD[0]) is None


@pytest.mark.parametrize(
    ("schema", "value", "unchanged"),
    [
        (MAP, list(reversed(OLD)), True),
        ({"type": "array"}, list(reversed(OLD)), False),
        (MAP, OLD[:1], False),
        ({"type": "array"}, OLD, True),
    ],
)
def test_only_a_list_map_may_change_its_order(schema: dict[str, Any], value: Any, unchanged: bool) -> None:
    assert is_unchanged(schema, value, OLD) is unchanged


def test_one_is_not_true() -> None:
    assert not is_unchanged({}, 1, True)


def test_a_member_that_the_schema_does_not_have_counts_as_changed() -> None:
    assert not is_unchanged({"properties": {}}, {"a": 1}, {"a": 1})
    assert field_of({"additionalProperties": {"type": "string"}}, "a") == {"type": "string"}
    assert field_of({"additionalProperties": True}, "a") is None
