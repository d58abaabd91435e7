"""What was decided of what may move and what may be written, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from applier.causes import Blocked, Reason
from applier.plan.model import Change, Gates, Plan
from gitops.decisions.deadlock import Awaited
from gitops.decisions.explanation import Counted, Rollout
from gitops.rollouts.state import Entry, State
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.instance_cache import Place


@dataclass(frozen=True, slots=True)
class Propagation:
    """What was decided. `places` and `gates` are for the rendering and the plan, `states` are the rollouts by name, `rules` those in force by source.
    `wake_at`: when to look again although nothing happened; `edges`: the same but for what rollouts count, whose bakes and deadlines concern one
    instance each. `stopped`: a person has suspended everything, so nothing at all may be written. `under_glass`: the rollout that records a change
    that is made in spite of a closed window, and what to record. `explain` adds why each instance is not moved to where Git wants it (`stays`), what
    the status of an instance has to remember of its way (`remembered`), as what it counts in its rollout (`counted`), who waits for whom (`awaited`),
    and the `rollouts` as they were decided: that takes as long as to decide, and only the decision that stands needs it.
    """

    places: Mapping[ObjectKey, Place] = field(default_factory=dict)
    gates: Gates = field(default_factory=Gates)
    frozen: frozenset[ObjectKey] = frozenset()
    states: Mapping[str, State] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    wake_at: datetime | None = None
    edges: datetime | None = None
    problems: tuple[Problem, ...] = ()
    stopped: Blocked | None = None
    stays: Mapping[ObjectKey, Blocked] = field(default_factory=dict)
    remembered: Mapping[ObjectKey, Mapping[str, Any]] = field(default_factory=dict)
    counted: Mapping[ObjectKey, Counted] = field(default_factory=dict)
    awaited: Awaited = field(default_factory=dict)
    rollouts: Mapping[str, Rollout] = field(default_factory=dict, repr=False)
    explain: Callable[[Propagation], Propagation] = lambda decided: decided
    under_glass: Callable[[Change], tuple[str, Entry] | None] = lambda _: None

    def after(self, plan: Plan) -> Propagation:
        """With what the final plan does in spite of a window, for the record, and the time at which something of it may change: what waits says so
        itself, but for those whose turn comes by what others do.
        """
        causes = [
            *(
                one.stays
                for one in plan.sets
                if one.stays and not (one.stays.reason.is_turn or one.stays.reason is Reason.BAKING)
            ),
            *(node.blocked for one in plan.sets for node in one.nodes),
            *(orphan.blocked for one in plan.sets for orphan in one.orphans),
        ]
        edges = {self.edges, *(cause.until for cause in causes if cause)}
        states = dict(self.states)
        for used in filter(None, map(self.under_glass, plan.changes)):
            rollout, entry = used
            states[rollout] = states.get(rollout, State()).noted(entry)
        return replace(self, states=states, wake_at=earliest(self.wake_at, *edges), edges=earliest(*edges))

    def decides_as(self, other: Propagation) -> bool:
        """Would a pass do the same?"""
        return (self.places, self.gates.targets, self.frozen) == (other.places, other.gates.targets, other.frozen)


def earliest(*moments: datetime | None) -> datetime | None:
    """The first of those that there are."""
    return min(filter(None, moments), default=None)
