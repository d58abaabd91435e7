"""Selection, indexing and presence in lists, maps and optionals."""

from typing import Any

import pytest

from renderer.cel import containers
from renderer.cel.errors import EvaluationError, MissingKeyError
from renderer.cel.values import NONE, MixedMap, Optional


def test_a_bool_is_not_the_key_one() -> None:
    assert containers.lookup(MixedMap({1: "a"}), True) is NONE
    assert containers.lookup(MixedMap({True: "a"}), True).value == "a"
    assert containers.lookup(MixedMap({1: "a"}), 1.0).value == "a"


@pytest.mark.parametrize(
    ("container", "key", "found"),
    [({"a": 1}, "a", 1), ([5, 6], 1, 6), ([5, 6], 1.0, 6), (Optional({"a": 1}), "a", Optional(1))],
)
def test_an_item(container: Any, key: Any, found: Any) -> None:
    assert containers.get_item(container, key) == found


def test_what_is_missing_is_an_error_or_none() -> None:
    for container, key in (([1], 1), ({}, "a"), (None, "a")):
        with pytest.raises(MissingKeyError if container is not None else EvaluationError):
            containers.get_item(container, key)
    with pytest.raises(MissingKeyError):
        containers.get_field(None, "a")
    assert containers.get_optional_item([1], 1) is NONE
    assert containers.get_optional_item(None, "a") is NONE
    assert containers.get_optional_field({}, "a") is NONE


def test_presence_needs_the_operand() -> None:
    assert containers.has_field({"a": None}, "a")
    assert not containers.has_field({}, "a")
    with pytest.raises(EvaluationError, match="no such overload"):
        containers.has_field("text", "a")


def test_keys_of_a_literal_are_unique_and_of_four_types() -> None:
    assert type(containers.make_map([("a", 1)])) is dict
    assert type(containers.make_map([(1, 1)])) is MixedMap
    with pytest.raises(EvaluationError, match="has the key True twice"):
        containers.make_map([(1, "a"), (True, "b")])
    with pytest.raises(EvaluationError, match="double cannot be the key of a map"):
        containers.make_map([(1.5, "a")])


def test_an_optional_element_is_one_or_none() -> None:
    assert containers.present_values(Optional(1)) == (1,)
    assert containers.present_values(NONE) == ()
    with pytest.raises(EvaluationError, match="expected optional after"):
        containers.present_values(1)
