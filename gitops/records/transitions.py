"""Transitions for Events and notifications: differences between a record before and after a reconciliation.

Only the process that writes the record with the change reports the transition. So a restart repeats nothing, and a
cluster at rest reports nothing. The functions of the module are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from applier.causes import EventReason, Reason
from applier.cluster import Object
from applier.execute.results import Result
from gitops.records import pass_history
from gitops.records.cause_rows import parse_row
from gitops.records.display_state import DisplayState
from gitops.records.source_record import SourceRecord
from gitops.rollouts.state import HALTED, OVERRIDDEN, PROPOSED
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent
from renderer.levelgate_status import LevelgateStatus
from renderer.phrasing import join_names

MAX_TRANSITIONS: Final = 100
"""Largest number of transitions that a reconciliation reports one by one. Warnings come first."""

_UNREPORTED_REASONS: Final = frozenset(
    {Reason.PROGRESSING, Reason.BAKING, Reason.PACE_REACHED, Reason.WAVE_NOT_REACHED, Reason.DEPENDENCY_NOT_READY}
    | {Reason.WAITING_FOR_DATA, Reason.HALTED, Reason.SETTLED}
)
"""Reasons that Levelgate does not report for each instance.

Causes with these reasons end by themselves, or the rollout reports the causes once for all its instances.
"""

_WARNING_REASONS: Final = frozenset(
    {
        Reason.DELETION_BLOCKED,
        Reason.STILL_READ,
        Reason.BRAKE_ENGAGED,
        Reason.HISTORY_REWRITTEN,
        Reason.UNSIGNED,
        Reason.LEFT_BEHIND,
        Reason.GATE_ERROR,
        Reason.DEADLOCKED,
    }
)
"""Reasons that are not failures, but need an action by a person."""

_ACTION_EVENTS: Final = {
    "created": EventReason.UPDATED,
    "updated": EventReason.UPDATED,
    "healed": EventReason.HEALED,
    "deleted": EventReason.PRUNED,
    "released": EventReason.PRUNED,
    "adopted": EventReason.ADOPTED,
    "taken over": EventReason.ADOPTED,
}
_MAX_LISTED_OBJECTS: Final = 3


@dataclass(frozen=True, slots=True)
class Transition:
    """Change of an instance or a source, for an Event to report."""

    event_reason: EventReason | Reason
    """Reason of the Event. For a problem, the reason of the Event is the `Reason` of the cause."""
    message: str
    key: ObjectKey
    """Key of the instance, or of the record of the source."""
    api_version: str
    uid: str
    source: str
    commit: str
    """Commit of the source."""
    reason: Reason | None = None
    """Reason of the new cause, or None for a transition without a new cause."""
    state: str = ""
    """State of the whole source, or an empty string for a transition of an instance."""
    others_count: int = 0
    """Number of further transitions that the message of this transition counts, and that no Event reports."""

    @property
    def is_of_source(self) -> bool:
        """Return whether the subject of the transition is the source, not an instance."""
        return self.key == source_parent(self.source)

    @property
    def is_warning(self) -> bool:
        """Return whether the Event has the type Warning."""
        return isinstance(self.event_reason, Reason) or self.event_reason is EventReason.BREAK_GLASS_USED


@dataclass(frozen=True, slots=True)
class TransitionSubject:
    """Instance, or record of a source, with transitions to report. Calling the subject makes a transition."""

    parent: Object
    source: str
    commit: str
    state: str = ""

    def __call__(self, event_reason: EventReason | Reason, message: str, reason: Reason | None = None) -> Transition:
        key, metadata = ObjectKey.from_manifest(self.parent), self.parent["metadata"]
        api_version, uid = self.parent["apiVersion"], metadata.get("uid", "")
        return Transition(event_reason, message, key, api_version, uid, self.source, self.commit, reason, self.state)


def instance_transitions(
    subject: TransitionSubject, old_status: Mapping[str, Any], new_status: Mapping[str, Any], results: Sequence[Result]
) -> Iterator[Transition]:
    """Yield the transitions of an instance between `old_status` and `new_status`.

    Args:
        results: results of the actions on the instance's set.
    """
    yield from _action_transitions(subject, results)
    old_rows, new_rows = (
        LevelgateStatus.from_status(old_status).blocked,
        LevelgateStatus.from_status(new_status).blocked,
    )
    yield from _cause_transitions(subject, old_rows, new_rows)
    if _propagated_reason(new_status) == Reason.SETTLED != _propagated_reason(old_status):
        yield subject(EventReason.SETTLED, "matches Git, and is healthy")
    if _propagated_reason(new_status) == Reason.NOT_IN_GIT != _propagated_reason(old_status):
        yield subject(Reason.NOT_IN_GIT, "no source declares this instance; commit the instance, or delete it")


def source_transitions(
    subject: TransitionSubject, old_record: SourceRecord, new_record: SourceRecord, results: Sequence[Result]
) -> Iterator[Transition]:
    """Yield the transitions of a source between `old_record` and `new_record`.

    Args:
        results: results of the actions on the source's own set.
    """
    if new_record.target != old_record.target:
        yield subject(EventReason.UPDATED, f"moves to commit {new_record.target[:12]}")
    yield from _action_transitions(subject, results)
    yield from _cause_transitions(subject, old_record.causes, new_record.causes)
    if new_record.state == DisplayState.SETTLED and (old_record.state, old_record.target) != (
        new_record.state,
        new_record.target,
    ):
        yield subject(EventReason.SETTLED, f"all of commit {new_record.target[:12]} matches Git, and is healthy")
    if new_record.passes != old_record.passes:
        for decision in pass_history.parse_passes(new_record.passes)[-1].words:
            description = f"{decision.subject}, by {decision.by}: {decision.why or 'no reason given'}"
            if decision.what == OVERRIDDEN:
                yield subject(EventReason.BREAK_GLASS_USED, description)
            elif decision.what == HALTED:
                yield subject(Reason.HALTED, description)
            elif decision.what == PROPOSED:
                yield subject(Reason.HALTED, f"{decision.subject}: {decision.why}")


def limit_transitions(transitions: Iterable[Transition]) -> tuple[Transition, ...]:
    """Return the first `MAX_TRANSITIONS` of `transitions`, warnings first, and one summary of the rest for each source.

    If the limit excludes transitions of a source, the source gets a summary. The summary is the first excluded
    transition, and its message contains the number of the further excluded transitions.
    """
    ordered = sorted(transitions, key=lambda transition: not transition.is_warning)
    overflow_groups = groupby(sorted(ordered[MAX_TRANSITIONS:], key=_source_name), _source_name)
    return (*ordered[:MAX_TRANSITIONS], *(_summarize(list(group)) for _, group in overflow_groups))


def _summarize(transitions: Sequence[Transition]) -> Transition:
    """Return the first of `transitions`, with the number of the remaining transitions in the message."""
    worst, others_count = transitions[0], len(transitions) - 1
    message = f"{worst.message} (and {others_count} more, not reported one by one)"
    return replace(worst, message=message, others_count=others_count) if others_count else worst


def _source_name(transition: Transition) -> str:
    return transition.source


def _action_transitions(subject: TransitionSubject, results: Sequence[Result]) -> Iterator[Transition]:
    """Yield one transition for each event reason of successful actions.

    The message of a transition names at most `_MAX_LISTED_OBJECTS` objects.
    """
    descriptions: dict[EventReason, list[str]] = {}
    for result in results:
        if result.error is None and result.action in _ACTION_EVENTS:
            suffix = f" ({result.lost_fields[0]})" if result.lost_fields else ""
            descriptions.setdefault(_ACTION_EVENTS[result.action], []).append(
                f"{result.key.kind}/{result.key.name} {result.action}{suffix}"
            )
    for event_reason, lines in descriptions.items():
        yield subject(event_reason, join_names(lines, limit=_MAX_LISTED_OBJECTS))


def _cause_transitions(
    subject: TransitionSubject, old_rows: Iterable[Mapping[str, Any]], new_rows: Iterable[Mapping[str, Any]]
) -> Iterator[Transition]:
    """Yield one transition for each cause that is only in `new_rows`.

    If `old_rows` has reported causes and `new_rows` has none, yield one transition with the reason
    `EventReason.UNBLOCKED`.
    """
    old_keys = {(row.node, row.reason) for row in map(parse_row, old_rows) if row.reason not in _UNREPORTED_REASONS}
    reported_rows = [row for row in map(parse_row, new_rows) if row.reason not in _UNREPORTED_REASONS]
    for row in reported_rows:
        if (row.node, row.reason) not in old_keys:
            node = f"node {row.node}: " if row.node else ""
            is_problem = row.reason.is_failure or row.reason in _WARNING_REASONS
            event_reason = row.reason if is_problem else EventReason.BLOCKED
            yield subject(
                event_reason, f"{node}{row.message}" if is_problem else f"{row.reason}: {node}{row.message}", row.reason
            )
    if old_keys and not reported_rows:
        yield subject(EventReason.UNBLOCKED, "nothing blocks the changes any longer")


def _propagated_reason(status: Mapping[str, Any]) -> str:
    """Return the reason of the condition `Propagated`, or of `InstanceManaged` if `Propagated` is absent.

    The status of an instance that is absent from Git has only the condition `InstanceManaged`.
    """
    reasons_by_type = {
        condition.get("type"): condition.get("reason", "") for condition in status.get("conditions") or ()
    }
    return reasons_by_type.get("Propagated") or reasons_by_type.get("InstanceManaged") or ""
