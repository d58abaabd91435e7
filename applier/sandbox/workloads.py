"""What the controllers of workloads would report, by script: rollouts become available, jobs complete, addresses come.

Nothing runs. A controller here is a client of the sandbox that writes statuses as the real one words them, in the steps
that an injected clock allows, so that a rollout can be watched and waited for, and can be made to fail. Status fields:
the Kubernetes API reference of each kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol

import orjson

from applier.sandbox.kinds import Kind
from applier.sandbox.state import State
from applier.sandbox.store import Key
from applier.sandbox.wire import Request, Response

Object = dict[str, Any]
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

    def meets(self, key: Key) -> bool:
        return all(map(fnmatchcase, key, (self.resource, self.namespace, self.name)))


class Behaves(Protocol):
    """Says what happens to workloads."""

    def behaviour(self, key: Key) -> Behaviour:
        """Of the object with this key."""


@dataclass(frozen=True, slots=True)
class Script:
    """What happens to workloads: the first rule that meets an object, else `otherwise`."""

    rules: tuple[Rule, ...] = ()
    otherwise: Behaviour = Behaviour()

    def behaviour(self, key: Key) -> Behaviour:
        return next((rule.behaviour for rule in self.rules if rule.meets(key)), self.otherwise)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a rollout is: `part` of it done (0 to 1), or `failed`. `earlier` replicas were available before it."""

    part: float
    failed: bool
    earlier: int
    now: str

    def of(self, count: int) -> int:
        return int(count * self.part)


@dataclass(frozen=True, slots=True)
class _Rollout:
    since: float
    earlier: int


class Workloads:
    """`request` carries out what the controllers ask for. `script` may be replaced at any time."""

    def __init__(self, state: State, request: Callable[[Request], Response], script: Behaves) -> None:
        self.script = script
        self._state = state
        self._request = request
        self._seen: dict[str, int] = dict.fromkeys(_STATUS, -1)
        self._content: dict[Key, Any] = {}
        self._active: dict[Key, _Rollout] = {}

    def tick(self) -> bool:
        """Report what is due; whether anything was."""
        for resource in _STATUS:
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

    def _ends(self, key: Key, rollout: _Rollout) -> float | None:
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
            keys = {Key(resource, *place) for place in shelf.keys(None)}
        else:
            keys = {event.after.key for event in shelf.since(seen)}
        for key in sorted(keys):
            stored = self._state.store.get(key)
            if stored is None:
                self._active.pop(key, None)
                self._content.pop(key, None)
                continue
            obj = stored.object()
            content = obj["metadata"].get("generation") or orjson.dumps(obj.get("spec"))
            if self._content.get(key) != content:
                self._content[key] = content
                earlier = (obj.get("status") or {}).get("availableReplicas", 0)
                self._active[key] = _Rollout(self._state.clock(), earlier)

    def _advance(self, key: Key, rollout: _Rollout) -> bool:
        stored = self._state.store.get(key)
        kind = self._state.kinds.stored(key.resource)
        if stored is None or kind is None:
            del self._active[key]
            return False
        obj = stored.object()
        behaviour = self.script.behaviour(key)
        progress = self._progress(behaviour, rollout)
        wanted = _STATUS[key.resource](obj, progress)
        if (progress.part == 1 or progress.failed) and behaviour.outcome != "flap":
            del self._active[key]
        changed = False
        for subresource, patch in wanted.items():
            if not _holds(obj, patch):
                changed |= self._patch(kind, key, subresource, patch)
        return changed

    def _progress(self, behaviour: Behaviour, rollout: _Rollout) -> Progress:
        elapsed, now = self._state.clock() - rollout.since, self._state.now()
        part = 1.0 if elapsed >= behaviour.seconds else elapsed / behaviour.seconds
        match behaviour.outcome:
            case "hang":
                return Progress(0.0, False, rollout.earlier, now)
            case "fail":
                return Progress(0.0, part == 1, rollout.earlier, now)
            case "flap":
                ready = int(elapsed / max(behaviour.seconds, 0.001)) % 2 == 1
                return Progress(float(ready), False, 0, now)
            case _:
                return Progress(part, False, rollout.earlier, now)

    def _patch(self, kind: Kind, key: Key, subresource: str, patch: Object) -> bool:
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


Patches = Mapping[str, Object]
"""Merge patches by subresource ("" is the object itself), in the order in which they are made."""


def _condition(kind: str, held: bool, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": "True" if held else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "lastUpdateTime": now,
    }


def _replicas(obj: Object) -> int:
    count = (obj.get("spec") or {}).get("replicas", 1)
    return count if isinstance(count, int) else 1


def _deployment(obj: Object, progress: Progress) -> Patches:
    wanted, updated = _replicas(obj), progress.of(_replicas(obj))
    available = min(wanted, max(updated, progress.earlier))
    enough = available >= wanted
    name = obj["metadata"]["name"]
    if progress.failed:
        rolled = (False, "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')
    elif progress.part == 1:
        rolled = (True, "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
    else:
        rolled = (True, "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    told = (
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    )
    status = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "replicas": wanted,
        "updatedReplicas": updated,
        "readyReplicas": available,
        "availableReplicas": available,
        "unavailableReplicas": wanted - available or None,
        "conditions": [
            _condition("Available", enough, *told, progress.now),
            _condition("Progressing", *rolled, progress.now),
        ],
    }
    return {"status": {"status": status}}


def _revision(obj: Object) -> str:
    """A name for the pod template, as controller revisions have."""
    template = orjson.dumps((obj.get("spec") or {}).get("template"), option=orjson.OPT_SORT_KEYS)
    return f"{obj['metadata']['name']}-{hashlib.blake2b(template, digest_size=5).hexdigest()}"


def _stateful_set(obj: Object, progress: Progress) -> Patches:
    wanted, updated, revision = _replicas(obj), progress.of(_replicas(obj)), _revision(obj)
    current = (obj.get("status") or {}).get("currentRevision") or revision
    available = min(wanted, max(updated, progress.earlier))
    done = progress.part == 1
    status = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "replicas": wanted,
        "readyReplicas": available,
        "availableReplicas": available,
        "updatedReplicas": updated,
        "currentReplicas": wanted if done else wanted - updated,
        "updateRevision": revision,
        "currentRevision": revision if done else current,
    }
    return {"status": {"status": status}}


def _daemon_set(obj: Object, progress: Progress) -> Patches:
    """On the one node that there would be."""
    ready = int(progress.part)
    status = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "desiredNumberScheduled": 1,
        "currentNumberScheduled": 1,
        "numberMisscheduled": 0,
        "updatedNumberScheduled": ready,
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": None if ready else 1,
    }
    return {"status": {"status": status}}


def _replica_set(obj: Object, progress: Progress) -> Patches:
    ready = progress.of(_replicas(obj))
    status = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "replicas": _replicas(obj),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "fullyLabeledReplicas": _replicas(obj),
    }
    return {"status": {"status": status}}


def _disruption_budget(obj: Object, progress: Progress) -> Patches:
    """There are no pods, so none may be disrupted."""
    condition = _plain(_condition("DisruptionAllowed", False, "InsufficientPods", "", progress.now))
    generation = obj["metadata"].get("generation", 1)
    counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0)
    conditions = [{**condition, "observedGeneration": generation}]
    return {"status": {"status": {"observedGeneration": generation, **counts, "conditions": conditions}}}


def _job(obj: Object, progress: Progress) -> Patches:
    completions = (obj.get("spec") or {}).get("completions") or 1
    status: Object = {"startTime": (obj.get("status") or {}).get("startTime") or progress.now}
    if progress.failed:
        message = "Job has reached the specified backoff limit"
        held = [_condition(kind, True, "BackoffLimitExceeded", message, progress.now) for kind in _FAILED]
        status |= {"active": None, "failed": 1, "ready": 0, "conditions": [_plain(one) for one in held]}
    elif progress.part == 1:
        message = "Reached expected number of succeeded pods"
        held = [_condition(kind, True, "CompletionsReached", message, progress.now) for kind in _COMPLETE]
        ended = (obj.get("status") or {}).get("completionTime") or progress.now
        status |= {"active": None, "succeeded": completions, "ready": 0, "completionTime": ended}
        status["conditions"] = [_plain(one) for one in held]
    else:
        status |= {"active": 1, "ready": 1, "succeeded": progress.of(completions) or None}
    return {"status": {"status": status}}


_FAILED, _COMPLETE = ("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")


def _plain(condition: Object) -> Object:
    """A condition without lastUpdateTime, which only Deployments have."""
    return {name: value for name, value in condition.items() if name != "lastUpdateTime"}


def _pod(obj: Object, progress: Progress) -> Patches:
    if progress.failed:
        return {"status": {"status": {"phase": "Failed", "reason": "Error"}}}
    ready = progress.part == 1
    reason = "" if ready else "ContainersNotReady"
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    conditions = [_plain(_condition(kind, ready or kind in kinds[:2], reason, "", progress.now)) for kind in kinds]
    containers = [
        {
            "name": one.get("name", ""),
            "ready": ready,
            "restartCount": 0,
            "image": one.get("image", ""),
            "imageID": "",
        }
        for one in (obj.get("spec") or {}).get("containers") or ()
    ]
    phase = "Running" if ready else "Pending"
    return {"status": {"status": {"phase": phase, "conditions": conditions, "containerStatuses": containers}}}


def _service(obj: Object, progress: Progress) -> Patches:
    """An address of TEST-NET-1 (RFC 5737), which leads nowhere, for those that ask for a load balancer."""
    if (obj.get("spec") or {}).get("type") != "LoadBalancer" or progress.part < 1:
        return {}
    return {"status": {"status": {"loadBalancer": {"ingress": [{"ip": _address(obj), "ipMode": "VIP"}]}}}}


def _ingress(obj: Object, progress: Progress) -> Patches:
    if progress.part < 1:
        return {}
    return {"status": {"status": {"loadBalancer": {"ingress": [{"ip": _address(obj)}]}}}}


def _address(obj: Object) -> str:
    return f"192.0.2.{int(hashlib.blake2b(obj['metadata']['uid'].encode(), digest_size=2).hexdigest(), 16) % 254 + 1}"


def _claim(obj: Object, progress: Progress) -> Patches:
    if progress.part < 1:
        return {}
    spec = obj.get("spec") or {}
    requests = (spec.get("resources") or {}).get("requests") or {}
    volume = spec.get("volumeName") or f"pvc-{obj['metadata']['uid']}"
    capacity = {"storage": requests.get("storage", "1Gi")}
    status = {"phase": "Bound", "accessModes": spec.get("accessModes", []), "capacity": capacity}
    return {"": {"spec": {"volumeName": volume}}, "status": {"status": status}}


_STATUS: Mapping[str, Callable[[Object, Progress], Patches]] = {
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "ingresses.networking.k8s.io": _ingress,
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "poddisruptionbudgets.policy": _disruption_budget,
    "pods": _pod,
    "replicasets.apps": _replica_set,
    "replicationcontrollers": _replica_set,
    "services": _service,
    "statefulsets.apps": _stateful_set,
}
"""By resource."""
