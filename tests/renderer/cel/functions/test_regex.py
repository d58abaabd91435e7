"""Regular expressions by RE2 alone, paid for by their text."""

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import regex
from renderer.cel.values import NONE, Optional


def test_an_empty_match_right_after_another_is_left_out_as_in_go() -> None:
    assert regex.find_all(Meter(), "baaab", "a*") == ["", "aaa", ""]
    assert regex.find_all(Meter(), "a1b2", "[0-9]", 1) == ["1"]


def test_a_group_is_extracted() -> None:
    assert regex.extract(Meter(), "id:12", "id:([0-9]+)") == Optional("12")
    assert regex.extract(Meter(), "x", "id:([0-9]+)") is NONE
    with pytest.raises(EvaluationError, match="has more than one group"):
        regex.extract(Meter(), "x", "(a)(b)")


def test_an_empty_group_is_no_match_and_an_empty_match_is_one() -> None:
    for pattern in ("a(b?)", "a(b)?"):
        assert regex.extract(Meter(), "a", pattern) is NONE
        assert regex.extract_all(Meter(), "ab a", pattern) == ["b"]
    assert regex.extract(Meter(), "a", "b?") == Optional("")
    assert regex.extract_all(Meter(), "ab", "b?") == ["", "b"]


def test_a_replacement_names_groups_by_their_number() -> None:
    assert regex.replace(Meter(), "a-b", "([a-z])-([a-z])", r"\2\\\1") == "b\\a"
    with pytest.raises(EvaluationError, match="is not a group"):
        regex.replace(Meter(), "a", "a", r"\1")


def test_what_re2_refuses_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="invalid regular expression"):
        regex.matches(Meter(), "a", "(?=a)")
    with pytest.raises(EvaluationError, match="longer than 10,000 characters"):
        regex.matches(Meter(), "a", "a" * 10_001)


def test_a_long_text_is_paid_for() -> None:
    with pytest.raises(BudgetError):
        regex.matches(Meter(), "a" * 10_000_000, "b" * 8)
