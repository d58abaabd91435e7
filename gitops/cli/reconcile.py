"""Command `levelgate reconcile`: reconcile a source or an instance now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import click

from applier.cluster import WatchTarget
from applier.kube.cluster import KubeCluster
from gitops.cli import EXIT_WAITING, describe_exit_codes
from gitops.cli.options import Duration, refuse_without
from gitops.cli.person_requests import INSTANCE, RequestCommand, request_options
from gitops.cli.terminal import echo, unreachable_reporter
from gitops.durations import format_duration
from gitops.explain.wait import wait_until
from gitops.records import requests
from gitops.records.references import SOURCE
from gitops.records.requests import PersonRequest
from gitops.records.source_record import SourceRecord
from gitops.records.source_requests import last_answered_request
from renderer import well_known


@click.command(
    epilog=describe_exit_codes("0 requested, or with --wait reconciled", "1 an error", "3 no answer within --timeout")
)
@click.option("--wait", is_flag=True, help="Wait for the reconciliation. After the time limit, exit 3.")
@click.option("--timeout", type=Duration(), default="1m", show_default=True, help="Time limit of --wait.")
@request_options
def command(wait: bool, timeout: timedelta, send_request: RequestCommand) -> int:
    """Reconcile the source or instance REF now. Without REF, reconcile all sources. The command opens no gate.

    Use this command to reconcile without waiting for the next poll. The daemon fetches the source and reconciles it.
    The daemon answers in the record of the source or the status of the instance.

    \b
    levelgate reconcile
    levelgate reconcile source/platform --wait
    levelgate reconcile webapp/shop -n prod
    """
    if not wait:
        refuse_without("--wait", timeout="--timeout")

    async def wait_for_answers(cluster: KubeCluster, written_requests: Sequence[PersonRequest]) -> int:
        async def are_answered() -> bool:
            live_objects = [(request, await cluster.get(request.subject.key)) for request in written_requests]
            return all(
                live is None or last_answered_request(live) == request.annotations[well_known.SYNC_REQUESTED_AT]
                for request, live in live_objects
            )

        watch_targets = [
            WatchTarget(key.group_kind, key.namespace, name=key.name)
            for key in (request.subject.key for request in written_requests)
        ]
        if await wait_until(
            cluster,
            watch_targets,
            are_answered,
            timeout_seconds=timeout.total_seconds(),
            on_unavailable=unreachable_reporter(),
        ):
            echo("Reconciled.")
            return 0
        records = [
            SourceRecord.from_object(live)
            for request in written_requests
            if (live := await cluster.get(request.subject.key))
        ]
        unreadable_reasons = dict.fromkeys(record.unreadable.why for record in records if record.unreadable)
        why = "; ".join(unreadable_reasons) or "check that `levelgate run` works on this cluster"
        echo(f"The daemon did not answer within {format_duration(timeout)}: {why}", err=True)
        return EXIT_WAITING

    return send_request.to_sources(requests.reconcile, INSTANCE, SOURCE, after_write=wait_for_answers if wait else None)
