"""Base64, JSON as Go writes it, and hashes."""

from datetime import UTC, datetime

import pytest

from renderer.cel.budget import MAX_TEXT_CHARACTERS, Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import encoders
from renderer.cel.values import NONE, MixedMap, Optional, UInt


def test_json_is_that_of_go() -> None:
    value = {"b": [1.0, 1e21, None, "<&>"], "a": {"é": True}}
    assert encoders.json_marshal(Meter(), value) == ('{"a":{"é":true},"b":[1,1e+21,null,"\\u003c\\u0026\\u003e"]}')
    assert encoders.json_unmarshal(Meter(), '{"a": [1]}') == {"a": [1.0]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"hi", '"aGk="'),
        ([b""], '[""]'),
        (UInt(2**64 - 1), "18446744073709551615"),
        (Optional({"a": Optional([1, 1e21])}), '{"a":[1,1e+21]}'),
        ([NONE, Optional(NONE)], "[null,null]"),
        (datetime(2026, 1, 31, tzinfo=UTC), '"2026-01-31T00:00:00Z"'),
    ],
)
def test_a_value_is_written_as_kro_writes_the_value(value: object, text: str) -> None:
    assert encoders.json_marshal(Meter(), value) == text


@pytest.mark.parametrize(
    "value",
    [
        ["a" * (MAX_TEXT_CHARACTERS // 2)] * 2,
        {"a": {"b" * (MAX_TEXT_CHARACTERS // 2): None, "c" * (MAX_TEXT_CHARACTERS // 2): None}},
    ],
)
def test_json_has_at_most_the_characters_of_a_produced_text(value: object) -> None:
    with pytest.raises(BudgetError, match="more than 1,048,576 characters"):
        encoders.json_marshal(Meter(), value)


def test_the_keys_of_json_are_paid_for() -> None:
    def cost(key: str) -> int:
        meter = Meter()
        encoders.json_marshal(meter, {key: None})
        return meter.granted - meter.left

    assert cost("a" * 10_000) >= cost("a") + 999


def test_what_json_cannot_carry_is_an_error() -> None:
    for value in (float("nan"), MixedMap({1: 2}), Optional([float("inf")])):
        with pytest.raises(EvaluationError):
            encoders.json_marshal(Meter(), value)
    for text in ("{", "NaN", "[" * 300, "[1e400]", "-" + "9" * 400):
        with pytest.raises(EvaluationError, match=r"json\.unmarshal"):
            encoders.json_unmarshal(Meter(), text)


def test_brackets_inside_of_texts_are_no_depth() -> None:
    assert encoders.json_unmarshal(Meter(), '["' + "[" * 300 + '"]') == ["[" * 300]


def test_base64_ignores_line_breaks_and_missing_padding() -> None:
    assert encoders.base64_decode(Meter(), "aG\nk") == b"hi"
    with pytest.raises(EvaluationError, match="not base64"):
        encoders.base64_decode(Meter(), " aGk=")


def test_hashes_have_their_known_values() -> None:
    assert encoders.fnv64a(Meter(), "a").hex() == "af63dc4c8601ec8c"
    assert encoders.md5(Meter(), "a").hex() == "0cc175b9c0f1b6a831c399e269772661"
    assert len(encoders.sha256(Meter(), "a")) == 32
