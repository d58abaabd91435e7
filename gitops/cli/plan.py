"""Command `levelgate plan`: show the changes of a commit, level by level, and the obstacles to the changes.

This module contains only the command line. While this module imports the planning modules, one thread reads Git and a
second thread imports the cluster client.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applier import kube
from applier.applyset.adoption import Adoption
from applier.state.field_conflicts import ConflictPolicy
from gitops.cli import EXIT_CHANGES, describe_exit_codes, disable_garbage_collection
from gitops.cli.options import (
    ClusterChoice,
    adopt_option,
    cluster_options,
    config_option,
    conflicts_option,
    parse_ref,
    refuse_with_config,
    utc_option,
)
from gitops.cli.terminal import echo
from gitops.source import locations, stop_tick_on_exit
from gitops.text import TimeFormat

if TYPE_CHECKING:
    from gitops.config import Config


_LOCAL_ONLY = "Note: this plan is only for the hub's own cluster, `local`; to plan for all clusters, add --cluster all."
"""Note on a plan for the hub's own cluster, if the configuration has a fleet."""


@click.command(epilog=describe_exit_codes("0 planned", "1 problems or an error", "2 changes, with --exit-code"))
@click.argument("place", metavar="PATH|URL")
@click.argument("refs", metavar="[REF]...", nargs=-1)
@click.option(
    "--base",
    metavar="REV",
    default="",
    help="Compare with the merge base of the head and this commit (branch, tag or id).",
)
@click.option("--head", metavar="REV", default="", help="Commit to plan.  [default: the working tree]")
@click.option("--revision", metavar="REV", default="", help="Commit to plan, without --base.")
@click.option(
    "--against",
    metavar="cluster|git|FILE",
    default="",
    help="State to compare the head with.  [default: the cluster, or the commit of --base]",
)
@click.option(
    "--source",
    metavar="NAME",
    default="",
    help="Name of this repository's source in the cluster.  [default: the source with the same URL and path]",
)
@click.option(
    "--cluster",
    "wanted",
    metavar="all|NAME",
    default="",
    help="Plan for a member, or for all members, of the fleet in --config, each with its placed objects.",
)
@adopt_option
@conflicts_option
@config_option("Plan for `run` with this configuration, which then sets the values of --adopt and --conflicts.")
@click.option("-n", "--namespace", metavar="NS", default="", help="Namespace of the REFs.")
@click.option("--exit-code", is_flag=True, help="If the plan has changes, exit 2.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "markdown", "junit", "sarif"]),
    default="text",
    show_default=True,
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour of the marks. With auto, only on a terminal and without NO_COLOR.",
)
@utc_option
@cluster_options
def command(  # noqa: PLR0913 - one parameter for each option
    place: str,
    refs: tuple[str, ...],
    base: str,
    head: str,
    revision: str,
    against: str,
    source: str,
    wanted: str,
    adopt: Adoption,
    conflicts: ConflictPolicy,
    file: Path | None,
    namespace: str,
    exit_code: bool,
    output: str,
    color: str,
    utc: bool,
    choice: ClusterChoice,
) -> int:
    """Show the objects that a repository would create, update, replace and delete, and what holds the changes.

    Use this command before you merge or push. By default, the command compares the repository with the cluster. With
    --base, it compares with another commit and needs no cluster. The output masks values of Secrets. REFs restrict the
    plan to some objects, and show these objects in full.

    Marks: + create, ~ update, -/+ replace, < adopt, - delete, = not in Git but remains, ? not known yet,
    ! not possible.

    \b
    levelgate plan . --source platform
    levelgate plan . --base main --exit-code
    levelgate plan . --base main --head topic -o markdown
    levelgate plan . --base main --against cluster webapp/cart -n prod
    levelgate plan . --source platform --against prod-eu.json -o sarif
    levelgate plan . --config levelgate.yaml --cluster all
    """
    if file:
        refuse_with_config(adopt="--adopt", conflicts="--conflicts")
    against = _choose_target(base=base, head=head, revision=revision, against=against)
    parsed_refs = [parse_ref([word]) for word in refs]
    config = _read_configuration(file) if file else None
    if wanted:
        _check_fleet_usage(config, against, output)
    with disable_garbage_collection(), ThreadPoolExecutor(max_workers=2) as executor, stop_tick_on_exit() as tick:
        commits = executor.submit(locations.read_comparison, place, base, head or revision, tick)
        if against == "cluster":
            executor.submit(kube.preload)
        from gitops.cli.plan_inputs import PlanInputs
        from gitops.cli.plan_output import PlanView, show_report

        inputs = PlanInputs(place, base, head or revision, against, source, adopt, conflicts, config)
        typed_refs = tuple(zip(refs, parsed_refs, strict=True))
        view = PlanView(typed_refs, namespace, output, TimeFormat(utc), color_setting(color))
        if wanted:
            from gitops.cli.plan_fleet import show_fleet

            code = show_fleet(*asyncio.run(inputs.make_fleet_report(choice, commits, wanted)), view)
        else:
            report, title = asyncio.run(inputs.make_report(choice, commits))
            if config and config.fleet and against == "cluster":
                echo(_LOCAL_ONLY, err=True)
            code = show_report(report, title, view, path=commits.result().path)
    return 0 if code == EXIT_CHANGES and not exit_code else code


def _choose_target(*, base: str, head: str, revision: str, against: str) -> str:
    """Return the state to compare the head with: `cluster`, `git` or a file. Raises: UsageError."""
    if revision and (base or head):
        raise click.UsageError("--revision is for a plan without --base; name the commits with --base and --head")
    if against == "git" and not base:
        raise click.UsageError("--against git requires --base; name the commit to compare with, --base REV")
    return against or ("git" if base else "cluster")


def _check_fleet_usage(config: Config | None, against: str, output: str) -> None:
    """Check that `config`, `against` and `output` fit a plan of a fleet's clusters. Raises: UsageError."""
    if config is None or config.fleet is None:
        raise click.UsageError(
            "--cluster chooses clusters of a fleet, and needs `fleet` in the configuration; "
            "name the hub's configuration with --config FILE"
        )
    if against != "cluster":
        raise click.UsageError(
            "--cluster asks the clusters themselves; leave out --cluster to compare commits or to plan against a file, "
            "or add --against cluster"
        )
    if output in {"junit", "sarif"}:
        raise click.UsageError(f"-o {output} is for one plan; with --cluster, use text, json or markdown")


def color_setting(color: str) -> bool | None:
    """Return click's setting for a value of `--color`. With None, the terminal decides."""
    default_setting = False if os.environ.get("NO_COLOR") else None
    return {"always": True, "never": False}.get(color, default_setting)


def _read_configuration(file: Path) -> Config:
    from gitops.config import read_config

    return read_config(file)
