"""Kubernetes quantities as text."""

import pytest

from renderer.quantity import canonicalize, parse_nanos


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1", 10**9),
        ("250m", 25 * 10**7),
        ("1Ki", 1024 * 10**9),
        ("1e3", 10**12),
        ("-1.5", -15 * 10**8),
        (".5", 5 * 10**8),
        ("0.0000000001", 1),
        ("-0.0000000001", -1),
    ],
)
def test_a_quantity_in_billionths(text: str, nanos: int) -> None:
    assert parse_nanos(text) == nanos


@pytest.mark.parametrize("text", ["", "m", "1mb", "1 Gi", "1e", "0x1", "1" * 101])
def test_a_text_that_is_not_a_quantity(text: str) -> None:
    assert parse_nanos(text) is None
    assert canonicalize(text) is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("0.5Gi", "512Mi"),
        ("1500", "1500"),
    ],
)
def test_the_form_of_the_api_server(text: str, written: str) -> None:
    assert canonicalize(text) == written
