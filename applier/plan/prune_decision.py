"""Decision about the members that one set no longer wants: their outcome, their protection, and the order of deletion.

The module is pure. Cluster state alone decides, so that the decision survives crashes. Levelgate deletes a member only
when no live member of any set of Levelgate records a dependency on the member (S0-11 to S0-16). While a desired node
waits, is held or has failed, the node is unwritten. An unwritten node protects each member that it may need, and each
member that may be the object of the node. Levels only break ties between members of different revisions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from applier import status
from applier.applyset.member import (
    Member,
    MembersByHash,
    describe_deletion,
    foreign_finalizers,
    is_membership_proven,
    is_of_set,
)
from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome, PruneProtection
from applier.state.health import health_of
from applier.state.observed import annotation, label
from applier.state.observed_view import ObservedView
from renderer import well_known
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.frozen import dataclass
from renderer.graph import levels
from renderer.identity import ObjectKey, key_hash
from renderer.kinds import CRD, NAMESPACE
from renderer.phrasing import join_names
from renderer.render.model import RenderedApplySet


def index_dependents(observed: ObservedView, sets: Collection[str]) -> MembersByHash:
    """Return the live members of the sets with the ids `sets`, by the hashes of their recorded dependencies."""
    members_by_dependency: dict[str, list[Member]] = {}
    for set_id in sets:
        for key in observed.members.get(set_id, ()):
            member = Member.from_object(observed.objects[key])
            for dependency in member.dependencies:
                members_by_dependency.setdefault(dependency, []).append(member)
    return {
        dependency: tuple(sorted(members, key=lambda member: member.key))
        for dependency, members in members_by_dependency.items()
    }


@dataclass(frozen=True, slots=True)
class RemovalPolicy:
    """Rules of one set for members that the set no longer wants."""

    release: bool = False
    """True if Levelgate releases all members (deletion policy `orphan`). Otherwise Levelgate releases only members in
    `orphaned_keys`.
    """
    orphaned_keys: Collection[ObjectKey] = frozenset()
    keeping_source: str = ""
    """The source of the set if the source deletes nothing (`prune: false`), or an empty string."""
    hold_message: str = ""
    """Reason why no removal may start now, such as the deletion brake, or an empty string if removals may start."""

    def releases(self, key: ObjectKey) -> bool:
        """Return whether the member `key` stays in the cluster, without the metadata of Levelgate."""
        return self.release or key in self.orphaned_keys


def prune_candidates(
    rendered: RenderedApplySet,
    observed: ObservedView,
    *,
    desired_keys: Collection[ObjectKey],
    protections: Sequence[PruneProtection],
    dependents: MembersByHash,
    unreadable: UnreadableFiles | None,
    policy: RemovalPolicy,
) -> tuple[PruneCandidate, ...]:
    """Return the prune candidates of the set `rendered` in the order of their deletion.

    The deepest level comes first, protected candidates last.

    Args:
        desired_keys: keys of the objects that the sets in Git contain. None of these objects is a candidate.
    """

    live = [Member.from_object(observed.objects[key]) for key in observed.members.get(rendered.id, ())]
    unwanted_members = [
        member
        for member in live
        if member.key not in desired_keys and not (unreadable and unreadable.protects(member.source_file))
    ]
    protections_by_key = _effective_protections(live, unwanted_members, protections, observed)
    departing = [
        _keep_departing(decide_outcome(member, observed, policy), unreadable, protections_by_key.get(member.key))
        for member in live
        if member.is_terminating
        and member.key not in desired_keys
        and (member.key in protections_by_key or (unreadable and unreadable.protects(member.source_file)))
    ]
    remaining = [
        member
        for member in unwanted_members
        if not ((protection := protections_by_key.get(member.key)) and protection.may_match(member))
    ]
    ordered = sorted(remaining, key=lambda member: (-1 if member.level is None else -member.level, member.key))
    judged_candidates = [
        replace(
            decide_outcome(member, observed, policy),
            users=tuple(user.key for user in _users(member, dependents)),
        )
        for member in ordered
    ]
    if policy.hold_message:
        brake_cause = Cause(Reason.BRAKE_ENGAGED, policy.hold_message)
        held = [
            candidate
            if candidate.outcome is PruneOutcome.KEEP
            else replace(candidate, allowed=False, blocked=brake_cause)
            for candidate in judged_candidates
            if not (candidate.member.is_terminating and candidate.member.key in protections_by_key)
        ]
        return (*held, *departing)
    unprotected = [candidate for candidate in judged_candidates if candidate.member.key not in protections_by_key]
    protected = [
        protections_by_key[candidate.member.key].protect(candidate)
        for candidate in judged_candidates
        if candidate.member.key in protections_by_key and not candidate.member.is_terminating
    ]
    return (*_allow_unused(unprotected, dependents, observed), *protected, *departing)


def _effective_protections(
    live: list[Member], unwanted_members: list[Member], protections: Sequence[PruneProtection], observed: ObservedView
) -> Mapping[ObjectKey, PruneProtection]:
    """Return the members that `protections` protect, each with the protecting node.

    The result omits a terminating member, unless the member is the parent of a set. If every protecting node waits for
    the deletion of a Namespace or CRD, the result omits the parent too. Otherwise the node would wait for the
    Namespace, the Namespace for the set, and the set for the node.
    """
    protections_by_key = _match_protections(live, unwanted_members, protections)
    terminating = [member for member in unwanted_members if member.is_terminating]
    if not terminating:
        return protections_by_key
    lasting = [protection for protection in protections if not protection.waits_for_deletion]
    lasting_by_key = _match_protections(live, unwanted_members, lasting)
    going_keys = {
        member.key for member in terminating if not (_is_parent(member, observed) and member.key in lasting_by_key)
    }
    return {
        key: protection for key, protection in {**protections_by_key, **lasting_by_key}.items() if key not in going_keys
    }


def _is_parent(member: Member, observed: ObservedView) -> bool:
    """Return whether `member` is the parent of a set."""
    return bool(label(observed.objects[member.key], well_known.PARENT_ID))


def departing_candidate(member: Member, observed: ObservedView) -> PruneCandidate:
    """Return the candidate for `member`, which another client is deleting.

    The outcome is `keep`, so that all objects that `member` owns stay.
    """
    return replace(decide_outcome(member, observed, RemovalPolicy()), outcome=PruneOutcome.KEEP)


def _keep_departing(
    candidate: PruneCandidate, unreadable: UnreadableFiles | None, protection: PruneProtection | None
) -> PruneCandidate:
    """Return `candidate`, which another client is deleting and Git may still declare, with the outcome `keep`.

    All objects that the member owns stay until Levelgate knows whether Git declares the member. The cause names the
    unreadable file, or the node of `protection`.
    """
    assert candidate.blocked is not None
    file = candidate.member.source_file
    if unreadable and unreadable.protects(file):
        verb = "cannot be read" if file in unreadable.unreadable else "is gone while another file cannot be read"
        reason = f"its file {file} {verb}"
    else:
        assert protection is not None
        reason = f"its members stay until Levelgate writes {protection.id}, which may use them"
    blocked = replace(candidate.blocked, message=f"{candidate.blocked.message}; {reason}")
    return replace(candidate, outcome=PruneOutcome.KEEP, blocked=blocked)


def _match_protections(
    live: Iterable[Member], unwanted_members: Iterable[Member], protections: Sequence[PruneProtection]
) -> Mapping[ObjectKey, PruneProtection]:
    """Return the members that an unwritten node may need, or that may be its object, each with the node.

    For each node of `protections`, the members with the id of the node match, and so does the member with the key of
    the node. If the key is unknown, or no member has the id, all unwanted members of the node's kind match too. The
    result also contains the direct and indirect dependencies of a matching member, and the objects that the member
    reads.
    """
    members_by_hash = {key_hash(member.key): member for member in live}
    members_by_node: dict[str, list[Member]] = {}
    for member in members_by_hash.values():
        members_by_node.setdefault(member.node_id, []).append(member)
    pending: deque[tuple[Member, PruneProtection]] = deque()
    for protection in protections:
        matching_members = members_by_node.get(protection.id, [])
        if protection.key and (same_key_member := members_by_hash.get(key_hash(protection.key))):
            matching_members = [*matching_members, same_key_member]
        # A member that may be the object of the node is handled first, so that the message of this member names the
        # node.
        pending.extendleft((member, protection) for member in matching_members)
        if protection.key is None or protection.id not in members_by_node:
            same_kind_members = (
                member for member in unwanted_members if member.key.group_kind == protection.group_kind
            )
            pending.extend((member, protection) for member in same_kind_members)
    protections_by_key: dict[ObjectKey, PruneProtection] = {}
    while pending:
        member, protection = pending.popleft()
        if member.key not in protections_by_key:
            protections_by_key[member.key] = protection
            pending.extend(
                (members_by_hash[dependency], protection)
                for dependency in (*member.dependencies, *member.reads)
                if dependency in members_by_hash
            )
    return protections_by_key


def _is_returned(obj: Object, observed: ObservedView) -> bool:
    """Return whether the record on `obj` proves that Levelgate wrote the object for the set in the membership label.

    Even after a person removes the label and sets the label again, the record is proof.
    """
    set_id = label(obj, well_known.PART_OF)
    return any(known == set_id and is_of_set(obj, observed.objects[key]) for key, known in observed.parents.items())


def decide_outcome(member: Member, observed: ObservedView, policy: RemovalPolicy) -> PruneCandidate:
    """Return the outcome for `member`, which its set no longer wants, regardless of the members that use `member`.

    The first matching cause decides:

    1. `member` is terminating: delete, and report the obstacles of the deletion.
    2. Its source deletes nothing (`policy.keeping_source`): keep.
    3. An annotation on the live object disables pruning or reconciliation: keep.
    4. Neither the owner of the membership label nor the record proves that Levelgate wrote `member`: keep.
    5. `policy` releases `member`: release.
    6. `member` is a Namespace or CRD, and no annotation allows its deletion: release.
    7. No cause matches: delete.
    """
    obj = observed.objects[member.key]
    if member.is_terminating:
        # If only Levelgate's finalizer is left, the plan of the set of this instance reports why the instance stays.
        reason = Reason.DELETION_BLOCKED if foreign_finalizers(obj) else Reason.PROGRESSING
        return PruneCandidate(
            member, PruneOutcome.DELETE, blocked=Cause(reason, describe_deletion(obj), object_key=member.key)
        )
    if policy.keeping_source:
        keep_message = f"no longer in Git; source {policy.keeping_source} deletes nothing (prune: false)"
        return PruneCandidate(
            member, PruneOutcome.KEEP, blocked=Cause(Reason.DELETION_BLOCKED, keep_message, object_key=member.key)
        )
    if disabling_annotations := [
        annotation_name
        for annotation_name in (well_known.PRUNE, well_known.RECONCILE)
        if annotation(obj, annotation_name) == "disabled"
    ]:
        disabled_message = f"{disabling_annotations[0]}: disabled on the live object"
        return PruneCandidate(
            member, PruneOutcome.KEEP, blocked=Cause(Reason.DELETION_BLOCKED, disabled_message, object_key=member.key)
        )
    if not (is_membership_proven(obj) or _is_returned(obj, observed)):
        message = (
            "has the label of Levelgate, but Levelgate did not write the object, or another controller owns it; "
            "remove the label to keep the object"
        )
        return PruneCandidate(
            member, PruneOutcome.KEEP, blocked=Cause(Reason.DELETION_BLOCKED, message, object_key=member.key)
        )
    if policy.releases(member.key):
        return PruneCandidate(member, PruneOutcome.RELEASE, allowed=True)
    if member.key.group_kind in {NAMESPACE, CRD} and annotation(obj, well_known.PRUNE) != "allowed":
        return PruneCandidate(member, PruneOutcome.RELEASE, allowed=True)
    return PruneCandidate(member, PruneOutcome.DELETE, allowed=True)


def _allow_unused(
    candidates: list[PruneCandidate], dependents: MembersByHash, observed: ObservedView
) -> list[PruneCandidate]:
    """Return `candidates`, and allow only those that Levelgate may delete now.

    Levelgate may delete the first group with at least one member:

    1. Members with a record and without live users.
    2. A cycle of members of different revisions that use each other.
    3. Members that have neither a record nor users.
    """
    users = {candidate.member.key: _users(candidate.member, dependents) for candidate in candidates}
    allowed_candidates = [candidate for candidate in candidates if candidate.allowed]
    deletable_keys = {
        candidate.member.key
        for candidate in allowed_candidates
        if candidate.member.has_record and not users[candidate.member.key]
    }
    deletable_keys = (
        deletable_keys or _find_cycle(allowed_candidates, users, observed) or _find_unrecorded(candidates, users)
    )
    return [
        candidate
        if candidate.member.key in deletable_keys or not candidate.allowed
        else replace(candidate, allowed=False, blocked=_used_by_cause(users[candidate.member.key]))
        for candidate in candidates
    ]


def _users(member: Member, dependents: MembersByHash) -> list[Member]:
    return [user for user in dependents.get(key_hash(member.key), ()) if user.key != member.key]


def _find_cycle(
    candidates: list[PruneCandidate], users: Mapping[ObjectKey, list[Member]], observed: ObservedView
) -> set[ObjectKey]:
    """Return the members to delete first among prune candidates that wait only for each other.

    If a commit reverses a dependency and the process crashes during the change, a cycle remains. If a healthy user has
    dropped a dependency, the dependency does not count. If the remaining dependencies still form a cycle, Levelgate
    deletes the members of the deepest level first. Members that a cycle uses are not part of the cycle, and Levelgate
    deletes them after the cycle.
    """
    members = {candidate.member.key: candidate.member for candidate in candidates if candidate.member.has_record}
    waits_for = {key: [user.key for user in key_users] for key, key_users in users.items()}
    ancestors = {key: levels.ancestors(waits_for, [key]) for key in members}
    cyclic_keys = [key for key in members if all(user in members and key in ancestors[user] for user in ancestors[key])]
    used_by = {
        key: [user.key for user in users[key] if not _is_dropped_dependency(key, user, observed)] for key in cyclic_keys
    }
    used_ancestors = {key: levels.ancestors(used_by, [key]) for key in cyclic_keys}
    return {
        key
        for key in cyclic_keys
        if all(
            key in used_ancestors[user] and (members[user].level or 0) <= (members[key].level or 0)
            for user in used_ancestors[key]
        )
    }


def _is_dropped_dependency(key: ObjectKey, user: Member, observed: ObservedView) -> bool:
    """Return whether the revision of `user` dropped its dependency on `key`, and `user` is healthy without `key`.

    The record of `user` is older, and still marks the dependency.
    """
    live = observed.objects[user.key]
    is_healthy = status.is_fresh(live) and health_of(live, observed).status is status.KStatus.CURRENT
    return key_hash(key) in user.dropped_dependencies and is_healthy


def _find_unrecorded(candidates: list[PruneCandidate], users: Mapping[ObjectKey, list[Member]]) -> set[ObjectKey]:
    """Return the keys of allowed candidates that have neither a record nor users.

    Levelgate deletes unrecorded candidates after all recorded candidates (S0-13). If Levelgate never deletes a
    recorded candidate, the unrecorded candidates do not wait for the recorded candidate.
    """
    if any(candidate.member.is_terminating and candidate.member.has_record for candidate in candidates):
        return set()
    return {
        candidate.member.key
        for candidate in candidates
        if candidate.allowed and not candidate.member.has_record and not users[candidate.member.key]
    }


def _used_by_cause(users: Sequence[Member]) -> Cause:
    if not users:
        return Cause(Reason.PROGRESSING, "has no recorded level, so Levelgate deletes it last")
    user_names = join_names((user.key for user in users), limit=3)
    return Cause(
        Reason.DEPENDENCY_NOT_READY,
        f"still used by {user_names}",
        object_key=users[0].key,
        blockers=(str(users[0].key),),
    )
