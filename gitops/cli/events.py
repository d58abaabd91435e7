"""`levelgate events`: what has changed lately, and what went wrong."""

from __future__ import annotations

import asyncio

import click

from gitops.cli import program_version
from gitops.cli.options import ClusterChoice, cluster_options, utc_option, whole
from gitops.cli.terminal import echo, tell
from gitops.cli.typed import typed
from gitops.clock import SystemClock
from gitops.explain.journal import JournalLine, about, transitions
from gitops.records.cause_rows import timestamp
from gitops.records.references import SOURCE, Ref, existing, locate
from gitops.text import aligned, title
from gitops.times import TimeFormat
from renderer.identity import SOURCE_PREFIX, ObjectKey


@click.command()
@click.argument("ref", nargs=-1)
@click.option("-n", "--namespace", metavar="NS", help="Namespace of REF; without REF, show its events only.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces, the default.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@utc_option
@cluster_options
def command(
    ref: tuple[str, ...], namespace: str | None, all_namespaces: bool, output: str, utc: bool, choice: ClusterChoice
) -> int:
    """Show the transitions that Levelgate told of as Kubernetes Events, the oldest first. REF is a source or an instance.

    The server keeps Events for an hour unless it is told otherwise. What is now says levelgate status; every single action, levelgate logs.

    \b
    levelgate events
    levelgate events webapp/shop -n prod
    kubectl get events -A -l app.kubernetes.io/managed-by=levelgate
    """
    wanted = reference(ref)
    return asyncio.run(_events(wanted, None if all_namespaces else namespace, output, TimeFormat(utc), choice))


def reference(words: tuple[str, ...]) -> Ref | None:
    """A source or an instance, as it was typed. Raises UsageError."""
    found = typed(words) if words else None
    if found and (found.node or found.own not in {"", SOURCE}):
        raise click.UsageError(f"name a source or an instance, not {found}")
    return found


def subject(key: ObjectKey) -> str:
    """`source/platform`, `WebApp prod/shop`"""
    is_source = key.kind == "ConfigMap" and key.name.startswith(SOURCE_PREFIX)
    return f"source/{key.name.removeprefix(SOURCE_PREFIX)}" if is_source else title(key)


async def _events(ref: Ref | None, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice) -> int:
    now = SystemClock().now()
    async with choice.readable(namespace) as (cluster, place):
        key = await locate(cluster, ref, place) if ref else None
        lines = await transitions(cluster, key.namespace or None if key else namespace)
        if ref and key and not (lines := about(lines, key)):
            await existing(cluster, ref, key)
    if output != "table":
        tell(list(map(_as_json, lines)), output)
        return whole(cluster)
    echo(f"Cluster {cluster.name}, {times.full(now)}, levelgate {program_version()}\n")
    if not lines:
        echo("No events. The server keeps them for an hour only; levelgate history shows what commits did.")
        return whole(cluster)
    rows = [
        (
            times.short(line.at, now),
            "Warning" if line.is_warning else "Normal",
            line.word,
            subject(line.about),
            line.text,
        )
        for line in lines
    ]
    echo("\n".join(aligned([("TIME", "TYPE", "REASON", "OBJECT", "MESSAGE"), *rows])))
    return whole(cluster)


def _as_json(line: JournalLine) -> dict[str, str]:
    """The stable contract of `events -o json` (docs/reference.md)."""
    return {
        "time": timestamp(line.at),
        "type": "Warning" if line.is_warning else "Normal",
        "reason": line.word,
        "object": str(line.about),
        "message": line.text,
    }
