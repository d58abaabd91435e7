"""Errors of the applier: foreign errors are translated once, at the port, into a class per what the caller does about it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Self

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One cause of a refused request (`details.causes[]`): `reason` as the server names it, `field` a path, `message` for people."""

    field: str
    reason: str
    message: str

    @property
    def as_dict(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApplierError(Exception):
    """Base of all errors that the applier raises."""


class ClusterError(ApplierError):
    """The server refused or did not answer a request.

    `status` is the HTTP status (0: no answer), `reason` the server's word for it, `causes` its details. The text never holds values of Secrets.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", causes: tuple[StatusCause, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes

    def with_rewritten_text(self, rewrite: Callable[[str], str]) -> Self:
        """The same error in other words."""
        rewritten = copy(self)
        rewritten.args = tuple(rewrite(argument) for argument in self.args)
        rewritten.causes = tuple(
            replace(status_cause, message=rewrite(status_cause.message)) for status_cause in self.causes
        )
        return rewritten


class NotFound(ClusterError):
    """The object is absent."""


class KindNotServed(ClusterError):
    """The server does not serve this kind (yet). Never a proof that no object of it exists."""


class FieldConflict(ClusterError):
    """Server-side apply met fields that another manager owns; one cause per field, the message names manager and field."""


class StaleWrite(ClusterError):
    """A precondition (uid, resourceVersion) did not hold: read again, then decide again."""


class Invalid(ClusterError):
    """The server will never take this object as it stands: an author's mistake (422, 400, or 500 from a typed patch)."""


class Immutable(Invalid):
    """The object exists, and this changes fields that it keeps for life: only another object can have them."""


class AdoptionWouldChange(ClusterError):
    """The object is to be adopted only if that changes nothing, and it would; the text names the fields."""


class ServerAltered(ClusterError):
    """The server took the object and stores it otherwise, so that it would have to be written again at once; the text names what is changed."""


class Denied(ClusterError):
    """Not allowed: RBAC, quota, admission."""


class NamespaceTerminating(ClusterError):
    """The namespace is going away; waiting, not a fault."""


class Unavailable(ClusterError):
    """The server is overloaded or not reachable and has certainly not carried out the request. `retry_after` in seconds, None if not said; `again`:
    a matter of seconds, so that the same request may be sent again.
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
    """The server has put it off for minutes, whenever it was tried: somebody has to look why. It is still tried."""


class UnknownOutcome(ClusterError):
    """The request may or may not have been carried out: read back before deciding."""


class WriteInFlight(ClusterError):
    """The request was sent, and no answer has come yet: nothing is known of the object but that it is being written."""


class ConfigurationError(ApplierError):
    """No cluster can be chosen, or its credentials cannot be used; the text says what to do."""
