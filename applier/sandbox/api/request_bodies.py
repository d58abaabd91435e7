"""Bodies of write requests: objects, patches and intents, read by the rules of their kind.

Everything that cannot be read is refused here, with the words of the API server's decoders.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from applier.sandbox.api.options import WriteOptions
from applier.sandbox.api.protobuf import MEDIA_TYPE, UnreadableError, read
from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.kinds import metadata as rules
from applier.sandbox.kinds.go_types import GoType
from applier.sandbox.kinds.registry import Fitted, ServedKind
from applier.sandbox.merge.json_patch import MOST_OPERATIONS, json_patch, merge_patch
from applier.sandbox.merge.strategic_patch import strategic_merge
from applier.sandbox.wire import (
    Refusal,
    RefusalSubject,
    Request,
    StatusCause,
    bad_request,
    invalid,
    invalid_object,
    shown,
)

Object = dict[str, Any]

APPLY = "application/apply-patch+yaml"
_MERGE, _JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip()


def as_json(request: Request, form: GoType | None) -> Request:
    """A request whose body is JSON, where it was protobuf of something of this form. Raises Refusal (400)."""
    if form is None or media_type(request) != MEDIA_TYPE:
        return request
    try:
        body = orjson.dumps(read(request.body, form))
    except UnreadableError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None
    return replace(request, headers={**request.headers, "content-type": "application/json"}, body=body)


def decoded(kind: ServedKind, request: Request) -> Object:
    """The body of a create or update, an object of this kind. Raises Refusal (400, 415, 422)."""
    body = request.body
    sent = media_type(request)
    if sent not in ("", "application/json", "*/*"):
        message = (
            "the body of the request was in an unknown format - accepted media types include: application/json "
            f"(the sandbox reads no {sent})"
        )
        raise Refusal(415, "UnsupportedMediaType", message)
    try:
        obj = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        text = body[:200].decode(errors="replace") or "<empty>"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): "
            f"couldn't get version/kind; json parse error: {error} ({text})"
        ) from None
    if not isinstance(obj, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; "
            f"json parse error: json: cannot unmarshal {rules.go_kind(obj)} into an object"
        )
    _check_type(kind, obj, body)
    return obj


def _check_type(kind: ServedKind, obj: Object, body: bytes) -> None:
    """apiVersion and kind must be those of the address; built-in kinds may leave them out."""
    api_version, name = obj.get("apiVersion"), obj.get("kind")
    if not kind.custom:
        sent = (api_version or kind.api_version, name or kind.kind)
        if sent != (kind.api_version, kind.kind):
            raise bad_request(f'{sent[1]} in version "{sent[0]}" cannot be handled as a {kind.kind}')
    elif not name or not api_version:
        missing, text = "Kind" if not name else "apiVersion", body[:200].decode(errors="replace")
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object '{missing}' is missing in '{text}'"
        )
    elif api_version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})"
        )
    elif name != kind.kind:
        metadata = obj.get("metadata")
        named = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
        subject = RefusalSubject(kind.group, kind.plural, str(name), named)
        raise invalid_object(subject, [invalid("kind", name, f"must be {kind.kind}")])


def read_object(kind: ServedKind, obj: Object, options: WriteOptions, body: bytes) -> tuple[Object, tuple[str, ...]]:
    """An object by the rules of its kind, and warnings. Raises Refusal (400)."""
    fitted = fit(kind, obj)
    told = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    if fitted.mistake:
        raise bad_request(f"{told}: {fitted.mistake}")
    repeated = _repeated_owners(fitted.obj, "")
    if options.validation == "Ignore":
        return fitted.obj, repeated
    strange = [*duplicates(body, obj), *(f'unknown field "{path}"' for path in fitted.unknown)]
    if strange and options.validation == "Strict":
        raise bad_request(f"{told}: strict decoding error: {', '.join(strange)}")
    return fitted.obj, (*strange, *repeated)


def _whole(value: Any) -> Any:
    """With `1` for `1.0`, as Go writes it and then reads it. Into the structure of a built-in kind `1.0` is not read."""
    kind = value.__class__
    if kind is dict:
        return {name: _whole(item) for name, item in value.items()}
    if kind is list:
        return [_whole(item) for item in value]
    return int(value) if kind is float and value.is_integer() and -(2**63) <= value < 2**63 else value


def _repeated_owners(obj: Object, when: str) -> tuple[str, ...]:
    """Drops owner references that stand there twice; the warning that says so."""
    if not (repeated := rules.drop_repeated_owners(obj["metadata"])):
        return ()
    return (
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and "
        f"may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {', '.join(repeated)}",
    )


def fit(kind: ServedKind, obj: Object, *, merged: bool = False) -> Fitted:
    """As `Model.fit`, with the metadata read first. What was `merged` was read before."""
    metadata, unknown, mistake = rules.read(obj.get("metadata"))
    content = _whole(obj) if kind.custom and not merged else obj
    fitted = kind.model.fit(
        {"apiVersion": kind.api_version, "kind": kind.kind, **content, "metadata": metadata}, merged=merged
    )
    return Fitted(fitted.obj, (*unknown, *fitted.unknown), mistake or fitted.mistake)


def duplicates(body: bytes, obj: Object) -> list[str]:
    """Fields that one JSON object of the body gives twice. The slow reading is made only where the sizes differ."""
    if body.count(b'":') + body.count(b'" :') == orjson.dumps(obj).count(b'":'):
        return []
    found: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> Object:
        seen: Object = {}
        for name, value in pairs:
            if name in seen:
                found.append(f'duplicate field "{name}"')
            seen[name] = value
        return seen

    json.loads(body, object_pairs_hook=note)
    return found


def _unknown_fields(paths: tuple[str, ...]) -> str:
    return ", ".join(f'unknown field "{path}"' for path in paths)


def _warnings(unknown: tuple[str, ...], options: WriteOptions) -> tuple[str, ...]:
    return tuple(f'unknown field "{path}"' for path in unknown) if options.validation == "Warn" else ()


def check_place(metadata: Object, address: RequestPath, *, name: str) -> None:
    """The name, where the address has one, and the namespace, where one is given, are those of the address."""
    if name:
        sent = metadata.get("name")
        if not sent:
            raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
        if sent != name:
            raise bad_request(f"the name of the object ({sent}) does not match the name on the URL ({name})")
    if metadata.get("namespace", address.namespace) != address.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def change_of(kind: ServedKind, content_type: str, body: bytes) -> Callable[[Object], Any]:
    """What a patch does to an object. Raises Refusal (400, 413, 415); the result, PatchError."""
    if content_type == _JSON_PATCH:
        return _operations_of(body)
    if content_type == _MERGE:
        merge = _merge_of(body)
        return lambda live: merge_patch(live, merge)
    if content_type == _STRATEGIC and not kind.custom:
        merge = _whole(_merge_of(body))
        return lambda live: strategic_merge(live, merge, kind.model.schema, kind.model.resolve)
    raise _unknown_patch(custom=kind.custom)


def _unknown_patch(*, custom: bool) -> Refusal:
    if not custom:
        return Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    accepted = ", ".join((_JSON_PATCH, _MERGE, APPLY))
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return Refusal(415, "UnsupportedMediaType", message)


def _unreadable_patch(patched: Object, why: str) -> Refusal:
    text = shown(orjson.dumps(patched).decode())
    message = f"Invalid value: {text}: {why}"
    return Refusal(
        422,
        "Invalid",
        f' "" is invalid: patch: {message}',
        details={"causes": [StatusCause("patch", "FieldValueInvalid", message).as_cause]},
    )


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None


def _merge_of(body: bytes) -> Object:
    patch = _json(body)
    if not isinstance(patch, dict):
        told = f"json: cannot unmarshal {rules.go_kind(patch)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding patch: {told}")
    return patch


def _operations_of(body: bytes) -> Callable[[Object], Any]:
    operations = _json(body)
    if not isinstance(operations, list):
        told = f"json: cannot unmarshal {rules.go_kind(operations)} into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {told}")
    if len(operations) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise Refusal(413, "RequestEntityTooLarge", message)
    return lambda live: json_patch(live, operations)


def intent_of(kind: ServedKind, address: RequestPath, body: bytes) -> Object:
    """The body of a server-side apply. Raises Refusal (400)."""
    try:
        intent = _whole(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        raise bad_request(f"error decoding YAML: {error}; the sandbox reads JSON only") from None
    if not isinstance(intent, dict):
        told = f"json: cannot unmarshal {rules.go_kind(intent)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {told}")
    if (intent.get("apiVersion"), intent.get("kind")) != (kind.api_version, kind.kind):
        group, _, version = str(intent.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={intent.get('kind') or ''}")
    metadata, _, mistake = rules.read(intent.get("metadata"))
    if mistake:
        raise Refusal(
            500,
            "",
            f"failed to create typed patch object ({address.namespace}/{address.name}; {gvk(kind)}): {mistake}",
        )
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    return {**intent, "metadata": intent.get("metadata") or {}}


def gvk(kind: ServedKind) -> str:
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def read_patched(kind: ServedKind, patched: Object, options: WriteOptions) -> tuple[Object, tuple[str, ...]]:
    """A patched object by the rules of its kind, and warnings. Raises Refusal (422)."""
    if (patched.get("apiVersion"), patched.get("kind")) != (kind.api_version, kind.kind):
        message = f'no kind "{patched.get("kind")}" is registered for version "{patched.get("apiVersion")}"'
        raise _unreadable_patch(patched, message)
    fitted = fit(kind, patched)
    if fitted.mistake:
        raise _unreadable_patch(patched, fitted.mistake)
    if fitted.unknown and options.validation == "Strict":
        raise _unreadable_patch(patched, f"strict decoding error: {_unknown_fields(fitted.unknown)}")
    repeated = _repeated_owners(fitted.obj, " after mutating admission happens")
    return fitted.obj, (*_warnings(fitted.unknown, options), *repeated)
