"""The token bucket, on moments that are given: never more than the burst at once, never more than the rate in the long run."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from applier.token_bucket import Rate, TokenBucket


def taken(rate: Rate, moments: list[float]) -> list[float]:
    """Those of these moments at which there was a token."""
    bucket, found = TokenBucket(rate), []
    for moment in moments:
        if bucket.next_at <= moment:
            bucket = bucket.take(moment)
            found.append(moment)
    return found


def test_a_burst_then_one_at_a_time() -> None:
    assert taken(Rate(1.0, 3), [0.0] * 5 + [0.5, 1.0, 1.5, 2.0]) == [0.0] * 3 + [1.0, 2.0]


def test_a_rest_fills_it_and_no_more() -> None:
    assert taken(Rate(1.0, 3), [0.0] * 3 + [100.0] * 5) == [0.0] * 3 + [100.0] * 3


@settings(deadline=None, derandomize=True)
@given(
    rate=st.builds(Rate, st.sampled_from([0.25, 1.0, 8.0]), st.integers(1, 5)),
    moments=st.lists(st.integers(0, 400).map(lambda quarter: quarter / 4), max_size=60).map(sorted),
)
def test_in_no_span_more_than_the_burst_and_what_its_seconds_allow(rate: Rate, moments: list[float]) -> None:
    found = taken(rate, moments)
    for begin, first in enumerate(found):
        for end, last in enumerate(found[begin:], begin + 1):
            assert end - begin <= rate.burst + (last - first) * rate.per_second
