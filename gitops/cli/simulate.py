"""`levelgate simulate`: what a commit would do over days and weeks, in virtual time. Touches no cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from gitops.cli import INTERRUPTED, program_version
from gitops.cli.options import FILE
from gitops.cli.terminal import echo_lines, tell
from gitops.cli.typed import typed_time
from gitops.clock import SystemClock
from gitops.simulate.assumptions import Assumptions
from gitops.simulate.backtest import BacktestResult, compare, held
from gitops.simulate.commits import CommitSeries, HistoryReader, rules_of
from gitops.simulate.engine import Simulation
from gitops.simulate.recorder import length
from gitops.simulate.svg import picture
from gitops.simulate.timeline import Timeline, TimelineEvent
from gitops.simulate.timeline_json import as_json, compared_as_json
from gitops.text import aligned
from gitops.times import TimeFormat
from renderer.phrasing import counted, listed

LONGEST = timedelta(days=14)


class AssumptionsOption(click.ParamType[str]):
    """`ready=2m,fail=web-7`."""

    name = "assumptions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            Assumptions.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


@click.command()
@click.argument("place", metavar="PATH", type=click.Path(exists=True))
@click.option("--base", required=True, metavar="REV", help="What runs at the beginning, healthy: branch, tag or id.")
@click.option("--head", default="", metavar="REV", help="The commit that arrives.  [default: the working tree]")
@click.option("--start", metavar="TIME", help="When it arrives, such as 2026-12-24T10:00.  [default: now]")
@click.option("--until", metavar="TIME", help="The end.  [default: 14 days after the last commit, or when all is done]")
@click.option(
    "--assume",
    type=AssumptionsOption(),
    default="ready=1m",
    show_default=True,
    metavar="WORD=VALUE,...",
    help="How workloads behave: ready=2m, ready=1m..5m; fail=NAME, hang=NAME, flap=NAME of workloads or instances, with *.",
)
@click.option(
    "--policy",
    type=FILE,
    metavar="FILE",
    help="Replay all commits from --base to --head, each at its own time, under these windows and policies instead of their own.",
)
@click.option("--source", default="", metavar="NAME", help="The name of the source.  [default: that of the directory]")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Draws times from ready=A..B.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "svg"]), default="text", show_default=True)
@click.option("--utc", is_flag=True, help="Show and read times in UTC instead of the zone of the terminal.")
def command(
    place: str,
    base: str,
    head: str,
    start: str | None,
    until: str | None,
    assume: str,
    policy: Path | None,
    source: str,
    seed: int,
    output: str,
    utc: bool,
) -> int:
    """Show what would happen when, if a commit arrived at a time: what moves, what waits for what, what halts.

    The controller itself runs, on a sandbox whose clock jumps to the next event. No cluster is asked or touched, no time passes. Equal input, --start
    and --seed included, gives equal output. Ctrl-C shows what was simulated so far.

    \b
    levelgate simulate . --base main --assume ready=2m
    levelgate simulate . --base main --head my-branch --start 2026-12-18T11:00 -o svg > freeze.svg
    levelgate simulate . --base main --assume ready=1m..10m,fail=web-7
    levelgate simulate . --base v1.0 --policy stricter.yaml
    """
    times = TimeFormat(utc)
    begins = typed_time(times, start, "--start") if start else None
    repository = HistoryReader(place, source)
    now = SystemClock().now().replace(microsecond=0)
    commits = repository.history(base, head, begins) if policy else repository.step(base, head, begins or now)
    ends = typed_time(times, until, "--until") if until else commits.pushes[-1].at + LONGEST
    if ends <= commits.pushes[0].at:
        raise click.BadParameter("is not after the first commit arrives", param_hint="--until")
    assumptions = Assumptions.parse(assume, seed=seed)
    echo_lines(map(str, commits.problems), err=True)
    found, interrupted = _simulated(commits, assumptions, ends)
    if policy and not interrupted:
        tested, interrupted = _simulated(commits.under(rules_of(policy)), assumptions, ends)
        _show_comparison(found, tested, times, output, assumptions)
    else:
        _show(found, times, output, assumptions)
    return INTERRUPTED if interrupted else 1 if commits.problems else 0


def _simulated(commits: CommitSeries, assumptions: Assumptions, ends: datetime) -> tuple[Timeline, bool]:
    """The timeline, and whether somebody broke it off."""
    simulation = Simulation(commits.pushes[0].at, assumptions, program_version())
    try:
        asyncio.run(simulation.run(commits.base, commits.pushes, ends))
    except KeyboardInterrupt:
        return simulation.timeline("interrupted"), True
    return simulation.timeline(), False


def _show(found: Timeline, times: TimeFormat, output: str, assumptions: Assumptions) -> None:
    if output == "svg":
        click.echo(picture(found))
    elif output == "json":
        _json(as_json(found, assumed=str(assumptions), seed=assumptions.seed))
    else:
        echo_lines(_text(found, times, assumptions))


def _show_comparison(
    actual: Timeline, tested: Timeline, times: TimeFormat, output: str, assumptions: Assumptions
) -> None:
    compared = compare(actual, tested)
    if output == "svg":
        click.echo(picture(tested))
    elif output == "json":
        document = as_json(tested, assumed=str(assumptions), seed=assumptions.seed)
        _json({**document, "comparison": compared_as_json(compared)})
    else:
        echo_lines(_comparison(compared, tested, times, assumptions))


def _json(document: object) -> None:
    tell(document, "json", is_sorted=True)


def _text(found: Timeline, times: TimeFormat, assumptions: Assumptions) -> Iterator[str]:
    first = found.arrivals[0] if found.arrivals else None
    what = f": {first.commit[:7]} ({first.subject}) arrives" if first else ""
    yield f"Simulation of {found.source}{what} {times.full(found.begins)}; assumed {assumptions}"
    yield "No cluster was asked and nothing was written."
    day = ""
    for moment, who, text in _lines(found.events, times):
        if (today := times.full(moment)[:14]) != day:
            day = today
            yield from ("", day)
        yield f"{times.second(moment)}  {who:<24} {text}".rstrip()
    yield "-" * 80
    counts = ", ".join(f"{number} {stage}" for stage, number in found.counts.items() if number)
    yield f"{counted(len(found.tracks), 'instance')}: {counts or 'none'}"
    yield f"Ended {times.full(found.ends)}, after {length((found.ends - found.begins).total_seconds())}: {found.ended}."
    yield from (f"Warning: {one}" for one in found.warnings)


def _lines(events: tuple[TimelineEvent, ...], times: TimeFormat) -> Iterator[tuple[datetime, str, str]]:
    """Each event; writes of one level of one instance at one moment are one line."""
    together: dict[tuple[datetime, str, object, object], list[str]] = {}
    for event in events:
        if event.kind == "write":
            key = event.at, event.who, event.fields.get("level", 0), event.fields["action"]
            together.setdefault(key, []).append(event.text)
    told = set()
    for event in events:
        text = event.text
        if event.kind == "write":
            key = event.at, event.who, event.fields.get("level", 0), event.fields["action"]
            if key in told:
                continue
            told.add(key)
            text = _joined(together[key], str(event.fields["action"]))
        if isinstance(until := event.fields.get("until"), datetime):
            text = text.replace("{until}", times.short(until, event.at))
        yield event.at, event.who, text


def _joined(texts: list[str], action: str) -> str:
    """`level 1  config, deployment updated`"""
    if len(texts) == 1:
        return texts[0]
    head = texts[0].partition("  ")[0]
    names = [text.partition("  ")[2].removesuffix(f" {action}") for text in texts]
    return f"{head}  {listed(names, most=4)} {action}"


def _comparison(
    compared: tuple[BacktestResult, ...], tested: Timeline, times: TimeFormat, assumptions: Assumptions
) -> Iterator[str]:
    yield f"{counted(len(compared), 'commit')} of {tested.source}, {times.full(tested.begins)} to {times.full(tested.ends)}; assumed {assumptions}"
    yield ""
    rows = [["COMMIT", "ARRIVED", "OWN RULES", "THIS POLICY", "DELAY", "HELD", "SUBJECT"]]
    ends = [one.tested.at for one in compared[1:]] + [tested.ends]
    for one, end in zip(compared, ends, strict=True):
        rows.append(
            [
                one.tested.commit[:7],
                times.minute(one.tested.at),
                _settled(one.actual.settled, times, overtaken=one.actual.overtaken),
                _settled(one.tested.settled, times, overtaken=one.tested.overtaken),
                "-" if one.delay is None else length(one.delay.total_seconds()),
                length(held(tested, one.tested.at, end).total_seconds()),
                one.tested.subject[:40],
            ]
        )
    yield from aligned(rows)
    delays = [one.delay for one in compared if one.delay]
    longest = length(max((timedelta(), *delays)).total_seconds())
    overtaken = sum(one.tested.overtaken and not one.actual.overtaken for one in compared)
    yield ""
    yield f"{len(delays)} of {len(compared)} would have settled at another time, at most {longest} later; {overtaken} more overtaken."
    alone = {
        "their own rules": sum(bool(one.actual.settled) and not one.tested.settled for one in compared),
        "this policy": sum(bool(one.tested.settled) and not one.actual.settled for one in compared),
    }
    yield from (f"{number} would have settled under {rules} alone." for rules, number in alone.items() if number)
    yield from (f"Warning: {one}" for one in tested.warnings)


def _settled(moment: datetime | None, times: TimeFormat, *, overtaken: bool) -> str:
    return times.minute(moment) if moment else "overtaken" if overtaken else "not in time"
