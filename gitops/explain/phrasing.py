"""The links of an explanation in words, and who can do something about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from applier.causes import Cause, Reason
from gitops.explain.explanation import CauseChain, ClosedWindowLink, Link, WaitingLink
from gitops.records.instance_state import InstanceState
from gitops.records.left_behind import LeftBehindMember
from gitops.records.source_record import SourceRecord
from gitops.rollouts.closed_windows import format_window_name
from gitops.rollouts.queue_position import QueuePosition
from gitops.text import TimeFormat, title
from gitops.timestamps import parse_timestamp
from gitops.windows.window import WindowKind
from renderer.identity import ObjectKey, source_parent
from renderer.phrasing import join_names

_REFERENCE_TYPES = {"Source": "source", "Definition": "rgd"}
"""What people call them."""

_WEBHOOK = re.compile(r'(failed calling|admission) webhook "([^"]*)"')
_ADMISSION_POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']*)'")
"""How the server names who refused, or did not answer."""

_LIST_WEBHOOKS_COMMAND = (
    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations "
    "-o custom-columns=KIND:.kind,NAME:.metadata.name,WEBHOOKS:.webhooks[*].name,ASKS:.webhooks[*].clientConfig.service.name"
)

_MAX_LEFT_BEHIND = 10
"""Members left behind of which an explanation of their source says where more is told."""

_FIX_IN_GIT = ("correct or revert it", "in Git: a fix, or git revert")


def format_links(chain: Sequence[Link], times: TimeFormat, now: datetime) -> Iterator[str]:
    """Numbered, with the reason first; what is told of each stands below it."""
    width = max((len(link.cause.reason) for link in chain if isinstance(link, WaitingLink)), default=0)
    for number, link in enumerate(chain, start=1):
        match link:
            case WaitingLink(cause=cause):
                yield f"{number:<3}{cause.reason:<{width}}  {_subject(link, times, now)}"
                yield from (f"     {line}" for line in _detail_lines(link, times, now))
            case ClosedWindowLink(closed_window=closed_window):
                since = f" since {times.format_short(closed_window.since, now)}" if closed_window.since else ""
                yield f"{number:<3}{format_window_name(closed_window.window)}, {closed_window.window.kind}, closed{since}"
                yield from (f"     {line}" for line in _openings(link, times))


def describe_unreadable(source: str, record: SourceRecord, times: TimeFormat) -> Iterator[str]:
    """Since when and why the newest commit of a source is not known; nothing where it is."""
    if record.unreadable:
        since = parse_timestamp(record.unreadable.since)
        yield f"{source} cannot be read{f' since {times.format_minute(since)}' if since else ''}: {record.unreadable.why}"
    if not record.target:
        yield f"No commit of {source} was accepted yet."
    elif record.unreadable:
        yield f"The last commit ({record.target[:7]}) stays in force and is healed."


def describe_unconfigured(source: str) -> Iterator[str]:
    """That a source is followed no more, and what to do about what it deployed."""
    yield f"{source} is no longer configured. Its objects remain in the cluster and are neither healed nor pruned."
    yield "To hand them over to another source, configure this one again with an empty path. To prune them, approve that commit as well."


def _subject(link: WaitingLink, times: TimeFormat, now: datetime) -> str:
    """`wave prod of webapp.kro.run, exponential 2`, or `prod/cart, node database, StatefulSet/cart-db, since 14:45`."""
    cause, instance = link.cause, link.instance
    position = cause.details.get("position")
    if instance and instance.rollout and not cause.node and _is_of_rollout(cause):
        wave = f"wave {instance.wave} of " if instance.wave not in {"", "all"} else ""
        shape = f", {position['shape']}" if position else ""
        return f"{wave}{instance.rollout}{shape}"
    key = cause.object_key
    object_text = f"{key.kind}/{key.name}" if key and cause.node and key != link.key else ""
    since = f"since {times.format_short(cause.since, now)}" if cause.since else ""
    shape = position["shape"] if position else ""
    name = link.key.qualified_name if instance else title(link.key)
    return ", ".join(filter(None, (name, describe_node(cause), object_text, shape, since)))


def _is_of_rollout(cause: Cause) -> bool:
    return cause.reason.is_queued or cause.reason in {Reason.APPROVAL_REQUIRED, Reason.HALTED}


def _detail_lines(link: WaitingLink, times: TimeFormat, now: datetime) -> Iterator[str]:
    cause = link.cause
    position, gates = cause.details.get("position"), cause.details.get("gates")
    if position and "limit" in position and cause.reason is not Reason.WAVE_NOT_REACHED:
        yield str(QueuePosition(**position))
        yield from _wave_peers(link)
        yield from _limit_rise(link, position)
    elif gates:
        for gate in gates:
            yield f"${{{gate['expression']}}}        {gate['at']}"
            yield from (f"  {line}" for line in gate.get("operands") or [gate.get("error", "")])
    else:
        yield cause.message
        yield from _wave_peers(link)
    if cause.dependents:
        yield f"dependents: {join_names(cause.dependents)}"
    if link.instance and link.instance.deadline and not cause.reason.is_hold and not cause.reason.is_failure:
        yield f"counts as failed after {times.format_short(link.instance.deadline, now)}"


def _wave_peers(link: WaitingLink) -> Iterator[str]:
    peers_by_word = {"settled": link.settled, "not settled": link.unsettled}
    words = [f"{word} {_format_names(names, link.key)}" for word, names in peers_by_word.items() if names]
    if words:
        yield "; ".join(words)


def _format_names(names: Sequence[str], subject: ObjectKey) -> str:
    """Without the namespace where it is the same."""
    return join_names(name.removeprefix(f"{subject.namespace}/") for name in names)


def _limit_rise(link: WaitingLink, position: dict[str, Any]) -> Iterator[str]:
    if link.unsettled and position["then"] > position["limit"]:
        start_note = (
            f" and {link.cause.node or link.key.name} may start" if position["place"] <= position["then"] else ""
        )
        verb = "settles" if len(link.unsettled) == 1 else "settle"
        limits = f"the limit rises from {position['limit']} to {position['then']}"
        yield f"when {_format_names(link.unsettled, link.key)} {verb} {limits}{start_note}"


def _openings(link: ClosedWindowLink, times: TimeFormat) -> Iterator[str]:
    edge = "ends " if link.closed_window.window.kind is WindowKind.DENY else "opens"
    if not link.opens:
        yield "never opens again" if edge == "opens" else "has no end"
    for index, opening in enumerate(link.opens):
        yield f"{edge if index == 0 else '     '}  {times.format_full(opening)}   {opening.astimezone(UTC):%H:%MZ}"
    window = link.closed_window.window
    if window.drain.may_end_halfway:
        yield f"drain {window.drain.name.title()}: what has begun may stay half-way until then; Instance finishes it"


def suggest_actions(explanation: CauseChain) -> Iterator[tuple[str, str]]:
    """What can be done, and the command or the place for it; each once."""
    seen: set[str] = set()
    of_links = (
        possible_action
        for index, link in enumerate(explanation.chain)
        for possible_action in _link_actions(link, explanation.chain[:index], explanation)
    )
    for action, command in chain(of_links, _left_behind_actions(explanation.left_behind)):
        if command not in seen:
            seen.add(command)
            yield action, command


def _left_behind_actions(members: Sequence[LeftBehindMember]) -> Iterator[tuple[str, str]]:
    """What can be done about one; of several, where that is told."""
    if len(members) == 1:
        yield from members[0].actions
    else:
        yield from (
            (f"what to do about {title(member.key)}", f"levelgate explain {member.key.command_reference}")
            for member in members[:_MAX_LEFT_BEHIND]
        )


def _link_actions(link: Link, earlier_links: Sequence[Link], explanation: CauseChain) -> Iterator[tuple[str, str]]:
    match link:
        case ClosedWindowLink(closed_window=closed_window):
            window = closed_window.window
            waiting_link = next(
                (earlier for earlier in reversed(earlier_links) if isinstance(earlier, WaitingLink)), None
            )
            if (
                waiting_link
                and not window.forbids_break_glass
                and not any(ref.kind == "Gate" for ref in waiting_link.cause.references)
            ):
                what = _reference_of_cause(waiting_link.key, waiting_link.cause, explanation)
                yield (
                    f"bypass the window of {waiting_link.key.name}",
                    f"levelgate break-glass {what} --for 1h --reason ...",
                )
            yield f"change window {window.name}", f"in Git: {window.origin}"
        case WaitingLink(key=key, cause=cause, instance=instance):
            waits_for_it = earlier_links and isinstance(earlier_links[-1], WaitingLink) and earlier_links[-1].key != key
            if waits_for_it and instance and cause.reason.is_missing_permission and cause.reason is not Reason.HELD:
                yield f"let the others pass {key.name}", f"levelgate hold {key.command_reference} --reason ..."
            if instance and instance.file and cause.reason is Reason.RENDER_FAILED:
                yield f"change {key.qualified_name}", f"in Git: {instance.file}"
            yield from _reason_actions(key, cause, instance.rollout if instance else "", explanation)


def _reason_actions(key: ObjectKey, cause: Cause, rollout: str, explanation: CauseChain) -> Iterator[tuple[str, str]]:
    match cause.reason:
        case Reason.APPLY_FAILED if webhook := _WEBHOOK.search(cause.message):
            is_silent, name = webhook[1] != "admission", webhook[2]
            yield (
                (
                    "repair the service of the webhook, or delete its configuration"
                    if is_silent
                    else f"find the owner of webhook {name}"
                ),
                _LIST_WEBHOOKS_COMMAND,
            )
            if not is_silent:
                yield _FIX_IN_GIT
        case Reason.APPLY_FAILED if policy := _ADMISSION_POLICY.search(cause.message):
            yield "read the policy, and find its owner", f"kubectl describe validatingadmissionpolicy {policy[1]}"
            yield _FIX_IN_GIT
        case Reason.APPLY_FAILED | Reason.RENDER_FAILED:
            yield _FIX_IN_GIT
        case Reason.UNHEALTHY:
            yield "see what is not healthy", f"levelgate tree {key.command_reference}"
            yield _FIX_IN_GIT
        case Reason.HALTED:
            yield _FIX_IN_GIT
            yield "resume the rollout", f"levelgate resume rollout/{rollout} --reason ..."
        case Reason.APPROVAL_REQUIRED if rollout:
            approval = cause.details.get("approval") or {}
            text = f"approve ({' or '.join(approval['by'])})" if approval.get("by") else "approve"
            yield text, f"levelgate approve rollout/{rollout} --after {approval.get('after', 'WAVE')} --reason ..."
        case Reason.HELD if key == source_parent(explanation.source) and not (cause.references or cause.object_key):
            yield "follow its ref again", f"levelgate unpin source/{explanation.source}"
        case Reason.HELD:
            what = _reference_of_cause(key, cause, explanation)
            yield f"release {'the source' if what.startswith('source/') else 'it'}", f"levelgate release {what}"
        case Reason.SUSPENDED:
            yield "resume writes", f"levelgate resume {_reference_of_cause(key, cause, explanation)}"
        case Reason.HISTORY_REWRITTEN | Reason.UNSIGNED | Reason.APPROVAL_REQUIRED:
            yield (
                "approve the commit",
                f"levelgate approve source/{explanation.source} --commit {explanation.offered[:12]}",
            )
        case Reason.BRAKE_ENGAGED:
            yield (
                "approve the deletions",
                f"levelgate approve source/{explanation.source} --commit {explanation.commit[:12]}",
            )
        case Reason.GATE_CLOSED | Reason.GATE_ERROR:
            for gate in cause.details.get("gates") or ():
                if gate["at"]:
                    yield "change the condition", f"in Git: {gate['at']}"


def _reference_of_cause(key: ObjectKey, cause: Cause, explanation: CauseChain) -> str:
    """What a person has to name to answer a cause: something wider that it comes from, else the object."""
    wider = (f"{_REFERENCE_TYPES[ref.kind]}/{ref.name}" for ref in cause.references if ref.kind in _REFERENCE_TYPES)
    is_source = key == source_parent(explanation.source)
    return next(wider, f"source/{explanation.source}" if is_source else key.command_reference)


def describe_blocker(instance: InstanceState | None, cause: Cause) -> str:
    """What a cause waits for, as a reference where there is one: `window/dba-hours`, `prod webapp/cart`, `rollout/webapp.kro.run`."""
    gates = cause.details.get("gates") or ()
    for ref in cause.references:
        match ref.kind:
            case "Window":
                return f"window/{ref.name}"
            case "Instance" if instance:
                namespace, _, name = ref.name.rpartition("/")
                return f"{namespace} {instance.key.kind.lower()}/{name}".strip()
            case "Node":
                return f"node {ref.name}"
            case "Source" | "Definition":
                return f"{_REFERENCE_TYPES[ref.kind]}/{ref.name}"
    if gates:
        return f"gate {gates[0]['at']}"
    is_of_instances = not cause.node or cause.reason is not Reason.PACE_REACHED  # items of a node have a pace alone
    if instance and instance.rollout and _is_of_rollout(cause) and is_of_instances:
        return f"rollout/{instance.rollout}"
    return describe_node(cause)


def describe_node(cause: Cause) -> str:
    """Return `node database`; empty where the cause is of no node, or of an object without one."""
    return f"node {cause.node}" if cause.node not in {"", str(cause.object_key or "")} else ""
