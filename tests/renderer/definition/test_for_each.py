"""Dimensions of a collection, and the combinations of their values."""

import pytest

from renderer.cel import Meter
from renderer.definition.for_each import MAX_DIMENSIONS, MAX_ITEMS, Dimension, combinations, compile_dimensions
from renderer.definition.problem_collector import ProblemCollector
from renderer.documents import load
from renderer.errors import ExpressionError


def collector() -> ProblemCollector:
    (document,), _ = load("a.yaml", b"{}")
    return ProblemCollector(document)


def compiled(*entries: object) -> tuple[tuple[Dimension, ...], list[str]]:
    problems = collector()
    dimensions = compile_dimensions(list(entries), "forEach", ["web"], problems)
    return dimensions, [problem.message for problem in problems.problems]


def items(*entries: dict[str, str]) -> list[dict[str, object]]:
    dimensions, problems = compiled(*entries)
    assert problems == []
    return list(combinations(dimensions, {}, Meter.of_instance()))


def test_the_first_list_is_the_outer_loop() -> None:
    assert items({"a": "${[1, 2]}"}, {"b": "${['x', 'y']}"}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_an_empty_list_makes_no_items() -> None:
    assert items({"a": "${[1, 2]}"}, {"b": "${[]}"}) == []


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["x"], "must be one name with one list"),
        ([{"web": "${[1]}"}], "'web' is the id of a resource; choose another name"),
        ([{"a": "${[1]}"}, {"a": "${[1]}"}], "'a' is the name of two iterators; rename one of them"),
        ([{"a": "${[1]}"}, {"b": "${[a]}"}], "reads the iterator 'a'; in a dimension, read only schema and resources"),
        ([{"a": "${[1]}"}] * (MAX_DIMENSIONS + 1), f"has {MAX_DIMENSIONS + 1} dimensions; use at most 10"),
    ],
)
def test_mistakes_of_form_are_noted(entries: list[object], message: str) -> None:
    assert any(found.startswith(message) for found in compiled(*entries)[1])


def test_a_collection_has_a_largest_size() -> None:
    with pytest.raises(ExpressionError, match=rf"would have {MAX_ITEMS + 1} items; use at most 1000"):
        items({"a": f"${{lists.range({MAX_ITEMS + 1})}}"})
