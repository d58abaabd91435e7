"""How long a server that fails is left alone (fault table: "rate limit")."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitops.daemon.git_servers import GitServerBackoff, backoff_seconds
from gitops.errors import SourceError, Throttled, Unauthorized, Unreachable
from gitops.source import Credentials, Mirror, SourceTarget

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("failures", "throttled", "wanted", "seconds"),
    [
        *((1, False, None, 0), (2, False, None, 0), (3, False, None, 1), (5, False, None, 4), (60, False, None, 300)),
        *((1, True, None, 60), (9, True, None, 300)),
        *((1, True, 7.0, 7), (1, True, 900.0, 900), (1, False, 7.0, 7), (60, False, 7.0, 300), (1, True, 1e6, 3600)),
    ],
)
def test_how_long_a_server_rests(failures: int, throttled: bool, wanted: float | None, seconds: float) -> None:
    assert backoff_seconds(failures, throttled=throttled, retry_after=wanted) == seconds


def test_a_clock_that_is_set_back_makes_no_rest_longer(tmp_path: Path) -> None:
    patience, mirror = GitServerBackoff(), Mirror(SourceTarget("https://git.example.com/x"), tmp_path)
    patience.record_failure(mirror, mirror.credential_states, Throttled("git.example.com", "too many requests"), NOW)
    looks = (timedelta(0), timedelta(seconds=59), timedelta(seconds=60), timedelta(minutes=-5), timedelta(days=-1))
    permitted = [patience.take_poll_permission("shop", mirror, NOW + one) for one in looks]
    assert permitted == [False, False, True, False, True]


def test_another_failure_does_not_shorten_what_the_server_asked_for(tmp_path: Path) -> None:
    """Requests to a server run side by side, so an ordinary failure may end after the server's answer."""
    backoff, mirror = GitServerBackoff(), Mirror(SourceTarget("https://git.example.com/x"), tmp_path)
    asked = Throttled("git.example.com", "too many requests")
    asked.retry_after = 3000.0
    backoff.record_failure(mirror, mirror.credential_states, asked, NOW)
    later = NOW + timedelta(seconds=5)
    backoff.record_failure(mirror, mirror.credential_states, Unreachable("git.example.com", "reset"), later)
    backoff.note_request("shop")
    assert not backoff.take_poll_permission("shop", mirror, NOW + timedelta(seconds=2999))
    assert backoff.take_poll_permission("shop", mirror, NOW + timedelta(seconds=3000))


def asked(error: SourceError, retry_after: float | None = None) -> SourceError:
    if isinstance(error, Unreachable):
        error.retry_after = retry_after
    return error


@pytest.mark.parametrize(
    ("error", "is_other_permitted"),
    [
        (asked(Throttled("git.example.com", "too many requests")), False),
        (asked(Unreachable("git.example.com", "error: 503"), 60.0), False),
        (asked(Unreachable("git.example.com", "no such repository")), True),
        (Unauthorized("git.example.com", "the server refused access"), True),
    ],
)
def test_only_a_wait_that_the_server_asks_for_holds_its_other_repositories(
    tmp_path: Path, error: SourceError, is_other_permitted: bool
) -> None:
    """Neither the path nor the credentials count for the server, but its port does."""
    backoff, later = GitServerBackoff(), NOW + timedelta(seconds=1)
    shop, docs, elsewhere = (
        Mirror(SourceTarget(url), tmp_path, credentials=Credentials(token_file=tmp_path / url[-4:]))
        for url in (
            "https://git.example.com/shop",
            "https://GIT.example.com:443/docs",
            "https://git.example.com:8443/shop",
        )
    )
    for _ in range(4):
        backoff.record_failure(shop, shop.credential_states, error, NOW)
    assert not backoff.take_poll_permission("shop", shop, later)
    assert backoff.take_poll_permission("docs", docs, later) == is_other_permitted
    assert backoff.take_poll_permission("elsewhere", elsewhere, later)


def test_a_success_does_not_end_what_the_server_asked_for(tmp_path: Path) -> None:
    """The request to the other repository began before the server's answer."""
    backoff = GitServerBackoff()
    shop, docs = (Mirror(SourceTarget(f"https://git.example.com/{name}"), tmp_path) for name in ("shop", "docs"))
    backoff.record_failure(shop, (), Throttled("git.example.com", "too many requests"), NOW)
    backoff.reset(docs)
    assert not backoff.take_poll_permission("docs", docs, NOW + timedelta(seconds=59))
    assert backoff.take_poll_permission("docs", docs, NOW + timedelta(seconds=60))
