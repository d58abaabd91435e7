"""Values that cross every endpoint of the sandbox: requests, responses and refusals.

Any part of the API may raise a `Refusal`; `Sandbox.handle` turns it into a `Status` object. The messages are those of
the API server. Source: Kubernetes API conventions, "Response Status Kind".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import orjson

from applier.errors import StatusCause
from renderer.frozen import dataclass

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
MAX_BODY_BYTES = 3 * 1024 * 1024
"""Limit for the body of a request in bytes, as in the API server."""


@dataclass(frozen=True, slots=True)
class Request:
    """HTTP request to a sandbox.

    `target` is the percent-encoded path with its query. Names of `headers` are in lower case.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """HTTP response of a sandbox. If `stream` is set, it replaces `body`, and yields the events of a watch as lines."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncIterator[bytes] | None = None


def required_value(field: str, detail: str = "") -> StatusCause:
    """Return the cause of a missing value in `field`, as `field.Required` of apimachinery."""
    return StatusCause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> StatusCause:
    """Return the cause of the invalid `value` in `field`, as `field.Invalid` of apimachinery."""
    return StatusCause(field, "FieldValueInvalid", f"Invalid value: {format_json(value)}: {detail}")


def immutable_field(field: str, value: object) -> StatusCause:
    """Return the cause of a change to the immutable `field`, as `ValidateImmutableField` of apimachinery."""
    return invalid_value(field, value, "field is immutable")


def forbidden_field(field: str, detail: str) -> StatusCause:
    """Return the cause of the forbidden `field`, as `field.Forbidden` of apimachinery."""
    return StatusCause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def unsupported_value(field: str, value: object, allowed: Sequence[str]) -> StatusCause:
    """Return the cause of a `value` that is not one of `allowed`, as `field.NotSupported` of apimachinery."""
    choices = ", ".join(f'"{choice}"' for choice in allowed)
    return StatusCause(
        field, "FieldValueNotSupported", f"Unsupported value: {format_json(value)}: supported values: {choices}"
    )


def too_long_value(field: str, detail: str) -> StatusCause:
    """Return the cause of a value in `field` that is too long, as `field.TooLong` of apimachinery."""
    return StatusCause(field, "FieldValueTooLong", f"Too long: {detail}")


def format_json(value: object) -> str:
    """Return `value` as JSON in the form of the API server's messages."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS, default=str).decode()


class Refusal(Exception):
    """Rejection of a request, with the HTTP status `code` and a Status object.

    If the server gives no reason, `reason` is empty. `retry_after` is in seconds, and 0 if the client is not asked to
    retry.
    """

    def __init__(
        self, code: int, reason: str, message: str, *, details: Mapping[str, Any] | None = None, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = dict(details) | ({"retryAfterSeconds": retry_after} if retry_after else {})
        self.status["code"] = code
        self.retry_after = retry_after

    @property
    def response(self) -> Response:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        return Response(self.code, orjson.dumps(self.status), headers=headers)


def json_response(document: object) -> Response:
    """Return a response with status 200 and `document` as JSON."""
    return Response(200, orjson.dumps(document))


class UnknownPathError(Exception):
    """Request to a path at which nothing is served. The API server answers such a request in plain text."""

    response = Response(404, b"404 page not found\n", TEXT)


@dataclass(frozen=True, slots=True)
class RefusalSubject:
    """Kind and name to which a refusal refers.

    Messages about paths contain the `resource` of the subject, messages about content contain its `group_kind`.
    """

    group: str
    plural: str
    kind: str
    name: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def details(self, *, content: bool = False, **more: Any) -> dict[str, Any]:
        """Return the `details` of a Status, with the members of `more`.

        The field `kind` has the plural or, in a refusal of `content`, the kind.
        """
        values = {"name": self.name, "group": self.group, "kind": self.kind if content else self.plural} | more
        return {key: value for key, value in values.items() if value}


def bad_request(message: str) -> Refusal:
    """Return a 400 with `message`, as `errors.NewBadRequest` of apimachinery."""
    return Refusal(400, "BadRequest", message)


def not_found_refusal(subject: RefusalSubject) -> Refusal:
    """Return the 404 for the absent object `subject`, as `errors.NewNotFound` of apimachinery."""
    return Refusal(404, "NotFound", f'{subject.resource} "{subject.name}" not found', details=subject.details())


def unknown_resource_refusal() -> Refusal:
    """Return the 404 for a path that names no resource below a served group version."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed_refusal() -> Refusal:
    """Return a 405, as `errors.NewGenericServerResponse` of apimachinery."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, details={})


def already_exists_refusal(subject: RefusalSubject) -> Refusal:
    """Return the 409 for the existing object `subject`, as `errors.NewAlreadyExists` of apimachinery."""
    message = f'{subject.resource} "{subject.name}" already exists'
    return Refusal(409, "AlreadyExists", message, details=subject.details())


def conflict(subject: RefusalSubject, detail: str, *, content: bool = False) -> Refusal:
    """Return a 409, as `errors.NewConflict` of apimachinery. With `content`, its message names the kind."""
    name = subject.group_kind if content else subject.resource
    message = f'Operation cannot be fulfilled on {name} "{subject.name}": {detail}'
    return Refusal(409, "Conflict", message, details=subject.details(content=content))


def invalid_object(subject: RefusalSubject, status_causes: Sequence[StatusCause]) -> Refusal:
    """Return a 422 with a cause for each of `status_causes`."""
    texts = [f"{cause.field}: {cause.message}" for cause in status_causes]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{subject.group_kind} "{subject.name}" is invalid: {summary}'
    causes = [cause.as_dict for cause in status_causes]
    return Refusal(422, "Invalid", message, details=subject.details(content=True, causes=causes))


def expired_refusal(message: str) -> Refusal:
    """Return the 410 for a version that was dropped, as `errors.NewResourceExpired` of apimachinery."""
    return Refusal(410, "Expired", message)


class ConnectionDroppedError(Exception):
    """End of a connection without an answer. If `request_sent`, the request may have been executed."""

    def __init__(self, message: str, *, request_sent: bool) -> None:
        super().__init__(message)
        self.request_sent = request_sent
