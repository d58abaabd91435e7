"""Well-known types of Protobuf, constructed as plain values."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from renderer.cel.budget import Meter
from renderer.cel.errors import BudgetError, EvaluationError
from renderer.cel.functions import protobuf_wellknown
from renderer.cel.functions.registry import FUNCTIONS
from renderer.cel.nanoseconds import duration_from_nanoseconds, timestamp_from_nanoseconds
from renderer.cel.values import INT_MAX, NONE, UINT_MAX, MixedMap, UInt

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def construct(message: str, fields: dict[str, Any]) -> Any:
    """Return the value of `google.protobuf.MESSAGE{...}` as an expression constructs it."""
    return FUNCTIONS[f"google.protobuf.{message}{{}}", False](Meter(), fields)


def failure(message: str, fields: dict[str, Any]) -> str:
    """Return the message of the error that the construction raises."""
    with pytest.raises(EvaluationError) as caught:
        construct(message, fields)
    return caught.value.message


@pytest.mark.parametrize(
    ("message", "default", "value"),
    [
        ("BoolValue", False, True),
        ("BytesValue", b"", b"\xff"),
        ("DoubleValue", 0.0, 1e300),
        ("FloatValue", 0.0, 1.5),
        ("Int32Value", 0, 2**31 - 1),
        ("Int32Value", 0, -(2**31)),
        ("Int64Value", 0, INT_MAX),
        ("StringValue", "", "a"),
        ("UInt32Value", UInt(0), UInt(2**32 - 1)),
        ("UInt64Value", UInt(0), UInt(UINT_MAX)),
    ],
)
def test_a_wrapper_is_its_value_or_the_default_of_its_type(message: str, default: object, value: object) -> None:
    for fields, expected in (({}, default), ({"value": value}, value)):
        constructed = construct(message, fields)
        assert (constructed, type(constructed)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.1, 0.10000000149011612), (16777217.0, 16777216.0), (1e39, math.inf), (-1e39, -math.inf), (1e-46, 0.0)],
)
def test_a_float_value_is_the_nearest_number_of_32_bits(value: float, rounded: float) -> None:
    assert construct("FloatValue", {"value": value}) == rounded


@pytest.mark.parametrize(
    ("message", "value", "expected"),
    [
        ("Int32Value", 2**31, "2147483648 is out of range (-2147483648 to 2147483647)"),
        ("Int32Value", -(2**31) - 1, "-2147483649 is out of range (-2147483648 to 2147483647)"),
        ("UInt32Value", UInt(2**32), "4294967296 is out of range (0 to 4294967295)"),
        ("Int32Value", "1", "google.protobuf.Int32Value.value must be of type int, not string"),
        ("Int64Value", UInt(1), "google.protobuf.Int64Value.value must be of type int, not uint"),
        ("UInt64Value", 1, "google.protobuf.UInt64Value.value must be of type uint, not int"),
        ("DoubleValue", 1, "google.protobuf.DoubleValue.value must be of type double, not int"),
        ("BoolValue", None, "google.protobuf.BoolValue.value must be of type bool, not null"),
    ],
)
def test_a_wrapper_refuses_a_value_of_another_range_or_type(message: str, value: object, expected: str) -> None:
    assert failure(message, {"value": value}) == expected


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("StringValue", "value"),
        ("Timestamp", "seconds, nanos"),
        ("Duration", "seconds, nanos"),
        ("Struct", "fields"),
        ("ListValue", "values"),
        ("Value", "null_value, number_value, string_value, bool_value, struct_value, list_value"),
    ],
)
def test_an_unknown_field_is_refused_with_the_known_fields(message: str, names: str) -> None:
    assert failure(message, {"other": 1}) == f"google.protobuf.{message} has no field 'other', only {names}"


@pytest.mark.parametrize(
    ("fields", "nanoseconds"),
    [
        ({}, 0),
        ({"seconds": 60}, 60 * 10**9),
        ({"nanos": 1}, 1),
        ({"seconds": -1, "nanos": -1}, -(10**9) - 1),
        ({"seconds": 1, "nanos": 999_999_999}, 2 * 10**9 - 1),
    ],
)
def test_times_count_seconds_and_nanoseconds(fields: dict[str, Any], nanoseconds: int) -> None:
    assert protobuf_wellknown.timestamp(fields) == timestamp_from_nanoseconds(nanoseconds)
    assert protobuf_wellknown.duration(fields) == duration_from_nanoseconds(nanoseconds)


@pytest.mark.parametrize("message", ["Timestamp", "Duration"])
@pytest.mark.parametrize(("seconds", "nanos"), [(1, -1), (-1, 1), (0, 10**9), (0, -(10**9))])
def test_seconds_and_nanos_have_one_sign_and_nanos_are_less_than_a_second(
    message: str, seconds: int, nanos: int
) -> None:
    assert failure(message, {"seconds": seconds, "nanos": nanos}) == (
        f"google.protobuf.{message}: {seconds} seconds and {nanos} nanos must have one sign, "
        "and nanos must be less than a second"
    )


@pytest.mark.parametrize("message", ["Timestamp", "Duration"])
@pytest.mark.parametrize("field", ["seconds", "nanos"])
def test_the_fields_of_times_are_ints(message: str, field: str) -> None:
    expected = f"google.protobuf.{message}.{field} must be of type int, not double"
    assert failure(message, {field: 1.0}) == expected


def test_times_have_borders() -> None:
    assert construct("Timestamp", {"seconds": 253_402_300_799}) == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert construct("Duration", {"seconds": -9_223_372_036}) == timedelta(seconds=-9_223_372_036)
    assert failure("Timestamp", {"seconds": 253_402_300_800}) == "timestamp out of range (years 1 to 9999)"
    assert failure("Timestamp", {"seconds": -62_135_596_801}) == "timestamp out of range (years 1 to 9999)"
    assert failure("Duration", {"seconds": 9_223_372_037}) == "duration out of range"


def test_a_struct_and_a_list_are_json() -> None:
    assert construct("Struct", {}) == {}
    assert construct("ListValue", {}) == []
    assert construct("Struct", {"fields": {"b": [1, {"a": None}], "a": True}}) == {"b": [1.0, {"a": None}], "a": True}
    assert construct("ListValue", {"values": ["a", 1.5, {}]}) == ["a", 1.5, {}]


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (1, 1.0),
        (2**53 - 1, 2.0**53 - 1),
        (1 - 2**53, 1 - 2.0**53),
        (2**53, "9007199254740992"),
        (-(2**53), "-9007199254740992"),
        (UInt(2**53), "9007199254740992"),
        (UInt(1), 1.0),
        (UInt(UINT_MAX), "18446744073709551615"),
        (True, True),
        (None, None),
        (b"\xff\x00", "/wA="),
        (EPOCH, "1970-01-01T00:00:00Z"),
        (timedelta(milliseconds=1500), "1.5s"),
    ],
)
def test_an_item_is_a_json_value(content: object, value: object) -> None:
    (item,) = construct("ListValue", {"values": [content]})
    assert (item, type(item)) == (value, type(value))


@pytest.mark.parametrize(
    ("message", "fields", "expected"),
    [
        ("Struct", {"fields": MixedMap({1: "a"})}, "google.protobuf.Struct: the keys must be strings"),
        ("ListValue", {"values": [MixedMap({1: "a"})]}, "google.protobuf.Struct: the keys must be strings"),
        ("ListValue", {"values": [NONE]}, "optional is not a JSON value"),
        ("Struct", {"fields": []}, "google.protobuf.Struct.fields must be of type map, not list"),
        ("ListValue", {"values": {}}, "google.protobuf.ListValue.values must be of type list, not map"),
    ],
)
def test_what_json_cannot_hold_is_refused(message: str, fields: dict[str, Any], expected: str) -> None:
    assert failure(message, fields) == expected


def test_each_item_costs_two_units() -> None:
    fields = {"values": [1, {"a": 1}]}
    assert protobuf_wellknown.list_value(Meter(6), fields) == [1.0, {"a": 1.0}]
    with pytest.raises(BudgetError):
        protobuf_wellknown.list_value(Meter(5), fields)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({}, None),
        ({"null_value": protobuf_wellknown.CONSTANTS["google.protobuf.NullValue.NULL_VALUE"]}, None),
        ({"number_value": 1.5}, 1.5),
        ({"string_value": ""}, ""),
        ({"bool_value": False}, False),
        ({"struct_value": {"a": 1}}, {"a": 1.0}),
        ({"list_value": [1]}, [1.0]),
        ({"number_value": 1.5, "string_value": "last"}, "last"),
        ({"string_value": "first", "null_value": 0}, None),
    ],
)
def test_a_value_is_that_of_its_last_field(fields: dict[str, Any], value: object) -> None:
    assert protobuf_wellknown.value(Meter(), fields) == value


def test_a_number_value_is_a_double() -> None:
    expected = "google.protobuf.Value.number_value must be of type double, not int"
    assert failure("Value", {"number_value": 1}) == expected
