"""A report as a Markdown comment on a pull request, within the limit of the forge.

Text from a repository or a cluster is untrusted. The comment shows untrusted text as code, in which HTML, links and
mentions have no effect. The limit is in bytes of UTF-8. A forge that counts characters accepts such a comment too,
because a text never has more characters than bytes. A shortened comment contains the number of changes that it leaves
out. If only problems, warnings or steps do not fit, the comment says that a part of the plan is missing.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from gitops.plan.field_diff import diff_lines, shorten
from gitops.plan.grouping import ChangeGroup, FoldedChange, fold_changes, format_action_counts, group_changes
from gitops.plan.report import PlannedAction, PlanStep, Report
from renderer.phrasing import format_count, join_names

GITHUB_COMMENT_LIMIT = 65_536
"""Largest size of a comment in bytes of UTF-8. GitHub allows as many characters."""

_MAX_NAMES = 12
"""Largest number of names in a row, and of problems and moves in a list. A number stands for the rest.

A comment lists up to twice as many warnings, and up to four times as many steps.
"""

_MAX_TEXT_CHARACTERS = 1_000
"""Largest number of characters in one text, such as a name or a message."""

_MAX_SECTION_CHANGES = 40
"""Largest number of changes in one section. Because a section is shown whole or not at all, a larger group has several.
"""

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Pattern of invisible characters outside the Unicode categories C and Z, which `_is_visible` checks itself.

The characters are those with Default_Ignorable_Code_Point, and the empty Braille cell.
"""

_HARMLESS = re.compile(r"[A-Za-z0-9 ,:()-]*")
"""Pattern of text in which no character has a meaning in Markdown. The text may still match `_REFERENCE`."""

_REFERENCE = re.compile(r"\bgh-\d|\b[0-9a-f]{7,40}\b", re.IGNORECASE)
"""Pattern of text that forges turn into links: names of issues and commits."""

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
"""First character of the line of a change. Forges highlight lines of a `diff` block that begin with `+`, `-` or `!`."""


def marker(source: str) -> str:
    """Return the first line of a comment, by which a later run finds the comment.

    The marker keeps only letters, digits, dots and hyphens, so that a name cannot end the HTML comment. A name that
    matches SOURCE_NAME_PATTERN loses no character.
    """
    return f"<!-- levelgate:plan source={re.sub(r'[^A-Za-z0-9.-]', '', source)} -->"


def format_comment(
    report: Report, *, limit: int = GITHUB_COMMENT_LIMIT, version: str = "", update_note: str = ""
) -> str:
    """Return the comment, of at most `limit` bytes of UTF-8.

    If the report has no changes, moves, warnings or problems, the comment has only the marker and a title.

    Args:
        limit: largest size in bytes.
        version: version of Levelgate, for the last line.
        update_note: Markdown sentence about updates of the comment, which replaces the sentence about the validity of
            the plan. For a comment without updates, an empty string.
    """
    head = list(_header(report))
    if not (report.has_changes or report.moves or report.warnings or report.problem_count):
        return "\n".join((marker(report.source), f"### Levelgate plan: no changes · `{_sanitize(report.source)}`"))
    foot = ["", _footer(report, version, update_note or _validity(report))]
    budget = limit - _byte_length("\n".join((*head, *foot))) - 200  # bytes for the notice of omitted changes
    lead_sections = ((text, 0) for text in (*_problems(report), *_warnings(report), *_steps(report)))
    body, omitted = _fit_sections((*lead_sections, *_details(report)), budget)
    if omitted:
        left_out = format_count(sum(omitted), "change") if any(omitted) else "a part of the plan"
        notice = f"The comment leaves out {left_out}: a comment has at most {limit:,} bytes."
        body += ["", f"{notice} `levelgate plan` shows all."]
    return "\n".join((*head, *body, *foot))


def _fit_sections(sections: Iterable[tuple[str, int]], budget: int) -> tuple[list[str], list[int]]:
    """Return the sections that fit, in order, and the number of changes in each section that does not fit.

    If a section does not fit, the comment still shows later sections that are smaller.
    """
    shown, omitted = list[str](), list[int]()
    for section, changes in sections:
        if (size := _byte_length(section) + 2) <= budget:
            budget -= size
            shown += ["", section]
        else:
            omitted.append(changes)
    return shown, omitted


def _byte_length(text: str) -> int:
    return len(text.encode())


def _header(report: Report) -> Iterator[str]:
    counts = report.summary
    counts_text = [
        f"{counts[word]} {word}" for word in ("create", "update", "replace", "adopt", "release") if counts[word]
    ]
    counts_text += [f"{counts['delete']} **delete**"] if counts["delete"] else []
    counts_text += [f"{counts[word]} {word}" for word in ("keep", "unknown", "failed") if counts[word]]
    counts_text += [format_count(len(report.problems), "problem")] if report.problems else []
    yield marker(report.source)
    yield f"### Levelgate plan: {', '.join(counts_text) or 'no changes'} · {format_code(report.source)}"
    yield ""
    base = f"{format_code(report.base[:7])} → " if report.base else ""
    # The head of a working tree with changes is a commit with the suffix `-dirty`.
    commit, dirty_suffix, _ = report.head.partition("-dirty")
    head = f"working tree of {commit[:7]}" if dirty_suffix else commit[:7] or "working tree"
    comparison = " · ".join(
        (
            f"{base}{format_code(head)}",
            "Git only, no cluster asked" if report.against == "git" else f"against {format_code(report.against)}",
        )
    )
    # In Markdown, two spaces at the end of a line break the line.
    for move in report.moves[:_MAX_NAMES]:
        old_revision = f"r{move.old} → " if move.old else ""
        yield f"{format_code(move.name)} {old_revision}r{move.new} over {move.instance_count_text}  "
    if report.moves[_MAX_NAMES:]:
        yield f"and {format_count(len(report.moves) - _MAX_NAMES, 'more definition')}  "
    yield comparison


def _problems(report: Report) -> Iterator[str]:
    """Yield the section with problems, if the report has any."""
    if report.problems:
        rows = [f"- {format_code(str(problem))}" for problem in report.problems[:_MAX_NAMES]]
        more = [f"- and {len(report.problems) - _MAX_NAMES} more"] if report.problems[_MAX_NAMES:] else []
        yield "\n".join((f"**{format_count(len(report.problems), 'problem')} in the repository**", "", *rows, *more))


def _warnings(report: Report) -> Iterator[str]:
    """Yield the section with warnings, if the report has any."""
    if report.warnings:
        rows = [f"> - {format_code(warning.message)}" for warning in report.warnings[: 2 * _MAX_NAMES]]
        more = [f"> - and {len(report.warnings) - 2 * _MAX_NAMES} more"] if report.warnings[2 * _MAX_NAMES :] else []
        yield "\n".join(("> [!WARNING]", *rows, *more))


def _steps(report: Report) -> Iterator[str]:
    """Yield the table of steps as one section, if the report has any steps."""
    if report.steps:
        max_rows = 4 * _MAX_NAMES
        rows = [
            f"| {number} | {_format_start(step)} | {_format_summary(step)} |"
            for number, step in enumerate(report.steps[:max_rows], 1)
        ]
        more = [f"| | | and {len(report.steps) - max_rows} more |"] if report.steps[max_rows:] else []
        yield "\n".join(("| | starts | what |", "|---|---|---|", *rows, *more))


def _format_start(step: PlanStep) -> str:
    when = format_minute(step.at) if step.at else "" if step.prerequisite else "at once"
    return " ".join(filter(None, (when, _format_prose(step.prerequisite))))


def _format_summary(step: PlanStep) -> str:
    lines = [f"{_format_prose(step.summary)} {_format_names(step.refs)}".strip()]
    # The texts of the capacity and of the end contain only durations and fixed words, so they need no code.
    if step.window_capacity:
        lines.append(f"window {step.window_capacity}")
    if step.halfway:
        lines.append(f"{step.halfway} {_format_names(step.halfway.refs)}")
    return "<br>".join(lines)


def _format_prose(text: str) -> str:
    """Return `text` as code, or unchanged if no part of the text has a meaning in Markdown."""
    return text if _HARMLESS.fullmatch(text) and not _REFERENCE.search(text) else _table_cell(text)


def _format_names(names: Sequence[str]) -> str:
    return join_names(map(_table_cell, names), limit=_MAX_NAMES)


def format_minute(moment: datetime) -> str:
    """Return text such as `Mon 2026-11-23 08:00Z`, in UTC, because the reader's time zone is unknown.

    Args:
        moment: time in UTC.
    """
    return f"{moment:%a %Y-%m-%d %H:%MZ}"


def _details(report: Report) -> Iterator[tuple[str, int]]:
    """Yield the sections with diffs, each with the number of its changes."""
    for group in group_changes(report):
        changes = iter(fold_changes(group.changes))
        while section := list(islice(changes, _MAX_SECTION_CHANGES)):
            count = sum(max(1, len(folded_change.keys)) for folded_change in section) * max(1, len(group.instances))
            yield f"<details><summary>{_group_title(group)}</summary>\n\n{_diff_block(section)}\n</details>", count


def _group_title(group: ChangeGroup) -> str:
    if not group.instances:
        return f"<b>objects of the source</b> · {format_action_counts(group.changes)}"
    first = group.instances[0]
    names = join_names((_html_code(key.qualified_name) for key in group.instances), limit=_MAX_NAMES)
    each = " each" if group.instances[1:] else ""
    obstacle_names = sorted(
        {obstacle.name or obstacle.reason for change in group.changes for obstacle in change.obstacles}
    )
    # The names are those of windows, waves, persons, objects or gates. An obstacle without a name shows its reason.
    held_note = f" · held by {join_names(map(_html_code, obstacle_names), limit=3)}" if obstacle_names else ""
    return f"{_html_code(first.kind)} <b>{names}</b> · {format_action_counts(group.changes)}{each}{held_note}"


def _diff_block(changes: Iterable[FoldedChange]) -> str:
    content = [
        line
        for folded_change in changes
        for part in folded_change.change.parts
        for line in _change_lines(replace(folded_change, change=part))
    ]
    fence = "`" * (1 + max(2, *(len(run) for run in re.findall(r"`+", "\n".join(content))), 2))
    return "\n".join((f"{fence}diff", *content, fence))


def _change_lines(folded_change: FoldedChange) -> Iterator[str]:
    change, count = folded_change.change, len(folded_change.keys)
    level = "" if change.level is None or change.key == change.instance else f"level {change.level}  "
    node = f"{folded_change.node}  " if folded_change.node else ""
    ref = (
        f"{count} x {change.kind} {join_names((key.qualified_name for key in folded_change.keys), limit=_MAX_NAMES)}"
        if count > 1
        else change.ref
    )
    yield _sanitize(f"{_MARKS[change.action]} {level}{change.action} {node}{ref}")
    if change.immutable:
        yield _sanitize(f"! cannot be changed in place: {', '.join(change.immutable)}")
    if change.users:
        yield _sanitize(f"  used by {join_names(change.users)}")
    if change.message:
        yield _sanitize(f"  {shorten(change.message)}")
    for obstacle in change.obstacles:
        until = f", not before {format_minute(obstacle.until)}" if obstacle.until else ""
        yield _sanitize(f"  {obstacle.reason}: {obstacle.message}{until}")
    for difference in change.diff:
        yield _sanitize(f"  {difference.path}")
        yield from map(_sanitize, diff_lines(difference))


def _footer(report: Report, version: str, validity: str) -> str:
    version_note = f", levelgate {_sanitize(version)}" if version else ""
    plan = f"Plan {_html_code(report.hash)}, {report.at:%Y-%m-%d %H:%MZ}{version_note}"
    return f"<sub>{plan}. Secrets are masked. {validity}</sub>"


def _validity(report: Report) -> str:
    """Return a sentence that names the state for which the plan holds, because the comment may become outdated."""
    if report.against == "git":
        return "Valid for these two commits."
    return "Valid for Git and the cluster at that time: if either changes, `--require-plan` rejects the plan."


def _sanitize(text: str) -> str:
    """Return `text` on one line, with long text cut, and invisible and direction-changing characters replaced."""
    more = f"... ({len(text)} characters)" if len(text) > _MAX_TEXT_CHARACTERS else ""
    return "".join(letter if _is_visible(letter) else "�" for letter in text[:_MAX_TEXT_CHARACTERS]) + more


def _is_visible(letter: str) -> bool:
    return letter == " " or (unicodedata.category(letter)[0] not in "CZ" and not _INVISIBLE.match(letter))


def format_code(text: str) -> str:
    """Return `text` as inline code, in which no character has a meaning in Markdown."""
    text = _sanitize(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _table_cell(text: str) -> str:
    """Return `text` as code in a table, with bars escaped, because a bar ends the cell."""
    return format_code(text).replace("|", "\\|") if text else ""


def _html_code(text: str) -> str:
    return f"<code>{html.escape(_sanitize(text))}</code>"
