"""Reasons why the action of a node may not start yet.

The module is pure. A node waits until fresh observations show that all its ancestors are applied at this revision and
ready (rules 1 and 2). A refused write, another owner, a deletion in progress or a missing permission also bars the
action of the node. Repairs do not wait for ancestors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from applier.applyset import member
from applier.applyset.adoption import Adoption
from applier.causes import Cause, Reason
from applier.cluster import CONTENT_MANAGER, Object
from applier.errors import ClusterError
from applier.plan.constraints import PlanConstraints
from applier.plan.drain_progress import DrainProgressFinder
from applier.plan.model import (
    Barrier,
    CandidateChange,
    ChangePermissions,
    DrainProgress,
    NodeAction,
    NodePlan,
    Operation,
)
from applier.state.managed_fields import apply_entry, is_annotated_by_others
from applier.state.observed import annotation, is_terminating, label
from applier.state.observed_view import ObservedView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode

BARRIER_ACTIONS = frozenset({NodeAction.CREATE, NodeAction.UPDATE, NodeAction.REPLACE, NodeAction.ADOPT})
"""Actions that wait for ancestors of the node."""


class NodeWrite(NamedTuple):
    """An action due on the node `node` of the set `rendered`."""

    rendered: RenderedApplySet
    node: RenderedNode
    key: ObjectKey
    live: Object | None
    """Live object with the key `key`, or None if the object does not exist."""
    action: NodeAction
    is_repair: bool
    """True if the write restores fields that another manager changed."""


@dataclass(frozen=True)
class WriteBarriers:
    """Rules that decide whether a write may start."""

    observed: ObservedView
    wanting_sets: Mapping[ObjectKey, Sequence[str]]
    """Ids of the sets that want each object, in rendering order, by key of the object."""
    sets: Mapping[str, RenderedApplySet]
    """All sets of the plan, by id."""
    commits: Mapping[str, str]
    """Id of the commit of each source, by name of the source."""
    constraints: PlanConstraints
    permissions: ChangePermissions

    def barrier_of(self, rendered: RenderedApplySet) -> Barrier:
        """Return the rule that decides which nodes, besides its dependencies, each node of `rendered` waits for."""
        return self.permissions.barriers.get(rendered.parent, Barrier.PATH)

    def adoption_of(self, rendered: RenderedApplySet) -> Adoption:
        """Return the rule that decides which objects the source of `rendered` may adopt."""
        return self.constraints.adoption_of(rendered.source)

    def write_failure(
        self, rendered: RenderedApplySet, node: RenderedNode, key: ObjectKey, live: Object | None
    ) -> ClusterError | None:
        """Return the error with which an equal write of `node` failed earlier, or None if no such write failed.

        Either the write failed in this reconciliation, or the server rejected the write in an earlier reconciliation.
        """
        return self.observed.failures.get(key) or self.constraints.refusal(rendered.parent, key, node.manifest, live)

    def find_cause(
        self,
        write: NodeWrite,
        *,
        failure: ClusterError | None,
        ancestor_cause: Cause | None,
        plans: Mapping[str, NodePlan],
        drain_progress: Callable[[], DrainProgress | None],
    ) -> Cause | None:
        """Return the cause that bars `write` now, or None if the write may start.

        The first matching cause decides:

        1. The object may not be written.
        2. An ancestor holds the write, and the action of the write is in `BARRIER_ACTIONS`.
        3. A required dependency is not healthy.
        4. A permission is missing.

        Permissions come last, so that windows, gates and people judge only writes that could otherwise start.
        """
        return (
            self.object_cause(write, failure)
            or (ancestor_cause if write.action in BARRIER_ACTIONS else None)
            or _unhealthy_dependency_cause(write, plans)
            or self._permission_cause(write, drain_progress)
        )

    def drain_progress(self, rendered: RenderedApplySet) -> DrainProgress | None:
        """Return the progress of `rendered` toward its target.

        If no object has moved, or if the target is unknown, return None.
        """
        return DrainProgressFinder(self.observed, self.wanting_sets, self.sets, self.commits).find_progress(rendered)

    def object_cause(self, write: NodeWrite, failure: ClusterError | None) -> Cause | None:
        """Return the cause that bars writes to the object of `write`, or None if no cause matches.

        The first matching cause decides: a failed write, a throttled repair, another owner, a deletion in progress,
        disabled reconciliation. Ancestors of the node do not count.
        """
        rendered, node, key, live, action, is_repair = write
        if failure and action is not NodeAction.REPLACE:
            return Cause.from_error(failure)
        if (is_repair or action in {NodeAction.CREATE, NodeAction.HEAL}) and (
            repair_cause := self.constraints.throttled_repairs.get(key)
        ):
            return repair_cause
        if owner_cause := self._other_owner_cause(rendered, key, live):
            return owner_cause
        if live is None:
            return None
        if is_terminating(live):
            message = f"{key} {member.describe_deletion(live)}; Levelgate creates it again after the deletion"
            return Cause(Reason.PROGRESSING, message, object_key=key)
        if action is not NodeAction.NONE and _is_disabled(node, live):
            return Cause(Reason.SUSPENDED, f"{well_known.RECONCILE}: disabled on {key}")
        return None

    def _other_owner_cause(self, rendered: RenderedApplySet, key: ObjectKey, live: Object | None) -> Cause | None:
        """Return a cause that says which other set or tool owns the object `key`.

        If `rendered` may write the object, return None.

        If the set that has the object as a member still wants the object, this set owns the object. Otherwise the
        first set that wants the object owns the object. If the object is in no set, `rendered` may take over the
        object in two cases:

        - Levelgate wrote the object before, and released it.
        - The source of `rendered` may adopt the object.
        """
        wanting_set_ids = self.wanting_sets.get(key, (rendered.id,))
        live_set_id = label(live, well_known.PART_OF) if live else ""
        owner_set_id = live_set_id if live_set_id in wanting_set_ids else wanting_set_ids[0]
        if owner_set_id != rendered.id:
            return Cause(
                Reason.OWNED_ELSEWHERE,
                f"{key} belongs to {self.sets[owner_set_id].parent}, which also declares it; "
                "declare the object in only one of the two",
            )
        if live is None or live_set_id == rendered.id:
            return None
        return self._holder_cause(key, live_set_id) if live_set_id else self._adoption_cause(rendered, live)

    def _holder_cause(self, key: ObjectKey, holder_id: str) -> Cause | None:
        """Return a cause that says that the set `holder_id` still holds the object `key`, which the set does not want.

        If another set may take over the object, return None.
        """
        holder = self.sets.get(holder_id)
        if holder:
            return (
                Cause(
                    Reason.OWNED_ELSEWHERE, f"{key} is part of {holder.parent}; remove the object from that set first"
                )
                if holder.error or holder.held_reason
                else None
            )
        if key in self.constraints.relinquished_keys or holder_id in self.constraints.relinquished_sets:
            return None
        if foreign_source := self.constraints.foreign_sources.get(holder_id):
            handover_advice = "remove the object from that source to hand it over without a deletion"
            advice = "if no process reconciles that source any more, configure the source here too, with an empty path"
            return Cause(
                Reason.OWNED_ELSEWHERE, f"{key} belongs to source {foreign_source}; {handover_advice} ({advice})"
            )
        parent_hint = f"find its parent with kubectl get configmaps,secrets -A -l {well_known.PARENT_ID}={holder_id}"
        advice = (
            f"stop the process that applies the set, and remove the label {well_known.PART_OF} from the object; "
            "while that process runs, removing the object from the set may delete it"
        )
        return Cause(
            Reason.OWNED_ELSEWHERE, f"{key} is part of a set that Levelgate does not manage ({parent_hint}); {advice}"
        )

    def _adoption_cause(self, rendered: RenderedApplySet, live: Object) -> Cause | None:
        """Return the cause that bars the adoption of `live`, an object in no set, or None if adoption is allowed.

        If Levelgate wrote the object before, also return None.
        """
        is_foreign = apply_entry(live, CONTENT_MANAGER) is None
        refusal = self.adoption_of(rendered).refusal(live) if is_foreign else ""
        return Cause(Reason.CONFLICT, refusal) if refusal else None

    def _permission_cause(self, write: NodeWrite, drain_progress: Callable[[], DrainProgress | None]) -> Cause | None:
        """Return the cause that denies permission for `write`, or None if the write is permitted.

        A replacement also needs permission to create the object.
        """
        rendered, node, key, live, action, _ = write
        if action in {NodeAction.NONE, NodeAction.READ}:
            return None
        operation = action.operation(is_applied=rendered.is_applied)
        node_id = "" if rendered.is_source else node.id
        progress = drain_progress()
        progress_of_key = progress.of_key(key) if progress else None
        change = CandidateChange(rendered, key, operation, node_id, node.level, progress_of_key, live)
        cause = self.permissions.check(change)
        if cause is None and action is NodeAction.REPLACE:
            cause = self.permissions.check(change._replace(operation=Operation.CREATE))
        return cause


def dependents_cause(plan: NodePlan) -> Cause | None:
    """Return the cause that keeps dependents of the node in `plan` from starting, or None if they may start."""
    if (
        plan.is_applied_and_ready
        or annotation({"metadata": plan.node.manifest.get("metadata")}, well_known.WAIT_FOR) == "none"
    ):
        return None
    message = plan.blocked.message if plan.blocked else f"{plan.action} to be done"
    return Cause(Reason.DEPENDENCY_NOT_READY, f"{plan.node.id}: {message}", blockers=(plan.node.id,))


def level_cause(
    barrier: Barrier, node: RenderedNode, plans: Iterable[NodePlan], dependents_causes: Mapping[str, Cause | None]
) -> Cause | None:
    """Return the cause with which an earlier level holds `node`, or None if no level holds the node.

    With the barrier `Level`, a node at a closed gate holds only its own descendants. With the barrier `All`, the node
    holds all later levels (S0-26).
    """
    if barrier is Barrier.PATH:
        return None
    return next(
        (
            cause
            for node_plan in plans
            if node_plan.node.level < node.level
            and (cause := dependents_causes[node_plan.node.id])
            and (barrier is Barrier.ALL or not _waits_for_permission(node_plan))
        ),
        None,
    )


def _unhealthy_dependency_cause(write: NodeWrite, plans: Mapping[str, NodePlan]) -> Cause | None:
    """Return a cause that names the first unhealthy dependency that `write` requires to be healthy, or None."""
    if write.action not in BARRIER_ACTIONS:
        return None
    unhealthy_names = (name for name in write.node.healthy_first if name in plans and not plans[name].healthy)
    name = next(unhealthy_names, None)
    return Cause(Reason.DEPENDENCY_NOT_READY, f"{name} is not healthy yet", blockers=(name,)) if name else None


def _waits_for_permission(plan: NodePlan) -> bool:
    return plan.lacks_permission or (plan.blocked is not None and plan.blocked.reason is Reason.DEPENDENCY_NOT_READY)


def _is_disabled(node: RenderedNode, live: Object) -> bool:
    """Return whether an annotation disables reconciliation, either in Git or by a person on the live object."""
    if annotation(node.manifest, well_known.RECONCILE) == "disabled":
        return True
    return annotation(live, well_known.RECONCILE) == "disabled" and is_annotated_by_others(live, well_known.RECONCILE)
