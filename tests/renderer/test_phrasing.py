"""Names and numbers in a sentence."""

from __future__ import annotations

import pytest

from renderer.phrasing import format_count, join_names, with_article


@pytest.mark.parametrize(("number", "told"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_a_number_has_its_noun(number: int, told: str) -> None:
    assert format_count(number, "file") == told


@pytest.mark.parametrize(
    ("noun", "told"), [("ip", "an ip"), ("optional", "an optional"), ("url", "a url"), ("cidr", "a cidr")]
)
def test_a_noun_has_its_article(noun: str, told: str) -> None:
    assert with_article(noun) == told


@pytest.mark.parametrize(
    ("names", "told"), [((), ""), ("abcde", "a, b, c, d, e"), ("abcdef", "a, b, c, d, e and 1 more")]
)
def test_many_names_are_shortened(names: str, told: str) -> None:
    assert join_names(names) == told


def test_the_end_of_a_shortened_list_has_the_form_of_the_caller() -> None:
    assert join_names([80, 443, 8080], limit=2, separator=",", remainder=" + {} more...") == "80,443 + 1 more..."
