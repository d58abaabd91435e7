"""A plan as text for a terminal: changes by instance and level, then start times, warnings, problems and totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

import click

from applier.causes import Reason
from gitops.plan.field_diff import diff_lines, shorten
from gitops.plan.grouping import ChangeGroup, FoldedChange, fold_changes, group_changes
from gitops.plan.report import Obstacle, PlannedAction, PlannedChange, Report, RevisionMove
from gitops.text import TimeFormat, one_line, title
from renderer.identity import ObjectKey
from renderer.phrasing import join_names

_MARKS = {
    PlannedAction.CREATE: "+",
    PlannedAction.UPDATE: "~",
    PlannedAction.REPLACE: "-/+",
    PlannedAction.ADOPT: "<",
    PlannedAction.DELETE: "-",
    PlannedAction.RELEASE: "-",
    PlannedAction.KEEP: "=",
    PlannedAction.UNKNOWN: "?",
    PlannedAction.FAILED: "!",
}
_COLOURS = {
    "+": "green",
    "~": "yellow",
    "-/+": "magenta",
    "<": "cyan",
    "-": "red",
    "!": "red",
    "?": "blue",
    "=": "blue",
}
_MAX_NAMES = 8
"""Maximum number of names in a list. The plan shows only the number of further names."""
_WIDTH = 80


def text(report: Report, times: TimeFormat, *, full: bool = False) -> Iterator[str]:
    """Yield the lines of a plan, coloured. With `full`, show the fields of new objects too.

    The lines always contain colours. If the terminal has no colours, `click.echo` removes them.
    """
    for move in report.moves:
        yield from ("", one_line(_format_move(move)))
    for group in group_changes(report):
        yield from ("", *_group_lines(group, full=full))
    if report.steps:
        yield from ("", "If merged now", *_step_lines(report, times))
    for warning in report.warnings:
        where = f"{warning.file}:{warning.line}: " if warning.file else ""
        yield from ("", *_wrap_lines("Warning: ", f"{where}{warning.message}"))
    for problem in report.problems:
        yield from ("", *_wrap_lines("Problem: ", str(problem)))
    yield from ("", *_summary_lines(report))


def _format_move(move: RevisionMove) -> str:
    old_revision = f"r{move.old} -> " if move.old else "new: "
    policy = f", policy {move.policy}" if move.policy else ""
    return f"{move.name}  {old_revision}r{move.new}".ljust(50) + f" {move.instance_count_text}{policy}"


def _group_lines(group: ChangeGroup, *, full: bool) -> Iterator[str]:
    yield one_line(_group_title(group))
    folded_changes = list(fold_changes(group.changes))
    width = max(12, *(len(folded_change.node) for folded_change in folded_changes))
    for folded_change in folded_changes:
        for part in folded_change.change.parts:
            yield from _change_lines(
                replace(folded_change, change=part), width, several=len(group.instances) > 1, full=full
            )


def _group_title(group: ChangeGroup) -> str:
    if not group.instances:
        return "Objects of the source"
    first, other_instances = group.instances[0], group.instances[1:]
    if not other_instances:
        return f"{title(first):<49}removed from Git, in this order" if group.is_instance_deleted else title(first)
    return f"{first.kind} {_format_by_namespace(group.instances)}".ljust(62) + f" {len(group.instances)} x this change"


def _format_by_namespace(keys: Iterable[ObjectKey], *, own_namespace: str = "") -> str:
    """Return names by namespace, such as `prod/ api auth staging/ blog`.

    Args:
        own_namespace: namespace of the instance, which the text leaves out.
    """
    by_namespace: dict[str, list[str]] = {}
    for key in keys:
        by_namespace.setdefault("" if key.namespace == own_namespace else key.namespace, []).append(key.name)
    return "  ".join(
        f"{namespace}/ {_format_names(names)}" if namespace else _format_names(names)
        for namespace, names in by_namespace.items()
    )


def _format_names(names: Sequence[str]) -> str:
    return join_names(names, limit=_MAX_NAMES, separator=" ")


def _change_lines(folded_change: FoldedChange, width: int, *, several: bool, full: bool) -> Iterator[str]:
    """Yield the lines of a change, or of equal changes that are folded together.

    Args:
        width: length of the longest node name in the group, in characters.
        several: True if the group stands for several instances, whose objects differ by name.
    """
    change, count = folded_change.change, len(folded_change.keys)
    mark = _MARKS[change.action]
    level = "" if change.level is None or (change.instance is not None and not change.node) else str(change.level)
    name = folded_change.node or ("instance" if change.instance is not None and change.instance == change.key else "")
    object_text = change.kind if several or change.key is None else f"{change.key.kind}/{_object_name(change)}"
    if count > 1 and not several:
        own_namespace = change.instance.namespace if change.instance else ""
        object_text = f"{change.kind} {_format_by_namespace(folded_change.keys, own_namespace=own_namespace)}"
    gates = ", ".join(dict.fromkeys(map(_format_gate, change.obstacles)))
    reason_text = {
        PlannedAction.RELEASE: "released, not deleted",
        PlannedAction.KEEP: f"stays: {shorten(change.message)}",
    }.get(change.action, shorten(change.message))
    times = f"{count} x this change" if count > 1 else ""
    notes = "   ".join(filter(None, (times, reason_text, f"gate: {gates}" if gates else "", _format_users(change))))
    object_label = f"{name:<{width}} {object_text}" if name else object_text
    head = f"{level:>3}  {click.style(mark, fg=_COLOURS[mark])} {one_line(object_label)}"
    yield f"{head}   {one_line(notes)}".rstrip()
    if change.immutable:
        yield one_line(f"         cannot be changed in place: {', '.join(change.immutable)}")
    if change.action is PlannedAction.CREATE and not full:
        return
    for difference in change.diff:
        yield one_line(f"         {difference.path}")
        for line in diff_lines(difference):
            yield f"         {click.style(one_line(line), fg=_COLOURS[line[0]])}"


def _object_name(change: PlannedChange) -> str:
    key, instance = change.key, change.instance
    assert key
    elsewhere = key.namespace and (instance is None or instance.namespace != key.namespace)
    return f"{key.name}  in {key.namespace}" if elsewhere else key.name


def _format_gate(gate: Obstacle) -> str:
    if gate.reason in {Reason.HELD, Reason.SUSPENDED}:
        return f"{gate.reason}, {shorten(gate.message)}"
    return f"{gate.name} ({gate.reason})" if gate.name else str(gate.reason)


def _format_users(change: PlannedChange) -> str:
    return f"used by {join_names(change.users, limit=3)}" if change.users else ""


def _step_lines(report: Report, times: TimeFormat) -> Iterator[str]:
    for step in report.steps:
        start_text = times.format_minute(step.at) if step.at else "then" if step.prerequisite else "at once"
        yield from _wrap_lines(
            f"  {start_text:<22} ", f"{step.summary} {join_names(step.refs, limit=_MAX_NAMES)}".strip()
        )
        details = [step.prerequisite]
        if step.window_capacity:
            details.append(f"window {step.window_capacity}")
        if step.halfway:
            details.append(f"{step.halfway} {join_names(step.halfway.refs, limit=_MAX_NAMES)}")
        for detail in filter(None, details):
            yield from _wrap_lines(f"  {'':<22} ", detail)


def _wrap_lines(head: str, text: str) -> Iterator[str]:
    """Yield `text`, wrapped to the right of `head`. Do not break names and paths."""
    for line in wrap(one_line(text), _WIDTH - len(head), break_long_words=False, break_on_hyphens=False):
        yield f"{head}{line}"
        head = " " * len(head)


def _summary_lines(report: Report) -> Iterator[str]:
    count = report.summary
    further_counts = "".join(
        f", {count[count_name]} {phrase}"
        for count_name, phrase in (
            ("adopt", "to adopt"),
            ("release", "to release"),
            ("keep", "not in Git that remain"),
            ("unknown", "not knowable yet"),
            ("failed", "that cannot be done"),
        )
        if count[count_name]
    )
    yield (
        f"{count['create']} to create, {count['update']} to update, {count['replace']} to replace, "
        f"{count['delete']} to delete, {count['unchanged']} unchanged{further_counts}."
    )
    if not report.knows_deletions:
        yield (
            f"Deletions are unknown, because no source, or more than one, follows this repository and path. "
            f"The plan is for {report.source}. Name the source with --source."
        )
    yield f"Plan {report.hash}."
