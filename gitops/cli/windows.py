"""`levelgate windows`: the calendar of a repository, or the one in force in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

import click

from applier.cluster import Cluster
from gitops import source_config
from gitops.cli.options import ClusterChoice, cluster_options, revision_option
from gitops.cli.terminal import echo, tell
from gitops.cli.typed import typed_time
from gitops.clock import SystemClock
from gitops.explain.window_table import WindowCalendar, as_json, tables
from gitops.gates.lint import by_target
from gitops.records import window_calendar
from gitops.records.installation import INSTALLATION, cluster_name
from gitops.records.references import RefError
from gitops.records.revisions import RevisionArchive
from gitops.records.source_record import read_records
from gitops.rollouts.source_rules import in_force
from gitops.source import locations
from gitops.times import TimeFormat
from gitops.windows import zones
from gitops.windows.lint import clock_changes, warnings
from gitops.windows.targets import targets
from gitops.windows.window import LOCAL
from renderer.render.render import render


@click.command()
@click.argument("place", metavar="[PATH|URL]", required=False)
@revision_option
@click.option("--at", metavar="TIME", help="Look from this time on, such as 2026-12-24T10:00; else from now on.")
@click.option(
    "--next", "count", type=click.IntRange(1, 100), default=3, show_default=True, help="So many openings of each."
)
@click.option("-n", "--namespace", metavar="NS", help="Show what may change in this namespace only.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces, the default.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.option("--utc", is_flag=True, help="Show and read times in UTC instead of the zone of the terminal.")
@cluster_options
def command(
    place: str | None,
    revision: str,
    at: str | None,
    count: int,
    namespace: str | None,
    all_namespaces: bool,
    output: str,
    utc: bool,
    choice: ClusterChoice,
) -> int:
    """Show windows, and when what they govern may change: those in force in the cluster, or with PATH those of a repository.

    A repository needs no cluster. Exits 1 when a window, or a file that may hold one, cannot be read; the others are shown all the same.

    \b
    levelgate windows --context prod-eu
    levelgate windows sample-repo
    levelgate windows . --at 2026-12-24T10:00 --next 5
    levelgate windows . --utc -o json
    """
    times = TimeFormat(utc)
    now = typed_time(times, at, "--at") if at else SystemClock().now()
    if place is None and revision:
        raise click.UsageError("--revision names a commit of a repository: write its PATH or URL as well")
    if place is not None and choice != ClusterChoice():
        raise click.UsageError("the windows of a repository, or those of a cluster: leave out one of the two")
    found, where, problems = _of_path(place, revision) if place else asyncio.run(_of_cluster(namespace, choice))
    if namespace and not all_namespaces:
        found = [one.within(namespace) for one in found]
    if output != "table":
        tell([window for one in found for window in as_json(one, now, count)], output, is_sorted=True)
    else:
        header = f"{where}{times.full(now)} ({now:%H:%MZ}), tzdata {zones.version()}"
        echo("\n".join([header, *_text(found, times, now, count)]))
    for problem in problems:
        echo(problem, err=True)
    for one in found:
        for warning in warnings(one.windows, now):
            echo(f"warning: {warning}", err=True)
        for window in one.windows:
            for day, message in clock_changes(window, now):
                echo(f"note: {window.origin}: window {window.name} {message}: {day:%a %Y-%m-%d}", err=True)
    return 1 if problems else 0


def _of_path(place: str, revision: str) -> tuple[list[WindowCalendar], str, list[str]]:
    snapshot = locations.read(place, revision=revision)
    catalog = source_config.catalog_of(snapshot)
    rules = in_force(catalog, {})
    problems = [problem for problem in catalog.problems if problem.file in catalog.unreadable]
    gates = by_target({definition.name: definition for definition in catalog.definitions.values()})
    found = WindowCalendar.of(rules, targets(render([catalog]), catalog.definitions, LOCAL), gates)
    return [found], f"{place}: {snapshot.describe(revision)}\n", list(map(str, [*problems, *rules.problems]))


async def _of_cluster(namespace: str | None, choice: ClusterChoice) -> tuple[list[WindowCalendar], str, list[str]]:
    async with choice.readable(namespace) as (cluster, _):
        found = await in_cluster(cluster)
        if not found and cluster.refused:
            raise RefError("the windows in force cannot be shown")
        return found, f"Cluster {cluster.name}, ", [cluster.told] if cluster.told else []


async def in_cluster(cluster: Cluster) -> list[WindowCalendar]:
    """The calendars in force, by source. Raises ClusterError."""
    rules = await window_calendar.read(cluster)
    if not rules:
        return []
    named = cluster_name(await cluster.get(INSTALLATION))
    live = await window_calendar.targets(cluster, await read_records(cluster), named)
    gates = by_target(await (await RevisionArchive.observe(cluster)).newest_definitions(cluster))
    return [WindowCalendar.of(one, live.get(one.source, ()), gates) for one in rules]


def _text(found: Sequence[WindowCalendar], times: TimeFormat, now: datetime, count: int) -> Iterable[str]:
    shown = [one for one in found if one.windows]
    if not shown:
        yield from ("", "No windows: the calendar holds nothing back.")
    for one in shown:
        yield from ("", f"Source {one.source}", "") if len(shown) > 1 else ("",)
        yield from tables(one, times, now, count)
