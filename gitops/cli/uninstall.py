"""Command `levelgate uninstall`: remove Levelgate from a cluster, with or without the deployed objects."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta

import click

from applier.cluster import Object
from applier.errors import ClusterError
from gitops.cli import EXIT_WAITING, describe_exit_codes, program_version
from gitops.cli.options import ClusterChoice, Duration, member_options
from gitops.cli.terminal import echo, format_header
from gitops.clock import SystemClock
from gitops.leadership import LEASE_TIMES, own_identity, run_while_held
from gitops.lease_thread import LeaseThread, ThreadLeadership
from gitops.loop_watch import LoopWatch
from gitops.maintenance.uninstall import Uninstaller, UninstallPlan
from gitops.reconcile.context import ReconcileResult
from gitops.records.source_record import SourceRecord, read_records
from gitops.text import align_table, format_local_time, title
from renderer.identity import ObjectKey


@click.command(
    epilog=describe_exit_codes(
        "0 nothing is left", "1 not confirmed, rejected, or something is left", "3 deletions take longer than --wait"
    )
)
@click.option("--with-workloads", is_flag=True, help="Also delete the objects of the sources, dependents first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--wait",
    type=Duration(),
    default="5m",
    show_default=True,
    help="With --with-workloads: maximum time to wait for deletions.",
)
@member_options
def command(with_workloads: bool, yes: bool, wait: timedelta, choice: ClusterChoice) -> int:
    """Remove everything that Levelgate added to a cluster: labels, annotations, finalizers, status, records.

    Use this command to leave a cluster. Deployed objects remain without an owner: instances, their CRDs and all other
    objects. The command shows its steps and asks for confirmation. While a levelgate run works on the cluster, the
    command fails, so stop that process first. After an interruption, run the command again.

    \b
    levelgate uninstall --context dev
    levelgate uninstall --context dev --with-workloads --yes
    """
    return asyncio.run(_uninstall(choice, wait if with_workloads else None, is_confirmed=yes))


async def _uninstall(choice: ClusterChoice, wait: timedelta | None, *, is_confirmed: bool) -> int:
    """Remove Levelgate and return the exit code.

    With `wait`, delete the deployed objects first, and wait for at most `wait` until the objects are gone.
    """
    clock = SystemClock()
    async with choice.connect() as cluster:
        uninstaller = Uninstaller(cluster)
        uninstall_plan = await uninstaller.survey()
        records, other_writers = dict(await read_records(cluster)), await uninstaller.other_writers(uninstall_plan)
        echo(f"{format_header(cluster.name, format_local_time(clock.now()))}\n")
        echo("\n".join(_plan_lines(uninstall_plan, other_writers, records if wait is not None else None)))
        if uninstall_plan.is_empty:
            return 0
        if not (is_confirmed or _confirm()):
            return 1
        async with (
            LoopWatch(lambda *_: None) as loop_watch,
            LeaseThread(loop_watch.is_turning) as lease_thread,
            ThreadLeadership(lease_thread, choice.connect, own_identity(), clock, LEASE_TIMES) as leadership,
        ):
            await leadership.acquire(lambda _: None, patient=False)
            if wait is not None:
                removal = uninstaller.prune_sources(records, clock, version=program_version(), wait=wait)
                if remaining := list(_remaining_members(await run_while_held(leadership.hold(), removal))):
                    echo("\n".join(["still being deleted; run this command again later:", *remaining]), err=True)
                    return EXIT_WAITING
            # `uninstall` deletes the Lease with the other records, so only earlier steps can hold the Lease.
            await run_while_held(
                leadership.hold(), uninstaller.release(uninstall_plan if wait is None else await uninstaller.survey())
            )
        return _report_remaining(*await uninstaller.uninstall())


def _plan_lines(
    uninstall_plan: UninstallPlan, other_writers: str, records: dict[str, SourceRecord] | None
) -> Iterable[str]:
    """Yield a line for each step of the plan.

    Args:
        other_writers: names of foreign objects in Levelgate's namespace.
        records: records of the sources whose objects the command deletes, or None if workloads remain.
    """
    if uninstall_plan.is_empty:
        yield "Levelgate has added nothing to this cluster."
    if records:
        yield f"delete the objects of {', '.join(records)}, dependents first; Namespaces and CRDs remain"
    rows = [
        [action, kind, str(count), _example_of_kind(objects, kind)]
        for action, objects in (("release", uninstall_plan.release), ("delete", uninstall_plan.records))
        for kind, count in _count_by_kind(objects)
    ]
    if uninstall_plan.namespace:
        name = uninstall_plan.namespace["metadata"]["name"]
        rows += [
            ["release", "Namespace", "1", f"{name}: contains {other_writers}"]
            if other_writers
            else ["delete", "Namespace", "1", name]
        ]
    if rows:
        yield from align_table([["DO", "KIND", "OBJECTS", "EXAMPLES"], *rows])
        yield ""
        yield "Released objects keep their content, but lose Levelgate's labels, annotations, finalizers and status."
    for kind, why in uninstall_plan.unreadable_kinds.items():
        yield f"not searched: {kind}: {why}"


def _count_by_kind(objects: Sequence[Object]) -> list[tuple[str, int]]:
    return sorted(Counter(str(ObjectKey.from_manifest(obj).group_kind) for obj in objects).items())


def _example_of_kind(objects: Sequence[Object], kind: str) -> str:
    return title(
        next(key for obj in objects if str((key := ObjectKey.from_manifest(obj)).group_kind) == kind)
    ).partition(" ")[2]


def _confirm() -> bool:
    if sys.stdin.isatty():
        return click.confirm("Continue?")
    echo("Error: stdin is not a terminal, so the command changed nothing; confirm with --yes", err=True)
    return False


def _remaining_members(reconcile_result: ReconcileResult) -> Iterable[str]:
    """Yield the members whose deletion is unfinished. The removal releases members that a person protects."""
    for set_plan in reconcile_result.plan.sets:
        for prune_candidate in set_plan.prune_candidates:
            if prune_candidate.is_being_deleted:
                state = prune_candidate.blocked.message if prune_candidate.blocked else "to be deleted"
                yield f"  {title(prune_candidate.member.key)}: {state}"


def _report_remaining(remaining: UninstallPlan, errors: Sequence[ClusterError]) -> int:
    if errors:
        for error in errors:
            echo(f"Error: {error}", err=True)
        echo("the records remain; correct the errors, then run this command again", err=True)
        return 1
    if not remaining.is_empty:
        echo("Error: another process still writes; stop every `levelgate run`, then run this command again", err=True)
        return 1
    if remaining.unreadable_kinds:
        echo(
            f"Error: cannot search {', '.join(remaining.unreadable_kinds)}; "
            "grant permission to list these kinds, then run this command again",
            err=True,
        )
        return 1
    echo("Levelgate is removed from the cluster.")
    return 0
