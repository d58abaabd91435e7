"""What people order of a rollout: halt, resume, approve. Each gives the state after it, with who, when and why in the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from gitops.propagation.policy import Policy
from gitops.propagation.state import Approval, Entry, Halt, RefusedOrder, State


def halt(state: State, *, by: str, why: str, now: datetime) -> State:
    """Stop at every target that is under way. Raises RefusedOrder without a reason, or where nothing is under way."""
    _reasoned("halt", why)
    targets = {target.revision: target for target in state.targets.values()}
    if not targets:
        raise RefusedOrder("nothing is being rolled out, so there is nothing to halt")
    halts = tuple(Halt(number, now, by, why) for number, target in targets.items() if not state.halt_of(target))
    names = ", ".join(map(str, targets.values()))
    return replace(state, halts=(*state.halts, *halts)).noted(Entry(now, "halted", names, by, why))


def resume(state: State, failed: Mapping[str, int], *, by: str, why: str, now: datetime) -> State:
    """Go on. The failures there are now, by wave, are accepted; one more than that, and more than the policy allows, halts again.

    Raises RefusedOrder without a reason, or where nothing is halted.
    """
    _reasoned("resume", why)
    if not state.halts:
        raise RefusedOrder("this rollout is not halted, so there is nothing to resume")
    names = ", ".join(f"r{halt.target}" if halt.target else "everything" for halt in state.halts)
    return replace(state, halts=(), forgiven=dict(failed)).noted(Entry(now, "resumed", names, by, why))


def approve(policy: Policy, state: State, after: str, *, by: str, why: str, now: datetime) -> State:
    """Agree that what is being rolled out goes on after this wave, or this number. Opens nothing else: what has to be healthy still has to be.

    Raises RefusedOrder where the policy asks for no approval there.
    """
    points = [str(point) for point in policy.approvals]
    if after not in points:
        known = f"it asks after {', '.join(points)}" if points else "it asks for none"
        raise RefusedOrder(f"policy {policy.name or '(default)'} asks for no approval after {after!r}; {known}")
    targets = sorted({target.revision for target in state.targets.values()})
    missing = [
        number for number in targets if not any((one.target, one.after) == (number, after) for one in state.approvals)
    ]
    approvals = tuple(Approval(number, after, now, by, why) for number in missing)
    entries = [Entry(now, "approved", f"r{number} after {after}", by, why) for number in missing]
    return replace(state, approvals=(*state.approvals, *approvals)).noted(*entries)


def _reasoned(what: str, why: str) -> None:
    if not why.strip():
        raise RefusedOrder(f"{what} needs a reason, so that others know why; say it with --reason")
