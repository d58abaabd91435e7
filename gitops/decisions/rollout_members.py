"""Members of rollouts as queries: the rollout and the wave of each instance, and the rules of each rollout.

A rollout has the instances of one definition under one policy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any, Final, NamedTuple

from applier.causes import Cause, Reason
from gitops.decisions import rules
from gitops.decisions.definitions import definitions
from gitops.decisions.rollout_records import known_rollouts, rollout_state, unrecorded_cause
from gitops.decisions.wanted import wanted_instances, wanted_set
from gitops.gates.pace import apply_pace
from gitops.queries import Contributions, QueryGraph, QueryIndex, query
from gitops.rollouts.policy import Policy
from renderer.errors import Problem
from renderer.identity import GroupKind, ObjectKey


class Membership(NamedTuple):
    """Rollout and wave of an instance."""

    rollout: str
    wave: str
    policy: Policy
    """Policy as its source declares it, without the pace of the definition."""


class RolloutRules(NamedTuple):
    """Rules of one rollout, which are the same for all targets."""

    kind: GroupKind
    declared_policy: Policy
    policy: Policy
    """Policy with the pace that `propagateWhen` of the definition sets."""
    is_creation_paced: bool
    """True if a failed first creation counts against the rollout."""

    @property
    def of(self) -> str:
        """Return the identity of the rollout; see `RolloutState.of`."""
        return self.declared_policy.rollout_of(str(self.kind))


@query
def _kinds_by_name(graph: QueryGraph) -> Mapping[str, tuple[GroupKind, ...]]:
    """Return the kinds of the definitions by name, sorted. Several definitions may have one name."""
    found = defaultdict[str, list[GroupKind]](list)
    for kind, definition in sorted(definitions(graph).current.items()):
        found[definition.name].append(kind)
    return {name: tuple(kinds) for name, kinds in found.items()}


@query
def _recorded_kind(graph: QueryGraph, rollout: str) -> str:
    """Return the kind to which the record of a rollout belongs, or an empty text."""
    state = rollout_state(graph, rollout)
    return state.of if state else ""


@query
def rollout_prefix(graph: QueryGraph, kind: GroupKind) -> str:
    """Return the start of the names of a definition's rollouts, which is the name of the definition.

    If several definitions have one name, the definition to which the record of that name belongs keeps the name, or
    else the first kind. The names of the other definitions end with their kinds.
    """
    name = definitions(graph).current[kind].name
    kinds = _kinds_by_name(graph)[name]
    if len(kinds) == 1:
        return name
    keeper = min(kinds, key=lambda candidate: (_recorded_kind(graph, name) != str(candidate), candidate))
    return name if kind == keeper else f"{name}.{kind.kind.lower()}"


@query
def membership(graph: QueryGraph, instance: ObjectKey) -> Membership | None:
    """Return the rollout and the wave of an instance, or None for an instance in no rollout."""
    rendered, policy = wanted_set(graph, instance), rules.policy_of(graph, instance)
    if rendered is None or not isinstance(policy, Policy):
        return None
    wave = policy.wave_of(dict(rules.labels_of(rendered.manifest)))
    return Membership(policy.rollout_of(rollout_prefix(graph, instance.group_kind)), wave, policy)


@query
def all_instances(graph: QueryGraph) -> Set[ObjectKey]:
    """Return all instances with a wanted set."""
    return frozenset(wanted_instances(graph))


class _Entry(Enum):
    """Kind of an entry of `_members`."""

    # Entries are keys of many values. The hash of an enumeration is a Python function.
    __hash__ = object.__hash__

    ROLLOUT = "rollout"
    """Instances of the rollout that the entry names, each with its policy."""
    NAMES = "names"
    """All instances in rollouts, each with the name of its rollout."""
    CONFLICTS = "conflicts"
    """Instances whose policies conflict, each with the problem."""


@query
def _member_entries(graph: QueryGraph, instance: ObjectKey) -> Mapping[tuple[_Entry, str], Any]:
    policy = rules.policy_of(graph, instance)
    if isinstance(policy, Problem):
        return {(_Entry.CONFLICTS, ""): policy}
    found = membership(graph, instance)
    return {(_Entry.ROLLOUT, found.rollout): found.policy, (_Entry.NAMES, ""): found.rollout} if found else {}


_members: Final[QueryIndex[ObjectKey, tuple[_Entry, str], Any, Contributions[ObjectKey, Any]]] = QueryIndex(
    "_members",
    order=7,
    members=all_instances,
    contributions=_member_entries,
    new_entry=Contributions[ObjectKey, Any],
    spreads_unread=False,
)
"""Instances by the name of their rollout.

An instance with unread inputs makes no other rollout unread, because items read these entries. The index of the waves
does so, which only decisions read.
"""


@query
def rollouts_with_members(graph: QueryGraph) -> frozenset[str]:
    """Return the names of the rollouts that have instances."""
    return frozenset(_members(graph, (_Entry.NAMES, "")).values())


@query
def rollouts(graph: QueryGraph) -> frozenset[str]:
    """Return the names of all rollouts: those with instances, with a record, or with requests."""
    return rollouts_with_members(graph) | known_rollouts(graph)


@query
def rollout_instances(graph: QueryGraph) -> frozenset[ObjectKey]:
    """Return the instances that are in a rollout."""
    return frozenset(_members(graph, (_Entry.NAMES, "")))


def instances_of(graph: QueryGraph, rollout: str) -> frozenset[ObjectKey]:
    """Return the instances of a rollout."""
    return frozenset(_members(graph, (_Entry.ROLLOUT, rollout)))


@query
def rollout_rules(graph: QueryGraph, rollout: str) -> RolloutRules | None:
    """Return the rules of a rollout, or None for a rollout without instances."""
    members = _members(graph, (_Entry.ROLLOUT, rollout))
    if not members:
        return None
    first = min(members)
    kind, declared = first.group_kind, members[first]
    gates = definitions(graph).current[kind].propagate_when
    policy = apply_pace(declared, gates)
    is_paced = policy.is_explicit or any(gate.sets_pace for gate in gates or ())
    return RolloutRules(kind, declared, policy, is_paced)


@query
def rollout_names_by_identity(graph: QueryGraph) -> Mapping[str, str]:
    """Return the names of the rollouts with instances, by `RolloutState.of`."""
    found = ((name, rollout_rules(graph, name)) for name in sorted(rollouts_with_members(graph)))
    return {found_rules.of: name for name, found_rules in found if found_rules}


def unknown_members(graph: QueryGraph, rollout: str, failed: Set[ObjectKey]) -> frozenset[ObjectKey]:
    """Return the instances of which nobody knows how a rollout has to count them, because a query has failed.

    Args:
        failed: instances that may be members, and whose state in the rollout is unknown.
    """
    found, members = rollout_rules(graph, rollout), _members(graph, (_Entry.ROLLOUT, rollout))
    lost = (key for key in _members.failed(graph) if found and key.group_kind == found.kind)
    return frozenset(key for key in failed if key in members).union(lost)


@query
def unruled_cause(graph: QueryGraph, instance: ObjectKey) -> Cause | None:
    """Return the cause because of which no rollout can decide about an instance, or None.

    The policies of the instance conflict, or no decision of its rollout can be stored.
    """
    policy = rules.policy_of(graph, instance)
    if isinstance(policy, Problem):
        return Cause(Reason.GATE_ERROR, policy.message)
    found = membership(graph, instance)
    return unrecorded_cause(graph, found.rollout) if found else None


@query
def policy_conflicts(graph: QueryGraph) -> tuple[Problem, ...]:
    """Return the conflicts of policies, sorted."""
    return tuple(sorted(set(_members(graph, (_Entry.CONFLICTS, "")).values())))
