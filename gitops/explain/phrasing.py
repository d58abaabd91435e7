"""The links of an explanation in words, and who can do something about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from applier.causes import Reason
from gitops.explain.explanation import CauseChain, ClosedWindowLink, Link, WaitingLink
from gitops.records.cause_rows import CauseRow
from gitops.records.instance_state import InstanceState
from gitops.records.source_record import SourceRecord
from gitops.rollouts.closed_windows import named
from gitops.rollouts.directives import moment
from gitops.rollouts.queue_position import QueuePosition
from gitops.text import place, title
from gitops.times import TimeFormat
from gitops.windows.window import WindowKind
from renderer.identity import ObjectKey
from renderer.phrasing import listed

_WORDS = {"Source": "source", "Definition": "rgd"}
"""What people call them."""

_WEBHOOK = re.compile(r'(failed calling|admission) webhook "([^"]*)"')
_ADMISSION_POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']*)'")
"""How the server names who refused, or did not answer."""

_WEBHOOKS = (
    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations "
    "-o custom-columns=KIND:.kind,NAME:.metadata.name,WEBHOOKS:.webhooks[*].name,ASKS:.webhooks[*].clientConfig.service.name"
)

_CORRECT = ("correct it, or take it back", "in Git: a fix, or git revert")


def links(chain: Sequence[Link], times: TimeFormat, now: datetime) -> Iterator[str]:
    """Numbered, with the reason first; what is told of each stands below it."""
    width = max((len(link.cause.reason) for link in chain if isinstance(link, WaitingLink)), default=0)
    for number, link in enumerate(chain, start=1):
        match link:
            case WaitingLink(cause=cause):
                yield f"{number:<3}{cause.reason:<{width}}  {_subject(link, times, now)}"
                yield from (f"     {line}" for line in _details(link, times, now))
            case ClosedWindowLink(closing=closing):
                since = f" since {times.short(closing.since, now)}" if closing.since else ""
                yield f"{number:<3}{named(closing.window)}, {closing.window.kind}, closed{since}"
                yield from (f"     {line}" for line in _openings(link, times))


def unread(source: str, record: SourceRecord, times: TimeFormat) -> Iterator[str]:
    """Since when and why the newest commit of a source is not known; nothing where it is."""
    if record.unreadable:
        since = moment(record.unreadable.since)
        yield f"{source} cannot be read{f' since {times.minute(since)}' if since else ''}: {record.unreadable.why}"
    if not record.target:
        yield f"No commit of {source} was taken yet."
    elif record.unreadable:
        yield f"What was read last ({record.target[:7]}) stays in force and is healed."


def left(source: str) -> Iterator[str]:
    """That a source is followed no more, and what to do about what it deployed."""
    yield f"{source} is configured no more: what it deployed stays as it is, and nobody heals or deletes it."
    yield "To hand it to another source, configure this one once more with a path that holds nothing; to delete it, approve that as well."


def _subject(link: WaitingLink, times: TimeFormat, now: datetime) -> str:
    """`wave prod of webapp.kro.run, exponential 2`, or `prod/cart, node database, StatefulSet/cart-db, since 14:45`."""
    cause, standing = link.cause, link.standing
    position = cause.details.get("position")
    if standing and standing.rollout and not cause.node and _is_of_rollout(cause):
        wave = f"wave {standing.wave} of " if standing.wave not in {"", "all"} else ""
        shape = f", {position['shape']}" if position else ""
        return f"{wave}{standing.rollout}{shape}"
    node = f"node {cause.node}" if cause.node and cause.node != cause.object else ""
    kind, _, object_name = cause.object.partition("/")
    is_other = object_name and cause.node and cause.object != str(link.key)
    told = f"{kind.partition('.')[0]}/{object_name.rpartition('/')[2]}" if is_other else ""
    since = f"since {times.short(cause.since, now)}" if cause.since else ""
    shape = position["shape"] if position else ""
    name = place(link.key) if standing else title(link.key)
    return ", ".join(filter(None, (name, node, told, shape, since)))


def _is_of_rollout(cause: CauseRow) -> bool:
    return cause.reason.is_turn or cause.reason in {Reason.APPROVAL_REQUIRED, Reason.HALTED}


def _details(link: WaitingLink, times: TimeFormat, now: datetime) -> Iterator[str]:
    cause = link.cause
    position, gates = cause.details.get("position"), cause.details.get("gates")
    if position and "limit" in position and cause.reason is not Reason.WAVE_NOT_REACHED:
        yield str(QueuePosition(**position))
        yield from _neighbours(link)
        yield from _rises(link, position)
    elif gates:
        for gate in gates:
            yield f"${{{gate['expression']}}}        {gate['at']}"
            yield from (f"  {line}" for line in gate.get("operands") or [gate.get("error", "")])
    else:
        yield cause.message
        yield from _neighbours(link)
    if cause.behind:
        yield f"behind it: {listed(cause.behind)}"
    if link.standing and link.standing.deadline and not cause.reason.is_hold and not cause.reason.is_failure:
        yield f"counts as failed after {times.short(link.standing.deadline, now)}"


def _neighbours(link: WaitingLink) -> Iterator[str]:
    told = {"settled": link.settled, "not settled": link.unsettled}
    words = [f"{word} {_names(names, link.key)}" for word, names in told.items() if names]
    if words:
        yield "; ".join(words)


def _names(names: Sequence[str], among: ObjectKey) -> str:
    """Without the namespace where it is the same."""
    return listed(name.removeprefix(f"{among.namespace}/") for name in names)


def _rises(link: WaitingLink, position: dict[str, Any]) -> Iterator[str]:
    if link.unsettled and position["then"] > position["limit"]:
        goes = f" and {link.cause.node or link.key.name} may start" if position["place"] <= position["then"] else ""
        verb = "settles" if len(link.unsettled) == 1 else "settle"
        limits = f"the limit rises from {position['limit']} to {position['then']}"
        yield f"when {_names(link.unsettled, link.key)} {verb} {limits}{goes}"


def _openings(link: ClosedWindowLink, times: TimeFormat) -> Iterator[str]:
    word = "ends " if link.closing.window.kind is WindowKind.DENY else "opens"
    if not link.opens:
        yield "never opens again" if word == "opens" else "has no end"
    for index, opening in enumerate(link.opens):
        yield f"{word if index == 0 else '     '}  {times.full(opening)}   {opening.astimezone(UTC):%H:%MZ}"


def actions(found: CauseChain) -> Iterator[tuple[str, str]]:
    """What can be done, and the command or the place for it; each once."""
    seen: set[str] = set()
    for index, link in enumerate(found.chain):
        for what, how in _actions(link, found.chain[:index], found):
            if how not in seen:
                seen.add(how)
                yield what, how


def _actions(link: Link, before: Sequence[Link], found: CauseChain) -> Iterator[tuple[str, str]]:
    match link:
        case ClosedWindowLink(closing=closing):
            window = closing.window
            holder = next((one for one in reversed(before) if isinstance(one, WaitingLink)), None)
            if (
                holder
                and holder.standing
                and not window.final
                and not any(one.kind == "Gate" for one in holder.cause.because)
            ):
                yield (
                    f"go past {holder.key.name}'s window",
                    f"levelgate break-glass {reference(holder.key)} --for 1h --reason ...",
                )
            yield f"change window {window.name}", f"in Git: {window.origin}"
        case WaitingLink(key=key, cause=cause, standing=standing):
            waits_for_it = before and isinstance(before[-1], WaitingLink) and before[-1].key != key
            if waits_for_it and standing and cause.reason.is_gate and cause.reason is not Reason.HELD:
                yield f"let the others pass {key.name}", f"levelgate hold {reference(key)} --reason ..."
            if standing and standing.file and cause.reason is Reason.RENDER_FAILED:
                yield f"change {place(key)}", f"in Git: {standing.file}"
            yield from _answers(key, cause, standing.rollout if standing else "", found)


def _answers(key: ObjectKey, cause: CauseRow, rollout: str, found: CauseChain) -> Iterator[tuple[str, str]]:
    match cause.reason:
        case Reason.APPLY_FAILED if webhook := _WEBHOOK.search(cause.message):
            is_silent, name = webhook[1] != "admission", webhook[2]
            yield ("repair what it calls, or delete it" if is_silent else f"see whose webhook {name} is"), _WEBHOOKS
            if not is_silent:
                yield _CORRECT
        case Reason.APPLY_FAILED if policy := _ADMISSION_POLICY.search(cause.message):
            yield "see what it wants, and whose it is", f"kubectl describe validatingadmissionpolicy {policy[1]}"
            yield _CORRECT
        case Reason.APPLY_FAILED | Reason.RENDER_FAILED:
            yield _CORRECT
        case Reason.UNHEALTHY:
            yield "see what is not healthy", f"levelgate tree {reference(key)}"
            yield _CORRECT
        case Reason.HALTED:
            yield _CORRECT
            yield "go on as it is", f"levelgate resume rollout/{rollout} --reason ..."
        case Reason.APPROVAL_REQUIRED if rollout:
            approval = cause.details.get("approval") or {}
            by = f"agree ({' or '.join(approval['by'])})" if approval.get("by") else "agree"
            yield by, f"levelgate approve rollout/{rollout} --after {approval.get('after', 'WAVE')} --reason ..."
        case Reason.HELD:
            yield "let it move again", f"levelgate release {reference(key)}"
        case Reason.SUSPENDED:
            wider = next((f"{_WORDS[one.kind]}/{one.name}" for one in cause.because if one.kind in _WORDS), "")
            yield "write to it again", f"levelgate resume {wider or reference(key)}"
        case Reason.HISTORY_REWRITTEN | Reason.UNSIGNED | Reason.APPROVAL_REQUIRED:
            yield "go to that commit", f"levelgate approve source/{found.source} --commit {found.offered[:12]}"
        case Reason.BRAKE_ENGAGED:
            yield "agree to the deletions", f"levelgate approve source/{found.source} --commit {found.commit[:12]}"
        case Reason.GATE_CLOSED | Reason.GATE_ERROR:
            for gate in cause.details.get("gates") or ():
                if gate["at"]:
                    yield "change the condition", f"in Git: {gate['at']}"


def blocker(standing: InstanceState | None, cause: CauseRow) -> str:
    """What a cause waits for, as a reference where there is one: `window/dba-hours`, `prod webapp/cart`, `rollout/webapp.kro.run`."""
    gates = cause.details.get("gates") or ()
    for one in cause.because:
        match one.kind:
            case "Window":
                return f"window/{one.name}"
            case "Instance" if standing:
                namespace, _, name = one.name.rpartition("/")
                return f"{namespace} {standing.key.kind.lower()}/{name}".strip()
            case "Node":
                return f"node {one.name}"
            case "Source" | "Definition":
                return f"{_WORDS[one.kind]}/{one.name}"
    if gates:
        return f"gate {gates[0]['at']}"
    is_of_instances = not cause.node or cause.reason is not Reason.PACE_REACHED  # items of a node have a pace alone
    if standing and standing.rollout and _is_of_rollout(cause) and is_of_instances:
        return f"rollout/{standing.rollout}"
    return f"node {cause.node}" if cause.node and cause.node != cause.object else ""


def reference(key: ObjectKey) -> str:
    """As commands take it: `webapp/cart -n prod`."""
    return f"{key.kind.lower()}/{key.name}" + (f" -n {key.namespace}" if key.namespace else "")
