"""Command `levelgate completion`: print the completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gitops.cli import describe_exit_codes


@click.command(epilog=describe_exit_codes("0 printed"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell. Use this command in the start-up file of the shell.

    \b
    bash:  eval "$(levelgate completion bash)"
    zsh:   eval "$(levelgate completion zsh)"
    fish:  levelgate completion fish | source
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(ctx.find_root().command, {}, "levelgate", "_LEVELGATE_COMPLETE").source())
