"""Rules for names and labels."""

from __future__ import annotations

import pytest

from applier.sandbox.kinds.names import validate_labels, validate_name, validate_qualified_name


@pytest.mark.parametrize(
    ("name", "rule", "valid"),
    [
        ("a.b-c", "subdomain", True),
        ("a.b-c", "label", False),
        ("A", "subdomain", False),
        ("1a", "label", True),
        ("1a", "service", False),
        ("a" * 63, "label", True),
        ("a" * 64, "label", False),
        ("a" * 53, "short", False),
    ],
)
def test_names_by_rule(name: str, rule: str, valid: bool) -> None:
    assert (not list(validate_name(name, "metadata.name", rule))) is valid


@pytest.mark.parametrize(
    ("key", "valid"), [("a", True), ("example.com/a", True), ("/a", False), ("a/", False), ("A.b/a", False)]
)
def test_qualified_names(key: str, valid: bool) -> None:
    assert (not list(validate_qualified_name(key, "f"))) is valid


def test_a_label_names_its_field() -> None:
    assert [cause.field for cause in validate_labels({"a": "-"})] == ["metadata.labels"]
    assert not list(validate_labels({"a": ""}))
