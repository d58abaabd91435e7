"""Carry out what a plan allows: writes of one round side by side, every answer merged into what is known. The only place that writes content.

Nothing here decides: an action is taken or it fails, and the failure is a value that the next plan reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from applier import inventory, member, observe
from applier.adoption import AdoptPolicy, differences, migrated
from applier.cluster import CONTENT, PARENT, Cluster, Object
from applier.errors import (
    ClusterError,
    Differs,
    FieldConflict,
    Immutable,
    Invalid,
    KindNotServed,
    NotFound,
    StaleWrite,
    UnknownOutcome,
)
from applier.inventory import Scope
from applier.observed import Observed
from applier.ownership import Lost
from applier.plan import NodePlan, Plan, SetPlan, Verb
from applier.prune import Fate, Orphan
from renderer import keys
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD, NAMESPACE

_IN_EVERY_NAMESPACE = frozenset(
    {
        GroupKind("", "Event"),
        GroupKind("events.k8s.io", "Event"),
        GroupKind("", "Endpoints"),
        GroupKind("discovery.k8s.io", "EndpointSlice"),
        GroupKind("coordination.k8s.io", "Lease"),
    }
)


@dataclass(frozen=True, slots=True)
class Result:
    """One action carried out, or not: what was done to which object of which set. `level` is None for parents; `lost` is what was put right."""

    set: ObjectKey
    key: ObjectKey
    action: str
    level: int | None = None
    node: str = ""
    error: ClusterError | None = None
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    observed: Observed
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Executor:
    """Writes to one cluster in the name of one version of the program. `revisions` maps a source to the commit that it is rendered from."""

    cluster: Cluster
    version: str
    revisions: Mapping[str, str]

    async def execute(self, plan: Plan, observed: Observed) -> Outcome:
        """One round: parents that must cover more first, then all writes and deletions that are allowed, then parents that may shrink."""
        covers = await asyncio.gather(*(self._cover(one) for one in plan.sets if one.superset))
        if covers:
            return self._merged(observed, covers)
        answers = await asyncio.gather(*(act for one in plan.sets for act in self._acts(one, observed)))
        merged = self._merged(observed, answers)
        touched = {
            result.key.group_kind
            for _, result in answers
            if result.action in {"deleted", "deleted to be replaced", "released", "finalizer removed"}
        }
        if touched:
            merged = Outcome(await observe.relist(self.cluster, merged.observed, touched), merged.results)
        return merged

    async def rehearse(self, plan: Plan, observed: Observed) -> Observed:
        """Ask the server what it would say to every change of a live object, as dry runs. Nothing is written.

        Kept are the answers that would be the same later: a conflict, a refusal. A new object is not asked about: its kind or namespace may be
        as new as it is.
        """
        nodes = [
            (one, node)
            for one in plan.sets
            for node in one.nodes
            if node.verb in {Verb.UPDATE, Verb.HEAL, Verb.ADOPT}
            and not (node.blocked and (node.blocked.reason.is_failure or node.is_held))
        ]
        answers = await asyncio.gather(*(self._refusal(one, node) for one, node in nodes))
        found = {node.node.key: error for (_, node), error in zip(nodes, answers, strict=True) if error}
        return observed.failed({key: error for key, error in found.items() if key})

    async def _refusal(self, plan: SetPlan, node: NodePlan) -> ClusterError | None:
        try:
            await (self._adopt if node.verb is Verb.ADOPT else self._apply)(plan, node, dry_run=True)
        except (FieldConflict, Immutable, Differs) as error:
            return error
        except ClusterError as error:
            return error if error.status == HTTPStatus.UNPROCESSABLE_ENTITY else None
        return None

    def _merged(self, observed: Observed, answers: list[_Answer]) -> Outcome:
        results = tuple(result for _, result in answers)
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
        return await self._parent(plan, plan.superset, action="covered")

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
        key = plan.rendered.parent
        body = inventory.parent_body(
            key,
            plan.parent["apiVersion"] if plan.parent else "v1",
            scope,
            version=self.version,
            uid=plan.parent["metadata"]["uid"] if plan.parent else "",
            finalizer=not plan.rendered.is_source,
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
        act = self._adopt if node.verb is Verb.ADOPT else self._apply
        return await _attempt(result, partial(act, plan, node))

    async def _adopt(self, plan: SetPlan, node: NodePlan, *, dry_run: bool = False) -> Object:
        """Make what the old owner applied ours, on exactly the object that was seen, and apply over it.

        If that breaks off in between, the object is one that we have applied before, and the next pass goes on.
        """
        assert node.node.key is not None
        assert node.live is not None
        key, adoption = node.node.key, node.adoption
        live = await self.cluster.get(key)
        if live is None or live["metadata"]["uid"] != node.live["metadata"]["uid"]:
            raise StaleWrite(f"{key} was deleted meanwhile")
        if adoption.policy is AdoptPolicy.IF_EQUAL:
            wanted = await self._apply(plan, node, dry_run=True)
            if fields := differences(live, wanted, node.node.manifest, adoption.managers):
                raise Differs(
                    f"{key} exists, and Git says otherwise of {', '.join(fields[:5])}{' and more' if fields[5:] else ''}; "
                    f"make them equal, or adopt it with {AdoptPolicy.IF_UNOWNED}"
                )
        entries = migrated(live, adoption.managers)
        if entries is not None and not dry_run:
            seen = {name: live["metadata"][name] for name in ("uid", "resourceVersion")}
            await self.cluster.merge(key, {"metadata": {**seen, "managedFields": entries}}, manager=CONTENT)
        return await self._apply(plan, node, dry_run=dry_run)

    async def _apply(self, plan: SetPlan, node: NodePlan, *, dry_run: bool = False) -> Object:
        """Apply without force first; take fields over only from those that the plan names, and at adoption from the old owner."""
        body = member.body(
            plan.rendered,
            node.node,
            deps=node.deps,
            live=node.live,
            parent_uid=plan.parent["metadata"]["uid"] if plan.parent else "",
            revision=self.revisions.get(plan.rendered.source, ""),
        )
        takes = (*node.takes, *node.adoption.managers) if node.verb is Verb.ADOPT else node.takes
        try:
            return await self.cluster.apply(body, manager=CONTENT, dry_run=dry_run)
        except FieldConflict as conflict:
            if not all(_manager_of(cause.message).startswith(takes) for cause in conflict.causes):
                raise
            return await self.cluster.apply(body, manager=CONTENT, force=True, dry_run=dry_run)

    async def _replace(self, plan: SetPlan, node: NodePlan, observed: Observed) -> _Answer:
        """Delete exactly the object that could not be changed; once it is gone, the next round finds it to be created."""
        assert node.node.key is not None
        assert node.live is not None
        key, metadata = node.node.key, node.live["metadata"]
        result = Result(plan.rendered.parent, key, "deleted to be replaced", node.node.level, node.node.id)
        return await _attempt(
            result, partial(self._remove, key, metadata["uid"], metadata["resourceVersion"], observed)
        )

    async def _delete(self, plan: SetPlan, orphan: Orphan, observed: Observed) -> _Answer:
        gone = orphan.member
        result = Result(plan.rendered.parent, gone.key, "deleted", gone.level, gone.node)

        return await _attempt(result, partial(self._remove, gone.key, gone.uid, gone.resource_version, observed))

    async def _remove(self, key: ObjectKey, uid: str, resource_version: str, observed: Observed) -> None:
        if inside := await self._inside(key, observed):
            raise Invalid(f"not deleted: it still holds {inside}")
        await self.cluster.delete(key, uid=uid, resource_version=resource_version)

    async def _inside(self, key: ObjectKey, observed: Observed) -> str:
        """What would die with a Namespace or a CRD though it was never in a set; empty for other kinds and where nothing would."""
        if key.group_kind == CRD:
            crd = observed.objects[key]
            kind = GroupKind(crd["spec"]["group"], crd["spec"]["names"]["kind"])
            found = await self._listed(kind, None)
            return str(ObjectKey.of(found[0])) if found else ""
        if key.group_kind != NAMESPACE:
            return ""
        kinds = [
            kind
            for kind, resource in observed.discovery.resources.items()
            if resource.namespaced and "list" in resource.verbs
        ]
        for objects in await asyncio.gather(
            *(self._listed(kind, key.name) for kind in sorted(set(kinds) - _IN_EVERY_NAMESPACE))
        ):
            for obj in objects:
                owned = any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
                if not owned and not _belongs_to_every_namespace(ObjectKey.of(obj)):
                    return str(ObjectKey.of(obj))
        return ""

    async def _listed(self, kind: GroupKind, namespace: str | None) -> list[Object]:
        try:
            return await self.cluster.list(kind, namespace, metadata_only=True)
        except KindNotServed:
            return []

    async def _release(self, plan: SetPlan, orphan: Orphan) -> _Answer:
        """Take our marks off and leave the object; what we own of its content stays owned until somebody else applies it."""
        key = orphan.member.key
        body = {
            "metadata": {
                "uid": orphan.member.uid,
                "labels": {keys.PART_OF: None},
                "annotations": dict.fromkeys(
                    (
                        keys.LEVEL,
                        keys.DEPS,
                        keys.SELF,
                        keys.NODE_ID,
                        keys.HASH,
                        keys.PARENT_UID,
                        keys.SOURCE_FILE,
                        keys.NODE,
                        keys.INSTANCE,
                        keys.REVISION,
                    )
                ),
            }
        }
        result = Result(plan.rendered.parent, key, "released", orphan.member.level, orphan.member.node)
        return await _attempt(result, partial(self.cluster.merge, key, body, manager=PARENT))

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


_Answer = tuple[Object | None, Result]


async def _attempt(result: Result, act: Callable[[], Awaitable[Object | None]]) -> _Answer:
    try:
        return await act(), result
    except ClusterError as error:
        return None, replace(result, error=error)


def _manager_of(message: str) -> str:
    """The manager that a conflict names: `conflict with "kubectl-edit" using v1`."""
    return message.partition('"')[2].partition('"')[0]


def _belongs_to_every_namespace(key: ObjectKey) -> bool:
    return (key.kind, key.name) in {
        ("ServiceAccount", "default"),
        ("ConfigMap", "kube-root-ca.crt"),
        ("ConfigMap", "openshift-service-ca.crt"),
    }
