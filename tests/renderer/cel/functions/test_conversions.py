"""Conversions between the types, which read texts as strictly as Go does."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from renderer.cel.budget import MAX_TEXT_CHARACTERS, Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import conversions
from renderer.cel.nanoseconds import duration_from_nanoseconds, timestamp_from_nanoseconds
from renderer.cel.values import INT_MAX, INT_MIN, NONE, UINT_MAX, MixedMap, TypeValue, UInt

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def message_of(convert: Callable[[Any], object], value: object) -> str:
    """Return the message of the error that the conversion raises."""
    with pytest.raises(EvaluationError) as caught:
        convert(value)
    return caught.value.message


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "int"),
        (UInt(1), "uint"),
        (1.0, "double"),
        (True, "bool"),
        ("a", "string"),
        (b"a", "bytes"),
        (None, "null_type"),
        ([], "list"),
        (MixedMap({1: 2}), "map"),
        (EPOCH, "google.protobuf.Timestamp"),
        (duration_from_nanoseconds(1), "google.protobuf.Duration"),
        (TypeValue("int"), "type"),
        (NONE, "optional_type"),
    ],
)
def test_every_value_has_a_type(value: object, name: str) -> None:
    assert conversions.type_of_value(value) == TypeValue(name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é", "é"),
        (True, "true"),
        (False, "false"),
        (INT_MIN, "-9223372036854775808"),
        (UInt(UINT_MAX), "18446744073709551615"),
        (1.0, "1"),
        (1e6, "1e+06"),
        (-0.0, "-0"),
        (math.inf, "+Inf"),
        (math.nan, "NaN"),
        (b"\xc3\xa9", "é"),
        (datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=1))), "2026-01-31T07:00:00Z"),
        (timestamp_from_nanoseconds(1), "1970-01-01T00:00:00.000000001Z"),
        (timedelta(minutes=90), "5400s"),
        (timedelta(milliseconds=-1500), "-1.5s"),
    ],
)
def test_a_value_as_text(value: object, text: str) -> None:
    assert conversions.string(Meter(), value) == text


def test_bytes_that_are_not_utf_8_are_not_a_text() -> None:
    assert message_of(lambda value: conversions.string(Meter(), value), b"\xff") == "string(bytes): not UTF-8"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (INT_MIN, INT_MIN),
        (UInt(INT_MAX), INT_MAX),
        (3.9, 3),
        (-3.9, -3),
        (-0.5, 0),
        (math.nextafter(2.0**63, 0), 2**63 - 1024),
        ("42", 42),
        ("+42", 42),
        ("-042", -42),
        ("9223372036854775807", INT_MAX),
        ("-9223372036854775808", INT_MIN),
        (EPOCH + timedelta(seconds=1.5), 1),
        (EPOCH - timedelta(seconds=60), -60),
        (timedelta(milliseconds=-1500), -1_500_000_000),
        (duration_from_nanoseconds(INT_MIN), INT_MIN),
    ],
)
def test_a_value_as_an_int(value: object, number: int) -> None:
    converted = conversions.integer(value)
    assert (converted, type(converted)) == (number, int)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (UInt(2**63), "integer overflow (int is 64 bits)"),
        ("9223372036854775808", "integer overflow (int is 64 bits)"),
        ("-9223372036854775809", "integer overflow (int is 64 bits)"),
        (2.0**63, "9.223372036854776e+18 is out of range"),
        (-math.inf, "-Inf is out of range"),
        (math.nan, "NaN is out of range"),
        ("", "'' is not an int"),
        ("1.5", "'1.5' is not an int"),
        (" 1", "' 1' is not an int"),
        ("1_0", "'1_0' is not an int"),
        ("0x1", "'0x1' is not an int"),
        ("--1", "'--1' is not an int"),
        ("١", "'١' is not an int"),
        ("x" * 60, f"'{'x' * 50}' is not an int"),
    ],
)
def test_a_value_that_is_not_an_int_of_64_bits(value: object, message: str) -> None:
    assert message_of(conversions.integer, value) == message


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (INT_MAX, INT_MAX),
        (UInt(UINT_MAX), UINT_MAX),
        (3.9, 3),
        (-0.0, 0),
        (math.nextafter(2.0**64, 0), 2**64 - 2048),
        ("18446744073709551615", UINT_MAX),
    ],
)
def test_a_value_as_a_uint(value: object, number: int) -> None:
    converted = conversions.unsigned(value)
    assert (converted, type(converted)) == (number, UInt)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "unsigned integer overflow (uint is 64 bits and not negative)"),
        ("18446744073709551616", "unsigned integer overflow (uint is 64 bits and not negative)"),
        (-0.5, "-0.5 is out of range"),
        (-math.ulp(0.0), "-5e-324 is out of range"),
        (2.0**64, "1.8446744073709552e+19 is out of range"),
        ("+1", "'+1' is not a uint"),
        ("-0", "'-0' is not a uint"),
        ("", "'' is not a uint"),
    ],
)
def test_a_value_that_is_not_a_uint_of_64_bits(value: object, message: str) -> None:
    assert message_of(conversions.unsigned, value) == message


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (2, 2.0),
        (UInt(UINT_MAX), 2.0**64),
        (1.5, 1.5),
        ("1.5", 1.5),
        ("-.5e1", -5.0),
        ("5.", 5.0),
        ("+1E-2", 0.01),
        ("-inf", -math.inf),
        ("+Infinity", math.inf),
        ("0" * 400, 0.0),
    ],
)
def test_a_value_as_a_double(value: object, number: float) -> None:
    converted = conversions.double(value)
    assert (converted, type(converted)) == (number, float)


def test_nan_in_any_case_is_a_double() -> None:
    assert math.isnan(conversions.double("NaN"))
    assert math.isnan(conversions.double("nan"))


@pytest.mark.parametrize("text", ["", ".", "1_0", " 1", "1e", "0x10", "1.5.5", "-nan", "infin", "0" * 401])
def test_a_text_that_is_not_a_double(text: str) -> None:
    expected = f"{text[:50]!r} is not a double; write a number such as 1.5"
    assert message_of(conversions.double, text) == expected


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1.7976931348623159e308", "9" * 400])
def test_a_text_of_a_number_beyond_the_doubles_is_not_infinite(text: str) -> None:
    assert message_of(conversions.double, text) == f"{text[:50]!r} is out of range"


def test_a_number_below_the_least_double_is_zero() -> None:
    assert conversions.double("1e-400") == 0.0
    assert conversions.double("1.7976931348623158e308") == 1.7976931348623157e308


@pytest.mark.parametrize("value", [True, "1", "t", "true", "TRUE", "True"])
def test_a_text_that_is_true(value: object) -> None:
    assert conversions.boolean(value) is True


@pytest.mark.parametrize("value", [False, "0", "f", "false", "FALSE", "False"])
def test_a_text_that_is_false(value: object) -> None:
    assert conversions.boolean(value) is False


@pytest.mark.parametrize("text", ["", "yes", "tRUE", " true", "2"])
def test_a_text_that_is_not_a_bool(text: str) -> None:
    assert message_of(conversions.boolean, text) == f"{text!r} is not a bool; write true or false"


def test_a_text_as_bytes_is_utf_8() -> None:
    assert conversions.to_bytes(Meter(), "é") == b"\xc3\xa9"
    assert conversions.to_bytes(Meter(), b"\xff") == b"\xff"


def test_bytes_are_limited_and_paid_by_their_number_and_not_by_the_characters() -> None:
    half = MAX_TEXT_CHARACTERS // 2
    meter = Meter()
    assert len(conversions.to_bytes(meter, "é" * half)) == MAX_TEXT_CHARACTERS
    assert meter.granted - meter.left == MAX_TEXT_CHARACTERS // 10
    with pytest.raises(BudgetError, match="more than 1,048,576 characters"):
        conversions.to_bytes(Meter(), "é" * (half + 1))


@pytest.mark.parametrize("value", ["a" * (MAX_TEXT_CHARACTERS + 1), b"a" * (MAX_TEXT_CHARACTERS + 1)])
def test_a_converted_text_has_at_most_the_characters_of_a_produced_text(value: str | bytes) -> None:
    convert = conversions.to_bytes if isinstance(value, str) else conversions.string
    with pytest.raises(BudgetError, match="produces a text of more than 1,048,576 characters"):
        convert(Meter(), value)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (EPOCH, EPOCH),
        (-60, EPOCH - timedelta(minutes=1)),
        (-62_135_596_800, datetime(1, 1, 1, tzinfo=UTC)),
        (253_402_300_799, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T08:00:00-02:30", datetime(2026, 1, 31, 10, 30, tzinfo=UTC)),
        ("2024-02-29T00:00:00.5Z", datetime(2024, 2, 29, microsecond=500_000, tzinfo=UTC)),
        ("1970-01-01T00:00:00.000000001Z", timestamp_from_nanoseconds(1)),
        ("1970-01-01T00:00:00.0000000019Z", timestamp_from_nanoseconds(1)),
        ("1969-12-31T23:59:59.999999999Z", timestamp_from_nanoseconds(-1)),
    ],
)
def test_a_value_as_a_timestamp(value: object, moment: datetime) -> None:
    converted = conversions.timestamp(value)
    assert converted == moment
    assert converted.utcoffset() == timedelta(0)


@pytest.mark.parametrize("seconds", [-62_135_596_801, 253_402_300_800, INT_MAX])
def test_an_int_outside_of_the_years_1_to_9999_is_not_a_timestamp(seconds: int) -> None:
    assert message_of(conversions.timestamp, seconds) == "timestamp out of range (years 1 to 9999)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-31",
        "2026-01-31T08:00Z",
        "2026-01-31T08:00:00",
        "2026-01-31 08:00:00Z",
        "2026-01-31t08:00:00z",
        "2026-02-30T08:00:00Z",
        "2025-02-29T08:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T08:00:60Z",
        "2026-01-31T08:00:00.Z",
        "2026-01-31T08:00:00.٥Z",
        "2026-01-31T08:00:00+24:00",
        "2026-01-31T08:00:00+0100",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_a_text_that_is_not_a_timestamp(text: str) -> None:
    expected = f"{text!r} is not a timestamp; write a time such as 2026-01-31T08:00:00Z"
    assert message_of(conversions.timestamp, text) == expected


@pytest.mark.parametrize(
    ("value", "length"),
    [
        (timedelta(seconds=1), timedelta(seconds=1)),
        ("0", timedelta(0)),
        ("1h30m", timedelta(minutes=90)),
        ("45s", timedelta(seconds=45)),
        ("-1.5h", timedelta(minutes=-90)),
        ("+.5s", timedelta(milliseconds=500)),
        ("1.s", timedelta(seconds=1)),
        ("1h1m1s1ms1us", timedelta(hours=1, minutes=1, seconds=1, milliseconds=1, microseconds=1)),
        ("1µs1μs", timedelta(microseconds=2)),
        ("1s1s", timedelta(seconds=2)),
        ("1ns", duration_from_nanoseconds(1)),
        ("-1ns", duration_from_nanoseconds(-1)),
        ("1.9ns", duration_from_nanoseconds(1)),
        ("9223372036s", timedelta(seconds=9_223_372_036)),
        ("-9223372036s", timedelta(seconds=-9_223_372_036)),
        ("9223372036854775807ns", duration_from_nanoseconds(INT_MAX)),
        ("-9223372036854775808ns", duration_from_nanoseconds(INT_MIN)),
    ],
)
def test_a_value_as_a_duration(value: object, length: timedelta) -> None:
    assert conversions.duration(value) == length


@pytest.mark.parametrize(
    "text", ["", "5", "s", ".s", "1h 30m", " 1s", "1d", "1S", "--1s", "1h-30m", "1e3s", "١s", "0" * 100 + "s"]
)
def test_a_text_that_is_not_a_duration(text: str) -> None:
    expected = f"{text[:50]!r} is not a duration; write a duration such as 1h30m or 45s"
    assert message_of(conversions.duration, text) == expected


@pytest.mark.parametrize(
    "text",
    ["9223372036854775808ns", "-9223372036854775809ns", "9223372037s", "-9223372037s", "2562048h", f"{'9' * 90}h"],
)
def test_a_duration_has_at_most_the_nanoseconds_of_64_bits(text: str) -> None:
    assert message_of(conversions.duration, text) == "duration out of range"
