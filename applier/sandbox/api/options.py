"""Options of requests: query parameters and, for deletions, the body.

Source: ListOptions, CreateOptions, UpdateOptions, PatchOptions and DeleteOptions of meta.k8s.io/v1, and their
validation in apimachinery.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from applier.errors import StatusCause
from applier.sandbox.api.request_path import parse_flag
from applier.sandbox.wire import (
    Refusal,
    RefusalSubject,
    Request,
    bad_request,
    forbidden_field,
    invalid_object,
    required_value,
    too_long_value,
    unsupported_value,
)
from renderer.frozen import dataclass

_PROPAGATION_POLICIES = ("Foreground", "Background", "Orphan")
_FIELD_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_VERSION_MATCH = "resourceVersionMatch"
_VERSION_MATCHES = ("Exact", "NotOlderThan")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a create, update, patch or apply."""

    manager: str
    dry_run: bool
    field_validation: str
    """Reaction to unknown or duplicate fields: Ignore, Strict or Warn."""
    force: bool
    """True if a server-side apply takes over fields of other managers."""


def parse_write_options(request: Request, query: Mapping[str, str], verb: str, *, apply: bool = False) -> WriteOptions:
    """Return the options in `query` of a create, update or patch.

    Raises: Refusal (422 if an option has an unknown value, or is not allowed).
    """
    field_manager = query.get("fieldManager", "")
    mistakes = [*_check_dry_run(query), *_check_field_manager(field_manager, apply=apply)]
    if (field_validation := query.get("fieldValidation", "")) not in _FIELD_VALIDATIONS:
        mistakes.append(unsupported_value("fieldValidation", field_validation, _FIELD_VALIDATIONS))
    if "force" in query and verb == "patch" and not apply:
        mistakes.append(forbidden_field("force", "may not be specified for non-apply patch"))
    if mistakes:
        raise invalid_object(RefusalSubject("meta.k8s.io", "", f"{verb.capitalize()}Options"), mistakes)
    manager = field_manager or request.headers.get("user-agent", "").partition("/")[0][:128] or "unknown"
    return WriteOptions(manager, "dryRun" in query, field_validation or "Warn", parse_flag(query, "force"))


def _check_dry_run(query: Mapping[str, str]) -> list[StatusCause]:
    value = query.get("dryRun")
    return [] if value in (None, "All") else [unsupported_value("dryRun", [value], ["All"])]


def _check_field_manager(name: str, *, apply: bool) -> list[StatusCause]:
    if apply and not name:
        return [required_value("fieldManager", "is required for apply patch")]
    if len(name.encode()) > 128:
        return [too_long_value("fieldManager", "may not be more than 128 bytes")]
    return (
        []
        if name.isprintable()
        else [StatusCause("fieldManager", "FieldValueInvalid", "should be printable characters")]
    )


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Preconditions, propagation policy and dry run of a deletion."""

    uid: str = ""
    """Uid that the object must have, or an empty string for any uid."""
    version: str = ""
    """resourceVersion that the object must have, or an empty string for any version."""
    propagation: str = ""
    """Policy for dependents: Background, Foreground or Orphan. If the policy is empty, the finalizers that the object
    has decide.
    """
    dry_run: bool = False


def parse_delete_options(request: Request, query: Mapping[str, str]) -> DeleteOptions:
    """Return the options of a deletion.

    For a policy or dry run, the body of `request` has precedence over `query`.

    Raises: Refusal (400 if the body is malformed, 422 if an option has an unknown value).
    """
    body = _parse_delete_body(request.body)
    preconditions = body.get("preconditions") or {}
    dry_run = body.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    orphan = body.get("orphanDependents")
    if orphan is not None and not policy:
        policy = "Orphan" if orphan else "Background"
    if not isinstance(preconditions, dict) or not isinstance(dry_run, list) or not isinstance(policy, str):
        raise bad_request("the body is not a DeleteOptions object; send a JSON object")
    mistakes = [unsupported_value("dryRun", dry_run, ["All"])] if dry_run not in ([], ["All"]) else []
    if policy and policy not in _PROPAGATION_POLICIES:
        mistakes.append(unsupported_value("propagationPolicy", policy, (*_PROPAGATION_POLICIES, "nil")))
    if mistakes:
        raise invalid_object(RefusalSubject("meta.k8s.io", "", "DeleteOptions"), mistakes)
    uid, version = preconditions.get("uid") or "", preconditions.get("resourceVersion") or ""
    if not isinstance(uid, str) or not isinstance(version, str):
        raise bad_request("the preconditions of DeleteOptions are not strings; send uid and resourceVersion as strings")
    return DeleteOptions(uid, version, policy, bool(dry_run))


def _parse_delete_body(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        options = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(options, dict):
        raise bad_request("the body is not a DeleteOptions object; send a JSON object")
    kind = options.get("kind")
    if kind not in (None, "DeleteOptions"):
        raise bad_request(f'{kind} in version "{options.get("apiVersion", "")}" cannot be handled as DeleteOptions')
    return options


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of a list or a watch."""

    version: int | None
    """resourceVersion that the client sent, or None if the client sent no resourceVersion."""
    exact: bool
    limit: int
    """Maximum number of objects on a page, or 0 for no limit."""
    continue_token: str
    timeout_seconds: int
    """Seconds until the watch ends, or 0 for no limit."""
    send_initial_events: bool | None
    """True if a watch begins with the present objects. If the value is None, `version` decides."""
    allow_bookmarks: bool


def parse_list_options(query: Mapping[str, str], *, watching: bool = False) -> ListOptions:
    """Return the options in `query` of a list or a watch.

    Raises: Refusal (422 for options that exclude each other, 500 for a malformed resourceVersion of a watch, 400 for
    all other mistakes).
    """
    limit, timeout_seconds = _parse_int_parameter(query, "limit"), _parse_int_parameter(query, "timeoutSeconds")
    send_initial_events = parse_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    version_text, version_match, continue_token = (
        query.get(name, "") for name in ("resourceVersion", _VERSION_MATCH, "continue")
    )
    if mistakes := list(
        _check_watch_options(version_match, send_initial_events)
        if watching
        else _check_list_options(version_match, version_text, continue_token, send_initial_events)
    ):
        raise invalid_object(RefusalSubject("meta.k8s.io", "", "ListOptions"), mistakes)
    if continue_token and version_text not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    version = parse_resource_version(
        version_text, message_prefix="" if watching else "invalid resource version: ", code=500 if watching else 400
    )
    return ListOptions(
        version,
        version_match == "Exact",
        limit,
        continue_token,
        timeout_seconds,
        send_initial_events,
        parse_flag(query, "allowWatchBookmarks"),
    )


def _check_list_options(
    version_match: str, version: str, continue_token: str, send_initial_events: bool | None
) -> Iterator[StatusCause]:
    if version_match and not version:
        yield forbidden_field(_VERSION_MATCH, f"{_VERSION_MATCH} is forbidden unless resourceVersion is provided")
    if version_match and continue_token:
        yield forbidden_field(_VERSION_MATCH, f"{_VERSION_MATCH} is forbidden when continue is provided")
    if version_match == "Exact" and version == "0":
        yield forbidden_field(_VERSION_MATCH, f'{_VERSION_MATCH} "exact" is forbidden for resourceVersion "0"')
    if version_match not in ("", *_VERSION_MATCHES):
        yield unsupported_value(_VERSION_MATCH, version_match, (*_VERSION_MATCHES, ""))
    if send_initial_events is not None:
        yield forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _check_watch_options(version_match: str, send_initial_events: bool | None) -> Iterator[StatusCause]:
    if send_initial_events is not None and version_match != "NotOlderThan":
        yield forbidden_field(_VERSION_MATCH, f"sendInitialEvents requires setting {_VERSION_MATCH} to NotOlderThan")
    if send_initial_events is None and version_match:
        yield forbidden_field(
            _VERSION_MATCH, f"{_VERSION_MATCH} is forbidden for watch unless sendInitialEvents is provided"
        )


def parse_resource_version(text: str, *, message_prefix: str = "", code: int = 500) -> int | None:
    """Return the resourceVersion in `text`, or None if `text` is empty.

    Args:
        message_prefix: beginning of the message of the Refusal.
        code: HTTP status of the Refusal.

    Raises: Refusal if `text` is not an unsigned 64-bit integer.
    """
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,20}", text) or int(text) >= 2**64:
        message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise Refusal(code, "BadRequest" if code == 400 else "", message_prefix + message)
    return int(text)


def _parse_int_parameter(query: Mapping[str, str], name: str) -> int:
    """Return the parameter `name` as a 64-bit integer, or 0 if the parameter is absent.

    Raises: Refusal (400 if the parameter is not a 64-bit integer).
    """
    text = query.get(name, "0")
    if not re.fullmatch("[+-]?[0-9]{1,19}", text) or not -(2**63) <= int(text) < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)
