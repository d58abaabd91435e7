"""`levelgate logs`: everything that was done, line by line, and what changed by it."""

from __future__ import annotations

import asyncio

import click
import orjson

from gitops.cli.events import reference, subject
from gitops.cli.options import ClusterChoice, cluster_options, whole
from gitops.cli.terminal import echo, unreached
from gitops.explain.journal import WATCHED, JournalLine, about, everything
from gitops.explain.waiting import until
from gitops.records.cause_rows import timestamp
from gitops.records.references import Ref, existing, locate
from gitops.text import one_line, visible_json


@click.command()
@click.argument("ref", nargs=-1)
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now on, until Ctrl-C.")
@click.option("--tail", metavar="N", type=click.IntRange(1), help="Begin with the last N lines.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of REF; without REF, of what happened.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@cluster_options
def command(
    ref: tuple[str, ...], follow: bool, tail: int | None, namespace: str | None, output: str, choice: ClusterChoice
) -> int:
    """Show every action on every object, and every transition, the oldest first; times are UTC. REF is a source or an instance.

    It reads the cluster, not the daemon: the records of the last passes, and Events. Anybody who may read these can follow it.

    \b
    levelgate logs -f
    levelgate logs -f webapp/shop -n prod
    levelgate logs source/platform --tail 20
    """
    return asyncio.run(_logs(reference(ref), follow, tail, namespace, output, choice))


async def _logs(
    ref: Ref | None, follow: bool, tail: int | None, namespace: str | None, output: str, choice: ClusterChoice
) -> int:
    told: set[JournalLine] | None = None
    async with choice.readable(namespace) as (cluster, place):
        key = await locate(cluster, ref, place) if ref else None

        async def look() -> bool:
            found = await everything(cluster, None if key else namespace)
            if ref and key and not (found := about(found, key)) and not follow:
                await existing(cluster, ref, key)
            nonlocal told
            is_first, new = told is None, [line for line in found if line not in (told or ())]
            told = set(found)
            for line in new[-tail:] if is_first and tail else new:
                click.echo(_json(line)) if output == "json" else echo(_text(line))
            if is_first and follow:
                whole(cluster)
            return not follow

        await until(cluster, WATCHED, look, seconds=None, missed=unreached())
        return whole(cluster)


def _text(line: JournalLine) -> str:
    level = "" if line.level is None else f"level {line.level}"
    word = "" if line.level is not None else f"{line.word}: "
    return f"{timestamp(line.at)}  {subject(line.about):<24} {level:<8} {word}{one_line(line.text)}"


def _json(line: JournalLine) -> str:
    """The stable contract of `logs -o json`: one object on each line (docs/reference.md)."""
    document = orjson.dumps(
        {
            "time": timestamp(line.at),
            "object": str(line.about),
            "word": line.word,
            "level": line.level,
            "warning": line.is_warning,
            "message": line.text,
        }
    )
    return visible_json(document.decode())
