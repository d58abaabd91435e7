"""The command `levelgate`.

Each subcommand has its own module, which Python imports only when the subcommand runs. So `--help` starts at once.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from gitops import __version__

EXIT_CHANGES, EXIT_WAITING, EXIT_USAGE, EXIT_INTERRUPTED = 2, 3, 64, 130
"""Exit codes of the process, besides 0 (done) and 1 (an error)."""

_UNWRITABLE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Error numbers of a write to a full or broken disk. A closed pipe is not among them, because its reader is done."""

GC_THRESHOLD = 300_000
"""Number of allocations between two runs of the garbage collector for cycles.

A reconciliation keeps all objects that it reads, and trees of JSON have no cycles. With Python's default, the search
for cycles takes a fifth of the time of a reconciliation.
"""

_COMMANDS = {
    "init": "A small platform to start from.",
    "render": "Manifests by level, without a cluster.",
    "lint": "Every problem of a repository, by file and line.",
    "plan": "Changes that a commit would make in the cluster.",
    "simulate": "Effects of a commit over days and weeks, in virtual time.",
    "snapshot": "A masked snapshot of a cluster, for plans without credentials.",
    "review": "A comment with the plan on each open pull request.",
    "generate": "CRDs, example instances, diagrams, JSON Schemas.",
    "windows": "Windows of a cluster or a repository, with their openings.",
    "run": "Reconcile sources with a cluster.",
    "status": "State of sources and rollouts, and differences from Git.",
    "tree": "An instance or a source with everything below it.",
    "events": "Recent transitions and failures.",
    "logs": "Every action, line by line; -f follows new lines.",
    "history": "Actions, causes and requests of people, by commit.",
    "reconcile": "Reconcile a source now; opens no gate.",
    "wait": "Wait until the commit in Git is applied or settled.",
    "hold": "Keep an instance at its revision.",
    "release": "End the hold of an instance.",
    "suspend": "Stop all writes to one object or to the whole cluster.",
    "resume": "End a suspension or a halt.",
    "halt": "Stop a rollout.",
    "approve": "Approve the next step of a rollout, or deletions of a source.",
    "break-glass": "Bypass maintenance windows for a short time.",
    "pin": "Keep a source at one commit.",
    "unpin": "Let a pinned source follow its ref again.",
    "cluster": "The clusters of a fleet: list, accept, release, forget.",
    "check": "Check a cluster before the first run or an upgrade.",
    "uninstall": "Remove Levelgate from a cluster; deployed objects remain.",
    "explain": "Reasons why an object differs from Git, and possible actions.",
    "debug": "Decisions of a running daemon that have read an object, and why.",
    "sandbox": "A Kubernetes API for trials, without a cluster.",
    "version": "The version of this program.",
    "completion": "Completion for a shell.",
}


class _LazyGroup(click.Group):
    """Group that lists its commands from the table `_COMMANDS`.

    When a command runs or prints its help, the group imports the module of the command.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"gitops.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from renderer.phrasing import suggestion_or_names

            raise click.UsageError(f"no command {args[0]!r}{suggestion_or_names(args[0], _COMMANDS)}", ctx) from None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def group() -> None:
    """Deploy kro ResourceGraphDefinitions from Git to a cluster, level by level, through gates.

    \b
    Try it on a repository, without a cluster:   levelgate render sample-repo
    See what a commit would change:              levelgate plan . --source NAME
    Apply Git to a cluster:                      levelgate run --source NAME=URL

    Exit codes of every command: 0 done, 1 an error, 64 wrong usage, 130 interrupted. The help of a command names
    its other codes.
    """


def describe_exit_codes(*meanings: str) -> str:
    """Return the last paragraph of a help text: `meanings`, such as `0 written`, and the exit code of wrong usage."""
    return f"Exit codes: {', '.join((*meanings, f'{EXIT_USAGE} wrong usage'))}."


def program_version() -> str:
    """Return the version of Levelgate."""
    return __version__


@contextmanager
def disable_garbage_collection() -> Iterator[None]:
    """Stop the search for cycles during the block. Use the block in commands that end soon.

    A reconciliation of 10,000 objects leaves no cycles.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def main() -> None:
    """Run the command and exit: 0 done, 1 error, 2 changes, 3 waiting, 64 wrong usage, 130 interrupted."""
    gc.set_threshold(GC_THRESHOLD)
    code = invoke()
    gc.freeze()  # else the interpreter collects garbage once more at its end
    sys.exit(code)


def invoke(args: list[str] | None = None) -> int:
    """Run the command and return its exit code. The process does not exit."""
    try:
        code: Any = group.main(args, prog_name="levelgate", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE if isinstance(error, click.UsageError) else 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.errno not in _UNWRITABLE_ERRNOS:
            raise
        click.echo(f"Error: the output cannot be written: {error.strerror}; check the disk", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter flushes stdout again, and fails again
        return 1
    except Exception as error:
        # Python 3.11 wraps an interrupt that arrives while Python creates a class.
        if isinstance(error.__cause__, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            return EXIT_INTERRUPTED
        if not _is_levelgate_error(error):
            raise
        from gitops.cli.terminal import echo

        echo(f"Error: {error}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _is_levelgate_error(error: Exception) -> bool:
    """Return whether `error` has a text for people. Any other error is a bug, for which Python prints a traceback."""
    from applier.errors import ApplierError
    from gitops.errors import GitopsError
    from renderer.errors import RendererError

    return isinstance(error, ApplierError | GitopsError | RendererError)
