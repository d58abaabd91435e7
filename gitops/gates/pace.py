"""The pace that gates set: rates and counters in `propagateWhen`, in terms of the shapes of policies. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitops.rollouts.collection import Counters, RolloutItem
from gitops.rollouts.policy import Mode, Policy
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear, Shape, frontier
from renderer.definition.gate_functions import COUNTERS, RATES, PaceCall
from renderer.definition.gates import Gate


def apply_pace(policy: Policy, gates: Sequence[Gate] | None) -> Policy:
    """Return the policy with the pace that a definition sets.

    No pace gate (None, or conditions only) leaves the policy as it is, an empty list removes the pace, a single
    rate replaces it. Other combinations leave the policy as it is too: `GateEvaluator.pace` applies instead.
    """
    if gates is None:
        return policy
    if not gates:
        return policy.without_pace()
    rate = plain_rate([gate for gate in gates if gate.sets_pace])
    return policy.with_pace(shape_of(rate)) if rate else policy


def plain_rate(gates: Sequence[Gate]) -> PaceCall | None:
    """Return the rate if the gates consist of one rate alone, otherwise None."""
    return gates[0].pace_call if len(gates) == 1 else None


def shape_of(rate: PaceCall) -> Shape:
    """Return the shape of a policy that equals the rate."""
    match rate.argument:
        case int() as factor if rate.shape == "exponential":
            return Exponential(factor)
        case argument:
            return Linear(CountOrPercent.parse(argument))


def make_counter_variables(gate: Gate, policy: Policy, item: RolloutItem, counters: Counters) -> dict[str, Any]:
    """Return the variables of counters, and for each rate whether it admits the item.

    A rate admits an item that has moved already, or if fewer items are updated than the shape allows.
    """
    done_count = counters.settled + counters.failed
    sliding = policy.mode is Mode.SLIDING
    return {
        COUNTERS: {"inFlight": counters.in_flight, "settled": counters.settled, "failed": counters.failed},
        RATES: {
            str(rate): item.has_moved
            or counters.updated < frontier(shape_of(rate), done_count, counters.total, sliding=sliding)
            for rate in gate.pace_calls
        },
    }
