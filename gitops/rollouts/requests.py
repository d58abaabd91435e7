"""What people order of a rollout: halt, resume, approve. Each gives the state after it, with who, when and why in the record.

They ask by annotations of the rollout's record, so the right to patch that one object is the right to order. A request is carried out, or refused,
once: the write that records it takes it away. Where one thing is asked and its opposite too, the rollout stands still afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from applier.cluster import Object
from applier.state.observed import annotation
from gitops.rollouts.directives import asked_by
from gitops.rollouts.policy import Policy
from gitops.rollouts.state import (
    HALTED,
    MOST_TEXT,
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

REQUESTS: Final = (well_known.PROPOSED, well_known.RESUME, well_known.APPROVE, well_known.HALT)
"""Annotations of a record that are orders, in the order in which they are carried out; the first is the program's own word."""

REQUEST_KEYS: Final = (*REQUESTS, well_known.APPROVE_REASON, well_known.REQUESTED_BY)
"""All annotations of requests; none of them is left once they are answered."""


GIT: Final = "Git"
"""Who halts a rollout where its definition says so."""


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """One order: `key` is its annotation, `said` the value, `by` whoever gives it by his own word, else the field manager that wrote it."""

    key: str
    said: str
    by: str
    why: str

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


def requests(record: Object) -> tuple[RolloutRequest, ...]:
    """What the record of a rollout is asked to do, by its annotations; one with an empty value asks as well."""
    asked = [key for key in REQUESTS if key in (record["metadata"].get("annotations") or {})]
    return tuple(
        RolloutRequest(
            key,
            said=annotation(record, key),
            by=asked_by(record, key),
            why=annotation(record, well_known.APPROVE_REASON if key == well_known.APPROVE else key),
        )
        for key in asked
    )


def apply_requests(
    state: RolloutState, asked: Iterable[RolloutRequest], policy: Policy, failed: Mapping[str, int], *, now: datetime
) -> RolloutState:
    """The state after these requests; one that is refused is a decision as well, and changes nothing else. `failed` as `resume` takes it."""
    for request in asked:
        try:
            match request.key:
                case well_known.PROPOSED:
                    state = proposed(state, request.said, now=now)
                case well_known.HALT:
                    state = halt(state, by=request.by, why=request.why, now=now)
                case well_known.RESUME:
                    state = resume(state, failed, by=request.by, why=request.why, now=now)
                case _:
                    state = approve(policy, state, request.said, by=request.by, why=request.why, now=now)
        except RequestRefused as refused:
            state = _refused(state, request, str(refused), now)
    return state


def apply_requests_blind(state: RolloutState, asked: Iterable[RolloutRequest], *, now: datetime) -> RolloutState:
    """The state of a rollout of which nothing can be read now. It can be halted, and told of; everything else is refused."""
    for request in asked:
        if request.key in {well_known.PROPOSED, well_known.HALT}:
            state = apply_requests(state, [request], Policy(), {}, now=now)
        else:
            state = _refused(state, request, "no instance of this rollout can be read now; ask again", now)
    return state


def _refused(state: RolloutState, request: RolloutRequest, why: str, now: datetime) -> RolloutState:
    return state.with_decision(
        DecisionRecord(now, "refused", f"{request.name} {request.said}".strip(), request.by, why)
    )


def halt(state: RolloutState, *, by: str, why: str, now: datetime) -> RolloutState:
    """Stop at every target that is under way. Raises RefusedOrder without a reason, or where nothing is under way."""
    _reasoned("halt", why)
    targets = {target.revision: target for target in state.targets.values() if target != state.completed}
    if not targets:
        raise RequestRefused("nothing is being rolled out, so there is nothing to halt")
    halts = tuple(Halt(number, now, by, why) for number, target in targets.items() if not state.halt_of(target))
    names = ", ".join(map(str, targets.values()))
    return replace(state, halts=(*state.halts, *halts)).with_decision(DecisionRecord(now, HALTED, names, by, why))


def with_git_halt(state: RolloutState, why: str, *, now: datetime) -> RolloutState:
    """With the halt that the definition asks for in Git, as long as it does (`why` is not empty), whatever it moves to."""
    others = tuple(halt for halt in state.halts if halt.by != GIT)
    targets = {target.revision for target in state.targets.values() if target != state.completed} if why else set()
    known = {halt.target: halt for halt in state.halts if halt.by == GIT and halt.why == why}
    halts = tuple(known.get(number) or Halt(number, now, GIT, why) for number in sorted(targets))
    halted = replace(state, halts=(*others, *halts))
    if new := ", ".join(f"r{number}" for number in sorted(targets - known.keys())):
        return halted.with_decision(DecisionRecord(now, HALTED, new, GIT, why))
    gone = ", ".join(f"r{halt.target}" for halt in state.halts if halt.by == GIT and not why)
    return halted.with_decision(DecisionRecord(now, "resumed", gone, GIT)) if gone else halted


def resume(state: RolloutState, failed: Mapping[str, int], *, by: str, why: str, now: datetime) -> RolloutState:
    """Go on. The failures there are now, by wave, are accepted; one more than that, and more than the policy allows, halts again.

    Raises RefusedOrder without a reason, where nothing is halted, or where Git alone halts it.
    """
    _reasoned("resume", why)
    if not state.halts:
        raise RequestRefused("this rollout is not halted, so there is nothing to resume")
    own = [halt for halt in state.halts if halt.by != GIT]
    if not own:
        raise RequestRefused(f"Git halts this rollout; take {well_known.HALT} out of its definition")
    names = ", ".join(f"r{halt.target}" if halt.target else "everything" for halt in own)
    kept = tuple(halt for halt in state.halts if halt.by == GIT)
    return replace(state, halts=kept, forgiven=dict(failed)).with_decision(
        DecisionRecord(now, "resumed", names, by, why)
    )


def approve(policy: Policy, state: RolloutState, after: str, *, by: str, why: str, now: datetime) -> RolloutState:
    """Agree that what is being rolled out goes on after this wave, or this number. Opens nothing else: what has to be healthy still has to be.

    Raises RefusedOrder where the policy asks for no approval there.
    """
    expect_point([str(point) for point in policy.approvals], after, f"policy {policy.name or '(default)'}")
    targets = sorted({target.revision for target in state.targets.values()})
    missing = [
        number for number in targets if not any((one.target, one.after) == (number, after) for one in state.approvals)
    ]
    approvals = tuple(Approval(number, after, now, by, why) for number in missing)
    entries = [DecisionRecord(now, "approved", f"r{number} after {after}", by, why) for number in missing]
    return replace(state, approvals=(*state.approvals, *approvals)).with_decision(*entries)


def expect_point(points: Sequence[str], after: str, by: str) -> None:
    """Raises RefusedOrder where this is none of the points after which an approval is asked for, by what says so."""
    if after not in points:
        known = f"it asks after {', '.join(points)}" if points else "it asks for none"
        raise RequestRefused(f"{by} asks for no approval after {after!r}; {known}")


def proposed(state: RolloutState, said: str, *, now: datetime) -> RolloutState:
    """Know what became of the revert of a halted target: `r13 URL`, or `r13` and why there is none. Of what is halted no more nothing is kept."""
    target, _, told = said[:MOST_TEXT].partition(" ")
    revert = Revert(url=told) if told.startswith(("https://", "http://")) else Revert(why=told)
    halts = tuple(
        replace(one, revert=revert) if one.revert and f"r{one.target}" == target else one for one in state.halts
    )
    if halts == state.halts:
        return state
    return replace(state, halts=halts).with_decision(DecisionRecord(now, PROPOSED, target, why=str(revert)))


def _reasoned(what: str, why: str) -> None:
    if not why.strip():
        raise RequestRefused(f"{what} needs a reason, so that others know why")
