"""What a pass is to say at its end: the status of each instance, the record of each source. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.execute.results import Result
from applier.plan.model import Plan
from applier.plan.prune_candidate import PruneOutcome
from applier.state.observed import Observed, annotation, label
from gitops.decisions.decision import Decision
from gitops.decisions.plain_objects import SourceRequests
from gitops.reconcile.set_summaries import SetSummaries, SetSummary
from gitops.reconcile.sources import SourceState, revisions_of
from gitops.reconcile.tally import StateCounts
from gitops.records import cause_rows, pass_history
from gitops.records.display_state import DisplayState
from gitops.records.instance_status import instance_status, is_marked_not_in_git
from gitops.records.left_behind import LeftBehind
from gitops.records.revisions import RevisionArchive
from gitops.records.source_record import MAX_LISTED_OBJECTS, SourceRecord, is_approval
from gitops.rollouts.directives import requester_of
from gitops.rollouts.state import DecisionRecord, RolloutState
from gitops.timestamps import timestamp
from renderer import well_known
from renderer.definition.crd import key_of
from renderer.errors import Problem
from renderer.identity import ObjectKey, source_parent
from renderer.render.model import RenderedApplySet, Rendering


def statuses(
    plan: Plan, sources: Sequence[SourceState], propagation: Decision, now: datetime
) -> Iterator[tuple[RenderedApplySet, Object, dict[str, Any]]]:
    """Each instance that exists and was looked at, as it is stored, with what its status is to be."""
    revisions = revisions_of(sources)
    synced = {key: value for state in sources for key, value in state.synced.items()}
    for one in plan.sets:
        is_told = not one.is_unknown or (one.deletion is not None and one.error is None)
        if one.parent is not None and not one.rendered.is_source and is_told:
            key, commit = one.rendered.parent, revisions.get(one.rendered.source, "")
            remembered, asked = propagation.remembered.get(key, {}), synced.get(key, "")
            status = instance_status(one, commit=commit, now=timestamp(now), rollout_fields=remembered, synced=asked)
            yield one.rendered, one.parent, status


def source_record(
    state: SourceState,
    ledger: SetSummaries,
    before: SourceRecord,
    propagation: Decision,
    left_behind: LeftBehind,
    *,
    now: str,
) -> SourceRecord:
    """What the source's ConfigMap is to say after this pass."""
    name = state.catalog.source
    requests = _requests(propagation, name)
    restless = [*ledger.restless(name)]
    instances = [one for one in restless if not one.plan.rendered.is_source]
    own = [one for one in restless if one.plan.rendered.is_source]
    lost = [one for one in restless if one.plan.is_lost]
    existing, missing = StateCounts.of(instances), _missing(restless)
    target = state.catalog.commit
    problems = [
        *state.catalog.problems,
        *propagation.rule_problems.get(name, ()),
        *(problem for one in restless for problem in one.plan.rendered.problems),
    ]
    scopes = ledger.scopes(name, before.scopes)
    excess = scopes.overflow_message
    return SourceRecord(
        url=state.url,
        path=state.path,
        ref=state.ref,
        target=target,
        offered=state.offer.commit if state.offer else "",
        applied=target if all(one.is_fully_applied for one in restless) else before.applied,
        own_objects_commit=target if all(one.is_fully_applied for one in own) else before.own_objects_commit,
        since=before.since if before.target == target and before.since else now,
        state=DisplayState.FAILED if excess or problems else _state(ledger, state, requests, own, left_behind),
        counts={
            "instances": len(ledger.of_source(name)) - len(own) - len(lost),
            "missing": missing.total(),
            "failed": existing.by_state.get(DisplayState.FAILED, 0) + missing["failed"],
            "held": existing.held + missing["held"],
        },
        causes=_source_causes(state, problems, excess, requests, own, lost, left_behind, before.causes, now),
        scopes=before.scopes if excess else scopes,
        claims=tuple(islice(_claims(restless), MAX_LISTED_OBJECTS)),
        prune_candidates=tuple(
            islice(
                (
                    orphan.member.key
                    for one in restless
                    for orphan in one.plan.prune_candidates
                    if not (orphan.member.is_terminating and orphan.outcome is PruneOutcome.KEEP)  # it may be wanted
                ),
                MAX_LISTED_OBJECTS,
            )
        ),
        requests=requests.seen,
        passes=before.passes,
        commit_before_pin=state.unpinned,
        version=state.version,
        is_prune_disabled=not state.prunes,
        synced=state.synced.get(source_parent(state.catalog.source), before.synced),
        left_behind=left_behind,
    )


def _claims(accounts: Iterable[SetSummary]) -> Iterator[ObjectKey]:
    """What these want and another set has."""
    for one in accounts:
        for node in one.restless:
            if node.node.key and node.live_set_id not in {"", one.plan.rendered.id}:
                yield node.node.key


def passes_with(
    state: SourceState,
    ledger: SetSummaries,
    parent: Object,
    before: SourceRecord,
    record: SourceRecord,
    propagation: Decision,
    results: Sequence[Result],
    now: datetime,
) -> str:
    """The passes of the source with this one. Decisions are those of the rollouts that its instances are in, and its own."""
    source = state.catalog.source
    definitions = ledger.definitions(source)
    states = {
        name: rollout
        for name, rollout in propagation.states.items()
        if any(name == one or name.startswith(f"{one}.") for one in definitions)
    }
    states[str(source_parent(source))] = RolloutState(decisions=_requests(propagation, source).overrides)
    mine = ledger.of_source(source)
    words = []
    if is_approval(annotation(parent, well_known.APPROVED_COMMIT), record.target):
        by = requester_of(parent, well_known.APPROVED_COMMIT)
        why = annotation(parent, well_known.APPROVE_REASON)
        words.append(DecisionRecord(now, "approved", f"commit {record.target[:12]}", by, why))
    if state.pin:
        words.append(DecisionRecord(now, "pinned", f"commit {record.target[:12]}", state.pin.by, state.pin.why))
    happened = pass_history.PassActivity(
        results,
        mine,
        before.scopes,
        [(one.plan.rendered.parent, cause) for one in ledger.restless(source) for cause in one.holds],
        words,
        states,
    )
    room = record.passes_budget_bytes
    return pass_history.append_pass(
        before.passes, happened, commit=record.target, state=record.state, now=now, max_bytes=room
    )


def _requests(propagation: Decision, source: str) -> SourceRequests:
    return propagation.source_requests.get(source, SourceRequests())


def _state(
    ledger: SetSummaries,
    state: SourceState,
    requests: SourceRequests,
    own: Sequence[SetSummary],
    left_behind: LeftBehind,
) -> str:
    if any(one.plan.error and one.plan.error.reason is Reason.SUSPENDED for one in own):
        return DisplayState.SUSPENDED
    state_of_sets = StateCounts.of_all(ledger, state.catalog.source).state
    is_held = state.offer or state.pin or left_behind.count or any(hold.object_key is None for hold in requests.holds)
    return DisplayState.worst([state_of_sets, DisplayState.HELD] if is_held else [state_of_sets])


def _missing(restless: Sequence[SetSummary]) -> Counter[str]:
    """Instances that do not exist yet, by how that is: what they are rendered to has failed, or whoever is to write them says so."""
    missing = {one.plan.rendered.parent: one.plan for one in restless if not one.exists}
    said = {node.node.key: node for one in restless for node in one.restless if node.node.key in missing}
    found = Counter[str]()
    for key, one in missing.items():
        blocked = one.error or (said[key].blocked if key in said else None)
        state_word = DisplayState.from_reason(blocked.reason) if blocked else DisplayState.PROGRESSING
        found["held" if state_word.needs_person_or_time else str(state_word).lower()] += 1
    return found


def _source_causes(
    state: SourceState,
    problems: Sequence[Problem],
    excess: str,
    requests: SourceRequests,
    own: Sequence[SetSummary],
    lost: Sequence[SetSummary],
    left_behind: LeftBehind,
    before: Sequence[Mapping[str, Any]],
    now: str,
) -> tuple[Mapping[str, Any], ...]:
    """The problems of its commit, and what keeps the source's own set from being settled, beside its instances; and
    what becomes of members whose instance is gone, and cannot tell it; and who holds what of it.
    """
    rows = [
        Cause(Reason.RENDER_FAILED, str(one), object_key=kind and key_of(kind))
        for one, kind in ((problem, state.catalog.find_definition_kind(problem)) for problem in problems)
    ]
    rows += [Cause(Reason.APPLY_FAILED, excess)] if excess else []
    rows += [Cause(state.offer.reason, state.offer.why)] if state.offer else []
    rows += [state.pin.cause] if state.pin else []
    rows += [hold for hold in requests.holds if hold.object_key is None]
    rows += [left_behind.cause] if left_behind.count else []
    rows += [row for one in own for row in one.rows]
    rows += [replace(row, node="") for one in lost for row in one.rows]
    told = {(row.node, row.reason) for row in rows}
    rows += [hold for hold in requests.holds if hold.object_key and (hold.node, hold.reason) not in told]
    objects = {node.node.id: node.node.key for one in own for node in one.restless}
    return tuple(cause_rows.format_rows(rows, objects, before, now))


def vanished(
    plan: Plan, sources: Sequence[SourceState], observed: Observed, archive: RevisionArchive
) -> frozenset[ObjectKey]:
    """Instances with an applied pair that are certainly gone and that no source may want: not while one has files that cannot be read."""
    wanted = {one.rendered.parent for one in plan.sets}
    read = {state.catalog.source for state in sources if not state.catalog.unreadable_files and not state.hold}
    return frozenset(
        key
        for key, pair in archive.stored_revisions.applied.items()
        if key not in wanted
        and pair.source in read
        and key not in observed.objects
        and (observed.is_known(key) or observed.has_none_of(key.group_kind))
    )


def unowned_instances(bundle: Rendering, observed: Observed) -> list[Object]:
    """Instances of our kinds that no source and no parent wants and that never were ours; those told so already are left out."""
    return [
        obj
        for key, obj in observed.objects.items()
        if key.group_kind in observed.whole
        and key not in bundle.instances
        and not label(obj, well_known.PART_OF)
        and not is_marked_not_in_git(obj)
    ]
