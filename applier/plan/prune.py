"""Which members are orphans, what protects them, and which of them may go now. Pure; from cluster state alone.

X may be deleted only when no live member of any of our sets still records a dependency on X (S0-11 to S0-16); what waits, is held or failed
protects what it may still need or be. Levels only break ties between mixed generations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from applier import status
from applier.applyset.member import (
    Member,
    MembersByHash,
    describe_deletion,
    foreign_finalizers,
    is_membership_proven,
    is_of_set,
)
from applier.causes import Cause, CauseRef, Reason
from applier.cluster import Object
from applier.state.health import health_of
from applier.state.observed import Observed, annotation, label
from renderer import well_known
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.frozen import dataclass
from renderer.graph import levels
from renderer.identity import GroupKind, ObjectKey, key_hash
from renderer.kinds import CRD, NAMESPACE
from renderer.phrasing import join_names
from renderer.render.model import RenderedApplySet


class PruneOutcome(StrEnum):
    """`release` takes our mark off and leaves the object; `keep` leaves it as it is and reports why."""

    DELETE = "delete"
    RELEASE = "release"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class PruneCandidate:
    """A live member that its set no longer wants.

    It goes after its `users`. Of these `going_readers` are there because something reads by `externalRef`. `staying_readers` read it
    that way and stay: they hold nothing.
    """

    member: Member
    outcome: PruneOutcome
    allowed: bool = False
    blocked: Cause | None = None
    users: tuple[ObjectKey, ...] = ()
    going_readers: tuple[ObjectKey, ...] = ()
    staying_readers: tuple[ObjectKey, ...] = ()

    @property
    def still_read_cause(self) -> Cause | None:
        """Who reads it by `externalRef` and stays, so that it misses it once it is deleted; None where nobody does."""
        if not self.staying_readers or self.outcome is not PruneOutcome.DELETE:
            return None
        names = join_names(self.staying_readers, limit=3)
        message = f"{self.member.key} is no longer in Git, and is still read by {names}"
        return Cause(Reason.STILL_READ, message, object_key=self.member.key)

    @property
    def is_held(self) -> bool:
        """A person has to agree first."""
        return self.blocked is not None and self.blocked.reason.is_hold

    @property
    def lacks_permission(self) -> bool:
        """It would go if time and pace allowed it."""
        return self.blocked is not None and self.blocked.reason.is_missing_permission

    @property
    def is_being_deleted(self) -> bool:
        """It is deleted now, or as soon as what still uses it is gone."""
        return self.outcome is PruneOutcome.DELETE and not self.is_held

    @property
    def is_protected(self) -> bool:
        """It stays until something is written that may use it or be the same."""
        reason = self.blocked and self.blocked.reason
        return self.outcome is PruneOutcome.KEEP and reason is Reason.DEPENDENCY_NOT_READY

    @property
    def is_eventually_deleted(self) -> bool:
        """It is deleted, or will be once what holds it lets it go, or what it stays for is written."""
        return self.outcome is PruneOutcome.DELETE or self.is_protected

    def with_postponement(self, message: str) -> PruneCandidate:
        """The same, while something else has to happen first: pruning is the last phase of a pass (S0-10)."""
        return replace(self, allowed=False, blocked=self.blocked or Cause(Reason.PROGRESSING, message))


@dataclass(frozen=True, slots=True)
class PruneProtection:
    """A desired node that is not written at this revision: it waits, is held or failed."""

    id: str
    group_kind: GroupKind
    key: ObjectKey | None
    waits_for_deletion: bool
    """It cannot be written before a Namespace or CRD that is being deleted is gone, and so keeps nothing that goes with that."""

    def may_match(self, member: Member) -> bool:
        """Is it not known yet whether the node still wants this member?"""
        return self.key is None and member.node_id == self.id

    def protect(self, candidate: PruneCandidate) -> PruneCandidate:
        """An orphan that stays as it is because of the node, if it does not stay anyway."""
        if candidate.outcome is PruneOutcome.KEEP:
            return candidate
        outcome = PruneOutcome.KEEP if candidate.outcome is PruneOutcome.DELETE else candidate.outcome
        message = f"no longer desired; it remains until {self.id} is written, which may use it or be the same object under another name"
        cause_ref = CauseRef("Node", self.id, Reason.DEPENDENCY_NOT_READY)
        cause = Cause(
            Reason.DEPENDENCY_NOT_READY,
            message,
            object_key=candidate.member.key,
            blockers=(self.id,),
            references=(cause_ref,),
        )
        return replace(candidate, outcome=outcome, allowed=False, blocked=cause)


def protected_keys(candidates: Collection[PruneCandidate]) -> Mapping[ObjectKey, Cause]:
    """Those that stay until people or gates let them go, or let go what uses them; and what holds them."""
    causes = {
        candidate.member.key: candidate.blocked for candidate in candidates if candidate.blocked and candidate.is_held
    }
    waiting_keys = [
        (candidate.member.key, candidate.blocked.object_key)
        for candidate in candidates
        if candidate.blocked and candidate.blocked.reason is Reason.DEPENDENCY_NOT_READY
    ]
    while newly_protected := {key: causes[user] for key, user in waiting_keys if user in causes and key not in causes}:
        causes |= newly_protected
    return causes


def index_dependents(observed: Observed, sets: Collection[str]) -> MembersByHash:
    """Live members of these sets by the hash of what they record as a dependency."""
    members_by_dependency: dict[str, list[Member]] = {}
    for set_id in sets:
        for key in observed.members.get(set_id, ()):
            member = Member.from_object(observed.objects[key])
            for dependency in member.dependencies:
                members_by_dependency.setdefault(dependency, []).append(member)
    return {dependency: tuple(members) for dependency, members in members_by_dependency.items()}


def prune_candidates(
    rendered: RenderedApplySet,
    observed: Observed,
    *,
    desired_keys: Collection[ObjectKey],
    protections: Sequence[PruneProtection],
    dependents: MembersByHash,
    unreadable: UnreadableFiles | None,
    hold_message: str,
    release: bool,
    orphaned_keys: Collection[ObjectKey],
    keeping_source: str = "",
) -> tuple[PruneCandidate, ...]:
    """Orphans of one set, in the order in which they go: deepest first, then those that stay for what is `unsettled`. `wanted` are all desired keys,
    of any set; `keeping_source` is its source where that deletes nothing. With `release` all are released, else the `orphaned_keys`.
    """

    def outcome_of(member: Member) -> PruneCandidate:
        is_released = release or member.key in orphaned_keys
        return decide_outcome(member, observed, release=is_released, keeping_source=keeping_source)

    live = [Member.from_object(observed.objects[key]) for key in observed.members.get(rendered.id, ())]
    unwanted_members = [
        member
        for member in live
        if member.key not in desired_keys and not (unreadable and unreadable.protects(member.source_file))
    ]
    protections_by_key = _match_protections(live, unwanted_members, protections)
    if any(member.is_terminating for member in unwanted_members):
        lasting = [protection for protection in protections if not protection.waits_for_deletion]
        lasting_by_key = _match_protections(live, unwanted_members, lasting)
        terminating = [member for member in unwanted_members if member.is_terminating]
        going_keys = {  # of these nothing is left to protect
            member.key for member in terminating if not (_is_parent(member, observed) and member.key in lasting_by_key)
        }
        protections_by_key = {
            key: protection
            for key, protection in {**protections_by_key, **lasting_by_key}.items()
            if key not in going_keys
        }
    departing = [
        _keep_departing(
            outcome_of(member),
            unreadable,
            protections_by_key.get(member.key),
        )
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
            outcome_of(member),
            users=tuple(user.key for user in _users(member, dependents)),
        )
        for member in ordered
    ]
    if hold_message:
        brake_cause = Cause(Reason.BRAKE_ENGAGED, hold_message)
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


def _is_parent(member: Member, observed: Observed) -> bool:
    """Return whether a member owns a set itself."""
    return bool(label(observed.objects[member.key], well_known.PARENT_ID))


def departing_candidate(member: Member, observed: Observed) -> PruneCandidate:
    """Return a member that is being deleted; nothing of what it owns is pruned."""
    return replace(decide_outcome(member, observed, release=False, keeping_source=""), outcome=PruneOutcome.KEEP)


def _keep_departing(
    candidate: PruneCandidate, unreadable: UnreadableFiles | None, protection: PruneProtection | None
) -> PruneCandidate:
    """Return a member that is being deleted though it may still be wanted: what it owns stays until that is known."""
    assert candidate.blocked is not None
    file = candidate.member.source_file
    if unreadable and unreadable.protects(file):
        verb = "cannot be read" if file in unreadable.unreadable else "is gone while another file cannot be read"
        reason = f"its file {file} {verb}"
    else:
        assert protection is not None
        reason = f"what it owns stays until {protection.id} is written, which may use it"
    blocked = replace(candidate.blocked, message=f"{candidate.blocked.message}; {reason}")
    return replace(candidate, outcome=PruneOutcome.KEEP, blocked=blocked)


def _match_protections(
    live: Iterable[Member], unwanted_members: Iterable[Member], protections: Sequence[PruneProtection]
) -> Mapping[ObjectKey, PruneProtection]:
    """What unsettled nodes may still be or need, each with the node: members under their id, all of their kind where they were never recorded, and
    what these use.
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
        pending.extendleft((member, protection) for member in matching_members)  # whose own it may be comes first
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


def _is_returned(obj: Object, observed: Observed) -> bool:
    """Return whether a person put the label of a member back: its record proves that we wrote it for this set."""
    set_id = label(obj, well_known.PART_OF)
    return any(known == set_id and is_of_set(obj, observed.objects[key]) for key, known in observed.parents.items())


def decide_outcome(member: Member, observed: Observed, *, release: bool, keeping_source: str) -> PruneCandidate:
    """What is to become of a member that its set no longer wants, leaving aside who still needs it."""
    obj = observed.objects[member.key]
    if member.is_terminating:
        # What holds our own finalizer, if anything does, is told by the set of the instance.
        reason = Reason.DELETION_BLOCKED if foreign_finalizers(obj) else Reason.PROGRESSING
        return PruneCandidate(
            member, PruneOutcome.DELETE, blocked=Cause(reason, describe_deletion(obj), object_key=member.key)
        )
    if keeping_source:
        keep_message = f"no longer in Git; source {keeping_source} deletes nothing (prune: false)"
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
            "carries our label but we did not write it, or another controller owns it; remove the label to keep it"
        )
        return PruneCandidate(
            member, PruneOutcome.KEEP, blocked=Cause(Reason.DELETION_BLOCKED, message, object_key=member.key)
        )
    if release:
        return PruneCandidate(member, PruneOutcome.RELEASE, allowed=True)
    if member.key.group_kind in {NAMESPACE, CRD} and annotation(obj, well_known.PRUNE) != "allowed":
        return PruneCandidate(member, PruneOutcome.RELEASE, allowed=True)
    return PruneCandidate(member, PruneOutcome.DELETE, allowed=True)


def _allow_unused(
    candidates: list[PruneCandidate], dependents: MembersByHash, observed: Observed
) -> list[PruneCandidate]:
    """Let only those go now that no live member depends on; where there are none, cut circles of mixed generations, then those without a record."""
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
    candidates: list[PruneCandidate], users: Mapping[ObjectKey, list[Member]], observed: Observed
) -> set[ObjectKey]:
    """Orphans that wait for one another and for nobody else: of each such circle those that nobody in it really uses any more, else the deepest
    level of those that really use one another.

    A commit that turned a dependency round, and died, leaves such. What a circle needs is no part of it and goes after it.
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


def _is_dropped_dependency(key: ObjectKey, user: Member, observed: Observed) -> bool:
    """Did the user's revision drop this dependency, and is the user healthy without it, though nobody renewed its record?"""
    live = observed.objects[user.key]
    is_healthy = status.is_fresh(live) and health_of(live, observed).status is status.KStatus.CURRENT
    return key_hash(key) in user.dropped_dependencies and is_healthy


def _find_unrecorded(candidates: list[PruneCandidate], users: Mapping[ObjectKey, list[Member]]) -> set[ObjectKey]:
    """Orphans without a record go last: after all that have one and are on their way (S0-13). What never goes is not waited for."""
    if any(candidate.member.is_terminating and candidate.member.has_record for candidate in candidates):
        return set()
    return {
        candidate.member.key
        for candidate in candidates
        if candidate.allowed and not candidate.member.has_record and not users[candidate.member.key]
    }


def _used_by_cause(users: Sequence[Member]) -> Cause:
    if not users:
        return Cause(Reason.PROGRESSING, "has no recorded level and is deleted last")
    user_names = join_names((user.key for user in users), limit=3)
    return Cause(
        Reason.DEPENDENCY_NOT_READY,
        f"still used by {user_names}",
        object_key=users[0].key,
        blockers=(str(users[0].key),),
    )
