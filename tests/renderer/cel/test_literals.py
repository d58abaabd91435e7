"""Values of literals."""

import pytest

from renderer.cel.errors import EvaluationError
from renderer.cel.literals import parse_bytes, parse_double, parse_integer, parse_string, parse_unsigned
from renderer.cel.parser import parse
from renderer.cel.values import UInt


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        (r"'\n\x41\u00e9\101\''", "\nA\u00e9A'"),
        (r"r'\n'", r"\n"),
        ("'''a\r\nb'''", "a\nb"),
        ("''", ""),
    ],
)
def test_a_string(text: str, value: str) -> None:
    assert parse_string(text) == value


def test_escapes_of_bytes_are_single_bytes() -> None:
    assert parse_bytes(r"b'\xff\377é'") == b"\xff\xff\xc3\xa9"
    assert parse_bytes(r"rb'\x'") == rb"\x"


def test_numbers_fit_into_64_bits() -> None:
    assert parse_integer("-9223372036854775808") == -(2**63)
    assert parse_integer("-0x10") == -16
    assert parse_unsigned("18446744073709551615u") == UInt(2**64 - 1)
    assert parse_double("1.7976931348623157e308") == 1.7976931348623157e308
    assert parse_double("1e-400") == 0.0


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "18446744073709551616u", "1e400", "-1e400", "1.7976931348623159e308"]
)
def test_a_number_that_does_not_fit_into_64_bits_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError, match="does not fit into"):
        parse(text)


@pytest.mark.parametrize("text", [r"'\d'", r"'\ud800'", r"b'\u00e9'"])
def test_an_escape_without_a_character_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError):
        (parse_bytes if text.startswith("b") else parse_string)(text)
