"""Command `levelgate simulate`: show the effects of a commit over days and weeks, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitops.cli import EXIT_INTERRUPTED, describe_exit_codes, program_version
from gitops.cli.options import EXISTING_FILE, ParsedValue, config_option, typed_time
from gitops.cli.terminal import echo_lines, print_document
from gitops.clock import SystemClock
from gitops.durations import format_duration
from gitops.simulate.assumptions import Assumptions
from gitops.simulate.commits import CommitSeries, HistoryReader, read_rules
from gitops.simulate.engine import Simulation
from gitops.simulate.svg import render_svg
from gitops.simulate.timeline import BacktestResult, Timeline, TimelineEvent, compare, held_time
from gitops.simulate.timeline_json import as_json, backtest_as_json
from gitops.text import TimeFormat, align_table
from gitops.windows.window import LOCAL
from renderer.phrasing import format_count, join_names

if TYPE_CHECKING:
    from gitops.config import Config

DEFAULT_DURATION = timedelta(days=14)
"""Maximum virtual time for which a simulation continues after the last commit."""


class AssumptionsOption(ParsedValue[Assumptions]):
    """Type of an option such as `ready=2m,fail=web-7`."""

    name, parse = "assumptions", Assumptions.parse


@click.command(
    epilog=describe_exit_codes("0 simulated", "1 problems or an error", "130 interrupted; the simulated part is shown")
)
@click.argument("place", metavar="PATH", type=click.Path(exists=True))
@click.option("--base", required=True, metavar="REV", help="Healthy commit at the beginning: branch, tag or id.")
@click.option("--head", default="", metavar="REV", help="Commit that arrives.  [default: the working tree]")
@click.option("--start", metavar="TIME", help="Time of the arrival, such as 2026-12-24T10:00.  [default: now]")
@click.option(
    "--until",
    metavar="TIME",
    help="Time at which the simulation ends.  [default: 14 days after the last commit, or the end of all work]",
)
@click.option(
    "--assume",
    type=AssumptionsOption(),
    default="ready=1m",
    show_default=True,
    metavar="WORD=VALUE,...",
    help="Behaviour of workloads: ready=2m, ready=1m..5m; fail=NAME, hang=NAME, flap=NAME of workloads or instances. "
    "NAME may contain *.",
)
@click.option(
    "--policy",
    type=EXISTING_FILE,
    metavar="FILE",
    help="Replay all commits from --base to --head, each at its own time, under the windows and policies in this file "
    "instead of their own.",
)
@click.option("--source", default="", metavar="NAME", help="Name of the source.  [default: name of the directory]")
@config_option(
    "Evaluate windows for `cluster.name` of this configuration. With `fleet`, simulate each cluster.  [default: local]"
)
@click.option("--cluster", "wanted", default="", metavar="NAME", help="Simulate only this cluster of the fleet.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for random times of ready=A..B.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "svg"]), default="text", show_default=True)
@click.option("--utc", is_flag=True, help="Show and read times in UTC instead of the zone of the terminal.")
def command(  # noqa: PLR0913 - one parameter for each option
    place: str,
    base: str,
    head: str,
    start: str | None,
    until: str | None,
    assume: Assumptions,
    policy: Path | None,
    source: str,
    file: Path | None,
    wanted: str,
    seed: int,
    output: str,
    utc: bool,
) -> int:
    """Show the effects of a commit that arrives at a given time: moves, waits with their causes, and halts.

    Use this command to check windows and rollout policies before they matter. The simulation runs the real controller
    on a sandbox whose clock jumps to the next event. The command asks no cluster, and no time passes. Equal input,
    including --start and --seed, gives equal output. To see the simulated part early, press Ctrl-C.

    \b
    levelgate simulate . --base main --assume ready=2m
    levelgate simulate . --base main --head my-branch --start 2026-12-18T11:00 -o svg > freeze.svg
    levelgate simulate . --base main --assume ready=1m..10m,fail=web-7
    levelgate simulate . --base v1.0 --policy stricter.yaml
    levelgate simulate . --base main --config levelgate.yaml --cluster eu-1
    """
    times = TimeFormat(utc)
    start_time = typed_time(times, start, "--start") if start else None
    config = _read_configuration(file) if file else None
    cluster_name = config.cluster if config else LOCAL
    if wanted and (config is None or config.fleet is None):
        raise click.UsageError(
            "--cluster chooses a cluster of a fleet, and needs `fleet` in the configuration; add --config FILE"
        )
    repository = HistoryReader.open(place, source)
    now = SystemClock().now().replace(microsecond=0)
    commits = (
        repository.read_history(base, head, start_time)
        if policy
        else repository.read_step(base, head, start_time or now)
    )
    end_time = typed_time(times, until, "--until") if until else commits.pushes[-1].at + DEFAULT_DURATION
    if end_time <= commits.pushes[0].at:
        raise click.BadParameter(
            "is not after the arrival of the first commit; name a later time", param_hint="--until"
        )
    assumptions = replace(assume, seed=seed)
    rules = read_rules(policy) if policy else None
    if config and config.fleet:
        from gitops.cli.simulate_fleet import simulate_fleet
        from gitops.simulate.fleet_series import project_series

        fleet = project_series(
            commits, fleet_source=config.fleet.source, hub_name=cluster_name, tested_rules=rules, wanted=wanted
        )
        return simulate_fleet(fleet, assumptions, end_time, rules, output, times)
    echo_lines(map(str, commits.problems), err=True)
    simulate = partial(run_simulation, assumptions=assumptions, end_time=end_time, cluster_name=cluster_name)
    timeline, is_interrupted = simulate(commits)
    if rules and not is_interrupted:
        tested_timeline, is_interrupted = simulate(commits.with_rules(rules))
        results = compare(timeline, tested_timeline)
        lines = comparison_lines(results, tested_timeline, times, assumptions)
        _show(tested_timeline, output, lines, assumptions, comparison=backtest_as_json(results))
    else:
        _show(timeline, output, timeline_lines(timeline, times, assumptions), assumptions)
    return EXIT_INTERRUPTED if is_interrupted else 1 if commits.problems else 0


def _read_configuration(file: Path) -> Config:
    from gitops.config import read_config

    return read_config(file)


def run_simulation(
    commits: CommitSeries, assumptions: Assumptions, end_time: datetime, cluster_name: str
) -> tuple[Timeline, bool]:
    """Return the timeline, and whether a person interrupted the simulation."""
    simulation = Simulation(commits.pushes[0].at, assumptions, program_version(), cluster_name)
    try:
        asyncio.run(simulation.run(commits.base, commits.pushes, end_time))
    except KeyboardInterrupt:
        return simulation.timeline("interrupted"), True
    return simulation.timeline(), False


def _show(
    timeline: Timeline, output: str, lines: Iterable[str], assumptions: Assumptions, **more_fields: object
) -> None:
    if output == "svg":
        click.echo(render_svg(timeline))
    elif output == "json":
        document = as_json(timeline, assumptions=str(assumptions), seed=assumptions.seed)
        print_document({**document, **more_fields}, "json", is_sorted=True)
    else:
        echo_lines(lines)


def timeline_lines(timeline: Timeline, times: TimeFormat, assumptions: Assumptions) -> Iterator[str]:
    """Yield the lines of `timeline` for a terminal."""
    first = timeline.arrivals[0] if timeline.arrivals else None
    arrival_text = f": {first.commit[:7]} ({first.subject}) arrives" if first else ""
    yield f"Simulation of {timeline.source}{arrival_text} {times.format_full(timeline.begins)}; assumed {assumptions}"
    yield "The simulation asked no cluster and wrote nothing."
    day = ""
    for moment, subject_name, text in _event_lines(timeline.events, times):
        if (today := times.format_full(moment)[:14]) != day:
            day = today
            yield from ("", day)
        yield f"{times.format_second(moment)}  {subject_name:<24} {text}".rstrip()
    yield "-" * 80
    counts = ", ".join(f"{number} {state}" for state, number in timeline.counts.items() if number)
    yield f"{format_count(len(timeline.tracks), 'instance')}: {counts or 'none'}"
    elapsed = format_duration(timeline.ends - timeline.begins)
    yield f"Ended {times.format_full(timeline.ends)}, after {elapsed}: {timeline.end_reason}."
    yield from (f"Warning: {warning}" for warning in timeline.warnings)


def _event_lines(events: tuple[TimelineEvent, ...], times: TimeFormat) -> Iterator[tuple[datetime, str, str]]:
    """Yield time, subject and text of each event.

    Join equal actions in the same level of an instance into one line, if their times are equal.
    """
    grouped_writes: dict[tuple[datetime, str, object, object], list[str]] = {}
    for event in events:
        if event.kind == "write":
            key = event.at, event.subject, event.fields.get("level", 0), event.fields["action"]
            grouped_writes.setdefault(key, []).append(event.text)
    printed_keys = set()
    for event in events:
        text = event.text
        if event.kind == "write":
            key = event.at, event.subject, event.fields.get("level", 0), event.fields["action"]
            if key in printed_keys:
                continue
            printed_keys.add(key)
            text = _join_writes(grouped_writes[key], str(event.fields["action"]))
        if isinstance(until := event.fields.get("until"), datetime):
            text = text.replace("{until}", times.format_short(until, event.at))
        yield event.at, event.subject, text


def _join_writes(texts: list[str], action: str) -> str:
    """Return several writes as one line, such as `level 1 config, deployment updated`."""
    if len(texts) == 1:
        return texts[0]
    head = texts[0].partition("  ")[0]
    names = [text.partition("  ")[2].removesuffix(f" {action}") for text in texts]
    return f"{head}  {join_names(names, limit=4)} {action}"


def comparison_lines(
    results: tuple[BacktestResult, ...], tested: Timeline, times: TimeFormat, assumptions: Assumptions
) -> Iterator[str]:
    """Yield the lines of a replay: each commit under its own rules and under the tested policy."""
    period = f"{times.format_full(tested.begins)} to {times.format_full(tested.ends)}"
    yield f"{format_count(len(results), 'commit')} of {tested.source}, {period}; assumed {assumptions}"
    yield ""
    rows = [["COMMIT", "ARRIVED", "OWN RULES", "THIS POLICY", "DELAY", "HELD", "SUBJECT"]]
    end_times = [result.tested.at for result in results[1:]] + [tested.ends]
    for result, end in zip(results, end_times, strict=True):
        rows.append(
            [
                result.tested.commit[:7],
                times.format_minute(result.tested.at),
                _format_settled(result.actual.settled, times, overtaken=result.actual.is_superseded),
                _format_settled(result.tested.settled, times, overtaken=result.tested.is_superseded),
                "-" if result.delay is None else format_duration(result.delay),
                format_duration(held_time(tested, result.tested.at, end)),
                result.tested.subject[:40],
            ]
        )
    yield from align_table(rows)
    delays = [result.delay for result in results if result.delay]
    longest = format_duration(max((timedelta(), *delays)))
    overtaken = sum(result.tested.is_superseded and not result.actual.is_superseded for result in results)
    yield ""
    delayed = f"{len(delays)} of {format_count(len(results), 'commit')} would settle at another time"
    yield f"{delayed}, at most {longest} later; {overtaken} more overtaken."
    exclusive_counts = {
        "their own rules": sum(bool(result.actual.settled) and not result.tested.settled for result in results),
        "this policy": sum(bool(result.tested.settled) and not result.actual.settled for result in results),
    }
    yield from (f"{number} would settle only under {rules}." for rules, number in exclusive_counts.items() if number)
    yield from (f"Warning: {result}" for result in tested.warnings)


def _format_settled(moment: datetime | None, times: TimeFormat, *, overtaken: bool) -> str:
    return times.format_minute(moment) if moment else "overtaken" if overtaken else "not in time"
