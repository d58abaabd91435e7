"""S3-8: a content of a definition has one number in the whole fleet, and no number is issued twice."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from gitops.fleet.revision_numbers import (
    MAX_CONTENTS,
    MAX_NUMBER,
    NO_NUMBERS,
    NumbersBySource,
    RevisionNumbers,
    find_number,
    issue_number,
    merge_numbers,
    numbers_in,
    parse_numbers,
)
from gitops.records.revisions import definition_body
from renderer.identity import GroupKind
from renderer.render.model import NewRevision

WEB = GroupKind("kro.run", "WebApp")


def revision(digest: str, at_least: int = 1, source: str = "platform", kind: GroupKind = WEB) -> NewRevision:
    return NewRevision(kind, at_least, digest, {}, source, "commit", "author", "message")


def known(**numbers: int) -> dict[str, RevisionNumbers]:
    found = NO_NUMBERS
    for digest, number in numbers.items():
        found = found.with_number(WEB, digest, number)
    return {"platform": found}


def issued(numbers: NumbersBySource, asked: NewRevision) -> tuple[NumbersBySource, int]:
    numbers = issue_number(numbers, asked)
    return numbers, numbers[asked.source].number_of(asked.kind, asked.digest)


def test_whoever_asks_first_decides_for_all() -> None:
    """S3-8: another cluster, and one that comes later, get the same number for the same content."""
    numbers: NumbersBySource = {}
    numbers, first = issued(numbers, revision("a"))
    numbers, second = issued(numbers, revision("b", at_least=2))
    assert (first, second) == (1, 2)
    assert issued(numbers, revision("b")) == (numbers, 2)
    assert find_number(numbers, revision("b"), is_current=True) == 2


def test_a_content_that_comes_back_gets_a_new_number_once() -> None:
    """As in a single cluster, where the newest revision is that with the highest number; also where a new cluster asks first."""
    numbers, number = issued(known(a=1, b=2), revision("a"))
    assert number == 3
    assert issued(numbers, revision("a", at_least=3)) == (numbers, 3)


def test_a_cluster_that_is_behind_gets_the_number_that_its_content_has() -> None:
    assert find_number(known(a=1, b=2), revision("a"), is_current=False) == 1


def test_a_hub_without_records_goes_on_above_the_highest_number_of_any_cluster() -> None:
    """S3-8: what the clusters say counts, whichever of them says it first."""
    learned = merge_numbers(known(a=5), known(a=9, z=4))
    assert find_number(learned, revision("a"), is_current=True) == 9
    assert issued(learned, revision("b", at_least=6))[1] == 10


def test_a_cluster_with_higher_numbers_of_its_own_gets_one_above_them() -> None:
    """Of two that were installations of their own: the numbers that others have stay as they are."""
    numbers, number = issued(known(a=3), revision("a", at_least=21))
    assert number == 21
    assert issued(numbers, revision("b", at_least=4))[1] == 22


def test_a_kind_that_another_source_defines_goes_on_with_its_numbers() -> None:
    numbers, same = issued(known(a=7), revision("a", source="other"))
    assert same == 7
    assert issued(numbers, revision("b", source="other"))[1] == 8


def test_of_what_is_gone_the_highest_number_stays() -> None:
    """So the record is bounded, and a definition that comes back goes on above."""
    numbers = known(a=1, b=2, c=3)["platform"]
    assert numbers.without_contents_but_of([WEB]) == numbers
    left = numbers.without_contents_but_of([])
    assert left.by_kind == {WEB: {"c": 3}}
    assert issued({"platform": left}, revision("a"))[1] == 4
    many = known(**{f"d{number}": number for number in range(1, 40)})["platform"]
    assert sorted(many.by_kind[WEB].values()) == [*range(40 - MAX_CONTENTS, 40)]


def test_numbers_are_read_as_they_are_written() -> None:
    numbers = known(a=1, b=2)["platform"]
    assert parse_numbers(numbers.as_json()) == numbers
    assert parse_numbers({"nonsense": {"a": 1}, "kro.run/WebApp": {"a": "1", "b": 2}, "x/Y": 3}).by_kind == {
        WEB: {"b": 2}
    }


def test_the_numbers_of_a_cluster_are_those_of_its_stored_revisions() -> None:
    records = [definition_body(revision("a", 4)), definition_body(revision("b", 13)), {"metadata": {"name": "other"}}]
    assert numbers_in(records) == known(a=4, b=13)
    hostile = definition_body(revision("c", MAX_NUMBER + 1))
    assert numbers_in([*records, hostile]) == known(a=4, b=13)


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("abcd")), max_size=40))
def test_clusters_in_any_order_agree_as_long_as_git_goes_on(steps: list[tuple[str, str]]) -> None:
    """S3-8: whoever is at the newest content of a history without returns has its number, and no number has two contents."""
    numbers: NumbersBySource = {}
    stored: dict[str, dict[int, str]] = {cluster: {} for cluster in "xyz"}
    contents: list[str] = []
    for cluster, letter in steps:
        if letter not in contents:
            contents.append(letter)
        mine, content = stored[cluster], contents[-1]
        if not mine or mine[max(mine)] != content:
            asked = revision(content, max(mine, default=0) + 1)
            numbers, number = issued(numbers, asked)
            assert number not in mine
            mine[number] = content
    assert_one_content_each(stored)


def assert_one_content_each(stored: Mapping[str, Mapping[int, str]]) -> None:
    pairs = {pair for mine in stored.values() for pair in mine.items()}
    assert len({number for number, _ in pairs}) == len(pairs) == len({content for _, content in pairs})
