"""Migration from client-side apply by kubectl to server-side apply.

On client-side apply, kubectl stores the applied object in an annotation. When kubectl applies server-side under its
default manager name, kubectl may take back the fields in the annotation that have not changed since. Then the server
updates the annotation, so that kubectl can return to client-side apply.

Source: `lastAppliedManager` and `lastAppliedUpdater` of apimachinery `managedfields`.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from applier.cluster import Object
from applier.sandbox.merge.compare import compare, fields_of
from applier.sandbox.merge.field_set import EMPTY_SET, Fields, difference
from applier.sandbox.merge.path_elements import format_go_json
from applier.sandbox.merge.type_check import TypeMismatchError, check_type
from applier.sandbox.merge.types import MergeType
from applier.sandbox.merge.values import MissingListKeyError
from renderer.well_known import LAST_APPLIED

KUBECTL_MANAGER: Final = "kubectl"

_MAX_ANNOTATION_BYTES: Final = 256 * 1024
"""Maximum total size of all annotations of an object, in bytes of UTF-8.

If the annotations exceed the limit, the server drops the annotation of kubectl.
"""


def find_unchanged_fields(live: Object, type_: MergeType, version: str) -> Fields:
    """Return the fields that kubectl applied client-side and that still have the applied values.

    If the annotation is absent, invalid, or of an API version other than `version`, return no fields.
    """
    try:
        last_applied = orjson.loads(_annotations(live).get(LAST_APPLIED, ""))
        if last_applied["apiVersion"] != version:
            return EMPTY_SET
        check_type(type_, last_applied)
        changed, removed = compare(type_, last_applied, live)
        return difference(difference(fields_of(type_, last_applied), changed), removed)
    except (ValueError, KeyError, TypeError, TypeMismatchError, MissingListKeyError):
        return EMPTY_SET


def with_last_applied(obj: Object, intent: Object) -> Object:
    """Return `obj` with `intent` in the annotation of kubectl, or `obj` itself if this annotation is absent."""
    if not _annotations(obj).get(LAST_APPLIED):
        return obj
    other_annotations = {name: value for name, value in _annotations(obj).items() if name != LAST_APPLIED}
    text = format_go_json(_without_annotation(intent)) + "\n"
    size = sum(
        len(name.encode()) + len(value.encode()) for name, value in {**other_annotations, LAST_APPLIED: text}.items()
    )
    annotations = {**other_annotations, LAST_APPLIED: text} if size <= _MAX_ANNOTATION_BYTES else other_annotations
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _annotations(obj: Object) -> dict[str, Any]:
    return obj["metadata"].get("annotations") or {}


def _without_annotation(intent: Object) -> Object:
    annotations = {name: value for name, value in _annotations(intent).items() if name != LAST_APPLIED}
    metadata = {name: value for name, value in intent["metadata"].items() if name != "annotations"}
    return {**intent, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}
