"""Command `levelgate snapshot`: a masked snapshot of a cluster, for plans without credentials."""

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
    "-o", "--output", "file", metavar="FILE", type=click.Path(path_type=Path), help="Write it here, not to stdout."
)
@member_options
def command(file: Path | None, choice: ClusterChoice) -> int:
    """Write a snapshot of a cluster for plans: the objects that Levelgate manages, and the served kinds.

    Use it to plan in CI without credentials. Values of Secrets are masked.

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
        raise SnapshotError(f"{file}: {error.strerror}; name a file that can be written") from None
    echo(
        f"Wrote {format_count(len(snapshot.objects), 'object')} of cluster {snapshot.cluster} to {file}, "
        f"{len(data)} bytes",
        err=True,
    )
    return 0


async def _take_snapshot(choice: ClusterChoice) -> ClusterSnapshot:
    async with choice.connect() as cluster:
        return await take_snapshot(cluster, SystemClock().now(), await cluster.version())
