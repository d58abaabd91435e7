"""Sentences of an explanation, and the actions by which people can end a wait."""

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
"""Type in a reference such as `source/platform`, for each kind of reference in a cause."""

_WEBHOOK = re.compile(r'(failed calling|admission) webhook "([^"]*)"')
"""Pattern of a webhook in the API server's message. `failed calling` means that the webhook did not answer."""
_ADMISSION_POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']*)'")
"""Pattern of an admission policy in the API server's message."""

_LIST_WEBHOOKS_COMMAND = (
    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations "
    "-o custom-columns=KIND:.kind,NAME:.metadata.name,WEBHOOKS:.webhooks[*].name,"
    "ASKS:.webhooks[*].clientConfig.service.name"
)

_MAX_LEFT_BEHIND = 10
"""Maximum number of objects left behind in the explanation of a source."""

_FIX_IN_GIT = ("correct or revert it", "in Git: a fix, or git revert")


def format_links(chain: Sequence[Link], times: TimeFormat, now: datetime) -> Iterator[str]:
    """Yield the numbered links of a chain. Each link starts with its reason, and its details follow, indented."""
    width = max((len(link.cause.reason) for link in chain if isinstance(link, WaitingLink)), default=0)
    for number, link in enumerate(chain, start=1):
        match link:
            case WaitingLink(cause=cause):
                yield f"{number:<3}{cause.reason:<{width}}  {_subject(link, times, now)}"
                yield from (f"     {line}" for line in _detail_lines(link, times, now))
            case ClosedWindowLink(closed_window=closed_window):
                since = f" since {times.format_short(closed_window.since, now)}" if closed_window.since else ""
                window = closed_window.window
                yield f"{number:<3}{format_window_name(window)}, {window.kind}, closed{since}"
                yield from (f"     {line}" for line in _openings(link, times))


def describe_unreadable(source: str, record: SourceRecord, times: TimeFormat) -> Iterator[str]:
    """Yield sentences about an unreadable source, or about a source without an accepted commit.

    For any other source, yield nothing.
    """
    if record.unreadable:
        since = parse_timestamp(record.unreadable.since)
        since_text = f" since {times.format_minute(since)}" if since else ""
        yield f"{source} cannot be read{since_text}: {record.unreadable.why}"
    if not record.target:
        yield f"Levelgate has not accepted a commit of {source} yet."
    elif record.unreadable:
        yield f"The last commit ({record.target[:7]}) stays in force, and Levelgate heals its objects."


def describe_unconfigured(source: str) -> Iterator[str]:
    """Yield the consequence for the objects of a source that is no longer configured, and the possible actions."""
    yield f"{source} is no longer configured. Levelgate neither heals nor prunes its objects in the cluster."
    yield (
        "To hand the objects over to another source, configure this source again with an empty path. "
        "To prune the objects, also approve the commit with the empty path."
    )


def _subject(link: WaitingLink, times: TimeFormat, now: datetime) -> str:
    """Return the subject of a link.

    Examples: `wave prod of webapp.kro.run, exponential 2`; `prod/cart, node database, StatefulSet/cart-db, since
    14:45`.
    """
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
    """Return whether the cause concerns the whole rollout, and not only one instance."""
    return cause.reason.is_queued or cause.reason in {Reason.APPROVAL_REQUIRED, Reason.HALTED}


def _detail_lines(link: WaitingLink, times: TimeFormat, now: datetime) -> Iterator[str]:
    """Yield the queue position, the values of the gates, or the message. Then yield the dependents and the deadline."""
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
    """Yield one line with the settled and the unsettled instances of the wave."""
    peers_by_word = {"settled": link.settled, "not settled": link.unsettled}
    words = [f"{word} {_format_names(names, link.key)}" for word, names in peers_by_word.items() if names]
    if words:
        yield "; ".join(words)


def _format_names(names: Sequence[str], subject: ObjectKey) -> str:
    """Return the names as text, without the namespace of `subject`."""
    return join_names(name.removeprefix(f"{subject.namespace}/") for name in names)


def _limit_rise(link: WaitingLink, position: dict[str, Any]) -> Iterator[str]:
    """Yield a line about the rise of the pace limit after the unsettled instances settle.

    If the limit does not rise, yield nothing.
    """
    if link.unsettled and position["then"] > position["limit"]:
        start_note = (
            f" and {link.cause.node or link.key.name} may start" if position["place"] <= position["then"] else ""
        )
        verb = "settles" if len(link.unsettled) == 1 else "settle"
        limits = f"the limit rises from {position['limit']} to {position['then']}"
        yield f"when {_format_names(link.unsettled, link.key)} {verb} {limits}{start_note}"


def _openings(link: ClosedWindowLink, times: TimeFormat) -> Iterator[str]:
    """Yield the next openings of a closed Allow window, or the next ends of a Deny window."""
    edge = "ends " if link.closed_window.window.kind is WindowKind.DENY else "opens"
    if not link.opens:
        yield "never opens again" if edge == "opens" else "has no end"
    for index, opening in enumerate(link.opens):
        yield f"{edge if index == 0 else '     '}  {times.format_full(opening)}   {opening.astimezone(UTC):%H:%MZ}"
    window = link.closed_window.window
    if window.drain.may_end_halfway:
        yield f"drain {window.drain.name.title()}: a started change may stay half-way; set drain: Instance to finish it"


def suggest_actions(explanation: CauseChain) -> Iterator[tuple[str, str]]:
    """Yield each action with its command, or with the place in Git to change. Yield no command twice."""
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
    """Yield the actions for one object left behind. For several objects, yield a command that explains each object."""
    if len(members) == 1:
        yield from members[0].actions
    else:
        yield from (
            (f"find the actions for {title(member.key)}", f"levelgate explain {member.key.command_reference}")
            for member in members[:_MAX_LEFT_BEHIND]
        )


def _link_actions(link: Link, earlier_links: Sequence[Link], explanation: CauseChain) -> Iterator[tuple[str, str]]:
    """Yield the actions for one link.

    Args:
        earlier_links: links of the chain before `link`.
    """
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
    """Yield the actions that remedy a cause, according to its reason."""
    match cause.reason:
        case Reason.APPLY_FAILED:
            yield from _apply_failed_actions(cause.message)
        case Reason.RENDER_FAILED:
            yield _FIX_IN_GIT
        case Reason.UNHEALTHY:
            yield "see the unhealthy nodes", f"levelgate tree {key.command_reference}"
            yield _FIX_IN_GIT
        case Reason.HALTED:
            yield _FIX_IN_GIT
            yield "resume the rollout", f"levelgate resume rollout/{rollout} --reason ..."
        case Reason.APPROVAL_REQUIRED if rollout:
            approval = cause.details.get("approval") or {}
            text = f"approve ({' or '.join(approval['by'])})" if approval.get("by") else "approve"
            yield text, f"levelgate approve rollout/{rollout} --after {approval.get('after', 'WAVE')} --reason ..."
        case Reason.HELD:
            yield _end_hold_action(key, cause, explanation)
        case Reason.SUSPENDED:
            yield "resume writes", f"levelgate resume {_reference_of_cause(key, cause, explanation)}"
        case Reason.HISTORY_REWRITTEN | Reason.UNSIGNED | Reason.APPROVAL_REQUIRED | Reason.BRAKE_ENGAGED:
            # The brake holds deletions of the accepted commit. The other reasons hold a commit before its acceptance.
            is_brake = cause.reason is Reason.BRAKE_ENGAGED
            commit = explanation.commit if is_brake else explanation.offered
            yield (
                f"approve the {'deletions' if is_brake else 'commit'}",
                f"levelgate approve source/{explanation.source} --commit {commit[:12]}",
            )
        case Reason.GATE_CLOSED | Reason.GATE_ERROR:
            places = (gate["at"] for gate in cause.details.get("gates") or ())
            yield from (("change the condition", f"in Git: {place}") for place in places if place)


def _apply_failed_actions(message: str) -> Iterator[tuple[str, str]]:
    """Yield the actions after a rejected write, from the parts of the server's message."""
    if webhook := _WEBHOOK.search(message):
        verb, name = webhook.groups()
        if verb == "admission":
            yield f"find the owner of webhook {name}", _LIST_WEBHOOKS_COMMAND
            yield _FIX_IN_GIT
        else:
            yield "repair the service of the webhook, or delete the webhook configuration", _LIST_WEBHOOKS_COMMAND
        return
    if policy := _ADMISSION_POLICY.search(message):
        yield "read the policy, and find its owner", f"kubectl describe validatingadmissionpolicy {policy[1]}"
    yield _FIX_IN_GIT


def _end_hold_action(key: ObjectKey, cause: Cause, explanation: CauseChain) -> tuple[str, str]:
    """Return the action that ends a hold, with its command. For a pinned source, the action is to unpin the source."""
    if key == source_parent(explanation.source) and not (cause.references or cause.object_key):
        return "follow its ref again", f"levelgate unpin source/{explanation.source}"
    reference = _reference_of_cause(key, cause, explanation)
    subject = "the source" if reference.startswith("source/") else "it"
    return f"release {subject}", f"levelgate release {reference}"


def _reference_of_cause(key: ObjectKey, cause: Cause, explanation: CauseChain) -> str:
    """Return the reference to name in a command that remedies a cause.

    If the cause comes from a source or definition, return that source or definition. Otherwise return the object.
    """
    wider = (f"{_REFERENCE_TYPES[ref.kind]}/{ref.name}" for ref in cause.references if ref.kind in _REFERENCE_TYPES)
    is_source = key == source_parent(explanation.source)
    return next(wider, f"source/{explanation.source}" if is_source else key.command_reference)


def describe_blocker(instance: InstanceState | None, cause: Cause) -> str:
    """Return the blocker of a cause: an object, window, source, definition, gate, node or rollout, as text.

    Examples: `window/dba-hours`, `prod webapp/cart`, `rollout/webapp.kro.run`.
    """
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
    # If the items of a node have a separate pace, the node waits for that pace, and not for the rollout.
    is_of_instances = not cause.node or cause.reason is not Reason.PACE_REACHED
    if instance and instance.rollout and _is_of_rollout(cause) and is_of_instances:
        return f"rollout/{instance.rollout}"
    return describe_node(cause)


def describe_node(cause: Cause) -> str:
    """Return a text such as `node database`, or an empty string if the cause has no node."""
    return f"node {cause.node}" if cause.node not in {"", str(cause.object_key or "")} else ""
