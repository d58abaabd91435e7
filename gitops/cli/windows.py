"""Command `levelgate windows`: show the times in which objects may change, in a cluster or in a repository."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

import click

from applier.cluster import Cluster
from gitops import source_config
from gitops.cli import describe_exit_codes
from gitops.cli.options import (
    ClusterChoice,
    cluster_name_option,
    member_options,
    read_cluster_name,
    revision_option,
    typed_time,
)
from gitops.cli.terminal import echo, print_document
from gitops.clock import SystemClock
from gitops.explain.window_table import WindowCalendar, as_json, format_tables
from gitops.gates.lint import gates_by_target
from gitops.records import window_calendar
from gitops.records.installation import INSTALLATION, cluster_name
from gitops.records.references import RefError
from gitops.records.revisions import RevisionArchive
from gitops.records.source_record import read_records
from gitops.rollouts.source_rules import resolve_rules
from gitops.source import locations
from gitops.text import TimeFormat
from gitops.windows import zones
from gitops.windows.lint import find_clock_changes, find_unmatched_windows, find_warnings
from gitops.windows.selectable import SelectableObjects
from renderer.render.render import render


@click.command(epilog=describe_exit_codes("0 shown", "1 a read is denied, or a window or its file is unreadable"))
@click.argument("place", metavar="[PATH|URL]", required=False)
@revision_option
@click.option("--at", metavar="TIME", help="Start at this time, such as 2026-12-24T10:00.  [default: now]")
@click.option(
    "--next", "count", type=click.IntRange(1, 100), default=3, show_default=True, help="Openings of each window."
)
@click.option("-n", "--namespace", metavar="NS", help="Show only windows for this namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces (the default), even with -n.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.option("--utc", is_flag=True, help="Show and read times in UTC instead of the zone of the terminal.")
@cluster_name_option
@member_options
def command(  # noqa: PLR0913 - one parameter for each option
    place: str | None,
    revision: str,
    at: str | None,
    count: int,
    namespace: str | None,
    all_namespaces: bool,
    output: str,
    utc: bool,
    file: Path | None,
    choice: ClusterChoice,
) -> int:
    """Show the windows of the cluster, or of the repository at PATH, and when the objects under them may change.

    Use this command to see the next openings, and to check a window before you commit it. With PATH, the command needs
    no cluster. If a window is unreadable, the command still shows all other windows.

    \b
    levelgate windows --context prod-eu
    levelgate windows sample-repo
    levelgate windows . --at 2026-12-24T10:00 --next 5 --config levelgate.yaml
    levelgate windows . --utc -o json
    """
    _check_usage(place, revision, file, choice)
    times = TimeFormat(utc)
    now = typed_time(times, at, "--at") if at else SystemClock().now()
    shown_namespace = None if all_namespaces else namespace
    calendars, header_prefix, problems = (
        _read_repository(place, revision, read_cluster_name(file))
        if place
        else asyncio.run(_read_cluster(shown_namespace, choice))
    )
    if shown_namespace:
        calendars = [calendar.in_namespace(shown_namespace) for calendar in calendars]
    if output != "table":
        document = [window for calendar in calendars for window in as_json(calendar, now, count)]
        print_document(document, output, is_sorted=True)
    else:
        header = f"{header_prefix}{times.format_full(now)} ({now:%H:%MZ}), tzdata {zones.tzdata_version()}"
        echo("\n".join([header, *_text(calendars, times, now, count)]))
    for line in (*problems, *_remarks(calendars, now)):
        echo(line, err=True)
    return 1 if problems else 0


def _check_usage(place: str | None, revision: str, file: Path | None, choice: ClusterChoice) -> None:
    """Check that options of a repository come with a place, and options of a cluster without one.

    Raises: UsageError.
    """
    if place is None and revision:
        raise click.UsageError("--revision names a commit of a repository; add the repository's PATH or URL")
    if place is None and file:
        raise click.UsageError(
            "--config is only for the windows of a repository; leave out --config, because a cluster records its name"
        )
    if place is not None and choice != ClusterChoice():
        raise click.UsageError("PATH and a cluster cannot be combined; leave out PATH or the options of the cluster")


def _remarks(calendars: Sequence[WindowCalendar], now: datetime) -> Iterable[str]:
    """Yield the warnings about windows, and the days on which a change of the clock affects a window."""
    for calendar in calendars:
        yield from (f"warning: {warning}" for warning in find_warnings(calendar.windows, now))
        for window in calendar.windows:
            for day, message in find_clock_changes(window, now):
                yield f"note: {window.origin}: window {window.name} {message}: {day:%a %Y-%m-%d}"


def _read_repository(place: str, revision: str, cluster: str) -> tuple[list[WindowCalendar], str, list[str]]:
    """Return the calendar of the repository at `place`, the start of the header, and the problems as text.

    Args:
        cluster: name of the cluster for which to evaluate windows.

    Raises: SourceError.
    """
    snapshot = locations.read_location(place, revision=revision)
    catalog = source_config.load_catalog(snapshot)
    rules = resolve_rules(catalog, {})
    problems = [problem for problem in catalog.problems if problem.file in catalog.unreadable_files]
    gates = gates_by_target({definition.name: definition for definition in catalog.definitions.values()})
    objects = SelectableObjects.from_rendering(catalog, render([catalog]), cluster)
    calendar = WindowCalendar.from_rules(rules, objects.targets, gates)
    for unmatched in find_unmatched_windows(rules.windows.values(), catalog.rules, objects):
        echo(f"warning: {(unmatched.with_other_sources() if objects.is_empty else unmatched).problem}", err=True)
    return [calendar], f"{place}: {snapshot.describe(revision)}\n", list(map(str, [*problems, *rules.problems]))


async def _read_cluster(namespace: str | None, choice: ClusterChoice) -> tuple[list[WindowCalendar], str, list[str]]:
    """Return the calendars in force, the start of the header, and a note on denied reads, if any.

    Raises: RefError if a read is denied and no calendar is left, ClusterError.
    """
    async with choice.connect_readable(namespace) as (cluster, _):
        calendars = await read_calendars(cluster)
        if not calendars and cluster.denied:
            raise RefError(f"the windows in force in cluster {cluster.name} are not readable")
        return calendars, f"Cluster {cluster.name}, ", [cluster.denial_note] if cluster.denial_note else []


async def read_calendars(cluster: Cluster) -> list[WindowCalendar]:
    """Return the calendar in force of each source. Raises: ClusterError."""
    rules = await window_calendar.read_rules(cluster)
    if not rules:
        return []
    named = cluster_name(await cluster.get(INSTALLATION))
    live_targets = await window_calendar.list_targets(cluster, await read_records(cluster), named)
    gates = gates_by_target(await (await RevisionArchive.observe(cluster)).read_newest_definitions(cluster))
    return [
        WindowCalendar.from_rules(source_rules, live_targets.get(source_rules.source, ()), gates)
        for source_rules in rules
    ]


def _text(calendars: Sequence[WindowCalendar], times: TimeFormat, now: datetime, count: int) -> Iterable[str]:
    non_empty = [calendar for calendar in calendars if calendar.windows]
    if not non_empty:
        yield from ("", "No windows hold changes.")
    for calendar in non_empty:
        yield from ("", f"Source {calendar.source}", "") if len(non_empty) > 1 else ("",)
        yield from format_tables(calendar, times, now, count)
