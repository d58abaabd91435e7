"""Inputs of a plan other than live objects: records of Levelgate, and writes that the server refused."""

from __future__ import annotations

from collections.abc import Container, Mapping
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
    """Write that the server refused, recorded so that Levelgate does not repeat the write too early."""

    error: ClusterError
    intent: Any
    """Refused manifest, refused changes of a parent, or None for a deletion."""
    live: Mapping[str, Any] | None
    """The `refusal_relevant_state` of the object before the write, or None if the object did not exist."""

    def is_same(self, intent: Any, live: Object | None) -> bool:
        """Return whether a write of `intent` to `live` would repeat this write on an unchanged object."""
        return bool(self.intent == intent) and self.live == refusal_relevant_state(live)


def refusal_relevant_state(live: Object | None) -> Mapping[str, Any] | None:
    """Return the parts of `live` that a refusal can depend on, or None if `live` is None.

    The result omits the status, the resource version and the times of writes.
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

    A foreign set is a set that this plan does not cover. A foreign source is the source of a foreign set.
    """

    scopes: Mapping[ObjectKey, Scope] = field(default_factory=dict)
    """Recorded scope of each set, by parent. Even if an instance is missing, its scope leads to its members."""
    scope_sources: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Source that recorded the scope of each set, by parent."""
    unreadable_files: Mapping[str, UnreadableFiles] = field(default_factory=dict)
    """Unreadable files, by source."""
    pruning_holds: Mapping[str, str] = field(default_factory=dict)
    """Reasons why no member of a source may be pruned, by source."""
    approved_sources: frozenset[str] = frozenset()
    """Sources for which a person approved the deletions of this commit."""
    throttled_repairs: Mapping[ObjectKey, Cause] = field(default_factory=dict)
    """Cause that delays the next repair of an object, by key. Another writer keeps undoing these repairs."""
    adoptions: Mapping[str, Adoption] = field(default_factory=dict)
    """Rule that decides which objects a source may adopt, by source."""
    conflict_policies: Mapping[str, ConflictPolicy] = field(default_factory=dict)
    """Policy by which a source takes over fields from other managers, by source."""
    brakes: Mapping[str, DeletionBrake] = field(default_factory=dict)
    """Deletion brakes, by source."""
    non_pruning_sources: Container[str] = frozenset()
    """Sources that delete nothing (`prune: false`)."""
    epoch: int = 0
    """Term of leadership, or 0 without leader election."""
    refused_writes: Mapping[RefusedWriteKey, RefusedWrite] = field(default_factory=dict)
    """Writes that Levelgate does not repeat until the manifest or the object differs."""
    foreign_sources: Mapping[str, str] = field(default_factory=dict)
    """Sources of foreign sets, by id of the set. If the source is unknown, the value is an empty string."""
    foreign_claims: Mapping[ObjectKey, ObjectKey] = field(default_factory=dict)
    """Parent of the foreign set that wants an object, by key of the object."""
    relinquished_keys: frozenset[ObjectKey] = frozenset()
    """Objects that foreign sources no longer want, so that any set may take over the objects."""
    relinquished_sets: frozenset[str] = frozenset()
    """Ids of sets whose members foreign sources no longer want, so that any set may take over the members."""
    unlabelled_scopes: Mapping[ObjectKey, Scope] = field(default_factory=dict)
    """Scopes of members that lost their label, by parent. The inventory still covers the members."""
    orphaned_keys: frozenset[ObjectKey] = frozenset()
    """Objects that no set wants, and that stay in the cluster without the metadata of Levelgate."""

    def adoption_of(self, source: str) -> Adoption:
        """Return the rule that decides which objects `source` may adopt."""
        return self.adoptions.get(source, NO_ADOPTION)

    def conflict_policy_of(self, source: str) -> ConflictPolicy:
        """Return the policy by which `source` takes over fields from other managers."""
        return self.conflict_policies.get(source, DEFAULT_CONFLICT_POLICY)

    def refusal(self, parent: ObjectKey, key: ObjectKey, intent: Any, live: Object | None) -> ClusterError | None:
        """Return the error with which the server rejected `intent` for the object `key` in the set of `parent`.

        If the server rejected no such write, or if `live` differs from the object of the rejected write, return None.
        """
        refused_write = self.refused_writes.get((parent, key))
        return refused_write.error if refused_write and refused_write.is_same(intent, live) else None
