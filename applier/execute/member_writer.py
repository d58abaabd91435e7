"""Write one member as its plan says: apply it, adopt it, or ask by dry run what the server would say.

An apply goes without force first; the fields of others are taken only where the plan says so. So a conflict is always seen before it is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import field

from applier.applyset import member
from applier.applyset.adoption import AdoptPolicy, differences, migrated
from applier.cluster import CONTENT, Cluster, Object
from applier.errors import (
    AdoptionWouldChange,
    ClusterError,
    Denied,
    FieldConflict,
    Immutable,
    Invalid,
    KindNotServed,
    NotFound,
    ServerAltered,
    StaleWrite,
    Unavailable,
)
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from applier.state.observed import Observed
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, version_of
from renderer.kinds import CRD, NAMESPACE, scopes_of

_NO_DRY_RUN = "does not support dry run"
_OF_RECORD = frozenset(f".metadata.annotations.{name}" for name in member.RECORD)


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """What is known after the server was asked by dry runs: `observed` with its refusals, and of each change that it would accept the object as it
    is and as it would be. `denied` are those about which whoever asks may not ask, or which are over a quota.
    """

    observed: Observed
    answers: Mapping[ObjectKey, tuple[Object, Object]]
    denied: Mapping[ObjectKey, Denied]


@dataclass(frozen=True, slots=True)
class MemberWriter:
    """`revisions` maps a source to the commit that it is rendered from, `users` to whose rights it has, where these are not our own."""

    cluster: Cluster
    revisions: Mapping[str, str]
    users: Mapping[str, str] = field(default_factory=dict)

    async def write(self, plan: ApplySetPlan, node: NodePlan, *, dry_run: bool = False) -> Object:
        """The object as stored, or as it would be. Raises ClusterError."""
        act = self._adopt if node.verb is NodeAction.ADOPT else self._apply
        stored = await act(plan, node, dry_run=dry_run)
        if what := member.altered(stored, plan.rendered, node.node, node.deps):
            raise ServerAltered(
                f"apply {node.node.key}: the server took it, and {what} is not as it was sent; a mutating webhook or admission policy changes it: "
                "exclude what Levelgate applies from it"
            )
        return stored

    def cluster_of(self, plan: ApplySetPlan) -> Cluster:
        """Where members of this set are written, dry runs included. There is no way back to our own rights."""
        user = self.users.get(plan.source)
        return self.cluster.impersonating(user) if user else self.cluster

    async def rehearse(self, plan: Plan, observed: Observed) -> DryRunResult:
        """Ask the server what it would say to every change, as dry runs. Nothing is written.

        Kept are the answers that would be the same later: a conflict, a refusal, a kind or namespace that neither the server nor this plan knows.
        That something else is missing which may be made before a new object is none of these. An object whose kind changes with it is not asked
        about. Raises Unavailable where the server is not reached at all.
        """
        changing = set(redefined(plan))
        coming = {
            key.name for one in plan.sets for it in one.nodes if (key := it.node.key) and key.group_kind == NAMESPACE
        }
        nodes = [
            (one, node)
            for one in plan.sets
            for node in one.nodes
            if node.verb in {NodeAction.CREATE, NodeAction.UPDATE, NodeAction.HEAL, NodeAction.ADOPT}
            and node.node.group_kind not in changing
            and not (node.blocked and (node.blocked.reason.is_failure or node.is_held))
        ]
        asked = [asyncio.ensure_future(self._answer(one, node)) for one, node in nodes]
        try:
            answers = await asyncio.gather(*asked)
        finally:  # where one reaches nobody, each of the others would be tried once more
            for answer in asked:
                answer.cancel()
        told = {node.node.key: found for (_, node), found in zip(nodes, answers, strict=True) if node.node.key}
        denied = {key: answer for key, answer in told.items() if isinstance(answer, Denied)}
        refused = {
            key: answer
            for key, answer in told.items()
            if isinstance(answer, ClusterError)
            and key not in denied
            and not (isinstance(answer, NotFound) and key.namespace in coming)
        }
        accepted = {key: answer for key, answer in told.items() if isinstance(answer, tuple)}
        return DryRunResult(observed.with_failures(refused), accepted, denied)

    async def _answer(self, plan: ApplySetPlan, node: NodePlan) -> tuple[Object, Object] | ClusterError | None:
        """The object as it is and as it would be, or why not; None where the server cannot be asked yet."""
        assert node.node.key is not None
        try:
            live = await self._live(node) if node.verb is NodeAction.ADOPT else node.live
            wanted = await self.write(plan, node, dry_run=True)
        except (ServerAltered, Denied, FieldConflict, Immutable, AdoptionWouldChange, KindNotServed) as error:
            return error
        except NotFound as error:  # of a new object: its namespace
            return None if node.live else error
        except Invalid as error:
            return error if _would_say_it_again(error, node) else None
        except Unavailable as error:
            if error.again and not error.status:
                raise
            return None
        except ClusterError:
            return None
        return (live, wanted) if live else None

    async def _adopt(self, plan: ApplySetPlan, node: NodePlan, *, dry_run: bool = False) -> Object:
        """Make what the old owner applied ours, on exactly the object that was seen, and apply over it.

        If that breaks off in between, the object is one that we have applied before, and the next pass goes on.
        """
        assert node.node.key is not None
        assert node.live is not None
        key, adoption = node.node.key, node.adoption
        live = await self._live(node)
        if live is None or live["metadata"]["uid"] != node.live["metadata"]["uid"]:
            raise StaleWrite(f"{key} was deleted meanwhile")
        if adoption.policy is AdoptPolicy.IF_EQUAL:
            wanted = await self._apply(plan, node, dry_run=True)
            if fields := differences(live, wanted, node.node.manifest, adoption.managers):
                raise AdoptionWouldChange(
                    f"{key} exists, and Git says otherwise of {', '.join(fields[:5])}{' and more' if fields[5:] else ''}; "
                    f"make them equal, or adopt it with {AdoptPolicy.IF_UNOWNED}"
                )
        entries = migrated(live, adoption.managers)
        if entries is not None and not dry_run:
            seen = {name: live["metadata"][name] for name in ("uid", "resourceVersion")}
            await self.cluster_of(plan).merge(key, {"metadata": {**seen, "managedFields": entries}}, manager=CONTENT)
        return await self._apply(plan, node, dry_run=dry_run)

    async def _live(self, node: NodePlan) -> Object | None:
        """As it is now, in the version of the manifest: what its managers own is compared with that."""
        assert node.node.key is not None
        shown = self.cluster.showing({node.node.group_kind: version_of(node.node.manifest)})
        return await shown.get(node.node.key)

    async def _apply(self, plan: ApplySetPlan, node: NodePlan, *, dry_run: bool = False) -> Object:
        """Apply without force first; take fields over only from those that the plan names, and at adoption from the old owner.

        The record on the object is nobody's but ours.
        """
        body = member.body(
            plan.rendered,
            node.node,
            deps=node.deps,
            live=node.live,
            parent_uid=plan.parent["metadata"]["uid"] if plan.parent else "",
            revision=self.revisions.get(plan.rendered.source, ""),
        )
        adopted = node.live if node.verb is NodeAction.ADOPT else None
        takes = (*node.forced_managers, *node.adoption.takes(adopted)) if adopted else node.forced_managers
        cluster = self.cluster_of(plan)
        try:
            return await cluster.apply(body, manager=CONTENT, dry_run=dry_run)
        except FieldConflict as conflict:
            theirs = (cause for cause in conflict.causes if cause.field not in _OF_RECORD)
            if not all(_manager_of(cause.message).startswith(takes) for cause in theirs):
                raise
            return await cluster.apply(body, manager=CONTENT, force=True, dry_run=dry_run)


def redefined(plan: Plan) -> Iterator[GroupKind]:
    """Custom kinds whose definition is to be written."""
    for node in (node for one in plan.sets for node in one.nodes if node.node.group_kind == CRD):
        if node.verb not in {NodeAction.NONE, NodeAction.RECORD}:
            yield from scopes_of([node.node.manifest])


def _would_say_it_again(refused: Invalid, node: NodePlan) -> bool:
    """A webhook that takes no dry runs has said nothing; what one says of a new object may rest on what is made before it."""
    text = str(refused)
    return _NO_DRY_RUN not in text and not (node.live is None and "admission webhook" in text)


def _manager_of(message: str) -> str:
    """The manager that a conflict names: `conflict with "kubectl-edit" using v1`."""
    return message.partition('"')[2].partition('"')[0]
