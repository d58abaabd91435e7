"""Values that cross every endpoint of the sandbox: requests, responses and refusals.

Any part of the API may raise a `Refusal`, and `Sandbox.handle` converts the refusal to a `Status` object. A status
cause is an entry of `details.causes` of the Status. The entry contains the field, the reason and the message of a
single mistake. The API server uses the same messages.

Source: Kubernetes API conventions, "Response Status Kind".
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
"""Maximum size of the body of a request, in bytes. The API server has the same limit."""


@dataclass(frozen=True, slots=True)
class Request:
    """HTTP request to a sandbox."""

    method: str
    target: str
    """Percent-encoded path with its query."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers, with names in lower case."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """HTTP response of a sandbox."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncIterator[bytes] | None = None
    """Events of a watch in place of the body, or None for any other response."""


def required_value(field: str, detail: str = "") -> StatusCause:
    """Return the status cause that refuses an object because `field` has no value.

    Source: `field.Required` of apimachinery.
    """
    return StatusCause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> StatusCause:
    """Return the status cause that refuses an object because `value` is invalid in `field`.

    Source: `field.Invalid` of apimachinery.
    """
    return StatusCause(field, "FieldValueInvalid", f"Invalid value: {format_json(value)}: {detail}")


def immutable_field(field: str, value: object) -> StatusCause:
    """Return the status cause that refuses a change of the immutable `field` to `value`.

    Source: `ValidateImmutableField` of apimachinery.
    """
    return invalid_value(field, value, "field is immutable")


def forbidden_field(field: str, detail: str) -> StatusCause:
    """Return the status cause that refuses an object because `field` is forbidden.

    Source: `field.Forbidden` of apimachinery.
    """
    return StatusCause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def unsupported_value(field: str, value: object, allowed: Sequence[str]) -> StatusCause:
    """Return the status cause that refuses an object because `value` of `field` is not in `allowed`.

    Source: `field.NotSupported` of apimachinery.
    """
    choices = ", ".join(f'"{choice}"' for choice in allowed)
    return StatusCause(
        field, "FieldValueNotSupported", f"Unsupported value: {format_json(value)}: supported values: {choices}"
    )


def too_long_value(field: str, detail: str) -> StatusCause:
    """Return the status cause that refuses an object because the value in `field` is too long.

    Source: `field.TooLong` of apimachinery.
    """
    return StatusCause(field, "FieldValueTooLong", f"Too long: {detail}")


def format_json(value: object) -> str:
    """Return `value` as JSON in the form of the API server's messages."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS, default=str).decode()


class Refusal(Exception):
    """Rejection of a request, with a Status object.

    Args:
        code: HTTP status.
        reason: reason code, or an empty string if the server sends no reason.
        retry_after: seconds after which the server asks the client to retry, or 0 if the server sends no such time.
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
    """Rejection of a request to an unknown path. The API server answers in plain text."""

    response = Response(404, b"404 page not found\n", TEXT)


@dataclass(frozen=True, slots=True)
class RefusalSubject:
    """Kind and name to which a refusal refers.

    Messages about paths contain the `resource` of the subject. Messages about content contain the `group_kind`.
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

        If `content` is true, the field `kind` contains the kind. Otherwise the field contains the plural.
        """
        values = {"name": self.name, "group": self.group, "kind": self.kind if content else self.plural} | more
        return {key: value for key, value in values.items() if value}


def bad_request(message: str) -> Refusal:
    """Return a refusal with status 400 and `message`.

    Source: `errors.NewBadRequest` of apimachinery.
    """
    return Refusal(400, "BadRequest", message)


def not_found_refusal(subject: RefusalSubject) -> Refusal:
    """Return the refusal with status 404 for the absent object `subject`.

    Source: `errors.NewNotFound` of apimachinery.
    """
    return Refusal(404, "NotFound", f'{subject.resource} "{subject.name}" not found', details=subject.details())


def unknown_resource_refusal() -> Refusal:
    """Return the refusal with status 404 for a path that names no resource below a served group version."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed_refusal() -> Refusal:
    """Return the refusal with status 405 for a method that the path does not allow.

    Source: `errors.NewGenericServerResponse` of apimachinery.
    """
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, details={})


def already_exists_refusal(subject: RefusalSubject) -> Refusal:
    """Return the refusal with status 409 for the existing object `subject`.

    Source: `errors.NewAlreadyExists` of apimachinery.
    """
    message = f'{subject.resource} "{subject.name}" already exists'
    return Refusal(409, "AlreadyExists", message, details=subject.details())


def conflict(subject: RefusalSubject, detail: str, *, content: bool = False) -> Refusal:
    """Return a refusal with status 409.

    If `content` is true, the message of the refusal names the kind. Otherwise the message names the plural.

    Source: `errors.NewConflict` of apimachinery.
    """
    name = subject.group_kind if content else subject.resource
    message = f'Operation cannot be fulfilled on {name} "{subject.name}": {detail}'
    return Refusal(409, "Conflict", message, details=subject.details(content=content))


def invalid_object(subject: RefusalSubject, status_causes: Sequence[StatusCause]) -> Refusal:
    """Return a refusal with status 422 that contains each of `status_causes`."""
    texts = [f"{cause.field}: {cause.message}" for cause in status_causes]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{subject.group_kind} "{subject.name}" is invalid: {summary}'
    causes = [cause.as_dict for cause in status_causes]
    return Refusal(422, "Invalid", message, details=subject.details(content=True, causes=causes))


def expired_refusal(message: str) -> Refusal:
    """Return the refusal with status 410 for a dropped version.

    Source: `errors.NewResourceExpired` of apimachinery.
    """
    return Refusal(410, "Expired", message)


class ConnectionDroppedError(Exception):
    """End of a connection without an answer.

    Args:
        request_sent: True if the server may have executed the request.
    """

    def __init__(self, message: str, *, request_sent: bool) -> None:
        super().__init__(message)
        self.request_sent = request_sent
