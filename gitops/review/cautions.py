"""What a reviewer is warned of before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from applier.reasons import Reason
from gitops.known import Preview
from gitops.review.masking import Masks
from gitops.review.report import Action, Caution, Change, Hazard
from renderer.kinds import NAMESPACE


def cautions(preview: Preview, changes: Sequence[Change], masks: Masks) -> Iterator[Caution]:
    yield from _mass_deletion(changes)
    yield from _namespaces(changes)
    yield from _foreign(changes)


def _mass_deletion(changes: Sequence[Change]) -> Iterator[Caution]:
    braked = [gate.message for change in changes for gate in change.gates if gate.reason is Reason.BRAKE_ENGAGED]
    for message in dict.fromkeys(braked):
        yield Caution(Hazard.MASS_DELETION, message)


def _namespaces(changes: Sequence[Change]) -> Iterator[Caution]:
    for change in changes:
        if change.key and change.key.group_kind == NAMESPACE and change.action is Action.DELETE:
            yield _about(change, Hazard.NAMESPACE_GOES, f"namespace {change.key.name} goes, with everything in it")


def _foreign(changes: Sequence[Change]) -> Iterator[Caution]:
    for change in changes:
        if change.action is Action.FAILED and change.why.startswith((Reason.OWNED_ELSEWHERE, Reason.CONFLICT)):
            yield _about(change, Hazard.FOREIGN_OBJECT, change.why)
        if change.action is Action.ADOPT:
            yield _about(change, Hazard.FOREIGN_OBJECT, f"{change.ref} exists and is taken over")


def _about(change: Change, hazard: Hazard, message: str) -> Caution:
    return Caution(hazard, message, change.ref, change.file, change.line)
