"""A report as JSON: the form that programs may rely on, described by `plan.schema.json` beside this module."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from gitops.plan.report import FieldDiff, InterimChange, Obstacle, PlannedChange, PlanStep, Report, WindowCapacity

_SUMMARY = ("create", "update", "replace", "delete", "adopt", "release", "keep", "unchanged", "unknown", "failed")


def as_json(report: Report) -> dict[str, Any]:
    """JSON values only; equal reports give equal values."""
    return {
        "source": report.source,
        "base": report.base,
        "head": report.head,
        "against": report.against,
        "at": _time(report.at),
        "hash": report.hash,
        "deletionsKnown": report.knows_deletions,
        "summary": {word: report.summary[word] for word in _SUMMARY},
        "definitions": [asdict(move) for move in report.moves],
        "changes": [_change(change) for change in report.changes],
        "steps": [_step(step) for step in report.steps],
        "warnings": [asdict(warning) for warning in report.warnings],
        "problems": [asdict(problem) for problem in report.problems],
    }


def _change(change: PlannedChange) -> dict[str, Any]:
    return {
        "action": str(change.action),
        "ref": change.ref,
        "instance": str(change.instance or ""),
        "node": change.node,
        "level": change.level,
        "file": change.file,
        "line": change.line,
        "diff": [_difference(one) for one in change.diff],
        "gates": [_gate(gate) for gate in change.gates],
        "immutable": list(change.immutable),
        "usedBy": list(change.users),
        "why": change.why,
        "meanwhile": [_meanwhile(one) for one in change.meanwhile],
        "then": str(change.then) if change.then else None,
        "rest": [_difference(one) for one in change.rest],
    }


def _meanwhile(early: InterimChange) -> dict[str, Any]:
    return {
        "revision": early.revision,
        "action": str(early.action),
        "diff": [_difference(one) for one in early.diff],
        "gates": [_gate(gate) for gate in early.gates],
        "why": early.why,
        "heals": early.heals,
    }


def _difference(one: FieldDiff) -> dict[str, Any]:
    sides = {"old": one.old, "new": one.new}
    return {"path": one.path, **{side: value for side, value in sides.items() if value is not None}}


def _gate(gate: Obstacle) -> dict[str, Any]:
    return {"reason": str(gate.reason), "name": gate.name, "message": gate.message, "until": _time(gate.until)}


def _step(step: PlanStep) -> dict[str, Any]:
    told = {"what": step.what, "refs": list(step.refs), "at": _time(step.at), "after": step.after}
    return {**told, "window": _room(step.room) if step.room else None}


def _room(room: WindowCapacity) -> dict[str, Any]:
    """Lengths in seconds."""
    return {
        "open": int(room.open_for.total_seconds()),
        "needs": int(room.needs.total_seconds()),
        "recorded": room.is_recorded,
        "enough": room.is_enough,
    }


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None
