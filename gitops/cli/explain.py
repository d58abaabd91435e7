"""`levelgate explain`: why something is not as Git says, until when, and who can act."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from textwrap import wrap
from typing import Any

import click

from applier.causes import CauseRef, Reason
from gitops.cli import program_version
from gitops.cli.options import ClusterChoice, cluster_options, utc_option, whole
from gitops.cli.terminal import echo, tell
from gitops.cli.typed import typed
from gitops.clock import SystemClock
from gitops.explain.explainer import explain
from gitops.explain.explanation import CauseChain, ClosedWindowLink, Link, WaitingLink
from gitops.explain.phrasing import actions, left, links, unread
from gitops.explain.pods import stuck
from gitops.records.cause_rows import CauseRow, timestamp
from gitops.records.instance_state import RevisionAtCommit, everything_suspended
from gitops.records.references import Ref
from gitops.records.source_record import SourceRecord
from gitops.text import aligned, title
from gitops.times import TimeFormat
from gitops.windows.verdict import startable
from gitops.windows.window import Window
from renderer.identity import ObjectKey

_MOST = 10
_WIDTH = 79
_ON_ITS_WAY = frozenset({Reason.PROGRESSING, Reason.BAKING, Reason.UNHEALTHY, Reason.APPLY_FAILED})


@click.command()
@click.argument("ref", nargs=-1)
@click.option("--event", metavar="TYPE/NAME", help="Show instead whom a change of this object wakes, and why.")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the object.  [default: the context's]")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@utc_option
@cluster_options
def command(
    ref: tuple[str, ...], event: str | None, namespace: str | None, output: str, utc: bool, choice: ClusterChoice
) -> int:
    """Show why REF is not as Git says: what it waits for, what that waits for, when it can end, and who can act.

    REF is an instance, one of its nodes, any object from Git, a source, a rollout or a window. It asks the cluster alone: what
    it shows is what the last pass wrote down.

    With --event it shows which instances are looked at when that object is created, changed or deleted; with a REF only whether REF
    is. For that, what the cluster keeps is rendered anew, so it is exact for what has been deployed.

    \b
    levelgate explain webapp/shop -n prod
    levelgate explain webapp/shop/database -n prod
    levelgate explain deployment/shop -n prod
    levelgate explain rollout/webapp.kro.run
    levelgate explain source/platform -o json
    levelgate explain --event configmap/settings -n prod
    levelgate explain webapp/shop --event configmap/settings -n prod
    """
    if event:
        subject = typed(ref) if ref else None
        return asyncio.run(_event(typed([event]), subject, namespace, output, TimeFormat(utc), choice))
    wanted = typed(ref)
    return asyncio.run(_explain(wanted, namespace, output, TimeFormat(utc), choice))


async def _explain(ref: Ref, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice) -> int:
    now = SystemClock().now()
    async with choice.readable(namespace) as (cluster, place):
        found = await explain(cluster, ref, place, now=now)
        pods = await stuck(cluster, workload) if (workload := found.last_object) else ()
        stopped = await everything_suspended(cluster, now)
    if output == "json":
        tell({**_as_json(found), "pods": list(pods)}, "json")
    else:
        header = f"Cluster {cluster.name}, {times.full(now)}, levelgate {program_version()}"
        echo("\n".join([header, *filter(None, [stopped]), "", *_text(found, pods, times, now, choice)]))
    return whole(cluster)


async def _event(
    event: Ref, subject: Ref | None, namespace: str | None, output: str, times: TimeFormat, choice: ClusterChoice
) -> int:
    from gitops.explain.event_effects import wakes
    from gitops.explain.waking import as_json, as_text

    clock = SystemClock()
    async with choice.connected() as cluster:
        found = await wakes(cluster, event, subject, namespace or cluster.namespace, clock=clock)
    if output == "json":
        tell(as_json(found), "json")
    else:
        header = f"Cluster {cluster.name}, {times.full(clock.now())}, levelgate {program_version()}"
        echo("\n".join([header, "", *as_text(found)]))
    return 0


def _text(
    found: CauseChain, pods: Sequence[str], times: TimeFormat, now: datetime, choice: ClusterChoice
) -> Iterator[str]:
    yield from _sentences(found, times, now)
    if found.chain:
        yield ""
        yield from links(found.chain, times, now)
        yield from (f"     {told}" for told in pods)
    if found.others:
        yield from ("", "Also:")
        yield from (
            f"  {cause.reason}  {' '.join(filter(None, (cause.node, cause.message)))}" for cause in found.others
        )
    if found.key and (opened := list(_open(found, times, now))):
        yield from ("", *wrap(f"Open, checked too: {', '.join(opened)}.", _WIDTH, break_on_hyphens=False))
    if acts := list(actions(found)):
        yield from ("", "Who can act")
        width = max(len(what) for what, _ in acts)
        yield from (f"  {what:<{width}}  {choice.told(how)}" for what, how in acts)


def _open(found: CauseChain, times: TimeFormat, now: datetime) -> Iterator[str]:
    for window in found.open:
        yield f"window {window.name} ({_last_start(window, times, now)})"
    for name, since in found.externals.items():
        yield f'external("{name}") = true (since {times.short(since, now)})'


def _sentences(found: CauseChain, times: TimeFormat, now: datetime) -> Iterator[str]:
    if found.record is not None:
        yield from _source(found, times)
    elif found.rollout is not None:
        yield from _rollout(found, times)
    elif found.key is None:
        yield from _window(found, times, now)
    elif not found.chain:
        at = f": {found.standing.applied}, settled" if found.standing and found.standing.is_settled else ""
        yield f"{title(found.key)} is as Git says{at}."
    else:
        yield _where(found, times, now)
        yield " ".join([*_not_before(found, times), _failed(found)])


def _where(found: CauseChain, times: TimeFormat, now: datetime) -> str:
    """`WebApp prod/shop stays at r12; r13 (9c1d2e7) waits since 14:02.`"""
    standing, key = found.standing, found.key
    assert key is not None
    cause = next(link.cause for link in found.chain if isinstance(link, WaitingLink))
    since = standing.since if standing and standing.key == key else cause.since
    lasts = f" since {times.short(since, now)}" if since else ""
    if standing is None or standing.key != key:
        return f"{title(key)} waits{lasts}."
    if standing.is_leaving:
        return f"{title(key)} is being deleted, and not gone yet{lasts}."
    target, applied = standing.target, standing.applied
    if not applied.revision:
        return f"{title(key)} has not been applied yet; {target} waits{lasts}."
    if target == applied or not target.revision:
        return f"{title(key)} is at {applied} and not settled{lasts}."
    if target.revision == applied.revision:
        return f"{title(key)} stays at {applied}; {target.commit[:7]} waits{lasts}."
    if cause.node or cause.reason in _ON_ITS_WAY:
        return f"{title(key)} is on its way from r{applied.revision} to {target}{lasts}."
    return f"{title(key)} stays at r{applied.revision}; {target} waits{lasts}."


def _not_before(found: CauseChain, times: TimeFormat) -> Iterator[str]:
    if found.not_before:
        yield f"Not before {times.full(found.not_before)}."


def _failed(found: CauseChain) -> str:
    return "Nothing has failed." if not found.failures else "Time alone does not help: somebody has to act."


def _source(found: CauseChain, times: TimeFormat) -> Iterator[str]:
    record = found.record
    assert record is not None
    count, settled = record.counts.get("instances", 0), len(found.instances) - len(found.waiting)
    how_far = f"{found.state}, {settled} of {count} instances settled"
    if record.target:
        yield f"{found.unit} {'followed' if found.is_left else 'follows'} {record.ref} at {record.target[:7]}: {how_far}."
    yield from left(found.unit) if found.is_left else unread(found.unit, record, times)
    yield from _waiting(found, times)


def _rollout(found: CauseChain, times: TimeFormat) -> Iterator[str]:
    rollout = found.rollout
    assert rollout is not None
    targets = " and ".join(dict.fromkeys(map(str, rollout.targets.values())))
    settled, total = sum(wave.settled for wave in rollout.waves), sum(wave.total for wave in rollout.waves)
    yield f"{found.unit} to {targets}: {found.state}, {settled} of {total} instances settled."
    for wave in (wave for wave in rollout.waves if wave.total):
        counts = {"moving": wave.moving, "failed": wave.failed, "held": wave.held, "wait": wave.waiting}
        rest = "".join(f", {number} {word}" for word, number in counts.items() if number)
        yield f"  wave {wave.name}: {wave.settled} of {wave.total} settled{rest}; {wave.shape}"
    yield from _waiting(found, times)
    if found.others:
        yield "What Git says of it now is refused; what was accepted last stays in force."


def _window(found: CauseChain, times: TimeFormat, now: datetime) -> Iterator[str]:
    for window in found.open:
        yield f"{found.unit} lets pass: {_last_start(window, times, now)}."
    yield f"{found.unit} holds up:" if found.waiting or found.objects else f"Nothing waits for {found.unit}."
    yield from _waiting(found, times)


def _waiting(found: CauseChain, times: TimeFormat) -> Iterator[str]:
    of_instances = ((title(one.key), one.reason, next(iter(one.causes), None)) for one in found.waiting)
    of_objects = ((_called(one), one.reason, one) for one in found.objects)
    rows = [
        (f"  {name}", reason, f"not before {times.full(cause.until)}" if cause and cause.until else "")
        for name, reason, cause in islice(chain(of_instances, of_objects), _MOST)
    ]
    yield from aligned(rows) if rows else ()
    if (more := len(found.waiting) + len(found.objects) - _MOST) > 0:
        yield f"  and {more} more"


def _called(cause: CauseRow) -> str:
    key = ObjectKey.parse(cause.object)
    return title(key) if key else cause.object


def _last_start(window: Window, times: TimeFormat, now: datetime) -> str:
    state = startable(window, now)
    if state.until is None:
        return "always"
    told = times.short(state.until, now)
    return f"last start {told}" if told == times.full(state.until) else f"last start today {told}"


def _as_json(found: CauseChain) -> dict[str, Any]:
    """The stable contract of `explain -o json` (docs/reference.md)."""
    standing = found.standing
    return {
        "unit": found.unit,
        "state": found.state,
        "notBefore": _time(found.not_before),
        "blockedBy": [_because(one) for one in found.blocked_by],
        "chain": [_link(link) for link in found.chain],
        "others": [_cause(cause) for cause in found.others],
        "open": [window.name for window in found.open],
        "externals": [{"name": name, "since": _time(since)} for name, since in found.externals.items()],
        "waiting": [*(str(one.key) for one in found.waiting), *(one.object for one in found.objects)],
        **({"target": _pair(standing.target), "applied": _pair(standing.applied)} if standing else {}),
        **({"unreadable": _unreadable(found.record)} if found.record else {}),
    }


def _unreadable(record: SourceRecord) -> dict[str, str] | None:
    """Since when and why the newest commit of a source is not known."""
    return record.unreadable._asdict() if record.unreadable else None


def _link(link: Link) -> dict[str, Any]:
    match link:
        case WaitingLink(key=key, cause=cause):
            return {"unit": str(key), **_cause(cause), "settled": list(link.settled), "unsettled": list(link.unsettled)}
        case ClosedWindowLink(closing=closing, opens=opens):
            window = closing.window
            told = {"window": window.name, "source": closing.source, "kind": window.kind, "ticket": window.ticket}
            times = {"since": _time(closing.since), "until": _time(closing.until)}
            return {**told, **times, "opens": [_time(moment) for moment in opens]}


def _cause(cause: CauseRow) -> dict[str, Any]:
    return {
        "reason": cause.reason,
        "message": cause.message,
        "node": cause.node,
        "object": cause.object,
        "since": _time(cause.since),
        "until": _time(cause.until),
        "blockedBy": [_because(one) for one in cause.because],
        **cause.details,
    }


def _because(one: CauseRef) -> dict[str, Any]:
    times = {"since": _time(one.since), "until": _time(one.until)}
    return {"kind": one.kind, "name": one.name, "reason": one.reason, **times}


def _pair(pair: RevisionAtCommit) -> dict[str, Any]:
    return {"revision": pair.revision, "commit": pair.commit}


def _time(moment: datetime | None) -> str | None:
    return timestamp(moment) if moment else None
