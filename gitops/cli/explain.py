"""Command `levelgate explain`: show why an object differs from Git, until when, and who can act."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from applier.causes import Cause, Reason
from gitops.cli.explain_json import chain_as_json
from gitops.cli.options import (
    READ_EXIT_CODES,
    ClusterChoice,
    member_options,
    parse_ref,
    report_unreadable,
    utc_option,
)
from gitops.cli.terminal import echo, format_header, print_document
from gitops.clock import SystemClock
from gitops.explain.explainer import explain
from gitops.explain.explanation import CauseChain, WaitingLink
from gitops.explain.fleet_presence import is_fleet_hub
from gitops.explain.permitted_cluster import PermittedCluster
from gitops.explain.phrasing import describe_unconfigured, describe_unreadable, format_links, suggest_actions
from gitops.explain.pods import find_pod_problems
from gitops.records.instance_state import describe_suspension
from gitops.records.references import Ref, RefError
from gitops.text import TimeFormat, align_table, title
from gitops.windows.verdict import start_state
from gitops.windows.window import Window
from renderer.phrasing import suggestion_or_names

if TYPE_CHECKING:
    from gitops.explain.fleet_overview import FleetOverview

_FLEET_TYPES = {
    **dict.fromkeys(("cluster", "clusters"), "cluster"),
    **dict.fromkeys(("placement", "placements"), "placement"),
}
"""Types of REF that only the hub of a fleet has. In any other cluster, a served kind may have one of these names."""

_MAX_ROWS = 10
"""Maximum number of waiting instances and objects in the list. The command shows only the number of all others."""
_WIDTH = 79
"""Maximum length of a line of running text, in characters."""
_PROGRESS_REASONS = frozenset({Reason.PROGRESSING, Reason.BAKING, Reason.UNHEALTHY, Reason.APPLY_FAILED})
"""Reasons that an instance can have while it moves from its applied revision to its target."""


@click.command(epilog=READ_EXIT_CODES)
@click.argument("ref", nargs=-1)
@click.option("--event", metavar="TYPE/NAME", help="Show which objects a change to this object enqueues, and why.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the object.  [default: the context's]")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@utc_option
@member_options
def command(
    ref: tuple[str, ...], event: str | None, namespace: str | None, output: str, utc: bool, choice: ClusterChoice
) -> int:
    """Show why REF differs from Git: the chain of causes, the earliest end of the wait, and who can act.

    Use this command to find the reason for a difference that levelgate status shows. REF is an instance, a node of an
    instance, any object from Git, a source, a rollout or a window. On the hub of a fleet, REF can also be cluster/NAME
    or placement/NAME. The command reads only the cluster, and shows the records of the last reconciliation.

    With --event, the command shows which instances Levelgate reconciles after a change to the given object. With
    --event and REF, the command shows only whether Levelgate reconciles REF. The command renders instances from the
    records of the cluster, so the answer is exact for all deployed objects.

    \b
    levelgate explain webapp/shop -n prod
    levelgate explain webapp/shop/database -n prod
    levelgate explain deployment/shop -n prod
    levelgate explain rollout/webapp.kro.run
    levelgate explain source/platform -o json
    levelgate explain cluster/eu-1
    levelgate explain --event configmap/settings -n prod
    levelgate explain webapp/shop --event configmap/settings -n prod
    """
    if event:
        subject = parse_ref(ref) if ref else None
        return asyncio.run(_explain_event(parse_ref([event]), subject, namespace, output, TimeFormat(utc), choice))
    return asyncio.run(_explain(parse_ref(ref), namespace, output, TimeFormat(utc), choice))


async def _explain(ref: Ref, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice) -> int:
    now = SystemClock().now()
    async with choice.connect_readable(namespace) as (cluster, place):
        if ref.type.lower() in _FLEET_TYPES and not (ref.node or choice.member) and await is_fleet_hub(cluster):
            from gitops.explain.fleet_overview import FleetOverview

            fleet = await FleetOverview.from_hub(cluster)
            if await _is_of_fleet(cluster, fleet, ref):
                return _explain_fleet(cluster, fleet, ref, output, times, now, choice)
        explanation = await explain(cluster, ref, place, now=now)
        pods = await find_pod_problems(cluster, workload) if (workload := explanation.last_object) else ()
        suspension = await describe_suspension(cluster, now)
    if output == "json":
        print_document({**chain_as_json(explanation), "pods": list(pods)}, "json")
    else:
        header = format_header(cluster.name, times.format_full(now))
        echo("\n".join([header, *filter(None, [suspension]), "", *_text(explanation, pods, times, now, choice)]))
    return report_unreadable(cluster)


async def _is_of_fleet(cluster: PermittedCluster, fleet: FleetOverview, ref: Ref) -> bool:
    """Return whether REF names a cluster or a placement of the fleet. A kind of the cluster may have the same name.

    Raises: RefError if the fleet lacks the cluster or placement, and no kind of the cluster has the name.
    """
    is_cluster = _FLEET_TYPES[ref.type.lower()] == "cluster"
    known = {*fleet.names} if is_cluster else {progress.placement.name for progress in fleet.placements}
    if ref.name in known:
        return True
    kinds = (await cluster.discover()).resources.values()
    if any(ref.type.lower() in {kind.kind.lower(), kind.plural, *kind.short_names} for kind in kinds):
        return False
    hint = suggestion_or_names(ref.name, known)
    raise RefError(f"the fleet of this hub has no {_FLEET_TYPES[ref.type.lower()]} {ref.name!r}{hint}")


def _explain_fleet(
    cluster: PermittedCluster,
    fleet: FleetOverview,
    ref: Ref,
    output: str,
    times: TimeFormat,
    now: datetime,
    choice: ClusterChoice,
) -> int:
    from gitops.cli.fleet_status import (
        explain_cluster,
        explain_placement,
        fleet_reference_as_json,
        placement_as_json,
    )

    if _FLEET_TYPES[ref.type.lower()] == "cluster":
        name = fleet.find(ref.name)
        lines, document = explain_cluster(fleet, name, choice, times, now), fleet_reference_as_json(fleet, name)
    else:
        found = fleet.placements_called(ref.name)
        texts = ([*explain_placement(progress, fleet), ""] for progress in found)
        lines = iter([*chain.from_iterable(texts)][:-1])
        document = {"placements": [placement_as_json(progress) for progress in found]}
    if output == "json":
        print_document(document, "json")
    else:
        echo("\n".join([format_header(cluster.name, times.format_full(now)), "", *lines]))
    return report_unreadable(cluster)


async def _explain_event(
    event: Ref, subject: Ref | None, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice
) -> int:
    from gitops.explain.event_effects import wakes
    from gitops.explain.waking import as_json, as_text

    clock = SystemClock()
    async with choice.connect() as cluster:
        effects = await wakes(cluster, event, subject, namespace or cluster.namespace, clock=clock)
    if output == "json":
        print_document(as_json(effects), "json")
    else:
        echo("\n".join([format_header(cluster.name, times.format_full(clock.now())), "", *as_text(effects)]))
    return 0


def _text(
    explanation: CauseChain, pods: Sequence[str], times: TimeFormat, now: datetime, choice: ClusterChoice
) -> Iterator[str]:
    yield from _summary_lines(explanation, times, now)
    if explanation.chain:
        yield ""
        yield from format_links(explanation.chain, times, now)
        yield from (f"     {pod_line}" for pod_line in pods)
    if explanation.other_causes:
        yield from ("", "Also:")
        yield from (
            f"  {cause.reason}  {' '.join(filter(None, (cause.node, cause.message)))}"
            for cause in explanation.other_causes
        )
    if explanation.key and (open_items := list(_open_lines(explanation, times, now))):
        yield from ("", *wrap(f"Open conditions: {', '.join(open_items)}.", _WIDTH, break_on_hyphens=False))
    if possible_actions := list(suggest_actions(explanation)):
        yield from ("", "Who can act")
        width = max(len(description) for description, _ in possible_actions)
        yield from (
            f"  {description:<{width}}  {choice.format_command(command_line)}"
            for description, command_line in possible_actions
        )


def _open_lines(explanation: CauseChain, times: TimeFormat, now: datetime) -> Iterator[str]:
    for window in explanation.open_windows:
        yield f"window {window.name} ({_format_last_start(window, times, now)})"
    for name, since in explanation.externals.items():
        yield f'external("{name}") = true (since {times.format_short(since, now)})'


def _summary_lines(explanation: CauseChain, times: TimeFormat, now: datetime) -> Iterator[str]:
    if explanation.record is not None:
        yield from _source_lines(explanation, times)
    elif explanation.rollout is not None:
        yield from _rollout_lines(explanation, times)
    elif explanation.key is None:
        yield from _window_lines(explanation, times, now)
    elif not explanation.chain:
        position = (
            f": {explanation.instance.applied}, settled"
            if explanation.instance and explanation.instance.is_settled
            else ""
        )
        yield f"{title(explanation.key)} matches Git{position}."
    else:
        yield _describe_position(explanation, times, now)
        not_before = f"Not before {times.format_full(explanation.not_before)}. " if explanation.not_before else ""
        yield f"{not_before}{_describe_failures(explanation)}"


def _describe_position(explanation: CauseChain, times: TimeFormat, now: datetime) -> str:
    """Return a sentence about the revision of an object and the change that waits.

    Example: `WebApp prod/shop stays at r12; r13 (9c1d2e7) waits since 14:02`.
    """
    instance_state, key = explanation.instance, explanation.key
    assert key is not None
    cause = next(link.cause for link in explanation.chain if isinstance(link, WaitingLink))
    since = instance_state.since if instance_state and instance_state.key == key else cause.since
    since_text = f" since {times.format_short(since, now)}" if since else ""
    if cause.reason is Reason.LEFT_BEHIND:
        return f"{title(key)} is left behind{since_text}."
    if instance_state is None or instance_state.key != key:
        return f"{title(key)} waits{since_text}."
    if instance_state.is_terminating:
        return f"{title(key)} is being deleted{since_text}."
    target, applied = instance_state.target, instance_state.applied
    if not applied.revision:
        return f"{title(key)} has not been applied yet; {target} waits{since_text}."
    if target == applied or not target.revision:
        return f"{title(key)} is at {applied} and not settled{since_text}."
    if target.revision == applied.revision:
        return f"{title(key)} stays at {applied}; {target.commit[:7]} waits{since_text}."
    if cause.node or cause.reason in _PROGRESS_REASONS:
        return f"{title(key)} is in flight from r{applied.revision} to {target}{since_text}."
    return f"{title(key)} stays at r{applied.revision}; {target} waits{since_text}."


def _describe_failures(explanation: CauseChain) -> str:
    needs_person = explanation.failures or explanation.left_behind
    return "The wait does not end by itself: a person must act." if needs_person else "Nothing has failed."


def _source_lines(explanation: CauseChain, times: TimeFormat) -> Iterator[str]:
    record = explanation.record
    assert record is not None
    settled = len(explanation.instances) - len(explanation.unsettled_instances)
    progress = f"{explanation.state}, {settled} of {record.counts.get('instances', 0)} instances settled"
    if record.target:
        verb = "followed" if explanation.is_unconfigured else "follows"
        yield f"{explanation.subject} {verb} {record.ref} at {record.target[:7]}: {progress}."
    yield from (
        describe_unconfigured(explanation.subject)
        if explanation.is_unconfigured
        else describe_unreadable(explanation.subject, record, times)
    )
    yield from _waiting_lines(explanation, times)


def _rollout_lines(explanation: CauseChain, times: TimeFormat) -> Iterator[str]:
    rollout = explanation.rollout
    assert rollout is not None
    targets = " and ".join(dict.fromkeys(map(str, rollout.targets.values())))
    settled, total = sum(wave.settled for wave in rollout.waves), sum(wave.total for wave in rollout.waves)
    yield f"{explanation.subject} to {targets}: {explanation.state}, {settled} of {total} instances settled."
    for wave in (wave for wave in rollout.waves if wave.total):
        counts = {"progressing": wave.moving, "failed": wave.failed, "held": wave.held, "waiting": wave.waiting}
        more_counts = "".join(f", {number} {word}" for word, number in counts.items() if number)
        yield f"  wave {wave.name}: {wave.settled} of {wave.total} settled{more_counts}; {wave.shape}"
    yield from _waiting_lines(explanation, times)
    if explanation.other_causes:
        yield "Levelgate rejects the newest version in Git; the last accepted version stays in force."


def _window_lines(explanation: CauseChain, times: TimeFormat, now: datetime) -> Iterator[str]:
    for window in explanation.open_windows:
        yield f"{explanation.subject} allows changes: {_format_last_start(window, times, now)}."
    yield (
        f"{explanation.subject} holds up:"
        if explanation.unsettled_instances or explanation.object_causes
        else f"Nothing waits for {explanation.subject}."
    )
    yield from _waiting_lines(explanation, times)


def _waiting_lines(explanation: CauseChain, times: TimeFormat) -> Iterator[str]:
    of_instances = (
        (title(waiting_instance.key), waiting_instance.reason, next(iter(waiting_instance.causes), None))
        for waiting_instance in explanation.unsettled_instances
    )
    of_objects = ((_object_title(cause_row), cause_row.reason, cause_row) for cause_row in explanation.object_causes)
    rows = [
        (f"  {name}", reason, f"not before {times.format_full(cause.until)}" if cause and cause.until else "")
        for name, reason, cause in islice(chain(of_instances, of_objects), _MAX_ROWS)
    ]
    yield from align_table(rows) if rows else ()
    if (more := len(explanation.unsettled_instances) + len(explanation.object_causes) - _MAX_ROWS) > 0:
        yield f"  and {more} more"


def _object_title(cause: Cause) -> str:
    return title(cause.object_key) if cause.object_key else ""


def _format_last_start(window: Window, times: TimeFormat, now: datetime) -> str:
    state = start_state(window, now)
    if state.until is None:
        return "always"
    start_text = times.format_short(state.until, now)
    return (
        f"last start {start_text}" if start_text == times.format_full(state.until) else f"last start today {start_text}"
    )
