"""Command `levelgate events`: show recent transitions and failures, from Kubernetes Events."""

from __future__ import annotations

import asyncio

import click

from gitops.cli.options import (
    READ_EXIT_CODES,
    ClusterChoice,
    member_options,
    parse_ref,
    report_unreadable,
    utc_option,
)
from gitops.cli.terminal import echo, format_header, print_document
from gitops.clock import SystemClock
from gitops.explain.journal import JournalLine, lines_about, read_transitions
from gitops.records.references import SOURCE, Ref, find_key, get_object
from gitops.text import TimeFormat, align_table, title
from gitops.timestamps import timestamp
from renderer.identity import SOURCE_PREFIX, ObjectKey


@click.command(epilog=READ_EXIT_CODES)
@click.argument("ref", nargs=-1)
@click.option("-n", "--namespace", metavar="NS", help="Namespace of REF. Without REF, show only its events.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces (the default), even with -n.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@utc_option
@member_options
def command(
    ref: tuple[str, ...], namespace: str | None, all_namespaces: bool, output: str, utc: bool, choice: ClusterChoice
) -> int:
    """Show the transitions that Levelgate reports as Kubernetes Events, oldest first.

    REF is a source or an instance.

    Use this command to see recent changes and failures. By default, the server keeps Events for an hour. To see the
    current state, use levelgate status. To see every action, use levelgate logs.

    \b
    levelgate events
    levelgate events webapp/shop -n prod
    kubectl get events -A -l app.kubernetes.io/managed-by=levelgate
    """
    shown_namespace = None if all_namespaces else namespace
    return asyncio.run(_events(parse_reference(ref), shown_namespace, output, TimeFormat(utc), choice))


def parse_reference(words: tuple[str, ...]) -> Ref | None:
    """Return the source or instance that `words` name. If `words` is empty, return None. Raises: UsageError."""
    ref = parse_ref(words) if words else None
    if ref and (ref.node or ref.own_type not in {"", SOURCE}):
        raise click.UsageError(f"this command does not show {ref}; name a source or an instance")
    return ref


def format_subject(key: ObjectKey) -> str:
    """Return the name of an object as people write it: `source/platform` or `WebApp prod/shop`."""
    is_source = key.kind == "ConfigMap" and key.name.startswith(SOURCE_PREFIX)
    return f"source/{key.name.removeprefix(SOURCE_PREFIX)}" if is_source else title(key)


async def _events(ref: Ref | None, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice) -> int:
    now = SystemClock().now()
    async with choice.connect_readable(namespace) as (cluster, place):
        key = await find_key(cluster, ref, place) if ref else None
        lines = await read_transitions(cluster, key.namespace or None if key else namespace)
        if ref and key and not (lines := lines_about(lines, key)):
            await get_object(cluster, ref, key)
    if output != "table":
        print_document(list(map(_as_json, lines)), output)
        return report_unreadable(cluster)
    echo(f"{format_header(cluster.name, times.format_full(now))}\n")
    if not lines:
        echo("No events: the server keeps Events for about an hour. To see older actions, use levelgate history.")
        return report_unreadable(cluster)
    rows = [
        (
            times.format_short(line.at, now),
            "Warning" if line.is_warning else "Normal",
            line.reason,
            format_subject(line.subject),
            line.text,
        )
        for line in lines
    ]
    echo("\n".join(align_table([("TIME", "TYPE", "REASON", "OBJECT", "MESSAGE"), *rows])))
    return report_unreadable(cluster)


def _as_json(line: JournalLine) -> dict[str, str]:
    """Return `line` in the stable format of `events -o json` (docs/reference.md)."""
    return {
        "time": timestamp(line.at),
        "type": "Warning" if line.is_warning else "Normal",
        "reason": line.reason,
        "object": str(line.subject),
        "message": line.text,
    }
