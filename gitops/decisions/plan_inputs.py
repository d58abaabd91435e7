"""Inputs of plans other than renderings and live objects: configuration, records, refusals and permissions."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.applyset.inventory import Scope
from applier.causes import Cause
from applier.plan.constraints import PlanConstraints, RefusedWrite, RefusedWriteKey
from applier.plan.deletion_brake import DEFAULT_BRAKE, DeletionBrake
from applier.plan.model import ChangePermissions
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY, ConflictPolicy
from gitops.decisions.definitions import catalog
from gitops.decisions.live_view import Contained, Lookup
from gitops.decisions.planned import recorded_scope
from gitops.queries import Input, QueryGraph
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.identity import ObjectKey


class SourceSettings(NamedTuple):
    """Settings of a source that its plans follow."""

    adoption: Adoption = NO_ADOPTION
    """Rule that decides which objects the source may adopt."""
    conflict_policy: ConflictPolicy = DEFAULT_CONFLICT_POLICY
    """Policy by which the source takes over fields from other managers."""
    brake: DeletionBrake = DEFAULT_BRAKE
    prunes: bool = True
    """False for a source that deletes nothing."""


source_settings: Final[Input[[str], SourceSettings]] = Input(
    "source_settings", initial=SourceSettings(), starts_unread=False
)
"""Settings from the configuration of a source."""


class PruneApproval(NamedTuple):
    """What people and records say about the deletions of a source."""

    is_approved: bool = False
    """True if a person approved the deletions of the present commit."""
    hold_message: str = ""
    """Reason why no member of the source may be pruned, or an empty text."""


prune_approval: Final[Input[[str], PruneApproval]] = Input(
    "prune_approval", initial=PruneApproval(), starts_unread=False
)
"""Approval and hold of the deletions of a source."""


class ForeignSets(NamedTuple):
    """Sets that the plan does not cover, from the records of their sources. See `PlanConstraints` for the fields."""

    sources: Mapping[str, str] = {}
    claims: Mapping[ObjectKey, ObjectKey] = {}
    relinquished_keys: frozenset[ObjectKey] = frozenset()
    relinquished_sets: frozenset[str] = frozenset()


foreign_sets: Final[Input[[], ForeignSets]] = Input("foreign_sets", initial=ForeignSets(), starts_unread=False)
"""Sets of sources that this process does not reconcile."""

refused_writes: Final[Input[[ObjectKey], Mapping[ObjectKey, RefusedWrite]]] = Input(
    "refused_writes", initial={}, starts_unread=False
)
"""Writes of the set of a parent that the server refused, by the key of the object."""

throttled_repairs: Final[Input[[], Mapping[ObjectKey, Cause]]] = Input(
    "throttled_repairs", initial={}, starts_unread=False
)
"""Causes that delay the next repair of objects that another writer keeps changing."""

unlabelled_scope: Final[Input[[ObjectKey], Scope]] = Input("unlabelled_scope", initial=Scope(), starts_unread=False)
"""Scope of the members of a parent that lost their label."""

orphaned_keys: Final[Input[[], frozenset[ObjectKey]]] = Input("orphaned_keys", initial=frozenset(), starts_unread=False)
"""Objects that no set wants, and that stay in the cluster without the metadata of Levelgate."""

epoch: Final[Input[[], int]] = Input("epoch", initial=0, starts_unread=False)
"""Term of leadership, or 0 without leader election."""

assumed_permissions: Final[Input[[], ChangePermissions | None]] = Input(
    "assumed_permissions", initial=None, starts_unread=False, same=operator.is_
)
"""Permissions that a plan supposes in place of those that windows, gates, the pace and people give, or None."""

granted_revision: Final[Input[[ObjectKey], int]] = Input("granted_revision", initial=0, starts_unread=False)
"""Number of the revision that the rollout of an instance has granted and recorded, or 0."""

is_to_final_state: Final[Input[[], bool]] = Input("is_to_final_state", initial=False, starts_unread=False)
"""Whether plans go to the final state, in which deletions follow all writes."""


Brakes = tuple[tuple[str, str], ...]
"""Sources whose deletions wait for an approval, each with the message of the brake, sorted."""


def constraints_of(graph: QueryGraph, brakes: Mapping[str, str]) -> PlanConstraints:
    """Return the constraints of plans. A query that looks up one value depends on that value alone.

    Args:
        brakes: messages of the deletion brake, by source.
    """
    foreign = foreign_sets(graph)

    def hold_message(source: str) -> str | None:
        return prune_approval(graph, source).hold_message or brakes.get(source)

    def scope_of(parent: ObjectKey) -> Scope | None:
        recorded = recorded_scope(graph, parent)
        return recorded.scope if recorded else None

    def refused_write(write: RefusedWriteKey) -> RefusedWrite | None:
        parent, key = write
        return refused_writes(graph, parent).get(key)

    def unreadable_files(source: str) -> UnreadableFiles:
        return catalog(graph, source).protection

    return PlanConstraints(
        scopes=Lookup(scope_of, "scopes"),
        unreadable_files=Lookup(unreadable_files, "sources"),
        pruning_holds=Lookup(hold_message, "sources"),
        throttled_repairs=throttled_repairs(graph),
        adoptions=Lookup(lambda source: source_settings(graph, source).adoption, "sources"),
        conflict_policies=Lookup(lambda source: source_settings(graph, source).conflict_policy, "sources"),
        non_pruning_sources=Contained[str](lambda source: not source_settings(graph, source).prunes),
        epoch=epoch(graph),
        refused_writes=Lookup(refused_write, "writes"),
        foreign_sources=foreign.sources,
        foreign_claims=foreign.claims,
        relinquished_keys=foreign.relinquished_keys,
        relinquished_sets=foreign.relinquished_sets,
        unlabelled_scopes=Lookup(partial(unlabelled_scope, graph), "scopes"),
        orphaned_keys=orphaned_keys(graph),
    )
