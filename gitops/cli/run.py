"""Command `levelgate run`: follow sources, and reconcile a cluster or a fleet with the sources."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path

import click

from applier.applyset.adoption import Adoption
from applier.plan.set_causes import set_causes
from applier.state.field_conflicts import ConflictPolicy
from gitops import source_config
from gitops.cli import EXIT_WAITING, describe_exit_codes, disable_garbage_collection
from gitops.cli.options import (
    ClusterChoice,
    Duration,
    adopt_option,
    cluster_options,
    clusters_option,
    config_option,
    conflicts_option,
    refuse_with_config,
    refuse_without,
)
from gitops.cli.progress import ProgressPrinter
from gitops.cli.run_process import Process
from gitops.clock import SystemClock
from gitops.config import Config, read_config
from gitops.config.fields import DEFAULT_ADDRESS, parse_address
from gitops.config.schema import LOG_FORMATS
from gitops.errors import SourceError
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.tally import StateCounts
from gitops.records.display_state import DisplayState
from gitops.windows.window import LOCAL


@click.command(
    epilog=describe_exit_codes(
        "with --once: 0 everything matches Git or is held",
        "1 errors",
        "3 something still waits",
        "130 stopped",
    )
)
@click.option(
    "--source",
    "sources",
    metavar="[NAME=]URL",
    multiple=True,
    help="Git repository to follow. Repeatable.",
)
@config_option(
    "Follow the sources of this configuration file, which replaces --source, --ref, --path, --adopt, --conflicts and "
    "--interval.  [env: LEVELGATE_CONFIG]",
    envvar="LEVELGATE_CONFIG",
)
@click.option(
    "--ref",
    metavar="REF",
    default="",
    help="Branch, full name of a ref, or commit to follow.  [default: the default branch]",
)
@click.option("--path", metavar="DIR", default="", help="Read only this directory of the repository.")
@adopt_option
@conflicts_option
@click.option("--once", is_flag=True, help="Reconcile until nothing changes, report, and exit.")
@click.option(
    "--wait",
    type=Duration(),
    default="30s",
    show_default=True,
    help="With --once: maximum time to wait for instances in flight.",
)
@click.option("--require-plan", "agreed", metavar="HASH", default="", help="With --once: carry out only this plan.")
@click.option("--fail-on-held", is_flag=True, help="With --once: exit 3 also if only a person must act.")
@click.option(
    "--interval",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Time between checks of the sources for new commits.",
)
@click.option(
    "--resync",
    type=Duration(),
    envvar="LEVELGATE_RESYNC",
    help="Time between full reconciliations. Changes in the cluster cause partial reconciliations in between.  "
    "[default: 10m, or resync of the configuration]",
)
@click.option(
    "--apply-concurrency",
    type=click.IntRange(1, 256),
    envvar="LEVELGATE_APPLY_CONCURRENCY",
    help="Maximum of concurrent requests to the cluster.  [default: 16, or applyConcurrency of the configuration]",
)
@click.option(
    "--max-concurrent-reconciles",
    type=click.IntRange(1, 64),
    envvar="LEVELGATE_MAX_CONCURRENT_RECONCILES",
    help="Maximum of concurrent partial reconciliations, without --once.  "
    "[default: 1, or maxConcurrentReconciles of the configuration]",
)
@click.option(
    "--listen",
    metavar="ADDR:PORT|off",
    envvar="LEVELGATE_LISTEN",
    help="Address of the status page, health, metrics and webhooks, without --once.  "
    f"[default: {DEFAULT_ADDRESS}, or listen of the configuration]  [env: LEVELGATE_LISTEN]",
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    envvar="LEVELGATE_LOG_FORMAT",
    help="Format of the output.  [default: text, or logFormat of the configuration]",
)
@click.option("-v", "--verbose", is_flag=True, help="Also print writes of records.")
@cluster_options
@clusters_option
def command(  # noqa: PLR0913 - one parameter for each option
    sources: tuple[str, ...],
    file: Path | None,
    ref: str,
    path: str,
    adopt: Adoption,
    conflicts: ConflictPolicy,
    once: bool,
    wait: timedelta,
    agreed: str,
    fail_on_held: bool,
    interval: timedelta,
    resync: timedelta | None,
    apply_concurrency: int | None,
    max_concurrent_reconciles: int | None,
    listen: str | None,
    log_format: str | None,
    verbose: bool,
    choice: ClusterChoice,
    clusters: int,
) -> int:
    """Reconcile a cluster with Git: apply level by level, prune in reverse, heal drift.

    Use this command as a daemon, or in CI with --once. The command reads only commits, never a working tree. Without
    --once, the command serves a status page at http://127.0.0.1:8480/. You can stop the daemon at any time. The next
    start continues.

    \b
    levelgate run --source platform=https://git.example.com/platform.git --path clusters/prod
    levelgate run --source . --once --context dev
    levelgate run --source . --once --require-plan 39bb5a3bd54b86e7
    levelgate run --source . --sandbox
    levelgate run --source . --sandbox --clusters 3
    levelgate run --config /etc/levelgate/levelgate.yaml
    """
    if file is None:
        if not sources:
            raise click.UsageError("no source is given; add --source URL or --config FILE")
        source_configs = [
            source_config.parse_source(text, ref=ref, path=path, interval=interval, adoption=adopt, conflicts=conflicts)
            for text in sources
        ]
        config = Config(tuple(source_configs), LOCAL)
    else:
        refuse_with_config(
            sources="--source",
            ref="--ref",
            path="--path",
            adopt="--adopt",
            conflicts="--conflicts",
            interval="--interval",
        )
        config = read_config(file)
    try:
        parse_address(listen or str(DEFAULT_ADDRESS))
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from None
    if not choice.sandbox:
        refuse_without("--sandbox", clusters="--clusters")
    if not once:
        refuse_without("--once", wait="--wait", fail_on_held="--fail-on-held")
    if agreed and not (once and len(config.sources) == 1 and config.fleet is None):
        raise click.UsageError(
            "--require-plan requires --once, a single source and one cluster; "
            "for a daemon, set `requirePlan` in its configuration"
        )
    progress = ProgressPrinter(SystemClock(), json=(log_format or config.log_format) == "json", verbose=verbose)
    process = Process(
        config=config,
        file=file,
        progress=progress,
        choice=choice.with_default_context(config.context),
        sandbox_clusters=clusters,
        concurrency=apply_concurrency or config.apply_concurrency or 16,
        max_concurrent=max_concurrent_reconciles or config.max_concurrent_reconciles or 1,
        required_plan_hash=agreed,
        resync=resync or config.resync,
        listen=listen or config.listen,
        make_exit_code=partial(report, fail_on_held=fail_on_held),
    )
    with disable_garbage_collection() if once else nullcontext():
        return asyncio.run(process.run(wait if once else None))


def report(
    progress: ProgressPrinter,
    reconcile_result: ReconcileResult,
    errors: list[SourceError],
    *,
    fail_on_held: bool,
) -> int:
    """Print the last lines of `run --once` for one cluster, and return the exit code for that cluster."""
    for set_plan in reconcile_result.plan.sets if not reconcile_result.propagation.stopped else ():
        for cause in set_causes(set_plan):
            progress.print_blocked(set_plan.rendered, cause)
        left_behind = (
            reconcile_result.left_behind.get(set_plan.rendered.source) if set_plan.rendered.is_source else None
        )
        if left_behind and left_behind.count:
            progress.print_blocked(set_plan.rendered, left_behind.cause)
    for problem in reconcile_result.problems:
        progress.print_problem(str(problem))
    for error in reconcile_result.status_errors:
        progress.print_problem(f"Levelgate cannot write a status: {error}; repeat the command")
    tally = StateCounts.of_all(reconcile_result.ledger)
    sys.stdout.flush()
    progress.print_header(str(tally))
    if errors or reconcile_result.problems or tally.by_state.get(DisplayState.FAILED) or reconcile_result.status_errors:
        return 1
    is_unfinished = any(
        summary.exists and (summary.is_on_its_way or (fail_on_held and summary.holds))
        for summary in reconcile_result.ledger.restless()
    )
    is_left_behind = any(left_behind.count for left_behind in reconcile_result.left_behind.values())
    return EXIT_WAITING if is_unfinished or (fail_on_held and is_left_behind) else 0
