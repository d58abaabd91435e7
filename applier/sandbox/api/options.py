"""Options of requests: query parameters, and for deletions the body.

Source: ListOptions, CreateOptions, UpdateOptions, PatchOptions and DeleteOptions of meta.k8s.io/v1, with apimachinery's validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from applier.sandbox.api.request_path import flag
from applier.sandbox.wire import (
    Refusal,
    RefusalSubject,
    Request,
    StatusCause,
    bad_request,
    forbidden,
    invalid_object,
    required,
    too_long,
    unsupported,
)
from renderer.frozen import dataclass

_POLICIES = ("Foreground", "Background", "Orphan")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_MATCH = "resourceVersionMatch"
_MATCHES = ("Exact", "NotOlderThan")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`validation` is Strict, Warn or Ignore; `force` is for server-side apply only."""

    manager: str
    dry_run: bool
    validation: str
    force: bool


def write_options(request: Request, query: Mapping[str, str], verb: str, *, apply: bool = False) -> WriteOptions:
    """Options of a create, update or patch. Raises Refusal (422)."""
    named = query.get("fieldManager", "")
    mistakes = [*_dry_run(query), *_field_manager(named, apply=apply)]
    if (asked := query.get("fieldValidation", "")) not in _VALIDATIONS:
        mistakes.append(unsupported("fieldValidation", asked, _VALIDATIONS))
    if "force" in query and verb == "patch" and not apply:
        mistakes.append(forbidden("force", "may not be specified for non-apply patch"))
    if mistakes:
        raise invalid_object(RefusalSubject("meta.k8s.io", "", f"{verb.capitalize()}Options"), mistakes)
    manager = named or request.headers.get("user-agent", "").partition("/")[0][:128] or "unknown"
    return WriteOptions(manager, "dryRun" in query, asked or "Warn", flag(query, "force"))


def _dry_run(query: Mapping[str, str]) -> list[StatusCause]:
    asked = query.get("dryRun")
    return [] if asked in (None, "All") else [unsupported("dryRun", [asked], ["All"])]


def _field_manager(name: str, *, apply: bool) -> list[StatusCause]:
    if apply and not name:
        return [required("fieldManager", "is required for apply patch")]
    if len(name.encode()) > 128:
        return [too_long("fieldManager", "may not be more than 128 bytes")]
    return (
        []
        if name.isprintable()
        else [StatusCause("fieldManager", "FieldValueInvalid", "should be printable characters")]
    )


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """`propagation` is Background, Foreground or Orphan; "" leaves it to the server."""

    uid: str = ""
    version: str = ""
    propagation: str = ""
    dry_run: bool = False


def delete_options(request: Request, query: Mapping[str, str]) -> DeleteOptions:
    """Options of a deletion, from the body if there is one, else from the query. Raises Refusal (400, 422)."""
    body = _delete_body(request.body)
    preconditions = body.get("preconditions") or {}
    dry = body.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    orphan = body.get("orphanDependents")
    if orphan is not None and not policy:
        policy = "Orphan" if orphan else "Background"
    if not isinstance(preconditions, dict) or not isinstance(dry, list) or not isinstance(policy, str):
        raise bad_request("the body is no DeleteOptions")
    mistakes = [unsupported("dryRun", dry, ["All"])] if dry not in ([], ["All"]) else []
    if policy and policy not in _POLICIES:
        mistakes.append(unsupported("propagationPolicy", policy, (*_POLICIES, "nil")))
    if mistakes:
        raise invalid_object(RefusalSubject("meta.k8s.io", "", "DeleteOptions"), mistakes)
    uid, version = preconditions.get("uid") or "", preconditions.get("resourceVersion") or ""
    if not isinstance(uid, str) or not isinstance(version, str):
        raise bad_request("preconditions of DeleteOptions are texts")
    return DeleteOptions(uid, version, policy, bool(dry))


def _delete_body(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        options = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(options, dict):
        raise bad_request("the body is no DeleteOptions")
    kind = options.get("kind")
    if kind not in (None, "DeleteOptions"):
        raise bad_request(f'{kind} in version "{options.get("apiVersion", "")}" cannot be handled as DeleteOptions')
    return options


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Of a list or a watch. `version` is None where none is given; `limit` 0 is none, as are `seconds`; `initial` is
    whether a watch begins with what is there, None if that is left to the version.
    """

    version: int | None = None
    exact: bool = False
    limit: int = 0
    token: str = ""
    seconds: int = 0
    initial: bool | None = None
    bookmarks: bool = False


def list_options(query: Mapping[str, str], *, watching: bool = False) -> ListOptions:
    """Raises Refusal (400, 422; 500 for the version of a watch)."""
    limit, seconds = _number(query, "limit"), _number(query, "timeoutSeconds")
    initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    text, match, token = (query.get(name, "") for name in ("resourceVersion", _MATCH, "continue"))
    if mistakes := list(_of_watch(match, initial) if watching else _of_list(match, text, token, initial)):
        raise invalid_object(RefusalSubject("meta.k8s.io", "", "ListOptions"), mistakes)
    if token and text not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    version = version_of(text, told="" if watching else "invalid resource version: ", code=500 if watching else 400)
    return ListOptions(version, match == "Exact", limit, token, seconds, initial, flag(query, "allowWatchBookmarks"))


def _of_list(match: str, version: str, token: str, initial: bool | None) -> Iterator[StatusCause]:
    if match and not version:
        yield forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided")
    if match and token:
        yield forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided")
    if match == "Exact" and version == "0":
        yield forbidden(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"')
    if match not in ("", *_MATCHES):
        yield unsupported(_MATCH, match, (*_MATCHES, ""))
    if initial is not None:
        yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _of_watch(match: str, initial: bool | None) -> Iterator[StatusCause]:
    if initial is not None and match != "NotOlderThan":
        yield forbidden(_MATCH, f"sendInitialEvents requires setting {_MATCH} to NotOlderThan")
    if initial is None and match:
        yield forbidden(_MATCH, f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided")


def version_of(text: str, *, told: str = "", code: int = 500) -> int | None:
    """A resourceVersion, None for none. Raises Refusal with `code` and a message that begins with `told`."""
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,20}", text) or int(text) >= 2**64:
        message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise Refusal(code, "BadRequest" if code == 400 else "", told + message)
    return int(text)


def _number(query: Mapping[str, str], name: str) -> int:
    """A parameter that is a whole number of 64 bits, 0 if it is not given. Raises Refusal (400)."""
    text = query.get(name, "0")
    if not re.fullmatch("[+-]?[0-9]{1,19}", text) or not -(2**63) <= int(text) < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)
