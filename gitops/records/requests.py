"""Requests of people, and the annotations of one object that each request writes or removes.

kubectl can write the same annotations, so a person with the RBAC verb `patch` on the object can make requests. Each
request ends by itself or has an opposite: hold and release, suspend and resume, halt and resume, pin and unpin.
The functions of the module are pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from applier.cluster import CONTENT_MANAGER, Discovery, Object
from applier.state.managed_fields import annotation_managers
from applier.state.observed import annotation
from gitops.durations import format_duration
from gitops.errors import GitopsError
from gitops.records.references import Ref
from gitops.records.rollout_records import decode_rollout
from gitops.records.source_record import MIN_COMMIT_CHARACTERS, SourceRecord, is_approval
from gitops.records.source_requests import COMMIT_PATTERN
from gitops.rollouts import requests
from gitops.rollouts.directives import MAX_BREAK_GLASS_DURATION
from gitops.rollouts.state import RolloutState
from gitops.text import title
from gitops.timestamps import micro_timestamp, optional_timestamp, timestamp
from renderer import well_known
from renderer.documents.writer import dump
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

_LAPSE_NOTE: Final = "ends with the next {}; the approval cannot be withdrawn before"


class RequestError(GitopsError):
    """Rejection of a request that its subject does not permit. The text contains the reason."""


@dataclass(frozen=True, slots=True)
class RequestSubject:
    """Subject and author of a request: an object, source, rollout, or everything."""

    key: ObjectKey
    live: Object
    """Object that carries the annotations."""
    ref: Ref | None
    """Reference that names the subject, or None for a request about everything."""
    by: str
    """User name of the author from the API server, or an empty string if the server reports no name."""
    now: datetime
    is_instance: bool
    """True for an instance. While an instance is held, other instances of its rollout do not wait for it."""

    def __str__(self) -> str:
        if self.ref is None:
            return "everything"
        if self.ref.own_type:
            return f"{self.ref.own_type} {self.ref.name}"
        return title(self.key)

    def format_command(self, verb: str) -> str:
        """Return the command line `levelgate` with `verb` for the subject."""
        namespace_option = (
            f" -n {self.key.namespace}" if self.ref and not self.ref.own_type and self.key.namespace else ""
        )
        return f"levelgate {verb} {self.ref or '--all'}{namespace_option}"


@dataclass(frozen=True, slots=True)
class PersonRequest:
    """Annotations that make one request, and the sentences that describe the request to its author."""

    subject: RequestSubject
    annotations: Mapping[str, str | None]
    """Values of annotations to write. A value of None removes the annotation."""
    outcome: str
    """Sentence about the effect."""
    undo: str
    """Command that reverts the request, or a sentence about its end, or an empty string if neither exists.
    """
    author_annotation: str = well_known.REQUESTED_BY
    """Key of the annotation that stores the author's name, or an empty string if no annotation stores it."""
    definition_annotations: Mapping[str, str | None] | None = None
    """Annotations on the definition in Git that have the same effect, or None if no annotation has this effect."""
    git_alternative: str = ""
    """Instruction for a commit with the same effect, if no annotation in Git has this effect."""

    @property
    def patch(self) -> Object:
        """Return the merge patch with the annotations.

        The patch has the UID of the live object, so that the patch cannot change a new object with the same name.
        """
        author = {self.author_annotation: (self.subject.by or None) if any(self.annotations.values()) else None}
        annotations = {**self.annotations, **(author if self.author_annotation else {})}
        return {"metadata": {"uid": self.subject.live["metadata"]["uid"], "annotations": annotations}}

    def format_kubectl_command(self, discovery: Discovery, options: Sequence[str]) -> str:
        """Return the kubectl command that writes the annotations, without the author's name.

        Args:
            options: options of kubectl that select the cluster.
        """
        key, resource = self.subject.key, discovery.resources[self.subject.key.group_kind]
        plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        namespace_arguments = ["-n", key.namespace] if key.namespace else []
        assignments = [f"{name}-" if value is None else f"{name}={value}" for name, value in self.annotations.items()]
        return shlex.join(
            ["kubectl", *options, "annotate", plural, key.name, *namespace_arguments, "--overwrite", *assignments]
        )

    def format_git_change(self) -> str:
        """Return the lines to commit instead of the request, with their file.

        Raises: RequestError if no file in Git declares the subject.
        """
        ref, annotations, title = self.subject.ref, self.annotations, str(self.subject)
        if ref is None or ref.own_type:
            if self.definition_annotations is None:
                raise RequestError(f"{title} is in no file; {self.git_alternative or 'leave out --git'}")
            annotations, title = self.definition_annotations, f"the definition of {title}"
        set_values = {name: value for name, value in annotations.items() if value is not None}
        file = annotation(self.subject.live, well_known.SOURCE_FILE) or "its file"
        if not set_values:
            return f"# {file}: remove these from metadata.annotations of {title}\n" + "\n".join(annotations)
        return f"# {file}: {title}{dump([{'metadata': {'annotations': set_values}}]).removeprefix('---')}".rstrip()


def hold(subject: RequestSubject, why: str, until: datetime | None) -> PersonRequest:
    """Return the request to keep the subject as it was last applied. If `until` is None, the hold has no end."""
    annotations = {well_known.HOLD: why, well_known.HOLD_UNTIL: optional_timestamp(until)}
    if subject.is_instance:
        place, effect = "at its revision", " Other instances of its rollout do not wait for it."
    else:
        place, effect = "as it is", " Levelgate applies no new content and prunes nothing."
    outcome = f"{subject} stays {place}{_format_until(until)}, and is still healed.{effect}"
    return PersonRequest(subject, annotations, outcome, subject.format_command("release"))


def release(subject: RequestSubject) -> PersonRequest:
    """Return the request to end a hold.

    Raises: RequestError if the subject is not held, or only Git declares the hold.
    """
    return _withdraw_request(subject, (well_known.HOLD, well_known.HOLD_UNTIL), "held", "hold")


def suspend(subject: RequestSubject, why: str, until: datetime | None) -> PersonRequest:
    """Return the request to stop all writes to the subject. If `until` is None, the suspension has no end."""
    annotations = {well_known.SUSPEND: why, well_known.SUSPEND_UNTIL: optional_timestamp(until)}
    outcome = f"Levelgate writes nothing to {subject}{_format_until(until)}: no change, no healing, no pruning."
    return PersonRequest(subject, annotations, outcome, subject.format_command("resume"))


def resume(subject: RequestSubject, why: str) -> PersonRequest:
    """Return the request to end the halt of a rollout, or the suspension of another subject.

    Raises: RequestRefused if the subject is a rollout and cannot be resumed, RequestError if any other subject is not
    suspended, or if only Git declares the suspension.
    """
    if subject.ref is None or subject.ref.own_type != "rollout":
        return _withdraw_request(subject, (well_known.SUSPEND, well_known.SUSPEND_UNTIL), "suspended", "suspend")
    requests.resume(_rollout_state(subject), {}, by=subject.by, why=why, now=subject.now)
    outcome = (
        f"{subject} continues. The rollout accepts its present failures; one more failure halts the rollout again."
    )
    return PersonRequest(
        subject,
        {well_known.RESUME: why},
        outcome,
        f"{subject.format_command('halt')} --reason ...",
        definition_annotations={well_known.HALT: None},
    )


def halt(subject: RequestSubject, why: str) -> PersonRequest:
    """Return the request to halt a rollout.

    Raises: RequestRefused if `why` is empty or the rollout is not in progress.
    """
    requests.halt(_rollout_state(subject), by=subject.by, why=why, now=subject.now)
    outcome = f"No further instance moves in {subject}. Instances in flight continue."
    undo = f"{subject.format_command('resume')} --reason ..."
    return PersonRequest(subject, {well_known.HALT: why}, outcome, undo, definition_annotations={well_known.HALT: why})


def approve(subject: RequestSubject, after: str, why: str) -> PersonRequest:
    """Return the approval that a rollout continues after the approval point `after`.

    If the record of the rollout has no progress, the function does not check `after`.

    Args:
        after: name of a wave, or a number of items.

    Raises: RequestRefused if the policy requires no approval after `after`, RequestError if every target of the rollout
    already has the approval.
    """
    state = _rollout_state(subject)
    if state.waves:
        requests.check_approval_point(state.points, after, str(subject))
    if state.targets and all(state.is_approved(target, after) for target in state.targets.values()):
        raise RequestError(f"{subject} is already approved to continue after {after}")
    annotations = {well_known.APPROVE: after, well_known.APPROVE_REASON: why or None}
    outcome = f"{subject} may continue after {after}. Health, pace and windows still apply."
    alternative = f"remove the point after {after} from `approvals` of its policy"
    return PersonRequest(subject, annotations, outcome, _LAPSE_NOTE.format("revision"), git_alternative=alternative)


def approve_commit(subject: RequestSubject, commit: str, why: str) -> PersonRequest:
    """Return the approval that a source applies all of `commit`.

    If a newer commit waits for an approval, a person can approve only this newer commit. Otherwise, a person can
    approve only the current commit. If the record names neither, a person can approve any commit.

    Args:
        commit: id of a commit, or at least its first seven characters.

    Raises: RequestError if a person cannot approve `commit`.
    """
    record = SourceRecord.from_object(subject.live)
    target = record.offered or record.target or (commit if COMMIT_PATTERN.fullmatch(commit) else "")
    if not is_approval(commit, target):
        least = f"at least {MIN_COMMIT_CHARACTERS} characters"
        if target:
            raise RequestError(
                f"{commit!r} is not the commit to approve; approve commit {target} of {subject}, by {least} of its id"
            )
        raise RequestError(f"{subject} has no commit yet; write {least} of a commit's id, in hexadecimal digits")
    outcome = (
        f"{subject} may apply all of commit {target[:12]}, even if the history or the deletion brake held the commit."
    )
    alternative = "set `ref: {commit: ...}` in levelgate.yaml, because no commit approves itself"
    return PersonRequest(
        subject,
        {well_known.APPROVED_COMMIT: target, well_known.APPROVE_REASON: why or None},
        outcome,
        _LAPSE_NOTE.format("commit"),
        git_alternative=alternative,
    )


def break_glass(subject: RequestSubject, why: str, until: datetime) -> PersonRequest:
    """Return the request to bypass windows until `until`.

    Raises: RequestError if `until` is more than `MAX_BREAK_GLASS_DURATION` ahead.
    """
    if until > subject.now + MAX_BREAK_GLASS_DURATION:
        raise RequestError(
            f"a break-glass lasts at most {format_duration(MAX_BREAK_GLASS_DURATION)}; choose an earlier end"
        )
    annotations = {well_known.BREAK_GLASS_REASON: why, well_known.BREAK_GLASS_UNTIL: timestamp(until)}
    outcome = f"{subject} bypasses windows until {timestamp(until)}. Pace, halts, holds and approvals still apply."
    return PersonRequest(
        subject,
        annotations,
        outcome,
        "ends by itself; to end the break-glass earlier, remove the annotations",
        author_annotation=well_known.BREAK_GLASS_BY,
    )


def pin(subject: RequestSubject, commit: str, why: str, until: datetime | None) -> PersonRequest:
    """Return the request to keep a source at `commit`. If `until` is None, the pin has no end.

    Args:
        commit: id of a commit, or at least its first seven characters.

    Raises: RequestError if `commit` does not match `COMMIT_PATTERN`.
    """
    if not COMMIT_PATTERN.fullmatch(commit):
        raise RequestError(
            f"{commit!r} is not a commit; write at least {MIN_COMMIT_CHARACTERS} characters of a commit id"
        )
    annotations = {well_known.PIN: commit, well_known.PIN_REASON: why, well_known.PIN_UNTIL: optional_timestamp(until)}
    outcome = (
        f"{subject} stays at commit {commit[:12]}{_format_until(until)}, whatever its ref names. "
        "The deletion brake still applies."
    )
    alternative = "revert, or set `ref: {commit: ...}` in levelgate.yaml"
    return PersonRequest(
        subject,
        annotations,
        outcome,
        subject.format_command("unpin"),
        author_annotation=well_known.PIN_BY,
        git_alternative=alternative,
    )


def unpin(subject: RequestSubject) -> PersonRequest:
    """Return the request to end a pin. Raises: RequestError if the subject is not pinned."""
    return _withdraw_request(
        subject,
        (well_known.PIN, well_known.PIN_REASON, well_known.PIN_UNTIL, well_known.PIN_BY),
        "pinned",
        "pin --revision ...",
    )


def reconcile(subject: RequestSubject) -> PersonRequest:
    """Return the request to reconcile the subject now."""
    return PersonRequest(
        subject,
        {well_known.SYNC_REQUESTED_AT: micro_timestamp(subject.now)},
        f"{subject} is reconciled now. The request opens no gate.",
        "",
        author_annotation="",
    )


def _withdraw_request(subject: RequestSubject, names: Sequence[str], state_word: str, verb: str) -> PersonRequest:
    """Return the request to remove the annotations `names`.

    Args:
        names: keys of annotations, the first of which must be present.
        state_word: state that the annotations cause, such as `held`.
        verb: command that wrote the annotations.

    Raises: RequestError if the first annotation is absent, or if only Git declares the annotation.
    """
    present = [name for name in names if name in (subject.live["metadata"].get("annotations") or {})]
    if names[0] not in present:
        git_hint = (
            f"; if Git declares {names[0]}, remove the annotation from Git"
            if annotation(subject.live, well_known.SOURCE_FILE)
            else ""
        )
        raise RequestError(f"{subject} is not {state_word}{' in the cluster' if git_hint else ''}{git_hint}")
    if set(annotation_managers(subject.live, names[0])) == {CONTENT_MANAGER}:
        file = annotation(subject.live, well_known.SOURCE_FILE) or "its file"
        raise RequestError(f"{subject} is {state_word} by Git; remove {names[0]} from {file}")
    outcome = f"{subject} is no longer {state_word}."
    redo_command = f"{subject.format_command(verb)} --reason ..."
    return PersonRequest(subject, dict.fromkeys(present), outcome, redo_command)


def _rollout_state(subject: RequestSubject) -> RolloutState:
    return decode_rollout(subject.live.get("data") or {}, now=subject.now)


def _format_until(moment: datetime | None) -> str:
    return f" until {timestamp(moment)}" if moment else ""
