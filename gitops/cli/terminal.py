"""What commands print for people, in which others may have had a word: Git, the cluster, whoever annotates an object there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
import orjson

from gitops.text import one_line, visible, visible_json


def echo(text: str = "", *, err: bool = False) -> None:
    """A line, or several, to stdout or stderr."""
    click.echo(visible(text), err=err)


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Lines, each of which stays one whatever stands in it."""
    for line in lines:
        click.echo(one_line(line), err=err)


def unreached() -> Callable[[Exception], None]:
    """Says to stderr, once for each reason in a row, that a server went away that is asked again."""
    told: list[str] = []

    def tell_once(error: Exception) -> None:
        if told != [str(error)]:
            told[:] = [str(error)]
            echo(f"{error}; it is tried again", err=True)

    return tell_once


def tell(told: Any, output: str, *, is_sorted: bool = False) -> None:
    """For programs: the same content as `json`, or as `yaml`."""
    if output == "yaml":
        from renderer.documents.writer import dump

        told = orjson.loads(orjson.dumps(told))
        echo(dump([told]).removesuffix("\n"))
    else:
        document = orjson.dumps(told, option=orjson.OPT_INDENT_2 | (orjson.OPT_SORT_KEYS if is_sorted else 0))
        click.echo(visible_json(document.decode()))
