"""Errors of the applier, with a class for each reaction of the caller.

The adapters translate all other errors into errors of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Self

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StatusCause:
    """Entry of `details.causes` in the status object with which a server refuses a request."""

    field: str
    """Path of the rejected field."""
    reason: str
    """Reason code of the server, such as `FieldValueInvalid`."""
    message: str
    """Text for people."""

    @property
    def as_dict(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApplierError(Exception):
    """Base of all errors that the applier raises."""


class ClusterError(ApplierError):
    """Failure of a request that the server refuses or does not answer.

    The text of the error never contains values of Secrets.

    Args:
        status: HTTP status, or 0 if the server did not answer.
        reason: reason code of the server.
        causes: details of the refusal.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", causes: tuple[StatusCause, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes

    def with_rewritten_text(self, rewrite: Callable[[str], str]) -> Self:
        """Return this error with `rewrite` applied to the message of the error and to the messages of the causes."""
        rewritten = copy(self)
        rewritten.args = tuple(rewrite(argument) for argument in self.args)
        rewritten.causes = tuple(
            replace(status_cause, message=rewrite(status_cause.message)) for status_cause in self.causes
        )
        return rewritten


class NotFound(ClusterError):
    """Failure of a request for an object that does not exist."""


class KindNotServed(ClusterError):
    """Failure of a request for a kind that the server does not serve, at least not yet.

    This failure never proves that the kind has no objects.
    """


class FieldConflict(ClusterError):
    """Failure of a server-side apply that sets fields of other managers.

    Each of the causes is about one field, and the message of the cause names the manager of the field.
    """


class StaleWrite(ClusterError):
    """Failure of a write whose precondition (uid or resourceVersion) does not hold.

    The caller reads the object again, then decides again.
    """


class Invalid(ClusterError):
    """Failure of a request because the author made a mistake (422, 400, or 500 from a typed patch).

    The server will never accept the object of this request.
    """


class Immutable(Invalid):
    """Failure of a change of immutable fields.

    Only a new object can have other values in these fields.
    """


class AdoptionWouldChange(ClusterError):
    """Failure of an adoption that would change fields, although the author allows only an adoption without changes.

    The message names the fields.
    """


class ServerAltered(ClusterError):
    """Failure of a write whose values the server replaces, so that the next plan would repeat the write.

    The message describes the difference between the written values and the stored values.
    """


class Denied(ClusterError):
    """Failure of a request that RBAC, a quota or admission forbids."""


class NamespaceTerminating(ClusterError):
    """Refusal of a write into a terminating namespace.

    The caller reports no failure, and waits until the namespace is gone.
    """


class Unavailable(ClusterError):
    """Failure of a request that an overloaded or unreachable server certainly did not carry out.

    Args:
        retry_after: seconds after which the server asks for the next attempt, or None if the server sends no time.
        is_transient: True if the same request may succeed within seconds.
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
    """Failure of a write that the server has postponed at every attempt for several minutes.

    A person has to find the cause. Levelgate continues to retry the write.
    """


class UnknownOutcome(ClusterError):
    """Failure of a write that the server may or may not have carried out.

    Before the next write, the caller reads the object.
    """


class WriteInFlight(ClusterError):
    """Lack of an answer to a write that is still in flight. The state of the written object is unknown."""


class ConfigurationError(ApplierError):
    """Failure to choose a cluster or to use its credentials. The message tells how to correct the problem."""
