"""Errors of everything between Git, time and people.

Invariant: the text of an error says what, where, why and what to do. It never holds a credential, a command line or a
traceback. Subclasses differ by what the caller does about them.
"""

from __future__ import annotations


class GitopsError(Exception):
    """Base of all errors that this package raises."""


class SourceError(GitopsError):
    """A source could not be read. What was read before stays in force: "cannot read" is never "empty"."""

    def __init__(self, where: str, message: str, *, advice: str = "") -> None:
        self.where = where
        self.message = message
        self.advice = advice
        super().__init__(f"{where}: {message}; {advice}" if advice else f"{where}: {message}")


class RefusedUrl(SourceError):
    """The URL, ref or path is not one that is ever read. Trying again does not help; the configuration must change."""


class RefusedContent(SourceError):
    """The repository holds objects, or more data, than are accepted. A new commit or another limit helps."""


class Unreachable(SourceError):
    """The server did not answer, or broke off. Trying again later can help; `retry_after` is in how many seconds, where the server said so."""

    retry_after: float | None = None


class Throttled(Unreachable):
    """The server wants to be asked less often."""


class Unauthorized(SourceError):
    """The server, or the check of its identity, said no. Somebody must change a credential or a permission."""


class RevisionNotFound(SourceError):
    """The branch, tag or commit does not exist there. It may come, or come back."""


class DamagedCache(SourceError):
    """The local copy is broken and could not be replaced yet. Nothing from it was used."""


class CacheUnavailable(SourceError):
    """The cache directory cannot be written, or somebody else has kept it locked. What was read before stays
    readable.
    """


class Stopped(SourceError):
    """The process comes to its end, and what it asked for is not waited for any more."""


class NewerRecords(GitopsError):
    """The cluster is looked after by a later version, whose records this one does not know."""
