"""A report as JSON, for programs. `docs/plan.schema.json` describes the stable form."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from applier.state.structural_diff import FieldDiff
from gitops.plan.report import InterimChange, Obstacle, PlannedChange, PlanStep, Report, WindowCapacity
from gitops.timestamps import optional_timestamp

_SUMMARY = ("create", "update", "replace", "delete", "adopt", "release", "keep", "unchanged", "unknown", "failed")


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "source": report.source,
        "base": report.base,
        "head": report.head,
        "against": report.against,
        "at": optional_timestamp(report.at),
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
        "diff": [_field_diff(field_diff) for field_diff in change.diff],
        "gates": [_obstacle(obstacle) for obstacle in change.obstacles],
        "immutable": list(change.immutable),
        "usedBy": list(change.users),
        "why": change.message,
        "meanwhile": [_interim_change(interim_change) for interim_change in change.interim],
        "then": str(change.later_action) if change.later_action else None,
        "rest": [_field_diff(later_field_diff) for later_field_diff in change.later_diff],
    }


def _interim_change(interim_change: InterimChange) -> dict[str, Any]:
    return {
        "revision": interim_change.revision,
        "action": str(interim_change.action),
        "diff": [_field_diff(field_diff) for field_diff in interim_change.diff],
        "gates": [_obstacle(obstacle) for obstacle in interim_change.obstacles],
        "why": interim_change.message,
        "heals": interim_change.is_heal,
    }


def _field_diff(field_diff: FieldDiff) -> dict[str, Any]:
    sides = {"old": field_diff.old, "new": field_diff.new}
    return {"path": field_diff.path, **{side: value for side, value in sides.items() if value is not None}}


def _obstacle(obstacle: Obstacle) -> dict[str, Any]:
    return {
        "reason": str(obstacle.reason),
        "name": obstacle.name,
        "message": obstacle.message,
        "until": optional_timestamp(obstacle.until),
    }


def _step(step: PlanStep) -> dict[str, Any]:
    return {
        "what": step.summary,
        "refs": list(step.refs),
        "at": optional_timestamp(step.at),
        "after": step.prerequisite,
        "window": _window_capacity(step.window_capacity) if step.window_capacity else None,
        "halfway": {"drain": step.halfway.drain, "refs": list(step.halfway.refs)} if step.halfway else None,
    }


def _window_capacity(capacity: WindowCapacity) -> dict[str, Any]:
    """Return a window capacity as JSON values, with durations in seconds."""
    return {
        "open": int(capacity.open_for.total_seconds()),
        "needs": int(capacity.needs.total_seconds()),
        "recorded": capacity.is_recorded,
        "enough": capacity.is_enough,
    }
