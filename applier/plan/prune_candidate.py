"""Prune candidates as values: the outcome for a member that its set no longer wants, and the protection by a node.

The module `prune_decision` decides about the candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import StrEnum

from applier.applyset.member import Member
from applier.causes import Cause, CauseRef, Reason
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.phrasing import join_names


class PruneOutcome(StrEnum):
    """Outcome for a prune candidate.

    `delete` deletes the object. `release` removes the metadata of Levelgate and leaves the object. `keep` leaves the
    object unchanged and reports the cause.
    """

    DELETE = "delete"
    RELEASE = "release"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class PruneCandidate:
    """A live member that its set no longer wants, with the decision about the member."""

    member: Member
    outcome: PruneOutcome
    allowed: bool = False
    blocked: Cause | None = None
    users: tuple[ObjectKey, ...] = ()
    """Members that have to be deleted before `member`."""
    going_readers: tuple[ObjectKey, ...] = ()
    """Members in `users` that count only because the user, or a member of the user's set, reads `member` by
    `externalRef`.
    """
    staying_readers: tuple[ObjectKey, ...] = ()
    """Objects that stay and read `member` by `externalRef`. A reader that stays does not delay the deletion of
    `member`.
    """

    @property
    def still_read_cause(self) -> Cause | None:
        """Return a warning that remaining objects still read the deleted member by `externalRef`.

        If no reader remains, or if Levelgate does not delete the member, return None.
        """
        if not self.staying_readers or self.outcome is not PruneOutcome.DELETE:
            return None
        names = join_names(self.staying_readers, limit=3)
        message = (
            f"{self.member.key} is no longer in Git, and is still read by {names}; remove the externalRef from Git"
        )
        return Cause(Reason.STILL_READ, message, object_key=self.member.key)

    @property
    def is_held(self) -> bool:
        """Return whether only a gate, a window, the pace or a person holds the removal."""
        return self.blocked is not None and self.blocked.reason.is_hold

    @property
    def lacks_permission(self) -> bool:
        """Return whether only a permission of a window, a gate, the pace or a person is missing."""
        return self.blocked is not None and self.blocked.reason.is_missing_permission

    @property
    def is_being_deleted(self) -> bool:
        """Return whether Levelgate deletes the member now, or once its users are gone."""
        return self.outcome is PruneOutcome.DELETE and not self.is_held

    @property
    def awaits_unwritten_node(self) -> bool:
        """Return whether the member stays for an unwritten node, which may use the member or be the same object."""
        reason = self.blocked and self.blocked.reason
        return self.outcome is PruneOutcome.KEEP and reason is Reason.DEPENDENCY_NOT_READY

    @property
    def is_eventually_deleted(self) -> bool:
        """Return whether Levelgate deletes the member now, or once its hold or its wait for an unwritten node ends."""
        return self.outcome is PruneOutcome.DELETE or self.awaits_unwritten_node

    def with_postponement(self, message: str) -> PruneCandidate:
        """Return the candidate as not allowed now. If the candidate has no cause, `message` becomes the cause.

        Pruning is the last phase of a reconciliation (S0-10).
        """
        return replace(self, allowed=False, blocked=self.blocked or Cause(Reason.PROGRESSING, message))


@dataclass(frozen=True, slots=True)
class PruneProtection:
    """A desired node that is unwritten at this revision, because the node waits, is held or has failed."""

    id: str
    group_kind: GroupKind
    key: ObjectKey | None
    waits_for_deletion: bool
    """True if the node waits for the deletion of a Namespace or CRD. The node does not protect objects whose deletion
    is part of that deletion.
    """

    def may_match(self, member: Member) -> bool:
        """Return whether `member` may be the object of this node. Only a node with an unknown key can match."""
        return self.key is None and member.node_id == self.id

    def protect(self, candidate: PruneCandidate) -> PruneCandidate:
        """Return `candidate`, which this node keeps. If `candidate` stays anyway, return `candidate` unchanged."""
        if candidate.outcome is PruneOutcome.KEEP:
            return candidate
        outcome = PruneOutcome.KEEP if candidate.outcome is PruneOutcome.DELETE else candidate.outcome
        message = (
            f"no longer in Git; the object stays until Levelgate writes {self.id}, "
            "which may use it or be the same object under another name"
        )
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
    """Return the keys of `candidates` that a person or gate holds, each with the cause of the hold.

    If a hold keeps a member, the hold also keeps the candidates that the member uses.
    """
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
