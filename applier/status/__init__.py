"""Health of a live object by the rules of kstatus (sigs.k8s.io/cli-utils), with some exceptions. Pure.

`health` returns whether an object works. If `is_fresh` is false, this result is invalid. For an object without
`readyWhen`, `is_ready_by_existence` returns whether dependents may start. That result needs no fresh status, because
dependents need only the existence of the object.

Exceptions to the rules of kstatus: a running Job is InProgress until the Job completes. A failed Pod without a
controller is Failed. Further exceptions are claims that bind on first use, custom resources without status, and
instances of definitions. Parameters of `health` identify these objects.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from applier.cluster import Object
from applier.status.model import (
    HealthResult,
    HealthView,
    KStatus,
    current_result,
    describe_condition,
    failed_result,
    progress_result,
)
from applier.status.rules import CLAIM_KIND, ENDED_PHASES, HEALTH_RULES, OBSERVING_KINDS
from renderer.identity import group_kind
from renderer.kinds import CRD, NAMESPACE

__all__ = ["HealthResult", "KStatus", "has_pods", "health", "is_fresh", "is_ready_by_existence"]

STATUS_GRACE_PERIOD = timedelta(seconds=30)
"""Time after which a custom resource without status counts as current, because no controller seems to write a status.
"""


_ABSENT = HealthResult(KStatus.NOT_FOUND, "the object is absent")


def health(
    obj: Object | None,
    *,
    now: datetime | None = None,
    since: datetime | None = None,
    reports_status: bool = False,
    awaits_consumer: bool = False,
    is_instance: bool = False,
) -> HealthResult:
    """Return the health of `obj`, or NotFound if `obj` is None.

    The result is never Unknown, because only the caller knows of a failed read. `applier.state.health` determines the
    arguments.

    Args:
        now: current time with a zone. If the time is None, no age counts.
        since: time of the last write of an object without status. If the time is None, the grace period begins with the
            creation of the object.
        reports_status: True if the CRD of the kind has a status subresource. For such a kind, a missing status means
            InProgress for `STATUS_GRACE_PERIOD`.
        awaits_consumer: True for a claim that binds on first use, and that no Pod uses yet.
        is_instance: True for an instance of a definition of Levelgate.
    """
    if obj is None:
        return _ABSENT
    view = HealthView(obj, now)
    generic_result = _generic_health(view)
    if generic_result:
        return generic_result
    if is_instance:
        return _instance_health(view)
    if awaits_consumer and group_kind(obj) == CLAIM_KIND and view.value_at("status", "phase") in (None, "Pending"):
        return HealthResult(KStatus.CURRENT, "binds as soon as the first Pod uses the claim")
    rule = HEALTH_RULES.get(group_kind(obj))
    if rule:
        return rule(view)
    if reports_status and not view.value_at("status"):
        return _health_without_status(view, since)
    return _ready_condition_health(view)


def is_fresh(obj: Object) -> bool:
    """Return whether the controller of `obj` has seen the current spec (API conventions, `observedGeneration`).

    As long as the result is False, the status describes an older spec. An object without the field counts as fresh,
    except for the kinds in `OBSERVING_KINDS`.
    """
    if (generation := obj["metadata"].get("generation")) is None:
        return True
    observed_generation = HealthView(obj, None).value_at("status", "observedGeneration")
    return (
        group_kind(obj) not in OBSERVING_KINDS
        if observed_generation is None
        else bool(observed_generation == generation)
    )


def is_ready_by_existence(obj: Object | None) -> bool:
    """Return whether dependents of `obj`, which has no `readyWhen`, may start.

    The object has to exist, and must not be terminating. A Namespace also has to be active. A CustomResourceDefinition
    also needs the conditions Established and NamesAccepted.
    """
    if obj is None or obj["metadata"].get("deletionTimestamp"):
        return False
    view = HealthView(obj, None)
    match group_kind(obj):
        case kind if kind == CRD:
            return view.is_condition_true("Established") and view.is_condition_true("NamesAccepted")
        case kind if kind == NAMESPACE:
            return bool(view.value_at("status", "phase") == "Active")
        case _:
            return True


def has_pods(workload: Object) -> bool:
    """Return whether `workload` is a Pod that runs or will run, or has such Pods.

    The Pods of a CronJob do not count, because these Pods belong to the temporary Jobs of the CronJob.

    Args:
        workload: Pod, or an object of a kind that creates Pods.
    """
    view = HealthView(workload, None)
    match workload["kind"]:
        case "CronJob":
            return False
        case "Job" | "Pod":
            return not (
                view.is_condition_true("Complete")
                or view.is_condition_true("Failed")
                or view.value_at("status", "phase") in ENDED_PHASES
            )
    return view.replicas > 0


def _generic_health(view: HealthView) -> HealthResult | None:
    """Return the result of rules 1 to 3 of kstatus, which precede the rules of kinds, or None if no rule applies."""
    deleted_at = view.value_at("metadata", "deletionTimestamp")
    if deleted_at:
        finalizers = ", ".join(view.value_at("metadata", "finalizers") or ())
        parts = (f"deleted at {deleted_at}", f"waits for {finalizers}" if finalizers else "", view.deletion_obstacles)
        return HealthResult(KStatus.TERMINATING, ", ".join(filter(None, parts)))
    if not view.value_at("status"):
        return None
    generation, observed = view.value_at("metadata", "generation"), view.value_at("status", "observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        return progress_result(f"the controller has not observed generation {generation} yet (observed: {observed})")
    for condition in view.conditions:
        match condition.get("type"), condition.get("status"):
            case "Reconciling", "True":
                return progress_result(describe_condition(condition))
            case "Stalled", "True":
                return failed_result(describe_condition(condition))
    return None


def _instance_health(view: HealthView) -> HealthResult:
    condition = view.condition("Healthy")
    generation = view.value_at("metadata", "generation")
    observed = condition.get("observedGeneration", view.value_at("status", "observedGeneration"))
    if not condition:
        return progress_result("condition Healthy is not set yet")
    if observed != generation:
        return progress_result(f"condition Healthy does not describe generation {generation} (observed: {observed})")
    return (
        current_result(describe_condition(condition))
        if condition.get("status") == "True"
        else progress_result(describe_condition(condition))
    )


def _health_without_status(view: HealthView, since: datetime | None) -> HealthResult:
    no_status_result = current_result(
        f"no status within {STATUS_GRACE_PERIOD.seconds} s: no controller seems to write a status"
    )
    begin = since or view.value_at("metadata", "creationTimestamp")
    return view.result_by_age(STATUS_GRACE_PERIOD, begin, young=progress_result("no status yet"), old=no_status_result)


def _ready_condition_health(view: HealthView) -> HealthResult:
    """Return the result of rules 5 and 6 of kstatus.

    If no rule covers a kind, Ready=False never means Failed, because no time limit is known.
    """
    condition = view.condition("Ready")
    if not condition or condition.get("status") == "True":
        return current_result(describe_condition(condition))
    return progress_result(describe_condition(condition))
