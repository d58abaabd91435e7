"""What was decided of what may move and what may be written, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from applier.applyset.inventory import target_revision_of
from applier.causes import Cause, Reason
from applier.plan.model import ChangePermissions, Plan
from applier.state.observed import Observed
from gitops.decisions import suspension
from gitops.decisions.deadlock import Awaited, with_deadlock_causes
from gitops.decisions.explanation import CountedItem, DecidedRollout, with_move_causes
from gitops.decisions.plain_objects import SourceRequests
from gitops.rollouts.state import DecisionRecord, RolloutState
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.model import Rendering
from renderer.render.revisions import StoredRevisions


class Override(NamedTuple):
    """A change made in spite of a closed window, for the record of its rollout; of what is in none, for that of its source."""

    entry: DecisionRecord
    source: str
    rollout: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided. `places` and `gates` are for the rendering and the plan, `states` are the rollouts by name,
    `rules` those in force by source, `rule_problems` what is wrong with them in Git, `policy_conflicts` where several
    govern alike.
    `wake_at`: when to look again although nothing happened; `edges`: the same but for what rollouts count, whose
    bakes and deadlines concern one instance each. `stopped`: a person has suspended
    everything, so nothing at all may be written. `source_requests` is what people ask of each source and its plain
    objects. An explained decision also tells why each instance is not moved to where Git wants it (`stays`), what the
    status of an instance has to remember of its way (`remembered`), as what it counts in its rollout (`counted`), who
    waits for whom (`awaited`), and the `rollouts` as they were decided.
    """

    places: Mapping[ObjectKey, RevisionPlacement] = field(default_factory=dict)
    gates: ChangePermissions = field(default_factory=ChangePermissions)
    frozen: frozenset[ObjectKey] = frozenset()
    states: Mapping[str, RolloutState] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    wake_at: datetime | None = None
    next_edge: datetime | None = None
    policy_conflicts: tuple[Problem, ...] = ()
    rule_problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    stopped: Cause | None = None
    stays: Mapping[ObjectKey, Cause] = field(default_factory=dict)
    remembered: Mapping[ObjectKey, Mapping[str, Any]] = field(default_factory=dict)
    counted: Mapping[ObjectKey, CountedItem] = field(default_factory=dict)
    awaited: Awaited = field(default_factory=dict)
    rollouts: Mapping[str, DecidedRollout] = field(default_factory=dict, repr=False)
    source_requests: Mapping[str, SourceRequests] = field(default_factory=dict)
    has_overrides: bool = False
    """Whether a change of a partial reconciliation bypasses closed windows."""
    draining: frozenset[ObjectKey] = frozenset()
    """Plain objects of a partial reconciliation whose change finishes in a closed window what began before."""
    grants: Mapping[ObjectKey, int] = field(default_factory=dict)
    """Revisions that instances may move to, once `states` are stored."""

    def with_grants(self) -> Decision:
        """Return the decision after its states were stored."""
        targets = {**self.gates.targets, **self.grants}
        return replace(self, gates=replace(self.gates, targets=targets), grants={})

    def with_causes(self, plan: Plan) -> Plan:
        """Return the plan with why its instances are not moved, and which of them wait for one another for ever."""
        return with_deadlock_causes(with_move_causes(plan, self.stays), self.awaited)

    def with_edges(self, plan: Plan) -> Decision:
        """Return the decision with the next time at which something of the final plan may change.

        What waits tells this time, except for an instance whose turn comes by what others do.
        """
        causes = [
            *(
                one.not_moved
                for one in plan.sets
                if one.not_moved and not (one.not_moved.reason.is_queued or one.not_moved.reason is Reason.BAKING)
            ),
            *(node.blocked for one in plan.sets for node in one.nodes),
            *(orphan.blocked for one in plan.sets for orphan in one.prune_candidates),
        ]
        edges = {self.next_edge, *(cause.until for cause in causes if cause)}
        return replace(self, wake_at=earliest(self.wake_at, *edges), next_edge=earliest(*edges))

    def with_records(self, overrides: Iterable[Override]) -> Decision:
        """Return the decision with each override in the log of its rollout, or else of its source."""
        states, requests = dict(self.states), dict(self.source_requests)
        for used in overrides:
            if used.rollout:
                states[used.rollout] = states.get(used.rollout, RolloutState()).with_decision(used.entry)
            else:
                requests[used.source] = requests.get(used.source, SourceRequests()).with_override(used.entry)
        return replace(self, states=states, source_requests=requests)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with windows and policies, in the order of files."""
        return tuple(sorted({*self.policy_conflicts, *chain.from_iterable(self.rule_problems.values())}))


def earliest(*moments: datetime | None) -> datetime | None:
    """The first of those that there are."""
    return min(filter(None, moments), default=None)


def initial_placements(observed: Observed, stored: StoredRevisions) -> Decision:
    """Return where instances are, before anything is rendered. The gates are open: nothing acts on this decision."""
    at = {key: pair.revision for key, pair in stored.applied.items()}
    for key, obj in observed.objects.items():
        if target := target_revision_of(obj):
            at[key] = target
    return Decision({key: RevisionPlacement(number) for key, number in at.items()})


def suspended_decision(
    bundle: Rendering, observed: Observed, states: Mapping[str, RolloutState], now: datetime
) -> Decision | None:
    """Return the decision while a person has suspended everything, or None if nobody has.

    Args:
        states: states of the rollouts, which stay as they are.
    """
    if not (why := suspension.installation_suspension(observed, now)):
        return None
    gates = ChangePermissions(lambda _: why, suspended={one.parent: why for one in bundle.sets})
    return Decision(gates=gates, states=states, wake_at=why.until, stopped=why)
