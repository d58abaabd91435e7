"""Command `levelgate wait`: wait in a script until the commit in Git is applied or settled."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

import click

from applier.cluster import WatchTarget
from applier.kube.cluster import KubeCluster
from gitops.cli import EXIT_WAITING, describe_exit_codes
from gitops.cli.options import ClusterChoice, Duration, member_options, parse_ref
from gitops.cli.terminal import echo, unreachable_reporter
from gitops.clock import SystemClock
from gitops.durations import format_duration
from gitops.explain.overview import Overview
from gitops.explain.permitted_cluster import PermittedCluster
from gitops.explain.wait import WaitGoal, WaitResult, WaitTarget, wait_until
from gitops.records.installation import INSTALLATION, configured_sources, find_sources_without_commit
from gitops.records.instance_state import InstanceState
from gitops.records.references import ROLLOUT, SOURCE, Ref, RefError, find_key
from gitops.records.source_record import SourceRecord, read_records
from gitops.text import format_local_time, title
from renderer.identity import OWN_NAMESPACE, GroupKind, source_parent
from renderer.phrasing import suggestion_or_names

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@click.command(epilog=describe_exit_codes("0 reached", "1 an error", "3 not reached within --timeout"))
@click.argument("ref", nargs=-1)
@click.option(
    "--for",
    "goal",
    type=click.Choice([str(goal) for goal in WaitGoal]),
    default="settled",
    show_default=True,
    help="applied: live objects match Git. settled: they are also healthy and baked.",
)
@click.option("--revision", metavar="SHA", default="", help="Commit to wait for: at least 7 characters of its id.")
@click.option("--timeout", type=Duration(), default="10m", show_default=True, help="Time limit.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the instance.  [default: the context's]")
@member_options
def command(
    ref: tuple[str, ...], goal: str, revision: str, timeout: timedelta, namespace: str | None, choice: ClusterChoice
) -> int:
    """Wait until REF (a source, a rollout or an instance) is applied or settled. Without REF, wait for every source.

    Use this command in scripts, after a push. The command prints progress to stderr. Without --revision, the command
    waits for the commit that the daemon read last. After a push, name the new commit with --revision.

    \b
    levelgate wait source/platform --revision $(git rev-parse HEAD)
    levelgate wait webapp/shop -n prod --for applied --timeout 5m
    levelgate wait
    """
    parsed_ref = parse_ref(ref) if ref else None
    if parsed_ref and (parsed_ref.node or parsed_ref.own_type not in {"", SOURCE, ROLLOUT}):
        raise click.UsageError(f"wait does not support {parsed_ref}; name a source, a rollout or an instance")
    if revision and not _COMMIT.fullmatch(revision.lower()):
        raise click.UsageError(f"--revision {revision!r} is not a commit; write at least 7 characters of its id")
    if revision and parsed_ref and parsed_ref.own_type == ROLLOUT:
        raise click.UsageError("a rollout may be at several commits; with --revision, name a source or an instance")
    return asyncio.run(_wait(parsed_ref, WaitTarget(WaitGoal(goal), revision.lower()), timeout, namespace, choice))


async def _wait(
    ref: Ref | None, wait_target: WaitTarget, time_limit: timedelta, namespace: str | None, choice: ClusterChoice
) -> int:
    async with choice.connect() as cluster:
        subjects, read_results = await _targets_and_reader(cluster, ref, wait_target, namespace or cluster.namespace)
        echo(f"Cluster {cluster.name}, {format_local_time(SystemClock().now())}", err=True)
        printed_messages: list[str] = []

        async def is_reached() -> bool:
            results = await read_results()
            for result in results:
                if result.message not in printed_messages:
                    echo(result.message, err=True)
            printed_messages[:] = [result.message for result in results]
            return all(result.is_reached for result in results)

        if await wait_until(
            cluster,
            subjects,
            is_reached,
            timeout_seconds=time_limit.total_seconds(),
            on_unavailable=unreachable_reporter(),
        ):
            return 0
        echo(f"Not {wait_target.goal} within {format_duration(time_limit)}.", err=True)
        return EXIT_WAITING


_ResultReader = Callable[[], Awaitable[list[WaitResult]]]
"""Function that reads the current results, one for each subject."""


async def _targets_and_reader(
    cluster: KubeCluster, ref: Ref | None, wait_target: WaitTarget, namespace: str
) -> tuple[list[WatchTarget], _ResultReader]:
    """Return the objects to watch, and the function that reads the results. Raises: RefError, ClusterError."""
    records = WatchTarget(GroupKind("", "ConfigMap"), OWN_NAMESPACE)

    async def sources() -> list[WaitResult]:
        known_records, installed = await read_records(cluster), await cluster.get(INSTALLATION)
        all_records = dict([*known_records, *await find_sources_without_commit(cluster, installed, known_records)])
        source_set = {*dict(known_records), *(configured_sources(installed) or ())}
        if ref and ref.name not in source_set | all_records.keys():
            return [WaitResult(False, f"no daemon follows {ref} yet{suggestion_or_names(ref.name, source_set)}")]
        names = [ref.name] if ref else sorted(source_set)
        return [wait_target.check_source(name, all_records.get(name)) for name in names] or [
            WaitResult(False, f"cluster {cluster.name} has no source yet; run levelgate run --source NAME=URL")
        ]

    if ref is None or ref.own_type == SOURCE:
        return [records], sources
    if ref.own_type == ROLLOUT:
        return [records], lambda: _rollout_results(cluster, ref.name, wait_target)
    key = await find_key(cluster, ref, namespace)

    async def instance() -> list[WaitResult]:
        live_instance = await cluster.get(key)
        source = InstanceState.from_object(live_instance).source if live_instance else ""
        record = await cluster.get(source_parent(source)) if source and wait_target.commit else None
        return [
            wait_target.check_instance(title(key), live_instance, SourceRecord.from_object(record) if record else None)
        ]

    return [WatchTarget(key.group_kind, key.namespace, name=key.name), records], instance


async def _rollout_results(cluster: KubeCluster, name: str, wait_target: WaitTarget) -> list[WaitResult]:
    permitted = PermittedCluster(cluster)
    rollout_overview = (await Overview.from_cluster(permitted, now=SystemClock().now())).for_rollout(name)
    if not rollout_overview.rollouts:
        raise RefError(
            permitted.append_denials(f"rollout/{name} has no record; to list valid names, run `levelgate status`")
        )
    if (
        len(rollout_overview.instances) < sum(wave.total for wave in rollout_overview.rollouts[0].waves)
        and permitted.denied
    ):
        raise RefError(f"the progress of rollout/{name} is not readable. {permitted.denial_note}")
    return [wait_target.check_rollout(name, rollout_overview.instances)]
