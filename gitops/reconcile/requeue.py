"""When a set of objects is looked at again: soon while something is on its way, in vain ever more rarely, else when time brings something."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import field, replace
from datetime import datetime

from applier.causes import Reason
from applier.plan.model import ApplySetPlan
from gitops.reconcile.set_summaries import SetSummary
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

FIRST_LOOK = 0.05
"""Seconds before the first look at what is in flight; each look without a change waits twice as long, up to `LAST_LOOK`."""

LAST_LOOK = 5.0
LAST_LOOK_WATCHED = 60.0
"""The same where a watch tells when something has come further."""


@dataclass(slots=True)
class RequeueBackoff:
    """How long the looks waited at what is in flight, by what is looked at."""

    _delays: dict[Hashable, float] = field(default_factory=dict)

    def next_delay(self, key: Hashable, *, changed: bool, waiting: bool, longest: float) -> float | None:
        """Seconds until the next one: at what changed soon, at what is on its way more and more rarely; None: at nothing else."""
        if not (changed or waiting):
            self._delays.pop(key, None)
            return None
        before = self._delays.get(key, FIRST_LOOK)
        self._delays[key] = FIRST_LOOK if changed else min(before * 2, longest)
        return self._delays[key]

    def keep(self, keys: Collection[Hashable]) -> None:
        """Nothing else is in flight."""
        self._delays = {key: delay for key, delay in self._delays.items() if key in keys}


def refused_objects(one: ApplySetPlan) -> frozenset[ObjectKey]:
    """What the cluster has refused and may accept later, such as a write beyond a quota."""
    causes = [
        (one.rendered.parent, one.parent_error),
        *((plan.node.key, plan.blocked) for plan in one.nodes),
        *((orphan.member.key, orphan.blocked) for orphan in one.prune_candidates),
    ]
    return frozenset(key for key, cause in causes if key and cause and cause.reason is Reason.APPLY_FAILED)


def due_by_time(one: ApplySetPlan, refused: Mapping[ObjectKey, Mapping[ObjectKey, datetime]]) -> datetime | None:
    """When an age makes a difference to a set, or what was refused of it is tried again; None: never."""
    tries = refused.get(one.rendered.parent, {}).values()
    return min(filter(None, (one.recheck_at, *tries)), default=None)


def is_in_flight_alone(instances: Collection[ObjectKey]) -> Callable[[ApplySetPlan], bool]:
    """Is a set in flight whoever else is? Then it is to be looked at again. Who waits for its turn in a rollout goes on when others have come
    further, and of an instance its own set tells more than that of its source.
    """

    def found(one: ApplySetPlan) -> bool:
        nodes = one.nodes
        if one.rendered.is_source and one.parent:
            nodes = tuple(node for node in nodes if node.node.key not in instances)
        return in_flight(replace(one, nodes=nodes, not_moved=None))

    return found


def in_flight(one: ApplySetPlan) -> bool:
    """Is something on its way that time alone will bring, or that only a fresh look can tell?"""
    return SetSummary.of(one).is_on_its_way or any(
        orphan.allowed or orphan.member.is_terminating for orphan in one.prune_candidates
    )
