"""Timestamps and durations with nanoseconds.

CEL counts nanoseconds. Python's `datetime` and `timedelta` count microseconds. A value with a fraction of a microsecond
is a `PreciseTimestamp` or `PreciseDuration`: the Python type with 1 to 999 additional nanoseconds. Any other value is a
plain `datetime` or `timedelta`. Timestamps are aware of their time zone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _comparison_method(compare: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    def method(self: Any, other: Any) -> bool:
        if isinstance(other, datetime if isinstance(self, datetime) else timedelta):
            return compare(nanoseconds(self), nanoseconds(other))
        return NotImplemented  # type: ignore[no-any-return]

    return method


class _NanosecondValue:
    """Base of `PreciseTimestamp` and `PreciseDuration`. Values compare by nanoseconds, and none is zero."""

    nanos = 0

    __eq__ = _comparison_method(operator.eq)
    __lt__ = _comparison_method(operator.lt)
    __le__ = _comparison_method(operator.le)
    __gt__ = _comparison_method(operator.gt)
    __ge__ = _comparison_method(operator.ge)

    def __hash__(self) -> int:
        return hash(nanoseconds(self))

    def __bool__(self) -> bool:
        return True


@final
class PreciseTimestamp(_NanosecondValue, datetime):
    """A timestamp that is finer than a microsecond.

    Attributes:
        nanos: Nanoseconds after the microsecond of the `datetime`, from 1 to 999.
    """

    __hash__ = _NanosecondValue.__hash__


@final
class PreciseDuration(_NanosecondValue, timedelta):
    """A duration that is finer than a microsecond.

    Attributes:
        nanos: Nanoseconds to add to the `timedelta`, from 1 to 999.
    """

    __hash__ = _NanosecondValue.__hash__


TIMESTAMP_TYPES: Final = frozenset((datetime, PreciseTimestamp))
DURATION_TYPES: Final = frozenset((timedelta, PreciseDuration))


def nanoseconds(value: Any) -> int:
    """Return a duration in nanoseconds, or a timestamp in nanoseconds after 1970-01-01 00:00 UTC."""
    length: timedelta = value - EPOCH if isinstance(value, datetime) else value
    micros = (length.days * 86_400 + length.seconds) * 1_000_000 + length.microseconds
    return micros * 1000 + (value.nanos if isinstance(value, _NanosecondValue) else 0)


def timestamp_from_nanoseconds(nanos: int) -> datetime:
    """Return the timestamp `nanos` nanoseconds after 1970-01-01 00:00 UTC, in UTC.

    Raises: OverflowError if the timestamp is not in the years 1 to 9999.
    """
    moment = EPOCH + timedelta(microseconds=nanos // 1000)
    if not nanos % 1000:
        return moment
    precise = PreciseTimestamp.combine(moment.date(), moment.timetz())
    precise.nanos = nanos % 1000
    return precise


def duration_from_nanoseconds(nanos: int) -> timedelta:
    """Return the duration of `nanos` nanoseconds.

    Raises: OverflowError if the duration exceeds the range of `timedelta`, 999,999,999 days.
    """
    length = timedelta(microseconds=nanos // 1000)
    if not nanos % 1000:
        return length
    precise = PreciseDuration(length.days, length.seconds, length.microseconds)
    precise.nanos = nanos % 1000
    return precise


def to_python_time(value: Any) -> Any:
    """Return a precise time as `datetime` or `timedelta`, truncated to microseconds.

    Return any other value unchanged.
    """
    if type(value) is PreciseTimestamp:
        return datetime.combine(value.date(), value.timetz())
    if type(value) is PreciseDuration:
        length = nanoseconds(value)
        return timedelta(microseconds=length // 1000 if length > 0 else -(-length // 1000))
    return value
