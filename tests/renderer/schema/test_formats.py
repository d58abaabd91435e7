"""Formats refuse what the API server surely refuses, and no more."""

import pytest

from renderer.schema.formats import PatternError, compile_pattern, has_format, matches


@pytest.mark.parametrize(
    ("name", "fits", "does_not"),
    [
        ("date", "2026-01-31", "2026-02-31"),
        ("date-time", "2026-01-31T08:00:00Z", "2026-01-31"),
        ("duration", "1h30m", "soon"),
        ("duration", "2 Days", "١h"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("cidr", "::/0", "10.0.0.0/٨"),
        ("email", "ada@example.com", "ada"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("byte", "aGk=", "aGk"),
        ("int32", 2**31 - 1, 2**31),
        ("float", 1.5, 1e39),
    ],
)
def test_a_format(name: str, fits: str | float, does_not: str | float) -> None:
    assert has_format(name, fits)
    assert not has_format(name, does_not)


def test_an_unknown_format_takes_everything() -> None:
    assert has_format("isbn", "x")
    assert has_format("isbn", 1e300)


def test_patterns_are_not_anchored_and_are_those_of_re2() -> None:
    assert matches("b+", "abc")
    assert not matches("^b", "abc")
    with pytest.raises(PatternError):
        compile_pattern("(?=a)")
