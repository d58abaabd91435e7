"""When a forge may be asked again: GitHub's two kinds of limits, GitLab's, those of proxies, and what is none (docs/review.md)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from gitops.forge.rate_limits import RateLimits

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
RESET = str(int(NOW.timestamp()) + 90)
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


def rest(status: int, headers: Mapping[str, str], message: str = "") -> float | None:
    """Seconds to wait after this answer, None where nothing is known against the next."""
    limits = RateLimits()
    limits.note(status, headers, message, NOW)
    return (limits.resumes_at - NOW).total_seconds() if limits.resumes_at else None


@pytest.mark.parametrize(
    ("status", "headers", "message", "seconds"),
    [
        (429, {"Retry-After": "90"}, "", 90),
        (429, {"Retry-After": "Fri, 20 Nov 2026 12:01:30 GMT"}, "", 90),
        (429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": RESET}, "", 90),
        (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": RESET}, "", 90),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": RESET}, "", 90),
        (403, {"X-RateLimit-Remaining": "4000", "X-RateLimit-Reset": RESET, "Retry-After": "60"}, SECONDARY, 60),
        (200, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": RESET}, "", 90),
        (304, {"RateLimit-Remaining": "0", "RateLimit-Reset": RESET}, "", 90),
        (503, {"Retry-After": "30"}, "", 30),
        (429, {}, "", 60),
        (429, {"Retry-After": "soon"}, "", 60),
        (403, {"X-RateLimit-Remaining": "4000"}, SECONDARY, 60),
        (403, {}, "You have triggered an abuse detection mechanism.", 60),
        (429, {"Retry-After": "9" * 400}, "", 3600),
        (429, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 -2300"}, "", 60),
        (429, {"X-RateLimit-Reset": "99999999999"}, "", 3600),
        (403, {"X-RateLimit-Remaining": "4000", "X-RateLimit-Reset": RESET}, "Resource not accessible", None),
        (503, {}, "", None),
        (200, {"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": RESET}, "", None),
    ],
)
def test_how_long_to_wait(status: int, headers: dict[str, str], message: str, seconds: float | None) -> None:
    assert rest(status, headers, message) == seconds


def test_who_names_no_time_is_asked_ever_more_rarely_until_something_is_answered() -> None:
    limits, waits = RateLimits(), list[timedelta]()
    for status in (403, 403, 403, 200, 403, *[403] * 20):
        limits.note(status, {}, SECONDARY if status == 403 else "", NOW)
        waits.append((limits.resumes_at or NOW) - NOW)
    minutes = [wait.total_seconds() / 60 for wait in waits]
    assert minutes[:3] == [1, 2, 4]
    assert minutes[4:7] == [1, 2, 4]
    assert minutes[-1] == 60


def test_a_clock_that_is_set_back_makes_no_limit_longer() -> None:
    limits = RateLimits()
    assert not limits.is_limited(NOW)
    limits.note(429, {"Retry-After": "90"}, "", NOW)
    looks = (timedelta(0), timedelta(seconds=90), timedelta(minutes=-5), timedelta(days=-1))
    assert [limits.is_limited(NOW + one) for one in looks] == [True, False, True, False]
