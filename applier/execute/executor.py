"""Carry out what a plan allows: writes of one round side by side, every answer merged into what is known. With
`applier.execute.member_writer` the only place
that writes content.

Nothing here decides: an action is taken or it fails, and the failure is a value that the next plan reads. So is that no answer has come yet: see
`applier.execute.pending_writes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain

from applier.applyset import inventory, member
from applier.applyset.adoption import inherited
from applier.applyset.inventory import Scope
from applier.cluster import PARENT, Cluster, Reader
from applier.errors import ClusterError, Invalid, KindNotServed, NotFound, StaleWrite, UnknownOutcome
from applier.execute.member_writer import MemberWriter
from applier.execute.pending_writes import PendingAction, WriteBatch
from applier.execute.results import Answer, Result
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from applier.plan.prune import PruneCandidate, PruneOutcome
from applier.read import observe
from applier.read.contents import contents_of
from applier.state.managed_fields import Lost
from applier.state.observed import Observed
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import Manifest, ObjectKey
from renderer.secret_redaction import SecretRedactor

MOST_CONFLICTS = 3
"""So often others may write an object between our look at it and its deletion; then the uid that was seen has to do."""


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    observed: Observed
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Executor:
    """Writes to one cluster in the name of one version of the program. `revisions` maps a source to the commit that it is rendered from; `epoch` is
    the term of leadership, 0 where nobody leads. `users` maps a source to whose rights its members are written with, where these are not our own;
    parents are our records, and always written with our own. `conflicts` counts, by uid, deletions that came too late for the version that was seen;
    each is followed by a new look, which has to prove the object ours again. `reads` is how the cluster is read, `comparisons` those of
    the plans.
    """

    cluster: Cluster
    reads: Reader
    version: str
    revisions: Mapping[str, str]
    batch: WriteBatch
    epoch: int = 0
    users: Mapping[str, str] = field(default_factory=dict)
    conflicts: Counter[str] = field(default_factory=Counter)
    comparisons: ComparisonCache = field(default_factory=ComparisonCache)

    async def execute(self, plan: Plan, observed: Observed) -> RoundOutcome:
        """One round: parents that must cover more first, then all writes and deletions that are allowed, then parents that may shrink. It is over
        when all have answered, or when no answer has come for a while.
        """
        discreet = SecretRedactor(chain(observed.objects.values(), _manifests(plan)))

        def act(one: ApplySetPlan, key: ObjectKey, do: _Do) -> PendingAction:
            return PendingAction(key, partial(self._done, discreet, do))

        acts = [act(one, one.rendered.parent, partial(self._cover, one)) for one in plan.sets if one.superset]
        due = (act(one, key, do) for one in plan.sets for key, do in self._acts(one, observed))
        return await self._merged(observed, await self.batch.take(acts or due))

    async def await_pending(self, observed: Observed) -> RoundOutcome | None:
        """Nothing more is allowed now: the next answers of what is still open; None where there are none to wait for."""
        answers = await self.batch.rest()
        return await self._merged(observed, answers) if answers else None

    @property
    def _writer(self) -> MemberWriter:
        return MemberWriter(self.cluster, self.revisions, self.users)

    async def _done(self, discreet: SecretRedactor, do: _Do) -> Answer:
        obj, result = await do()
        return obj, replace(result, error=result.error.put(discreet)) if result.error else result

    def _result(
        self,
        plan: ApplySetPlan,
        key: ObjectKey,
        action: str,
        level: int | None = None,
        node: str = "",
        lost: tuple[Lost, ...] = (),
    ) -> Result:
        """What is told where it succeeds."""
        source = plan.rendered.source
        return Result(
            plan.rendered.parent,
            key,
            action,
            level,
            node,
            lost=lost,
            source=source,
            revision=self.revisions.get(source, ""),
        )

    async def _merged(self, observed: Observed, answers: Sequence[Answer]) -> RoundOutcome:
        results = tuple(result for _, result in answers)
        observed = observed.with_objects(obj for obj, _ in answers if obj is not None)
        failures = {result.key: result.error for result in results if result.error is not None}
        stale = {key for key, error in failures.items() if isinstance(error, StaleWrite | UnknownOutcome | NotFound)}
        settled = {result.key for result in results} - failures.keys()
        observed = observed.succeeded(settled).with_failures(failures).forget(stale)
        if touched := {result.key.group_kind for result in results if result.action in _REMOVALS}:
            observed = await observe.relist(self.reads, observed, touched)
        return RoundOutcome(observed.with_failures(self.batch.underway.unanswered), results)

    def _acts(self, plan: ApplySetPlan, observed: Observed) -> Iterator[tuple[ObjectKey, _Do]]:
        for node in plan.writes:
            assert node.node.key is not None
            replaces = node.verb is NodeAction.REPLACE
            yield (
                node.node.key,
                partial(self._replace, plan, node, observed) if replaces else partial(self._write, plan, node),
            )
        for orphan in plan.orphans:
            if orphan.allowed and orphan.fate is PruneOutcome.DELETE:
                yield orphan.member.key, partial(self._delete, plan, orphan, observed)
            elif orphan.allowed and orphan.fate is PruneOutcome.RELEASE:
                yield orphan.member.key, partial(self._release, plan, orphan)
        parent = plan.rendered.parent
        if plan.detach:
            yield parent, partial(self._let_go, plan, action="finalizer removed")
        if plan.finish:
            yield parent, partial(self._finish, plan)
        if plan.exact is not None:
            yield parent, partial(self._shrink, plan, plan.exact)

    async def _cover(self, plan: ApplySetPlan) -> Answer:
        assert plan.superset is not None
        if plan.parent is None or inventory.tool_of(plan.parent) in {"", inventory.TOOL}:
            return await self._parent(plan, plan.superset, action="covered")
        key = plan.rendered.parent
        first = await self.batch.attempt(
            self._result(plan, key, "taken over"),
            partial(self.cluster.merge, key, inherited(plan.parent), manager=PARENT),
        )
        return first if first[1].error else await self._parent(plan, plan.superset, action="taken over")

    async def _shrink(self, plan: ApplySetPlan, exact: Scope) -> Answer:
        """Write the exact scope once a fresh list shows that nothing is left of the kinds and namespaces that go."""
        if hindered := await self._left_of(plan, exact):
            return hindered
        return await self._parent(plan, exact, action="shrunk")

    async def _left_of(self, plan: ApplySetPlan, exact: Scope) -> Answer | None:
        """Why the parent is kept as it is: a member of what its scope is to lose has appeared, or may have; None where certainly none is left."""
        kept = self._result(plan, plan.rendered.parent, "kept")
        for kind in sorted(plan.current.kinds - exact.kinds):
            try:
                left = await self.reads.list(
                    kind, selector=f"{well_known.PART_OF}={plan.rendered.id}", metadata_only=True
                )
            except KindNotServed:
                continue
            except ClusterError as error:
                return None, replace(kept, error=error)
            if left:
                return None, replace(kept, error=StaleWrite(f"members of {kind} appeared"))
        return None

    async def _parent(self, plan: ApplySetPlan, scope: Scope, *, action: str) -> Answer:
        key, live = plan.rendered.parent, plan.parent["metadata"] if plan.parent else {}
        begins = inventory.epoch_of(plan.parent) != self.epoch
        body = inventory.parent_body(
            key,
            plan.parent["apiVersion"] if plan.parent else "v1",
            scope,
            version=self.version,
            uid=live.get("uid", ""),
            resource_version=live.get("resourceVersion", "") if begins else "",
            finalizer=not plan.rendered.is_source,
            target=plan.target,
            epoch=self.epoch,
            completed=plan.completed,
        )
        return await self.batch.attempt(
            self._result(plan, key, action), partial(self.cluster.apply, body, manager=PARENT, force=True)
        )

    async def _write(self, plan: ApplySetPlan, node: NodePlan) -> Answer:
        assert node.node.key is not None
        result = self._result(plan, node.node.key, _DONE[node.verb], node.node.level, node.node.id, node.lost_fields)
        stored, result = await self.batch.attempt(result, partial(self._writer.write, plan, node))
        if stored is not None:
            self.comparisons.written(plan.rendered, node, stored)
        return stored, result

    async def _replace(self, plan: ApplySetPlan, node: NodePlan, observed: Observed) -> Answer:
        """Delete exactly the object that could not be changed; once it is gone, the next round finds it to be created."""
        assert node.node.key is not None
        assert node.live is not None
        key, metadata = node.node.key, node.live["metadata"]
        result = self._result(plan, key, "deleted to be replaced", node.node.level, node.node.id)
        return await self.batch.attempt(
            result, partial(self._remove, plan, key, metadata["uid"], metadata["resourceVersion"], observed)
        )

    async def _delete(self, plan: ApplySetPlan, orphan: PruneCandidate, observed: Observed) -> Answer:
        gone = orphan.member
        result = self._result(plan, gone.key, "deleted", gone.level, gone.node)
        return await self.batch.attempt(
            result, partial(self._remove, plan, gone.key, gone.uid, gone.resource_version, observed)
        )

    async def _remove(
        self, plan: ApplySetPlan, key: ObjectKey, uid: str, resource_version: str, observed: Observed
    ) -> None:
        if found := await contents_of(self.reads, key, observed):
            raise Invalid(f"not deleted: it still holds {found}")
        version = resource_version if self.conflicts[uid] < MOST_CONFLICTS else None
        try:
            await self._writer.cluster_of(plan).delete(key, uid=uid, resource_version=version)
        except StaleWrite:
            self.conflicts[uid] += 1
            raise
        del self.conflicts[uid]

    async def _release(self, plan: ApplySetPlan, orphan: PruneCandidate) -> Answer:
        """Take our marks off and leave the object; what we own of its content stays owned until somebody else applies it."""
        key = orphan.member.key
        body = {
            "metadata": {
                "uid": orphan.member.uid,
                "labels": {well_known.PART_OF: None},
                "annotations": dict.fromkeys(member.RECORD),
            }
        }
        result = self._result(plan, key, "released", orphan.member.level, orphan.member.node)
        return await self.batch.attempt(result, partial(self._writer.cluster_of(plan).merge, key, body, manager=PARENT))

    async def _finish(self, plan: ApplySetPlan) -> Answer:
        """Let a deleted instance go once a fresh list of its whole scope is empty."""
        if hindered := await self._left_of(plan, Scope()):
            return hindered
        return await self._let_go(plan, action="finalizer removed")

    async def _let_go(self, plan: ApplySetPlan, *, action: str) -> Answer:
        assert plan.parent is not None
        metadata = plan.parent["metadata"]
        kept = [name for name in metadata["finalizers"] if name != well_known.FINALIZER]
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "finalizers": kept}
        }
        key = plan.rendered.parent
        answer = await self.batch.attempt(
            self._result(plan, key, action), partial(self.cluster.merge, key, body, manager=PARENT)
        )
        return (None, answer[1])


def _manifests(plan: Plan) -> Iterator[Manifest]:
    return (node.node.manifest for one in plan.sets for node in one.nodes if node.node.writable)


_Do = Callable[[], Awaitable[Answer]]

_DONE = {
    NodeAction.CREATE: "created",
    NodeAction.ADOPT: "adopted",
    NodeAction.UPDATE: "updated",
    NodeAction.HEAL: "healed",
    NodeAction.RECORD: "recorded",
}

_REMOVALS = frozenset({"deleted", "deleted to be replaced", "released", "finalizer removed"})
