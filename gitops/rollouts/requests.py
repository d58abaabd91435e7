"""Requests of people to a rollout: halt, resume, approve.

A request yields a new state of the rollout, with a decision in the log of that state. A request is an annotation on the
record of the rollout. So a person with the RBAC verb `patch` on the record can make requests. Levelgate executes or
rejects each request once, because the write that records the result removes the annotation. Levelgate applies halts
last. If a halt and a resume arrive together, the halt wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from applier.cluster import Object
from applier.state.observed import annotation
from gitops.rollouts.directives import requester_of
from gitops.rollouts.policy import Policy
from gitops.rollouts.state import (
    HALTED,
    MAX_TEXT_CHARACTERS,
    PROPOSED,
    Approval,
    DecisionRecord,
    Halt,
    RequestRefused,
    Revert,
    RolloutState,
)
from renderer import well_known
from renderer.frozen import dataclass

REQUEST_ACTIONS: Final = (well_known.PROPOSED, well_known.RESUME, well_known.APPROVE, well_known.HALT)
"""Keys of the annotations that are requests, in the order of execution.

The reviewer of pull requests writes `well_known.PROPOSED`. People write the other annotations.
"""

REQUEST_KEYS: Final = (*REQUEST_ACTIONS, well_known.APPROVE_REASON, well_known.REQUESTED_BY)
"""Keys of all annotations of requests and their details.

When Levelgate answers a request, Levelgate removes these annotations.
"""


GIT_AUTHOR: Final = "Git"
"""Author of a halt that the definition in Git requests."""


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """Request to a rollout, from one annotation on the record of the rollout."""

    key: str
    """Key of the annotation."""
    value: str
    """Value of the annotation."""
    by: str
    """Name that the author gave, or the field manager of the annotation if the name is missing."""
    why: str
    """Reason that the author gives."""

    @property
    def name(self) -> str:
        """Return the key without its prefix, such as `halt`."""
        return self.key.rpartition("/")[2]


def parse_requests(record: Object) -> tuple[RolloutRequest, ...]:
    """Return the requests on the record of a rollout, in the order of execution.

    An annotation with an empty value is also a request. Its rejection gives the author an answer.
    """
    present_keys = [key for key in REQUEST_ACTIONS if key in (record["metadata"].get("annotations") or {})]
    return tuple(
        RolloutRequest(
            key,
            value=annotation(record, key),
            by=requester_of(record, key),
            why=annotation(record, well_known.APPROVE_REASON if key == well_known.APPROVE else key),
        )
        for key in present_keys
    )


def apply_requests(
    state: RolloutState,
    rollout_requests: Iterable[RolloutRequest],
    policy: Policy,
    failed: Mapping[str, int],
    *,
    now: datetime,
) -> RolloutState:
    """Return `state` after `rollout_requests`, in their order.

    For a rejected request, add only a decision with the reason of the rejection.

    Args:
        failed: number of failed items by name of the wave.
    """
    for request in rollout_requests:
        try:
            match request.key:
                case well_known.PROPOSED:
                    state = record_proposal(state, request.value, now=now)
                case well_known.HALT:
                    state = halt(state, by=request.by, why=request.why, now=now)
                case well_known.RESUME:
                    state = resume(state, failed, by=request.by, why=request.why, now=now)
                case _:
                    state = approve(policy, state, request.value, by=request.by, why=request.why, now=now)
        except RequestRefused as refused:
            state = _record_refusal(state, request, str(refused), now)
    return state


def apply_requests_blind(
    state: RolloutState, rollout_requests: Iterable[RolloutRequest], *, now: datetime
) -> RolloutState:
    """Return `state` after `rollout_requests` to a rollout whose instances are unreadable.

    Apply a halt and the result of a proposed revert, because both need no instances. Reject all other requests.
    """
    for request in rollout_requests:
        if request.key in {well_known.PROPOSED, well_known.HALT}:
            state = apply_requests(state, [request], Policy(), {}, now=now)
        else:
            state = _record_refusal(state, request, "no instance of this rollout can be read now; try again", now)
    return state


def _record_refusal(state: RolloutState, request: RolloutRequest, why: str, now: datetime) -> RolloutState:
    return state.with_decision(
        DecisionRecord(now, "refused", f"{request.name} {request.value}".strip(), request.by, why)
    )


def halt(state: RolloutState, *, by: str, why: str, now: datetime) -> RolloutState:
    """Return `state` with a halt of every target that has not completed.

    Raises: RequestRefused if `why` is empty or every target has completed.
    """
    _require_reason("halt", why)
    targets = {target.revision: target for target in state.targets.values() if target != state.completed}
    if not targets:
        raise RequestRefused("this rollout is not in progress; nothing to halt")
    halts = tuple(Halt(number, now, by, why) for number, target in targets.items() if not state.halt_of(target))
    names = ", ".join(map(str, targets.values()))
    return replace(state, halts=(*state.halts, *halts)).with_decision(DecisionRecord(now, HALTED, names, by, why))


def with_git_halt(state: RolloutState, why: str, *, now: datetime) -> RolloutState:
    """Return `state` with the halt that the definition in Git requests, or without that halt if `why` is empty.

    While Git requests the halt, the halt also applies to every new target. A halt by a person applies only to present
    targets. With `onHalt: RollBack`, no wave has the halted revision as its target any more. The halt stays even then,
    or else the waves would move to that revision again.
    """
    other_halts = tuple(halt for halt in state.halts if halt.by != GIT_AUTHOR)
    git_halts = {halt.target: halt for halt in state.halts if halt.by == GIT_AUTHOR}
    completed = {state.completed.revision} if state.completed else set[int]()
    halted = {target.revision for target in state.targets.values()} | git_halts.keys() if why else set[int]()
    targets = halted - completed
    known_halts = {number: halt for number, halt in git_halts.items() if halt.why == why}
    halts = tuple(known_halts.get(number) or Halt(number, now, GIT_AUTHOR, why) for number in sorted(targets))
    new_state = replace(state, halts=(*other_halts, *halts))
    if added := ", ".join(f"r{number}" for number in sorted(targets - known_halts.keys())):
        return new_state.with_decision(DecisionRecord(now, HALTED, added, GIT_AUTHOR, why))
    resumed = ", ".join(f"r{halt.target}" for halt in state.halts if halt.by == GIT_AUTHOR and not why)
    return new_state.with_decision(DecisionRecord(now, "resumed", resumed, GIT_AUTHOR)) if resumed else new_state


def resume(state: RolloutState, failed: Mapping[str, int], *, by: str, why: str, now: datetime) -> RolloutState:
    """Return `state` without its halts, except those of Git, and with the current failures accepted.

    A further failure halts the rollout again.

    Args:
        failed: number of failed items by name of the wave.

    Raises: RequestRefused if `why` is empty, nothing is halted, or only Git halts the rollout.
    """
    _require_reason("resume", why)
    if not state.halts:
        raise RequestRefused("this rollout is not halted; nothing to resume")
    person_halts = [halt for halt in state.halts if halt.by != GIT_AUTHOR]
    if not person_halts:
        raise RequestRefused(f"Git halts this rollout; remove {well_known.HALT} from its definition")
    names = ", ".join(f"r{halt.target}" if halt.target else "everything" for halt in person_halts)
    git_halts = tuple(halt for halt in state.halts if halt.by == GIT_AUTHOR)
    return replace(state, halts=git_halts, forgiven=dict(failed)).with_decision(
        DecisionRecord(now, "resumed", names, by, why)
    )


def approve(policy: Policy, state: RolloutState, after: str, *, by: str, why: str, now: datetime) -> RolloutState:
    """Return `state` with an approval of every current target at the approval point `after`.

    Health and pace still apply.

    Args:
        after: name of a wave, or number of items.

    Raises: RequestRefused if `policy` has no approval point `after`.
    """
    check_approval_point([str(point) for point in policy.approvals], after, f"policy {policy.name or '(default)'}")
    targets = sorted({target.revision for target in state.targets.values()})
    missing = [
        number
        for number in targets
        if not any((approval.target, approval.after) == (number, after) for approval in state.approvals)
    ]
    approvals = tuple(Approval(number, after, now, by, why) for number in missing)
    entries = [DecisionRecord(now, "approved", f"r{number} after {after}", by, why) for number in missing]
    return replace(state, approvals=(*state.approvals, *approvals)).with_decision(*entries)


def check_approval_point(points: Sequence[str], after: str, by: str) -> None:
    """Check that `after` is one of the approval points `points`.

    Args:
        by: name of the policy or rollout that has the points, for the message.

    Raises: RequestRefused if `after` is not in `points`.
    """
    if after not in points:
        hint = f"choose from {', '.join(points)}" if points else "add the point to `approvals` of the policy first"
        raise RequestRefused(f"{by} requires no approval after {after!r}; {hint}")


def record_proposal(state: RolloutState, text: str, *, now: datetime) -> RolloutState:
    """Return `state` with the result of a proposed revert stored on the halt of its target.

    If no halt of that target waits for a proposed revert, return `state` unchanged.

    Args:
        text: value of the annotation, such as `r13 https://...`. The value consists of the name of the target, and the
            URL of the pull request or the reason why no pull request exists. Only the first `MAX_TEXT_CHARACTERS`
            characters count.
    """
    target, _, outcome = text[:MAX_TEXT_CHARACTERS].partition(" ")
    revert = Revert(url=outcome) if outcome.startswith(("https://", "http://")) else Revert(why=outcome)
    halts = tuple(
        replace(known_halt, revert=revert) if known_halt.revert and f"r{known_halt.target}" == target else known_halt
        for known_halt in state.halts
    )
    if halts == state.halts:
        return state
    return replace(state, halts=halts).with_decision(DecisionRecord(now, PROPOSED, target, why=str(revert)))


def _require_reason(action: str, why: str) -> None:
    if not why.strip():
        raise RequestRefused(f"{action} needs a reason")
