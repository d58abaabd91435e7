"""Write one member as its plan says: apply it, adopt it, or ask by dry run what the server would say.

An apply goes without force first; the fields of others are taken only where the plan says so. So a conflict is always seen before it is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from applier.applyset import member
from applier.applyset.adoption import AdoptPolicy, adoption_differences, migrate_managed_fields
from applier.cluster import CONTENT_MANAGER, Cluster, Object
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
from renderer.phrasing import join_names

_NO_DRY_RUN = "does not support dry run"
_RECORD_PATHS = frozenset(f".metadata.annotations.{name}" for name in member.RECORD_ANNOTATIONS)


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """What is known after the server was asked by dry runs: `observed` with its refusals, and of each change that it would accept the object as it
    is and as it would be. `denied` are those about which whoever asks may not ask, or which are over a quota.
    """

    observed: Observed
    accepted_changes: Mapping[ObjectKey, tuple[Object, Object]]
    denied: Mapping[ObjectKey, Denied]


@dataclass(frozen=True, slots=True)
class MemberWriter:
    """`revisions` maps a source to the commit that it is rendered from, `users` to whose rights it has, where these are not our own."""

    cluster: Cluster
    commits: Mapping[str, str]
    users: Mapping[str, str]

    async def write(self, plan: ApplySetPlan, node_plan: NodePlan, *, dry_run: bool = False) -> Object:
        """The object as stored, or as it would be. Raises ClusterError."""
        write_member = self._adopt if node_plan.action is NodeAction.ADOPT else self._apply
        stored = await write_member(plan, node_plan, dry_run=dry_run)
        if altered_part := member.find_alteration(stored, plan.rendered, node_plan.node, node_plan.dependencies):
            raise ServerAltered(
                f"apply {node_plan.node.key}: the server accepted it, and {altered_part} is not as it was sent; "
                "a mutating webhook or admission policy changes it: "
                "exclude the objects of Levelgate from it"
            )
        return stored

    def cluster_of(self, plan: ApplySetPlan) -> Cluster:
        """Where members of this set are written, dry runs included. There is no way back to our own rights."""
        user = self.users.get(plan.source)
        return self.cluster.with_user(user) if user else self.cluster

    async def dry_run_plan(self, plan: Plan, observed: Observed) -> DryRunResult:
        """Ask the server what it would say to every change, as dry runs. Nothing is written.

        Kept are the answers that would be the same later: a conflict, a refusal, a kind or namespace that neither the server nor this plan knows.
        That something else is missing which may be made before a new object is none of these. An object whose kind changes with it is not asked
        about. Raises Unavailable where the server is not reached at all.
        """
        changing_kinds = set(redefined_kinds(plan))
        new_namespaces = {
            key.name
            for set_plan in plan.sets
            for namespace_plan in set_plan.nodes
            if (key := namespace_plan.node.key) and key.group_kind == NAMESPACE
        }
        pairs = [
            (set_plan, node_plan)
            for set_plan in plan.sets
            for node_plan in set_plan.nodes
            if node_plan.action in {NodeAction.CREATE, NodeAction.UPDATE, NodeAction.HEAL, NodeAction.ADOPT}
            and node_plan.node.group_kind not in changing_kinds
            and not (node_plan.blocked and (node_plan.blocked.reason.is_failure or node_plan.is_held))
        ]
        requests = [asyncio.ensure_future(self._dry_run_node(set_plan, node_plan)) for set_plan, node_plan in pairs]
        try:
            answers = await asyncio.gather(*requests)
        finally:  # where one reaches nobody, each of the others would be tried once more
            for answer in requests:
                answer.cancel()
        answers_by_key = {
            node_plan.node.key: node_answer
            for (_, node_plan), node_answer in zip(pairs, answers, strict=True)
            if node_plan.node.key
        }
        denied = {key: answer for key, answer in answers_by_key.items() if isinstance(answer, Denied)}
        refused = {
            key: answer
            for key, answer in answers_by_key.items()
            if isinstance(answer, ClusterError)
            and key not in denied
            and not (isinstance(answer, NotFound) and key.namespace in new_namespaces)
        }
        accepted = {key: answer for key, answer in answers_by_key.items() if isinstance(answer, tuple)}
        return DryRunResult(observed.with_failures(refused), accepted, denied)

    async def _dry_run_node(
        self, plan: ApplySetPlan, node_plan: NodePlan
    ) -> tuple[Object, Object] | ClusterError | None:
        """The object as it is and as it would be, or why not; None where the server cannot be asked yet."""
        assert node_plan.node.key is not None
        try:
            live = await self._read_live(node_plan) if node_plan.action is NodeAction.ADOPT else node_plan.live
            expected = await self.write(plan, node_plan, dry_run=True)
        except (ServerAltered, Denied, FieldConflict, Immutable, AdoptionWouldChange, KindNotServed) as error:
            return error
        except NotFound as error:  # of a new object: its namespace
            return None if node_plan.live else error
        except Invalid as error:
            return error if _is_repeatable_refusal(error, node_plan) else None
        except Unavailable as error:
            if error.is_transient and not error.status:
                raise
            return None
        except ClusterError:
            return None
        return (live, expected) if live else None

    async def _adopt(self, plan: ApplySetPlan, node_plan: NodePlan, *, dry_run: bool = False) -> Object:
        """Make what the old owner applied ours, on exactly the object that was seen, and apply over it.

        If that breaks off in between, the object is one that we have applied before, and the next pass goes on.
        """
        assert node_plan.node.key is not None
        assert node_plan.live is not None
        key, adoption = node_plan.node.key, node_plan.adoption
        live = await self._read_live(node_plan)
        if live is None or live["metadata"]["uid"] != node_plan.live["metadata"]["uid"]:
            raise StaleWrite(f"{key} was deleted meanwhile")
        if adoption.policy is AdoptPolicy.IF_EQUAL:
            expected = await self._apply(plan, node_plan, dry_run=True)
            if fields := adoption_differences(live, expected, node_plan.node.manifest, adoption.manager_prefixes):
                raise AdoptionWouldChange(
                    f"{key} exists, and differs from Git in {join_names(fields)}; "
                    f"make them equal, or adopt it with {AdoptPolicy.IF_UNOWNED}"
                )
        entries = migrate_managed_fields(live, adoption.manager_prefixes)
        if entries is not None and not dry_run:
            precondition = {name: live["metadata"][name] for name in ("uid", "resourceVersion")}
            await self.cluster_of(plan).merge(
                key, {"metadata": {**precondition, "managedFields": entries}}, manager=CONTENT_MANAGER
            )
        return await self._apply(plan, node_plan, dry_run=dry_run)

    async def _read_live(self, node_plan: NodePlan) -> Object | None:
        """As it is now, in the version of the manifest: what its managers own is compared with that."""
        assert node_plan.node.key is not None
        cluster = self.cluster.with_versions({node_plan.node.group_kind: version_of(node_plan.node.manifest)})
        return await cluster.get(node_plan.node.key)

    async def _apply(self, plan: ApplySetPlan, node_plan: NodePlan, *, dry_run: bool = False) -> Object:
        """Apply without force first; take fields over only from those that the plan names, and at adoption from the old owner.

        The record on the object is nobody's but ours.
        """
        body = member.member_body(
            plan.rendered,
            node_plan.node,
            dependencies=node_plan.dependencies,
            live=node_plan.live,
            parent_uid=plan.parent["metadata"]["uid"] if plan.parent else "",
            commit=self.commits.get(plan.rendered.source, ""),
        )
        adopted_live = node_plan.live if node_plan.action is NodeAction.ADOPT else None
        forced_managers = (
            (*node_plan.forced_managers, *node_plan.adoption.forced_manager_prefixes(adopted_live))
            if adopted_live
            else node_plan.forced_managers
        )
        cluster = self.cluster_of(plan)
        try:
            return await cluster.apply(body, manager=CONTENT_MANAGER, dry_run=dry_run)
        except FieldConflict as conflict:
            foreign_causes = (cause for cause in conflict.causes if cause.field not in _RECORD_PATHS)
            if not all(_manager_of(cause.message).startswith(forced_managers) for cause in foreign_causes):
                raise
            return await cluster.apply(body, manager=CONTENT_MANAGER, force=True, dry_run=dry_run)


def redefined_kinds(plan: Plan) -> Iterator[GroupKind]:
    """Custom kinds whose definition is to be written."""
    for node_plan in (
        node_plan for set_plan in plan.sets for node_plan in set_plan.nodes if node_plan.node.group_kind == CRD
    ):
        if node_plan.action not in {NodeAction.NONE, NodeAction.RECORD}:
            yield from scopes_of([node_plan.node.manifest])


def _is_repeatable_refusal(refusal: Invalid, node_plan: NodePlan) -> bool:
    """A webhook that takes no dry runs has said nothing; what one says of a new object may rest on what is made before it."""
    text = str(refusal)
    return _NO_DRY_RUN not in text and not (node_plan.live is None and "admission webhook" in text)


def _manager_of(message: str) -> str:
    """The manager that a conflict names: `conflict with "kubectl-edit" using v1`."""
    return message.partition('"')[2].partition('"')[0]
