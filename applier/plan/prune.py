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
from applier.applyset.member import Member, departure, is_proven
from applier.causes import Cause, CauseRef, Reason
from applier.state.health import health_of
from applier.state.observed import Observed, annotation
from renderer import well_known
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.frozen import dataclass
from renderer.graph import levels
from renderer.identity import GroupKind, ObjectKey, key_hash
from renderer.kinds import CRD, NAMESPACE
from renderer.phrasing import listed
from renderer.render.model import RenderedApplySet


class PruneOutcome(StrEnum):
    """`release` takes our mark off and leaves the object; `keep` leaves it as it is and reports why."""

    DELETE = "delete"
    RELEASE = "release"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class PruneCandidate:
    """A live member that its set no longer wants."""

    member: Member
    fate: PruneOutcome
    allowed: bool = False
    blocked: Cause | None = None

    @property
    def is_held(self) -> bool:
        """A person has to agree first."""
        return self.blocked is not None and self.blocked.reason.is_hold

    @property
    def is_gated(self) -> bool:
        """It would go if time and pace allowed it."""
        return self.blocked is not None and self.blocked.reason.is_gate

    @property
    def is_leaving(self) -> bool:
        """It is deleted now, or as soon as what still uses it is gone."""
        return self.fate is PruneOutcome.DELETE and not self.is_held

    @property
    def is_shielded(self) -> bool:
        """It stays until something is written that may use it or be the same."""
        because = self.blocked and self.blocked.reason
        return self.fate is PruneOutcome.KEEP and because is Reason.DEPENDENCY_NOT_READY

    @property
    def is_to_go(self) -> bool:
        """It is deleted, or will be once what holds it lets it go, or what it stays for is written."""
        return self.fate is PruneOutcome.DELETE or self.is_shielded

    def held_back(self, until: str) -> PruneCandidate:
        """The same, while something else has to happen first: pruning is the last phase of a pass (S0-10)."""
        return replace(self, allowed=False, blocked=self.blocked or Cause(Reason.PROGRESSING, until))


@dataclass(frozen=True, slots=True)
class PruneProtection:
    """A desired node that is not written at this revision: it waits, is held or failed."""

    id: str
    group_kind: GroupKind
    key: ObjectKey | None

    def may_be(self, member: Member) -> bool:
        """Is it not known yet whether the node still wants this member?"""
        return self.key is None and member.node == self.id

    def keeps(self, orphan: PruneCandidate) -> PruneCandidate:
        """An orphan that stays as it is because of the node, if it does not stay anyway."""
        if orphan.fate is PruneOutcome.KEEP:
            return orphan
        fate = PruneOutcome.KEEP if orphan.fate is PruneOutcome.DELETE else orphan.fate
        why = f"no longer wanted; it stays until {self.id} is written, which may use it or be the same object under another name"
        shield = CauseRef("Node", self.id, Reason.DEPENDENCY_NOT_READY)
        blocked = Cause(Reason.DEPENDENCY_NOT_READY, why, by=self.id, at=orphan.member.key, because=(shield,))
        return replace(orphan, fate=fate, allowed=False, blocked=blocked)


def protected_keys(orphans: Collection[PruneCandidate]) -> Mapping[ObjectKey, Cause]:
    """Those that stay until people or gates let them go, or let go what uses them; and what holds them."""
    found = {orphan.member.key: orphan.blocked for orphan in orphans if orphan.blocked and orphan.is_held}
    waiting = [
        (orphan.member.key, orphan.blocked.at)
        for orphan in orphans
        if orphan.blocked and orphan.blocked.reason is Reason.DEPENDENCY_NOT_READY
    ]
    while behind := {key: found[user] for key, user in waiting if user in found and key not in found}:
        found |= behind
    return found


def dependents(observed: Observed, sets: Collection[str]) -> Mapping[str, tuple[Member, ...]]:
    """Live members of these sets by the hash of what they record as a dependency."""
    found: dict[str, list[Member]] = {}
    for set_id in sets:
        for key in observed.members.get(set_id, ()):
            live = Member.of(observed.objects[key])
            for dep in live.deps:
                found.setdefault(dep, []).append(live)
    return {dep: tuple(members) for dep, members in found.items()}


def prune_candidates(
    rendered: RenderedApplySet,
    observed: Observed,
    *,
    wanted: Collection[ObjectKey],
    unsettled: Sequence[PruneProtection],
    dependents: Mapping[str, tuple[Member, ...]],
    unreadable: UnreadableFiles | None = None,
    hold: str = "",
    release: bool = False,
    keeper: str = "",
) -> tuple[PruneCandidate, ...]:
    """Orphans of one set, in the order in which they go: deepest first, then those that stay for what is `unsettled`. `wanted` are all desired keys,
    of any set; `keeper` is its source where that deletes nothing.
    """
    live = [Member.of(observed.objects[key]) for key in observed.members.get(rendered.id, ())]
    candidates = [
        member for member in live if member.key not in wanted and not (unreadable and unreadable.protects(member.file))
    ]
    shields = _shields(live, candidates, unsettled)
    left = [member for member in candidates if not ((node := shields.get(member.key)) and node.may_be(member))]
    ordered = sorted(left, key=lambda member: (-1 if member.level is None else -member.level, member.key))
    judged = [_judge(member, observed, release=release, keeper=keeper) for member in ordered]
    if hold:
        braked = Cause(Reason.BRAKE_ENGAGED, hold)
        return tuple(
            orphan if orphan.fate is PruneOutcome.KEEP else replace(orphan, allowed=False, blocked=braked)
            for orphan in judged
        )
    found = [orphan for orphan in judged if orphan.member.key not in shields]
    kept = [
        shields[orphan.member.key].keeps(orphan)
        for orphan in judged
        if orphan.member.key in shields and not orphan.member.terminating
    ]
    return (*_wave(found, dependents, observed), *kept)


def _shields(
    live: Iterable[Member], candidates: Iterable[Member], unsettled: Sequence[PruneProtection]
) -> Mapping[ObjectKey, PruneProtection]:
    """What unsettled nodes may still be or need, each with the node: members under their id, all of their kind where they were never recorded, and
    what these use.
    """
    by_self = {key_hash(member.key): member for member in live}
    by_node: dict[str, list[Member]] = {}
    for member in by_self.values():
        by_node.setdefault(member.node, []).append(member)
    pending: deque[tuple[Member, PruneProtection]] = deque()
    for node in unsettled:
        own = by_node.get(node.id, [])
        if node.key and (same := by_self.get(key_hash(node.key))):
            own = [*own, same]
        pending.extendleft((member, node) for member in own)  # whose own it may be comes first
        if node.key is None or node.id not in by_node:
            alike = (member for member in candidates if member.key.group_kind == node.group_kind)
            pending.extend((member, node) for member in alike)
    found: dict[ObjectKey, PruneProtection] = {}
    while pending:
        member, node = pending.popleft()
        if member.key not in found:
            found[member.key] = node
            pending.extend((by_self[dep], node) for dep in member.deps if dep in by_self)
    return found


def _judge(member: Member, observed: Observed, *, release: bool, keeper: str) -> PruneCandidate:
    """What is to become of a member that its set no longer wants, leaving aside who still needs it."""
    obj = observed.objects[member.key]
    if member.terminating:
        waits = bool(obj["metadata"].get("finalizers"))
        reason = Reason.DELETION_BLOCKED if waits else Reason.PROGRESSING
        return PruneCandidate(member, PruneOutcome.DELETE, blocked=Cause(reason, departure(obj), at=member.key))
    if keeper:
        kept = f"no longer in Git; source {keeper} deletes nothing (prune: false)"
        return PruneCandidate(member, PruneOutcome.KEEP, blocked=Cause(Reason.DELETION_BLOCKED, kept, at=member.key))
    if said := [word for word in (well_known.PRUNE, well_known.RECONCILE) if annotation(obj, word) == "disabled"]:
        disabled = f"{said[0]}: disabled on the live object"
        return PruneCandidate(
            member, PruneOutcome.KEEP, blocked=Cause(Reason.DELETION_BLOCKED, disabled, at=member.key)
        )
    if not is_proven(obj):
        message = "carries our label but we did not write it, or another controller owns it; remove the label if it should stay"
        return PruneCandidate(member, PruneOutcome.KEEP, blocked=Cause(Reason.DELETION_BLOCKED, message, at=member.key))
    if release:
        return PruneCandidate(member, PruneOutcome.RELEASE, allowed=True)
    if member.key.group_kind in {NAMESPACE, CRD} and annotation(obj, well_known.PRUNE) != "allowed":
        return PruneCandidate(member, PruneOutcome.RELEASE, allowed=True)
    return PruneCandidate(member, PruneOutcome.DELETE, allowed=True)


def _wave(
    judged: list[PruneCandidate], dependents: Mapping[str, tuple[Member, ...]], observed: Observed
) -> list[PruneCandidate]:
    """Let only those go now that no live member depends on; where there are none, cut circles of mixed generations, then those without a record."""
    users = {orphan.member.key: _users(orphan.member, dependents) for orphan in judged}
    able = [orphan for orphan in judged if orphan.allowed]
    going = {orphan.member.key for orphan in able if orphan.member.has_record and not users[orphan.member.key]}
    going = going or _circle(able, users, observed) or _unrecorded(judged, users)
    return [
        orphan
        if orphan.member.key in going or not orphan.allowed
        else replace(orphan, allowed=False, blocked=_used(users[orphan.member.key]))
        for orphan in judged
    ]


def _users(member: Member, dependents: Mapping[str, tuple[Member, ...]]) -> list[Member]:
    return [user for user in dependents.get(key_hash(member.key), ()) if user.key != member.key]


def _circle(able: list[PruneCandidate], users: Mapping[ObjectKey, list[Member]], observed: Observed) -> set[ObjectKey]:
    """Orphans that wait for one another and for nobody else: of each such circle those that nobody in it really uses any more, else the deepest
    level of those that really use one another.

    A commit that turned a dependency round, and died, leaves such. What a circle needs is no part of it and goes after it.
    """
    members = {orphan.member.key: orphan.member for orphan in able if orphan.member.has_record}
    waits_for = {key: [user.key for user in found] for key, found in users.items()}
    above = {key: levels.ancestors(waits_for, [key]) for key in members}
    closed = [key for key in members if all(user in members and key in above[user] for user in above[key])]
    used_by = {key: [user.key for user in users[key] if not _is_past(key, user, observed)] for key in closed}
    over = {key: levels.ancestors(used_by, [key]) for key in closed}
    return {
        key
        for key in closed
        if all(key in over[user] and (members[user].level or 0) <= (members[key].level or 0) for user in over[key])
    }


def _is_past(key: ObjectKey, user: Member, observed: Observed) -> bool:
    """Did the user's revision drop this dependency, and is the user healthy without it, though nobody renewed its record?"""
    live = observed.objects[user.key]
    healthy = status.is_fresh(live) and health_of(live, observed).status is status.KStatus.CURRENT
    return key_hash(key) in user.dropped and healthy


def _unrecorded(judged: list[PruneCandidate], users: Mapping[ObjectKey, list[Member]]) -> set[ObjectKey]:
    """Orphans without a record go last: after all that have one and are on their way (S0-13). What never goes is not waited for."""
    if any(orphan.member.terminating and orphan.member.has_record for orphan in judged):
        return set()
    return {
        orphan.member.key
        for orphan in judged
        if orphan.allowed and not orphan.member.has_record and not users[orphan.member.key]
    }


def _used(users: Sequence[Member]) -> Cause:
    if not users:
        return Cause(Reason.PROGRESSING, "has no recorded order and goes last")
    names = listed((user.key for user in users), most=3)
    return Cause(Reason.DEPENDENCY_NOT_READY, f"still used by {names}", by=str(users[0].key), at=users[0].key)
