"""Command `levelgate snapshot`: write a masked snapshot of a cluster, for plans without credentials."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gitops.cli import describe_exit_codes
from gitops.cli.options import ClusterChoice, member_options
from gitops.cli.terminal import echo
from gitops.clock import SystemClock
from gitops.plan.snapshot import ClusterSnapshot, SnapshotError, serialize, take_snapshot
from renderer.phrasing import format_count


@click.command(epilog=describe_exit_codes("0 written", "1 an error"))
@click.option(
    "-o", "--output", "file", metavar="FILE", type=click.Path(path_type=Path), help="Output file, instead of stdout."
)
@member_options
def command(file: Path | None, choice: ClusterChoice) -> int:
    """Write a snapshot of a cluster for plans: the objects that Levelgate manages, and the served kinds.

    Use this command to plan in CI without credentials. The snapshot masks values of Secrets.

    \b
    levelgate snapshot --context prod-eu -o prod-eu.json
    levelgate plan . --source platform --against prod-eu.json
    """
    snapshot = asyncio.run(_take_snapshot(choice))
    data = serialize(snapshot)
    if file is None:
        click.echo(data, nl=False)
        return 0
    try:
        file.write_bytes(data)
    except OSError as error:
        raise SnapshotError(f"cannot write {file}: {error.strerror}; name a writable file") from None
    echo(
        f"Wrote {format_count(len(snapshot.objects), 'object')} of cluster {snapshot.cluster} to {file}, "
        f"{len(data)} bytes",
        err=True,
    )
    return 0


async def _take_snapshot(choice: ClusterChoice) -> ClusterSnapshot:
    async with choice.connect() as cluster:
        return await take_snapshot(cluster, SystemClock().now(), await cluster.version())
