"""`levelgate wait`: for scripts, until what is in Git is applied, or has settled."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

import click

from applier.cluster import WatchTarget
from applier.kube.cluster import KubeCluster
from gitops.cli import NOT_YET
from gitops.cli.options import ClusterChoice, Duration, cluster_options
from gitops.cli.terminal import echo, unreached
from gitops.cli.typed import typed
from gitops.clock import SystemClock
from gitops.explain.overview import Overview
from gitops.explain.permitted_cluster import PermittedCluster
from gitops.explain.wait import WaitGoal, WaitResult, WaitTarget
from gitops.explain.waiting import until
from gitops.records.installation import INSTALLATION, followed, untaken
from gitops.records.instance_state import InstanceState
from gitops.records.references import ROLLOUT, SOURCE, Ref, RefError, locate
from gitops.records.source_record import SourceRecord, read_records
from gitops.text import local, title
from renderer.definition.variables import suggestion
from renderer.identity import OWN_NAMESPACE, GroupKind, source_parent

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@click.command()
@click.argument("ref", nargs=-1)
@click.option(
    "--for",
    "goal",
    type=click.Choice([str(goal) for goal in WaitGoal]),
    default="settled",
    show_default=True,
    help="applied: written as Git says; settled: healthy besides, with nothing left to do.",
)
@click.option("--revision", metavar="SHA", default="", help="At this commit, by at least 7 characters of its id.")
@click.option("--timeout", type=Duration(), default="10m", show_default=True, help="Give up after so long.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the instance.  [default: the context's]")
@cluster_options
def command(
    ref: tuple[str, ...], goal: str, revision: str, timeout: timedelta, namespace: str | None, choice: ClusterChoice
) -> int:
    """Wait until REF (a source, a rollout or an instance; else all sources) is applied, or has settled. How far it is goes to stderr.

    Exit code 0 once it is there, 3 if it is not within --timeout. Without --revision it is enough that what the daemon has read of Git is there;
    name the commit where you have just pushed one.

    \b
    levelgate wait source/platform --revision $(git rev-parse HEAD)
    levelgate wait webapp/shop -n prod --for applied --timeout 5m
    levelgate wait
    """
    wanted = typed(ref) if ref else None
    if wanted and (wanted.node or wanted.own not in {"", SOURCE, ROLLOUT}):
        raise click.UsageError(f"one waits for a source, a rollout or an instance, not for {wanted}")
    if revision and not _COMMIT.fullmatch(revision.lower()):
        raise click.UsageError(f"--revision {revision!r} is no commit; write 7 characters of its id or more")
    if revision and wanted and wanted.own == ROLLOUT:
        raise click.UsageError("a rollout may be at several commits; wait for a source or an instance with --revision")
    return asyncio.run(_wait(wanted, WaitTarget(WaitGoal(goal), revision.lower()), timeout, namespace, choice))


async def _wait(
    ref: Ref | None, awaited: WaitTarget, patience: timedelta, namespace: str | None, choice: ClusterChoice
) -> int:
    async with choice.connected() as cluster:
        subjects, look = await _what(cluster, ref, awaited, namespace or cluster.namespace)
        echo(f"Cluster {cluster.name}, {local(SystemClock().now())}", err=True)
        told: list[str] = []

        async def is_there() -> bool:
            found = await look()
            for one in found:
                if one.told not in told:
                    echo(one.told, err=True)
            told[:] = [one.told for one in found]
            return all(one.is_there for one in found)

        if await until(cluster, subjects, is_there, seconds=patience.total_seconds(), missed=unreached()):
            return 0
        echo(f"Not {awaited.goal} within {patience.total_seconds():g}s.", err=True)
        return NOT_YET


_Look = Callable[[], Awaitable[list[WaitResult]]]


async def _what(
    cluster: KubeCluster, ref: Ref | None, awaited: WaitTarget, namespace: str
) -> tuple[list[WatchTarget], _Look]:
    """What to watch, and how to look."""
    records = WatchTarget(GroupKind("", "ConfigMap"), OWN_NAMESPACE)

    async def sources() -> list[WaitResult]:
        told, installed = await read_records(cluster), await cluster.get(INSTALLATION)
        found = dict([*told, *await untaken(cluster, installed, told)])
        wanted = {*dict(told), *(followed(installed) or ())}
        if ref and ref.name not in wanted | found.keys():
            return [WaitResult(False, f"no daemon follows {ref} yet{suggestion(ref.name, wanted)}")]
        names = [ref.name] if ref else sorted(wanted)
        return [awaited.of_source(name, found.get(name)) for name in names] or [
            WaitResult(False, "no source is known yet")
        ]

    if ref is None or ref.own == SOURCE:
        return [records], sources
    if ref.own == ROLLOUT:
        return [records], lambda: _rollout(cluster, ref.name, awaited)
    key = await locate(cluster, ref, namespace)

    async def instance() -> list[WaitResult]:
        found = await cluster.get(key)
        source = InstanceState.of(found).source if found else ""
        record = await cluster.get(source_parent(source)) if source and awaited.revision else None
        return [awaited.of_instance(title(key), found, SourceRecord.read(record) if record else None)]

    return [WatchTarget(key.group_kind, key.namespace, name=key.name), records], instance


async def _rollout(cluster: KubeCluster, name: str, awaited: WaitTarget) -> list[WaitResult]:
    permitted = PermittedCluster(cluster)
    found = (await Overview.read(permitted, now=SystemClock().now())).of_rollout(name)
    if not found.rollouts:
        raise RefError(permitted.after(f"nothing is known of rollout/{name}; `levelgate status` lists what there is"))
    if len(found.instances) < sum(wave.total for wave in found.rollouts[0].waves) and permitted.refused:
        raise RefError(f"how far rollout/{name} is cannot be told. {permitted.told}")
    return [awaited.of_rollout(name, found.instances)]
