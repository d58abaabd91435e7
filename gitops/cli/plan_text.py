"""A plan as people read it on a terminal: what changes by instance and level, then when, then what to beware of; numbers at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

import click

from gitops.plan.field_diff import lines, shortened
from gitops.plan.grouping import ChangeGroup, FoldedChange, folded, grouped
from gitops.plan.report import PlannedAction, PlannedChange, Report, RevisionMove
from gitops.plan.start_times import place
from gitops.text import one_line
from gitops.times import TimeFormat
from renderer.identity import ObjectKey
from renderer.phrasing import listed

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
_FEW = 8
_WIDTH = 80


def text(report: Report, times: TimeFormat, *, full: bool = False) -> Iterator[str]:
    """Lines, with colours, which click takes out again where they are not wanted. `full`: what new objects are made of as well."""
    for move in report.moves:
        yield from ("", one_line(_move(move)))
    for group in grouped(report):
        yield from ("", *_group(group, full=full))
    if report.steps:
        yield from ("", "If merged now", *_steps(report, times))
    for warning in report.warnings:
        where = f"{warning.file}:{warning.line}: " if warning.file else ""
        yield from ("", *_wrapped("Warning: ", f"{where}{warning.message}"))
    for problem in report.problems:
        yield from ("", *_wrapped("Problem: ", str(problem)))
    yield from ("", *_numbers(report))


def _move(move: RevisionMove) -> str:
    before = f"r{move.old} -> " if move.old else "new: "
    policy = f", policy {move.policy}" if move.policy else ""
    return f"{move.name}  {before}r{move.new}".ljust(50) + f" {move.over}{policy}"


def _group(group: ChangeGroup, *, full: bool) -> Iterator[str]:
    yield one_line(_title(group))
    alikes = list(folded(group.changes))
    width = max(12, *(len(alike.node) for alike in alikes))
    for alike in alikes:
        for part in alike.change.parts:
            yield from _change(replace(alike, change=part), width, several=len(group.instances) > 1, full=full)


def _title(group: ChangeGroup) -> str:
    if not group.instances:
        return "Objects of the source"
    first, several = group.instances[0], group.instances[1:]
    if not several:
        ends = {True: "removed from Git, in this order", False: ""}
        return f"{first.kind} {place(first)}".ljust(49 if group.goes else 0) + ends[group.goes]
    return f"{first.kind} {_placed(group.instances)}".ljust(62) + f" {len(group.instances)} x this change"


def _placed(keys: Iterable[ObjectKey], *, within: str = "") -> str:
    """Names by namespace: `prod/ api auth  staging/ blog`; that of the instance goes without saying."""
    by_namespace: dict[str, list[str]] = {}
    for key in keys:
        by_namespace.setdefault("" if key.namespace == within else key.namespace, []).append(key.name)
    return "  ".join(
        f"{namespace}/ {_few(found)}" if namespace else _few(found) for namespace, found in by_namespace.items()
    )


def _few(names: Sequence[str]) -> str:
    return listed(names, most=_FEW, separator=" ")


def _change(alike: FoldedChange, width: int, *, several: bool, full: bool) -> Iterator[str]:
    """`width`: of the longest name beside it; `several`: it stands for as many instances, whose objects have other names."""
    change, count = alike.change, len(alike.keys)
    mark = _MARKS[change.action]
    level = "" if change.level is None or (change.instance is not None and not change.node) else str(change.level)
    name = alike.node or ("instance" if change.instance is not None and change.instance == change.key else "")
    what = change.kind if several or change.key is None else f"{change.key.kind}/{_name(change)}"
    if count > 1:
        what = change.kind if several else f"{change.kind} {_placed(alike.keys, within=_namespace(change))}"
    gates = ", ".join(dict.fromkeys(filter(None, (_gate(change, place) for place in range(len(change.gates))))))
    why = {PlannedAction.RELEASE: "released, not deleted", PlannedAction.KEEP: f"stays: {shortened(change.why)}"}.get(
        change.action, shortened(change.why)
    )
    times = f"{count} x this change" if count > 1 else ""
    notes = "   ".join(filter(None, (times, why, f"gate: {gates}" if gates else "", _users(change))))
    called = f"{name:<{width}} {what}" if name else what
    head = f"{level:>3}  {click.style(mark, fg=_COLOURS[mark])} {one_line(called)}"
    yield f"{head}   {one_line(notes)}".rstrip()
    if change.immutable:
        yield one_line(f"         cannot be changed in place: {', '.join(change.immutable)}")
    if change.action is PlannedAction.CREATE and not full:
        return
    for difference in change.diff:
        yield one_line(f"         {difference.path}")
        for line in lines(difference):
            yield f"         {click.style(one_line(line), fg=_COLOURS[line[0]])}"


def _name(change: PlannedChange) -> str:
    key, instance = change.key, change.instance
    assert key
    elsewhere = key.namespace and (instance is None or instance.namespace != key.namespace)
    return f"{key.name}  in {key.namespace}" if elsewhere else key.name


def _namespace(change: PlannedChange) -> str:
    return change.instance.namespace if change.instance else ""


def _gate(change: PlannedChange, number: int) -> str:
    gate = change.gates[number]
    return f"{gate.name} ({gate.reason})" if gate.name else str(gate.reason)


def _users(change: PlannedChange) -> str:
    return f"used by {listed(change.users, most=3)}" if change.users else ""


def _steps(report: Report, times: TimeFormat) -> Iterator[str]:
    for step in report.steps:
        when = times.minute(step.at) if step.at else "then" if step.after else "at once"
        yield from _wrapped(f"  {when:<22} ", f"{step.what} {listed(step.refs, most=_FEW)}".strip())
        for more in filter(None, (step.after, f"window {step.room}" if step.room else "")):
            yield from _wrapped(f"  {'':<22} ", more)


def _wrapped(head: str, text: str) -> Iterator[str]:
    """Right of the head, below each other. Names and places stay whole."""
    for line in wrap(one_line(text), _WIDTH - len(head), break_long_words=False, break_on_hyphens=False):
        yield f"{head}{line}"
        head = " " * len(head)


def _numbers(report: Report) -> Iterator[str]:
    count = report.summary
    more = "".join(
        f", {count[word]} {said}"
        for word, said in (
            ("adopt", "to adopt"),
            ("release", "to release"),
            ("keep", "not in Git that stay"),
            ("unknown", "not knowable yet"),
            ("failed", "that cannot be done"),
        )
        if count[word]
    )
    yield (
        f"{count['create']} to create, {count['update']} to update, {count['replace']} to replace, "
        f"{count['delete']} to delete, {count['unchanged']} unchanged{more}."
    )
    if not report.knows_deletions:
        yield f"Deletions unknown: no one source follows this repository and path; planned as {report.source}. Name the source with --source."
    yield f"Plan {report.hash}."
