"""Classification of failed transfers by Git's messages. GitPython's runner makes Git print messages in English.

Git has no exit codes for failed transfers, so a table of patterns decides. The first matching row counts. The order of
the rows matters, because a broken connection also makes Git report an incomplete pack.
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

_TRACE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ \S+:\d+ .*\n?", re.MULTILINE)
_NOISE = re.compile(
    "Could not read from remote repository|Please make sure you have the correct access|^and the repository exists"
)
_RETRY_AFTER = re.compile(r"<= recv header: retry-after: (\d{1,6})\s*$", re.IGNORECASE | re.MULTILINE)


class _ErrorRule(NamedTuple):
    pattern: re.Pattern[str]
    error: type[SourceError]
    message: str
    advice: str


def _rule(pattern: str, error: type[SourceError], message: str, advice: str = "") -> _ErrorRule:
    return _ErrorRule(re.compile(pattern, re.IGNORECASE), error, message, advice)


_RULES = (
    _rule(
        "no space left|disk quota exceeded|read-only file system",
        CacheUnavailable,
        "the cache directory cannot be written",
        "free disk space, or set XDG_CACHE_HOME to a writable directory",
    ),
    _rule(
        r"certificate verification failed|certificate problem|certificate verify failed"
        "|no alternative certificate subject name|certificate subject name .* does not match",
        Unauthorized,
        "the server's certificate is not trusted",
        "set `caFile` to a file with the certificate of the signing authority",
    ),
    _rule(
        "host key verification failed|host identification has changed",
        Unauthorized,
        "the server's host key differs from the known key",
        "check the host key and update knownHostsFile",
    ),
    _rule(
        r"authentication failed|could not read (username|password)|(error:|http) 40[13]\b|(permission|access) denied",
        Unauthorized,
        "the server refused access",
        "check `credentials` and the account's permission to read",
    ),
    _rule(
        "unable to update url base from redirection|redirection|too many redirects|error: 30[12378]",
        RefusedUrl,
        "the server redirects to another URL, and Levelgate follows no redirect",
        "write the final URL (often the one that ends in .git)",
    ),
    _rule(
        r"repository '[^']*' not found|does not appear to be a git|error: 404\b|(repository|project) not found",
        Unreachable,
        "no such repository, or no permission to see it",
        "check the URL and `credentials`",
    ),
    _rule(
        r"error: 429\b|too many requests|rate limit",
        Throttled,
        "the server limits the rate of requests",
        "increase `interval`",
    ),
    _rule("transport '[^']*' not allowed", RefusedUrl, "the transport is rejected", "use https, ssh or user@host:path"),
    _rule(
        "couldn't find remote ref|not our ref|no such remote ref|unadvertised object",
        RevisionNotFound,
        "the server lacks the ref or the commit",
        "check `ref`, or push the ref",
    ),
    _rule(
        "could not resolve (host|proxy)|could not connect|failed to connect|connection (refused|reset|timed out|closed)"
        "|no route to host|operation timed out|operation too slow|network is unreachable|unable to access"
        "|name or service not known"
        r"|early eof|hung up|unexpected disconnect|rpc failed|error: 5\d\d\b|ssl|certificate|gnutls"
        "|transfer closed|expected flush|bad (pack|line length)|protocol error|invalid server response"
        "|unexpected response|remote error"
        "|expected '?(acknowledgments|packfile)|no matching host key|kex_exchange|no end after",
        Unreachable,
        "the server did not answer, or closed the connection",
    ),
    _rule(
        "error: fsck|fsck error|error in object|invalid .*object|strict",
        RefusedContent,
        "the server sent an object that breaks Git's rules",
        "run `git fsck` on the repository of the server",
    ),
)


def classify_error(stderr: str, where: str, cache: str) -> SourceError | None:
    """Return the error for Git's messages in `stderr`, or None if no row of the table matches.

    Args:
        stderr: output of Git, without secrets.
        where: name of the server in messages.
        cache: directory of the copy.
    """
    complaint = _TRACE.sub("", stderr)
    rule = next((rule for rule in _RULES if rule.pattern.search(complaint)), None)
    if rule is None:
        return None
    summary = summarize_stderr(complaint)
    subject = cache if rule.error is CacheUnavailable else where
    error = rule.error(subject, f"{rule.message} ({summary})" if summary else rule.message, advice=rule.advice)
    if isinstance(error, Unreachable) and (retry_after := _RETRY_AFTER.search(stderr)):
        error.retry_after = float(retry_after[1])
    return error


def summarize_stderr(stderr: str) -> str:
    """Return the relevant parts of Git's messages in one printable line of at most 300 characters."""
    lines = [" ".join(line.split()) for line in _TRACE.sub("", stderr).splitlines() if not _NOISE.search(line)]
    relevant = [line for line in lines if line.startswith(("fatal:", "error:", "remote: "))] or lines
    text = "; ".join(dict.fromkeys(line.partition(": ")[2] or line for line in relevant if line))
    return "".join(letter for letter in text if letter.isprintable())[:300]
