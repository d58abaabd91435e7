"""Verbs create, update, patch and apply.

Every write has the same steps: decode the body, build the new object, determine field ownership, restore the server's
own fields, validate, store. If a step fails, or the object would not change, the server stores no object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from applier.cluster import Object
from applier.sandbox.api.delete_verbs import has_spec_finalizers
from applier.sandbox.api.options import WriteOptions, parse_write_options
from applier.sandbox.api.request_bodies import (
    APPLY_PATCH,
    check_identity,
    decode_content,
    gvk,
    media_type,
    parse_intent,
    parse_patch,
    read_object,
    read_patched_object,
)
from applier.sandbox.api.request_path import RequestPath
from applier.sandbox.api.state import ApiState, with_type_meta
from applier.sandbox.kinds.admission import ALLOWS_CREATE_ON_UPDATE, NAME_RULES, REQUIRES_RESOURCE_VERSION
from applier.sandbox.kinds.metadata import validate_metadata, validate_metadata_update
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.kinds.scale import scale_of, with_scale
from applier.sandbox.kinds.server_fields import (
    SERVER_FIELDS,
    generate_name,
    generation_content,
    keep_server_fields,
    restrict_to_subresource,
    sort_metadata,
)
from applier.sandbox.merge import (
    ApplyConflicts,
    FieldManager,
    TypeMismatchError,
    apply,
    keep_times,
    reset_fields_of,
    track_update,
)
from applier.sandbox.merge.json_patch import PatchError
from applier.sandbox.merge.values import is_equal
from applier.sandbox.storage.store import StoredKey, StoredObject
from applier.sandbox.wire import (
    Refusal,
    RefusalSubject,
    Request,
    already_exists_refusal,
    bad_request,
    conflict,
    format_json,
    invalid_object,
    invalid_value,
    not_found_refusal,
)
from renderer.frozen import dataclass

_MODIFIED_MESSAGE = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Outcome of a write."""

    obj: Object
    """Object to return to the client."""
    created: bool
    """True if the object is new."""
    warnings: tuple[str, ...]
    """Warnings for the client."""
    stored: StoredObject | None = None
    """Object in the store, or None after a dry run or a removal."""


class WriteVerbs:
    """Implementation of the verbs create, update, patch, apply and scale on the objects of an `ApiState`.

    Args:
        scale_kind: kind that the scale subresource reads and writes.
    """

    def __init__(self, state: ApiState, *, scale_kind: ServedKind) -> None:
        self._state = state
        self._scale_kind = scale_kind

    # ---- verbs

    def create(self, kind: ServedKind, request_path: RequestPath, request: Request) -> WriteResult:
        options = parse_write_options(request, request_path.query, "create")
        obj, warnings = read_object(kind, request, options)
        metadata = obj["metadata"]
        check_identity(metadata, request_path, name="")
        if metadata.get("resourceVersion"):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        uid = self._state.new_uid()
        if not metadata.get("name") and (prefix := metadata.get("generateName")):
            metadata["name"] = generate_name(prefix, uid)
        return self._prepare_create(kind, request_path, obj, uid, options, warnings)

    def update(self, kind: ServedKind, request_path: RequestPath, request: Request) -> WriteResult:
        options = parse_write_options(request, request_path.query, "update")
        obj, warnings = read_object(kind, request, options)
        check_identity(obj["metadata"], request_path, name=request_path.name)
        key = kind.key(request_path.namespace, request_path.name)
        live = self._state.read(kind, key)
        if live is None and (kind.resource not in ALLOWS_CREATE_ON_UPDATE or request_path.subresource):
            raise not_found_refusal(kind.subject(request_path.name))
        sent_metadata = obj["metadata"]
        if (
            live
            and (kind.is_custom or kind.resource in REQUIRES_RESOURCE_VERSION)
            and not sent_metadata.get("resourceVersion")
        ):
            subject = RefusalSubject(kind.group, kind.plural, kind.plural, request_path.name)
            raise invalid_object(
                subject, [invalid_value("metadata.resourceVersion", 0, "must be specified for an update")]
            )
        _check_version(kind, sent_metadata, live)
        uid = live["metadata"]["uid"] if live else ""
        if sent_metadata.get("uid", uid) != uid:
            message = (
                "StorageError: invalid object, Code: 4, "
                f"Key: /registry/{kind.plural}/{request_path.namespace}/{request_path.name}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
                f"UID in precondition: {sent_metadata['uid']}, UID in object meta: {uid}"
            )
            raise conflict(kind.subject(request_path.name), message)
        if live is None:
            return self._prepare_create(kind, request_path, obj, self._state.new_uid(), options, warnings)
        return self._prepare_update(kind, request_path, live, obj, options, warnings)

    def patch(self, kind: ServedKind, request_path: RequestPath, request: Request) -> WriteResult:
        content_type = media_type(request)
        if content_type == APPLY_PATCH:
            return self._apply(kind, request_path, request)
        change = parse_patch(kind, content_type, request.body)
        options = parse_write_options(request, request_path.query, "patch")
        live = with_type_meta(kind, self._state.find(kind, request_path.namespace, request_path.name))
        obj, warnings = read_patched_object(kind, _apply_change(change, live), options)
        check_identity(obj["metadata"], request_path, name=request_path.name)
        _check_version(kind, obj["metadata"], live)
        return self._prepare_update(kind, request_path, live, obj, options, warnings)

    def scale(self, kind: ServedKind, request_path: RequestPath, request: Request) -> WriteResult:
        """Update or patch an object through its scale subresource, and return the changed object.

        Raises: Refusal (400 for a malformed body, 404 if the object is absent, 409 for a stale version, 415 for another
        media type, 422 for invalid replicas).
        """
        options = parse_write_options(request, request_path.query, request_path.verb)
        live = with_type_meta(kind, self._state.find(kind, request_path.namespace, request_path.name))
        if request_path.verb == "update":
            new_scale, warnings = read_object(self._scale_kind, request, options)
        else:
            content_type = media_type(request)
            identity = {"apiVersion": self._scale_kind.api_version, "kind": self._scale_kind.kind}
            current_scale = {**identity, **scale_of(kind, live)}
            new_scale, warnings = read_patched_object(
                self._scale_kind,
                _apply_change(parse_patch(self._scale_kind, content_type, request.body), current_scale),
                options,
            )
        check_identity(new_scale["metadata"], request_path, name=request_path.name)
        _check_version(kind, new_scale["metadata"], live)
        return self._prepare_update(kind, request_path, live, with_scale(kind, live, new_scale), options, warnings)

    def _apply(self, kind: ServedKind, request_path: RequestPath, request: Request) -> WriteResult:
        options = parse_write_options(request, request_path.query, "patch", apply=True)
        intent = parse_intent(kind, request_path, request.body)
        key = kind.key(request_path.namespace, request_path.name)
        live = self._state.read(kind, key)
        if request_path.subresource and live is None:
            raise not_found_refusal(kind.subject(request_path.name))
        sent_metadata = intent["metadata"]
        if live is None and sent_metadata.get("uid"):
            detail = (
                f"uid mismatch: the provided object specified uid {sent_metadata['uid']}, "
                "and no existing object was found"
            )
            raise conflict(kind.subject(request_path.name), detail)
        try:
            merged = apply(live, intent, self._field_manager(kind, request_path, options), force=options.force)
        except TypeMismatchError as error:
            raise Refusal(500, "", str(error)) from None
        except ApplyConflicts as error:
            causes = [
                {"reason": "FieldManagerConflict", "message": field_conflict.message, "field": field_conflict.field}
                for field_conflict in error.conflicts
            ]
            raise Refusal(409, "Conflict", str(error), details={"causes": causes}) from None
        decoded_object = decode_content(kind, merged, merged=True)
        if decoded_object.error:
            namespaced_name = f"{sent_metadata.get('namespace', '')}/{sent_metadata.get('name', '')}"
            message_prefix = f"failed to convert new object ({namespaced_name}; {gvk(kind)}) to proper version"
            raise Refusal(
                500,
                "",
                f"{message_prefix}: unable to convert unstructured object to {gvk(kind)}: {decoded_object.error}",
            )
        check_identity(decoded_object.obj["metadata"], request_path, name=request_path.name)
        if kind.namespaced:
            decoded_object.obj["metadata"]["namespace"] = request_path.namespace
        if live is None:
            obj = kind.model.default(decoded_object.obj, None)
            return self._finish_create(kind, obj, self._state.new_uid(), options, ())
        _check_version(kind, sent_metadata, live)
        return self._finish_update(kind, request_path, live, kind.model.default(decoded_object.obj, live), options, ())

    # ---- the common path

    def _prepare_create(
        self,
        kind: ServedKind,
        request_path: RequestPath,
        obj: Object,
        uid: str,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> WriteResult:
        if kind.namespaced:
            obj["metadata"]["namespace"] = request_path.namespace
        obj = kind.model.default(obj, None)
        obj = track_update(None, obj, self._field_manager(kind, request_path, options))
        return self._finish_create(kind, obj, uid, options, warnings)

    def _finish_create(
        self, kind: ServedKind, obj: Object, uid: str, options: WriteOptions, warnings: tuple[str, ...]
    ) -> WriteResult:
        metadata = obj["metadata"]
        for name in (*SERVER_FIELDS, "resourceVersion"):
            metadata.pop(name, None)
        metadata["uid"], metadata["creationTimestamp"] = uid, self._state.now()
        if kind.model.has_generation:
            metadata["generation"] = 1
        if "status" in kind.subresources and kind.is_custom:
            obj.pop("status", None)
        key = kind.key(metadata.get("namespace", ""), metadata.get("name", ""))
        self._check_namespace(kind, key)
        obj = kind.model.complete(obj, None)
        self._validate(kind, obj, None)
        if self._state.store.get(key):
            raise already_exists_refusal(kind.subject(key.name))
        obj["metadata"] = sort_metadata(obj["metadata"])
        stored = None if options.dry_run else self._state.write(key, obj)
        return WriteResult(obj, True, warnings, stored)

    def _prepare_update(
        self,
        kind: ServedKind,
        request_path: RequestPath,
        live: Object,
        obj: Object,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> WriteResult:
        sent_metadata = obj["metadata"]
        for name in ("uid", "namespace"):
            if name in live["metadata"]:
                sent_metadata.setdefault(name, live["metadata"][name])
        obj = kind.model.default(obj, live)
        return self._finish_update(
            kind,
            request_path,
            live,
            track_update(live, obj, self._field_manager(kind, request_path, options)),
            options,
            warnings,
        )

    def _finish_update(
        self,
        kind: ServedKind,
        request_path: RequestPath,
        live: Object,
        obj: Object,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> WriteResult:
        """Add the server's decisions to `obj`, validate and store it, and return the result.

        If only times of managedFields would change, store no object. If `obj` is terminating and no longer has
        finalizers, remove `obj`.
        """
        reset_fields = reset_fields_of(
            kind.resource, request_path.subresource, has_status="status" in kind.subresources
        )
        obj = restrict_to_subresource(kind, request_path.subresource, live, obj, reset_fields)
        if not request_path.subresource:
            obj = kind.model.complete(obj, live)
        keep_server_fields(obj["metadata"], live["metadata"])
        final = keep_times(live, obj)
        key = kind.key(request_path.namespace, request_path.name)
        if final is live:
            return WriteResult(live, False, warnings, self._state.store.get(key))
        if kind.model.has_generation and not is_equal(generation_content(kind, final), generation_content(kind, live)):
            final["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
        self._validate(kind, final, live)
        final["metadata"] = metadata = sort_metadata(final["metadata"])
        if options.dry_run:
            return WriteResult(final, False, warnings)
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and not has_spec_finalizers(kind, final):
            self._state.remove(key)
            return WriteResult(final, False, warnings)
        return WriteResult(final, False, warnings, self._state.write(key, final))

    def _check_namespace(self, kind: ServedKind, key: StoredKey) -> None:
        """Check that the namespace in `key` exists and is not terminating. For cluster scope, do nothing.

        Raises: Refusal (404 if the namespace is absent, 403 if the namespace is terminating).
        """
        if not kind.namespaced:
            return
        namespace = self._state.store.get(StoredKey("namespaces", "", key.namespace))
        if namespace is None:
            raise not_found_refusal(RefusalSubject("", "namespaces", "Namespace", key.namespace))
        if namespace.is_deleting:
            subject = kind.subject(key.name)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {key.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            message = (
                f'{subject.resource} "{key.name}" is forbidden: unable to create new content in namespace '
                f"{key.namespace} because it is being terminated"
            )
            raise Refusal(403, "Forbidden", message, details=subject.details(causes=[cause]))

    def _validate(self, kind: ServedKind, obj: Object, live: Object | None) -> None:
        standard_finalizers = not kind.is_custom and kind.group != "apiextensions.k8s.io"
        mistakes = validate_metadata(
            obj["metadata"], rule=NAME_RULES.get(kind.resource, "subdomain"), standard_finalizers=standard_finalizers
        )
        if live is not None:
            mistakes += validate_metadata_update(obj["metadata"], live["metadata"])
        mistakes += kind.model.validate(obj, live)
        if mistakes:
            raise invalid_object(kind.subject(obj["metadata"].get("name", "")), mistakes)

    def _field_manager(self, kind: ServedKind, request_path: RequestPath, options: WriteOptions) -> FieldManager:
        return FieldManager(
            manager=options.manager,
            type=kind.model.type,
            version=kind.api_version,
            # The real server records no time for writes through a scale.
            time="" if request_path.subresource == "scale" else self._state.now(),
            subresource=request_path.subresource,
            reset_fields=reset_fields_of(
                kind.resource, request_path.subresource, has_status="status" in kind.subresources
            ),
            other_types={
                other_kind.api_version: other_kind.model.type
                for other_kind in self._state.kinds.group_kinds(kind.group)
                if kind.is_custom and other_kind.plural == kind.plural and other_kind is not kind
            },
            blank=kind.model.blank,
        )


def _apply_change(change: Callable[[Object], Any], live: Object) -> Object:
    try:
        patched = change(live)
    except PatchError:
        message = "the server rejected our request due to an error in our request"
        raise Refusal(422, "Invalid", message, details={}) from None
    if not isinstance(patched, dict):
        raise bad_request("the patched document is not an object")
    return patched


def _check_version(kind: ServedKind, sent_metadata: Object, live: Object | None) -> None:
    version = sent_metadata.get("resourceVersion")
    if not version or version == "0":
        return
    if not version.isdecimal():
        raise Refusal(500, "", f"strconv.ParseUint: parsing {format_json(version)}: invalid syntax")
    if live and version != live["metadata"]["resourceVersion"]:
        raise conflict(kind.subject(live["metadata"]["name"]), _MODIFIED_MESSAGE)
