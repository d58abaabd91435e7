"""What keeps something from being as Git says: one row for each cause, as the status of an instance and the record of a source tell it.

Written by a pass from its plan, read back by whoever asks the cluster; the rows are a contract (docs/reference.md, "Status of an instance").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime
from itertools import islice
from typing import Any

from applier.causes import Cause, CauseRef, Reason
from applier.plan.model import ApplySetPlan, NodePlan
from gitops.rollouts.directives import parse_time
from gitops.rollouts.state import WaveProgress
from renderer.frozen import dataclass
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

NodeCause = tuple[str, Cause, tuple[str, ...]]
"""A node (empty: the set itself), why it waits, and the nodes that wait only because of it."""


def timestamp(moment: datetime) -> str:
    """RFC 3339, UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def node_causes(plan: ApplySetPlan) -> list[NodeCause]:
    """One row for each cause: the node, why, and the nodes that wait only because of it. The worst first, then as rendered."""
    if plan.error:
        return [("", plan.error, ())]
    if plan.parent is None and not plan.rendered.is_source:
        return []  # its owner says why it does not exist yet
    set_causes: list[NodeCause] = [
        ("", cause, ()) for cause in (plan.parent_error, plan.deadlock, plan.not_moved) if cause
    ]
    blocked_nodes = [node for node in plan.nodes if node.blocked or node.unhealthy_message]
    causes = {
        node.node.id: node.blocked
        for node in blocked_nodes
        if node.blocked and node.blocked.reason is not Reason.DEPENDENCY_NOT_READY
    }
    causes |= {
        node.node.id: Cause(Reason.PROGRESSING, node.unhealthy_message)
        for node in blocked_nodes
        if _is_only_unhealthy(node)
    }
    dependents: dict[str, list[str]] = {}
    for node in blocked_nodes:
        if node.blocked and node.blocked.reason is Reason.DEPENDENCY_NOT_READY:
            for blocker in node.blocked.blockers:
                dependents.setdefault(blocker, []).append(node.node.id)
            if causes.keys().isdisjoint(node.blocked.blockers):
                causes.setdefault(node.node.id, node.blocked)
    rows = set_causes + [(node_id, cause, tuple(dependents.get(node_id, ()))) for node_id, cause in causes.items()]
    rows += [
        (candidate.member.node_id or str(candidate.member.key), candidate.blocked, ())
        for candidate in plan.prune_candidates
        if candidate.blocked
    ]
    return sorted(rows, key=lambda row: _severity(row[1].reason))


def _is_only_unhealthy(node: NodePlan) -> bool:
    """As Git says, and not healthy: nothing else keeps it."""
    return bool(node.unhealthy_message) and node.blocked is None and node.is_current


def _severity(reason: Reason) -> int:
    return _SEVERITY_ORDER.index(reason) if reason in _SEVERITY_ORDER else len(_SEVERITY_ORDER)


def format_rows(
    causes: Iterable[NodeCause],
    objects: Mapping[str, ObjectKey | None],
    previous_rows: Iterable[Mapping[str, Any]],
    now: str,
) -> list[dict[str, Any]]:
    """The rows as they are stored, at most `MAX_ROWS`. `objects` by node; rows that were told `before` keep their time. What a cause shares with
    others is not told here: a status that said it would be written whenever one of the others got on.
    """
    since_by_cause = {(row.get("node", ""), row.get("reason")): row.get("since", now) for row in previous_rows}
    return [
        {
            **({"node": node} if node else {}),
            **({"object": str(key)} if (key := cause.object_key or objects.get(node)) else {}),
            "reason": str(cause.reason),
            "message": cause.message[:MAX_MESSAGE_CHARACTERS],
            "since": since_by_cause.get((node, str(cause.reason)), now),
            **({} if cause.is_shared else _time_fields(cause)),
            **({"behind": list(dependents)} if dependents else {}),
            **cause.details,
        }
        for node, cause, dependents in islice(causes, MAX_ROWS)
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


@dataclass(frozen=True, slots=True)
class CauseRow:
    """One row as the cluster tells it; what is not told is empty. `because` and `details` are as they are stored."""

    reason: Reason
    message: str = ""
    node: str = ""
    object: str = ""
    since: datetime | None = None
    until: datetime | None = None
    dependents: tuple[str, ...] = ()
    because: tuple[CauseRef, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> CauseRow:
        """Inverse of `as_json`. A reason of another version of this program counts as progress."""
        return cls(
            reason=_parse_reason(row.get("reason")),
            message=row.get("message", ""),
            node=row.get("node", ""),
            object=row.get("object", ""),
            since=parse_time(row.get("since")),
            until=parse_time(row.get("until")),
            dependents=tuple(row.get("behind") or ()),
            because=tuple(
                CauseRef(
                    ref["kind"], ref["name"], _parse_reason(ref.get("reason")), *map(parse_time, _since_and_until(ref))
                )
                for ref in row.get("blockedBy") or ()
            ),
            details={name: row[name] for name in ("position", "gates", "approval") if name in row},
        )

    def with_wave_progress(self, progress: WaveProgress | None) -> CauseRow:
        """With what it shares with others, as the record of its rollout tells that of their wave."""
        position = self.details.get("position")
        if progress is None or position is None or "limit" in position:  # of items of its own, it says all itself
            return self
        blockers = progress.ahead.others
        return replace(
            self,
            until=progress.ahead.start_of(position["place"]),
            because=tuple(
                CauseRef("Instance", blocker.name, _parse_reason(blocker.reason), until=blocker.until)
                for blocker in blockers
            ),
            details={
                **self.details,
                "position": {**position, "limit": progress.limit, "moved": progress.moved, "then": progress.then},
            },
        )


def _since_and_until(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row.get("since"), row.get("until")


def _parse_reason(text: Any) -> Reason:
    try:
        return Reason(text)
    except ValueError:
        return Reason.PROGRESSING
