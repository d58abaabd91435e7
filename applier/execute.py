"""Carry out what a plan allows: writes of one round side by side, every answer merged into what is known. With `applier.write` the only place
that writes content.

Nothing here decides: an action is taken or it fails, and the failure is a value that the next plan reads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

from applier import inventory, member, observe
from applier.adoption import inherited
from applier.cluster import PARENT, Cluster, Object
from applier.errors import ClusterError, Invalid, KindNotServed, NotFound, StaleWrite, UnknownOutcome
from applier.inside import inside
from applier.inventory import Scope
from applier.observed import Observed
from applier.ownership import Lost
from applier.plan import NodePlan, Plan, SetPlan, Verb
from applier.prune import Fate, Orphan
from applier.write import Writer
from renderer import keys
from renderer.discretion import Discretion
from renderer.identity import Manifest, ObjectKey

BEGUN = 256
"""So many actions of a round are begun at once; how many requests are in flight is for the cluster to say."""


MOST_CONFLICTS = 3
"""So often others may write an object between our look at it and its deletion; then the uid that was seen has to do."""


@dataclass(frozen=True, slots=True)
class Result:
    """One action carried out, or not: what was done to which object of which set. `level` is None for parents; `lost` is what was put right.
    It was done for this `source` at this `revision`, its commit.
    """

    set: ObjectKey
    key: ObjectKey
    action: str
    level: int | None = None
    node: str = ""
    error: ClusterError | None = None
    lost: tuple[Lost, ...] = ()
    source: str = field(default="", compare=False)
    revision: str = field(default="", compare=False)

    @property
    def is_concluding(self) -> bool:
        """It says how the pass has ended."""
        return self.action in {"status", "stored", "dropped"}

    @property
    def is_bookkeeping(self) -> bool:
        """Nothing that anybody deployed was touched."""
        return self.is_concluding or self.action in {"covered", "shrunk", "kept", "recorded"}


@dataclass(frozen=True, slots=True)
class Outcome:
    observed: Observed
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Executor:
    """Writes to one cluster in the name of one version of the program. `revisions` maps a source to the commit that it is rendered from; `epoch` is
    the term of leadership, 0 where nobody leads. `users` maps a source to whose rights its members are written with, where these are not our own;
    parents are our records, and always written with our own. `conflicts` counts, by uid, deletions that came too late for the version that was seen;
    each is followed by a new look, which has to prove the object ours again.
    """

    cluster: Cluster
    version: str
    revisions: Mapping[str, str]
    epoch: int = 0
    users: Mapping[str, str] = field(default_factory=dict)
    conflicts: Counter[str] = field(default_factory=Counter)

    async def execute(self, plan: Plan, observed: Observed) -> Outcome:
        """One round: parents that must cover more first, then all writes and deletions that are allowed, then parents that may shrink."""
        covers = await asyncio.gather(*(self._cover(one) for one in plan.sets if one.superset))
        if covers:
            return self._merged(plan, observed, covers)
        answers = await _side_by_side(act for one in plan.sets for act in self._acts(one, observed))
        merged = self._merged(plan, observed, answers)
        touched = {
            result.key.group_kind
            for _, result in answers
            if result.action in {"deleted", "deleted to be replaced", "released", "finalizer removed"}
        }
        if touched:
            merged = Outcome(await observe.relist(self.cluster, merged.observed, touched), merged.results)
        return merged

    @property
    def _writer(self) -> Writer:
        return Writer(self.cluster, self.revisions, self.users)

    def _merged(self, plan: Plan, observed: Observed, answers: list[_Answer]) -> Outcome:
        of = {one.rendered.parent: one.rendered.source for one in plan.sets}
        discreet = Discretion(chain(observed.objects.values(), _manifests(plan)))
        results = tuple(
            replace(
                result,
                source=of[result.set],
                revision=self.revisions.get(of[result.set], ""),
                error=result.error and result.error.put(discreet),
            )
            for _, result in answers
        )
        observed = observed.seen(obj for obj, _ in answers if obj is not None)
        failures = {result.key: result.error for result in results if result.error is not None}
        stale = {key for key, error in failures.items() if isinstance(error, StaleWrite | UnknownOutcome | NotFound)}
        settled = {result.key for result in results} - failures.keys()
        return Outcome(observed.succeeded(settled).failed(failures).forgotten(stale), results)

    def _acts(self, plan: SetPlan, observed: Observed) -> Iterable[Awaitable[_Answer]]:
        for node in plan.writes:
            yield self._replace(plan, node, observed) if node.verb is Verb.REPLACE else self._write(plan, node)
        for orphan in plan.orphans:
            if orphan.allowed and orphan.fate is Fate.DELETE:
                yield self._delete(plan, orphan, observed)
            elif orphan.allowed and orphan.fate is Fate.RELEASE:
                yield self._release(plan, orphan)
        if plan.detach:
            yield self._let_go(plan, action="finalizer removed")
        if plan.finish:
            yield self._finish(plan)
        if plan.exact is not None:
            yield self._shrink(plan, plan.exact)

    async def _cover(self, plan: SetPlan) -> _Answer:
        assert plan.superset is not None
        if plan.parent is None or inventory.tool_of(plan.parent) in {"", inventory.TOOL}:
            return await self._parent(plan, plan.superset, action="covered")
        key = plan.rendered.parent
        first = await _attempt(
            Result(key, key, "taken over"), partial(self.cluster.merge, key, inherited(plan.parent), manager=PARENT)
        )
        return first if first[1].error else await self._parent(plan, plan.superset, action="taken over")

    async def _shrink(self, plan: SetPlan, exact: Scope) -> _Answer:
        """Write the exact scope once a fresh list shows that nothing is left of the kinds and namespaces that go."""
        left = await self._left_of(plan, exact)
        if left:
            return None, Result(
                plan.rendered.parent, plan.rendered.parent, "kept", error=StaleWrite(f"members of {left} appeared")
            )
        return await self._parent(plan, exact, action="shrunk")

    async def _left_of(self, plan: SetPlan, exact: Scope) -> str:
        selector = f"{keys.PART_OF}={plan.rendered.id}"
        for kind in sorted(plan.current.kinds - exact.kinds):
            try:
                if await self.cluster.list(kind, selector=selector, metadata_only=True):
                    return str(kind)
            except KindNotServed:
                continue
        return ""

    async def _parent(self, plan: SetPlan, scope: Scope, *, action: str) -> _Answer:
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
        )
        return await _attempt(Result(key, key, action), partial(self.cluster.apply, body, manager=PARENT, force=True))

    async def _write(self, plan: SetPlan, node: NodePlan) -> _Answer:
        assert node.node.key is not None
        words = {
            Verb.CREATE: "created",
            Verb.ADOPT: "adopted",
            Verb.UPDATE: "updated",
            Verb.HEAL: "healed",
            Verb.RECORD: "recorded",
        }
        result = Result(
            plan.rendered.parent, node.node.key, words[node.verb], node.node.level, node.node.id, lost=node.lost
        )
        return await _attempt(result, partial(self._writer.write, plan, node))

    async def _replace(self, plan: SetPlan, node: NodePlan, observed: Observed) -> _Answer:
        """Delete exactly the object that could not be changed; once it is gone, the next round finds it to be created."""
        assert node.node.key is not None
        assert node.live is not None
        key, metadata = node.node.key, node.live["metadata"]
        result = Result(plan.rendered.parent, key, "deleted to be replaced", node.node.level, node.node.id)
        return await _attempt(
            result, partial(self._remove, plan, key, metadata["uid"], metadata["resourceVersion"], observed)
        )

    async def _delete(self, plan: SetPlan, orphan: Orphan, observed: Observed) -> _Answer:
        gone = orphan.member
        result = Result(plan.rendered.parent, gone.key, "deleted", gone.level, gone.node)
        return await _attempt(result, partial(self._remove, plan, gone.key, gone.uid, gone.resource_version, observed))

    async def _remove(self, plan: SetPlan, key: ObjectKey, uid: str, resource_version: str, observed: Observed) -> None:
        if found := await inside(self.cluster, key, observed):
            raise Invalid(f"not deleted: it still holds {found}")
        version = resource_version if self.conflicts[uid] < MOST_CONFLICTS else None
        try:
            await self._writer.cluster_of(plan).delete(key, uid=uid, resource_version=version)
        except StaleWrite:
            self.conflicts[uid] += 1
            raise
        del self.conflicts[uid]

    async def _release(self, plan: SetPlan, orphan: Orphan) -> _Answer:
        """Take our marks off and leave the object; what we own of its content stays owned until somebody else applies it."""
        key = orphan.member.key
        body = {
            "metadata": {
                "uid": orphan.member.uid,
                "labels": {keys.PART_OF: None},
                "annotations": dict.fromkeys(member.RECORD),
            }
        }
        result = Result(plan.rendered.parent, key, "released", orphan.member.level, orphan.member.node)
        return await _attempt(result, partial(self._writer.cluster_of(plan).merge, key, body, manager=PARENT))

    async def _finish(self, plan: SetPlan) -> _Answer:
        """Let a deleted instance go once a fresh list of its whole scope is empty."""
        if left := await self._left_of(plan, Scope()):
            return None, Result(
                plan.rendered.parent, plan.rendered.parent, "kept", error=StaleWrite(f"members of {left} appeared")
            )
        return await self._let_go(plan, action="finalizer removed")

    async def _let_go(self, plan: SetPlan, *, action: str) -> _Answer:
        assert plan.parent is not None
        metadata = plan.parent["metadata"]
        kept = [name for name in metadata["finalizers"] if name != keys.FINALIZER]
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "finalizers": kept}
        }
        key = plan.rendered.parent
        answer = await _attempt(Result(key, key, action), partial(self.cluster.merge, key, body, manager=PARENT))
        return (None, answer[1])


def _manifests(plan: Plan) -> Iterator[Manifest]:
    return (node.node.manifest for one in plan.sets for node in one.nodes if node.node.writable)


_Answer = tuple[Object | None, Result]


async def _side_by_side(acts: Iterable[Awaitable[_Answer]]) -> list[_Answer]:
    """The answers, in order. No act is made long before its request can be sent: what it sends is made while others are under way."""
    answers: dict[int, _Answer] = {}
    numbered = enumerate(acts)

    async def work(begun: tuple[int, Awaitable[_Answer]]) -> None:
        for number, act in chain((begun,), numbered):
            answers[number] = await act

    await asyncio.gather(*map(work, islice(numbered, BEGUN)))
    return [answers[number] for number in range(len(answers))]


async def _attempt(result: Result, act: Callable[[], Awaitable[Object | None]]) -> _Answer:
    try:
        return await act(), result
    except ClusterError as error:
        return None, replace(result, error=error)
