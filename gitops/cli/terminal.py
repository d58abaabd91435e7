"""What commands print for people, in which others may have had a word: Git, the cluster, whoever annotates an object there."""

from __future__ import annotations

import click

from gitops.words.text import visible


def echo(text: str = "", *, err: bool = False) -> None:
    """A line, or several, to stdout or stderr."""
    click.echo(visible(text), err=err)
