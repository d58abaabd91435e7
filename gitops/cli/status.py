"""`levelgate status`: what is, and what is not as Git says, read from the cluster's own records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from gitops.cli import program_version
from gitops.cli.options import ClusterChoice, cluster_options, utc_option, whole
from gitops.cli.terminal import echo, tell
from gitops.cli.typed import typed
from gitops.clock import SystemClock
from gitops.explain.overview import Overview, RolloutOverview
from gitops.explain.permitted_cluster import PermittedCluster
from gitops.explain.phrasing import blocker, left, reference, unread
from gitops.records.cause_rows import CauseRow, timestamp
from gitops.records.instance_state import DisplayState, InstanceState, everything_suspended
from gitops.records.references import Ref, RefError, locate, meant
from gitops.records.rollout_records import rollout_key
from gitops.records.source_record import SourceRecord
from gitops.rollouts.directives import moment
from gitops.rollouts.state import WaveProgress
from gitops.text import age, aligned
from gitops.times import TimeFormat
from renderer.identity import ObjectKey


@click.command()
@click.argument("ref", nargs=-1)
@click.option("-n", "--namespace", metavar="NS", help="Namespace of REF; without REF, show what waits there only.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces, the default of the list.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json", "yaml", "name"]), default="table", show_default=True
)
@utc_option
@cluster_options
def command(
    ref: tuple[str, ...],
    namespace: str | None,
    all_namespaces: bool,
    output: str,
    utc: bool,
    choice: ClusterChoice,
) -> int:
    """Show every source and every rollout under way, and everything that is not as Git says, with the reason.

    With REF, one source, rollout or instance only. -o wide shows every cause, with its node and its message;
    -o name what further commands take.

    \b
    levelgate status
    levelgate status -n prod --context prod-eu
    levelgate status webapp/shop -n prod
    levelgate status rollout/webapp.kro.run -o wide
    """
    wanted = typed(ref) if ref else None
    if wanted and (wanted.node or wanted.own == "window"):
        raise click.UsageError(f"a status is of a source, a rollout or an instance: levelgate explain {wanted}")
    return asyncio.run(_status(wanted, None if all_namespaces else namespace, output, TimeFormat(utc), choice))


async def _status(ref: Ref | None, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice) -> int:
    now = SystemClock().now()
    async with choice.readable(namespace) as (cluster, place):
        found = await Overview.read(cluster, now=now)
        stopped, key = await everything_suspended(cluster, now), None
        if ref and ref.own in {"rollout", "rgd"}:
            found = found.of_rollout(ref.name)
        elif ref:
            key = await locate(cluster, ref, place)
            found = found.of(key)
            if cluster.refused and not ref.own:
                found = await found.with_instance(cluster, key)
        elif namespace:
            found = found.within(namespace)
        if ref and not (found.sources or found.rollouts or found.instances):
            where = f" in namespace {key.namespace}" if key and key.namespace and not ref.own else ""
            near = await meant(cluster, ref, key or rollout_key(ref.name))
            advice = near or "; `levelgate status` lists what there is"
            raise RefError(f"nothing is known of {ref}{where} in cluster {cluster.name}{advice}")
        if not found.sources and cluster.refused and not ref:
            raise RefError("nothing can be shown; name an instance that you may read: levelgate status TYPE/NAME -n NS")
    if output in {"json", "yaml"}:
        tell(_as_json(cluster, found), output, is_sorted=True)
        return whole(cluster)
    if output == "name":
        echo("\n".join(_names(found)))
        return whole(cluster)
    header = f"Cluster {cluster.name}, {times.full(now)}, levelgate {program_version()}"
    one = found.instances[0] if ref and not ref.own else None
    settled = _settled(found, "" if ref or found.instances else namespace or "", is_whole=not cluster.refused)
    lines = _instance(one) if one else _tables(found, times, now, everything=ref is not None)
    echo(
        "\n".join(
            [
                header,
                *filter(None, [stopped]),
                "",
                *lines,
                *_not_as_git_says(found, times, choice, wide=output == "wide", settled=settled),
            ]
        )
    )
    return whole(cluster)


def _names(found: Overview) -> Iterator[str]:
    """As commands take them: sources, rollouts, and the instances that are not as Git says."""
    yield from (f"source/{name}" for name in found.sources)
    yield from (f"rollout/{one.name}" for one in found.rollouts)
    yield from (reference(one.key) for one in found.instances if not one.is_settled)


def _tables(found: Overview, times: TimeFormat, now: datetime, *, everything: bool) -> Iterator[str]:
    if not (found.sources or everything):
        yield "No sources. Start with: levelgate run --source NAME=URL"
    if found.sources:
        header = ("SOURCE", "REF", "COMMIT", "AGE", "STATE", "INSTANCES", "HELD", "FAILED")
        yield from aligned([header, *(_source(name, record, now) for name, record in found.sources.items())])
        for name, record in found.sources.items():
            if lines := [*(left(f"source/{name}") if name in found.left else unread(f"source/{name}", record, times))]:
                yield from ("", *lines)
    under_way = [one for one in found.rollouts if everything or one.state is not DisplayState.SETTLED]
    if under_way:
        yield from ("",) if found.sources else ()
        header = ("ROLLOUT", "TO", "WAVE", "SETTLED", "MOVING", "WAIT", "STATE", "AGE")
        yield from aligned([header, *(_rollout(one, now) for one in under_way)])


def _wave(wave: WaveProgress) -> dict[str, Any]:
    """Without what is ahead of its instances, which each of these tells."""
    return {name: value for name, value in asdict(wave).items() if name != "ahead"}


def _source(name: str, record: SourceRecord, now: datetime) -> tuple[str, ...]:
    since = moment(record.since)
    numbers = (str(record.counts.get(key, 0)) for key in ("instances", "held", "failed"))
    return (name, record.ref, record.target[:7], age(since, now) if since else "", record.state, *numbers)


def _rollout(one: RolloutOverview, now: datetime) -> tuple[str, ...]:
    settled, total = sum(wave.settled for wave in one.waves), sum(wave.total for wave in one.waves)
    moving, waiting = sum(wave.moving for wave in one.waves), sum(wave.waiting for wave in one.waves)
    since = age(one.since, now) if one.since else ""
    return one.name, one.targets, one.wave, f"{settled}/{total}", str(moving), str(waiting), one.state, since


def _instance(one: InstanceState) -> Iterator[str]:
    conditions, nodes = one.conditions or {}, one.nodes or {}
    updated = f"{nodes.get('updated', 0)}/{nodes.get('total', 0)}"
    ready, healthy = (conditions.get(kind, "") for kind in ("Ready", "Healthy"))
    revision = str(one.applied.revision or "")
    header = ("INSTANCE", "STATE", "READY", "HEALTHY", "REVISION", "TARGET", "UPDATED", "PROPAGATED")
    row = (_place(one.key), one.kro_state, ready, healthy, revision, str(one.target), updated, one.reason)
    return aligned([header, row])


def _not_as_git_says(
    found: Overview, times: TimeFormat, choice: ClusterChoice, *, wide: bool, settled: str
) -> Iterator[str]:
    """`settled` is what is said where nothing waits."""
    rows = [(one, cause) for one in found.instances for cause in (one.reasons if wide else one.reasons[:1])]
    others = [(_object(name, cause), cause) for name, cause in found.causes]
    if not (rows or others):
        yield from ("", settled) if settled else ()
        return
    header: tuple[str, ...] = ("NOT AS GIT SAYS", "REASON", "BY", "NOT BEFORE")
    table = [_row(_place(one.key), cause, blocker(one, cause), times, wide) for one, cause in rows]
    table += [_row(place, cause, blocker(None, cause), times, wide) for place, cause in others]
    yield from ("", *aligned([(*header, "NODE", "MESSAGE") if wide else header, *table]), "")
    failed = [(_place(one.key), cause) for one in found.instances for cause in one.reasons if cause.reason.is_failure]
    failed += [(place, cause) for place, cause in others if cause.reason.is_failure]
    for place, cause in failed if not wide else ():
        node = f" node {cause.node}" if cause.node not in {"", cause.object} else ""
        yield f"{cause.reason}: {place}{node}: {cause.message}"
    first = _worst(rows, found.causes)
    yield " ".join(
        filter(
            None, ("" if failed else "Nothing failed.", f"Why one waits: {choice.told(f'levelgate explain {first}')}")
        )
    )


def _worst(rows: Iterable[tuple[InstanceState, CauseRow]], others: Iterable[tuple[str, CauseRow]]) -> str:
    """What to ask for first, as `explain` takes it: an instance before what else is as bad."""
    told = [(one.state, 0, reference(one.key)) for one, _ in rows]
    for source, cause in others:
        key = ObjectKey.parse(cause.object)
        told.append((DisplayState.of([cause.reason]), 1, reference(key) if key else f"source/{source}"))
    return min(told, key=lambda one: (list(DisplayState).index(one[0]), one[1]))[2]


def _settled(found: Overview, empty: str, *, is_whole: bool) -> str:
    """`empty` is a namespace without instances."""
    if empty:
        return f"No instance is in namespace {empty}."
    if not found.instances and not any(record.target for record in found.sources.values()):
        return ""
    if not is_whole:
        return "Nothing waits or fails, as far as it could be read."
    unknown = any(
        name in found.left or record.unreadable or not record.target for name, record in found.sources.items()
    )
    return "Everything is as Git said when it was read last." if unknown else "Everything is as Git says."


def _row(place: str, cause: CauseRow, by: str, times: TimeFormat, wide: bool) -> tuple[str, ...]:
    until = times.minute(cause.until) if cause.until else ""
    return (place, cause.reason, by, until, *((cause.node, cause.message) if wide else ()))


def _object(source: str, cause: CauseRow) -> str:
    key = ObjectKey.parse(cause.object)
    return _place(key) if key else f"source/{source}"


def _place(key: ObjectKey) -> str:
    """`prod  webapp/cart`"""
    return "  ".join(filter(None, (key.namespace, f"{key.kind.lower()}/{key.name}")))


def _as_json(cluster: PermittedCluster, found: Overview) -> dict[str, Any]:
    """The stable contract of `status -o json` (docs/reference.md)."""
    return {
        "cluster": cluster.name,
        "denied": sorted(map(str, cluster.refused)),
        "sources": [
            {
                "name": name,
                "url": record.url,
                "ref": record.ref,
                "target": record.target,
                "applied": record.applied,
                "since": record.since,
                "state": record.state,
                "configured": name not in found.left,
                "unreadable": record.unreadable._asdict() if record.unreadable else None,
                "causes": list(record.causes),
                **record.counts,
            }
            for name, record in found.sources.items()
        ],
        "rollouts": [
            {
                "name": one.name,
                "state": one.state,
                "targets": {wave: target.revision for wave, target in one.record.targets.items()},
                "since": timestamp(one.since) if one.since else None,
                "revisions": one.revisions,
                "waves": [_wave(wave) for wave in one.waves],
            }
            for one in found.rollouts
        ],
        "blocked": [
            {
                "kind": one.key.kind,
                "namespace": one.key.namespace,
                "name": one.key.name,
                "node": cause.node,
                "reason": cause.reason,
                "message": cause.message,
                "since": timestamp(cause.since) if cause.since else None,
                "until": timestamp(cause.until) if cause.until else None,
                "by": blocker(one, cause),
            }
            for one in found.instances
            for cause in one.reasons
        ],
    }
