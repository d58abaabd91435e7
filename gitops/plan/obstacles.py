"""Obstacles of planned changes: holds, unfinished deletions, the turn of an instance, gates and windows.

The turn of an instance is the time at which a rollout grants the move to another revision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain

from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan, CandidateChange, NodePlan, Operation, Plan
from applier.plan.prune_candidate import PruneCandidate
from gitops.plan.report import Obstacle, PlannedAction
from gitops.reconcile.preview import EventualPlan
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

FindTurn = Callable[[ApplySetPlan, ObjectKey], Cause | None]
"""Function that returns the cause that makes a change wait for the move of its instance, or None if no cause does."""


@dataclass
class ObstacleFinder:
    """Obstacles of the changes in one plan."""

    eventual_plan: EventualPlan
    deletions: Mapping[ObjectKey, Cause]
    """Causes that block the deletion of terminating objects, from `blocked_deletions`."""

    turn: FindTurn

    def of_node(
        self, set_plan: ApplySetPlan, node_plan: NodePlan, candidate_change: CandidateChange, action: PlannedAction
    ) -> tuple[Obstacle, ...]:
        """Return the obstacles of a change to a node that the commit declares."""
        # A replacement deletes and creates the object, so windows and gates have to permit both operations.
        judged_changes = (
            (candidate_change, candidate_change._replace(operation=Operation.CREATE))
            if action is PlannedAction.REPLACE
            else (candidate_change,)
        )
        causes = chain.from_iterable(map(self._causes_of, judged_changes))
        deletion = self.of_deletion(candidate_change.key)
        turn = self.of_turn(set_plan, candidate_change.key)
        return tuple(dict.fromkeys([*hold_obstacles(node_plan), *deletion, *turn, *map(obstacle_of, causes)]))

    def of_prune(
        self, set_plan: ApplySetPlan, candidate: PruneCandidate, candidate_change: CandidateChange
    ) -> tuple[Obstacle, ...]:
        """Return the obstacles of a deletion."""
        # Windows and gates no longer count once the object is being deleted.
        causes = () if candidate.member.is_terminating else self._causes_of(candidate_change)
        turn = self.of_turn(set_plan, candidate.member.key)
        deletion = self.of_deletion(candidate.member.key)
        return tuple(dict.fromkeys([*hold_obstacles(candidate), *turn, *deletion, *map(obstacle_of, causes)]))

    def _causes_of(self, candidate_change: CandidateChange) -> tuple[Cause, ...]:
        return self.eventual_plan.state.verdict_of(candidate_change).causes

    def of_deletion(self, key: ObjectKey) -> tuple[Obstacle, ...]:
        """Return the obstacle for an object whose deletion has begun but is blocked."""
        cause = self.deletions.get(key)
        return (obstacle_of(cause),) if cause else ()

    def of_turn(self, set_plan: ApplySetPlan, key: ObjectKey) -> tuple[Obstacle, ...]:
        """Return the obstacle of an object whose change waits for the move of its instance to another revision."""
        cause = self.turn(set_plan, key)
        return (obstacle_of(cause),) if cause else ()

    def describe_override(self, candidate_change: CandidateChange | None) -> str:
        """Return a phrase about the break-glass that overrides closed windows for a change, or an empty string."""
        entry = self.eventual_plan.state.verdict_of(candidate_change).override if candidate_change else None
        return f"passes closed windows by the break-glass of {entry.by}: {entry.why}" if entry else ""


def hold_obstacles(change: NodePlan | PruneCandidate) -> tuple[Obstacle, ...]:
    """Return the hold of a planned write or deletion as an obstacle, or an empty tuple if nothing is held."""
    return (obstacle_of(change.blocked),) if change.blocked and change.is_held else ()


def obstacle_of(cause: Cause) -> Obstacle:
    """Return the obstacle that shows a cause in a report."""
    name = cause.references[0].name if cause.references else ""
    # Only the pace of a collection's items causes a queue position without a wave.
    is_of_items = not (cause.details.get("position") or {"wave": "any"})["wave"]
    return Obstacle(cause.reason, cause.message, name, cause.until, is_of_items)


def blocked_deletions(plan: Plan) -> Mapping[ObjectKey, Cause]:
    """Return the causes that block the deletion of terminating objects, and that only an action can end."""
    nodes = ((node.node.key, node.blocked) for set_plan in plan.sets for node in set_plan.nodes)
    candidates = (
        (candidate.member.key, candidate.blocked)
        for set_plan in plan.sets
        for candidate in set_plan.prune_candidates
        if candidate.member.is_terminating
    )
    return {
        key: cause
        for key, cause in chain(nodes, candidates)
        if key and cause and cause.reason is Reason.DELETION_BLOCKED
    }
