"""Command `levelgate cluster`: list the clusters of a fleet, and carry out a person's decision about a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import click

from applier.cluster import LOCAL_CLUSTER, ClusterName
from applier.errors import ConfigurationError
from applier.kube.cluster import KubeCluster
from gitops.cli import describe_exit_codes
from gitops.cli.fleet_cluster import connect_member
from gitops.cli.fleet_status import cluster_as_json
from gitops.cli.options import (
    CONFIG_VARIABLE,
    CONNECT_TIMEOUT_SECONDS,
    READ_EXIT_CODES,
    ClusterChoice,
    cluster_options,
    config_option,
    report_unreadable,
    utc_option,
)
from gitops.cli.person_requests import find_person, reason_option
from gitops.cli.terminal import echo, print_document
from gitops.errors import GitopsError
from gitops.explain.fleet_overview import FleetOverview
from gitops.fleet.cluster_record import NEW_RECORD, change_cluster_record, read_cluster_record
from gitops.fleet.identity import HubItself, accept_cluster, read_cluster_uid, release_cluster
from gitops.fleet.reach import ReachState
from gitops.text import TimeFormat, align_table, one_line

_config_option = config_option(
    "Configuration whose fleet.directory or fleet.plugins gives the credentials. Not needed for a Secret of the hub.",
    envvar=CONFIG_VARIABLE,
)
_name_argument = click.argument("name")
_EXIT_CODES = describe_exit_codes("0 done, or nothing to do", "1 rejected, or the hub or the cluster does not answer")


class ClusterRefused(GitopsError):
    """Error of a command that would act on the wrong cluster, or too early. The text contains advice for the person."""


@click.group(name="cluster", epilog=_EXIT_CODES)
def command() -> None:
    """List the clusters of a fleet, or decide about a cluster: accept, release, forget.

    Use this command for a cluster that is rebuilt, changes its hub, or never comes back. --context and --kubeconfig
    choose the hub. To work in a cluster of the hub's fleet, give other commands --cluster NAME.

    \b
    levelgate cluster list --context hub
    """


@command.command(name="list", epilog=READ_EXIT_CODES)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "name"]), default="table")
@utc_option
@cluster_options
def list_command(output: str, utc: bool, choice: ClusterChoice) -> int:
    """List the clusters of the fleet, each with its state, the start of the state, and the reason.

    Use this command to see which cluster needs attention. The UID of the namespace kube-system identifies a cluster.

    \b
    levelgate cluster list
    levelgate cluster list --context hub -o json
    """
    return asyncio.run(_list(output, TimeFormat(utc), choice))


async def _list(output: str, times: TimeFormat, choice: ClusterChoice) -> int:
    async with choice.connect_readable(None) as (hub, _):
        overview = await FleetOverview.from_hub(hub)
    if output in {"json", "yaml"}:
        print_document({"clusters": [cluster_as_json(overview, name) for name in overview.names]}, output)
    elif output == "name":
        echo("\n".join(f"cluster/{name}" for name in overview.names))
    elif overview.names:
        echo("\n".join(format_clusters(overview, times)))
    elif not hub.denied:
        echo(f"Cluster {hub.name} is not a hub, or has not run as a hub yet; start the hub (docs/fleet.md).")
    return report_unreadable(hub)


def format_clusters(overview: FleetOverview, times: TimeFormat) -> Iterator[str]:
    """Return the lines of the table of clusters, with the header first."""
    rows = [("CLUSTER", "STATE", "SINCE", "UID", "MESSAGE")]
    for name in overview.names:
        record = overview.records.get(name, NEW_RECORD)
        since = times.format_minute(record.since) if record.since else ""
        rows.append((name, record.state, since, record.uid, one_line(record.forgotten or record.message)))
    return align_table(rows)


@command.command(epilog=_EXIT_CODES)
@_name_argument
@_config_option
@cluster_options
def accept(name: str, file: Path | None, choice: ClusterChoice) -> int:
    """Accept the cluster that the credentials of NAME reach now as the new cluster NAME.

    Use this command for a rebuilt cluster, or for a cluster that gets a second name on purpose. Before the acceptance,
    Levelgate writes nothing to the cluster. Afterwards, Levelgate applies the sources there as in a new cluster.

    \b
    levelgate cluster accept eu-1 --config levelgate.yaml
    """
    return asyncio.run(_accept(name, file, choice))


async def _accept(text: str, file: Path | None, choice: ClusterChoice) -> int:
    async with choice.connect() as hub:
        name = _find_member(await FleetOverview.from_hub(hub), text)
        async with _connect(hub, name, file) as cluster:
            uid = await read_cluster_uid(cluster)
        if uid == await read_cluster_uid(hub):
            raise ConfigurationError(HubItself(name).message)
        before = await read_cluster_record(hub, name)
        if before and before.record.uid == uid:
            echo(f"Cluster {name} already has UID {uid}; the command wrote nothing.")
            return 0
        old_uid = await accept_cluster(hub, name, uid)
    was = f"the UID before was {old_uid}" if old_uid else "no UID was recorded before"
    echo(f"Cluster {name} now has UID {uid}; {was}.\nThe daemon tries the cluster again within a minute.")
    return 0


@command.command(epilog=_EXIT_CODES)
@_name_argument
@_config_option
@cluster_options
def release(name: str, file: Path | None, choice: ClusterChoice) -> int:
    """Remove the hub's mark from cluster NAME, so that another hub may write to the cluster.

    Use this command for a cluster whose hub is lost or gives up the cluster. First stop the old hub, or remove the
    cluster from the hub's Git. The objects in the cluster stay as they are.

    \b
    levelgate cluster release eu-1 --config levelgate.yaml
    """
    return asyncio.run(_release(name, file, choice))


async def _release(text: str, file: Path | None, choice: ClusterChoice) -> int:
    async with choice.connect() as hub:
        overview = await FleetOverview.from_hub(hub)
        name = _find_member(overview, text)
        hub_id = await read_cluster_uid(hub)
        async with _connect(hub, name, file) as cluster:
            owner = await release_cluster(cluster)
    if not owner:
        echo(f"Cluster {name} belongs to no hub; the command wrote nothing.")
        return 0
    which = "this hub" if owner == hub_id else "another hub"
    echo(f"Cluster {name} belonged to hub {owner} ({which}); now any hub may take the cluster.")
    if name in overview.declared:
        echo(f"Git still declares cluster {name} in this hub, so the daemon takes the cluster at the next attempt.")
    return 0


@command.command(epilog=_EXIT_CODES)
@_name_argument
@reason_option
@cluster_options
def forget(name: str, reason: str, choice: ClusterChoice) -> int:
    """Give up the removal of cluster NAME, which Git no longer declares and which never answers again.

    Use this command only for a lost cluster. Nothing in the cluster changes, and the mark of this hub stays. If the
    cluster comes back, another hub needs levelgate cluster release. Levelgate records the person and the reason.

    \b
    levelgate cluster forget eu-1 --reason "the site was closed"
    """
    return asyncio.run(_forget(name, reason, choice))


async def _forget(text: str, reason: str, choice: ClusterChoice) -> int:
    async with choice.connect() as hub:
        overview = await FleetOverview.from_hub(hub)
        name = _find_member(overview, text)
        spec, record = overview.declared.get(name), overview.records.get(name)
        if spec is not None and (record is None or record.state != ReachState.REMOVED):
            raise ClusterRefused(
                f"Git declares cluster {name} ({spec.origin}), so the hub cannot forget it; "
                f"remove its Cluster from Git first, or set spec.paused: true to stop all work on the cluster"
            )
        person = await find_person(hub) or "unknown"
        # Without a record, the daemon has finished the removal in the meantime.
        await change_cluster_record(
            hub, name, lambda record: record and replace(record, forgotten=f"{person}: {reason}")
        )
    echo(
        f"{person} has given up cluster {name}: {reason}\n"
        "The daemon deletes the record of the cluster, and changes nothing in the cluster itself."
    )
    return 0


def _find_member(overview: FleetOverview, text: str) -> ClusterName:
    """Return the member cluster called `text`. Raises: UnknownCluster, ClusterRefused if `text` is the hub itself."""
    if (name := overview.find(text)) == LOCAL_CLUSTER:
        raise ClusterRefused(
            f"{name} is the hub itself, which you cannot accept, release or forget; name a member cluster"
        )
    return name


def _connect(hub: KubeCluster, name: ClusterName, file: Path | None) -> AbstractAsyncContextManager[KubeCluster]:
    return connect_member(hub, name, file, concurrency=2, timeout_seconds=CONNECT_TIMEOUT_SECONDS)
