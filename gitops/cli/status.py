"""`levelgate status`: what is, and what is not as Git says, read from the cluster's own records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
import orjson

from applier.cluster import Cluster, Object
from applier.errors import KindNotServed
from gitops.cli import program_version
from gitops.cli.options import ClusterChoice, cluster_options
from gitops.cli.text import age, aligned, local, place
from gitops.clock import SystemClock
from gitops.record import SourceRecord, read_records
from renderer import keys
from renderer.identity import GroupKind, ObjectKey


@dataclass(frozen=True, slots=True)
class _Row:
    """One cause of waiting, as the status of an instance or a source says it."""

    key: ObjectKey
    node: str
    reason: str
    message: str
    since: str


@click.command()
@click.option("-n", "--namespace", metavar="NS", help="Show what waits in this namespace only.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces, the default.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@cluster_options
def command(namespace: str | None, all_namespaces: bool, output: str, choice: ClusterChoice) -> int:
    """Show every source, and everything that is not as Git says, with the reason.

    \b
    levelgate status
    levelgate status -n prod --context prod-eu
    """
    return asyncio.run(_status(None if all_namespaces else namespace, output, choice))


async def _status(namespace: str | None, output: str, choice: ClusterChoice) -> int:
    cluster = await choice.connect()
    try:
        records = await read_records(cluster)
        instances = await _instances(cluster, [record for _, record in records])
    finally:
        await cluster.close()
    rows = [row for instance in instances for row in _rows(instance) if namespace in {None, row.key.namespace}]
    if output == "json":
        click.echo(
            orjson.dumps(_as_json(str(cluster.name), records, rows), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
        )
    else:
        now = SystemClock().now()
        click.echo(
            "\n".join(
                [f"Cluster {cluster.name}, {local(now)}, levelgate {program_version()}", "", *_text(records, rows, now)]
            )
        )
    return 0


async def _instances(cluster: Cluster, records: Sequence[SourceRecord]) -> list[Object]:
    """Live instances of all kinds that the records name: one list for each kind."""
    kinds = sorted({key.group_kind for record in records for key in record.scopes})
    listed = await asyncio.gather(*(_listed(cluster, kind) for kind in kinds))
    return sorted((obj for objects in listed for obj in objects), key=ObjectKey.of)


async def _listed(cluster: Cluster, kind: GroupKind) -> list[Object]:
    try:
        return await cluster.list(kind, selector=keys.PARENT_ID)
    except KindNotServed:
        return []


def _rows(instance: Object) -> Iterable[_Row]:
    blocked = ((instance.get("status") or {}).get("levelgate") or {}).get("blocked") or []
    for row in blocked:
        yield _Row(
            ObjectKey.of(instance), row.get("node", ""), row["reason"], row.get("message", ""), row.get("since", "")
        )


def _text(records: Sequence[tuple[str, SourceRecord]], rows: Sequence[_Row], now: datetime) -> Iterable[str]:
    if not records:
        yield "No sources. Start with: levelgate run --source NAME=URL"
        return
    table = [["SOURCE", "REF", "COMMIT", "AGE", "STATE", "INSTANCES", "HELD", "FAILED"]]
    for name, record in records:
        count = record.counts
        since = age(datetime.fromisoformat(record.since), now) if record.since else ""
        numbers = [str(count.get(key, 0)) for key in ("instances", "held", "failed")]
        table.append([name, record.ref, record.target[:7], since, record.state, *numbers])
    yield from aligned(table)
    blocked = [[f"{row.key.kind.lower()} {place(row.key)}", row.reason, row.node, row.message] for row in rows]
    blocked += [
        [f"source {name}", reason, "", message] for name, record in records for reason, message in record.causes
    ]
    yield ""
    if blocked:
        yield from aligned([["NOT AS GIT SAYS", "REASON", "NODE", "WHY"], *blocked])
    else:
        yield "Everything is as Git says."


def _as_json(cluster: str, records: Sequence[tuple[str, SourceRecord]], rows: Sequence[_Row]) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "sources": [
            {
                "name": name,
                "url": record.url,
                "ref": record.ref,
                "target": record.target,
                "applied": record.applied,
                "since": record.since,
                "state": record.state,
                "causes": [{"reason": reason, "message": message} for reason, message in record.causes],
                **record.counts,
            }
            for name, record in records
        ],
        "blocked": [
            {
                "kind": row.key.kind,
                "namespace": row.key.namespace,
                "name": row.key.name,
                "node": row.node,
                "reason": row.reason,
                "message": row.message,
                "since": row.since,
            }
            for row in rows
        ],
    }
