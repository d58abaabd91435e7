"""Times finer than Python's.

CEL's timestamps and durations count nanoseconds, `datetime` and `timedelta` microseconds. A value that needs the
difference is an `PreciseTimestamp` or a `PreciseDuration`: the Python type with 1 to 999 nanoseconds on top. All others stay Python's own.
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
    nanos = 0

    __eq__ = _comparison_method(operator.eq)
    __lt__ = _comparison_method(operator.lt)
    __le__ = _comparison_method(operator.le)
    __gt__ = _comparison_method(operator.gt)
    __ge__ = _comparison_method(operator.ge)

    def __hash__(self) -> int:
        return hash(nanoseconds(self))


@final
class PreciseTimestamp(_NanosecondValue, datetime):
    """A timestamp with `nanos` on top."""

    __hash__ = _NanosecondValue.__hash__


@final
class PreciseDuration(_NanosecondValue, timedelta):
    """A duration with `nanos` on top."""

    __hash__ = _NanosecondValue.__hash__


TIMESTAMP_TYPES: Final = frozenset((datetime, PreciseTimestamp))
DURATION_TYPES: Final = frozenset((timedelta, PreciseDuration))


def nanoseconds(value: Any) -> int:
    """Of a duration; of a timestamp, since 1970."""
    length: timedelta = value - EPOCH if isinstance(value, datetime) else value
    micros = (length.days * 86_400 + length.seconds) * 1_000_000 + length.microseconds
    return micros * 1000 + (value.nanos if isinstance(value, _NanosecondValue) else 0)


def timestamp_from_nanoseconds(nanos: int) -> datetime:
    """The timestamp so many nanoseconds after 1970. Raises OverflowError outside of the years 1 to 9999."""
    moment = EPOCH + timedelta(microseconds=nanos // 1000)
    if not nanos % 1000:
        return moment
    precise = PreciseTimestamp.combine(moment.date(), moment.timetz())
    precise.nanos = nanos % 1000
    return precise


def duration_from_nanoseconds(nanos: int) -> timedelta:
    """The duration of so many nanoseconds. Raises OverflowError where Python has none."""
    length = timedelta(microseconds=nanos // 1000)
    if not nanos % 1000:
        return length
    precise = PreciseDuration(length.days, length.seconds, length.microseconds)
    precise.nanos = nanos % 1000
    return precise


def to_python_time(value: Any) -> Any:
    """A time as Python's own: the digits below a microsecond are cut off."""
    if type(value) is PreciseTimestamp:
        return datetime.combine(value.date(), value.timetz())
    if type(value) is PreciseDuration:
        length = nanoseconds(value)
        return timedelta(microseconds=length // 1000 if length > 0 else -(-length // 1000))
    return value
