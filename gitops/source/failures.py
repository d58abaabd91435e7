"""What a failed transfer means, read off Git's own words (which are English, as the runner asks for).

A table, because Git has no codes for this: the first row whose pattern matches decides. Order matters: a connection
that breaks also makes Git complain about the pack that it did not get.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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


class _Row(NamedTuple):
    pattern: re.Pattern[str]
    error: type[SourceError]
    why: str
    advice: str = ""


def _row(pattern: str, error: type[SourceError], why: str, advice: str = "") -> _Row:
    return _Row(re.compile(pattern, re.IGNORECASE), error, why, advice)


_ROWS = (
    _row(
        "no space left|disk quota exceeded|read-only file system",
        CacheUnavailable,
        "the cache directory cannot be written",
        "make room, or name another directory",
    ),
    _row(
        "host key verification failed|host identification has changed",
        Unauthorized,
        "the server's host key is not the known one",
        "check it and update knownHostsFile",
    ),
    _row(
        r"authentication failed|could not read (username|password)|(error:|http) 40[13]\b|(permission|access) denied",
        Unauthorized,
        "the server refused access",
        "check `credentials` and the account's permission to read",
    ),
    _row(
        "unable to update url base from redirection|redirection|too many redirects|error: 30[12378]",
        RefusedUrl,
        "the server redirects elsewhere, which is not followed",
        "write the final URL (often the one that ends in .git)",
    ),
    _row(
        r"repository '[^']*' not found|does not appear to be a git|error: 404\b|(repository|project) not found",
        Unreachable,
        "no such repository, or no permission to see it",
        "check the URL and `credentials`",
    ),
    _row(
        r"error: 429\b|too many requests|rate limit",
        Throttled,
        "the server wants to be asked less often",
        "ask it less often: `interval`",
    ),
    _row("transport '[^']*' not allowed", RefusedUrl, "the transport is not allowed"),
    _row(
        "couldn't find remote ref|not our ref|no such remote ref|unadvertised object",
        RevisionNotFound,
        "no such ref there",
    ),
    _row(
        "could not resolve (host|proxy)|could not connect|failed to connect|connection (refused|reset|timed out|closed)"
        "|no route to host|operation timed out|operation too slow|network is unreachable|unable to access"
        "|name or service not known"
        r"|early eof|hung up|unexpected disconnect|rpc failed|error: 5\d\d\b|ssl|certificate|gnutls"
        "|transfer closed|expected flush|bad (pack|line length)|protocol error|invalid server response"
        "|unexpected response|remote error"
        "|expected '?(acknowledgments|packfile)|no matching host key|kex_exchange|no end after",
        Unreachable,
        "the server did not answer, or broke off",
    ),
    _row(
        "error: fsck|fsck error|error in object|invalid .*object|strict",
        RefusedContent,
        "the server sent an object that breaks Git's rules",
        "run `git fsck` on the repository there",
    ),
)


def explain(stderr: str, where: str) -> SourceError | None:
    """The error that Git's words stand for, or None if they are unknown. `stderr` must hold no secret any more."""
    for row in _ROWS:
        if row.pattern.search(stderr):
            said = said_by_git(stderr)
            return row.error(where, f"{row.why} ({said})" if said else row.why, advice=row.advice)
    return None


def said_by_git(stderr: str) -> str:
    """One printable line with what matters of Git's complaint, cut at 300 characters."""
    lines = [" ".join(line.split()) for line in stderr.splitlines()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote: "))] or lines
    text = "; ".join(dict.fromkeys(line.partition(": ")[2] or line for line in telling if line))
    return "".join(letter for letter in text if letter.isprintable())[:300]
