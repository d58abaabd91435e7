"""Status of an instance: kro's state and conditions, the fields of the definition's author, and a row for each cause.

The conditions `Ready` and `Healthy` describe the live objects. `Propagated` describes the progress to the target. So a
change that only waits makes neither `Ready` nor `Healthy` false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.plan.model import ApplySetPlan, NodePlan
from applier.plan.prune_candidate import protected_keys
from applier.plan.set_causes import set_causes
from applier.state.observed import is_terminating
from gitops.records import cause_rows
from gitops.records.cause_rows import MAX_MESSAGE_CHARACTERS
from gitops.timestamps import timestamp
from renderer.definition.custom_conditions import LEVELGATE_CONDITIONS
from renderer.identity import digest
from renderer.levelgate_status import LEVELGATE_KEY, LevelgateStatus, RevisionAtCommit


def instance_status(
    plan: ApplySetPlan, *, commit: str, now: str, rollout_fields: Mapping[str, Any] | None = None, synced: str = ""
) -> dict[str, Any]:
    """Return the status of the instance of `plan`.

    The author's fields and kro's state and conditions are at the top level. Levelgate's own fields are under
    `levelgate`.

    Args:
        commit: commit of the source that `plan` applies to the instance.
        now: current time in UTC, RFC 3339.
        rollout_fields: fields of `LevelgateStatus` that store progress of the rollout and first observations of
            directives.
        synced: value of the answered request to reconcile, or an empty string to keep the last answer.
    """
    assert plan.parent is not None
    previous_status: Mapping[str, Any] = plan.parent.get("status") or {}
    previous = LevelgateStatus.from_status(previous_status)
    blocked = set_causes(plan)
    conditions, problem = _custom_conditions(plan, _conditions(plan, blocked), previous_status)
    if problem:
        blocked = [Cause(Reason.RENDER_FAILED, problem), *blocked]
    return {
        **(
            plan.rendered.status if plan.nodes or not (plan.error or plan.deletion) else _author_fields(previous_status)
        ),
        "state": _state(plan, blocked),
        "conditions": _with_times(conditions, previous_status.get("conditions") or [], plan.parent, now),
        LEVELGATE_KEY: replace(
            _levelgate_status(plan, blocked, previous, commit=commit, now=now),
            **(rollout_fields or {}),
            synced=synced or previous.synced,
        ).to_dict(),
    }


def not_in_git_status(stray: Object, *, now: str) -> dict[str, Any]:
    """Return the status of the instance `stray`, which is absent from all sources.

    The status has only the condition `InstanceManaged` with the reason `NotInGit`.
    """
    message = "no source declares this instance; commit the instance, or delete it"
    condition = _condition(
        "InstanceManaged", ok=False, true_reason="", false_reason=str(Reason.NOT_IN_GIT), false_message=message
    )
    return {"conditions": _with_times([condition], [], stray, now)}


def is_marked_not_in_git(stray: Object) -> bool:
    """Return whether the status of the instance `stray` already has a condition with the reason `NotInGit`."""
    conditions = (stray.get("status") or {}).get("conditions") or []
    return any(condition.get("reason") == Reason.NOT_IN_GIT for condition in conditions)


def is_waiting(plan: ApplySetPlan) -> bool:
    """Return whether `plan` still waits for a write, a deletion, or the health of a node.

    A held node does not count as waiting, nor does a node that waits only for a held node. So an instance with a held
    node can be settled.
    """
    held = set[str]()
    for node in plan.nodes:
        waits_for_held = (
            node.blocked is not None
            and node.blocked.reason is Reason.DEPENDENCY_NOT_READY
            and not held.isdisjoint(node.blocked.blockers)
        )
        if node.is_held or waits_for_held:
            held.add(node.node.id)
        elif not (node.is_applied and node.healthy) and not node.node.external:
            return True
    protected = protected_keys(plan.prune_candidates)
    return (
        any(candidate.member.key not in protected for candidate in plan.candidates_to_remove)
        or plan.detach
        or plan.finish_deletion
        or (plan.not_moved is not None and not plan.not_moved.reason.is_hold)
    )


def _state(plan: ApplySetPlan, blocked: Iterable[Cause]) -> str:
    """Return kro's field `state`: `DELETING`, `ERROR`, `ACTIVE` or `IN_PROGRESS`."""
    assert plan.parent is not None
    if is_terminating(plan.parent):
        return "DELETING"
    if any(cause.reason.is_failure for cause in blocked):
        return "ERROR"
    return "ACTIVE" if all(map(_is_ready, plan.nodes)) else "IN_PROGRESS"


def _is_ready(node: NodePlan) -> bool:
    return node.exists and node.ready


def _conditions(plan: ApplySetPlan, blocked: list[Cause]) -> list[dict[str, str]]:
    """Return the conditions of kro, then `Healthy` and `Propagated`."""
    assert plan.parent is not None
    unready = next((node for node in plan.nodes if not _is_ready(node)), None)
    unhealthy = [node for node in plan.nodes if not node.node.external and not (node.exists and node.healthy)]
    error = next((cause for cause in blocked if cause.reason.is_failure), None)
    resolved = _condition(
        "GraphResolved",
        ok=plan.error is None,
        true_reason="Resolved",
        false_reason="ResolutionFailed",
        false_message=plan.error.message if plan.error else "",
    )
    if is_terminating(plan.parent):
        resources = {
            "type": "ResourcesReady",
            "status": "Unknown",
            "reason": "UnderDeletion",
            "message": _first_message(blocked),
        }
    else:
        message = f"{unready.node.id}: {unready.blocked.message if unready.blocked else 'not ready'}" if unready else ""
        resources = _condition(
            "ResourcesReady",
            ok=unready is None and (plan.error is None or bool(plan.rendered.held_reason)),
            true_reason="AllResourcesReady",
            false_reason="NotReady",
            false_message=message,
        )
    ready = resolved["status"] == resources["status"] == "True"
    total = sum(1 for node in plan.nodes if not node.node.external)
    waiting = is_waiting(plan) or plan.error is not None or bool(blocked)
    return [
        _condition("InstanceManaged", ok=True, true_reason="Managed", false_reason="ManagementFailed"),
        resolved,
        resources,
        _condition(
            "Ready",
            ok=ready,
            true_reason="Ready",
            false_reason="NotReady",
            false_message=resources["message"] or resolved["message"],
        ),
        _condition(
            "Healthy",
            ok=not unhealthy,
            true_reason="AllHealthy",
            false_reason="Unhealthy" if error else "Progressing",
            false_message=f"{total - len(unhealthy)} of {total} nodes",
            true_message=f"{total} of {total} nodes",
        ),
        _condition(
            "Propagated",
            ok=not waiting,
            true_reason="Settled",
            false_reason=str(blocked[0].reason if blocked else Reason.PROGRESSING),
            false_message=_first_message(blocked),
        ),
    ]


def _custom_conditions(
    plan: ApplySetPlan, built_in: list[dict[str, str]], previous_status: Mapping[str, Any]
) -> tuple[list[dict[str, str]], str]:
    """Return the conditions of the status, and the message of an error in the author's conditions.

    The author's conditions replace the conditions of kro. Levelgate's own conditions stay.

    Source: kro, "Custom conditions".
    """
    if plan.rendered.conditions is None:
        return built_in, ""
    custom, problem = plan.rendered.conditions.evaluate(built_in, previous_status.get("conditions") or [])
    return [*custom, *(condition for condition in built_in if condition["type"] in LEVELGATE_CONDITIONS)], problem


def _condition(
    kind: str, *, ok: bool, true_reason: str, false_reason: str, false_message: str = "", true_message: str = ""
) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True" if ok else "False",
        "reason": true_reason if ok else false_reason,
        "message": (true_message if ok else false_message)[:MAX_MESSAGE_CHARACTERS],
    }


def _first_message(blocked: list[Cause]) -> str:
    """Return the message of the first cause, with the number of the remaining causes."""
    if not blocked:
        return ""
    cause = blocked[0]
    more = f" (and {len(blocked) - 1} more)" if len(blocked) > 1 else ""
    return f"{f'node {cause.node}: ' if cause.node else ''}{cause.message}{more}"


def _with_times(
    conditions: list[dict[str, str]], previous: list[dict[str, Any]], parent: Object, now: str
) -> list[dict[str, Any]]:
    """Return `conditions`, each with the observed generation and the time of the last change of its status."""
    previous_by_type = {condition.get("type"): condition for condition in previous}
    generation = parent["metadata"].get("generation", 0)
    result = []
    for condition in conditions:
        old = previous_by_type.get(condition["type"], {})
        since = old.get("lastTransitionTime", now) if old.get("status") == condition["status"] else now
        result.append({**condition, "lastTransitionTime": since, "observedGeneration": generation})
    return result


def _levelgate_status(
    plan: ApplySetPlan, blocked: list[Cause], previous: LevelgateStatus, *, commit: str, now: str
) -> LevelgateStatus:
    """Return the fields under `levelgate`: numbers of nodes, causes, and the target, applied and settled revisions."""
    rendered = plan.rendered
    managed_nodes = [node for node in plan.nodes if not node.node.external]
    objects = {node.node.id: node.node.key for node in plan.nodes}
    status = LevelgateStatus(
        source=plan.source,
        nodes={
            "total": len(managed_nodes),
            "updated": sum(node.is_applied for node in managed_nodes),
            "healthy": sum(node.exists and node.healthy for node in managed_nodes),
            "blocked": sum(node.blocked is not None for node in managed_nodes),
        },
        blocked=cause_rows.format_rows(blocked, objects, previous.blocked, now),
    )
    if plan.error or plan.deletion:
        return replace(
            status,
            target=previous.target,
            applied=previous.applied,
            settled=previous.settled,
            begun=previous.begun,
        )
    if not rendered.source:
        return status
    current = _current_target(plan, previous, commit)
    is_at_target = rendered.target_revision == rendered.revision
    target = current if is_at_target else _pending_target(rendered.target_revision, previous, commit)
    is_applied = all(node.is_applied for node in managed_nodes)
    is_settled = not is_waiting(plan) and plan.not_moved is None
    return replace(
        status,
        target=target.to_dict(),
        applied=current.to_dict() if is_applied else previous.applied,
        settled=current.to_dict() if is_settled else previous.settled,
        begun=timestamp(plan.begun_at) if plan.begun_at else "",
    )


def _current_target(plan: ApplySetPlan, previous: LevelgateStatus, commit: str) -> RevisionAtCommit:
    """Return the revision that `plan` renders, with the commit that last changed the rendered objects.

    If `previous` has the same revision with the same rendered objects, keep the commit of `previous`. A commit that
    renders the same objects is not a new target.
    """
    content = digest([[node.node.id, node.node.hash if node.node.manifest else ""] for node in plan.nodes])
    revision = plan.rendered.revision
    for candidate in map(RevisionAtCommit.from_dict, (previous.target, previous.applied)):
        if (candidate.revision, candidate.content) == (revision, content):
            return candidate
    return RevisionAtCommit(revision, commit[:12], content)


def _pending_target(revision: int, previous: LevelgateStatus, commit: str) -> RevisionAtCommit:
    """Return `revision`, for which the instance waits, with the commit at which the wait began."""
    target = RevisionAtCommit.from_dict(previous.target)
    is_unchanged = target.revision == revision and not target.content
    return target if is_unchanged else RevisionAtCommit(revision, commit[:12])


def _author_fields(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the author's fields of `status`. While the instance cannot be rendered, the status keeps these fields."""
    return {name: value for name, value in status.items() if name not in {"state", "conditions", LEVELGATE_KEY}}
