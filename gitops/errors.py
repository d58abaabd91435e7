"""Errors of sources, records and other parts of the package `gitops`.

Invariant: the text of an error contains the event, the place, the reason and advice. The text never contains a
credential, a command line or a traceback. Callers handle each subclass differently.
"""

from __future__ import annotations


class GitopsError(Exception):
    """Base class of all errors of the package `gitops`."""


class SourceError(GitopsError):
    """Error of a source that Levelgate cannot read.

    The last accepted commit stays in force, because an unreadable source is not an empty source.
    """

    def __init__(self, where: str, message: str, *, advice: str = "") -> None:
        self.where = where
        self.message = message
        self.advice = advice
        super().__init__(f"{where}: {message}; {advice}" if advice else f"{where}: {message}")


class RefusedUrl(SourceError):
    """Rejection of a URL, ref or path. A retry does not help: a person must change the configuration."""


class RefusedContent(SourceError):
    """Rejection of the content of a repository. A new commit or a higher limit helps."""


class Unreachable(SourceError):
    """Error of a server that does not answer, or of a broken connection. A later retry may help."""

    retry_after: float | None = None
    """Seconds to wait before a retry, or None if the server names no time."""


class Throttled(Unreachable):
    """Rejection of a request by a server that limits the rate of requests."""


class Unauthorized(SourceError):
    """Denial of access by a server, or a failed check of the server's identity.

    A person must change a credential or a permission.
    """


class RevisionNotFound(SourceError):
    """Error of a branch, tag or commit that does not exist on the server. A later push may create it."""


class DamagedCache(SourceError):
    """Error of a damaged local copy that Levelgate cannot replace yet. Levelgate uses no data from that copy."""


class CacheUnavailable(SourceError):
    """Error of a cache directory that Levelgate cannot write to, or whose lock another process holds.

    Data that Levelgate read earlier stays valid.
    """


class Stopped(SourceError):
    """Error of a request to a server that Levelgate abandons because the process is stopping."""


class NewerRecords(GitopsError):
    """Error of records in the cluster that only a later version of Levelgate can read, not this version."""
