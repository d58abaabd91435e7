"""Simulation of each cluster of a fleet. Clusters with equal events at equal times share a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import click

from applier.cluster import ClusterName
from gitops.cli import EXIT_INTERRUPTED
from gitops.cli.simulate import comparison_lines, run_simulation, timeline_lines
from gitops.cli.terminal import echo_lines, print_document
from gitops.simulate.assumptions import Assumptions
from gitops.simulate.fleet_series import FleetSeries
from gitops.simulate.svg import render_svg
from gitops.simulate.timeline import BacktestResult, Timeline, compare
from gitops.simulate.timeline_json import as_json, backtest_as_json
from gitops.text import TimeFormat
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.phrasing import join_names

_MAX_NAMES = 20
"""Maximum number of cluster names in a title. The title shows only the number of further clusters."""


@dataclass(frozen=True, slots=True)
class ClusterTimeline:
    """Timeline that one cluster has, or that several clusters share."""

    clusters: tuple[ClusterName, ...]
    timeline: Timeline
    """Timeline under the tested rules. Without tested rules, the rules of the commits apply."""
    comparison: tuple[BacktestResult, ...] | None
    """Results of each commit under its own rules and under the tested rules, or None if no rules are tested."""

    @property
    def title(self) -> str:
        names = join_names(self.clusters, limit=_MAX_NAMES)
        return f"{names}: the same" if self.clusters[1:] else names


def simulate_fleet(
    fleet: FleetSeries,
    assumptions: Assumptions,
    end_time: datetime,
    rules: Catalog | None,
    output: str,
    times: TimeFormat,
) -> int:
    """Simulate each cluster, print the timelines, and return the exit code.

    After an interrupt, print the simulated part.
    """
    echo_lines(map(str, fleet.problems), err=True)
    found: list[ClusterTimeline] = []
    is_interrupted = False
    for series in fleet.series:
        timeline, is_interrupted = run_simulation(series.commits, assumptions, end_time, series.window_name)
        comparison = None
        if rules and not is_interrupted:
            tested, is_interrupted = run_simulation(
                series.commits.with_rules(rules), assumptions, end_time, series.window_name
            )
            timeline, comparison = tested, compare(timeline, tested)
        found.append(ClusterTimeline(series.clusters, timeline, comparison))
        if is_interrupted:
            break
    timelines = merge_equal(found)
    if output == "svg":
        if len(timelines) != 1:
            titles = "; ".join(timeline.title for timeline in timelines) or "none"
            raise click.UsageError(
                f"-o svg shows one timeline, but the fleet has {titles}; choose a cluster with --cluster NAME"
            )
        click.echo(render_svg(timelines[0].timeline))
    elif output == "json":
        print_document(_as_json(timelines, fleet, assumptions), "json", is_sorted=True)
    else:
        echo_lines(_lines(timelines, fleet, assumptions, times))
    return EXIT_INTERRUPTED if is_interrupted else 1 if fleet.problems else 0


def merge_equal(timelines: Sequence[ClusterTimeline]) -> list[ClusterTimeline]:
    """Return the timelines in order, with equal timelines merged into the first of them."""
    merged: list[ClusterTimeline] = []
    for new in timelines:
        for index, known in enumerate(merged):
            if (known.timeline, known.comparison) == (new.timeline, new.comparison):
                merged[index] = replace(known, clusters=(*known.clusters, *new.clusters))
                break
        else:
            merged.append(new)
    return merged


def _lines(
    timelines: Sequence[ClusterTimeline], fleet: FleetSeries, assumptions: Assumptions, times: TimeFormat
) -> Iterator[str]:
    for entry in timelines:
        yield from (entry.title, "=" * min(len(entry.title), 80))
        if entry.comparison is None:
            yield from timeline_lines(entry.timeline, times, assumptions)
        else:
            yield from comparison_lines(entry.comparison, entry.timeline, times, assumptions)
        yield ""
    yield from (f"{name}: {reason}" for name, reason in fleet.not_simulated.items())


def _as_json(timelines: Sequence[ClusterTimeline], fleet: FleetSeries, assumptions: Assumptions) -> dict[str, Any]:
    def row(entry: ClusterTimeline) -> dict[str, Any]:
        comparison = {} if entry.comparison is None else {"comparison": backtest_as_json(entry.comparison)}
        document = as_json(entry.timeline, assumptions=str(assumptions), seed=assumptions.seed)
        return {"names": list(entry.clusters), **document, **comparison}

    return {
        "clusters": [row(entry) for entry in timelines],
        "notSimulated": [{"name": name, "message": reason} for name, reason in fleet.not_simulated.items()],
    }
