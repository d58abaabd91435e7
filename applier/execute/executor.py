"""Execution of one round of a plan: concurrent writes, whose answers become the next observed state.

Only this module and `applier.execute.member_writer` write content. Neither module decides. A failed action or a
missing answer becomes a value in the observed state, and the next plan reads this value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain

from applier.applyset import inventory, member
from applier.applyset.adoption import parent_takeover_patch
from applier.applyset.inventory import Scope
from applier.cluster import PARENT_MANAGER, Cluster, Object, Reader, list_if_served
from applier.errors import ClusterError, Invalid, NotFound, StaleWrite, UnknownOutcome
from applier.execute.member_writer import MemberWriter
from applier.execute.pending_writes import PendingAction, WriteBatch
from applier.execute.results import Answer, Result
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome
from applier.read import observe
from applier.read.contents import contents_of
from applier.state.managed_fields import LostField
from applier.state.observed import Observed
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import Manifest, ObjectKey
from renderer.secret_redaction import SecretRedactor

MAX_DELETE_CONFLICTS = 3
"""Number of deletions of one object that may fail because another client changed the object. Later deletions have only
the uid as a precondition.
"""


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """Results of the actions of a round, and the state observed after the round."""

    observed: Observed
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Executor:
    """Executor that carries out plans on one cluster."""

    cluster: Cluster
    reader: Reader
    """Reader of the cluster, for fresh lists before deletions and before a scope shrinks."""
    version: str
    """Version of Levelgate, which the executor records on parents."""
    commits: Mapping[str, str]
    """Id of the commit of each source, by name of the source."""
    batch: WriteBatch
    """Batch that sends the writes."""
    epoch: int = 0
    """Term of leadership, or 0 without leader election."""
    users: Mapping[str, str] = field(default_factory=dict)
    """User for each source, by name of the source. The rights of this user apply to members of the source. The rights
    of Levelgate apply to all parents, and to members of sources that have no user.
    """
    delete_conflicts: Counter[str] = field(default_factory=Counter)
    """Number of deletions that failed because another client had changed the object, by the uid of the object. The
    next plan decides again about the deletion, from the new version of the object.
    """

    async def execute(self, plan: Plan, observed: Observed) -> RoundOutcome:
        """Execute one round of `plan`.

        If scopes have to grow, this round writes only the parents of these scopes. Otherwise the round sends all
        permitted writes and deletions, including writes of parents. When all requests have answers, or when no answer
        has arrived for some time, the round ends.
        """
        redactor = SecretRedactor(chain(observed.objects.values(), _manifests(plan)))

        def act(key: ObjectKey, run: _RunAction) -> PendingAction:
            return PendingAction(key, partial(self._run_redacted, redactor, run))

        # A crash after the first member write must not leave a member outside of the recorded scope (KEP-3659).
        parent_actions = [
            act(set_plan.rendered.parent, partial(self._widen_scope, set_plan))
            for set_plan in plan.sets
            if set_plan.superset_scope
        ]
        new_instances = {set_plan.rendered.parent: set_plan for set_plan in plan.sets if set_plan.first_scope}
        member_actions = (
            act(key, run_action)
            for set_plan in plan.sets
            for key, run_action in self._member_actions(set_plan, observed, new_instances)
        )
        return await self._merge_answers(observed, await self.batch.start_and_collect(parent_actions or member_actions))

    async def await_pending(self, observed: Observed) -> RoundOutcome | None:
        """Return the outcome of the next late answers, or None if the executor expects no answer.

        The method is for a state in which no action may start.
        """
        answers = await self.batch.collect_remaining()
        return await self._merge_answers(observed, answers) if answers else None

    @property
    def _writer(self) -> MemberWriter:
        return MemberWriter(self.cluster, self.commits, self.users)

    async def _run_redacted(self, redactor: SecretRedactor, run: _RunAction) -> Answer:
        obj, result = await run()
        return obj, replace(result, error=result.error.with_rewritten_text(redactor)) if result.error else result

    def _result(
        self,
        plan: ApplySetPlan,
        key: ObjectKey,
        action: str,
        level: int | None = None,
        node: str = "",
        lost_fields: tuple[LostField, ...] = (),
    ) -> Result:
        """Return the result to report if `action` on the object `key` succeeds."""
        source = plan.rendered.source
        return Result(
            plan.rendered.parent,
            key,
            action,
            level,
            node,
            lost_fields=lost_fields,
            source=source,
            commit=self.commits.get(source, ""),
        )

    async def _merge_answers(self, observed: Observed, answers: Sequence[Answer]) -> RoundOutcome:
        results = tuple(result for _, result in answers)
        observed = observed.with_objects(obj for obj, _ in answers if obj is not None)
        failures = {result.key: result.error for result in results if result.error is not None}
        stale = {key for key, error in failures.items() if isinstance(error, StaleWrite | UnknownOutcome | NotFound)}
        succeeded = {result.key for result in results} - failures.keys()
        observed = observed.succeeded(succeeded).with_failures(failures).forget(stale)
        if removed_kinds := {result.key.group_kind for result in results if result.action in _REMOVALS}:
            observed = await observe.relist(self.reader, observed, removed_kinds)
        return RoundOutcome(observed.with_failures(self.batch.pending_writes.unanswered_writes), results)

    def _member_actions(
        self, plan: ApplySetPlan, observed: Observed, new_instances: Mapping[ObjectKey, ApplySetPlan]
    ) -> Iterator[tuple[ObjectKey, _RunAction]]:
        for node_plan in plan.writes:
            assert node_plan.node.key is not None
            is_replacement = node_plan.action is NodeAction.REPLACE
            yield (
                node_plan.node.key,
                partial(self._replace, plan, node_plan, observed)
                if is_replacement
                else partial(self._write, plan, node_plan, new_instances.get(node_plan.node.key)),
            )
        for candidate in plan.prune_candidates:
            if candidate.allowed and candidate.outcome is PruneOutcome.DELETE:
                yield candidate.member.key, partial(self._delete, plan, candidate, observed)
            elif candidate.allowed and candidate.outcome is PruneOutcome.RELEASE:
                yield candidate.member.key, partial(self._release, plan, candidate)
        parent = plan.rendered.parent
        if plan.detach:
            yield parent, partial(self._remove_finalizer, plan, action="finalizer removed")
        if plan.finish_deletion:
            yield parent, partial(self._finish_deletion, plan)
        if plan.exact_scope is not None:
            yield parent, partial(self._narrow_scope, plan, plan.exact_scope)

    async def _widen_scope(self, plan: ApplySetPlan) -> Answer:
        assert plan.superset_scope is not None
        if plan.parent is None or inventory.tool_of(plan.parent) in {"", inventory.TOOL}:
            return await self._write_parent(plan, plan.superset_scope, action="covered")
        key = plan.rendered.parent
        takeover_answer = await self.batch.attempt(
            self._result(plan, key, "taken over"),
            partial(self.cluster.merge, key, parent_takeover_patch(plan.parent), manager=PARENT_MANAGER),
        )
        return (
            takeover_answer
            if takeover_answer[1].error
            else await self._write_parent(plan, plan.superset_scope, action="taken over")
        )

    async def _narrow_scope(self, plan: ApplySetPlan, exact_scope: Scope) -> Answer:
        """Write `exact_scope` to the parent, after fresh lists have proved that `exact_scope` covers all members."""
        kept_answer = await self._find_remaining(plan, exact_scope)
        return kept_answer or await self._write_parent(plan, exact_scope, action="shrunk")

    async def _find_remaining(self, plan: ApplySetPlan, exact_scope: Scope) -> Answer | None:
        """Return the answer to report if the parent has to stay unchanged, or None if the scope may shrink.

        If a member exists outside of `exact_scope`, or if a list fails, the parent stays unchanged.
        """
        kept_result = self._result(plan, plan.rendered.parent, "kept")
        for kind in sorted(plan.current_scope.kinds - exact_scope.kinds):
            try:
                remaining = await list_if_served(
                    self.reader, kind, selector=f"{well_known.PART_OF}={plan.rendered.id}", metadata_only=True
                )
            except ClusterError as error:
                return None, replace(kept_result, error=error)
            if remaining:
                return None, replace(kept_result, error=StaleWrite(f"members of {kind} appeared"))
        return None

    async def _write_parent(self, plan: ApplySetPlan, scope: Scope, *, action: str) -> Answer:
        key, live = plan.rendered.parent, plan.parent["metadata"] if plan.parent else {}
        is_first_of_epoch = inventory.epoch_of(plan.parent) != self.epoch
        # If this process has lost its leadership, the parent has a newer version than the process read, so the write
        # fails.
        body = inventory.with_precondition(
            self._parent_body(plan, scope, completed=plan.completion_record),
            uid=live.get("uid", ""),
            resource_version=live.get("resourceVersion", "") if is_first_of_epoch else "",
        )
        return await self.batch.attempt(
            self._result(plan, key, action), partial(self.cluster.apply, body, manager=PARENT_MANAGER, force=True)
        )

    def _parent_body(self, plan: ApplySetPlan, scope: Scope, *, completed: str = "") -> Object:
        body = inventory.parent_body(
            plan.rendered.parent,
            plan.parent["apiVersion"] if plan.parent else "v1",
            scope,
            version=self.version,
            target=plan.target_revision,
            epoch=self.epoch,
            completed=completed,
        )
        return body if plan.rendered.is_source else inventory.with_finalizer(body)

    async def _write(self, plan: ApplySetPlan, node_plan: NodePlan, new_instance: ApplySetPlan | None) -> Answer:
        """Write a member.

        Args:
            new_instance: plan of the set of the member, if the member is an instance that does not exist yet.
        """
        assert node_plan.node.key is not None
        first_body = (
            self._parent_body(new_instance, new_instance.first_scope)
            if new_instance and new_instance.first_scope
            else None
        )
        result = self._result(
            plan,
            node_plan.node.key,
            _RESULT_ACTIONS[node_plan.action],
            node_plan.node.level,
            node_plan.node.id,
            node_plan.lost_fields,
        )
        return await self.batch.attempt(result, partial(self._writer.write, plan, node_plan, first_body))

    async def _replace(self, plan: ApplySetPlan, node_plan: NodePlan, observed: Observed) -> Answer:
        """Delete exactly the observed object, which the server cannot update. The next round creates a new object."""
        assert node_plan.node.key is not None
        assert node_plan.live is not None
        key, metadata = node_plan.node.key, node_plan.live["metadata"]
        result = self._result(plan, key, "deleted to be replaced", node_plan.node.level, node_plan.node.id)
        return await self.batch.attempt(
            result, partial(self._remove, plan, key, metadata["uid"], metadata["resourceVersion"], observed)
        )

    async def _delete(self, plan: ApplySetPlan, candidate: PruneCandidate, observed: Observed) -> Answer:
        pruned = candidate.member
        result = self._result(plan, pruned.key, "deleted", pruned.level, pruned.node_id)
        return await self.batch.attempt(
            result, partial(self._remove, plan, pruned.key, pruned.uid, pruned.resource_version, observed)
        )

    async def _remove(
        self, plan: ApplySetPlan, key: ObjectKey, uid: str, resource_version: str, observed: Observed
    ) -> None:
        if remaining := await contents_of(self.reader, key, observed):
            raise Invalid(f"not deleted: the object still contains {remaining}; remove the contents first")
        required_version = resource_version if self.delete_conflicts[uid] < MAX_DELETE_CONFLICTS else None
        try:
            await self._writer.cluster_of(plan).delete(key, uid=uid, resource_version=required_version)
        except StaleWrite:
            self.delete_conflicts[uid] += 1
            raise
        del self.delete_conflicts[uid]

    async def _release(self, plan: ApplySetPlan, candidate: PruneCandidate) -> Answer:
        """Remove the metadata of Levelgate from an object that stays.

        Levelgate remains the manager of the applied fields until another manager applies these fields.
        """
        key = candidate.member.key
        body = {
            "metadata": {
                "uid": candidate.member.uid,
                "labels": {well_known.PART_OF: None},
                "annotations": dict.fromkeys(member.RECORD_ANNOTATIONS),
            }
        }
        result = self._result(plan, key, "released", candidate.member.level, candidate.member.node_id)
        return await self.batch.attempt(
            result, partial(self._writer.cluster_of(plan).merge, key, body, manager=PARENT_MANAGER)
        )

    async def _finish_deletion(self, plan: ApplySetPlan) -> Answer:
        """Remove the finalizer of a deleted instance, after fresh lists of the instance's whole scope are empty."""
        kept_answer = await self._find_remaining(plan, Scope())
        return kept_answer or await self._remove_finalizer(plan, action="finalizer removed")

    async def _remove_finalizer(self, plan: ApplySetPlan, *, action: str) -> Answer:
        assert plan.parent is not None
        metadata = plan.parent["metadata"]
        body = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "finalizers": member.foreign_finalizers(plan.parent),
            }
        }
        key = plan.rendered.parent
        answer = await self.batch.attempt(
            self._result(plan, key, action), partial(self.cluster.merge, key, body, manager=PARENT_MANAGER)
        )
        return (None, answer[1])


def _manifests(plan: Plan) -> Iterator[Manifest]:
    return (
        node_plan.node.manifest for set_plan in plan.sets for node_plan in set_plan.nodes if node_plan.node.writable
    )


_RunAction = Callable[[], Awaitable[Answer]]

_RESULT_ACTIONS = {
    NodeAction.CREATE: "created",
    NodeAction.ADOPT: "adopted",
    NodeAction.UPDATE: "updated",
    NodeAction.HEAL: "healed",
    NodeAction.RECORD: "recorded",
}

_REMOVALS = frozenset({"deleted", "deleted to be replaced", "released", "finalizer removed"})
