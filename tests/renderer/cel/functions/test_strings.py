"""Functions of strings, whose positions and sizes count code points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from renderer.cel.budget import MAX_TEXT_CHARACTERS, Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import strings

LONG = "ab" * 500
"""A text of 1,000 characters, which costs 100 units to read or to produce."""


def message_of(function: Callable[..., object], *operands: object) -> str:
    """Return the message of the error that the function raises."""
    with pytest.raises(EvaluationError) as caught:
        function(*operands)
    return caught.value.message


@pytest.mark.parametrize(
    ("part", "starts", "ends", "is_inside"),
    [
        ("", True, True, True),
        ("orders", True, False, True),
        ("db", False, True, True),
        ("rs-", False, False, True),
        ("DB", False, False, False),
        ("orders-db", True, True, True),
        ("orders-db-", False, False, False),
    ],
)
def test_a_part_of_a_text(part: str, starts: bool, ends: bool, is_inside: bool) -> None:
    assert strings.starts_with(Meter(), "orders-db", part) is starts
    assert strings.ends_with(Meter(), "orders-db", part) is ends
    assert strings.contains(Meter(), "orders-db", part) is is_inside


def test_only_ascii_letters_change_case() -> None:
    assert strings.lower_ascii(Meter(), "AbZ[@ÇİΣ") == "abz[@ÇİΣ"
    assert strings.upper_ascii(Meter(), "aBz{`çßσ") == "ABZ{`çßσ"


@pytest.mark.parametrize("space", [*"\t\n\v\f\r \x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"])
def test_unicode_white_space_is_trimmed_at_the_ends_only(space: str) -> None:
    assert strings.trim(Meter(), f"{space}a{space}b{space}{space}") == f"a{space}b"
    assert strings.trim(Meter(), space) == ""


@pytest.mark.parametrize("other", [*"\x1c\x1f\u180e\u200b\ufeff"])
def test_a_character_that_unicode_does_not_count_as_white_space_stays(other: str) -> None:
    assert strings.trim(Meter(), f" {other} ") == other


def test_a_reversed_text_has_its_code_points_in_reverse() -> None:
    assert strings.reverse(Meter(), "aé😀") == "😀éa"
    assert strings.reverse(Meter(), "") == ""


@pytest.mark.parametrize(("index", "character"), [(0, "a"), (1, "😀"), (2, "c"), (3, "")])
def test_a_character_is_found_by_its_code_point(index: int, character: str) -> None:
    assert strings.char_at("a😀c", index) == character


@pytest.mark.parametrize(
    ("operands", "index"),
    [
        (("ac",), 2),
        (("ac", 2), 2),
        (("ac", 3), -1),
        (("t", 7), 7),
        (("t", 8), -1),
        (("z",), -1),
        (("",), 0),
        (("", 4), 4),
        (("", -1), -1),
    ],
)
def test_the_first_part_at_or_after_a_position(operands: tuple[Any, ...], index: int) -> None:
    # An empty part is at the position itself, even out of range: docs/cel.md, "Differences from the C++ engine".
    assert strings.index_of(Meter(), "😀tacocat", *operands) == index


@pytest.mark.parametrize(
    ("operands", "index"),
    [
        (("a",), 5),
        (("a", 5), 5),
        (("a", 4), 1),
        (("a", 0), -1),
        (("cat", 4), 4),
        (("cat", 3), -1),
        (("cat", 7), 4),
        (("z",), -1),
        (("",), 7),
        (("", 3), 3),
    ],
)
def test_the_last_part_that_begins_at_or_before_a_position(operands: tuple[Any, ...], index: int) -> None:
    assert strings.last_index_of(Meter(), "tacocat", *operands) == index


@pytest.mark.parametrize(
    ("operands", "part"),
    [((4,), "cat"), ((0, 4), "taco"), ((7,), ""), ((3, 3), ""), ((0, 7), "tacocat"), ((6, 7), "t")],
)
def test_a_substring_has_the_characters_before_its_end(operands: tuple[int, ...], part: str) -> None:
    assert strings.substring(Meter(), "tacocat", *operands) == part


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_outside_of_the_text_is_refused(index: int) -> None:
    expected = f"index {index} out of range (string of 3)"
    assert message_of(strings.char_at, "abc", index) == expected
    assert message_of(strings.index_of, Meter(), "abc", "a", index) == expected
    assert message_of(strings.last_index_of, Meter(), "abc", "a", index) == expected
    assert message_of(strings.substring, Meter(), "abc", index) == expected
    assert message_of(strings.substring, Meter(), "abc", 0, index) == expected


def test_a_substring_that_ends_before_its_start_is_refused() -> None:
    assert message_of(strings.substring, Meter(), "abc", 2, 1) == "substring: start 2 is after end 1"


@pytest.mark.parametrize(
    ("operands", "text"),
    [
        ((".", "-"), "a-b-c"),
        ((".", "-", -1), "a-b-c"),
        ((".", "-", 0), "a.b.c"),
        ((".", "-", 1), "a-b.c"),
        ((".", "-", 9), "a-b-c"),
        ((".", ""), "abc"),
        (("z", "-"), "a.b.c"),
        (("", "_"), "_a_._b_._c_"),
        (("", "_", 2), "_a_.b.c"),
    ],
)
def test_the_first_occurrences_are_replaced(operands: tuple[Any, ...], text: str) -> None:
    assert strings.replace(Meter(), "a.b.c", *operands) == text


@pytest.mark.parametrize(
    ("text", "operands", "parts"),
    [
        ("a.b.c", (".",), ["a", "b", "c"]),
        ("a.b.c", (".", -1), ["a", "b", "c"]),
        ("a.b.c", (".", 0), []),
        ("a.b.c", (".", 1), ["a.b.c"]),
        ("a.b.c", (".", 2), ["a", "b.c"]),
        ("a.b.c", (".", 9), ["a", "b", "c"]),
        (".a..", (".",), ["", "a", "", ""]),
        ("", (",",), [""]),
        ("a😀c", ("",), ["a", "😀", "c"]),
        ("a😀c", ("", 0), []),
        ("a😀c", ("", 1), ["a😀c"]),
        ("a😀c", ("", 2), ["a", "😀c"]),
        ("a😀c", ("", 3), ["a", "😀", "c"]),
        ("", ("", 5), []),
    ],
)
def test_a_text_is_split_into_at_most_so_many_parts(text: str, operands: tuple[Any, ...], parts: list[str]) -> None:
    assert strings.split(Meter(), text, *operands) == parts


@pytest.mark.parametrize(
    ("parts", "operands", "text"),
    [([], (), ""), ([], (",",), ""), (["a"], (",",), "a"), (["a", "", "b"], (", ",), "a, , b"), (["a", "b"], (), "ab")],
)
def test_parts_are_joined_with_the_separator_between_them(
    parts: list[Any], operands: tuple[str, ...], text: str
) -> None:
    assert strings.join(Meter(), parts, *operands) == text


@pytest.mark.parametrize(
    ("parts", "found"), [([1], "[0] is int"), (["a", None], "[1] is null"), (["a", ["b"], 1], "[1] is list")]
)
def test_only_texts_can_be_joined(parts: list[Any], found: str) -> None:
    assert message_of(strings.join, Meter(), parts) == f"join: element {found}, not string; use .map(x, string(x))"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("a'é😀", '"a\'é😀"'),
        ('a"b', r'"a\"b"'),
        ("\\", r'"\\"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
    ],
)
def test_special_characters_are_escaped_in_quotes(text: str, quoted: str) -> None:
    assert strings.quote(Meter(), text) == quoted


@pytest.mark.parametrize(
    ("function", "operands", "units"),
    [
        (strings.starts_with, ("a", LONG), 100),
        (strings.ends_with, ("a", LONG), 100),
        (strings.contains, (LONG, "a"), 100),
        (strings.lower_ascii, (LONG,), 100),
        (strings.upper_ascii, (LONG,), 100),
        (strings.trim, (LONG,), 100),
        (strings.reverse, (LONG,), 100),
        (strings.index_of, (LONG, "z"), 100),
        (strings.last_index_of, (LONG, "z"), 100),
        (strings.substring, (LONG, 500), 50),
        (strings.replace, (LONG, "b", "cc"), 100 + 150),
        (strings.split, (LONG, "b"), 100 + 500),
        (strings.split, (LONG, ""), 100 + 1000),
        (strings.join, ([LONG, LONG], LONG), 2 + 300),
        (strings.quote, (LONG,), 100),
    ],
)
def test_a_function_pays_for_its_work(function: Callable[..., object], operands: tuple[Any, ...], units: int) -> None:
    meter = Meter(units)
    function(meter, *operands)
    assert meter.left == 0
    with pytest.raises(BudgetError):
        function(Meter(units - 1), *operands)


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (strings.replace, ("a" * 2000, "", "b" * 1000)),
        (strings.join, (["a" * (MAX_TEXT_CHARACTERS // 2)] * 2, ",")),
        (strings.quote, ("a" * (MAX_TEXT_CHARACTERS - 1),)),
        (strings.quote, ("\n" * (MAX_TEXT_CHARACTERS // 2),)),
    ],
)
def test_a_text_beyond_the_limit_is_refused(function: Callable[..., object], operands: tuple[Any, ...]) -> None:
    assert message_of(function, Meter(), *operands) == (
        "stopped: the expression produces a text of more than 1,048,576 characters; shorten the text"
    )
