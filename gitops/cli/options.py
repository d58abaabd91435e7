"""Options that several commands share, and parsers of references and times that a person types."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from applier.applyset.adoption import Adoption
from applier.errors import Unavailable
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY, ConflictPolicy
from gitops.cli import describe_exit_codes
from gitops.cli.terminal import echo
from gitops.durations import parse_duration
from gitops.text import TimeFormat
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster
    from gitops.explain.permitted_cluster import PermittedCluster
    from gitops.records.references import Ref

T = TypeVar("T")

READ_EXIT_CODES: Final = describe_exit_codes("0 shown", "1 something is unreadable")
"""Last paragraph of the help of a command that only reads the records of a cluster."""

EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
"""Type of an option whose value is a file that exists."""


class ParsedValue(click.ParamType[T]):
    """Type of an option whose text `parse` converts. The text of a ValueError becomes the message to the person."""

    parse: Callable[[str], T]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return cast(T, value)
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Duration(ParsedValue[timedelta]):
    """Type of an option such as `30s`, `5m` or `1h30m`."""

    name, parse = "duration", staticmethod(parse_duration)


class AdoptionRule(ParsedValue[Adoption]):
    """Type of an option such as `IfEqual` or `IfUnowned:flux,helm`."""

    name, parse = "adoption", Adoption.parse


adopt_option = click.option(
    "--adopt",
    metavar="POLICY[:TOOL,...]",
    type=AdoptionRule(),
    default="Never",
    show_default=True,
    help="Adopt existing objects: Never, IfEqual (if nothing would change) or IfUnowned. With TOOLs, also adopt "
    "objects of flux, argocd, helm or kro.",
)

conflicts_option = click.option(
    "--conflicts",
    metavar="POLICY",
    type=click.Choice([*ConflictPolicy], case_sensitive=False),
    default=DEFAULT_CONFLICT_POLICY,
    show_default=True,
    callback=lambda _context, _parameter, chosen: ConflictPolicy(chosen),
    help="Changes of other managers to undo: Heal (updates, but not applies), Report (none), Force (all).",
)

revision_option = click.option(
    "--revision", metavar="REV", default="", help="Read this commit (branch, tag or id) instead of the working tree."
)


def config_option(help_text: str, *, envvar: str | None = None) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return the option for a configuration file. The command receives the file as `file`."""
    return click.option(
        "-c", "--config", "file", metavar="FILE", type=click.Path(path_type=Path), envvar=envvar, help=help_text
    )


clusters_option = click.option(
    "--clusters",
    type=click.IntRange(0, 100),
    default=0,
    metavar="N",
    help="Serve N further clusters: c0, c1, ... The sandbox itself is then `hub`. "
    "The kubeconfig has a context for each cluster.",
)
"""Option for the number of clusters that a sandbox has besides its own."""

cluster_name_option = config_option("Evaluate windows for `cluster.name` of this configuration.  [default: local]")

utc_option = click.option("--utc", is_flag=True, help="Show times in UTC instead of the zone of the terminal.")

schemas_option = click.option(
    "--schemas",
    metavar="DIR|URL",
    multiple=True,
    help="Also check types against the CustomResourceDefinitions and definitions in this folder. Repeatable.",
)


def read_cluster_name(file: Path | None) -> str:
    """Return the name by which windows select the cluster: the name in `file`, or `local` if `file` is None.

    Raises: ConfigErrors.
    """
    from gitops.config import read_config
    from gitops.windows.window import LOCAL

    return read_config(file).cluster if file else LOCAL


def flags_on_command_line(**flags: str) -> list[str]:
    """Return the flags of `flags` that are on the command line.

    Args:
        flags: flags by parameter name.
    """
    context = click.get_current_context()
    return [flag for name, flag in flags.items() if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def refuse_without(required_flag: str, **flags: str) -> None:
    """Check that none of `flags` is on the command line, because `required_flag` is missing.

    Args:
        flags: flags by parameter name.

    Raises: UsageError.
    """
    for flag in flags_on_command_line(**flags):
        raise click.UsageError(f"{flag} requires {required_flag}; add {required_flag}")


def refuse_with_config(**flags: str) -> None:
    """Check that none of `flags`, which describe a source, is on the command line.

    A configuration has several sources, so a flag would not tell which source it describes.

    Args:
        flags: flags by parameter name.

    Raises: UsageError.
    """
    if conflicting_flags := flags_on_command_line(**flags):
        raise click.UsageError(
            f"{', '.join(conflicting_flags)} cannot be combined with --config (or $LEVELGATE_CONFIG); "
            f"set the value for a source in the file"
        )


CONFIG_VARIABLE: Final = "LEVELGATE_CONFIG"
"""Environment variable with the path of a configuration. If no option names a path, commands read the variable."""

CONNECT_TIMEOUT_SECONDS: Final = 2.0
"""Seconds for which a command tries to reach a server. A person prefers an early error to a long wait."""


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Cluster that a person chose. Without a choice, kubectl's rules apply, and the command ignores the sandbox."""

    kubeconfig: str | None = None
    context: str | None = None
    sandbox: bool = False
    member: str | None = None
    """Name of a cluster in the fleet of the chosen hub, or None for the chosen cluster itself."""
    config: Path | None = None
    """Configuration file that names the places of the member's credentials."""

    def with_default_context(self, context: str) -> ClusterChoice:
        """Return the choice with `context` of the kubeconfig, unless a person chose a context or the sandbox."""
        return self if self.sandbox or self.context else replace(self, context=context or None)

    def format_command(self, command: str) -> str:
        """Return a `levelgate` command with the options of this choice, so that a person can run it.

        Return any other command unchanged.
        """
        options = {
            "--kubeconfig": None if self.sandbox else self.kubeconfig,
            "--context": None if self.sandbox else self.context,
            "--cluster": self.member,
        }
        cluster_flags = [
            *(["--sandbox"] if self.sandbox else []),
            *(f"{name} {quote(value)}" for name, value in options.items() if value),
        ]
        return " ".join([command, *cluster_flags]) if command.startswith("levelgate ") else command

    @asynccontextmanager
    async def connect(
        self, *, concurrency: int = 16, timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
    ) -> AsyncIterator[KubeCluster]:
        """Connect to the chosen cluster for the duration of the block. Raises: ConfigurationError, UnknownCluster."""
        async with self.connect_hub(concurrency=concurrency, timeout_seconds=timeout_seconds) as hub:
            if self.member is None:
                yield hub
                return
            from gitops.cli.fleet_cluster import connect_member

            async with connect_member(
                hub, self.member, self.config, concurrency=concurrency, timeout_seconds=timeout_seconds
            ) as cluster:
                yield cluster

    @asynccontextmanager
    async def connect_hub(
        self, *, concurrency: int = 16, timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
    ) -> AsyncIterator[KubeCluster]:
        """Connect to the cluster of the kubeconfig, even if the person chose a member of its fleet.

        Raises: ConfigurationError.
        """
        from applier.kube import connect

        kubeconfig = self.kubeconfig
        if self.sandbox:
            from gitops.sandbox import require_kubeconfig

            kubeconfig = str(await require_kubeconfig())
        cluster = await connect(
            kubeconfig=kubeconfig, context=self.context, concurrency=concurrency, unreachable_seconds=timeout_seconds
        )
        try:
            yield cluster
        except Unavailable as error:
            advice = "check that the cluster is up, or choose another with --context or --kubeconfig"
            raise (
                error
                if error.status
                else error.with_rewritten_text(lambda said: f"{said} (cluster {cluster.name}: {advice})")
            ) from None
        finally:
            await cluster.close()

    @asynccontextmanager
    async def connect_readable(self, namespace: str | None) -> AsyncIterator[tuple[PermittedCluster, str]]:
        """Connect to the parts of the chosen cluster that the person may read.

        Yield the cluster and `namespace`. If `namespace` is None, yield the namespace of the kubeconfig instead. If the
        block raises a RefError, add a note on unreadable objects to the error.

        Raises: ConfigurationError, UnknownCluster.
        """
        from gitops.explain.permitted_cluster import PermittedCluster
        from gitops.records.references import RefError

        async with self.connect() as cluster:
            permitted_cluster = PermittedCluster(cluster, namespace=namespace or "")
            try:
                yield permitted_cluster, namespace or cluster.namespace
            except RefError as error:
                raise RefError(permitted_cluster.append_denials(error)) from None


def report_unreadable(cluster: PermittedCluster) -> int:
    """Print a note on unreadable objects, and return exit code 1. If everything is readable, return 0."""
    if cluster.denial_note:
        echo(f"\n{cluster.denial_note}", err=True)
    return int(bool(cluster.denial_note))


def cluster_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that choose a cluster. The command receives them as one parameter, `choice`."""

    @wraps(command)
    def chosen(*, kubeconfig: str | None, context: str | None, sandbox: bool, **others: Any) -> int:
        if sandbox and (kubeconfig or context):
            raise click.UsageError("--sandbox already chooses the cluster; leave out --kubeconfig and --context")
        return command(choice=ClusterChoice(kubeconfig, context, sandbox), **others)

    for option in (
        click.option("--sandbox", is_flag=True, help="Use the sandbox on this machine instead of a cluster."),
        click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help="Kubeconfig file.  [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]",
        ),
    ):
        chosen = option(chosen)
    return chosen


def member_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of `cluster_options`, and `--cluster` for a member of the chosen hub's fleet."""

    @wraps(command)
    def chosen(*, choice: ClusterChoice, cluster_name: str | None, **others: Any) -> int:
        config = others.get("file") or (Path(named) if (named := os.environ.get(CONFIG_VARIABLE)) else None)
        if cluster_name:
            choice = replace(choice, member=cluster_name, config=config)
        return command(choice=choice, **others)

    return click.option(
        "--cluster",
        "cluster_name",
        metavar="NAME",
        help="Member of the chosen hub's fleet. `local` is the hub itself.",
    )(cluster_options(chosen))


def parse_ref(words: Sequence[str]) -> Ref:
    """Return the REF in `words`. Raises: UsageError, with a description of a valid REF."""
    from gitops.records.references import Ref, RefError  # Imported here: commands without REF need no records.

    try:
        return Ref.parse(words)
    except RefError as error:
        raise click.UsageError(str(error)) from None


def typed_time(times: TimeFormat, text: str, option: str) -> datetime:
    """Return `text`, the value of `option`, as a time. Raises: BadParameter."""
    try:
        return times.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
