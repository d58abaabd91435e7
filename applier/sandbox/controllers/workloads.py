"""What the controllers of workloads would report, by script: rollouts become available, jobs complete, addresses come.

Nothing runs. A controller here is a client of the sandbox that writes statuses (`reports`) in the steps that an injected
clock allows, so that a rollout can be watched and waited for, and can be made to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol

import orjson

from applier.sandbox.api.state import ApiState
from applier.sandbox.controllers.workload_status import STATUS, Object, WorkloadProgress
from applier.sandbox.kinds.registry import ServedKind
from applier.sandbox.storage.store import StoredKey
from applier.sandbox.wire import Request, Response
from renderer.frozen import dataclass

Outcome = Literal["ready", "fail", "hang", "flap"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a workload goes after each change: `ready` or `fail` after `seconds`; `hang` never gets on; `flap` is ready
    and not ready in turn, `seconds` each.
    """

    outcome: Outcome = "ready"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """A behaviour for the objects of a resource (`deployments.apps`) that patterns of their place match."""

    behaviour: Behaviour
    resource: str = "*"
    namespace: str = "*"
    name: str = "*"

    def meets(self, key: StoredKey) -> bool:
        return all(map(fnmatchcase, key, (self.resource, self.namespace, self.name)))


class Behaves(Protocol):
    """Says what happens to workloads."""

    def behaviour(self, key: StoredKey) -> Behaviour:
        """Of the object with this key."""


@dataclass(frozen=True, slots=True)
class Script:
    """What happens to workloads: the first rule that meets an object, else `otherwise`."""

    rules: tuple[Rule, ...] = ()
    otherwise: Behaviour = Behaviour()

    def behaviour(self, key: StoredKey) -> Behaviour:
        return next((rule.behaviour for rule in self.rules if rule.meets(key)), self.otherwise)


@dataclass(frozen=True, slots=True)
class _Rollout:
    since: float
    earlier: int


class Workloads:
    """`request` carries out what the controllers ask for. `script` may be replaced at any time."""

    def __init__(self, state: ApiState, request: Callable[[Request], Response], script: Behaves) -> None:
        self.script = script
        self._state = state
        self._request = request
        self._seen: dict[str, int] = dict.fromkeys(STATUS, -1)
        self._content: dict[StoredKey, Any] = {}
        self._active: dict[StoredKey, _Rollout] = {}

    def tick(self) -> bool:
        """Report what is due; whether anything was."""
        for resource in STATUS:
            self._notice(resource)
        changed = False
        for key, rollout in list(self._active.items()):
            changed |= self._advance(key, rollout)
        return changed

    def due(self) -> float | None:
        """When time brings something further, by the clock; None: whatever is under way never gets there. What has changed since the last step is
        not known yet.
        """
        return min(filter(None, (self._ends(key, rollout) for key, rollout in self._active.items())), default=None)

    def _ends(self, key: StoredKey, rollout: _Rollout) -> float | None:
        behaviour = self.script.behaviour(key)
        match behaviour.outcome:
            case "hang":
                return None
            case "flap":
                length = max(behaviour.seconds, 0.001)
                return rollout.since + (int((self._state.clock() - rollout.since) / length) + 1) * length
            case _:
                return rollout.since + behaviour.seconds

    def _notice(self, resource: str) -> None:
        """Take up what is new or has changed since the last step; after a long time, everything."""
        shelf, seen = self._state.store.shelf(resource), self._seen[resource]
        self._seen[resource] = self._state.store.version
        if seen < shelf.forgotten or seen < 0:
            keys = {StoredKey(resource, *place) for place in shelf.keys(None)}
        else:
            keys = {event.after.key for event in shelf.since(seen)}
        for key in sorted(keys):
            stored = self._state.store.get(key)
            if stored is None:
                self._active.pop(key, None)
                self._content.pop(key, None)
                continue
            obj = stored.object()
            content = obj["metadata"]["uid"], obj["metadata"].get("generation") or orjson.dumps(obj.get("spec"))
            if self._content.get(key) != content:
                self._content[key] = content
                earlier = (obj.get("status") or {}).get("availableReplicas", 0)
                self._active[key] = _Rollout(self._state.clock(), earlier)

    def _advance(self, key: StoredKey, rollout: _Rollout) -> bool:
        stored = self._state.store.get(key)
        kind = self._state.kinds.stored(key.resource)
        if stored is None or kind is None:
            del self._active[key]
            return False
        obj = stored.object()
        behaviour = self.script.behaviour(key)
        progress = self._progress(behaviour, rollout)
        wanted = STATUS[key.resource](obj, progress)
        if (progress.part == 1 or progress.failed) and behaviour.outcome != "flap":
            del self._active[key]
        changed = False
        for subresource, patch in wanted.items():
            if not _holds(obj, patch):
                changed |= self._patch(kind, key, subresource, patch)
        return changed

    def _progress(self, behaviour: Behaviour, rollout: _Rollout) -> WorkloadProgress:
        elapsed, now = self._state.clock() - rollout.since, self._state.now()
        part = 1.0 if elapsed >= behaviour.seconds else elapsed / behaviour.seconds
        match behaviour.outcome:
            case "hang":
                return WorkloadProgress(0.0, False, rollout.earlier, now)
            case "fail":
                return WorkloadProgress(0.0, part == 1, rollout.earlier, now)
            case "flap":
                ready = int(elapsed / max(behaviour.seconds, 0.001)) % 2 == 1
                return WorkloadProgress(float(ready), False, 0, now)
            case _:
                return WorkloadProgress(part, False, rollout.earlier, now)

    def _patch(self, kind: ServedKind, key: StoredKey, subresource: str, patch: Object) -> bool:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        place = f"/namespaces/{key.namespace}" if kind.namespaced else ""
        target = f"{root}{place}/{kind.plural}/{key.name}" + (f"/{subresource}" if subresource else "")
        headers = {"content-type": "application/merge-patch+json", "user-agent": "kube-controller-manager"}
        return self._request(Request("PATCH", target, headers, orjson.dumps(patch))).status == 200


def _holds(obj: Any, patch: Any) -> bool:
    """Whether a patch would change nothing but times of conditions."""
    if isinstance(patch, dict):
        if patch.get("type") and "lastTransitionTime" in patch:
            patch = {name: value for name, value in patch.items() if not name.startswith("last")}
        return isinstance(obj, dict) and all(
            _holds(obj.get(name), value) or (not value and name not in obj) for name, value in patch.items()
        )
    if isinstance(patch, list):
        return isinstance(obj, list) and len(obj) == len(patch) and all(map(_holds, obj, patch))
    return bool(obj == patch)
