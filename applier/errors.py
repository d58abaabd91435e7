"""Errors of the applier, one class for each reaction of the caller. The adapters translate foreign errors into them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Self

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StatusCause:
    """Entry of `details.causes` in a refusal.

    It holds the path `field`, the server's `reason`, and a `message` for people.
    """

    field: str
    reason: str
    message: str

    @property
    def as_dict(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApplierError(Exception):
    """Base of all errors that the applier raises."""


class ClusterError(ApplierError):
    """A request that the server refused or did not answer.

    `status` is the HTTP status, or 0 without an answer. `reason` is the server's reason code, and `causes` are its
    details. The text never contains values of Secrets.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", causes: tuple[StatusCause, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes

    def with_rewritten_text(self, rewrite: Callable[[str], str]) -> Self:
        """Return this error with `rewrite` applied to its message and to the messages of its causes."""
        rewritten = copy(self)
        rewritten.args = tuple(rewrite(argument) for argument in self.args)
        rewritten.causes = tuple(
            replace(status_cause, message=rewrite(status_cause.message)) for status_cause in self.causes
        )
        return rewritten


class NotFound(ClusterError):
    """A request for an object that does not exist."""


class KindNotServed(ClusterError):
    """A request for a kind that the server does not serve, at least not yet.

    This never proves that the kind has no objects.
    """


class FieldConflict(ClusterError):
    """A server-side apply of fields that other managers own.

    Each of `causes` is about one field, and its message names the manager.
    """


class StaleWrite(ClusterError):
    """A write whose precondition (uid or resourceVersion) did not hold.

    The caller reads the object again, then decides again.
    """


class Invalid(ClusterError):
    """A request with a mistake of the author (422, 400, or 500 from a typed patch).

    The server will never accept this object.
    """


class Immutable(Invalid):
    """A change of fields that the object keeps for life.

    Only a new object can have other values.
    """


class AdoptionWouldChange(ClusterError):
    """An adoption that was permitted only without changes, and would change fields.

    The message names these fields.
    """


class ServerAltered(ClusterError):
    """A write that the server stored differently, so that the next plan would repeat it.

    The message names the difference.
    """


class Denied(ClusterError):
    """A request that RBAC, a quota or admission forbids."""


class NamespaceTerminating(ClusterError):
    """A write into a namespace that is being deleted.

    This is not a failure. The caller waits until the namespace is gone.
    """


class Unavailable(ClusterError):
    """A request that an overloaded or unreachable server certainly did not carry out.

    `retry_after` is in seconds, or None if the server did not say. If `is_transient`, the same request may succeed
    within seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after: float | None = None,
        is_transient: bool = False,
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after = retry_after
        self.is_transient = is_transient


class PostponedTooLong(ClusterError):
    """A write that the server postponed at every attempt for minutes.

    A person has to find the cause. Attempts continue.
    """


class UnknownOutcome(ClusterError):
    """A write that the server may or may not have carried out. The caller reads the object before it decides."""


class WriteInFlight(ClusterError):
    """A write without an answer yet. The state of its object is unknown."""


class ConfigurationError(ApplierError):
    """A cluster that cannot be chosen, or credentials that cannot be used. The message says what to do."""
