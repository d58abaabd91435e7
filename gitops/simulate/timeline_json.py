"""A timeline as JSON, for programs. `docs/simulate.md` describes the form, which is stable."""

from __future__ import annotations

from typing import Any

from gitops.simulate.timeline import (
    BacktestResult,
    CommitArrival,
    SimulatedWindow,
    Timeline,
    TimelineEvent,
    Track,
    TrackSpan,
)
from gitops.timestamps import timestamp


def as_json(timeline: Timeline, *, assumptions: str, seed: int) -> dict[str, Any]:
    """Return a timeline as JSON values.

    All times are in UTC, in the form of RFC 3339. Spans and events omit empty fields.
    """
    return {
        "source": timeline.source,
        "assume": assumptions,
        "seed": seed,
        "from": timestamp(timeline.begins),
        "to": timestamp(timeline.ends),
        "ended": timeline.end_reason,
        "summary": dict(timeline.counts),
        "commits": [_arrival_json(arrival) for arrival in timeline.arrivals],
        "instances": [_track_json(track) for track in timeline.tracks],
        "windows": [_window_json(window) for window in timeline.windows],
        "events": [_event_json(event) for event in timeline.events],
        "warnings": list(timeline.warnings),
    }


def backtest_as_json(results: tuple[BacktestResult, ...]) -> list[dict[str, Any]]:
    """Return a backtest as JSON values.

    Unless a commit settles under both sets of rules, `delaySeconds` is missing.
    """
    return [
        {
            "commit": result.tested.commit,
            "subject": result.tested.subject,
            "at": timestamp(result.tested.at),
            "own": _outcome_json(result.actual),
            "policy": _outcome_json(result.tested),
            **({} if result.delay is None else {"delaySeconds": int(result.delay.total_seconds())}),
        }
        for result in results
    ]


def _arrival_json(arrival: CommitArrival) -> dict[str, Any]:
    return {"at": timestamp(arrival.at), "commit": arrival.commit, "subject": arrival.subject, **_outcome_json(arrival)}


def _outcome_json(arrival: CommitArrival) -> dict[str, Any]:
    times = {"started": arrival.started, "settled": arrival.settled}
    return {
        **{name: timestamp(moment) for name, moment in times.items() if moment},
        **({"overtaken": True} if arrival.is_superseded else {}),
    }


def _track_json(track: Track) -> dict[str, Any]:
    return {
        **track.instance._asdict(),
        **({"rollout": track.rollout, "wave": track.wave} if track.rollout else {}),
        "changed": track.written,
        "spans": [_span_json(span) for span in track.spans],
    }


def _span_json(span: TrackSpan) -> dict[str, Any]:
    state = span.state
    detail = {"node": state.node, "message": state.message, "by": list(state.blockers)}
    return {
        "from": timestamp(span.begins),
        "to": timestamp(span.ends),
        "state": state.word,
        "reason": str(state.reason),
        **{name: value for name, value in detail.items() if value},
        **({"until": timestamp(state.until)} if state.until else {}),
    }


def _window_json(window: SimulatedWindow) -> dict[str, Any]:
    return {
        "name": window.name,
        "kind": window.kind,
        "timeZone": window.zone,
        "active": [
            {name: timestamp(moment) for name, moment in (("from", opening.begins), ("to", opening.ends)) if moment}
            for opening in window.openings
        ],
    }


def _event_json(event: TimelineEvent) -> dict[str, Any]:
    fields = {name: timestamp(value) if hasattr(value, "isoformat") else value for name, value in event.fields.items()}
    return {"at": timestamp(event.at), "kind": event.kind, "who": event.subject, "message": event.text, **fields}
