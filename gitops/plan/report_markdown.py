"""A report as a comment on a pull request: what a forge can show, within its limit, and safe whatever the commit says.

Everything that comes from a repository or a cluster is written as code: there neither HTML nor links nor mentions mean anything. Limits of a
comment: GitHub 65,536 characters, GitLab 1,000,000; Gitea has none of its own. What does not fit is left out, and said to be.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from gitops.plan.field_diff import lines, shortened
from gitops.plan.grouping import ChangeGroup, FoldedChange, by_action, folded, grouped
from gitops.plan.report import PlannedAction, PlanStep, Report
from renderer.identity import ObjectKey
from renderer.phrasing import counted, listed

GITHUB = 65_536
_FEW = 12
"""Names that are written out in a row; of more, how many there are."""

_LONGEST = 1_000
"""So many characters of one text are shown; a name or a message may be as long as its author likes."""

_SECTION = 40
"""Changes that are folded together; of more, those that there is room for are still shown."""

_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that show nothing (Default_Ignorable_Code_Point of Unicode, and the empty Braille cell)."""

_HARMLESS = re.compile(r"[A-Za-z0-9 ,:()-]*")
_REFERENCE = re.compile(r"\bgh-\d|\b[0-9a-f]{7,40}\b", re.IGNORECASE)
"""What forges make links of: issues, and commits."""

_MARKS = {
    PlannedAction.CREATE: "+",
    PlannedAction.UPDATE: " ",
    PlannedAction.REPLACE: "!",
    PlannedAction.DELETE: "-",
    PlannedAction.ADOPT: " ",
    PlannedAction.RELEASE: "-",
    PlannedAction.KEEP: "=",
    PlannedAction.UNKNOWN: "?",
    PlannedAction.FAILED: "!",
}


def marker(source: str) -> str:
    """The first line of a comment, by which it is found again."""
    return f"<!-- levelgate:plan source={re.sub(r'[^A-Za-z0-9.-]', '', source)} -->"


def comment(report: Report, *, limit: int = GITHUB, version: str = "", kept: str = "") -> str:
    """The comment, of at most `limit` characters (and bytes of UTF-8, which some forges count). `kept` says in Markdown how it is kept up to date,
    where somebody does that.
    """
    head = list(_head(report))
    if not (report.has_changes or report.moves or report.warnings or report.wrong):
        return "\n".join((marker(report.source), f"### Levelgate plan: no changes · `{_plain(report.source)}`"))
    foot = ["", _footer(report, version, kept or _holds(report))]
    room = limit - _size("\n".join((*head, *foot))) - 200  # for the line that says what was left out
    told = ((text, 0) for text in (*_problems(report), *_warnings(report), *_steps(report)))
    body, left = _fitting((*told, *_details(report)), room)
    if left:
        what = f"{sum(left)} changes are not shown" if any(left) else "Not all of it is shown"
        body += ["", f"{what}: a comment has at most {limit:,} characters. `levelgate plan` shows all."]
    return "\n".join((*head, *body, *foot))


def _fitting(sections: Iterable[tuple[str, int]], room: int) -> tuple[list[str], list[int]]:
    """The sections that there is room for, in order, and how many changes each other tells: one that is too large must not hide the others."""
    kept, left = list[str](), list[int]()
    for section, changes in sections:
        if (size := _size(section) + 2) <= room:
            room -= size
            kept += ["", section]
        else:
            left.append(changes)
    return kept, left


def _size(text: str) -> int:
    return len(text.encode())


def _head(report: Report) -> Iterator[str]:
    counts = report.summary
    told = [f"{counts[word]} {word}" for word in ("create", "update", "replace", "adopt", "release") if counts[word]]
    told += [f"{counts['delete']} **delete**"] if counts["delete"] else []
    told += [f"{counts[word]} {word}" for word in ("keep", "unknown", "failed") if counts[word]]
    told += [counted(len(report.problems), "problem")] if report.problems else []
    yield marker(report.source)
    yield f"### Levelgate plan: {', '.join(told) or 'no changes'} · {code(report.source)}"
    yield ""
    base = f"{code(report.base[:7])} → " if report.base else ""
    commit, differs, _ = report.head.partition("-dirty")
    head = f"working tree of {commit[:7]}" if differs else commit[:7] or "working tree"
    where = " · ".join(
        (
            f"{base}{code(head)}",
            "Git only, no cluster asked" if report.against == "git" else f"against {code(report.against)}",
        )
    )
    for move in report.moves[:_FEW]:
        before = f"r{move.old} → " if move.old else ""
        yield f"{code(move.name)} {before}r{move.new} over {move.over}  "
    if report.moves[_FEW:]:
        yield f"and {len(report.moves) - _FEW} more definitions  "
    yield where


def _problems(report: Report) -> Iterator[str]:
    if report.problems:
        rows = [f"- {code(str(problem))}" for problem in report.problems[:_FEW]]
        more = [f"- and {len(report.problems) - _FEW} more"] if report.problems[_FEW:] else []
        yield "\n".join((f"**{counted(len(report.problems), 'problem')} in the repository**", "", *rows, *more))


def _warnings(report: Report) -> Iterator[str]:
    if report.warnings:
        rows = [f"> - {code(warning.message)}" for warning in report.warnings[: 2 * _FEW]]
        more = [f"> - and {len(report.warnings) - 2 * _FEW} more"] if report.warnings[2 * _FEW :] else []
        yield "\n".join(("> [!WARNING]", *rows, *more))


def _steps(report: Report) -> Iterator[str]:
    if report.steps:
        most = 4 * _FEW
        rows = [f"| {number} | {_start(step)} | {_what(step)} |" for number, step in enumerate(report.steps[:most], 1)]
        more = [f"| | | and {len(report.steps) - most} more |"] if report.steps[most:] else []
        yield "\n".join(("| | starts | what |", "|---|---|---|", *rows, *more))


def _start(step: PlanStep) -> str:
    when = minute(step.at) if step.at else "" if step.after else "at once"
    return " ".join(filter(None, (when, _prose(step.after))))


def _what(step: PlanStep) -> str:
    room = f"<br>window {step.room}" if step.room else ""
    return f"{_prose(step.what)} {_names(step.refs)}".strip() + room


def _prose(text: str) -> str:
    """Words of ours with names in them, as they are where nothing in them can mean anything, else as code."""
    return text if _HARMLESS.fullmatch(text) and not _REFERENCE.search(text) else _cell(text)


def _names(names: Sequence[str]) -> str:
    return listed(map(_cell, names), most=_FEW)


def minute(moment: datetime) -> str:
    """`Mon 2026-11-23 08:00Z`: a comment has no zone of its own."""
    return f"{moment:%a %Y-%m-%d %H:%MZ}"


def _details(report: Report) -> Iterator[tuple[str, int]]:
    """Sections, each with how many changes it tells."""
    for group in grouped(report):
        changes = iter(folded(group.changes))
        while part := list(islice(changes, _SECTION)):
            count = sum(max(1, len(alike.keys)) for alike in part) * max(1, len(group.instances))
            yield f"<details><summary>{_title(group)}</summary>\n\n{_diff(part)}\n</details>", count


def _title(group: ChangeGroup) -> str:
    if not group.instances:
        return f"<b>objects of the source</b> · {by_action(group.changes)}"
    first = group.instances[0]
    names = listed((_html(_place(key)) for key in group.instances), most=_FEW)
    each = " each" if group.instances[1:] else ""
    gates = sorted({gate.name or gate.reason for change in group.changes for gate in change.gates})
    held = f" · gate {', '.join(map(_html, gates[:3]))}" if gates else ""
    return f"{_html(first.kind)} <b>{names}</b> · {by_action(group.changes)}{each}{held}"


def _place(key: ObjectKey) -> str:
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def _diff(changes: Iterable[FoldedChange]) -> str:
    parts = (replace(alike, change=part) for alike in changes for part in alike.change.parts)
    content = [line for part in parts for line in _change(part)]
    fence = "`" * (1 + max(2, *(len(run) for run in re.findall(r"`+", "\n".join(content))), 2))
    return "\n".join((f"{fence}diff", *content, fence))


def _change(alike: FoldedChange) -> Iterator[str]:
    change, count = alike.change, len(alike.keys)
    level = "" if change.level is None or change.key == change.instance else f"level {change.level}  "
    node = f"{alike.node}  " if alike.node else ""
    ref = f"{count} x {change.kind} {listed(map(_place, alike.keys), most=_FEW)}" if count > 1 else change.ref
    yield _plain(f"{_MARKS[change.action]} {level}{change.action} {node}{ref}")
    if change.immutable:
        yield _plain(f"! cannot be changed in place: {', '.join(change.immutable)}")
    if change.users:
        yield _plain(f"  used by {', '.join(change.users[:5])}{' and more' if change.users[5:] else ''}")
    if change.why:
        yield _plain(f"  {shortened(change.why)}")
    for gate in change.gates:
        until = f", not before {minute(gate.until)}" if gate.until else ""
        yield _plain(f"  {gate.reason}: {gate.message}{until}")
    for difference in change.diff:
        yield _plain(f"  {difference.path}")
        yield from map(_plain, lines(difference))


def _footer(report: Report, version: str, validity: str) -> str:
    made = f", levelgate {_plain(version)}" if version else ""
    return f"<sub>Plan {_html(report.hash)}, {report.at:%Y-%m-%d %H:%MZ}{made}. Secrets are masked. {validity}</sub>"


def _holds(report: Report) -> str:
    """For what a comment is true that nobody keeps up to date."""
    if report.against == "git":
        return "True of these two commits."
    return "True of Git and the cluster as they were then: `--require-plan` refuses it once either has moved."


def _plain(text: str) -> str:
    """On one line, cut where it is long, without what is not seen or turns the order of letters round."""
    more = f"... ({len(text)} characters)" if len(text) > _LONGEST else ""
    return "".join(letter if _is_seen(letter) else "�" for letter in text[:_LONGEST]) + more


def _is_seen(letter: str) -> bool:
    return letter == " " or (unicodedata.category(letter)[0] not in "CZ" and not _BLANK.match(letter))


def code(text: str) -> str:
    """As code within a line: nothing in it means anything."""
    text = _plain(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _cell(text: str) -> str:
    """As code within a table, where a bar would end the cell."""
    return code(text).replace("|", "\\|") if text else ""


def _html(text: str) -> str:
    return f"<code>{html.escape(_plain(text))}</code>"
