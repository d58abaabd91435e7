"""Options that several commands share, and the parsing of references and times that a person types."""

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
from gitops.cli.terminal import echo
from gitops.durations import parse_duration
from gitops.text import TimeFormat
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster
    from gitops.explain.permitted_cluster import PermittedCluster
    from gitops.records.references import Ref

T = TypeVar("T")

EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
"""A file that is there."""


class ParsedValue(click.ParamType[T]):
    """A value that `parse` reads from a text. A ValueError of it is the message of a wrong usage."""

    parse: Callable[[str], T]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return cast(T, value)
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Duration(ParsedValue[timedelta]):
    """`30s`, `5m`, `1h30m`."""

    name, parse = "duration", staticmethod(parse_duration)


class AdoptionRule(ParsedValue[Adoption]):
    """`IfEqual`, `IfUnowned:flux,helm`."""

    name, parse = "adoption", Adoption.parse


adopt_option = click.option(
    "--adopt",
    metavar="POLICY[:TOOL,...]",
    type=AdoptionRule(),
    default="Never",
    show_default=True,
    help="Adopt objects that exist: Never, IfEqual (nothing would change) or IfUnowned; of these TOOLs as well: flux, argocd, helm, kro.",
)

conflicts_option = click.option(
    "--conflicts",
    metavar="POLICY",
    type=click.Choice([*ConflictPolicy], case_sensitive=False),
    default=DEFAULT_CONFLICT_POLICY,
    show_default=True,
    callback=lambda _context, _parameter, chosen: ConflictPolicy(chosen),
    help="Fields that another manager changed: Heal (what was updated is restored), Report (none is) or Force (all are).",
)

revision_option = click.option(
    "--revision", metavar="REV", default="", help="Read this commit (branch, tag or id) instead of the working tree."
)


def config_option(help_text: str, *, envvar: str | None = None) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return the option for a configuration file, which the command gets as `file`."""
    return click.option(
        "-c", "--config", "file", metavar="FILE", type=click.Path(path_type=Path), envvar=envvar, help=help_text
    )


clusters_option = click.option(
    "--clusters",
    type=click.IntRange(0, 100),
    default=0,
    metavar="N",
    help="Serve N further clusters beside the sandbox: c0, c1, ...; the sandbox itself is `hub` then. One kubeconfig has a context for each.",
)
"""How many clusters a sandbox has beside its own."""

cluster_name_option = config_option(
    "Judge windows for the cluster that `cluster.name` of this configuration names.  [default: local]"
)

utc_option = click.option("--utc", is_flag=True, help="Show times in UTC instead of the zone of the terminal.")

schemas_option = click.option(
    "--schemas",
    metavar="DIR|URL",
    multiple=True,
    help="Check types against the CustomResourceDefinitions, and definitions, in this folder too. May be repeated.",
)


def read_cluster_name(file: Path | None) -> str:
    """Return the name by which windows select the cluster: that of this configuration, else `local`. Raises ConfigErrors."""
    from gitops.config import read_config
    from gitops.windows.window import LOCAL

    return read_config(file).cluster if file else LOCAL


def flags_on_command_line(**flags: str) -> list[str]:
    """Those of these flags, by parameter, that stand on the command line."""
    context = click.get_current_context()
    return [flag for name, flag in flags.items() if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def refuse_without(required_flag: str, **flags: str) -> None:
    """Flags, by parameter, that mean nothing without another one."""
    for flag in flags_on_command_line(**flags):
        raise click.UsageError(f"{flag} requires {required_flag}")


def refuse_with_config(**flags: str) -> None:
    """Flags, by parameter, that say something of sources: beside a configuration nobody could tell of which."""
    if conflicting_flags := flags_on_command_line(**flags):
        raise click.UsageError(
            f"{', '.join(conflicting_flags)} cannot be combined with --config (or $LEVELGATE_CONFIG): set it for a source in the file"
        )


CONFIG_VARIABLE: Final = "LEVELGATE_CONFIG"
"""The variable that names a configuration where no option does."""

CONNECT_TIMEOUT_SECONDS: Final = 2.0
"""Seconds for which a command tries to reach a server: a person reads the error sooner than that it would come up."""


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Which cluster a person named; nothing named: as kubectl chooses it, and never the sandbox.

    `member` is a cluster of the fleet whose hub that cluster is; None: the cluster itself. `config` says where its credentials may be.
    """

    kubeconfig: str | None = None
    context: str | None = None
    sandbox: bool = False
    member: str | None = None
    config: Path | None = None

    def with_default_context(self, context: str) -> ClusterChoice:
        """This context of the kubeconfig, where a person named neither one nor the sandbox."""
        return self if self.sandbox or self.context else replace(self, context=context or None)

    def format_command(self, command: str) -> str:
        """A command of ours as a person can repeat it, who may have chosen the cluster by options; anything else as it is."""
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
        """The chosen cluster, for as long as the block runs. Raises ConfigurationError, UnknownCluster."""
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
        """The cluster that the kubeconfig leads to, whichever of its fleet is chosen. Raises ConfigurationError."""
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
            advice = "check that it is up; choose another with --context or --kubeconfig"
            raise (
                error
                if error.status
                else error.with_rewritten_text(lambda said: f"{said} (cluster {cluster.name}: {advice})")
            ) from None
        finally:
            await cluster.close()

    @asynccontextmanager
    async def connect_readable(self, namespace: str | None) -> AsyncIterator[tuple[PermittedCluster, str]]:
        """The chosen cluster as far as one may read it, and the namespace that is meant: this one, else the kubeconfig's. A reference that finds
        nothing says what could not be read. Raises ConfigurationError.
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
    """The exit code of what was shown: 1 once it is said what could not be read, else 0."""
    if cluster.denial_note:
        echo(f"\n{cluster.denial_note}", err=True)
    return int(bool(cluster.denial_note))


def cluster_options(command: Callable[..., int]) -> Callable[..., int]:
    """Options that choose a cluster; the command gets them as one parameter, `choice`."""

    @wraps(command)
    def chosen(*, kubeconfig: str | None, context: str | None, sandbox: bool, **others: Any) -> int:
        if sandbox and (kubeconfig or context):
            raise click.UsageError("--sandbox is a cluster of its own; leave out --kubeconfig and --context")
        return command(choice=ClusterChoice(kubeconfig, context, sandbox), **others)

    for option in (
        click.option("--sandbox", is_flag=True, help="The sandbox on this machine instead of a cluster."),
        click.option("--context", metavar="NAME", help="The kubeconfig's context to use."),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help="The kubeconfig file; else $KUBECONFIG, ~/.kube/config, or the pod's service account.",
        ),
    ):
        chosen = option(chosen)
    return chosen


def member_options(command: Callable[..., int]) -> Callable[..., int]:
    """As `cluster_options`, and `--cluster`, which chooses a cluster of the fleet whose hub the chosen one is."""

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
        help="The cluster of this name in the fleet whose hub the chosen cluster is; `local` is the hub itself.",
    )(cluster_options(chosen))


def parse_ref(words: Sequence[str]) -> Ref:
    """REF as it was typed. Raises UsageError with what would be right."""
    from gitops.records.references import Ref, RefError  # commands without REF pay nothing for the records

    try:
        return Ref.parse(words)
    except RefError as error:
        raise click.UsageError(str(error)) from None


def typed_time(times: TimeFormat, text: str, option: str) -> datetime:
    """Return the moment that was given for this option. Raises BadParameter."""
    try:
        return times.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
