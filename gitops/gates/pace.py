"""Pace that gates set by rates and counters in `propagateWhen`, expressed as shapes of policies.

The module is pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitops.rollouts.collection import Counters, RolloutItem
from gitops.rollouts.policy import Mode, Policy
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear, Shape, frontier
from renderer.definition.gate_functions import COUNTERS, RATES, PaceCall
from renderer.definition.gates import Gate


def apply_pace(policy: Policy, gates: Sequence[Gate] | None) -> Policy:
    """Return `policy` with the pace that `gates` of a definition set.

    If `gates` is empty, the returned policy has no pace. If exactly one gate sets a pace, and only by a rate, the
    returned policy has the shape of the rate. In all other cases, return `policy` unchanged. If the gates set a pace
    in another form, `GateEvaluator.pace` applies that pace.
    """
    if gates is None:
        return policy
    if not gates:
        return policy.without_pace()
    rate = plain_rate([gate for gate in gates if gate.sets_pace])
    return policy.with_pace(shape_of(rate)) if rate else policy


def plain_rate(gates: Sequence[Gate]) -> PaceCall | None:
    """Return the rate if `gates` is one gate that consists only of a rate, or None."""
    return gates[0].pace_call if len(gates) == 1 else None


def shape_of(rate: PaceCall) -> Shape:
    """Return the shape of a policy that is equivalent to `rate`."""
    match rate.argument:
        case int() as factor if rate.shape == "exponential":
            return Exponential(factor)
        case argument:
            return Linear(CountOrPercent.parse(argument))


def make_counter_variables(counters: Counters) -> dict[str, Any]:
    """Return the counters as a variable of gates."""
    return {COUNTERS: {"inFlight": counters.in_flight, "settled": counters.settled, "failed": counters.failed}}


def make_rate_variables(
    gate: Gate, policy: Policy, item: RolloutItem, counters: Counters, *, waits_for_failed: bool
) -> dict[str, Any]:
    """Return the answer of each rate in `gate` as a variable: true if the rate lets `item` move.

    If the item has moved already, each rate lets the item move. A rate also lets the item move while fewer items are
    updated than the shape of the rate allows.

    Args:
        waits_for_failed: True if a failed item keeps its place in the pace. False if other items pass a failed item.
    """
    done_count = counters.settled + (0 if waits_for_failed else counters.failed)
    sliding = policy.mode is Mode.SLIDING
    return {
        RATES: {
            str(rate): item.has_moved
            or counters.updated < frontier(shape_of(rate), done_count, counters.total, sliding=sliding)
            for rate in gate.pace_calls
        },
    }
