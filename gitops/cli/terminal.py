"""What commands print for people, in which others may have had a word: Git, the cluster, whoever annotates an object there."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import Any

import click
import orjson

from gitops.cli import program_version
from gitops.text import escape_terminal, escape_terminal_json, one_line


def echo(text: str, *, err: bool = False) -> None:
    """A line, or several, to stdout or stderr."""
    click.echo(escape_terminal(text), err=err)


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Lines, each of which stays one whatever stands in it."""
    for line in lines:
        click.echo(one_line(line), err=err)


def format_header(cluster: str, time_text: str) -> str:
    """Return the line that stands above what is shown of a cluster."""
    return f"Cluster {cluster}, {time_text}, levelgate {program_version()}"


def on_stop_signal(callback: Callable[[], object]) -> None:
    """Call this at each SIGINT and SIGTERM from now on, in the running event loop."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, callback)


def unreachable_reporter() -> Callable[[Exception], None]:
    """Says to stderr, once for each reason in a row, that a server went away that is asked again."""
    last_message: list[str] = []

    def tell_once(error: Exception) -> None:
        if last_message != [str(error)]:
            last_message[:] = [str(error)]
            echo(f"{error}; it is tried again", err=True)

    return tell_once


def print_document(document_value: Any, output: str, *, is_sorted: bool = False) -> None:
    """For programs: the same content as `json`, or as `yaml`."""
    if output == "yaml":
        from renderer.documents.writer import dump

        echo(dump([orjson.loads(orjson.dumps(document_value))]).removesuffix("\n"))
    else:
        document = orjson.dumps(document_value, option=orjson.OPT_INDENT_2 | (orjson.OPT_SORT_KEYS if is_sorted else 0))
        click.echo(escape_terminal_json(document.decode()))
