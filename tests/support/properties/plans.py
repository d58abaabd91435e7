"""Actions that a run took, in the words of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from applier.cluster import Object
from applier.state.observed import label
from gitops.plan.report import PlannedAction
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, ObjectKey
from tests.support.properties.checked_platform import VOLATILE, CheckedPlatform
from tests.support.properties.cluster import ClusterWrite
from tests.support.properties.repositories import config_map, definition

CLOSED = {"start": "2026-11-01T00:00", "end": "2026-12-01T00:00"}
PACE = {"shape": {"linear": {"n": 1}}, "bake": "1h"}
Rule = Mapping[str, Any]
_OURS = ("internal.levelgate.dev/", "applyset.kubernetes.io/")


def rule(kind: str, spec: Rule, *, name: str = "") -> str:
    """Return the file of a window or a policy."""
    metadata = {"name": name or kind.lower()}
    return json.dumps({"apiVersion": "levelgate.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})


def deny(verb: str) -> str:
    """Return a window that denies this verb for everything."""
    return rule(
        "PropagationWindow", {"kind": "Deny", "timeZone": "UTC", "schedule": {"once": [CLOSED]}, "verbs": [verb]}
    )


def holder() -> str:
    """Return a definition whose instances may hold the shared object, and have a gated node."""
    shared = config_map("shared", name="${schema.spec.holds}", includeWhen=["${schema.spec.holds != ''}"])
    held = config_map("held", propagateWhen=["${schema.spec.open}"])
    fields = {"text": "string | default=one", "holds": 'string | default=""', "open": "boolean | default=true"}
    return definition("Holder", [config_map("first"), held, config_map("after", "held"), shared], spec=fields)


def run(platform: CheckedPlatform) -> list[ClusterWrite]:
    """Reconcile until three reconciliations write no content, and return all writes."""
    begin, quiet = len(platform.cluster.writes), 0
    for _ in range(40):
        since = len(platform.cluster.writes)
        assert platform.run() is not None
        platform.cluster.tick()
        quiet = 0 if done(platform.cluster.writes[since:]) else quiet + 1
        if quiet == 3:
            return platform.cluster.writes[begin:]
    raise AssertionError("no rest")


def done(writes: list[ClusterWrite]) -> dict[ObjectKey, PlannedAction]:
    """Return the action on each object that these writes add up to. Records and Events are not content."""
    found: dict[ObjectKey, tuple[Object | None, Object | None, bool]] = {}
    for write in writes:
        if OWN_NAMESPACE not in (write.key.namespace, write.key.name) and write.key.kind != "Event":
            before, _, went = found.get(write.key, (write.before, None, False))
            found[write.key] = before, write.after, went or write.after is None
    return {key: action for key, one in found.items() if (action := _action(*one))}


def _action(before: Object | None, after: Object | None, went: bool) -> PlannedAction | None:
    if before is None:
        return PlannedAction.CREATE if after else None
    if after is None:
        return PlannedAction.DELETE
    if went:
        return PlannedAction.REPLACE
    if label(before, well_known.PART_OF) and not label(after, well_known.PART_OF):
        return PlannedAction.RELEASE
    return PlannedAction.UPDATE if _content(before) != _content(after) else None


def _content(obj: Object) -> Object:
    metadata = obj["metadata"]
    said = metadata.get("annotations") or {}
    annotations = {name: text for name, text in said.items() if name not in VOLATILE and not name.startswith(_OURS)}
    kept = {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
    return {**kept, "labels": metadata.get("labels"), "annotations": annotations}
