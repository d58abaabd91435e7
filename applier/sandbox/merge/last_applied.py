"""What the server does for kubectl alone: an object that was applied by the client goes over to server-side apply.

kubectl kept what it applied in an annotation. When it now applies through the server, under its default manager name, it
may take back what that annotation says it applied, if nobody changed it since; and the annotation follows, so that the
client can go on as before. Rules: apimachinery `managedfields` `lastAppliedManager`, `lastAppliedUpdater`.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from applier.cluster import Object
from applier.sandbox.merge.compare import compare, fields_of
from applier.sandbox.merge.field_set import NOTHING, Fields, difference
from applier.sandbox.merge.path_elements import json_text
from applier.sandbox.merge.type_check import NotTyped, check
from applier.sandbox.merge.types import MergeType
from applier.sandbox.merge.values import NoKey

KUBECTL: Final = "kubectl"

_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS: Final = 256 * 1024
"""Bytes of all annotations together; an annotation that does not fit is dropped."""


def unchanged_since(live: Object, type_: MergeType, version: str) -> Fields:
    """The fields that the client applied and that still are as it applied them."""
    try:
        applied = orjson.loads(_annotations(live).get(_ANNOTATION, ""))
        if applied["apiVersion"] != version:
            return NOTHING
        check(type_, applied)
        changed, removed = compare(type_, applied, live)
        return difference(difference(fields_of(type_, applied), changed), removed)
    except (ValueError, KeyError, TypeError, NotTyped, NoKey):
        return NOTHING


def with_last_applied(obj: Object, intent: Object) -> Object:
    """`obj` with the annotation renewed, if it has it."""
    if not _annotations(obj).get(_ANNOTATION):
        return obj
    others = {name: value for name, value in _annotations(obj).items() if name != _ANNOTATION}
    text = json_text(_without_annotation(intent)) + "\n"
    size = sum(len(name.encode()) + len(value.encode()) for name, value in {**others, _ANNOTATION: text}.items())
    annotations = {**others, _ANNOTATION: text} if size <= _MAX_ANNOTATIONS else others
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _annotations(obj: Object) -> dict[str, Any]:
    return obj["metadata"].get("annotations") or {}


def _without_annotation(intent: Object) -> Object:
    annotations = {name: value for name, value in _annotations(intent).items() if name != _ANNOTATION}
    metadata = {name: value for name, value in intent["metadata"].items() if name != "annotations"}
    return {**intent, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}
