"""Plain scalars mean what Kubernetes reads, not what PyYAML does."""

import pytest

from renderer.documents.scalars import Scalar, ScalarError, resolve, resolve_tagged


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("yes", True),
        ("off", False),
        ("0x1F", 31),
        ("010", 8),
        ("0o10", 8),
        ("1_000", 1000),
        ("1.0", 1),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("9223372036854775808", 9.223372036854776e18),
        ("2026-01-31", "2026-01-31"),
        ("12:30", "12:30"),
        ("1.2.3", "1.2.3"),
        ("1e999", "1e999"),
        ("nginx", "nginx"),
    ],
)
def test_a_plain_scalar(text: str, value: Scalar) -> None:
    found = resolve(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", [".nan", "-.inf", "18446744073709551616", "-9223372036854775809"])
def test_a_number_that_json_cannot_carry_is_refused(text: str) -> None:
    with pytest.raises(ScalarError, match="if text is meant, put the value in quotes"):
        resolve(text)


def test_a_tag_selects_and_never_converts() -> None:
    assert resolve_tagged("1", "tag:yaml.org,2002:str", plain=True) == "1"
    assert resolve_tagged("1", "tag:yaml.org,2002:int", plain=True) == 1
    with pytest.raises(ScalarError, match="does not have the type of its tag !!int"):
        resolve_tagged("1.5", "tag:yaml.org,2002:int", plain=True)
    with pytest.raises(ScalarError, match="tag !secret is not supported"):
        resolve_tagged("x", "!secret", plain=True)
