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
from gitops.rollouts.directives import moment
from gitops.rollouts.state import WaveProgress
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

MAX_ROWS = 50
"""Causes of waiting listed in one status; the rest are counted."""

MAX_BECAUSE = 10
"""What stands behind one cause, as listed."""

MAX_MESSAGE = 1024

_SEVERITY = (
    Reason.RENDER_FAILED,
    Reason.APPLY_FAILED,
    Reason.CONFLICT,
    Reason.OWNED_ELSEWHERE,
    Reason.UNHEALTHY,
    Reason.DELETION_BLOCKED,
    Reason.DEADLOCKED,
)

Row = tuple[str, Cause, tuple[str, ...]]
"""A node (empty: the set itself), why it waits, and the nodes that wait only because of it."""


def timestamp(moment: datetime) -> str:
    """RFC 3339, UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def blocked_rows(plan: ApplySetPlan) -> list[Row]:
    """One row for each cause: the node, why, and the nodes that wait only because of it. The worst first, then as rendered."""
    if plan.error:
        return [("", plan.error, ())]
    if plan.parent is None and not plan.rendered.is_source:
        return []  # its owner says why it does not exist yet
    own: list[Row] = [("", cause, ()) for cause in (plan.parent_error, plan.deadlock, plan.not_moved) if cause]
    unwell = [node for node in plan.nodes if node.blocked or node.unhealthy_message]
    causes = {
        node.node.id: node.blocked
        for node in unwell
        if node.blocked and node.blocked.reason is not Reason.DEPENDENCY_NOT_READY
    }
    causes |= {
        node.node.id: Cause(Reason.PROGRESSING, node.unhealthy_message) for node in unwell if _is_only_sick(node)
    }
    behind: dict[str, list[str]] = {}
    for node in unwell:
        if node.blocked and node.blocked.reason is Reason.DEPENDENCY_NOT_READY:
            behind.setdefault(node.blocked.by, []).append(node.node.id)
            if node.blocked.by not in causes:
                causes.setdefault(node.node.id, node.blocked)
    rows = own + [(node_id, cause, tuple(behind.get(node_id, ()))) for node_id, cause in causes.items()]
    rows += [
        (orphan.member.node or str(orphan.member.key), orphan.blocked, ()) for orphan in plan.orphans if orphan.blocked
    ]
    return sorted(rows, key=lambda row: _severity(row[1].reason))


def _is_only_sick(node: NodePlan) -> bool:
    """As Git says, and not healthy: nothing else keeps it."""
    return bool(node.unhealthy_message) and node.blocked is None and node.is_current


def _severity(reason: Reason) -> int:
    return _SEVERITY.index(reason) if reason in _SEVERITY else len(_SEVERITY)


def as_json(
    blocked: Iterable[Row], objects: Mapping[str, ObjectKey | None], before: Iterable[Mapping[str, Any]], now: str
) -> list[dict[str, Any]]:
    """The rows as they are stored, at most `MAX_ROWS`. `objects` by node; rows that were told `before` keep their time. What a cause shares with
    others is not told here: a status that said it would be written whenever one of the others got on.
    """
    since = {(row.get("node", ""), row.get("reason")): row.get("since", now) for row in before}
    return [
        {
            **({"node": node} if node else {}),
            **({"object": str(at)} if (at := cause.at or objects.get(node)) else {}),
            "reason": str(cause.reason),
            "message": cause.message[:MAX_MESSAGE],
            "since": since.get((node, str(cause.reason)), now),
            **({} if cause.shared else _how_long(cause)),
            **({"behind": list(behind)} if behind else {}),
            **cause.details,
        }
        for node, cause, behind in islice(blocked, MAX_ROWS)
    ]


def _how_long(cause: Cause) -> dict[str, Any]:
    """Until when it waits, and for what."""
    return {
        **({"until": timestamp(cause.until)} if cause.until else {}),
        **({"blockedBy": [_because(one) for one in cause.because[:MAX_BECAUSE]]} if cause.because else {}),
    }


def _because(one: CauseRef) -> dict[str, str]:
    times = {"since": one.since, "until": one.until}
    return {
        "kind": one.kind,
        "name": one.name,
        "reason": str(one.reason),
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
    behind: tuple[str, ...] = ()
    because: tuple[CauseRef, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> CauseRow:
        """Inverse of `as_json`. A reason of another version of this program counts as progress."""
        return cls(
            reason=_reason(row.get("reason")),
            message=row.get("message", ""),
            node=row.get("node", ""),
            object=row.get("object", ""),
            since=moment(row.get("since")),
            until=moment(row.get("until")),
            behind=tuple(row.get("behind") or ()),
            because=tuple(
                CauseRef(one["kind"], one["name"], _reason(one.get("reason")), *map(moment, _times(one)))
                for one in row.get("blockedBy") or ()
            ),
            details={name: row[name] for name in ("position", "gates", "approval") if name in row},
        )

    def within(self, wave: WaveProgress | None) -> CauseRow:
        """With what it shares with others, as the record of its rollout tells that of their wave."""
        position = self.details.get("position")
        if wave is None or position is None or "limit" in position:  # of items of its own, it says all itself
            return self
        others = wave.ahead.others
        return replace(
            self,
            until=wave.ahead.start(position["place"]),
            because=tuple(CauseRef("Instance", one.name, _reason(one.reason), until=one.until) for one in others),
            details={
                **self.details,
                "position": {**position, "limit": wave.limit, "moved": wave.moved, "then": wave.then},
            },
        )


def _times(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row.get("since"), row.get("until")


def _reason(text: Any) -> Reason:
    try:
        return Reason(text)
    except ValueError:
        return Reason.PROGRESSING
