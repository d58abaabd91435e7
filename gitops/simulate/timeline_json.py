"""A timeline as JSON; its shape is a contract (docs/simulate.md)."""

from __future__ import annotations

from typing import Any

from gitops.records.cause_rows import timestamp
from gitops.simulate.backtest import BacktestResult
from gitops.simulate.timeline import CommitArrival, SimulatedWindow, Timeline, TimelineEvent, Track, TrackSpan


def as_json(timeline: Timeline, *, assumed: str, seed: int) -> dict[str, Any]:
    """Times are RFC 3339, UTC; keys that say nothing are left out of spans and events."""
    return {
        "source": timeline.source,
        "assume": assumed,
        "seed": seed,
        "from": timestamp(timeline.begins),
        "to": timestamp(timeline.ends),
        "ended": timeline.ended,
        "summary": dict(timeline.counts),
        "commits": [_arrival(one) for one in timeline.arrivals],
        "instances": [_track(one) for one in timeline.tracks],
        "windows": [_calendar(one) for one in timeline.windows],
        "events": [_event(one) for one in timeline.events],
        "warnings": list(timeline.warnings),
    }


def compared_as_json(found: tuple[BacktestResult, ...]) -> list[dict[str, Any]]:
    """Of each commit how both sets of rules would have treated it; `delaySeconds` is missing where one of them never settles it."""
    return [
        {
            "commit": one.tested.commit,
            "subject": one.tested.subject,
            "at": timestamp(one.tested.at),
            "own": _outcome(one.actual),
            "policy": _outcome(one.tested),
            **({} if one.delay is None else {"delaySeconds": int(one.delay.total_seconds())}),
        }
        for one in found
    ]


def _arrival(one: CommitArrival) -> dict[str, Any]:
    return {"at": timestamp(one.at), "commit": one.commit, "subject": one.subject, **_outcome(one)}


def _outcome(one: CommitArrival) -> dict[str, Any]:
    times = {"started": one.started, "settled": one.settled}
    told = {name: timestamp(moment) for name, moment in times.items() if moment}
    return {**told, **({"overtaken": True} if one.overtaken else {})}


def _track(one: Track) -> dict[str, Any]:
    key = one.instance
    return {
        "group": key.group,
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        **({"rollout": one.rollout, "wave": one.wave} if one.rollout else {}),
        "changed": one.written,
        "spans": [_span(span) for span in one.spans],
    }


def _span(span: TrackSpan) -> dict[str, Any]:
    told = span.standing
    detail = {"node": told.node, "message": told.message, "by": list(told.by)}
    return {
        "from": timestamp(span.begins),
        "to": timestamp(span.ends),
        "stage": str(told.stage),
        "reason": str(told.reason),
        **{name: value for name, value in detail.items() if value},
        **({"until": timestamp(told.until)} if told.until else {}),
    }


def _calendar(one: SimulatedWindow) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "timeZone": one.zone,
        "active": [
            {name: timestamp(moment) for name, moment in (("from", o.begins), ("to", o.ends)) if moment}
            for o in one.openings
        ],
    }


def _event(one: TimelineEvent) -> dict[str, Any]:
    fields = {name: timestamp(value) if hasattr(value, "isoformat") else value for name, value in one.fields.items()}
    return {"at": timestamp(one.at), "kind": one.kind, "who": one.who, "message": one.text, **fields}
