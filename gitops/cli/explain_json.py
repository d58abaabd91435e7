"""JSON document of `levelgate explain -o json` (docs/reference.md)."""

from __future__ import annotations

from typing import Any

from applier.causes import Cause, CauseRef
from gitops.explain.explanation import CauseChain, ClosedWindowLink, Link, WaitingLink
from gitops.timestamps import optional_timestamp
from renderer.levelgate_status import RevisionAtCommit


def chain_as_json(explanation: CauseChain) -> dict[str, Any]:
    """Return `explanation` as the stable document of `explain -o json` (docs/reference.md)."""
    instance_state = explanation.instance
    return {
        "unit": explanation.subject,
        "state": explanation.state,
        "notBefore": optional_timestamp(explanation.not_before),
        "blockedBy": [_cause_ref_as_json(cause_ref) for cause_ref in explanation.blockers_of],
        "chain": [_link_as_json(link) for link in explanation.chain],
        "others": [_cause_as_json(cause) for cause in explanation.other_causes],
        "open": [window.name for window in explanation.open_windows],
        "externals": [
            {"name": name, "since": optional_timestamp(since)} for name, since in explanation.externals.items()
        ],
        "waiting": [
            *(str(waiting_instance.key) for waiting_instance in explanation.unsettled_instances),
            *(str(cause.object_key or "") for cause in explanation.object_causes),
        ],
        **(
            {"target": _revision_as_json(instance_state.target), "applied": _revision_as_json(instance_state.applied)}
            if instance_state
            else {}
        ),
        **(
            {"unreadable": explanation.record.unreadable and explanation.record.unreadable._asdict()}
            if explanation.record
            else {}
        ),
    }


def _link_as_json(link: Link) -> dict[str, Any]:
    match link:
        case WaitingLink(key=key, cause=cause):
            return {
                "unit": str(key),
                **_cause_as_json(cause),
                "settled": list(link.settled),
                "unsettled": list(link.unsettled),
            }
        case ClosedWindowLink(closed_window=closing, opens=opens):
            window = closing.window
            window_fields = {
                "window": window.name,
                "source": closing.source,
                "kind": window.kind,
                "ticket": window.ticket,
                "drain": window.drain.name.title(),
                "mayEndHalfway": window.drain.may_end_halfway,
            }
            times = {"since": optional_timestamp(closing.since), "until": optional_timestamp(closing.until)}
            return {**window_fields, **times, "opens": [optional_timestamp(moment) for moment in opens]}


def _cause_as_json(cause: Cause) -> dict[str, Any]:
    return {
        "reason": cause.reason,
        "message": cause.message,
        "node": cause.node,
        "object": str(cause.object_key or ""),
        "since": optional_timestamp(cause.since),
        "until": optional_timestamp(cause.until),
        "blockedBy": [_cause_ref_as_json(cause_ref) for cause_ref in cause.references],
        **cause.details,
    }


def _cause_ref_as_json(cause_ref: CauseRef) -> dict[str, Any]:
    times = {"since": optional_timestamp(cause_ref.since), "until": optional_timestamp(cause_ref.until)}
    return {"kind": cause_ref.kind, "name": cause_ref.name, "reason": cause_ref.reason, **times}


def _revision_as_json(pair: RevisionAtCommit) -> dict[str, Any]:
    return {"revision": pair.revision, "commit": pair.commit}
