"""The scale of an object: another look at it, with nothing but its replicas.

Source: Kubernetes API concepts, "Scale subresource", and CustomResourceDefinitions, "Scale subresource".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from applier.sandbox.jsonpath import at
from applier.sandbox.kinds.registry import ScalePaths, ServedKind
from applier.sandbox.storage.store import StoredKey, StoredObject
from applier.sandbox.wire import Refusal, StatusCause, invalid, invalid_object

Object = dict[str, Any]

OF_BUILT_IN = ScalePaths("spec.replicas", "status.replicas", "spec.selector")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: ServedKind, obj: Mapping[str, Any]) -> Object:
    """What of an object is its scale, without apiVersion and kind. Raises Refusal (500) if it says no replicas."""
    paths = _paths(kind)
    replicas = at(obj, paths.replicas)
    if not isinstance(replicas, int):
        raise Refusal(
            500, "InternalError", f'Internal error occurred: the spec replicas field ".{paths.replicas}" does not exist'
        )
    metadata = {name: obj["metadata"][name] for name in _IDENTITY if name in obj["metadata"]}
    status = {"replicas": at(obj, paths.status) or 0}
    if selector := _text(at(obj, paths.selector)):
        status["selector"] = selector
    return {"metadata": metadata, "spec": {"replicas": replicas} if replicas else {}, "status": status}


def scaled(kind: ServedKind, obj: Mapping[str, Any]) -> StoredObject:
    """The same, as if it were stored."""
    metadata = obj["metadata"]
    key = StoredKey("scales.autoscaling", metadata.get("namespace", ""), metadata["name"])
    return StoredObject(key, int(metadata["resourceVersion"]), metadata["uid"], orjson.dumps(scale_of(kind, obj)), {})


def with_scale(kind: ServedKind, obj: Object, scale: Object) -> Object:
    """The object with the replicas of a scale. Raises Refusal (422)."""
    path, replicas = _paths(kind).replicas, scale["spec"].get("replicas", 0)
    if replicas < 0:
        raise invalid_object(kind.subject(obj["metadata"]["name"]), [_negative(path, replicas)])
    found: Object = orjson.loads(orjson.dumps(obj))
    *above, name = path.split(".")
    place = found
    for step in above:
        place = place.setdefault(step, {})
    place[name] = replicas
    return found


def _negative(path: str, replicas: int) -> StatusCause:
    return invalid(path, replicas, "must be greater than or equal to 0")


def _paths(kind: ServedKind) -> ScalePaths:
    assert kind.scale is not None
    return kind.scale


def _text(selector: Any) -> str:
    """A label selector as text; custom kinds have it as text already."""
    if not isinstance(selector, dict):
        return str(selector or "")
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        values = ",".join(sorted(one.get("values") or ()))
        words = {"In": f"{one['key']} in ({values})", "NotIn": f"{one['key']} notin ({values})"}
        words |= {"Exists": one["key"], "DoesNotExist": f"!{one['key']}"}
        terms.append((one["key"], words.get(one["operator"], "")))
    return ",".join(text for _, text in sorted(terms))
