"""The selectors of a request, and the refusals of those that are invalid."""

from __future__ import annotations

import pytest

from applier.sandbox.api.selectors import parse_field_selector, parse_label_selector
from applier.sandbox.wire import Refusal


def test_a_label_selector_is_read() -> None:
    selector = parse_label_selector("tier in (web, db),!old")
    assert selector.matches({"tier": "db"})
    assert not selector.matches({"tier": "db", "old": ""})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("A.b/c", 'unable to parse requirement: <nil>: Invalid value: "A.b/c": prefix part a lowercase RFC 1123'),
        ("a in (x,-y)", 'unable to parse requirement: values[0][a]: Invalid value: "-y": a valid label must be'),
    ],
)
def test_label_selectors_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(Refusal) as raised:
        parse_label_selector(text)
    assert (raised.value.code, message in str(raised.value)) == (400, True)


def test_a_field_selector_is_read() -> None:
    assert parse_field_selector(r"metadata.name=a\,b,status.phase!=Running") == (
        ("metadata.name", "a,b", True),
        ("status.phase", "Running", False),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
    ],
)
def test_field_selectors_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(Refusal) as raised:
        parse_field_selector(text)
    assert (raised.value.code, message in str(raised.value)) == (400, True)
