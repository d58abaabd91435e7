"""Translation of refused requests into the errors of `applier.errors`.

The module is pure. Tests on a real API server (Kubernetes 1.36) confirm the rules. The statuses 409 and 404 have
several meanings each. If the body of an apply has an unknown field, the server answers with status 500. For a Secret,
the translation keeps only the reason, field paths and a few phrases that cannot contain a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from applier.errors import (
    ClusterError,
    Denied,
    FieldConflict,
    Immutable,
    Invalid,
    KindNotServed,
    NamespaceTerminating,
    NotFound,
    StaleWrite,
    StatusCause,
    Unavailable,
    UnknownOutcome,
)
from renderer import well_known
from renderer.identity import OWN_NAMESPACE

_FIELD_CONFLICT, _NAMESPACE_TERMINATING = "FieldManagerConflict", "NamespaceTerminating"
_INVALID_BODY = re.compile(
    r"failed to (?:create typed (?:patch|live) object \([^)]*\)"
    r"|convert new object \([^)]*\) to proper version: unable to convert unstructured object to [^:]*)"
    r": (?P<fault>.*)",
    re.DOTALL,
)
"""The server's message for a body that does not fit the schema. A failing conversion webhook causes a different
message.
"""

_TOO_LARGE = re.compile(r"etcdserver: request is too large|trying to send message larger than max")
"""Messages of etcd (limit 1.5 MiB, with managed fields) and of gRPC (limit 2 MiB). The server returns these messages
with the status 500.
"""

_IMMUTABLE_FIELD = re.compile(r"immutable|(?:may not|cannot) (?:be )?change|updates? to .*forbidden")
"""Messages about immutable fields from the validation of built-in kinds. The validation returns no reason code."""

_RBAC_REFUSAL = re.compile(
    r'User "(?P<user>[^"]*)" cannot \w+ resource "[^"]*" in API group "[^"]*"'
    r'(?: in the namespace "[^"]*"| at the cluster scope)?'
)
_WEBHOOK_SILENT = re.compile(r'failed calling webhook "[^"]*"')
_NO_NAMESPACE = re.compile(r'namespaces "([\w.-]+)" not found')
_TYPE_ERROR = re.compile(r"(?:^|\s)(\.[^\s:]+: (?:expected [a-z]+|field not declared in schema|duplicate entries))")
_SAFE_PHRASES = (
    _TOO_LARGE,
    re.compile(r"illegal base64 data at input byte \d+"),
    re.compile(r"field is immutable(?: when `immutable` is set)?"),
    re.compile(r'conflict with "[^"]*"(?: using [\w./]+)?'),
    re.compile(r'admission webhook "[^"]*" (?:denied the request|does not support dry run)'),
    re.compile(r'failed calling webhook "[^"]*"'),
    re.compile(r"exceeded quota: [\w.-]+"),
    _RBAC_REFUSAL,
    re.compile(r"the (\w+) in the precondition \([\w-]*\) does not match the \1 in record \([\w-]*\)"),
    re.compile(r"Precondition failed: (\w+) in precondition: [\w-]+, \1 in object meta: [\w-]*"),
    re.compile(r"the object has been modified"),
    re.compile(r"uid mismatch"),
    _NO_NAMESPACE,
)
"""Parts of server messages that name fields, managers, policies and versions, and cannot quote values of a Secret."""


def translate(
    status: int,
    body: bytes,
    *,
    description: str,
    is_write: bool,
    is_secret: bool = False,
    retry_after: float | None = None,
) -> ClusterError:
    """Return the error for an answer with an HTTP `status` of 4xx or 5xx.

    Args:
        body: a `Status` object, or the text of a proxy.
        description: name of the request in the error text.
        is_write: true if the outcome of the request is unknown after a server fault.
        is_secret: true if the error text must not contain a value.
        retry_after: seconds from the header Retry-After, or None.
    """
    document = _status_object(body)
    reason = str(document.get("reason") or "") if document else ""
    causes = _causes(document, is_secret=is_secret)
    error_class = _classify(status, document, is_write=is_write)
    refusal_text = (
        _describe_secret_refusal(document, causes, reason or error_class.__name__)
        if is_secret
        else _describe_refusal(document, body, status)
    )
    text = "; ".join(filter(None, (f"{description}: {refusal_text}", _advice(error_class, _message(document)))))
    if error_class is Unavailable:
        return Unavailable(text, status=status, reason=reason, retry_after=retry_after)
    return error_class(text, status=status, reason=reason, causes=causes)


def _advice(error_class: type[ClusterError], message: str) -> str:
    """Return advice about an error, or an empty string if the message of the server contains the advice."""
    if error_class is Denied and (rbac_refusal := _RBAC_REFUSAL.search(message)):
        return _grant_advice(rbac_refusal["user"])
    if missing_namespace := _NO_NAMESPACE.search(message):
        return (
            f"add Namespace {missing_namespace[1]} to Git, so that Levelgate creates the Namespace first, "
            "or create the Namespace by hand"
        )
    if error_class is NamespaceTerminating and (
        terminating_namespace := re.search(r"in namespace (\S+) because", message)
    ):
        return f"find the remaining contents: `kubectl describe namespace {terminating_namespace[1]}`"
    if _WEBHOOK_SILENT.search(message):
        return (
            "repair the webhook, or delete its configuration: "
            "`kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations`"
        )
    return ""


def _grant_advice(user: str) -> str:
    """Return advice on how to grant a right to `user`.

    The service account of Levelgate has the rights of all ClusterRoles with the label in `well_known.AGGREGATE`.
    """
    if user == f"system:serviceaccount:{OWN_NAMESPACE}:levelgate":
        advice = f"grant the right by a ClusterRole with the label {well_known.AGGREGATE}: levelgate"
        return f"{advice}; `levelgate generate clusterrole` generates the rights that definitions need"
    return f"bind a role that allows the request to {user}; `levelgate generate clusterrole` lists the needed rights"


def _classify(status: int, document: Mapping[str, Any] | None, *, is_write: bool) -> type[ClusterError]:
    match status:
        case 404:
            # For an unknown path the server returns plain text, or a Status without the name of an object.
            return NotFound if _details(document).get("name") else KindNotServed
        case 409:
            return FieldConflict if _has_cause(document, _FIELD_CONFLICT) else StaleWrite
        case 422:
            return (
                StaleWrite if _is_wrong_uid_only(document) else Immutable if _is_immutable_only(document) else Invalid
            )
        case 400 | 405 | 406 | 413 | 415:
            return Invalid
        case 401:
            return Denied
        case 403:
            return NamespaceTerminating if _has_cause(document, _NAMESPACE_TERMINATING) else Denied
        case 429 | 503:
            return Unavailable
        case _ if status >= 500:
            return _classify_server_fault(_message(document), is_write=is_write)
        case _:
            return ClusterError


def _is_wrong_uid_only(document: Mapping[str, Any] | None) -> bool:
    return {cause.get("field") for cause in _details(document).get("causes") or []} == {"metadata.uid"}


def _is_immutable_only(document: Mapping[str, Any] | None) -> bool:
    """Return whether all causes are immutable fields, so that the server would accept a new object with the fields."""
    causes = _details(document).get("causes") or []
    return bool(causes) and all(_IMMUTABLE_FIELD.search(cause.get("message") or "") for cause in causes)


def _classify_server_fault(message: str, *, is_write: bool) -> type[ClusterError]:
    if _INVALID_BODY.search(message) or _TOO_LARGE.search(message):
        return Invalid
    # Admission precedes storage, so if a webhook did not answer, nothing was written.
    if not is_write or _WEBHOOK_SILENT.search(message):
        return Unavailable
    return UnknownOutcome


def _status_object(body: bytes) -> Mapping[str, Any] | None:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) and document.get("kind") == "Status" else None


def _message(document: Mapping[str, Any] | None) -> str:
    return str(document.get("message") or "") if document else ""


def _details(document: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (document.get("details") or {}) if document else {}


def _has_cause(document: Mapping[str, Any] | None, reason: str) -> bool:
    return any(cause.get("reason") == reason for cause in _details(document).get("causes") or [])


def _causes(document: Mapping[str, Any] | None, *, is_secret: bool) -> tuple[StatusCause, ...]:
    return tuple(
        StatusCause(
            reason=cause.get("reason") or "",
            field=cause.get("field") or "",
            message=_safe_phrases(cause.get("message") or "") if is_secret else cause.get("message") or "",
        )
        for cause in _details(document).get("causes") or []
    )


def _describe_refusal(document: Mapping[str, Any] | None, body: bytes, status: int) -> str:
    if document is None:
        return _describe_plain_text(body, status)
    message = _message(document)
    fault = _INVALID_BODY.search(message)
    return _unique_lines(fault["fault"]) if fault else message or f"status {status}"


def _describe_plain_text(body: bytes, status: int) -> str:
    """Return a description of an answer that is not a `Status`, and so comes from a proxy or from an unknown path.

    If the first line of the text is short, quote the line.
    """
    line = body[:200].decode(errors="replace").strip().partition("\n")[0]
    return f"status {status}" if not line or line.startswith(("<", "{")) else f"status {status}: {line}"


def _describe_secret_refusal(document: Mapping[str, Any] | None, causes: tuple[StatusCause, ...], reason: str) -> str:
    """Return the harmless part of a refusal about a Secret: the reason, field paths and known phrases."""
    fields = dict.fromkeys(cause.field for cause in causes if cause.field)
    return ": ".join(part for part in (reason, ", ".join(fields), _safe_phrases(_message(document))) if part)


def _safe_phrases(message: str) -> str:
    phrases = [(occurrence.start(), occurrence.group(1)) for occurrence in _TYPE_ERROR.finditer(message)]
    phrases += [
        (occurrence.start(), occurrence.group())
        for pattern in _SAFE_PHRASES
        for occurrence in pattern.finditer(message)
    ]
    return "; ".join(dict.fromkeys(text for _, text in sorted(phrases)))


def _unique_lines(fault: str) -> str:
    """Return each line of `fault` once. The server repeats a fault for every version that it tried."""
    lines = dict.fromkeys(line.strip() for line in fault.splitlines() if line.strip() and line.strip() != "errors:")
    return "; ".join(lines)
