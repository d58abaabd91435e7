"""What a reviewer is warned of before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from applier.plan import Verb
from applier.reasons import Reason
from gitops.known import Preview
from gitops.review.masking import Masks
from gitops.review.operators import operators_first
from gitops.review.privileges import growth
from gitops.review.report import Action, Caution, Change, Hazard
from renderer.identity import ObjectKey
from renderer.kinds import NAMESPACE
from renderer.model import RenderedNode


def cautions(preview: Preview, changes: Sequence[Change], masks: Masks, offered: str = "") -> Iterator[Caution]:
    """`offered`: why a person has to agree to the commit as such."""
    if offered:
        yield Caution(Hazard.HISTORY, offered)
    yield from _mass_deletion(changes)
    yield from _namespaces(changes)
    yield from _foreign(changes)
    yield from _broken(preview, masks)
    yield from operators_first(changes, preview.situation.observed.objects)
    yield from _privileges(preview, masks)


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


def _broken(preview: Preview, masks: Masks) -> Iterator[Caution]:
    """Definitions that stay at their last revision because the new one would break what is stored, and whose instances those are."""
    for rendered in preview.bundle.sources.values():
        for problem in rendered.problems:
            kinds = [kind for kind, one in preview.bundle.definitions.items() if str(kind) in problem.message]
            keys = sorted(key for key in preview.bundle.instances if key.group_kind in kinds)
            named = ", ".join(map(str, keys[:5])) + (f" and {len(keys) - 5} more" if keys[5:] else "")
            message = masks.text(problem.message) + (f"; its instances: {named}" if keys else "")
            yield Caution(Hazard.BREAKING_SCHEMA, message, "", problem.file, problem.line)


def _privileges(preview: Preview, masks: Masks) -> Iterator[Caution]:
    for key, node, old in _written(preview):
        more = list(growth(old, node.manifest))
        if more:
            words = "; ".join(more[:5]) + (f" and {len(more) - 5} more" if more[5:] else "")
            message = masks.text(f"{key} allows more: {words}")
            yield Caution(Hazard.PRIVILEGES, message, str(key), node.origin.file, node.origin.line)


def _written(preview: Preview) -> Iterator[tuple[ObjectKey, RenderedNode, Mapping[str, object] | None]]:
    """Nodes that are written, with the live object."""
    for one in preview.due.sets:
        for plan in one.nodes:
            if plan.node.key and plan.node.writable and plan.verb not in {Verb.NONE, Verb.RECORD}:
                yield plan.node.key, plan.node, plan.live


def _about(change: Change, hazard: Hazard, message: str) -> Caution:
    return Caution(hazard, message, change.ref, change.file, change.line)
