"""Inputs of a plan other than live objects: records of Levelgate, and writes that the server refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.applyset.inventory import Scope
from applier.causes import Cause
from applier.cluster import Object
from applier.errors import ClusterError
from applier.plan.deletion_brake import DeletionBrake
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY, ConflictPolicy
from applier.state.managed_fields import manager_entries
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

RefusedWriteKey = tuple[ObjectKey, ObjectKey]
"""Key of a write: the key of the parent of the set, and the key of the written object."""


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """Write that the server refused, recorded so that Levelgate does not repeat the write too early.

    `intent` is the refused manifest. `live` is the `refusal_relevant_state` of the object before the write, or None if
    the object did not exist.
    """

    error: ClusterError
    intent: Any
    live: Mapping[str, Any] | None

    def is_same(self, intent: Any, live: Object | None) -> bool:
        """Return whether a write of `intent` to `live` would repeat this write on an unchanged object."""
        return bool(self.intent == intent) and self.live == refusal_relevant_state(live)


def refusal_relevant_state(live: Object | None) -> Mapping[str, Any] | None:
    """Return the parts of `live` that a refusal can depend on, or None if `live` is None.

    The status, the resource version and the times of writes are left out.
    """
    if live is None:
        return None
    metadata = {
        name: value for name, value in live["metadata"].items() if name not in {"resourceVersion", "managedFields"}
    }
    entries = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in manager_entries(live)
        if entry.get("subresource") != "status"
    ]
    return {**live, "status": None, "metadata": {**metadata, "managedFields": entries}}


@dataclass(frozen=True, slots=True)
class PlanConstraints:
    """Records of Levelgate that constrain a plan.

    `scopes` maps parents to the recorded scopes of their sets, so that members are found even if an instance is
    missing. `scope_sources` maps these parents to the sources that recorded the scopes. `unreadable_files`,
    `pruning_holds`, `adoptions`, `conflict_policies` and `brakes` are by source. A person approved the deletions of
    `approved_sources` for this commit. Members of `non_pruning_sources` are not deleted.

    `throttled_repairs` wait because another writer undoes these repairs again and again. `epoch` is the term of
    leadership, or 0 without leader election. Only a part of each set in `partial_sets` is planned, so the members of
    these sets are not pruned, and the scopes do not shrink. `refused_writes` are not repeated until the manifest or the
    object differs.

    `foreign_sources` maps the ids of sets that are not planned here to the sources of the sets. An unknown source is an
    empty text. `foreign_claims` maps objects to the parents of foreign sets that want the objects. Foreign sources no
    longer want `relinquished_keys`, nor the members of the sets whose ids are in `relinquished_sets`. Any set may take
    over these objects. `unlabelled_scopes` maps parents to the scopes of members that lost their label, so that the
    inventory still covers these members. No set wants the `orphaned_keys`. These objects stay, without the metadata of
    Levelgate.
    """

    scopes: Mapping[ObjectKey, Scope] = field(default_factory=dict)
    scope_sources: Mapping[ObjectKey, str] = field(default_factory=dict)
    unreadable_files: Mapping[str, UnreadableFiles] = field(default_factory=dict)
    pruning_holds: Mapping[str, str] = field(default_factory=dict)
    approved_sources: frozenset[str] = frozenset()
    throttled_repairs: Mapping[ObjectKey, Cause] = field(default_factory=dict)
    adoptions: Mapping[str, Adoption] = field(default_factory=dict)
    conflict_policies: Mapping[str, ConflictPolicy] = field(default_factory=dict)
    brakes: Mapping[str, DeletionBrake] = field(default_factory=dict)
    non_pruning_sources: frozenset[str] = frozenset()
    epoch: int = 0
    partial_sets: frozenset[ObjectKey] = frozenset()
    refused_writes: Mapping[RefusedWriteKey, RefusedWrite] = field(default_factory=dict)
    foreign_sources: Mapping[str, str] = field(default_factory=dict)
    foreign_claims: Mapping[ObjectKey, ObjectKey] = field(default_factory=dict)
    relinquished_keys: frozenset[ObjectKey] = frozenset()
    relinquished_sets: frozenset[str] = frozenset()
    unlabelled_scopes: Mapping[ObjectKey, Scope] = field(default_factory=dict)
    orphaned_keys: frozenset[ObjectKey] = frozenset()

    def adoption_of(self, source: str) -> Adoption:
        """Return the rule for the objects that `source` may adopt."""
        return self.adoptions.get(source, NO_ADOPTION)

    def conflict_policy_of(self, source: str) -> ConflictPolicy:
        """Return the policy by which `source` takes over fields from other managers."""
        return self.conflict_policies.get(source, DEFAULT_CONFLICT_POLICY)

    def refusal(self, parent: ObjectKey, key: ObjectKey, intent: Any, live: Object | None) -> ClusterError | None:
        """Return the error with which the server refused to write `intent` to the object `key`, in the set of `parent`.

        Return None if no such write was refused, or if `live` differs from the object of the refused write.
        """
        refused_write = self.refused_writes.get((parent, key))
        return refused_write.error if refused_write and refused_write.is_same(intent, live) else None
