"""What people order, as annotations of one object: what each order writes and takes away. kubectl can write the same. Pure.

Who may patch the object may give the order. What is ordered here by hand lapses by itself, or is taken back by the other half of its pair: hold and
release, suspend and resume, halt and resume.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from applier.cluster import CONTENT, Discovery, Object
from applier.state.managed_fields import annotators
from applier.state.observed import annotation
from gitops.errors import GitopsError
from gitops.records.references import Ref
from gitops.records.source_record import SHORTEST_COMMIT, SourceRecord, is_approval
from gitops.records.source_requests import REVISION
from gitops.rollouts import requests
from gitops.rollouts.directives import LONGEST_GLASS
from gitops.rollouts.state import RolloutState
from renderer import well_known
from renderer.documents.writer import dump
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

_LAPSES: Final = "lapses with the next {}; nothing takes it back before"


class RequestError(GitopsError):
    """The order makes no sense for this object; the text says what would."""


@dataclass(frozen=True, slots=True)
class RequestSubject:
    """What an order is about: the object that carries it, as it is, and the REF that named it (None: everything). `by` gives the order, empty where
    the server does not say who that is.
    """

    key: ObjectKey
    live: Object
    ref: Ref | None
    by: str
    now: datetime

    def __str__(self) -> str:
        if self.ref is None:
            return "everything"
        if self.ref.own:
            return f"{self.ref.own} {self.ref.name}"
        return (
            f"{self.key.kind} {self.key.namespace}/{self.key.name}"
            if self.key.namespace
            else f"{self.key.kind} {self.key.name}"
        )

    def command(self, verb: str) -> str:
        """The command of this verb for the same thing."""
        place = f" -n {self.key.namespace}" if self.ref and not self.ref.own and self.key.namespace else ""
        return f"levelgate {verb} {self.ref or '--all'}{place}"


@dataclass(frozen=True, slots=True)
class PersonRequest:
    """Annotations to be written on the object, None to take one away. `told` says what holds once it is heard, `undo` what takes it back (empty:
    nothing has to). In `signed` it says who gave it; empty: nowhere. In Git the annotations stand on the object itself, those of `definition` on the
    definition of a rollout; what no annotation says there is done by `instead`.
    """

    subject: RequestSubject
    annotations: Mapping[str, str | None]
    told: str
    undo: str
    signed: str = well_known.REQUESTED_BY
    definition: Mapping[str, str | None] | None = None
    instead: str = ""

    @property
    def patch(self) -> Object:
        """A merge patch; it goes only to the very object that was looked at."""
        who = {self.signed: (self.subject.by or None) if any(self.annotations.values()) else None}
        said = {**self.annotations, **(who if self.signed else {})}
        return {"metadata": {"uid": self.subject.live["metadata"]["uid"], "annotations": said}}

    def kubectl(self, discovery: Discovery, options: Sequence[str] = ()) -> str:
        """The command that writes the same; `options` choose the cluster."""
        key, resource = self.subject.key, discovery.resources[self.subject.key.group_kind]
        plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        place = ["-n", key.namespace] if key.namespace else []
        said = [f"{name}-" if value is None else f"{name}={value}" for name, value in self.annotations.items()]
        return shlex.join(["kubectl", *options, "annotate", plural, key.name, *place, "--overwrite", *said])

    def lines(self) -> str:
        """What to commit instead, with the file where that is known. Raises OrderError for what is not in Git."""
        ref, written, what = self.subject.ref, self.annotations, str(self.subject)
        if ref is None or ref.own:
            if self.definition is None:
                raise RequestError(f"{what} stands in no file; {self.instead or 'leave out --git'}")
            written, what = self.definition, f"the definition of {what}"
        said = {name: value for name, value in written.items() if value is not None}
        file = annotation(self.subject.live, well_known.SOURCE_FILE) or "its file"
        if not said:
            return f"# {file}: take these out of metadata.annotations of {what}\n" + "\n".join(written)
        return f"# {file}: {what}{dump([{'metadata': {'annotations': said}}]).removeprefix('---')}".rstrip()


def hold(subject: RequestSubject, why: str, until: datetime | None) -> PersonRequest:
    said = {well_known.HOLD: why, well_known.HOLD_UNTIL: _time(until)}
    told = f"{subject} stays where it is{_until(until)}, and is healed there. The others of its rollout pass it."
    return PersonRequest(subject, said, told, subject.command("release"))


def release(subject: RequestSubject) -> PersonRequest:
    """Raises OrderError where nobody but Git holds it."""
    return _undone(subject, (well_known.HOLD, well_known.HOLD_UNTIL), "held", "hold")


def suspend(subject: RequestSubject, why: str, until: datetime | None) -> PersonRequest:
    said = {well_known.SUSPEND: why, well_known.SUSPEND_UNTIL: _time(until)}
    told = f"Nothing is written of {subject}{_until(until)}: no change, no healing, no pruning."
    return PersonRequest(subject, said, told, subject.command("resume"))


def resume(subject: RequestSubject, why: str) -> PersonRequest:
    """Of a rollout what it halts, of anything else the suspension. Raises OrderError, RefusedOrder where there is nothing to resume."""
    if subject.ref is None or subject.ref.own != "rollout":
        return _undone(subject, (well_known.SUSPEND, well_known.SUSPEND_UNTIL), "suspended", "suspend")
    requests.resume(_state(subject), {}, by=subject.by, why=why, now=subject.now)
    told = f"{subject} goes on. The failures there are now are accepted; one more halts it again."
    return PersonRequest(
        subject,
        {well_known.RESUME: why},
        told,
        f"{subject.command('halt')} --reason ...",
        definition={well_known.HALT: None},
    )


def halt(subject: RequestSubject, why: str) -> PersonRequest:
    """Raises RefusedOrder where nothing is under way."""
    requests.halt(_state(subject), by=subject.by, why=why, now=subject.now)
    told = f"No further instance moves in {subject}. What has moved is followed to its end."
    undo = f"{subject.command('resume')} --reason ..."
    return PersonRequest(subject, {well_known.HALT: why}, told, undo, definition={well_known.HALT: why})


def approve(subject: RequestSubject, after: str, why: str) -> PersonRequest:
    """That a rollout goes on after a wave or a number. Raises OrderError where that has been approved, RefusedOrder where nobody asks for it; of a
    rollout of which nothing is told yet that is not known.
    """
    state = _state(subject)
    if state.waves:
        requests.expect_point(state.points, after, str(subject))
    if state.targets and all(state.is_approved(target, after) for target in state.targets.values()):
        raise RequestError(f"{subject}: somebody has approved that it goes on after {after}")
    said = {well_known.APPROVE: after, well_known.APPROVE_REASON: why or None}
    told = f"{subject} may go on after {after}. Health, pace and windows hold as before."
    instead = f"take the point after {after} out of `approvals` of its policy"
    return PersonRequest(subject, said, told, _LAPSES.format("revision"), instead=instead)


def approve_commit(subject: RequestSubject, commit: str) -> PersonRequest:
    """That a source does all its commit says. Raises OrderError unless it is at that commit, given by at least seven characters of its id. Where
    none was ever taken no record says which one is offered, and any may be named.
    """
    record = SourceRecord.read(subject.live)
    target = record.offered or record.target or (commit if REVISION.fullmatch(commit) else "")
    if not is_approval(commit, target):
        at = f"is at commit {target}" if target else "has no commit yet"
        raise RequestError(f"{subject} {at}; approve that one, by {SHORTEST_COMMIT} characters of its id or more")
    told = f"{subject} may go to commit {target[:12]} and do all it says, also where history or the brake on deletions held it."
    instead = "no commit approves itself; `ref: {commit: ...}` in levelgate.yaml does"
    return PersonRequest(subject, {well_known.APPROVED: target}, told, _LAPSES.format("commit"), instead=instead)


def break_glass(subject: RequestSubject, why: str, until: datetime) -> PersonRequest:
    """Raises OrderError for longer than is allowed."""
    if until > subject.now + LONGEST_GLASS:
        raise RequestError(f"a break-glass lasts at most {LONGEST_GLASS.total_seconds() / 3600:.0f} hours")
    said = {well_known.GLASS_REASON: why, well_known.GLASS_UNTIL: _time(until)}
    told = f"{subject} goes past windows until {_time(until)}. Pace, halts, holds and approvals stay."
    return PersonRequest(
        subject, said, told, "lapses by itself, or earlier without these annotations", signed=well_known.GLASS_BY
    )


def pin(subject: RequestSubject, revision: str, why: str, until: datetime | None) -> PersonRequest:
    """That a source stays at a commit, given by at least seven characters of its id. Raises OrderError for anything else."""
    if not REVISION.fullmatch(revision):
        raise RequestError(f"{revision!r} is no commit; write {SHORTEST_COMMIT} characters of its id or more")
    said = {well_known.PIN: revision, well_known.PIN_REASON: why, well_known.PIN_UNTIL: _time(until)}
    told = f"{subject} stays at commit {revision[:12]}{_until(until)}, whatever its ref says. The brake on deletions counts."
    instead = "revert, or say `ref: {commit: ...}` in levelgate.yaml"
    return PersonRequest(subject, said, told, subject.command("unpin"), signed=well_known.PIN_BY, instead=instead)


def unpin(subject: RequestSubject) -> PersonRequest:
    """Raises OrderError where it is not pinned."""
    return _undone(
        subject,
        (well_known.PIN, well_known.PIN_REASON, well_known.PIN_UNTIL, well_known.PIN_BY),
        "pinned",
        "pin --revision ...",
    )


def sync(subject: RequestSubject) -> PersonRequest:
    """That it is looked at now."""
    return PersonRequest(
        subject,
        {well_known.SYNC: sync_value(subject.now)},
        f"{subject} is looked at now. No gate opens by that.",
        "",
        signed="",
    )


def sync_value(now: datetime) -> str:
    """Tells a request to look now from those before."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _undone(subject: RequestSubject, names: Sequence[str], is_what: str, verb: str) -> PersonRequest:
    said = [name for name in names if name in (subject.live["metadata"].get("annotations") or {})]
    if names[0] not in said:
        by_git = (
            f"; if Git says so, take {names[0]} out there" if annotation(subject.live, well_known.SOURCE_FILE) else ""
        )
        raise RequestError(f"{subject} is not {is_what}{' here' if by_git else ''}{by_git}")
    if set(annotators(subject.live, names[0])) == {CONTENT}:
        file = annotation(subject.live, well_known.SOURCE_FILE) or "its file"
        raise RequestError(f"{subject} is {is_what} by Git; take {names[0]} out of {file}")
    told = f"{subject} is no longer {is_what}."
    again = f"{subject.command(verb)} --reason ..."
    return PersonRequest(subject, dict.fromkeys(said), told, again)


def _state(subject: RequestSubject) -> RolloutState:
    return RolloutState.read(subject.live.get("data") or {}, now=subject.now)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _until(moment: datetime | None) -> str:
    return f" until {_time(moment)}" if moment else ""
