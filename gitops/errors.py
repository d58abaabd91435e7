"""Errors of Levelgate's side of Git, time and people.

Invariant: the text of an error contains the event, the place, the reason and advice. The text never contains a
credential, a command line or a traceback. The caller handles each subclass differently.
"""

from __future__ import annotations


class GitopsError(Exception):
    """Base of all errors of this package."""


class SourceError(GitopsError):
    """A source cannot be read. The last accepted commit stays in force: "cannot read" is never "empty"."""

    def __init__(self, where: str, message: str, *, advice: str = "") -> None:
        self.where = where
        self.message = message
        self.advice = advice
        super().__init__(f"{where}: {message}; {advice}" if advice else f"{where}: {message}")


class RefusedUrl(SourceError):
    """Rejection of a URL, ref or path. A retry does not help: a person has to change the configuration."""


class RefusedContent(SourceError):
    """Rejection of the content of a repository. A new commit or a higher limit helps."""


class Unreachable(SourceError):
    """Missing answer of a server, or a broken connection. A later retry may help."""

    retry_after: float | None = None
    """Seconds to wait before a retry, or None if the server named no time."""


class Throttled(Unreachable):
    """The server limits the rate of requests."""


class Unauthorized(SourceError):
    """The server refused access, or failed the check of its identity.

    A person has to change a credential or permission.
    """


class RevisionNotFound(SourceError):
    """The branch, tag or commit does not exist on the server. It may appear later."""


class DamagedCache(SourceError):
    """The local copy is damaged, and could not be replaced yet. No data from it was used."""


class CacheUnavailable(SourceError):
    """The cache directory cannot be written, or another process holds its lock. Data read earlier stays valid."""


class Stopped(SourceError):
    """The process is stopping, so a request to a server was abandoned."""


class NewerRecords(GitopsError):
    """A later version of Levelgate has written records to the cluster that this version cannot read."""
