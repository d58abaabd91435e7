"""`levelgate uninstall`: leave a cluster, with or without what was deployed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta

import click

from applier.cluster import Object
from applier.errors import ClusterError
from gitops.cli import NOT_YET, program_version
from gitops.cli.options import ClusterChoice, Duration, cluster_options
from gitops.cli.terminal import echo
from gitops.clock import SystemClock
from gitops.leadership import Leadership, own_identity, while_held
from gitops.maintenance.uninstall import Uninstaller, UninstallPlan
from gitops.reconcile.context import ReconcileResult
from gitops.records.source_record import SourceRecord, read_records
from gitops.text import aligned, local, title
from renderer.identity import ObjectKey


@click.command()
@click.option(
    "--with-workloads", is_flag=True, help="Delete what the sources deployed as well, in reverse order of dependency."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--wait",
    type=Duration(),
    default="5m",
    show_default=True,
    help="With --with-workloads: wait so long for what is being deleted.",
)
@cluster_options
def command(with_workloads: bool, yes: bool, wait: timedelta, choice: ClusterChoice) -> int:
    """Take everything of Levelgate's own off a cluster: labels, annotations, finalizers, status, records. What is deployed stays as it is, and
    belongs to nobody: instances, their CRDs and everything else. First it shows what it would do, and asks.

    It does nothing while a `levelgate run` works there: stop that before. If it is interrupted, call it again.

    \b
    levelgate uninstall --context dev
    levelgate uninstall --context dev --with-workloads --yes
    """
    return asyncio.run(_uninstall(choice, wait if with_workloads else None, sure=yes))


async def _uninstall(choice: ClusterChoice, wait: timedelta | None, *, sure: bool) -> int:
    """`wait` is given where workloads go as well."""
    clock = SystemClock()
    async with choice.connected() as cluster:
        leaver = Uninstaller(cluster)
        todo = await leaver.survey()
        records, company = dict(await read_records(cluster)), await leaver.other_writers(todo)
        echo(f"Cluster {cluster.name}, {local(clock.now())}, levelgate {program_version()}\n")
        echo("\n".join(_plan(todo, company, records if wait is not None else None)))
        if todo.is_empty:
            return 0
        if not (sure or _agreed()):
            return 1
        lead = Leadership(cluster, own_identity(), clock)
        await lead.acquire(lambda _: None, patient=False)
        if wait is not None:
            removing = leaver.remove(records, clock, version=program_version(), wait=wait)
            found = await while_held(lead.hold(), removing)
            if left := list(_left(found)):
                echo("\n".join(["still there; call it again when they are gone:", *left]), err=True)
                return NOT_YET
        # The Lease is among the records: who deletes these can hold it no longer.
        await while_held(lead.hold(), leaver.release(todo if wait is None else await leaver.survey()))
        return _conclude(*await leaver.leave())


def _plan(todo: UninstallPlan, company: str, records: dict[str, SourceRecord] | None) -> Iterable[str]:
    """What would be done. `company` is in our own namespace beside us, `records` are given where workloads go as well."""
    if todo.is_empty:
        yield "Nothing of Levelgate's own is there."
    if records:
        yield f"delete what {', '.join(records)} deployed, in reverse order of dependency; Namespaces and CRDs stay"
    rows = [["release", kind, str(count), _shown(todo.release, kind)] for kind, count in _counted(todo.release)]
    rows += [["delete", kind, str(count), _shown(todo.records, kind)] for kind, count in _counted(todo.records)]
    if todo.namespace:
        name = todo.namespace["metadata"]["name"]
        rows += [
            ["release", "Namespace", "1", f"{name}: {company} is in it"]
            if company
            else ["delete", "Namespace", "1", name]
        ]
    if rows:
        yield from aligned([["DO", "KIND", "OBJECTS", "SUCH AS"], *rows])
        yield ""
        yield "Released objects keep their content; labels, annotations, finalizers and status of Levelgate's go."
    for kind, why in todo.unseen.items():
        yield f"not looked through: {kind}: {why}"


def _counted(objects: Sequence[Object]) -> list[tuple[str, int]]:
    return sorted(Counter(str(ObjectKey.of(obj).group_kind) for obj in objects).items())


def _shown(objects: Sequence[Object], kind: str) -> str:
    return title(next(key for obj in objects if str((key := ObjectKey.of(obj)).group_kind) == kind)).partition(" ")[2]


def _agreed() -> bool:
    if sys.stdin.isatty():
        return click.confirm("Go on?")
    echo("Error: nothing was done; it takes --yes where nobody can be asked", err=True)
    return False


def _left(found: ReconcileResult) -> Iterable[str]:
    """Members that are to go and have not gone yet. What a person protects stays, and is released."""
    for one in found.plan.sets:
        for orphan in one.orphans:
            if orphan.is_leaving:
                yield f"  {title(orphan.member.key)}: {orphan.blocked.message if orphan.blocked else 'to be deleted'}"


def _conclude(left: UninstallPlan, errors: Sequence[ClusterError]) -> int:
    if errors:
        for error in errors:
            echo(f"Error: {error}", err=True)
        echo("records were kept; call it again when that is put right", err=True)
        return 1
    if not left.is_empty:
        echo("Error: somebody goes on writing; stop every `levelgate run`, then call it again", err=True)
        return 1
    if left.unseen:
        echo(f"Error: not looked through, and so perhaps not released: {', '.join(left.unseen)}", err=True)
        return 1
    echo("Nothing of Levelgate's own is left.")
    return 0
