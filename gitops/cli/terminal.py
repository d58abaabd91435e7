"""Output functions for people and programs.

Texts from Git, from the cluster and from annotations can contain control characters. The functions of this module
escape them, so that a text cannot control the terminal.
"""

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
    """Print a text of one or several lines to stdout or stderr."""
    click.echo(escape_terminal(text), err=err)


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print each text of `lines` as exactly one line, even if the text contains line breaks."""
    for line in lines:
        click.echo(one_line(line), err=err)


def format_header(cluster: str, time_text: str) -> str:
    """Return the first line that a command about a cluster prints."""
    return f"Cluster {cluster}, {time_text}, levelgate {program_version()}"


def on_stop_signal(callback: Callable[[], object]) -> None:
    """Call `callback` in the running event loop at each later SIGINT and SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, callback)


def unreachable_reporter() -> Callable[[Exception], None]:
    """Return a callback that prints failures of a server to stderr. It prints equal failures in a row only once."""
    last_message: list[str] = []

    def report_once(error: Exception) -> None:
        if last_message != [str(error)]:
            last_message[:] = [str(error)]
            echo(f"{error}; the command tries again", err=True)

    return report_once


def print_document(document_value: Any, output: str, *, is_sorted: bool = False) -> None:
    """Print a document for programs, as JSON or as YAML with the same content."""
    if output == "yaml":
        from renderer.documents.writer import dump

        echo(dump([orjson.loads(orjson.dumps(document_value))]).removesuffix("\n"))
    else:
        document = orjson.dumps(document_value, option=orjson.OPT_INDENT_2 | (orjson.OPT_SORT_KEYS if is_sorted else 0))
        click.echo(escape_terminal_json(document.decode()))
