"""Errors of the applier, one class for each reaction of the caller. The adapters translate other errors into these."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Self

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StatusCause:
    """Entry of `details.causes` in the status object with which a server refuses a request.

    `field` is the path of the rejected field, `reason` is the reason code, and `message` is a text for people.
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
    """Failure of a request that the server refused or did not answer.

    `status` is the HTTP status, or 0 without an answer. `reason` is the reason code of the server, and `causes` are the
    details of the refusal. The text of the error never contains values of Secrets.
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

    Each of `causes` is about one field, and the message of the cause names the manager.
    """


class StaleWrite(ClusterError):
    """Failure of a write whose precondition (uid or resourceVersion) did not hold.

    The caller reads the object again, then decides again.
    """


class Invalid(ClusterError):
    """Failure of a request because of a mistake of the author (422, 400, or 500 from a typed patch).

    The server will never accept the object of this request.
    """


class Immutable(Invalid):
    """Failure of a change of fields that cannot change while the object exists.

    Only a new object can have other values in these fields.
    """


class AdoptionWouldChange(ClusterError):
    """Failure of an adoption that would change fields, although only an adoption without changes was permitted.

    The message names these fields.
    """


class ServerAltered(ClusterError):
    """Failure of a write that the server stored differently, so that the next plan would repeat the write.

    The message names the difference.
    """


class Denied(ClusterError):
    """Failure of a request that RBAC, a quota or admission forbids."""


class NamespaceTerminating(ClusterError):
    """Refusal of a write into a namespace that is being deleted.

    The caller does not report a failure, and waits until the namespace is gone.
    """


class Unavailable(ClusterError):
    """Failure of a request that an overloaded or unreachable server certainly did not carry out.

    `retry_after` is in seconds, or None if the server sent no such time. If `is_transient` is true, the same request
    may succeed within seconds.
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
    """Failure of a write that the server postponed at every attempt for minutes.

    A person has to find the cause. Levelgate continues to retry the write.
    """


class UnknownOutcome(ClusterError):
    """Unknown outcome: the server may or may not have carried out the write. The caller reads the object first."""


class WriteInFlight(ClusterError):
    """Missing answer to a write in flight. The state of the written object is unknown."""


class ConfigurationError(ApplierError):
    """Failure to choose a cluster or to use its credentials. The message names the correction."""
