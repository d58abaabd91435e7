"""Command `levelgate version`: print the version of this program."""

from __future__ import annotations

import click

from gitops.cli import describe_exit_codes, program_version


@click.command(epilog=describe_exit_codes("0 printed"))
def command() -> None:
    """Print the version of this program. Use this command for a bug report.

    \b
    levelgate version
    """
    click.echo(f"levelgate {program_version()}")
