"""Named formats of texts."""

import pytest

from renderer.cel.budget import Meter
from renderer.cel.functions.named_formats import FORMATS, find_format, validate
from renderer.cel.values import NONE, Optional


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("dns1123Label", "a-1", "-a"),
        ("dns1035Label", "a1", "1a"),
        ("dns1123Subdomain", "a.b-c", "a..b"),
        ("dns1123LabelPrefix", "a-", "-"),
        ("qualifiedName", "example.com/Name_1", "/name"),
        ("labelValue", "", "a b"),
        ("uri", "/a", "a"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("byte", "aGk=", "aGk"),
        ("date", "2026-01-31", "2026-02-31"),
        ("datetime", "2026-01-31T08:00:00Z", "2026-01-31"),
    ],
)
def test_a_valid_text_has_no_mistake(name: str, valid: str, invalid: str) -> None:
    assert validate(Meter(), FORMATS[name], valid) is NONE
    found = validate(Meter(), FORMATS[name], invalid)
    assert found.present
    assert len(found.value) == 1


def test_a_format_is_found_by_its_name() -> None:
    assert find_format("uuid") == Optional(FORMATS["uuid"])
    assert find_format("isbn") is NONE
