"""Health of a live object, by the rules of kstatus (sigs.k8s.io/cli-utils), with our answers to its known traps.

Pure functions of the object as read, and of `now` where a rule knows an age. Two questions, two answers: `health`
says whether an object works, `is_ready_by_existence` whether what depends on it may start when it has no `readyWhen`. Neither
means anything before `is_fresh`.

Where we differ from kstatus: a running Job is InProgress until it completes; a failed Pod without a controller is
Failed; a claim that binds on first use, a custom resource without status and an instance of our definitions are told
by parameters.
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
"""How long a custom resource may be without status before it counts as one whose controller writes none."""


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
    """The health of an object; None is an object that is absent. A read that failed is `Unknown`, which only the
    caller can say.

    `reports_status`: its CRD has a status subresource, so that no status yet means InProgress for `STATUS_GRACE_PERIOD` from
    `since` (when it was written; else its creation). `awaits_consumer`: a PersistentVolumeClaim that binds on first
    use and has no Pod yet. `is_instance`: an instance of our definitions. Ages are judged only with `now`, an aware
    datetime. `applier.state.health` finds out what of this is so.
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
        return HealthResult(KStatus.CURRENT, "binds when the first Pod uses it")
    rule = HEALTH_RULES.get(group_kind(obj))
    if rule:
        return rule(view)
    if reports_status and not view.value_at("status"):
        return _health_without_status(view, since)
    return _ready_condition_health(view)


def is_fresh(obj: Object) -> bool:
    """Whether the object's controller has seen its present spec (API conventions, `observedGeneration`).

    Kinds that are not known to publish it, and do not, count as fresh. Before this is true, status describes an older
    spec.
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
    """Whether dependents may start where no `readyWhen` says more: it exists and is not going away.

    A CustomResourceDefinition must be served under the names it asks for, a Namespace be active.
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
    """Whether a Pod, or the Pods that this workload makes, are alive or on their way; of kinds that make none nothing is said.

    A CronJob's Pods are those of its Jobs, which come and go.
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
    """Rules 1 to 3, which come before any rule of a kind."""
    deleted_at = view.value_at("metadata", "deletionTimestamp")
    if deleted_at:
        finalizers = ", ".join(view.value_at("metadata", "finalizers") or ())
        parts = (f"deleted at {deleted_at}", f"waits for {finalizers}" if finalizers else "", view.deletion_obstacles)
        return HealthResult(KStatus.TERMINATING, ", ".join(filter(None, parts)))
    if not view.value_at("status"):
        return None
    generation, observed = view.value_at("metadata", "generation"), view.value_at("status", "observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        return progress_result(f"generation {generation} is not observed yet (observed: {observed})")
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
        return progress_result(f"condition Healthy is not of generation {generation} (observed: {observed})")
    return (
        current_result(describe_condition(condition))
        if condition.get("status") == "True"
        else progress_result(describe_condition(condition))
    )


def _health_without_status(view: HealthView, since: datetime | None) -> HealthResult:
    no_status_result = current_result(
        f"no status within {STATUS_GRACE_PERIOD.seconds} s: no controller seems to write one"
    )
    begin = since or view.value_at("metadata", "creationTimestamp")
    return view.result_by_age(STATUS_GRACE_PERIOD, begin, young=progress_result("no status yet"), old=no_status_result)


def _ready_condition_health(view: HealthView) -> HealthResult:
    """Rules 5 and 6: without a rule for the kind, Ready=False is never Failed; how long to wait is for the caller to
    say.
    """
    condition = view.condition("Ready")
    if not condition or condition.get("status") == "True":
        return current_result(describe_condition(condition))
    return progress_result(describe_condition(condition))
