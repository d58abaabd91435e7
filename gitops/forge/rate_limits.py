"""When a forge may be asked again, as its answers say.

Sources: RFC 9110, 10.2.3 (Retry-After); GitHub, "Rate limits for the REST API": refusals are 403 or 429 and may name no time; GitLab, "User and
IP rate limits".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from applier.backoff import exponential_backoff, is_waiting
from renderer.frozen import dataclass

_DEFAULT_DELAY: Final = timedelta(minutes=1)
"""How long to wait where no time is named; twice as long each time that it was too short."""

_MAX_DELAY: Final = timedelta(hours=1)
"""No limit lasts longer: whoever names another time has another clock, or ours was set back."""

_LIMIT_PHRASES: Final = ("rate limit", "abuse detection")
"""What GitHub says of a limit that stands in no header."""


@dataclass
class RateLimits:
    """`resumes_at` is when the next request may be sent; None where nothing is known against it."""

    resumes_at: datetime | None = None
    _early_attempts: int = 0

    def is_limited(self, now: datetime) -> bool:
        """Is nothing to be asked now?"""
        return self.resumes_at is not None and is_waiting(self.resumes_at, _MAX_DELAY, now)

    def note(self, status: int, headers: Mapping[str, str], message: str, now: datetime) -> bool:
        """Learn from an answer; whether it is a refusal that time heals. An answer may be the last one that is given for now."""
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
    """The time that the headers name."""
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
