"""Command `levelgate status`: show sources, rollouts and differences from Git, as recorded in the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from applier.causes import Cause, Reason
from gitops.cli.options import READ_EXIT_CODES, ClusterChoice, member_options, parse_ref, report_unreadable, utc_option
from gitops.cli.terminal import echo, format_header, print_document
from gitops.clock import SystemClock
from gitops.explain.fleet_presence import is_fleet_hub
from gitops.explain.overview import Overview, RolloutOverview
from gitops.explain.permitted_cluster import PermittedCluster
from gitops.explain.phrasing import (
    describe_blocker,
    describe_node,
    describe_unconfigured,
    describe_unreadable,
)
from gitops.records.display_state import DisplayState
from gitops.records.instance_state import InstanceState, describe_suspension
from gitops.records.references import Ref, RefError, find_key, suggest_name
from gitops.records.rollout_records import rollout_key
from gitops.records.source_record import SourceRecord
from gitops.text import TimeFormat, align_table, format_age
from gitops.timestamps import parse_timestamp, timestamp
from renderer.identity import ObjectKey

if TYPE_CHECKING:
    from gitops.explain.fleet_overview import FleetOverview


@click.command(epilog=READ_EXIT_CODES)
@click.argument("ref", nargs=-1)
@click.option("-n", "--namespace", metavar="NS", help="Namespace of REF. Without REF, show only its instances.")
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="Show all namespaces (the default without REF), even with -n."
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json", "yaml", "name"]), default="table", show_default=True
)
@utc_option
@member_options
def command(
    ref: tuple[str, ...],
    namespace: str | None,
    all_namespaces: bool,
    output: str,
    utc: bool,
    choice: ClusterChoice,
) -> int:
    """Show every source, every rollout that is not settled, and everything that differs from Git, with the reason.

    Use this command first to find the cause of trouble. On the hub of a fleet, its clusters and placements come first.
    --cluster shows a single cluster. REF restricts the output to one source, rollout or instance. -o wide shows every
    cause with its node and message. -o name prints references for other commands.

    \b
    levelgate status
    levelgate status -n prod --context prod-eu
    levelgate status --cluster eu-1
    levelgate status webapp/shop -n prod
    levelgate status rollout/webapp.kro.run -o wide
    """
    parsed_ref = parse_ref(ref) if ref else None
    if parsed_ref and (parsed_ref.node or parsed_ref.own_type == "window"):
        raise click.UsageError(f"status does not show {parsed_ref}; use levelgate explain {parsed_ref}")
    return asyncio.run(_status(parsed_ref, None if all_namespaces else namespace, output, TimeFormat(utc), choice))


async def _status(ref: Ref | None, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice) -> int:
    now = SystemClock().now()
    async with choice.connect_readable(namespace) as (cluster, place):
        shows_fleet = not (ref or namespace or choice.member) and await is_fleet_hub(cluster)
        fleet = await _read_fleet(cluster) if shows_fleet else None
        suspension = await describe_suspension(cluster, now)
        overview = await Overview.from_cluster(cluster, now=now)
        if ref:
            overview = await _select(cluster, overview, ref, place)
        elif namespace:
            overview = overview.in_namespace(namespace)
        if not (ref or overview.sources) and cluster.denied and fleet is None:
            raise RefError(
                f"the sources of cluster {cluster.name} are not readable; "
                "name an instance that you can read: levelgate status TYPE/NAME -n NS"
            )
    if output in {"json", "yaml"}:
        print_document(_as_json(cluster, overview, fleet), output, is_sorted=True)
    elif output == "name":
        echo("\n".join([*_fleet_names(fleet), *_names(overview)]))
    else:
        header = [format_header(cluster.name, times.format_full(now))]
        body = [*_fleet_lines(fleet, times, wide=output == "wide")]
        if fleet is None or not overview.is_empty:
            header += filter(None, [suspension])
            body += [""] if body else []
            body += _overview_lines(overview, ref, times, now)
            empty_namespace = "" if ref or overview.instances else namespace or ""
            message = _describe_settled(overview, fleet, empty_namespace, is_complete=not cluster.denied)
            body += _cause_lines(overview, times, choice, wide=output == "wide", settled_message=message)
        echo("\n".join([*header, "", *body]))
    return report_unreadable(cluster)


async def _select(cluster: PermittedCluster, overview: Overview, ref: Ref, place: str) -> Overview:
    """Return the part of the overview that concerns REF.

    Args:
        place: namespace of a REF to an object.

    Raises: RefError if the cluster has no record of REF, ClusterError.
    """
    key = None
    if ref.own_type in {"rollout", "rgd"}:
        selected = overview.for_rollout(ref.name)
    else:
        key = await find_key(cluster, ref, place)
        selected = overview.for_object(key)
        if cluster.denied and not ref.own_type:
            # The person may lack the permission to read the record that names this instance.
            selected = await selected.with_instance(cluster, key)
    if selected.is_empty:
        namespace_text = f" in namespace {key.namespace}" if key and key.namespace and not ref.own_type else ""
        suggestion = await suggest_name(cluster, ref, key or rollout_key(ref.name))
        advice = suggestion or "; to list valid names, run `levelgate status`"
        raise RefError(f"cluster {cluster.name} has no record of {ref}{namespace_text}{advice}")
    return selected


async def _read_fleet(hub: PermittedCluster) -> FleetOverview:
    """Return the fleet of this hub. Raises: ClusterError."""
    from gitops.explain.fleet_overview import FleetOverview  # A cluster without a fleet does not load this code.

    return await FleetOverview.from_hub(hub)


def _fleet_lines(fleet: FleetOverview | None, times: TimeFormat, *, wide: bool) -> Iterator[str]:
    if fleet is not None:
        from gitops.cli.fleet_status import fleet_lines

        yield from fleet_lines(fleet, times, wide=wide)


def _fleet_names(fleet: FleetOverview | None) -> list[str]:
    """Return the clusters and placements as references for `explain`."""
    if fleet is None:
        return []
    names = [f"cluster/{name}" for name in fleet.names]
    return names + list(dict.fromkeys(f"placement/{progress.placement.name}" for progress in fleet.placements))


def _names(overview: Overview) -> Iterator[str]:
    """Yield sources, rollouts, and the instances that differ from Git, as references for other commands."""
    yield from (f"source/{name}" for name in overview.sources)
    yield from (f"rollout/{rollout.name}" for rollout in overview.rollouts)
    yield from (
        instance_state.key.command_reference for instance_state in overview.instances if not instance_state.is_settled
    )


def _overview_lines(overview: Overview, ref: Ref | None, times: TimeFormat, now: datetime) -> Iterator[str]:
    """Yield the table of the instance that `ref` names. Without a `ref`, yield the tables of sources and rollouts."""
    # A source has an object too, its ConfigMap, so a reference to that object shows the source.
    if ref and not ref.own_type and not overview.sources:
        return _instance_table(overview.instances[0])
    return _table_lines(overview, times, now, everything=ref is not None)


def _table_lines(overview: Overview, times: TimeFormat, now: datetime, *, everything: bool) -> Iterator[str]:
    if not (overview.sources or everything):
        yield "No sources. To start, run levelgate run --source NAME=URL."
    if overview.sources:
        header = ("SOURCE", "REF", "COMMIT", "AGE", "STATE", "INSTANCES", "HELD", "FAILED")
        yield from align_table([header, *(_source_row(name, record, now) for name, record in overview.sources.items())])
        for name, record in overview.sources.items():
            if lines := [
                *(
                    describe_unconfigured(f"source/{name}")
                    if name in overview.unconfigured
                    else describe_unreadable(f"source/{name}", record, times)
                )
            ]:
                yield from ("", *lines)
    shown_rollouts = [
        rollout for rollout in overview.rollouts if everything or rollout.state is not DisplayState.SETTLED
    ]
    if shown_rollouts:
        yield from ("",) if overview.sources else ()
        header = ("ROLLOUT", "TO", "WAVE", "SETTLED", "PROGRESSING", "WAITING", "STATE", "AGE")
        yield from align_table([header, *(_rollout_row(rollout, now) for rollout in shown_rollouts)])


def _source_row(name: str, record: SourceRecord, now: datetime) -> tuple[str, ...]:
    since = parse_timestamp(record.since)
    numbers = (str(record.counts.get(key, 0)) for key in ("instances", "held", "failed"))
    return (name, record.ref, record.target[:7], format_age(since, now) if since else "", record.state, *numbers)


def _rollout_row(rollout: RolloutOverview, now: datetime) -> tuple[str, ...]:
    settled, total = sum(wave.settled for wave in rollout.waves), sum(wave.total for wave in rollout.waves)
    moving, waiting = sum(wave.moving for wave in rollout.waves), sum(wave.waiting for wave in rollout.waves)
    return (
        rollout.name,
        rollout.targets,
        rollout.wave,
        f"{settled}/{total}",
        str(moving),
        str(waiting),
        rollout.state,
        format_age(rollout.since, now) if rollout.since else "",
    )


def _instance_table(instance_state: InstanceState) -> Iterator[str]:
    conditions, nodes = instance_state.conditions or {}, instance_state.nodes or {}
    updated = f"{nodes.get('updated', 0)}/{nodes.get('total', 0)}"
    ready, healthy = (conditions.get(kind, "") for kind in ("Ready", "Healthy"))
    revision = str(instance_state.applied.revision or "")
    header = ("INSTANCE", "STATE", "READY", "HEALTHY", "REVISION", "TARGET", "UPDATED", "PROPAGATED")
    row = (
        _place(instance_state.key),
        instance_state.kro_state,
        ready,
        healthy,
        revision,
        str(instance_state.target),
        updated,
        instance_state.reason,
    )
    return align_table([header, row])


def _cause_lines(
    overview: Overview, times: TimeFormat, choice: ClusterChoice, *, wide: bool, settled_message: str
) -> Iterator[str]:
    """Yield the table of causes, the messages of failures, and the next command.

    If nothing waits or fails, yield `settled_message` instead.
    """
    rows = [
        (instance_state, cause)
        for instance_state in overview.instances
        for cause in (instance_state.display_causes if wide else instance_state.display_causes[:1])
    ]
    other_causes = [
        (_place(cause.object_key) if cause.object_key else f"source/{name}", cause) for name, cause in overview.causes
    ]
    if not (rows or other_causes):
        yield from ("", settled_message) if settled_message else ()
        return
    header: tuple[str, ...] = ("DIFFERS FROM GIT", "REASON", "BY", "NOT BEFORE")
    table = [
        _cause_row(_place(instance_state.key), cause, describe_blocker(instance_state, cause), times, wide)
        for instance_state, cause in rows
    ]
    table += [_cause_row(place, cause, describe_blocker(None, cause), times, wide) for place, cause in other_causes]
    yield from ("", *align_table([(*header, "NODE", "MESSAGE") if wide else header, *table]), "")
    failed = [
        (_place(instance_state.key), cause)
        for instance_state in overview.instances
        for cause in instance_state.display_causes
        if cause.reason.is_failure
    ]
    failed += [(place, cause) for place, cause in other_causes if cause.reason.is_failure]
    left_behind = [(place, cause) for place, cause in other_causes if cause.reason is Reason.LEFT_BEHIND]
    for place, cause in (*failed, *left_behind) if not wide else ():
        subject = f"{place} {describe_node(cause)}".rstrip()
        yield f"{cause.reason}: {subject}: {cause.message}"
    for instance_state in overview.instances:
        if instance_state.is_terminating and instance_state.reason is Reason.DELETION_BLOCKED:
            yield f"{instance_state.state}: {_place(instance_state.key)}: {instance_state.display_causes[0].message}"
    for place, cause in other_causes if not wide else ():
        if cause.reason is Reason.DELETION_BLOCKED:
            yield f"{cause.reason}: {place}: {cause.message}"
    worst = _worst_subject(rows, overview.causes)
    yield " ".join(
        filter(
            None,
            (
                "" if failed else "Nothing failed.",
                f"Next: {choice.format_command(f'levelgate explain {worst}')}",
            ),
        )
    )


def _worst_subject(rows: Iterable[tuple[InstanceState, Cause]], others: Iterable[tuple[str, Cause]]) -> str:
    """Return the reference of the instance, object or source in the worst state, for `explain`.

    If ranks are equal, an instance precedes an object that is not an instance.
    """
    candidates = [(instance_state.state, 0, instance_state.key.command_reference) for instance_state, _ in rows]
    for source, cause in others:
        key = cause.object_key
        candidates.append(
            (DisplayState.from_reasons([cause.reason]), 1, key.command_reference if key else f"source/{source}")
        )
    return min(candidates, key=lambda candidate: (candidate[0].rank, candidate[1]))[2]


def _describe_settled(
    overview: Overview, fleet: FleetOverview | None, empty_namespace: str, *, is_complete: bool
) -> str:
    """Return the sentence for a status without causes.

    Args:
        empty_namespace: requested namespace if it has no instance, or an empty string.
        is_complete: False if the person does not have the permission to read everything.
    """
    if empty_namespace:
        return f"No instance is in namespace {empty_namespace}."
    if not overview.instances and not any(record.target for record in overview.sources.values()):
        return ""
    if not is_complete:
        message = "Nothing that you may read waits or fails."
    elif any(
        name in overview.unconfigured or record.unreadable or not record.target
        for name, record in overview.sources.items()
    ):
        message = "Everything matches the last commit that Levelgate read."
    else:
        message = "Everything matches Git."
    if fleet is None:
        return message
    from gitops.cli.fleet_status import settled_locally

    return settled_locally(message, fleet)


def _cause_row(place: str, cause: Cause, by: str, times: TimeFormat, wide: bool) -> tuple[str, ...]:
    until = times.format_minute(cause.until) if cause.until else ""
    return (place, cause.reason, by, until, *((cause.node, cause.message) if wide else ()))


def _place(key: ObjectKey) -> str:
    """Return the reference to an object, with the namespace first, such as `prod webapp/cart`."""
    return "  ".join(filter(None, (key.namespace, f"{key.kind.lower()}/{key.name}")))


def _as_json(cluster: PermittedCluster, overview: Overview, fleet: FleetOverview | None) -> dict[str, Any]:
    """Return the stable document of `status -o json` (docs/reference.md)."""
    return {
        "cluster": cluster.name,
        "denied": sorted(map(str, cluster.denied)),
        **(_fleet_as_json(fleet) if fleet else {}),
        "sources": [
            {
                "name": name,
                "url": record.url,
                "ref": record.ref,
                "target": record.target,
                "applied": record.applied,
                "since": record.since,
                "state": record.state,
                "configured": name not in overview.unconfigured,
                "unreadable": record.unreadable._asdict() if record.unreadable else None,
                "causes": list(record.causes),
                "leftBehind": {
                    "count": record.left_behind.count,
                    "objects": [str(member.key) for member in record.left_behind.members],
                },
                **record.counts,
            }
            for name, record in overview.sources.items()
        ],
        "rollouts": [
            {
                "name": rollout.name,
                "state": rollout.state,
                "targets": {wave: target.revision for wave, target in rollout.record.targets.items()},
                "since": timestamp(rollout.since) if rollout.since else None,
                "revisions": rollout.revisions,
                "waves": [
                    {name: value for name, value in asdict(wave).items() if name != "ahead"} for wave in rollout.waves
                ],
            }
            for rollout in overview.rollouts
        ],
        "blocked": [
            {
                "kind": instance_state.key.kind,
                "namespace": instance_state.key.namespace,
                "name": instance_state.key.name,
                "state": instance_state.state,
                "node": cause.node,
                "reason": cause.reason,
                "message": cause.message,
                "since": timestamp(cause.since) if cause.since else None,
                "until": timestamp(cause.until) if cause.until else None,
                "by": describe_blocker(instance_state, cause),
            }
            for instance_state in overview.instances
            for cause in instance_state.display_causes
        ],
    }


def _fleet_as_json(fleet: FleetOverview) -> dict[str, Any]:
    from gitops.cli.fleet_status import cluster_as_json, placement_as_json

    return {
        "clusters": [cluster_as_json(fleet, name) for name in fleet.names],
        "placements": [placement_as_json(progress) for progress in fleet.placements],
    }
