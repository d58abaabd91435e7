"""Causes as rows of the status of an instance and of the record of a source: what a plan waits for, written and read.

The rows are a contract (docs/reference.md, "Status of an instance").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from applier.causes import Cause, CauseRef, Reason
from applier.plan.model import ApplySetPlan, NodePlan
from gitops.rollouts.state import WaveProgress
from gitops.timestamps import parse_timestamp, timestamp
from renderer.identity import ObjectKey

MAX_ROWS = 50
"""Causes of waiting listed in one status; the rest are counted."""

MAX_CAUSE_REFS = 10
"""What stands behind one cause, as listed."""

MAX_MESSAGE_CHARACTERS = 1024

_SEVERITY_ORDER = (
    Reason.RENDER_FAILED,
    Reason.APPLY_FAILED,
    Reason.CONFLICT,
    Reason.OWNED_ELSEWHERE,
    Reason.UNHEALTHY,
    Reason.DELETION_BLOCKED,
    Reason.DEADLOCKED,
)


def node_causes(plan: ApplySetPlan) -> list[Cause]:
    """Return why a set and its nodes wait, each with the nodes that wait only because of it. The worst first, then as rendered."""
    if plan.error:
        return [plan.error]
    if plan.parent is None and not plan.rendered.is_source:
        return []  # its owner says why it does not exist yet
    blocked_nodes = [node for node in plan.nodes if node.blocked or node.unhealthy_message]
    by_node = {
        node.node.id: node.blocked
        for node in blocked_nodes
        if node.blocked and node.blocked.reason is not Reason.DEPENDENCY_NOT_READY
    }
    by_node |= {
        node.node.id: Cause(Reason.PROGRESSING, node.unhealthy_message)
        for node in blocked_nodes
        if _is_only_unhealthy(node)
    }
    dependents: dict[str, list[str]] = {}
    for node in blocked_nodes:
        if node.blocked and node.blocked.reason is Reason.DEPENDENCY_NOT_READY:
            for blocker in node.blocked.blockers:
                dependents.setdefault(blocker, []).append(node.node.id)
            if by_node.keys().isdisjoint(node.blocked.blockers):
                by_node.setdefault(node.node.id, node.blocked)
    causes = [cause for cause in (plan.parent_error, plan.deadlock, plan.not_moved) if cause]
    causes += [
        replace(cause, node=node_id, dependents=tuple(dependents.get(node_id, ())))
        for node_id, cause in by_node.items()
    ]
    causes += [
        replace(candidate.blocked, node=candidate.member.node_id or str(candidate.member.key))
        for candidate in plan.prune_candidates
        if candidate.blocked
    ]
    return sorted(causes, key=lambda cause: _severity(cause.reason))


def _is_only_unhealthy(node: NodePlan) -> bool:
    """As Git says, and not healthy: nothing else keeps it."""
    return bool(node.unhealthy_message) and node.blocked is None and node.is_applied


def _severity(reason: Reason) -> int:
    return _SEVERITY_ORDER.index(reason) if reason in _SEVERITY_ORDER else len(_SEVERITY_ORDER)


def format_rows(
    causes: Iterable[Cause],
    objects: Mapping[str, ObjectKey | None],
    previous_rows: Iterable[Mapping[str, Any]],
    now: str,
) -> list[dict[str, Any]]:
    """Return the causes as they are stored, at most `MAX_ROWS`; a cause that a previous row tells keeps its time.

    `objects` are those of nodes whose cause names none. What a cause shares with others is left out: a status that said
    it would be written whenever one of the others got on.
    """
    since_by_cause = {(row.get("node", ""), row.get("reason")): row.get("since", now) for row in previous_rows}
    return [
        {
            **({"node": cause.node} if cause.node else {}),
            **({"object": str(key)} if (key := cause.object_key or objects.get(cause.node)) else {}),
            "reason": str(cause.reason),
            "message": cause.message[:MAX_MESSAGE_CHARACTERS],
            "since": since_by_cause.get((cause.node, str(cause.reason)), now),
            **({} if cause.is_shared else _time_fields(cause)),
            **({"behind": list(cause.dependents)} if cause.dependents else {}),
            **cause.details,
        }
        for cause in islice(causes, MAX_ROWS)
    ]


def _time_fields(cause: Cause) -> dict[str, Any]:
    """Until when it waits, and for what."""
    return {
        **({"until": timestamp(cause.until)} if cause.until else {}),
        **({"blockedBy": [_format_ref(ref) for ref in cause.references[:MAX_CAUSE_REFS]]} if cause.references else {}),
    }


def _format_ref(ref: CauseRef) -> dict[str, str]:
    times = {"since": ref.since, "until": ref.until}
    return {
        "kind": ref.kind,
        "name": ref.name,
        "reason": str(ref.reason),
        **{name: timestamp(moment) for name, moment in times.items() if moment},
    }


def parse_row(row: Mapping[str, Any]) -> Cause:
    """Return the cause of one row, also of a condition; what the row does not tell is empty.

    A reason of another version of Levelgate counts as progress.
    """
    return Cause(
        _parse_reason(row.get("reason")),
        row.get("message", ""),
        node=row.get("node", ""),
        object_key=ObjectKey.parse(row.get("object", "")),
        since=parse_timestamp(row.get("since")),
        until=parse_timestamp(row.get("until")),
        references=tuple(map(_parse_ref, row.get("blockedBy") or ())),
        dependents=tuple(row.get("behind") or ()),
        details={name: row[name] for name in ("position", "gates", "approval") if name in row},
    )


def with_wave_progress(cause: Cause, progress: WaveProgress | None) -> Cause:
    """Return the cause with what it shares with others, as the record of its rollout tells that of their wave."""
    position = cause.details.get("position")
    if progress is None or position is None or "limit" in position:  # of items of its own, it says all itself
        return cause
    return replace(
        cause,
        until=progress.ahead.start_of(position["place"]),
        references=tuple(
            CauseRef("Instance", blocker.name, _parse_reason(blocker.reason), until=blocker.until)
            for blocker in progress.ahead.others
        ),
        details={
            **cause.details,
            "position": {**position, "limit": progress.limit, "moved": progress.moved, "then": progress.then},
        },
    )


def _parse_ref(ref: Mapping[str, Any]) -> CauseRef:
    since, until = parse_timestamp(ref.get("since")), parse_timestamp(ref.get("until"))
    return CauseRef(ref["kind"], ref["name"], _parse_reason(ref.get("reason")), since, until)


def _parse_reason(text: Any) -> Reason:
    try:
        return Reason(text)
    except ValueError:
        return Reason.PROGRESSING
