"""The plans of several clusters on a terminal, as JSON, and as Markdown: one block for those with equal differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import click

from gitops.cli import program_version
from gitops.cli.plan_text import text
from gitops.cli.terminal import echo, print_document
from gitops.plan.fleet_report import FleetReport, block_title, fleet_as_json, group_clusters
from gitops.plan.report import filter_report
from gitops.plan.report_markdown import GITHUB_COMMENT_LIMIT, format_code, format_comment
from gitops.records.references import Ref
from gitops.text import TimeFormat, one_line

_MIN_BLOCK_BYTES = 2_000
"""A block of Markdown is not cut below this, however many there are."""


def show_fleet(
    report: FleetReport,
    title: str,
    typed_refs: Sequence[str],
    refs: Sequence[Ref],
    namespace: str,
    output: str,
    times: TimeFormat,
    color: bool | None,
    *,
    exit_code: bool,
) -> int:
    """Print the plans, narrowed to `refs`, and return the exit code of the whole."""
    narrowed = _narrow(report, refs, namespace)
    for typed_ref, ref in zip(typed_refs, refs, strict=True):
        found = _narrow(report, [ref], namespace)
        if not any(plan.report.changes for plan in found.clusters if plan.report):
            where = f" in {namespace}" if namespace else ""
            echo(f"{typed_ref}: it changes in none of these clusters, or does not exist{where}", err=True)
    if output == "json":
        print_document(fleet_as_json(narrowed), "json", is_sorted=True)
    elif output == "markdown":
        click.echo("\n".join(markdown_lines(narrowed, times)))
    else:
        header = f"{title}\n{times.format_full(report.at)}. Nothing was written."
        click.echo("\n".join([header, *text_lines(narrowed, times, full=bool(refs))]), color=color)
    if report.problem_count or report.has_unknown:
        return 1
    return 2 if exit_code and report.has_changes else 0


def _narrow(report: FleetReport, refs: Sequence[Ref], namespace: str) -> FleetReport:
    clusters = (
        replace(plan, report=filter_report(plan.report, refs, namespace)) if plan.report else plan
        for plan in report.clusters
    )
    return replace(report, clusters=tuple(clusters))


def text_lines(report: FleetReport, times: TimeFormat, *, full: bool) -> Iterator[str]:
    """Yield a block for each group of clusters under its title, then what concerns all."""
    for group in group_clusters(report.clusters):
        first = group[0]
        title = one_line(block_title(group, times.format_full(first.since) if first.since else ""))
        yield from ("", title)
        if first.report:
            yield "-" * min(len(title), 80)
            yield from text(first.report, times, full=full)
    for problem in report.problems:
        yield from ("", one_line(f"Problem: {problem}"))
    for note in report.notes:
        yield from ("", f"Note: {one_line(note)}")


def markdown_lines(report: FleetReport, times: TimeFormat) -> Iterator[str]:
    """Yield the same as comments of a single cluster under headings, which share the limit of a comment."""
    groups = group_clusters(report.clusters)
    limit = max(_MIN_BLOCK_BYTES, GITHUB_COMMENT_LIMIT // max(1, len(groups)) - 300)
    for group in groups:
        first = group[0]
        yield f"## {format_code(block_title(group, times.format_full(first.since) if first.since else ''))}"
        if first.report:
            # The marker by which a comment is found again is for a comment with one plan.
            yield from format_comment(first.report, limit=limit, version=program_version()).split("\n")[1:]
        yield ""
    for problem in report.problems:
        yield f"- {format_code(str(problem))}"
    for note in report.notes:
        yield f"- {format_code(note)}"
