"""Scripted controllers that complete rollouts and Jobs, and that give addresses to Services.

The sandbox runs no containers. The controllers are clients that write the statuses that `workload_status` builds, at
the times that an injected clock gives. So a person can watch a rollout, wait for its end, or let it fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import orjson

from applier.cluster import Object
from applier.sandbox.api.state import ApiState
from applier.sandbox.controllers.workload_status import STATUS_BUILDERS, WorkloadProgress
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.storage.store import StoredKey
from applier.sandbox.wire import Request, Response
from renderer.frozen import dataclass

Outcome = Literal["ready", "fail", "hang", "flap"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Course of a workload after each change."""

    outcome: Outcome = "ready"
    """Result of the change. With `ready`, the workload becomes ready after `seconds`. With `fail`, the workload fails
    after `seconds`. With `hang`, the workload makes no progress. With `flap`, the workload alternates between not ready
    and ready every `seconds`.
    """
    seconds: float = 0.0


class BehaviourSource(Protocol):
    """Source of a `Behaviour` for each workload."""

    def behaviour(self, key: StoredKey) -> Behaviour:
        """Return the behaviour of the workload at `key`."""


@dataclass(frozen=True, slots=True)
class WorkloadScript:
    """Script that gives all workloads the behaviour `default`."""

    default: Behaviour = Behaviour()

    def behaviour(self, _: StoredKey) -> Behaviour:
        """Return the default behaviour for every workload."""
        return self.default


@dataclass(frozen=True, slots=True)
class _Rollout:
    started_at: float
    previously_available: int


class WorkloadControllers:
    """Controllers that advance the rollouts of all workloads according to a script.

    Args:
        send_request: function that executes the requests of the controllers.
        script: source of behaviours. A caller may replace the script at any time.
    """

    def __init__(self, state: ApiState, send_request: Callable[[Request], Response], script: BehaviourSource) -> None:
        self.script = script
        self._state = state
        self._send_request = send_request
        self._seen_versions: dict[str, int] = dict.fromkeys(STATUS_BUILDERS, -1)
        self._content: dict[StoredKey, Any] = {}
        self._active_rollouts: dict[StoredKey, _Rollout] = {}

    def tick(self) -> bool:
        """Write the statuses that are due, and return whether a status changed."""
        for resource in STATUS_BUILDERS:
            self._detect_changes(resource)
        changed = False
        for key, rollout in list(self._active_rollouts.items()):
            changed |= self._advance(key, rollout)
        return changed

    def next_change_time(self) -> float | None:
        """Return the next time at which a status changes without a write of a client, or None if no such change is due.

        The time is in seconds since 1970-01-01 00:00 UTC. Rollouts that begin after the last `tick` do not count.
        """
        return min(
            filter(None, (self._change_time(key, rollout) for key, rollout in self._active_rollouts.items())),
            default=None,
        )

    def _change_time(self, key: StoredKey, rollout: _Rollout) -> float | None:
        behaviour = self.script.behaviour(key)
        match behaviour.outcome:
            case "hang":
                return None
            case "flap":
                period = max(behaviour.seconds, 0.001)
                return rollout.started_at + (int((self._state.clock() - rollout.started_at) / period) + 1) * period
            case _:
                return rollout.started_at + behaviour.seconds

    def _detect_changes(self, resource: str) -> None:
        """Start a rollout for each object of `resource` that changed since the last `tick`.

        If the history does not reach back to the last `tick`, compare all objects.
        """
        resource_store, seen_version = self._state.store.resource_store(resource), self._seen_versions[resource]
        self._seen_versions[resource] = self._state.store.version
        if seen_version < resource_store.compacted_version or seen_version < 0:
            keys = {stored.key for stored in resource_store.sorted_objects()}
        else:
            keys = {event.after.key for event in resource_store.events_after(seen_version)}
        for key in sorted(keys):
            stored = self._state.store.get(key)
            if stored is None:
                self._active_rollouts.pop(key, None)
                self._content.pop(key, None)
                continue
            obj = stored.to_object()
            content = obj["metadata"]["uid"], obj["metadata"].get("generation") or orjson.dumps(obj.get("spec"))
            if self._content.get(key) != content:
                self._content[key] = content
                previously_available = (obj.get("status") or {}).get("availableReplicas", 0)
                self._active_rollouts[key] = _Rollout(self._state.clock(), previously_available)

    def _advance(self, key: StoredKey, rollout: _Rollout) -> bool:
        stored = self._state.store.get(key)
        kind = self._state.kinds.find_resource(key.resource)
        if stored is None or kind is None:
            del self._active_rollouts[key]
            return False
        obj = stored.to_object()
        behaviour = self.script.behaviour(key)
        progress = self._compute_progress(behaviour, rollout)
        patches = STATUS_BUILDERS[key.resource](obj, progress)
        if (progress.fraction == 1 or progress.failed) and behaviour.outcome != "flap":
            del self._active_rollouts[key]
        changed = False
        for subresource, patch in patches.items():
            if not _is_applied(obj, patch):
                changed |= self._send_patch(kind, key, subresource, patch)
        return changed

    def _compute_progress(self, behaviour: Behaviour, rollout: _Rollout) -> WorkloadProgress:
        elapsed, now = self._state.clock() - rollout.started_at, self._state.now()
        fraction = 1.0 if elapsed >= behaviour.seconds else elapsed / behaviour.seconds
        match behaviour.outcome:
            case "hang":
                return WorkloadProgress(0.0, False, rollout.previously_available, now)
            case "fail":
                return WorkloadProgress(0.0, fraction == 1, rollout.previously_available, now)
            case "flap":
                ready = int(elapsed / max(behaviour.seconds, 0.001)) % 2 == 1
                return WorkloadProgress(float(ready), False, 0, now)
            case _:
                return WorkloadProgress(fraction, False, rollout.previously_available, now)

    def _send_patch(self, kind: ServedKind, key: StoredKey, subresource: str, patch: Object) -> bool:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        namespace_path = f"/namespaces/{key.namespace}" if kind.namespaced else ""
        target = f"{root}{namespace_path}/{kind.plural}/{key.name}" + (f"/{subresource}" if subresource else "")
        headers = {"content-type": "application/merge-patch+json", "user-agent": "kube-controller-manager"}
        return self._send_request(Request("PATCH", target, headers, orjson.dumps(patch))).status == 200


def _is_applied(obj: Any, patch: Any) -> bool:
    """Return whether `patch` would leave `obj` unchanged, apart from times of conditions."""
    if isinstance(patch, dict):
        if patch.get("type") and "lastTransitionTime" in patch:
            patch = {name: value for name, value in patch.items() if not name.startswith("last")}
        return isinstance(obj, dict) and all(
            _is_applied(obj.get(name), value) or (not value and name not in obj) for name, value in patch.items()
        )
    if isinstance(patch, list):
        return isinstance(obj, list) and len(obj) == len(patch) and all(map(_is_applied, obj, patch))
    return bool(obj == patch)
