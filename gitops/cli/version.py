"""`levelgate version`."""

from __future__ import annotations

import click

from gitops.cli import program_version


@click.command()
def command() -> None:
    """Print the version of this program."""
    click.echo(f"levelgate {program_version()}")
