"""Ranges of versions: which tags they take, and what is no range (semver.org 2.0.0, examples of Masterminds/semver and npm)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.source import VersionRange
from renderer.cel.functions.semver import semver

RELEASES = ("0.0.3", "0.0.4", "0.3.1", "0.3.9", "0.4.0", "1.0.0", "1.2.0", "1.2.3", "1.3.0", "2.0.0", "2.1.0")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1.2.3", "1.2.3"),
        ("=v1.2.3", "1.2.3"),
        ("*", "0.0.3 0.0.4 0.3.1 0.3.9 0.4.0 1.0.0 1.2.0 1.2.3 1.3.0 2.0.0 2.1.0"),
        ("1.x", "1.0.0 1.2.0 1.2.3 1.3.0"),
        ("1", "1.0.0 1.2.0 1.2.3 1.3.0"),
        ("1.2.*", "1.2.0 1.2.3"),
        ("~1.2", "1.2.0 1.2.3"),
        ("~1.2.1", "1.2.3"),
        ("~1", "1.0.0 1.2.0 1.2.3 1.3.0"),
        ("^1.2.0", "1.2.0 1.2.3 1.3.0"),
        ("^0.3.1", "0.3.1 0.3.9"),
        ("^0.0.3", "0.0.3"),
        ("^0", "0.0.3 0.0.4 0.3.1 0.3.9 0.4.0"),
        (">=1.0.0 <2.0.0", "1.0.0 1.2.0 1.2.3 1.3.0"),
        (">= 1.0.0, < 2.0.0", "1.0.0 1.2.0 1.2.3 1.3.0"),
        (">1.2.0 <=2.0.0", "1.2.3 1.3.0 2.0.0"),
        (">1.2", "1.3.0 2.0.0 2.1.0"),
        ("<=1.2", "0.0.3 0.0.4 0.3.1 0.3.9 0.4.0 1.0.0 1.2.0 1.2.3"),
        ("1.x !=1.2.3", "1.0.0 1.2.0 1.3.0"),
        ("0.3.x || ^2", "0.3.1 0.3.9 2.0.0 2.1.0"),
    ],
)
def test_what_a_range_takes(text: str, wanted: str) -> None:
    versions = VersionRange.parse(text)
    assert " ".join(one for one in RELEASES if versions.admits(semver(one))) == wanted


@pytest.mark.parametrize(
    ("text", "tags", "highest"),
    [
        ("1.x", ["v1.9.0", "v1.10.0", "v1.10.0-rc.1"], "v1.10.0"),
        ("1.x", ["1.2.0", "v1.2.0"], "v1.2.0"),
        ("^1.2.0", ["v1.2.0", "v1.3.0-rc.1", "v2.0.0-rc.1"], "v1.2.0"),
        (">=1.2.0-0", ["v1.2.0", "v1.3.0-rc.1"], "v1.3.0-rc.1"),
        ("^1.3.0-rc.1", ["v1.3.0-rc.1", "v1.3.0-rc.2", "v1.3.0-beta", "v2.0.0-rc.1"], "v1.3.0-rc.2"),
        (">=1.0.0-0 <2.0.0", ["v1.3.0-rc.1", "v2.0.0-rc.1"], "v1.3.0-rc.1"),
        (">=1.0.0-0 <2.0.0-rc.2", ["v1.3.0-rc.1", "v2.0.0-rc.1"], "v2.0.0-rc.1"),
        (">=1.3.0-0", ["v1.3.0-rc.2", "v1.3.0-rc.10", "v1.3.0-rc.9.x"], "v1.3.0-rc.10"),
        ("1.x", ["1.2.0+b", "v1.2.0+a", "v1.1.0+z", "v1.3.0-rc.1+z"], "v1.2.0+a"),
        ("*", ["latest", "release", "v1"], "v1"),
        ("*", ["latest"], ""),
    ],
)
def test_the_highest_tag(text: str, tags: list[str], highest: str) -> None:
    assert VersionRange.parse(text).highest_tag(tags) == highest


@pytest.mark.parametrize(
    "text",
    ["", "main", "1.0.0 ||", ">=", "1.0.0 - 2.0.0", "1.x-rc.1", "~1.2-rc", "!=1.x", "1..2", "1.2.3.4", "1.0.0-01"],
)
def test_what_is_no_range_is_told_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"write for example|such as"):
        VersionRange.parse(text)


@given(st.text(alphabet="0123456789.xX*<>=!~^|, -rcv+", max_size=20))
def test_any_text_is_a_range_or_refused(text: str) -> None:
    try:
        versions = VersionRange.parse(text)
    except ValueError:
        return
    assert versions.highest_tag(["v1.0.0", "2.0.0-rc.1"]) in {"", "v1.0.0", "2.0.0-rc.1"}
