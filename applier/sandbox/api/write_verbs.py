"""Create, update, patch and apply.

Every write takes one path: read what is sent by the rules of the kind, make the new object, work out who owns what,
let the server's own fields stand, validate, store. Nothing is stored unless all of it succeeds, and nothing when it
would change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from applier.sandbox.api.delete_verbs import is_held
from applier.sandbox.api.options import WriteOptions, write_options
from applier.sandbox.api.request_bodies import (
    APPLY,
    change_of,
    check_place,
    decoded,
    fit,
    gvk,
    intent_of,
    media_type,
    read_object,
    read_patched,
)
from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.api.state import ApiState
from applier.sandbox.kinds import metadata as rules
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.kinds.scale import scale_of, with_scale
from applier.sandbox.kinds.server_fields import SERVERS_OWN, counted, generated_name, keep_servers_own, ordered, within
from applier.sandbox.kinds.strategies import CONDITIONAL, CREATED_BY_UPDATE, NAME_RULES
from applier.sandbox.merge import (
    ApplyConflicts,
    FieldManager,
    MergeType,
    NotTyped,
    apply,
    keep_times,
    reset_by,
    track_update,
)
from applier.sandbox.merge.json_patch import PatchError
from applier.sandbox.merge.values import equal
from applier.sandbox.storage.store import StoredKey, StoredObject
from applier.sandbox.wire import (
    Refusal,
    RefusalSubject,
    Request,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
    shown,
)
from renderer.frozen import dataclass

Object = dict[str, Any]

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of a write: the object as answered, whether it is new, and warnings for the client."""

    obj: Object
    created: bool = False
    warnings: tuple[str, ...] = ()
    stored: StoredObject | None = None


class WriteVerbs:
    """The write verbs. `check_namespace` refuses what cannot be created where it is asked for; `gone` is told what is
    removed with its last finalizer; `scale` is the kind that scales are.
    """

    def __init__(
        self,
        state: ApiState,
        *,
        check_namespace: Callable[[ServedKind, StoredKey], None],
        gone: Callable[[ServedKind, StoredObject], None],
        scale: ServedKind,
    ) -> None:
        self._state = state
        self._scale = scale
        self._check_namespace = check_namespace
        self._gone = gone

    # ---- verbs

    def create(self, kind: ServedKind, address: RequestPath, request: Request) -> WriteResult:
        options = write_options(request, address.query, "create")
        obj = decoded(kind, request)
        obj, warnings = read_object(kind, obj, options, request.body)
        metadata = obj["metadata"]
        check_place(metadata, address, name="")
        if metadata.get("resourceVersion"):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        uid = self._state.new_uid()
        if not metadata.get("name") and (prefix := metadata.get("generateName")):
            metadata["name"] = generated_name(prefix, uid)
        return self._new(kind, address, obj, uid, options, warnings)

    def update(self, kind: ServedKind, address: RequestPath, request: Request) -> WriteResult:
        options = write_options(request, address.query, "update")
        obj = decoded(kind, request)
        obj, warnings = read_object(kind, obj, options, request.body)
        check_place(obj["metadata"], address, name=address.name)
        key = kind.key(address.namespace, address.name)
        live = self._state.read(kind, key)
        if live is None and (kind.resource not in CREATED_BY_UPDATE or address.subresource):
            raise not_found(kind.subject(address.name))
        sent = obj["metadata"]
        if live and (kind.custom or kind.resource in CONDITIONAL) and not sent.get("resourceVersion"):
            subject = RefusalSubject(kind.group, kind.plural, kind.plural, address.name)
            raise invalid_object(subject, [invalid("metadata.resourceVersion", 0, "must be specified for an update")])
        _check_version(kind, sent, live)
        uid = live["metadata"]["uid"] if live else ""
        if sent.get("uid", uid) != uid:
            record = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/{address.namespace}/{address.name}, "
                f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {sent['uid']}, "
                f"UID in object meta: {uid}"
            )
            raise conflict(kind.subject(address.name), record)
        if live is None:
            return self._new(kind, address, obj, self._state.new_uid(), options, warnings)
        return self._updated(kind, address, live, obj, options, warnings)

    def patch(self, kind: ServedKind, address: RequestPath, request: Request) -> WriteResult:
        content_type = media_type(request)
        if content_type == APPLY:
            return self._apply(kind, address, request)
        change = change_of(kind, content_type, request.body)
        options = write_options(request, address.query, "patch")
        live = self._state.read(kind, kind.key(address.namespace, address.name))
        if live is None:
            raise not_found(kind.subject(address.name))
        obj, warnings = read_patched(kind, _patched(change, live), options)
        check_place(obj["metadata"], address, name=address.name)
        _check_version(kind, obj["metadata"], live)
        return self._updated(kind, address, live, obj, options, warnings)

    def scale(self, kind: ServedKind, address: RequestPath, request: Request) -> WriteResult:
        """An update or patch of an object's scale; answers the object."""
        options = write_options(request, address.query, address.verb)
        live = self._state.read(kind, kind.key(address.namespace, address.name))
        if live is None:
            raise not_found(kind.subject(address.name))
        if address.verb == "update":
            sent, warnings = read_object(self._scale, decoded(self._scale, request), options, request.body)
        else:
            content_type = media_type(request)
            identity = {"apiVersion": self._scale.api_version, "kind": self._scale.kind}
            before = {**identity, **scale_of(kind, live)}
            sent, warnings = read_patched(
                self._scale, _patched(change_of(self._scale, content_type, request.body), before), options
            )
        check_place(sent["metadata"], address, name=address.name)
        _check_version(kind, sent["metadata"], live)
        return self._updated(kind, address, live, with_scale(kind, live, sent), options, warnings)

    def _apply(self, kind: ServedKind, address: RequestPath, request: Request) -> WriteResult:
        options = write_options(request, address.query, "patch", apply=True)
        intent = intent_of(kind, address, request.body)
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
        fitted = fit(kind, merged, merged=True)
        if fitted.mistake:
            place = f"{sent.get('namespace', '')}/{sent.get('name', '')}"
            told = f"failed to convert new object ({place}; {gvk(kind)}) to proper version"
            raise Refusal(500, "", f"{told}: unable to convert unstructured object to {gvk(kind)}: {fitted.mistake}")
        check_place(fitted.obj["metadata"], address, name=address.name)
        if kind.namespaced:
            fitted.obj["metadata"]["namespace"] = address.namespace
        if live is None:
            obj = kind.model.default(fitted.obj, None)
            return self._created(kind, obj, self._state.new_uid(), options, ())
        _check_version(kind, sent, live)
        return self._finish(kind, address, live, kind.model.default(fitted.obj, live), options, ())

    # ---- the common path

    def _new(
        self,
        kind: ServedKind,
        address: RequestPath,
        obj: Object,
        uid: str,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> WriteResult:
        if kind.namespaced:
            obj["metadata"]["namespace"] = address.namespace
        obj = kind.model.default(obj, None)
        obj = track_update(None, obj, self._writer(kind, address, options))
        return self._created(kind, obj, uid, options, warnings)

    def _created(
        self, kind: ServedKind, obj: Object, uid: str, options: WriteOptions, warnings: tuple[str, ...]
    ) -> WriteResult:
        metadata = obj["metadata"]
        for name in (*SERVERS_OWN, "resourceVersion"):
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
        obj["metadata"] = ordered(obj["metadata"])
        stored = None if options.dry_run else self._state.write(key, obj)
        return WriteResult(obj, True, warnings, stored)

    def _updated(
        self,
        kind: ServedKind,
        address: RequestPath,
        live: Object,
        obj: Object,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> WriteResult:
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
        kind: ServedKind,
        address: RequestPath,
        live: Object,
        obj: Object,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> WriteResult:
        """From the object that a client wants to the one that is stored."""
        reset = reset_by(kind.resource, address.subresource, has_status="status" in kind.subresources)
        obj = within(kind, address.subresource, live, obj, reset)
        if not address.subresource:
            obj = kind.model.complete(obj, live)
        keep_servers_own(obj["metadata"], live["metadata"])
        final = keep_times(live, obj)
        key = kind.key(address.namespace, address.name)
        if final is live:
            return WriteResult(live, False, warnings, self._state.store.get(key))
        if kind.model.generation and not equal(counted(kind, final), counted(kind, live)):
            final["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
        self._validate(kind, final, live)
        final["metadata"] = metadata = ordered(final["metadata"])
        if options.dry_run:
            return WriteResult(final, False, warnings)
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and not is_held(kind, final):
            if removed := self._state.store.remove(key):
                self._gone(kind, removed)
            return WriteResult(final, False, warnings)
        return WriteResult(final, False, warnings, self._state.write(key, final))

    def _validate(self, kind: ServedKind, obj: Object, live: Object | None) -> None:
        standard = not kind.custom and kind.group != "apiextensions.k8s.io"
        mistakes = rules.validate(
            obj["metadata"], rule=NAME_RULES.get(kind.resource, "subdomain"), standard_finalizers=standard
        )
        if live is not None:
            mistakes += rules.validate_update(obj["metadata"], live["metadata"])
        mistakes += kind.model.validate(obj, live)
        if mistakes:
            raise invalid_object(kind.subject(obj["metadata"].get("name", "")), mistakes)

    def _writer(self, kind: ServedKind, address: RequestPath, options: WriteOptions) -> FieldManager:
        others: Mapping[str, MergeType] | None = None
        if kind.custom:
            versions = [
                self._state.kinds.find(kind.group, one, kind.plural) for one in self._state.kinds.versions(kind.group)
            ]
            others = {one.api_version: one.model.type for one in versions if one and one is not kind}
        return FieldManager(
            manager=options.manager,
            type=kind.model.type,
            version=kind.api_version,
            # The server notes no time for scales.
            time="" if address.subresource == "scale" else self._state.now(),
            subresource=address.subresource,
            reset=reset_by(kind.resource, address.subresource, has_status="status" in kind.subresources),
            others=others,
            blank=kind.model.blank,
        )


def _patched(change: Callable[[Object], Any], live: Object) -> Object:
    try:
        patched = change(live)
    except PatchError:
        message = "the server rejected our request due to an error in our request"
        raise Refusal(422, "Invalid", message, details={}) from None
    if not isinstance(patched, dict):
        raise bad_request("the patch leaves no object")
    return patched


def _check_version(kind: ServedKind, sent: Object, live: Object | None) -> None:
    version = sent.get("resourceVersion")
    if not version or version == "0":
        return
    if not version.isdecimal():
        raise Refusal(500, "", f"strconv.ParseUint: parsing {shown(version)}: invalid syntax")
    if live and version != live["metadata"]["resourceVersion"]:
        raise conflict(kind.subject(live["metadata"]["name"]), _MODIFIED)
