"""Create, update, patch and apply.

Every write takes one path: read what is sent by the rules of the kind, make the new object, work out who owns what,
let the server's own fields stand, validate, store. Nothing is stored unless all of it succeeds, and nothing when it
would change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from applier.sandbox import metadata as rules
from applier.sandbox.addresses import Address
from applier.sandbox.deleting import is_held
from applier.sandbox.kinds import Kind
from applier.sandbox.merge import ApplyConflicts, NotTyped, Reset, Type, Writer, apply, keep_times, track_update
from applier.sandbox.options import WriteOptions, write_options
from applier.sandbox.patches import MOST_OPERATIONS, PatchError, json_patch, merge_patch
from applier.sandbox.state import State
from applier.sandbox.store import Key, Stored
from applier.sandbox.strategic import strategic_merge
from applier.sandbox.wire import (
    Mistake,
    Refusal,
    Request,
    Subject,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
    shown,
)

Object = dict[str, Any]

_APPLY, _MERGE, _JSON_PATCH = (
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
)
_STRATEGIC = "application/strategic-merge-patch+json"
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_SERVERS_OWN = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write: the object as answered, whether it is new, and warnings for the client."""

    obj: Object
    created: bool = False
    warnings: tuple[str, ...] = ()
    stored: Stored | None = None


class Writing:
    """The write verbs. `check_namespace` refuses what cannot be created where it is asked for; `name_rule` says which
    names a kind takes; `gone` is told what is removed with its last finalizer.
    """

    def __init__(
        self,
        state: State,
        *,
        check_namespace: Callable[[Kind, Key], None],
        name_rule: Callable[[Kind], str],
        gone: Callable[[Kind, Stored], None],
    ) -> None:
        self._state = state
        self._check_namespace = check_namespace
        self._name_rule = name_rule
        self._gone = gone

    # ---- verbs

    def create(self, kind: Kind, address: Address, request: Request) -> Written:
        options = write_options(request, address.query, "create")
        obj = _decoded(kind, request)
        _check_type(kind, obj, request.body)
        obj, warnings = _read(kind, obj, options, request.body)
        metadata = obj["metadata"]
        _check_place(metadata, address, name="")
        if metadata.get("resourceVersion"):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        if kind.namespaced:
            metadata["namespace"] = address.namespace
        uid = self._state.new_uid()
        if not metadata.get("name") and (prefix := metadata.get("generateName")):
            metadata["name"] = generated_name(prefix, uid)
        obj = kind.model.default(obj, None)
        obj = track_update(None, obj, self._writer(kind, address, options))
        return self._created(kind, address, obj, uid, options, warnings)

    def update(self, kind: Kind, address: Address, request: Request) -> Written:
        options = write_options(request, address.query, "update")
        obj = _decoded(kind, request)
        _check_type(kind, obj, request.body)
        obj, warnings = _read(kind, obj, options, request.body)
        _check_place(obj["metadata"], address, name=address.name)
        key = kind.key(address.namespace, address.name)
        live = self._state.read(kind, key)
        if live is None:
            raise not_found(kind.subject(address.name))
        sent = obj["metadata"]
        if kind.custom and not sent.get("resourceVersion"):
            subject = Subject(kind.group, kind.plural, kind.plural, address.name)
            raise invalid_object(subject, [invalid("metadata.resourceVersion", 0, "must be specified for an update")])
        _check_version(kind, sent, live)
        if sent.get("uid") not in (None, live["metadata"]["uid"]):
            record = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/{address.namespace}/{address.name}, "
                f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {sent['uid']}, "
                f"UID in object meta: {live['metadata']['uid']}"
            )
            raise conflict(kind.subject(address.name), record)
        return self._updated(kind, address, live, obj, options, warnings)

    def patch(self, kind: Kind, address: Address, request: Request) -> Written:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip()
        if content_type == _APPLY:
            return self._apply(kind, address, request)
        change = _change(kind, content_type, request.body)
        options = write_options(request, address.query, "patch")
        live = self._state.read(kind, kind.key(address.namespace, address.name))
        if live is None:
            raise not_found(kind.subject(address.name))
        try:
            patched = change(live)
        except PatchError:
            message = "the server rejected our request due to an error in our request"
            raise Refusal(422, "Invalid", message, details={}) from None
        if not isinstance(patched, dict):
            raise bad_request("the patch leaves no object")
        obj, warnings = self._read_patched(kind, address, patched, options)
        _check_place(obj["metadata"], address, name=address.name)
        _check_version(kind, obj["metadata"], live)
        return self._updated(kind, address, live, obj, options, warnings)

    def _read_patched(
        self, kind: Kind, address: Address, patched: Object, options: WriteOptions
    ) -> tuple[Object, tuple[str, ...]]:
        if (patched.get("apiVersion"), patched.get("kind")) != (kind.api_version, kind.kind):
            message = f'no kind "{patched.get("kind")}" is registered for version "{patched.get("apiVersion")}"'
            raise _unreadable_patch(patched, message)
        fitted = _fit(kind, patched)
        if fitted.mistake:
            raise _unreadable_patch(patched, fitted.mistake)
        if fitted.unknown and options.validation == "Strict":
            raise _unreadable_patch(patched, f"strict decoding error: {_unknown_fields(fitted.unknown)}")
        return fitted.obj, _warnings(fitted.unknown, options)

    def _apply(self, kind: Kind, address: Address, request: Request) -> Written:
        options = write_options(request, address.query, "patch", apply=True)
        intent = _intent(kind, address, request.body)
        key = kind.key(address.namespace, address.name)
        live = self._state.read(kind, key)
        if address.subresource and live is None:
            raise not_found(kind.subject(address.name))
        sent = intent["metadata"]
        if live is None and sent.get("uid"):
            why = f"uid mismatch: the provided object specified uid {sent['uid']}, and no existing object was found"
            raise conflict(kind.subject(address.name), why)
        try:
            merged = apply(live, intent, self._writer(kind, address, options), force=options.force)
        except NotTyped as error:
            raise Refusal(500, "", str(error)) from None
        except ApplyConflicts as error:
            causes = [
                {"reason": "FieldManagerConflict", "message": one.message, "field": one.field}
                for one in error.conflicts
            ]
            raise Refusal(409, "Conflict", str(error), details={"causes": causes}) from None
        fitted = _fit(kind, merged)
        if fitted.mistake:
            told = f"failed to convert new object ({address.namespace}/{address.name}; {_gvk(kind)}) to proper version"
            raise Refusal(500, "", f"{told}: unable to convert unstructured object to {_gvk(kind)}: {fitted.mistake}")
        if live is None:
            obj = kind.model.default(fitted.obj, None)
            obj["metadata"].pop("resourceVersion", None)
            return self._created(kind, address, obj, self._state.new_uid(), options, ())
        _check_version(kind, sent, live)
        return self._finish(kind, address, live, kind.model.default(fitted.obj, live), options, ())

    # ---- the common path

    def _created(
        self, kind: Kind, address: Address, obj: Object, uid: str, options: WriteOptions, warnings: tuple[str, ...]
    ) -> Written:
        metadata = obj["metadata"]
        for name in _SERVERS_OWN:
            metadata.pop(name, None)
        metadata["uid"], metadata["creationTimestamp"] = uid, self._state.now()
        if kind.model.generation:
            metadata["generation"] = 1
        if "status" in kind.subresources and kind.custom:
            obj.pop("status", None)
        key = kind.key(metadata.get("namespace", ""), metadata.get("name", ""))
        self._check_namespace(kind, key)
        obj = kind.model.complete(obj, None)
        self._validate(kind, obj, None)
        if self._state.store.get(key):
            raise already_exists(kind.subject(key.name))
        obj["metadata"] = _ordered(obj["metadata"])
        stored = None if options.dry_run else self._state.write(key, obj)
        return Written(obj, True, warnings, stored)

    def _updated(
        self,
        kind: Kind,
        address: Address,
        live: Object,
        obj: Object,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> Written:
        sent = obj["metadata"]
        for name in ("uid", "namespace"):
            if name in live["metadata"]:
                sent.setdefault(name, live["metadata"][name])
        obj = kind.model.default(obj, live)
        return self._finish(
            kind, address, live, track_update(live, obj, self._writer(kind, address, options)), options, warnings
        )

    def _finish(
        self,
        kind: Kind,
        address: Address,
        live: Object,
        obj: Object,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> Written:
        """From the object that a client wants to the one that is stored."""
        obj = _within(kind, address.subresource, live, obj)
        if not address.subresource:
            obj = kind.model.complete(obj, live)
        _keep_servers_own(obj["metadata"], live["metadata"])
        final = keep_times(live, obj)
        key = kind.key(address.namespace, address.name)
        if final is live or final == live:
            return Written(live, False, warnings, self._state.store.get(key))
        if kind.model.generation and _content(kind, final) != _content(kind, live):
            final["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
        self._validate(kind, final, live)
        final["metadata"] = metadata = _ordered(final["metadata"])
        if options.dry_run:
            return Written(final, False, warnings)
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and not is_held(kind, final):
            if removed := self._state.store.remove(key):
                self._gone(kind, removed)
            return Written(final, False, warnings)
        return Written(final, False, warnings, self._state.write(key, final))

    def _validate(self, kind: Kind, obj: Object, live: Object | None) -> None:
        standard = not kind.custom and kind.group != "apiextensions.k8s.io"
        mistakes = rules.validate(obj["metadata"], rule=self._name_rule(kind), standard_finalizers=standard)
        if live is not None:
            mistakes += rules.validate_update(obj["metadata"], live["metadata"])
        mistakes += kind.model.validate(obj, live)
        if mistakes:
            raise invalid_object(kind.subject(obj["metadata"].get("name", "")), mistakes)

    def _writer(self, kind: Kind, address: Address, options: WriteOptions) -> Writer:
        others: Mapping[str, Type] | None = None
        if kind.custom:
            versions = [
                self._state.kinds.find(kind.group, one, kind.plural) for one in self._state.kinds.versions(kind.group)
            ]
            others = {one.api_version: one.model.type for one in versions if one and one is not kind}
        return Writer(
            manager=options.manager,
            type=kind.model.type,
            version=kind.api_version,
            time=self._state.now(),
            subresource=address.subresource,
            reset=_reset(kind, address.subresource),
            others=others,
        )


_STATUS: Reset = frozenset({("status",)})
_BUT_STATUS: Reset = frozenset({("spec",), ("metadata",)})


def _reset(kind: Kind, subresource: str) -> Reset:
    if subresource == "status":
        return _BUT_STATUS
    return _STATUS if "status" in kind.subresources else frozenset()


def _within(kind: Kind, subresource: str, live: Object, obj: Object) -> Object:
    """What of a wanted object this address may write: the status, or all but the status."""
    if subresource == "status":
        metadata = dict(live["metadata"])
        if entries := obj["metadata"].get("managedFields"):
            metadata["managedFields"] = entries
        if "resourceVersion" in obj["metadata"]:
            metadata["resourceVersion"] = obj["metadata"]["resourceVersion"]
        kept = {name: value for name, value in live.items() if name != "status"}
        return {**kept, "metadata": metadata, **({"status": obj["status"]} if "status" in obj else {})}
    if "status" in kind.subresources:
        kept = {name: value for name, value in obj.items() if name != "status"}
        return {**kept, "metadata": dict(obj["metadata"])} | ({"status": live["status"]} if "status" in live else {})
    return {**obj, "metadata": dict(obj["metadata"])}


def _keep_servers_own(metadata: Object, live: Object) -> None:
    for name in (*_SERVERS_OWN, "resourceVersion", "generateName"):
        if name in live:
            metadata[name] = live[name]
        else:
            metadata.pop(name, None)


def _content(kind: Kind, obj: Object) -> Object:
    """What the generation counts changes of; for Deployments their annotations too, as the real server does."""
    found = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    return found | ({"": obj["metadata"].get("annotations")} if kind.resource == "deployments.apps" else {})


_ORDER = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def _ordered(metadata: Object) -> Object:
    """Metadata in the order in which the API server writes it."""
    return {name: metadata[name] for name in _ORDER if name in metadata}


def generated_name(prefix: str, uid: str) -> str:
    """`generateName` with five characters that differ from object to object: apimachinery `names.SimpleNameGenerator`."""
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    number = int.from_bytes(uid.encode(), "big") * 2654435761 >> 7
    return prefix[:58] + "".join(alphabet[number // 27**place % 27] for place in range(5))


# ---- reading what is sent


def _decoded(kind: Kind, request: Request) -> Object:
    body = request.body
    sent = request.headers.get("content-type", "").partition(";")[0].strip()
    if sent not in ("", "application/json", "*/*"):
        message = (
            "the body of the request was in an unknown format - accepted media types include: application/json "
            f"(the sandbox reads no {sent}; kubectl sends JSON with: create --dry-run=client -o json | kubectl create -f -)"
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
    return obj


def _check_type(kind: Kind, obj: Object, body: bytes) -> None:
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
        subject = Subject(kind.group, kind.plural, str(name), str((metadata or {}).get("name") or ""))
        raise invalid_object(subject, [invalid("kind", name, f"must be {kind.kind}")])


def _read(kind: Kind, obj: Object, options: WriteOptions, body: bytes) -> tuple[Object, tuple[str, ...]]:
    """An object by the rules of its kind, and warnings. Raises Refusal (400)."""
    fitted = _fit(kind, obj)
    told = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    if fitted.mistake:
        raise bad_request(f"{told}: {fitted.mistake}")
    if options.validation == "Ignore":
        return fitted.obj, ()
    strange = [*duplicates(body, obj), *(f'unknown field "{path}"' for path in fitted.unknown)]
    if strange and options.validation == "Strict":
        raise bad_request(f"{told}: strict decoding error: {', '.join(strange)}")
    return fitted.obj, tuple(strange)


def _fit(kind: Kind, obj: Object) -> Any:
    """As `Model.fit`, with the metadata read first."""
    metadata, unknown, mistake = rules.read(obj.get("metadata"))
    fitted = kind.model.fit({"apiVersion": kind.api_version, "kind": kind.kind, **obj, "metadata": metadata})
    return type(fitted)(fitted.obj, (*unknown, *fitted.unknown), mistake or fitted.mistake)


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


def _check_place(metadata: Object, address: Address, *, name: str) -> None:
    """Name and namespace of the body, where given, are those of the address."""
    if name:
        sent = metadata.setdefault("name", name)
        if sent != name:
            raise bad_request(f"the name of the object ({sent}) does not match the name on the URL ({name})")
    if metadata.get("namespace", address.namespace) != address.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def _check_version(kind: Kind, sent: Object, live: Object) -> None:
    version = sent.get("resourceVersion")
    if not version or version == "0":
        return
    if not version.isdecimal():
        raise Refusal(500, "", f"strconv.ParseUint: parsing {shown(version)}: invalid syntax")
    if version != live["metadata"]["resourceVersion"]:
        raise conflict(kind.subject(live["metadata"]["name"]), _MODIFIED)


# ---- patches


def _change(kind: Kind, content_type: str, body: bytes) -> Callable[[Object], Any]:
    """What a patch does to an object. Raises Refusal (400, 413, 415); the result, PatchError."""
    if content_type == _JSON_PATCH:
        return _operations_of(body)
    if content_type == _MERGE:
        merge = _merge_of(body)
        return lambda live: merge_patch(live, merge)
    if content_type == _STRATEGIC and not kind.custom:
        merge = _merge_of(body)
        return lambda live: strategic_merge(live, merge, kind.model.schema, kind.model.resolve)
    raise _unknown_patch(custom=kind.custom)


def _unknown_patch(*, custom: bool) -> Refusal:
    if not custom:
        return Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    accepted = ", ".join((_JSON_PATCH, _MERGE, _APPLY))
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return Refusal(415, "UnsupportedMediaType", message)


def _unreadable_patch(patched: Object, why: str) -> Refusal:
    text = shown(orjson.dumps(patched).decode())
    message = f"Invalid value: {text}: {why}"
    return Refusal(
        422,
        "Invalid",
        f' "" is invalid: patch: {message}',
        details={"causes": [Mistake("patch", "FieldValueInvalid", message).as_cause]},
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


def _intent(kind: Kind, address: Address, body: bytes) -> Object:
    """The body of a server-side apply. Raises Refusal (400)."""
    try:
        intent = orjson.loads(body)
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
            f"failed to create typed patch object ({address.namespace}/{address.name}; {_gvk(kind)}): {mistake}",
        )
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    sent = intent.get("metadata") or {}
    checked = {**sent}
    _check_place(checked, address, name=address.name)
    if kind.namespaced:
        checked["namespace"] = address.namespace
    return {**intent, "metadata": checked}


def _gvk(kind: Kind) -> str:
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"
