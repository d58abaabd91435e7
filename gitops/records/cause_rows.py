"""Rows that store causes in the status of an instance and in the record of a source.

Programs of users read the rows, so their format is stable.

Source: docs/reference.md, "Status of an instance".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from applier.causes import Cause, CauseRef, Reason
from gitops.rollouts.state import WaveProgress
from gitops.timestamps import parse_timestamp, timestamp
from renderer.identity import ObjectKey

MAX_ROWS = 50
"""Largest number of causes that one status, or the record of one source, lists."""

MAX_CAUSE_REFS = 10
"""Largest number of references that one row lists in `blockedBy`."""

MAX_MESSAGE_CHARACTERS = 1024
"""Largest number of characters in the message of a row or a condition. Levelgate cuts off the rest of the message."""


def format_rows(
    causes: Iterable[Cause],
    objects: Mapping[str, ObjectKey | None],
    previous_rows: Iterable[Mapping[str, Any]],
    now: str,
) -> list[dict[str, Any]]:
    """Return one row for each cause in `causes`, at most `MAX_ROWS`.

    If `previous_rows` has a row with the same node and reason, the new row keeps the `since` of that row. Otherwise
    `since` is `now`.

    The rows omit the fields that a cause shares with other items of a wave, because such fields change whenever another
    item settles. The record of the rollout stores these fields once.

    Args:
        objects: object by node id, for causes without an object of their own.
        previous_rows: rows of the same status before the reconciliation.
        now: current time in UTC, RFC 3339.
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
    """Return those of the fields `until` and `blockedBy` of a row for which `cause` has a value."""
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
    """Return the cause that `row`, a row or a condition, stores. Fields that `row` lacks are empty.

    Another version of Levelgate may have written `row`. If the running version does not know the reason in `row`, the
    cause has the reason `Progressing`.
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
    """Return `cause` with the fields that `format_rows` omits because all items of a wave share them.

    If `progress` is None, or if `cause` has no queue position, return `cause` unchanged.

    Args:
        progress: progress of the wave, from the record of the rollout.
    """
    position = cause.details.get("position")
    # Only the row of a node in a collection stores a position with a limit, and that row is complete.
    if progress is None or position is None or "limit" in position:
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
