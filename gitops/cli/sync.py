"""`levelgate sync`: look now where a source stands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import click

from applier.cluster import WatchTarget
from applier.kube.cluster import KubeCluster
from gitops.cli import NOT_YET
from gitops.cli.options import Duration, refuse_without
from gitops.cli.person_requests import INSTANCE, RequestCommand, order_options
from gitops.cli.terminal import echo, unreached
from gitops.explain.waiting import until
from gitops.records import requests
from gitops.records.references import SOURCE
from gitops.records.requests import PersonRequest
from gitops.records.source_record import SourceRecord
from gitops.records.sync import last_answered
from renderer import well_known


@click.command()
@click.option("--wait", is_flag=True, help="Wait until it has been looked at; exit code 3 where that takes too long.")
@click.option("--timeout", type=Duration(), default="1m", show_default=True, help="With --wait: for how long.")
@order_options
def command(wait: bool, timeout: timedelta, give: RequestCommand) -> int:
    """Ask now where the source of REF stands in Git, and go over it; without REF, all sources. It opens no gate.

    The daemon answers by writing the value of the annotation into the record of the source, or the status of the instance.

    \b
    levelgate sync
    levelgate sync source/platform --wait
    levelgate sync webapp/shop -n prod
    """

    if not wait:
        refuse_without("--wait", timeout="--timeout")

    async def after(cluster: KubeCluster, given: Sequence[PersonRequest]) -> int:
        async def look() -> bool:
            found = [(one, await cluster.get(one.subject.key)) for one in given]
            return all(live is None or last_answered(live) == one.annotations[well_known.SYNC] for one, live in found)

        watched = [
            WatchTarget(key.group_kind, key.namespace, name=key.name) for key in (one.subject.key for one in given)
        ]
        if await until(cluster, watched, look, seconds=timeout.total_seconds(), missed=unreached()):
            echo("It has been looked at.")
            return 0
        records = [SourceRecord.read(live) for one in given if (live := await cluster.get(one.subject.key))]
        unread = dict.fromkeys(record.unreadable.why for record in records if record.unreadable)
        why = "; ".join(unread) or "does `levelgate run` work here?"
        echo(f"No answer within {timeout.total_seconds():g}s: {why}", err=True)
        return NOT_YET

    return give.to_sources(requests.sync, INSTANCE, SOURCE, after=after if wait else None)
