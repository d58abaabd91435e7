"""What one set is, in the words of its instance's status: kro's state and conditions, one row for each cause of waiting.

`Ready` and `Healthy` speak of what is live, `Propagated` of the target: a change that merely waits turns neither of the first two false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.plan.model import ApplySetPlan, NodePlan
from applier.plan.prune import protected_keys
from applier.state.observed import is_terminating
from gitops.records import cause_rows
from gitops.records.cause_rows import MAX_MESSAGE, Row, blocked_rows
from renderer.definition.custom_conditions import OURS
from renderer.identity import digest
from renderer.levelgate_status import LevelgateStatus


def instance_status(
    plan: ApplySetPlan, *, revision: str, now: str, remembered: Mapping[str, Any] | None = None, synced: str = ""
) -> dict[str, Any]:
    """Status of one instance: kro's state and conditions, the definition's own fields on top, ours under `levelgate`, with what it has to
    remember of its rollout. `synced` is a request to look now that is answered by that; without one the last answer stays.
    """
    assert plan.parent is not None
    before: Mapping[str, Any] = plan.parent.get("status") or {}
    own = LevelgateStatus.read(before)
    blocked = blocked_rows(plan)
    conditions, wrong = _authored(plan, _conditions(plan, blocked), before)
    if wrong:
        blocked = [("", Cause(Reason.RENDER_FAILED, wrong), ()), *blocked]
    return {
        **(plan.rendered.status if plan.nodes or not plan.error else _own_fields(before)),
        "state": _state(plan, blocked),
        "conditions": _with_times(conditions, before.get("conditions") or [], plan.parent, now),
        "levelgate": {
            **_levelgate(plan, blocked, own, revision=revision, now=now),
            **(remembered or {}),
            **({"synced": answered} if (answered := synced or own.synced) else {}),
        },
    }


def not_in_git(stray: Object, *, now: str) -> dict[str, Any]:
    """Status of an instance that nobody wants: it is not reconciled, and nothing else is said of it."""
    why = "no source holds this instance; commit it, or delete it"
    managed = _condition("InstanceManaged", ok=False, good="", bad=str(Reason.NOT_IN_GIT), why=why)
    return {"conditions": _with_times([managed], [], stray, now)}


def says_not_in_git(stray: Object) -> bool:
    """Does its status say already that it is not in Git?"""
    conditions = (stray.get("status") or {}).get("conditions") or []
    return any(condition.get("reason") == Reason.NOT_IN_GIT for condition in conditions)


def is_waiting(plan: ApplySetPlan) -> bool:
    """Is anything of this set still to come? What only waits for a held node is held as that one is."""
    held = set[str]()
    for node in plan.nodes:
        behind = (
            node.blocked is not None and node.blocked.reason is Reason.DEPENDENCY_NOT_READY and node.blocked.by in held
        )
        if node.is_held or behind:
            held.add(node.node.id)
        elif not (node.is_current and node.healthy) and not node.node.external:
            return True
    stays = protected_keys(plan.orphans)
    return (
        any(orphan.member.key not in stays for orphan in plan.leaving)
        or plan.detach
        or plan.finish
        or (plan.not_moved is not None and not plan.not_moved.reason.is_hold)
    )


def _state(plan: ApplySetPlan, blocked: Iterable[Row]) -> str:
    assert plan.parent is not None
    if is_terminating(plan.parent):
        return "DELETING"
    if any(cause.reason.is_failure for _, cause, _ in blocked):
        return "ERROR"
    return "ACTIVE" if all(map(_is_ready, plan.nodes)) else "IN_PROGRESS"


def _is_ready(node: NodePlan) -> bool:
    return node.exists and node.ready


def _conditions(plan: ApplySetPlan, blocked: list[Row]) -> list[dict[str, str]]:
    assert plan.parent is not None
    unready = next((node for node in plan.nodes if not _is_ready(node)), None)
    sick = [node for node in plan.nodes if not node.node.external and not (node.exists and node.healthy)]
    error = next((cause for _, cause, _ in blocked if cause.reason.is_failure), None)
    resolved = _condition(
        "GraphResolved",
        ok=plan.error is None,
        good="Resolved",
        bad="ResolutionFailed",
        why=plan.error.message if plan.error else "",
    )
    if is_terminating(plan.parent):
        resources = {
            "type": "ResourcesReady",
            "status": "Unknown",
            "reason": "UnderDeletion",
            "message": _first_message(blocked),
        }
    else:
        why = f"{unready.node.id}: {unready.blocked.message if unready.blocked else 'not ready'}" if unready else ""
        resources = _condition(
            "ResourcesReady",
            ok=unready is None and (plan.error is None or bool(plan.rendered.held_reason)),
            good="AllResourcesReady",
            bad="NotReady",
            why=why,
        )
    ready = resolved["status"] == resources["status"] == "True"
    total = sum(1 for node in plan.nodes if not node.node.external)
    waiting = is_waiting(plan) or plan.error is not None or bool(blocked)
    return [
        _condition("InstanceManaged", ok=True, good="Managed", bad="ManagementFailed"),
        resolved,
        resources,
        _condition("Ready", ok=ready, good="Ready", bad="NotReady", why=resources["message"] or resolved["message"]),
        _condition(
            "Healthy",
            ok=not sick,
            good="AllHealthy",
            bad="Unhealthy" if error else "Progressing",
            why=f"{total - len(sick)} of {total} nodes",
            note=f"{total} of {total} nodes",
        ),
        _condition(
            "Propagated",
            ok=not waiting,
            good="Settled",
            bad=str(blocked[0][1].reason if blocked else Reason.PROGRESSING),
            why=_first_message(blocked),
        ),
    ]


def _authored(
    plan: ApplySetPlan, built_in: list[dict[str, str]], before: Mapping[str, Any]
) -> tuple[list[dict[str, str]], str]:
    """The conditions of the status, and what is wrong with the author's. The author's replace kro's, ours stay (kro, "Custom conditions")."""
    if plan.rendered.conditions is None:
        return built_in, ""
    authored, wrong = plan.rendered.conditions.conditions(built_in, before.get("conditions") or [])
    return [*authored, *(one for one in built_in if one["type"] in OURS)], wrong


def _condition(kind: str, *, ok: bool, good: str, bad: str, why: str = "", note: str = "") -> dict[str, str]:
    return {
        "type": kind,
        "status": "True" if ok else "False",
        "reason": good if ok else bad,
        "message": (note if ok else why)[:MAX_MESSAGE],
    }


def _first_message(blocked: list[Row]) -> str:
    if not blocked:
        return ""
    node, cause, _ = blocked[0]
    more = f" (and {len(blocked) - 1} more)" if len(blocked) > 1 else ""
    return f"{f'node {node}: ' if node else ''}{cause.message}{more}"


def _with_times(
    conditions: list[dict[str, str]], before: list[dict[str, Any]], parent: Object, now: str
) -> list[dict[str, Any]]:
    """Conditions with the generation that they speak of, and the time of their last change of status."""
    known = {condition.get("type"): condition for condition in before}
    generation = parent["metadata"].get("generation", 0)
    result = []
    for condition in conditions:
        old = known.get(condition["type"], {})
        since = old.get("lastTransitionTime", now) if old.get("status") == condition["status"] else now
        result.append({**condition, "lastTransitionTime": since, "observedGeneration": generation})
    return result


def _levelgate(
    plan: ApplySetPlan,
    blocked: list[Row],
    before: LevelgateStatus,
    *,
    revision: str,
    now: str,
) -> dict[str, Any]:
    mine = [node for node in plan.nodes if not node.node.external]
    found: dict[str, Any] = {"source": plan.rendered.source} if plan.rendered.source else {}
    if plan.error:
        pairs = {"target": before.target, "applied": before.applied, "settled": before.settled}
        found |= {name: pair for name, pair in pairs.items() if pair}
    elif plan.rendered.source:
        here = _target(plan, before, revision)
        aim = plan.rendered.target_revision
        found["target"] = here if aim == plan.rendered.revision else _aim(aim, before.target, revision)
        settled = not is_waiting(plan) and plan.not_moved is None
        applied = all(node.is_current for node in mine)
        for name, reached, told in (("applied", applied, before.applied), ("settled", settled, before.settled)):
            if reached or told:
                found[name] = here if reached else told
    found["nodes"] = {
        "total": len(mine),
        "updated": sum(node.is_current for node in mine),
        "healthy": sum(node.exists and node.healthy for node in mine),
        "blocked": sum(node.blocked is not None for node in mine),
    }
    if blocked:
        objects = {node.node.id: node.node.key for node in plan.nodes}
        found["blocked"] = cause_rows.as_json(blocked, objects, before.blocked, now)
    return found


def _target(plan: ApplySetPlan, before: LevelgateStatus, revision: str) -> dict[str, Any]:
    """The definition revision, and the commit that last changed what is rendered; a commit that renders the same is no new target."""
    content = digest([[node.node.id, node.node.hash if node.node.manifest else ""] for node in plan.nodes])
    target = {"revision": plan.rendered.revision, "content": content}
    for known in (before.target, before.applied):
        if target.items() <= known.items():
            return dict(known)
    return {**target, "commit": revision[:12]}


def _aim(aim: int, before: Mapping[str, Any], revision: str) -> dict[str, Any]:
    """The definition revision that it waits for, with the first commit at which it did."""
    known = before.get("revision") == aim and "content" not in before
    return dict(before) if known else {"revision": aim, "commit": revision[:12]}


def _own_fields(status: Mapping[str, Any]) -> dict[str, Any]:
    """The author's fields of a status, to be kept when nothing could be rendered."""
    return {name: value for name, value in status.items() if name not in {"state", "conditions", "levelgate"}}
