"""Command `levelgate logs`: show every action on every object, and every transition, line by line."""

from __future__ import annotations

import asyncio

import click
import orjson

from gitops.cli.events import format_subject, parse_reference
from gitops.cli.options import READ_EXIT_CODES, ClusterChoice, member_options, report_unreadable
from gitops.cli.terminal import echo, unreachable_reporter
from gitops.explain.journal import WATCH_TARGETS, JournalLine, lines_about, read_journal
from gitops.explain.wait import wait_until
from gitops.records.references import Ref, find_key, get_object
from gitops.text import escape_terminal_json, one_line
from gitops.timestamps import timestamp


@click.command(epilog=READ_EXIT_CODES)
@click.argument("ref", nargs=-1)
@click.option("-f", "--follow", is_flag=True, help="Print new lines until you press Ctrl-C.")
@click.option("--tail", metavar="N", type=click.IntRange(1), help="Begin with the last N lines.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of REF. Without REF, show only its lines.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@member_options
def command(
    ref: tuple[str, ...], follow: bool, tail: int | None, namespace: str | None, output: str, choice: ClusterChoice
) -> int:
    """Show every action on every object, and every transition, oldest first. Times are in UTC.

    REF is a source or an instance.

    Use this command to follow a rollout, or to see the order of past actions. The command does not ask the daemon. The
    command reads records of the last reconciliations and Events in the cluster, and needs only permission to read them.

    \b
    levelgate logs -f
    levelgate logs -f webapp/shop -n prod
    levelgate logs source/platform --tail 20
    """
    return asyncio.run(_logs(parse_reference(ref), follow, tail, namespace, output, choice))


async def _logs(
    ref: Ref | None, follow: bool, tail: int | None, namespace: str | None, output: str, choice: ClusterChoice
) -> int:
    known_lines: set[JournalLine] | None = None
    async with choice.connect_readable(namespace) as (cluster, place):
        key = await find_key(cluster, ref, place) if ref else None

        async def print_new_lines() -> bool:
            """Print the lines that are new since the last call, and return whether the command is done."""
            journal_lines = await read_journal(cluster, None if key else namespace)
            if ref and key and not (journal_lines := lines_about(journal_lines, key)) and not follow:
                await get_object(cluster, ref, key)
            nonlocal known_lines
            is_first_read = known_lines is None
            new_lines = [line for line in journal_lines if line not in (known_lines or ())]
            known_lines = set(journal_lines)
            for line in new_lines[-tail:] if is_first_read and tail else new_lines:
                click.echo(_json(line)) if output == "json" else echo(_text(line))
            if is_first_read and follow:
                report_unreadable(cluster)
            return not follow

        await wait_until(
            cluster, WATCH_TARGETS, print_new_lines, timeout_seconds=None, on_unavailable=unreachable_reporter()
        )
        return report_unreadable(cluster)


def _text(line: JournalLine) -> str:
    level = "" if line.level is None else f"level {line.level}"
    reason = "" if line.level is not None else f"{line.reason}: "
    return f"{timestamp(line.at)}  {format_subject(line.subject):<24} {level:<8} {reason}{one_line(line.text)}"


def _json(line: JournalLine) -> str:
    """Return `line` in the stable format of `logs -o json`: one object on each line (docs/reference.md)."""
    document = orjson.dumps(
        {
            "time": timestamp(line.at),
            "object": str(line.subject),
            "word": line.reason,
            "level": line.level,
            "warning": line.is_warning,
            "message": line.text,
        }
    )
    return escape_terminal_json(document.decode())
