"""Scale subresource: a view of an object that shows its replicas and selector.

Source: Kubernetes API concepts, "Scale subresource", and CustomResourceDefinitions, "Scale subresource".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from applier.cluster import Object
from applier.sandbox.jsonpath import get_field
from applier.sandbox.kinds.registry import ScalePaths, ServedKind
from applier.sandbox.storage.store import StoredKey, StoredObject
from applier.sandbox.wire import Refusal, bad_request, invalid_object, invalid_value
from renderer.label_selector import LabelSelector, SelectorError

BUILT_IN_SCALE_PATHS = ScalePaths("spec.replicas", "status.replicas", "spec.selector")
_IDENTITY_FIELDS = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: ServedKind, obj: Mapping[str, Any]) -> Object:
    """Return the scale of `obj`, without apiVersion and kind.

    Raises: Refusal (500 if `obj` has no desired replicas, 400 if its selector is invalid).
    """
    paths = _scale_paths(kind)
    replicas = get_field(obj, paths.replicas)
    if not isinstance(replicas, int):
        raise Refusal(
            500, "InternalError", f'Internal error occurred: the spec replicas field ".{paths.replicas}" does not exist'
        )
    metadata = {name: obj["metadata"][name] for name in _IDENTITY_FIELDS if name in obj["metadata"]}
    status = {"replicas": get_field(obj, paths.status) or 0}
    if selector := _format_selector(get_field(obj, paths.selector)):
        status["selector"] = selector
    return {"metadata": metadata, "spec": {"replicas": replicas} if replicas else {}, "status": status}


def build_stored_scale(kind: ServedKind, obj: Mapping[str, Any]) -> StoredObject:
    """Return the scale of `obj` as a `StoredObject`, with the version and uid of `obj`.

    Raises: Refusal (500 if `obj` has no desired replicas, 400 if its selector is invalid).
    """
    metadata = obj["metadata"]
    key = StoredKey("scales.autoscaling", metadata.get("namespace", ""), metadata["name"])
    return StoredObject(key, int(metadata["resourceVersion"]), metadata["uid"], orjson.dumps(scale_of(kind, obj)), {})


def with_scale(kind: ServedKind, obj: Object, scale: Object) -> Object:
    """Return `obj` with the desired replicas of `scale`.

    Raises: Refusal (422 if the number is negative).
    """
    path, replicas = _scale_paths(kind).replicas, scale["spec"].get("replicas", 0)
    if replicas < 0:
        raise invalid_object(
            kind.subject(obj["metadata"]["name"]), [invalid_value(path, replicas, "must be greater than or equal to 0")]
        )
    updated: Object = orjson.loads(orjson.dumps(obj))
    *parents, name = path.split(".")
    parent = updated
    for step in parents:
        parent = parent.setdefault(step, {})
    parent[name] = replicas
    return updated


def _scale_paths(kind: ServedKind) -> ScalePaths:
    assert kind.scale_paths is not None
    return kind.scale_paths


def _format_selector(selector: Any) -> str:
    """Return a label selector as a string.

    In custom kinds, `selector` is already a string.

    Raises: Refusal (400 if the selector is invalid).
    """
    if not isinstance(selector, dict):
        return str(selector or "")
    try:
        return str(LabelSelector.from_object(selector))
    except SelectorError as error:
        raise bad_request(f"failed to convert label selector to selector: {error}") from None
