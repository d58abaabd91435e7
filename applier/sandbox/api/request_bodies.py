"""Bodies of write requests: objects, patches and intents, decoded by the rules of their kind.

If a body is malformed, the server refuses the request with the message of the API server's decoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from applier.cluster import Object
from applier.errors import StatusCause
from applier.sandbox.api.options import WriteOptions
from applier.sandbox.api.protobuf import MEDIA_TYPE, ProtobufError, decode_protobuf
from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.kinds.go_types import GoType
from applier.sandbox.kinds.metadata import drop_repeated_owners, go_kind, read_metadata
from applier.sandbox.kinds.registry import DecodedObject, ServedKind
from applier.sandbox.merge.json_patch import MAX_OPERATIONS, apply_json_patch
from applier.sandbox.merge.strategic_patch import apply_strategic_merge
from applier.sandbox.wire import (
    Refusal,
    RefusalSubject,
    Request,
    bad_request,
    format_json,
    invalid_object,
    invalid_value,
)
from renderer.merge_patch import apply_merge_patch

APPLY_PATCH = "application/apply-patch+yaml"
_MERGE_PATCH, _JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_GO_MAP = "map[string]interface {}"

_Body = TypeVar("_Body", dict[str, Any], list[Any])


def media_type(request: Request) -> str:
    """Return the media type of the body without parameters, or an empty string if `request` declares none."""
    return request.headers.get("content-type", "").partition(";")[0].strip()


def with_json_body(request: Request, go_type: GoType | None) -> Request:
    """Return `request` with a JSON body. If `go_type` is given, convert a protobuf body.

    Raises: Refusal (400 if the protobuf body is malformed).
    """
    if go_type is None or media_type(request) != MEDIA_TYPE:
        return request
    try:
        body = orjson.dumps(decode_protobuf(request.body, go_type))
    except ProtobufError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None
    return replace(request, headers={**request.headers, "content-type": "application/json"}, body=body)


def _parse_object(kind: ServedKind, request: Request) -> Object:
    """Return the object in the body of a create or update, before decoding.

    Raises: Refusal (400 for malformed JSON, 415 for another media type, 422 for a custom object of another kind).
    """
    body = request.body
    content_type = media_type(request)
    if content_type not in ("", "application/json", "*/*"):
        message = (
            "the body of the request was in an unknown format - accepted media types include: application/json "
            f"(the sandbox does not read {content_type}: send JSON)"
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
            f"json parse error: json: cannot unmarshal {go_kind(obj)} into an object"
        )
    _check_type(kind, obj, body)
    return obj


def _check_type(kind: ServedKind, obj: Object, body: bytes) -> None:
    """Check that `obj` has the apiVersion and the kind of `kind`.

    Objects of built-in kinds may omit both fields.

    Raises: Refusal (422 for a custom object of another kind, 400 for any other difference).
    """
    api_version, kind_name = obj.get("apiVersion"), obj.get("kind")
    if not kind.is_custom:
        type_meta = (api_version or kind.api_version, kind_name or kind.kind)
        if type_meta != (kind.api_version, kind.kind):
            raise bad_request(f'{type_meta[1]} in version "{type_meta[0]}" cannot be handled as a {kind.kind}')
    elif not kind_name or not api_version:
        missing, text = "Kind" if not kind_name else "apiVersion", body[:200].decode(errors="replace")
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): "
            f"Object '{missing}' is missing in '{text}'"
        )
    elif api_version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})"
        )
    elif kind_name != kind.kind:
        metadata = obj.get("metadata")
        object_name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
        subject = RefusalSubject(kind.group, kind.plural, str(kind_name), object_name)
        raise invalid_object(subject, [invalid_value("kind", kind_name, f"must be {kind.kind}")])


def read_object(kind: ServedKind, request: Request, options: WriteOptions) -> tuple[Object, tuple[str, ...]]:
    """Return the object in the body of a create or update, decoded by the rules of `kind`, and warnings.

    Raises: Refusal (400 for a malformed object, 415 for another media type, 422 for a custom object of another kind).
    """
    obj = _parse_object(kind, request)
    decoded_object = decode_content(kind, obj)
    message_prefix = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    if decoded_object.error:
        raise bad_request(f"{message_prefix}: {decoded_object.error}")
    owner_warnings = _drop_repeated_owners(decoded_object.obj, "")
    if options.field_validation == "Ignore":
        return decoded_object.obj, owner_warnings
    strict_warnings = [
        *find_duplicate_fields(request.body, obj),
        *(f'unknown field "{path}"' for path in decoded_object.unknown_fields),
    ]
    if strict_warnings and options.field_validation == "Strict":
        raise bad_request(f"{message_prefix}: strict decoding error: {', '.join(strict_warnings)}")
    return decoded_object.obj, (*strict_warnings, *owner_warnings)


def _normalize_numbers(value: Any) -> Any:
    """Return `value` with whole floats as integers (`1` for `1.0`), in the form that Go writes and reads.

    Objects of built-in kinds in a create or update keep their floats, because Go structures do not accept `1.0`.
    """
    value_class = value.__class__
    if value_class is dict:
        return {name: _normalize_numbers(item) for name, item in value.items()}
    if value_class is list:
        return [_normalize_numbers(item) for item in value]
    return int(value) if value_class is float and value.is_integer() and -(2**63) <= value < 2**63 else value


def _drop_repeated_owners(obj: Object, context: str) -> tuple[str, ...]:
    """Drop repeated owner references of `obj`, and return the warnings, which contain `context`."""
    if not (repeated_uids := drop_repeated_owners(obj["metadata"])):
        return ()
    return (
        f".metadata.ownerReferences contains duplicate entries{context}; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(repeated_uids)}",
    )


def decode_content(kind: ServedKind, obj: Object, *, merged: bool = False) -> DecodedObject:
    """Decode the metadata of `obj`, and the rest of `obj` with `KindModel.decode`.

    Args:
        merged: True if the numbers of `obj` are already normalized.
    """
    metadata, unknown, mistake = read_metadata(obj.get("metadata"))
    content = _normalize_numbers(obj) if kind.is_custom and not merged else obj
    decoded_object = kind.model.decode(
        {"apiVersion": kind.api_version, "kind": kind.kind, **content, "metadata": metadata}, merged=merged
    )
    return DecodedObject(
        decoded_object.obj, (*unknown, *decoded_object.unknown_fields), mistake or decoded_object.error
    )


def find_duplicate_fields(body: bytes, obj: Object) -> list[str]:
    """Return a message for each field that occurs more than once in a JSON object in `body`.

    If `body` and `obj` have the same number of fields, the function skips the slow parser.

    Args:
        obj: parsed `body`.
    """
    if body.count(b'":') + body.count(b'" :') == orjson.dumps(obj).count(b'":'):
        return []
    messages: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> Object:
        members: Object = {}
        for name, value in pairs:
            if name in members:
                messages.append(f'duplicate field "{name}"')
            members[name] = value
        return members

    json.loads(body, object_pairs_hook=note)
    return messages


def check_identity(metadata: Object, request_path: RequestPath, *, name: str) -> None:
    """Check that name and namespace in `metadata` equal the name and the namespace of the path.

    The namespace may be absent. If the path has no name, do not check the name.

    Raises: Refusal (400 if name or namespace differ).
    """
    if name:
        sent_name = metadata.get("name")
        if not sent_name:
            raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
        if sent_name != name:
            raise bad_request(f"the name of the object ({sent_name}) does not match the name on the URL ({name})")
    if metadata.get("namespace", request_path.namespace) != request_path.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def parse_patch(kind: ServedKind, content_type: str, body: bytes) -> Callable[[Object], Any]:
    """Return the function that applies the patch in `body` to an object.

    If the object does not accept the patch, the returned function raises PatchError.

    Raises: Refusal (400 for a malformed patch, 413 for too many operations, 415 if `kind` does not accept
    `content_type`).
    """
    if content_type == _JSON_PATCH:
        return _parse_json_patch(body)
    if content_type == _MERGE_PATCH:
        merge = _parse_patch_body(body, dict, _GO_MAP)
        return lambda live: apply_merge_patch(live, merge)
    if content_type == _STRATEGIC_PATCH and not kind.is_custom:
        merge = _normalize_numbers(_parse_patch_body(body, dict, _GO_MAP))
        return lambda live: apply_strategic_merge(live, merge, kind.model.schema, kind.model.resolve)
    raise _unsupported_patch_refusal(custom=kind.is_custom)


def _unsupported_patch_refusal(*, custom: bool) -> Refusal:
    if not custom:
        return Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    accepted = ", ".join((_JSON_PATCH, _MERGE_PATCH, APPLY_PATCH))
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return Refusal(415, "UnsupportedMediaType", message)


def _invalid_patch_refusal(patched: Object, detail: str) -> Refusal:
    text = format_json(orjson.dumps(patched).decode())
    message = f"Invalid value: {text}: {detail}"
    return Refusal(
        422,
        "Invalid",
        f' "" is invalid: patch: {message}',
        details={"causes": [StatusCause("patch", "FieldValueInvalid", message).as_dict]},
    )


def _parse_patch_body(body: bytes, expected: type[_Body], go_type: str) -> _Body:
    try:
        patch = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if not isinstance(patch, expected):
        detail = f"json: cannot unmarshal {go_kind(patch)} into Go value of type {go_type}"
        raise bad_request(f"error decoding patch: {detail}")
    return patch


def _parse_json_patch(body: bytes) -> Callable[[Object], Any]:
    operations: list[Any] = _parse_patch_body(body, list, "[]handlers.jsonPatchOp")
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise Refusal(413, "RequestEntityTooLarge", message)
    return lambda live: apply_json_patch(live, operations)


def parse_intent(kind: ServedKind, request_path: RequestPath, body: bytes) -> Object:
    """Return the intent in `body` of a server-side apply.

    Raises: Refusal (400 if the intent is malformed, 500 if its metadata has wrong types).
    """
    try:
        intent = _normalize_numbers(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        raise bad_request(f"error decoding YAML: {error}; the sandbox reads JSON only: send JSON") from None
    if not isinstance(intent, dict):
        detail = f"json: cannot unmarshal {go_kind(intent)} into Go value of type {_GO_MAP}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {detail}")
    if (intent.get("apiVersion"), intent.get("kind")) != (kind.api_version, kind.kind):
        group, _, version = str(intent.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={intent.get('kind') or ''}")
    metadata, _, mistake = read_metadata(intent.get("metadata"))
    if mistake:
        raise Refusal(
            500,
            "",
            f"failed to create typed patch object ({request_path.namespace}/{request_path.name}; {gvk(kind)}): "
            f"{mistake}",
        )
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    return {**intent, "metadata": intent.get("metadata") or {}}


def gvk(kind: ServedKind) -> str:
    """Return the group, version and kind of `kind` as one string, in the form of the API server's messages.

    Source: `GroupVersionKind.String` of apimachinery.
    """
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def read_patched_object(kind: ServedKind, patched: Object, options: WriteOptions) -> tuple[Object, tuple[str, ...]]:
    """Return `patched`, decoded by the rules of `kind`, and warnings.

    Raises: Refusal (422 if the patched object is malformed, or has another kind).
    """
    if (patched.get("apiVersion"), patched.get("kind")) != (kind.api_version, kind.kind):
        message = f'no kind "{patched.get("kind")}" is registered for version "{patched.get("apiVersion")}"'
        raise _invalid_patch_refusal(patched, message)
    decoded_object = decode_content(kind, patched)
    if decoded_object.error:
        raise _invalid_patch_refusal(patched, decoded_object.error)
    unknown_fields = [f'unknown field "{path}"' for path in decoded_object.unknown_fields]
    if unknown_fields and options.field_validation == "Strict":
        raise _invalid_patch_refusal(patched, f"strict decoding error: {', '.join(unknown_fields)}")
    owner_warnings = _drop_repeated_owners(decoded_object.obj, " after mutating admission happens")
    return decoded_object.obj, (*(unknown_fields if options.field_validation == "Warn" else ()), *owner_warnings)
