"""Rate limits of a forge, learned from its responses.

GitHub refuses with status 403 or 429, and a refusal may lack the time of the next permitted request.

Sources: RFC 9110, 10.2.3 (Retry-After); GitHub, "Rate limits for the REST API"; GitLab, "User and IP rate limits".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from applier.backoff import exponential_backoff, is_waiting
from renderer.frozen import dataclass

_DEFAULT_DELAY: Final = timedelta(minutes=1)
"""First delay after a refusal without a time. The delay doubles with each further refusal."""

_MAX_DELAY: Final = timedelta(hours=1)
"""Maximum delay. If a response names a later time, the clock of the forge or of this machine is wrong."""

_LIMIT_PHRASES: Final = ("rate limit", "abuse detection")
"""Phrases of GitHub's messages that mark a rate limit in a refusal without a rate-limit header."""


@dataclass
class RateLimits:
    """Rate limits of one forge, learned from its responses."""

    resumes_at: datetime | None = None
    """Time of the next permitted request, or None if a request is permitted at once."""
    _early_attempts: int = 0

    def is_limited(self, now: datetime) -> bool:
        """Return whether the limits forbid a request at the time `now`."""
        return self.resumes_at is not None and is_waiting(self.resumes_at, _MAX_DELAY, now)

    def note(self, status: int, headers: Mapping[str, str], message: str, now: datetime) -> bool:
        """Update the limits from a response, and return whether the response is a refusal by a limit.

        If a successful response reports that no request is left, the limits delay the next request too.
        """
        is_refusal = _is_limit(status, headers, message)
        if is_refusal or _is_exhausted(headers):
            self.resumes_at = min(
                _parse_reset_time(headers, now)
                or now + exponential_backoff(self._early_attempts, _DEFAULT_DELAY, _MAX_DELAY),
                now + _MAX_DELAY,
            )
        self._early_attempts = self._early_attempts + 1 if is_refusal else 0
        return is_refusal


def _is_limit(status: int, headers: Mapping[str, str], message: str) -> bool:
    match status:
        case 429:
            return True
        case 403:
            return (
                _is_exhausted(headers)
                or "Retry-After" in headers
                or any(word in message.lower() for word in _LIMIT_PHRASES)
            )
        case 503:
            return "Retry-After" in headers
    return False


def _is_exhausted(headers: Mapping[str, str]) -> bool:
    return _first_header(headers, "X-RateLimit-Remaining", "RateLimit-Remaining") == "0"


def _parse_reset_time(headers: Mapping[str, str], now: datetime) -> datetime | None:
    """Return the time of the next permitted request, or None if the response headers contain no time."""
    wait = headers.get("Retry-After", "")
    moment = _first_header(headers, "X-RateLimit-Reset", "RateLimit-Reset")
    if wait.isdecimal():
        return now + timedelta(seconds=min(int(wait[:9]), _MAX_DELAY.total_seconds()))
    if wait:
        try:
            return parsedate_to_datetime(wait).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    return datetime.fromtimestamp(int(moment), UTC) if moment.isdecimal() and len(moment) < 12 else None


def _first_header(headers: Mapping[str, str], *names: str) -> str:
    return next((headers[name] for name in names if name in headers), "")
