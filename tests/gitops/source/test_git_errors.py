"""The error that a message of Git stands for."""

from __future__ import annotations

import pytest

from gitops.errors import (
    CacheUnavailable,
    RefusedContent,
    RefusedUrl,
    RevisionNotFound,
    SourceError,
    Throttled,
    Unauthorized,
    Unreachable,
)
from gitops.source.git_errors import classify_error, summarize_stderr


def classified(stderr: str) -> SourceError:
    error = classify_error(stderr, "https://git.example.com/shop.git", "/cache/1")
    assert error
    return error


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("fatal: unable to access 'https://git/': server certificate verification failed.", Unauthorized),
        ("fatal: Authentication failed for 'https://git/'", Unauthorized),
        ("Host key verification failed.", Unauthorized),
        ("fatal: repository 'https://git/shop.git/' not found", Unreachable),
        ("fatal: unable to access 'https://git/': Could not resolve host: git", Unreachable),
        ("fatal: unable to access 'https://git/': The requested URL returned error: 302", RefusedUrl),
        ("fatal: couldn't find remote ref refs/heads/main", RevisionNotFound),
        ("error: object 12ab: missingEmail: invalid author\nfatal: fsck error in packed object", RefusedContent),
        ("fatal: unable to access 'https://git/': The requested URL returned error: 429", Throttled),
    ],
)
def test_each_kind_of_failure_has_its_error(stderr: str, kind: type[SourceError]) -> None:
    assert type(classified(stderr)) is kind


def test_a_broken_connection_is_no_broken_repository() -> None:
    """Git complains about the pack too, which it did not get in whole: the first row that matches decides."""
    stderr = (
        "error: RPC failed; curl 18 transfer closed\nfatal: early EOF\nfatal: fetch-pack: invalid index-pack output"
    )
    assert type(classified(stderr)) is Unreachable


def test_a_full_disk_is_a_matter_of_the_cache_and_not_of_the_server() -> None:
    error = classified("fatal: cannot create directory at 'x': No space left on device")
    assert isinstance(error, CacheUnavailable)
    assert error.where == "/cache/1"


def test_the_server_says_when_to_ask_again() -> None:
    trace = "12:00:00.1 http.c:1: <= Recv header: retry-after: 90\n"
    error = classified(f"{trace}fatal: The requested URL returned error: 429")
    assert isinstance(error, Throttled)
    assert error.retry_after == 90
    assert "Recv header" not in error.message, "the trace is for us, not for people"


def test_words_that_no_row_knows_are_no_error_of_the_server() -> None:
    assert classify_error("fatal: bad object HEAD", "https://git", "/cache/1") is None


def test_a_summary_is_one_line_of_what_git_complains_about() -> None:
    stderr = "Cloning ...\nfatal: no\x1b[31m way\nerror: no\x1b[31m way\nfatal: Could not read from remote repository."
    assert summarize_stderr(stderr) == "no[31m way"
