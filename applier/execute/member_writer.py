"""Writer of single members: apply, adoption, or the dry run of either.

If the plan permits it, the writer takes over fields of other managers. The writer does not force the first apply, so
that the server reports a conflict before Levelgate decides about the conflict. If the plan knows all owners of the
fields, the writer forces the apply, but only on the version that the plan knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from applier.applyset import inventory, member
from applier.applyset.adoption import AdoptPolicy, adoption_differences, migrate_managed_fields
from applier.cluster import CONTENT_MANAGER, Cluster, Object
from applier.errors import (
    AdoptionWouldChange,
    FieldConflict,
    ServerAltered,
    StaleWrite,
)
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan
from applier.state.field_conflicts import ConflictPolicy, FieldOwner
from applier.state.managed_fields import without_fields
from renderer.frozen import dataclass
from renderer.identity import version_of
from renderer.phrasing import join_names

_RECORD_PATHS = frozenset(f".metadata.annotations.{name}" for name in member.RECORD_ANNOTATIONS)


@dataclass(frozen=True, slots=True)
class MemberWriter:
    """Writer of members for the sources of one plan."""

    cluster: Cluster
    commits: Mapping[str, str]
    """Id of the commit of each source, by name of the source."""
    users: Mapping[str, str]
    """User whose rights apply to the members of a source, by source. For other sources, the rights of Levelgate apply.
    """

    async def write(
        self, plan: ApplySetPlan, node_plan: NodePlan, parent_body: Object | None = None, *, dry_run: bool = False
    ) -> Object:
        """Write a member, and return the object that the server stored.

        If `dry_run` is true, return the object that the server would store, and store nothing.

        Args:
            parent_body: inventory that the write of a new instance includes, or None.

        Raises: ClusterError.
        """
        if node_plan.action is NodeAction.ADOPT:
            stored = await self._adopt(plan, node_plan, dry_run=dry_run)
        else:
            stored = await self._apply(plan, node_plan, parent_body, dry_run=dry_run)
        if altered_part := member.find_alteration(stored, plan.rendered, node_plan.node, node_plan.dependencies):
            raise ServerAltered(
                f"apply {node_plan.node.key}: the server accepted the object and changed {altered_part}; "
                "find the mutating webhook or admission policy, and exclude the objects of Levelgate from it"
            )
        return stored

    def cluster_of(self, plan: ApplySetPlan) -> Cluster:
        """Return the cluster with the rights of the source, for all writes and dry runs of members of `plan`.

        After a refusal, Levelgate never repeats the write with its own rights.
        """
        user = self.users.get(plan.source)
        return self.cluster.with_user(user) if user else self.cluster

    async def _adopt(self, plan: ApplySetPlan, node_plan: NodePlan, *, dry_run: bool = False) -> Object:
        """Transfer the fields of the old owner on exactly the observed object, then apply the manifest.

        If the process crashes between the two writes, the object counts as applied by Levelgate, so the next plan
        updates the object.

        Raises: ClusterError, StaleWrite if the object is gone, AdoptionWouldChange if the policy permits no changes.
        """
        assert node_plan.node.key is not None
        assert node_plan.live is not None
        key, adoption = node_plan.node.key, node_plan.adoption
        live = await self.read_live(node_plan)
        if live is None or live["metadata"]["uid"] != node_plan.live["metadata"]["uid"]:
            raise StaleWrite(f"{key} was deleted meanwhile")
        if adoption.policy is AdoptPolicy.IF_EQUAL:
            expected = await self._apply(plan, node_plan, dry_run=True)
            if fields := adoption_differences(live, expected, node_plan.node.manifest, adoption.manager_prefixes):
                raise AdoptionWouldChange(
                    f"{key} exists, and differs from Git in {join_names(fields)}; "
                    f"make both equal, or adopt the object with {AdoptPolicy.IF_UNOWNED}"
                )
        entries = migrate_managed_fields(live, adoption.manager_prefixes)
        if entries is not None and not dry_run:
            precondition = {name: live["metadata"][name] for name in ("uid", "resourceVersion")}
            await self.cluster_of(plan).merge(
                key, {"metadata": {**precondition, "managedFields": entries}}, manager=CONTENT_MANAGER
            )
        return await self._apply(plan, node_plan, dry_run=dry_run)

    async def read_live(self, node_plan: NodePlan) -> Object | None:
        """Return the live object in the API version of its manifest, or None if the object is absent.

        A comparison of managed fields with the manifest needs this API version.

        Raises: ClusterError.
        """
        assert node_plan.node.key is not None
        cluster = self.cluster.with_versions({node_plan.node.group_kind: version_of(node_plan.node.manifest)})
        return await cluster.get(node_plan.node.key)

    async def _apply(
        self, plan: ApplySetPlan, node_plan: NodePlan, parent_body: Object | None = None, *, dry_run: bool = False
    ) -> Object:
        """Apply a member, and take over fields only from managers that the plan names.

        For an adoption, the plan names the old owner. The request omits fields that the plan leaves to other managers.

        Raises: ClusterError.
        """
        body = member.member_body(
            plan.rendered,
            node_plan.node,
            dependencies=node_plan.dependencies,
            live=node_plan.live,
            parent_uid=plan.parent["metadata"]["uid"] if plan.parent else "",
            commit=self.commits.get(plan.rendered.source, ""),
        )
        body = without_fields(body, node_plan.contested_fields)
        if node_plan.live:
            body = inventory.with_kept_bookkeeping(body, node_plan.live)
        elif parent_body:
            body = inventory.with_first_bookkeeping(body, parent_body["metadata"])
        cluster = self.cluster_of(plan)
        if node_plan.action is NodeAction.HEAL and node_plan.live and _are_taken_back(node_plan):
            with suppress(StaleWrite):
                metadata = {**body["metadata"], "resourceVersion": node_plan.live["metadata"]["resourceVersion"]}
                seen = {**body, "metadata": metadata}
                return await cluster.apply(seen, manager=CONTENT_MANAGER, force=True, dry_run=dry_run)
        try:
            return await cluster.apply(body, manager=CONTENT_MANAGER, dry_run=dry_run)
        except FieldConflict as conflict:
            lost_bookkeeping = {cause.field for cause in conflict.causes if cause.field in inventory.BOOKKEEPING_PATHS}
            managers = (
                FieldOwner.from_conflict(cause.message)
                for cause in conflict.causes
                if cause.field not in _RECORD_PATHS | lost_bookkeeping
            )
            if not all(_is_overruled(manager, node_plan) for manager in managers):
                raise
            body = inventory.without_lost_bookkeeping(body, lost_bookkeeping)
            return await cluster.apply(body, manager=CONTENT_MANAGER, force=True, dry_run=dry_run)


def _are_taken_back(node_plan: NodePlan) -> bool:
    """Return whether the plan knows the owners of all fields to heal, and permits taking back every field."""
    lost_fields, policy = node_plan.lost_fields, node_plan.conflict_policy
    return bool(lost_fields) and all(field.managers and field.is_healed_under(policy) for field in lost_fields)


def _is_overruled(manager: FieldOwner, node_plan: NodePlan) -> bool:
    """Return whether the writer takes over the fields of `manager`.

    Unless the conflict policy is `Force`, an adoption takes over only fields of the old owner.
    """
    if node_plan.action is not NodeAction.ADOPT or node_plan.live is None:
        return node_plan.conflict_policy.takes_from(manager)
    old_owners = node_plan.adoption.forced_manager_prefixes(node_plan.live)
    return node_plan.conflict_policy is ConflictPolicy.FORCE or manager.name.startswith(old_owners)
