"""Health of a live object, by the rules of kstatus (sigs.k8s.io/cli-utils), with our answers to its known traps.

Pure functions of the object as read, and of `now` where a rule knows an age. Two questions, two answers: `health`
says whether an object works, `exists_ready` whether what depends on it may start when it has no `readyWhen`. Neither
means anything before `is_fresh`.

Where we differ from kstatus: a running Job is InProgress until it completes; a failed Pod without a controller is
Failed; a claim that binds on first use, a custom resource without status and an instance of our definitions are told
by parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from applier.cluster import Object
from renderer.identity import GroupKind, group_kind

STATUS_GRACE = timedelta(seconds=30)
"""How long a custom resource may be without status before it counts as one whose controller writes none."""

UNSCHEDULABLE_AFTER = timedelta(seconds=15)
"""How long the scheduler may fail to place a Pod before the Pod counts as Failed (kstatus)."""

_NO_DEADLINE = 2**31 - 1


class Status(Enum):
    """The kstatus words."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Health:
    """A status, and in `message` what it was concluded from, for people."""

    status: Status
    message: str = ""


@dataclass(frozen=True, slots=True)
class _View:
    """One object and what the rules ask of it. Numbers and texts that are absent are the default."""

    obj: Object
    now: datetime | None

    def at(self, *path: str) -> Any:
        value: Any = self.obj
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def number(self, *path: str, default: int = 0) -> int:
        value = self.at(*path)
        return value if isinstance(value, int) else default

    def status(self, name: str) -> int:
        return self.number("status", name)

    @property
    def replicas(self) -> int:
        return self.number("spec", "replicas", default=1)

    @property
    def conditions(self) -> Iterator[Mapping[str, Any]]:
        conditions = self.at("status", "conditions")
        yield from (c for c in conditions if isinstance(c, Mapping)) if isinstance(conditions, list) else ()

    def condition(self, kind: str) -> Mapping[str, Any]:
        return next((c for c in self.conditions if c.get("type") == kind), {})

    def is_true(self, kind: str) -> bool:
        return self.condition(kind).get("status") == "True"

    def older_than(self, age: timedelta, since: str | datetime | None) -> bool:
        """Whether `since` lies more than `age` back. Nothing is old where `now` or `since` is not known."""
        begin = datetime.fromisoformat(since) if isinstance(since, str) else since
        return self.now is not None and begin is not None and self.now - begin > age


def health(
    obj: Object | None,
    *,
    now: datetime | None = None,
    since: datetime | None = None,
    reports_status: bool = False,
    awaits_consumer: bool = False,
    is_instance: bool = False,
) -> Health:
    """The health of an object; None is an object that is absent. A read that failed is `Unknown`, which only the
    caller can say.

    `reports_status`: its CRD has a status subresource, so that no status yet means InProgress for `STATUS_GRACE` from
    `since` (when it was written; else its creation). `awaits_consumer`: a PersistentVolumeClaim that binds on first
    use and has no Pod yet. `is_instance`: an instance of our definitions. Ages are judged only with `now`, an aware
    datetime.
    """
    if obj is None:
        return Health(Status.NOT_FOUND, "the object is absent")
    view = _View(obj, now)
    general = _generic(view)
    if general:
        return general
    if is_instance:
        return _instance(view)
    if awaits_consumer and group_kind(obj) == _CLAIM and view.at("status", "phase") in (None, "Pending"):
        return Health(Status.CURRENT, "binds when the first Pod uses it")
    rule = _RULES.get(group_kind(obj))
    if rule:
        return rule(view)
    if reports_status and not view.at("status"):
        return _without_status(view, since)
    return _ready_condition(view)


def _generic(view: _View) -> Health | None:
    """Rules 1 to 3, which come before any rule of a kind."""
    deleted = view.at("metadata", "deletionTimestamp")
    if deleted:
        finalizers = ", ".join(view.at("metadata", "finalizers") or ())
        return Health(Status.TERMINATING, f"deleted at {deleted}" + (f", waits for {finalizers}" if finalizers else ""))
    generation, observed = view.at("metadata", "generation"), view.at("status", "observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        return _progress(f"generation {generation} is not observed yet (observed: {observed})")
    for condition in view.conditions:
        match condition.get("type"), condition.get("status"):
            case "Reconciling", "True":
                return _progress(_told(condition))
            case "Stalled", "True":
                return _failed(_told(condition))
    return None


def _instance(view: _View) -> Health:
    condition = view.condition("Healthy")
    generation = view.at("metadata", "generation")
    observed = condition.get("observedGeneration", view.at("status", "observedGeneration"))
    if not condition:
        return _progress("condition Healthy is not set yet")
    if observed != generation:
        return _progress(f"condition Healthy is not of generation {generation} (observed: {observed})")
    return _current(_told(condition)) if condition.get("status") == "True" else _progress(_told(condition))


def _without_status(view: _View, since: datetime | None) -> Health:
    if view.older_than(STATUS_GRACE, since or view.at("metadata", "creationTimestamp")):
        return _current(f"no status within {STATUS_GRACE.seconds} s: nobody seems to write one")
    return _progress("no status yet")


def _ready_condition(view: _View) -> Health:
    """Rules 5 and 6: without a rule for the kind, Ready=False is never Failed; how long to wait is for the caller to
    say.
    """
    condition = view.condition("Ready")
    if not condition or condition.get("status") == "True":
        return _current(_told(condition))
    return _progress(_told(condition))


def _deployment(view: _View) -> Health:
    progressing = view.condition("Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return _failed(_told(progressing))
    wanted, updated = view.replicas, view.status("updatedReplicas")
    shortage = _first(
        _below("created", view.status("replicas"), wanted),
        _below("updated", updated, wanted),
        _above(view.status("replicas"), wanted),
        _below("available", view.status("availableReplicas"), updated),
        _below("ready", view.status("readyReplicas"), wanted),
    )
    if shortage:
        return shortage
    bounded = view.number("spec", "progressDeadlineSeconds", default=_NO_DEADLINE) != _NO_DEADLINE
    done = progressing.get("status") == "True" and progressing.get("reason") == "NewReplicaSetAvailable"
    if bounded and not done:
        return _progress("the new ReplicaSet is not available yet")
    return (
        _current(f"{wanted} available") if view.is_true("Available") else _progress("condition Available is not True")
    )


def _replica_set(view: _View) -> Health:
    if view.is_true("ReplicaFailure"):
        return _progress(_told(view.condition("ReplicaFailure")))
    wanted = view.replicas
    return _first(
        _below("labelled", view.status("fullyLabeledReplicas"), wanted),
        _below("available", view.status("availableReplicas"), wanted),
        _below("ready", view.status("readyReplicas"), wanted),
        _above(view.status("replicas"), wanted),
    ) or _current(f"{wanted} available")


def _stateful_set(view: _View) -> Health:
    if view.at("spec", "updateStrategy", "type") == "OnDelete":
        return _current("its Pods are replaced by whoever deletes them (OnDelete)")
    wanted = view.replicas
    shortage = _first(
        _below("created", view.status("replicas"), wanted),
        _below("ready", view.status("readyReplicas"), wanted),
        _above(view.status("replicas"), wanted),
    )
    if shortage:
        return shortage
    partition = view.at("spec", "updateStrategy", "rollingUpdate", "partition")
    if partition is not None:
        behind = _below("updated", view.status("updatedReplicas"), wanted - partition)
        return behind or _current(f"{wanted} ready")
    return _below("current", view.status("currentReplicas"), wanted) or _same_revision(view)


def _same_revision(view: _View) -> Health:
    current, update = view.at("status", "currentRevision"), view.at("status", "updateRevision")
    return _current(f"at revision {current}") if current == update else _progress(f"moves from {current} to {update}")


def _daemon_set(view: _View) -> Health:
    if view.at("metadata", "generation") is None or view.at("status", "observedGeneration") is None:
        return _progress("its generation is not observed yet")
    wanted = view.at("status", "desiredNumberScheduled")
    if wanted is None:
        return _progress("the number of nodes is not known yet")
    return _first(
        _below("scheduled", view.status("currentNumberScheduled"), wanted),
        _below("updated", view.status("updatedNumberScheduled"), wanted),
        _below("available", view.status("numberAvailable"), wanted),
        _below("ready", view.status("numberReady"), wanted),
    ) or _current(f"{wanted} ready")


def _pod(view: _View) -> Health:
    match view.at("status", "phase"):
        case "Succeeded":
            return _current("completed")
        case "Failed":
            return _ended_pod(view)
        case "Running":
            return _running_pod(view)
        case "Pending":
            return _pending_pod(view)
        case None | "":
            return _progress("no phase yet")
        case phase:
            return Health(Status.UNKNOWN, f"phase {phase}")


def _ended_pod(view: _View) -> Health:
    """A controller replaces or counts its failed Pods itself; nobody does that for a Pod of its own."""
    text = f"failed: {view.at('status', 'reason') or view.at('status', 'message') or 'a container ended with an error'}"
    owners = view.at("metadata", "ownerReferences") or []
    return _current(text) if any(owner.get("controller") for owner in owners) else _failed(text)


def _running_pod(view: _View) -> Health:
    if view.is_true("Ready"):
        return _current("running and ready")
    crashing = [
        container.get("name")
        for group in ("containerStatuses", "initContainerStatuses")
        for container in view.at("status", group) or []
        if ((container.get("state") or {}).get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    ]
    return _failed(f"containers crash: {', '.join(map(str, crashing))}") if crashing else _progress("not ready yet")


def _pending_pod(view: _View) -> Health:
    scheduled = view.condition("PodScheduled")
    stuck = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    if stuck and view.older_than(UNSCHEDULABLE_AFTER, scheduled.get("lastTransitionTime")):
        return _failed(_told(scheduled))
    return _progress(_told(scheduled) if stuck else "pending")


def _job(view: _View) -> Health:
    for condition in view.conditions:
        match condition.get("type"), condition.get("status"):
            case "Failed", "True":
                return _failed(_told(condition))
            case "Complete", "True":
                return _current("completed")
            case "Suspended", "True" if view.at("spec", "suspend"):
                return _current("suspended")
    if not view.at("status", "startTime"):
        return _progress("not started yet")
    counts = ", ".join(f"{view.status(name)} {name}" for name in ("active", "succeeded", "failed"))
    return _progress(f"running: {counts}")


def _always(view: _View) -> Health:
    return _current("exists")


def _claim(view: _View) -> Health:
    phase = view.at("status", "phase")
    return _current("bound") if phase == "Bound" else _progress(f"phase {phase or 'not set'}, wants Bound")


def _service(view: _View) -> Health:
    if view.at("spec", "type") == "LoadBalancer" and not view.at("spec", "clusterIP"):
        return _progress("no cluster address yet")
    return _current("exists")


def _definition(view: _View) -> Health:
    names, established = view.condition("NamesAccepted"), view.condition("Established")
    if names.get("status") == "False":
        return _failed(_told(names))
    if established.get("status") == "True":
        return _current("established")
    if established.get("status") == "False" and established.get("reason") != "Installing":
        return _failed(_told(established))
    return _progress("not established yet")


_CLAIM = GroupKind("", "PersistentVolumeClaim")
_DEFINITION = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
_NAMESPACE = GroupKind("", "Namespace")

_RULES: Mapping[GroupKind, Callable[[_View], Health]] = {
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("extensions", "Deployment"): _deployment,
    GroupKind("apps", "ReplicaSet"): _replica_set,
    GroupKind("extensions", "ReplicaSet"): _replica_set,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("extensions", "DaemonSet"): _daemon_set,
    GroupKind("", "Pod"): _pod,
    GroupKind("batch", "Job"): _job,
    GroupKind("batch", "CronJob"): _always,
    GroupKind("", "ConfigMap"): _always,
    GroupKind("", "Secret"): _always,
    GroupKind("policy", "PodDisruptionBudget"): _always,
    _CLAIM: _claim,
    GroupKind("", "Service"): _service,
    _DEFINITION: _definition,
}

_OBSERVERS = frozenset(
    {
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "StatefulSet"),
        GroupKind("apps", "DaemonSet"),
        GroupKind("apps", "ReplicaSet"),
        GroupKind("", "ReplicationController"),
        GroupKind("policy", "PodDisruptionBudget"),
    }
)
"""Kinds whose controllers always publish `status.observedGeneration`, so that its absence means: not looked at yet."""


def is_fresh(obj: Object) -> bool:
    """Whether the object's controller has seen its present spec (API conventions, `observedGeneration`).

    Kinds that are not known to publish it, and do not, count as fresh. Before this is true, status describes an older
    spec.
    """
    if (generation := obj["metadata"].get("generation")) is None:
        return True
    observed = _View(obj, None).at("status", "observedGeneration")
    return group_kind(obj) not in _OBSERVERS if observed is None else bool(observed == generation)


def exists_ready(obj: Object | None) -> bool:
    """Whether dependents may start where no `readyWhen` says more: it exists and is not going away.

    A CustomResourceDefinition must be served under the names it asks for, a Namespace be active.
    """
    if obj is None or obj["metadata"].get("deletionTimestamp"):
        return False
    view = _View(obj, None)
    match group_kind(obj):
        case kind if kind == _DEFINITION:
            return view.is_true("Established") and view.is_true("NamesAccepted")
        case kind if kind == _NAMESPACE:
            return bool(view.at("status", "phase") == "Active")
        case _:
            return True


def _current(message: str) -> Health:
    return Health(Status.CURRENT, message)


def _progress(message: str) -> Health:
    return Health(Status.IN_PROGRESS, message)


def _failed(message: str) -> Health:
    return Health(Status.FAILED, message)


def _told(condition: Mapping[str, Any]) -> str:
    """A condition in words: `Ready=False (Reason): message`."""
    if not condition:
        return "exists"
    reason, message = condition.get("reason"), condition.get("message")
    head = f"{condition.get('type')}={condition.get('status')}" + (f" ({reason})" if reason else "")
    return f"{head}: {message}" if message else head


def _below(what: str, have: int, want: int) -> Health | None:
    return _progress(f"{have} of {want} {what}") if have < want else None


def _above(have: int, want: int) -> Health | None:
    return _progress(f"{have - want} old Pods still exist") if have > want else None


def _first(*found: Health | None) -> Health | None:
    return next((each for each in found if each), None)
