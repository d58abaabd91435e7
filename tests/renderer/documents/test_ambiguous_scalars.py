"""Unquoted scalars that Kubernetes reads in another way than most people do."""

from renderer.documents.ambiguous_scalars import ambiguities


def told(text: str) -> list[tuple[int, str]]:
    return [(problem.line, problem.message) for problem in ambiguities("a.yaml", text.encode())]


def test_words_and_octal_numbers_are_told_with_their_lines() -> None:
    assert told("country: no\nmode: 0644\non: push\n") == [
        (1, "no is read as false; if text is meant, put the value in quotes"),
        (2, "0644 is read as the number 420; if text is meant, put the value in quotes"),
        (3, "on is read as true; if text is meant, put the value in quotes"),
    ]


def test_plain_values_and_quoted_ones_are_not() -> None:
    assert told("a: true\nb: 'no'\nc: 12\nd: !!str no\ne: nginx\n") == []


def test_a_syntax_error_ends_the_search() -> None:
    assert told("a: no\nb: x: y\nc: no") == [(1, "no is read as false; if text is meant, put the value in quotes")]
