"""Clusters and placements of a fleet as `levelgate status` and `levelgate explain` print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.cli.options import ClusterChoice
from gitops.explain.fleet_overview import FleetOverview, PlacementProgress, describe_wait
from gitops.fleet.cluster_record import NEW_RECORD, ClusterRecord, SourceSummary
from gitops.fleet.placement import Placement
from gitops.fleet.reach import ReachState
from gitops.text import TimeFormat, align_table, one_line
from gitops.timestamps import optional_timestamp
from renderer.phrasing import format_count

_ADVICE: Final = {
    ReachState.DEGRADED: "The cluster answers, but the hub cannot read everything. Objects that it cannot read stay.",
    ReachState.UNREACHABLE: "The hub tries again at least once a minute. The objects of the cluster stay as they are.",
    ReachState.PAUSED: "The hub reads and writes nothing in the cluster. To end the pause, remove spec.paused in Git.",
    ReachState.REMOVED: "Git no longer declares the cluster. The line above tells the state of its removal.",
}
_NO_SUMMARY: Final = SourceSummary("", "", 0, 0, "", None)


def fleet_lines(overview: FleetOverview, times: TimeFormat, *, wide: bool) -> Iterator[str]:
    """Yield the table of clusters, the messages about clusters, and the progress of each placement."""
    yield from align_table(_cluster_rows(overview, times, wide=wide))
    troubled = [(name, record) for name, record in overview.records.items() if record.message]
    if troubled:
        yield ""
        yield from (one_line(f"{record.state}: cluster/{name}: {record.message}") for name, record in troubled)
    if overview.placements:
        yield ""
        has_sources = len({progress.source for progress in overview.placements}) > 1
        rows = [("PLACEMENT", "SOURCE", "SETTLED", "NOT SETTLED")]
        for progress in overview.placements:
            settled = f"{progress.settled_count}/{len(progress.chosen)}"
            rows.append((progress.placement.name, progress.source, settled, ", ".join(progress.unsettled)))
        yield from align_table([row if has_sources else (row[0], *row[2:]) for row in rows])


def settled_locally(message: str, overview: FleetOverview) -> str:
    """Return `message` with a note that it is about the hub's own cluster, and with the names of unsettled clusters."""
    if not message or not overview.unsettled:
        return message
    names = overview.unsettled
    advice = f"`levelgate explain cluster/{names[0]}`"
    return f"In {LOCAL_CLUSTER}: {message[0].lower()}{message[1:]} Not settled: {', '.join(names)}; next: {advice}"


def _cluster_rows(overview: FleetOverview, times: TimeFormat, *, wide: bool) -> list[tuple[str, ...]]:
    sources = {source for record in overview.records.values() for source in record.sources}
    rows: list[tuple[str, ...]] = [
        ("CLUSTER", "SOURCE", "STATE", "COMMIT", "INSTANCES", "FAILED", "WAITS-FOR", "UNTIL")
    ]
    for name in overview.names:
        record = overview.records.get(name, NEW_RECORD)
        for source, summary in sorted(record.sources.items()) or [("", _NO_SUMMARY)]:
            counts = (str(summary.instances), str(summary.failed)) if source else ("", "")
            waits_for = describe_wait(summary) if source else ""
            shown = one_line(waits_for) if wide else waits_for.partition(":")[0]
            until = times.format_minute(summary.until) if summary.until else ""
            rows.append((name, source, record.state, summary.commit[:7], *counts, shown, until))
    return rows if len(sources) > 1 else [(row[0], *row[2:]) for row in rows]


def cluster_as_json(overview: FleetOverview, name: ClusterName) -> dict[str, Any]:
    """Return a cluster in the stable format of `cluster list -o json` and `status -o json` (docs/reference.md)."""
    record, spec = overview.records.get(name, NEW_RECORD), overview.spec_of(name)
    return {
        "name": name,
        "state": record.state,
        "since": optional_timestamp(record.since),
        "message": record.message,
        "uid": record.uid,
        "declared": name in overview.declared,
        "labels": dict(spec.labels) if spec else {},
        "forgotten": record.forgotten,
        "sources": [
            {
                "name": source,
                "commit": summary.commit,
                "state": summary.state,
                "instances": summary.instances,
                "failed": summary.failed,
                "waitsFor": summary.waits_for,
                "until": optional_timestamp(summary.until),
            }
            for source, summary in sorted(record.sources.items())
        ],
    }


def placement_as_json(progress: PlacementProgress) -> dict[str, Any]:
    """Return a placement in the stable format of `status -o json` and `explain -o json` (docs/reference.md)."""
    return {
        "name": progress.placement.name,
        "source": progress.source,
        "selected": list(progress.selected),
        "clusters": list(progress.chosen),
        "settled": progress.settled_count,
        "unsettled": dict(progress.unsettled),
    }


def explain_cluster(
    overview: FleetOverview, name: ClusterName, choice: ClusterChoice, times: TimeFormat, now: datetime
) -> Iterator[str]:
    """Yield the state of a cluster, the start and reason of that state, the sources there, and possible actions."""
    record, spec = overview.records.get(name, NEW_RECORD), overview.spec_of(name)
    since = f" since {times.format_short(record.since, now)}" if record.since else ""
    yield f"Cluster {name} is {record.state or 'declared, and the hub has not connected to it yet'}{since}."
    if record.message:
        yield one_line(record.message)
    if advice := _ADVICE.get(ReachState(record.state)) if record.state in {*ReachState} else "":
        yield advice
    if record.forgotten:
        yield one_line(f"A person has given up the removal of the cluster: {record.forgotten}")
    if spec is not None:
        where = "Declared" if name in overview.declared else "Last declared"
        labels = ", ".join(f"{key}={value}" for key, value in sorted(spec.labels.items())) or "no labels"
        yield f"{where} at {spec.origin}, with {labels}."
    if record.uid:
        yield f"The UID of the namespace kube-system, which identifies the cluster, is {record.uid}."
    yield ""
    yield from _source_lines(record, times)
    if mine := [progress for progress in overview.placements if name in progress.chosen]:
        yield f"Placements: {', '.join(progress.placement.name for progress in mine)}."
    if actions := [*_actions(overview, name, record)]:
        yield from ("", "Who can act")
        width = max(len(text) for text, _ in actions)
        hub = ClusterChoice(choice.kubeconfig, choice.context, choice.sandbox)
        yield from (f"  {text:<{width}}  {hub.format_command(line)}".rstrip() for text, line in actions)


def _source_lines(record: ClusterRecord, times: TimeFormat) -> Iterator[str]:
    if not record.sources:
        yield "Levelgate has not applied a source there yet."
        return
    stale = "" if record.is_current else " (last known)"
    yield f"Sources there{stale}:"
    for source, summary in sorted(record.sources.items()):
        until = f", not before {times.format_full(summary.until)}" if summary.until else ""
        failed = f", {summary.failed} failed" if summary.failed else ""
        waits_for = f"; waits for {one_line(summary.waits_for)}{until}" if summary.waits_for else ""
        counts = format_count(summary.instances, "instance")
        yield f"  source/{source} at {summary.commit[:7]}: {summary.state}, {counts}{failed}{waits_for}"


def _actions(overview: FleetOverview, name: ClusterName, record: ClusterRecord) -> Iterator[tuple[str, str]]:
    """Yield each action that can help a cluster, with its command. For a change in Git, the command is empty."""
    for command in ("accept", "release"):
        if f"levelgate cluster {command} {name}" in record.message:
            what = "if the cluster is rebuilt" if command == "accept" else "if the other hub gives up the cluster"
            yield what, f"levelgate cluster {command} {name}"
    if name not in overview.declared and name != LOCAL_CLUSTER and not record.forgotten:
        yield "if the cluster never comes back", f"levelgate cluster forget {name} --reason TEXT"
    if record.state == ReachState.PAUSED:
        yield "remove spec.paused from the Cluster in Git", ""
    if record.is_current:
        member = "" if name == LOCAL_CLUSTER else f" --cluster {name}"
        for source, summary in sorted(record.sources.items()):
            if describe_wait(summary):
                yield f"see why source {source} waits there", f"levelgate explain source/{source}{member}"


def explain_placement(progress: PlacementProgress, overview: FleetOverview) -> Iterator[str]:
    """Yield the clusters of a placement, its progress in each, and the fields that it overrides."""
    placement, total = progress.placement, len(progress.chosen)
    yield (
        f"Placement {placement.name} of source {progress.source} ({placement.origin}): "
        f"{progress.settled_count} of {format_count(total, 'cluster')} settled."
    )
    if placement.count is not None:
        fit = format_count(len(progress.selected), "cluster")
        yield f"The labels select {fit}; the placement uses at most {placement.count} of them, always the same."
    elif not total:
        yield "The labels select no cluster; correct spec.clusters, or the labels of a Cluster."
    yield from ("", *align_table(_placement_rows(progress, overview))) if total else ()
    if other := [name for name in progress.selected if name not in progress.chosen]:
        yield f"The placement does not use {', '.join(other)}."
    if placement.overrides:
        yield ""
        yield from _override_lines(placement, progress, overview)


def _placement_rows(progress: PlacementProgress, overview: FleetOverview) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("CLUSTER", "COMMIT", "STATE", "WHY")]
    for name in progress.chosen:
        summary = overview.records.get(name, NEW_RECORD).sources.get(progress.source, _NO_SUMMARY)
        rows.append((name, summary.commit[:7], summary.state, one_line(progress.unsettled.get(name, ""))))
    return rows


def _override_lines(placement: Placement, progress: PlacementProgress, overview: FleetOverview) -> Iterator[str]:
    for override in placement.overrides:
        names = [name for name in progress.chosen if override.clusters.matches(overview.declared[name].labels)]
        fields = ", ".join(_patched_fields(override.patch.value))
        of = f" of {', '.join(override.rgds)}" if override.rgds else ""
        yield f"Differs in {', '.join(names) or 'no cluster'}: {fields}{of} ({override.patch.origin})."


def _patched_fields(patch: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted paths of the fields that a merge patch sets."""
    for name, value in patch.items():
        if isinstance(value, dict) and value:
            yield from _patched_fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def fleet_reference_as_json(overview: FleetOverview, name: ClusterName) -> dict[str, Any]:
    """Return the stable document of `explain cluster/NAME -o json` (docs/reference.md)."""
    placements = [progress.placement.name for progress in overview.placements if name in progress.chosen]
    record = overview.records.get(name, NEW_RECORD)
    return {
        **cluster_as_json(overview, name),
        "placements": placements,
        "actions": [{"when": text, "command": line} for text, line in _actions(overview, name, record)],
    }
