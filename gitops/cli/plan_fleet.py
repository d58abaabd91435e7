"""Plans of several clusters as text, JSON and Markdown. Clusters with equal differences share a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import click

from gitops.cli import EXIT_CHANGES, program_version
from gitops.cli.plan_output import PlanView
from gitops.cli.plan_text import text
from gitops.cli.terminal import echo, print_document
from gitops.plan.fleet_report import FleetReport, block_title, fleet_as_json, group_clusters
from gitops.plan.report_markdown import GITHUB_COMMENT_LIMIT, format_code, format_comment
from gitops.text import TimeFormat, one_line

_MIN_BLOCK_BYTES = 2_000
"""Bytes that a block of Markdown may use at least, even if many blocks share the maximum size of a comment."""


def show_fleet(report: FleetReport, title: str, view: PlanView) -> int:
    """Print the plans and return the exit code: 1 for a problem or a cluster without a plan, 2 for changes."""
    narrowed = _narrow(report, view)
    for typed_ref in view.unchanged_refs(plan.report for plan in report.clusters if plan.report):
        missing = f"the object does not exist{view.place_text}"
        echo(f"{typed_ref}: no plan changes this object, or {missing}; check the name", err=True)
    if view.output == "json":
        print_document(fleet_as_json(narrowed), "json", is_sorted=True)
    elif view.output == "markdown":
        click.echo("\n".join(markdown_lines(narrowed, view.times)))
    else:
        header = view.format_header(title, view.times.format_full(report.at))
        lines = text_lines(narrowed, view.times, full=view.is_full)
        click.echo("\n".join([header, *lines]), color=view.color)
    if report.problem_count or report.has_unknown:
        return 1
    return EXIT_CHANGES if report.has_changes else 0


def _narrow(report: FleetReport, view: PlanView) -> FleetReport:
    clusters = (replace(plan, report=view.narrow(plan.report)) if plan.report else plan for plan in report.clusters)
    return replace(report, clusters=tuple(clusters))


def text_lines(report: FleetReport, times: TimeFormat, *, full: bool) -> Iterator[str]:
    """Yield a titled block for each group of clusters, then the problems and notes of the whole fleet."""
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
    """Yield the plan of each group of clusters under a heading, in the same form as the plan of one cluster.

    The groups share the maximum size of a comment.
    """
    groups = group_clusters(report.clusters)
    # 300 bytes are room for the heading of a block.
    limit = max(_MIN_BLOCK_BYTES, GITHUB_COMMENT_LIMIT // max(1, len(groups)) - 300)
    for group in groups:
        first = group[0]
        yield f"## {format_code(block_title(group, times.format_full(first.since) if first.since else ''))}"
        if first.report:
            # The first line marks a comment with a single plan, so it is omitted from this comment.
            yield from format_comment(first.report, limit=limit, version=program_version()).split("\n")[1:]
        yield ""
    for problem in report.problems:
        yield f"- {format_code(str(problem))}"
    for note in report.notes:
        yield f"- {format_code(note)}"
