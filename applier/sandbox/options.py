"""Options of write requests: query parameters, and for deletions the body.

Source: CreateOptions, UpdateOptions, PatchOptions and DeleteOptions of meta.k8s.io/v1, with apimachinery's validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from applier.sandbox.wire import (
    Mistake,
    Request,
    Subject,
    bad_request,
    forbidden,
    invalid_object,
    required,
    too_long,
    unsupported,
)
from renderer.values import dataclass

_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_POLICIES = ("Foreground", "Background", "Orphan")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


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
        raise invalid_object(Subject("meta.k8s.io", "", f"{verb.capitalize()}Options"), mistakes)
    manager = named or request.headers.get("user-agent", "").partition("/")[0][:128] or "unknown"
    return WriteOptions(manager, "dryRun" in query, asked or "Warn", query.get("force", "") in _TRUE)


def _dry_run(query: Mapping[str, str]) -> list[Mistake]:
    asked = query.get("dryRun")
    return [] if asked in (None, "All") else [unsupported("dryRun", [asked], ["All"])]


def _field_manager(name: str, *, apply: bool) -> list[Mistake]:
    if apply and not name:
        return [required("fieldManager", "is required for apply patch")]
    if len(name.encode()) > 128:
        return [too_long("fieldManager", "may not be more than 128 bytes")]
    return (
        [] if name.isprintable() else [Mistake("fieldManager", "FieldValueInvalid", "should be printable characters")]
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
        raise invalid_object(Subject("meta.k8s.io", "", "DeleteOptions"), mistakes)
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
