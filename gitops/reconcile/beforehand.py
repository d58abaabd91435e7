"""What is recorded before it is acted on: new revisions of definitions, what rollouts decide, and what plain objects do past a window.

Who rests on a record waits for it, and nobody else does: a revision that is not stored, or not yet, is not used; a rollout whose decision is not
stored decides nothing in this pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from applier.cluster import Cluster, Object
from applier.errors import ClusterError, StaleWrite, WriteInFlight
from applier.execute.results import Result
from gitops.decisions.decision import initial_placements
from gitops.reconcile.context import Context
from gitops.reconcile.write_records import RecordUpdate, RecordWriter, record_update, status_update
from gitops.records import pass_history
from gitops.records.revisions import RevisionArchive, definition_body
from gitops.records.rollout_records import Rollouts, rollout_key
from gitops.records.source_record import SourceRecord
from gitops.records.transitions import Transition, TransitionSubject, source_transitions
from gitops.rollouts.state import RolloutState
from renderer.frozen import dataclass
from renderer.identity import GroupKind, source_parent
from renderer.render.model import NewRevision

REVISION_PATIENCE_SECONDS: Final = 2.0
"""Seconds that a pass waits at least for the record of a new revision; not longer, since others wait with it (I9).

None of its instances can be rendered before. A pass that went on would tell each of them as failed, and take that back a moment later.
"""

_UNANSWERED: Final = "its record is being written; the server has not answered yet"


class RevisionNumbering(Protocol):
    """Who gives numbers to new revisions where more than one cluster has them."""

    async def number(self, revisions: Sequence[NewRevision]) -> Mapping[GroupKind, int]:
        """Return the number of each, at least the one that it has, for good. Raises ClusterError."""
        ...


@dataclass
class _Numbers:
    """The numbers of what one pass issues: asked for once, by the first record that is written."""

    numbering: RevisionNumbering
    issued: Sequence[NewRevision]
    _asked: asyncio.Task[Mapping[GroupKind, int]] | None = None

    async def of(self, kind: GroupKind) -> int:
        """Return the number of a kind's revision. Raises ClusterError."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._ask(), name="number revisions")
        return (await asyncio.shield(self._asked))[kind]

    async def _ask(self) -> Mapping[GroupKind, int]:
        return await self.numbering.number(self.issued)


async def store_revisions(
    records: RecordWriter,
    issued: Sequence[NewRevision],
    archive: RevisionArchive,
    numbering: RevisionNumbering | None,
) -> RevisionArchive:
    """Store new revisions; of a kind of which that does not succeed the revision before serves on. Each gets its number from the `numbering`."""
    numbers = _Numbers(numbering, issued) if numbering else None
    due = {one.kind: _revision_update(one, numbers) for one in issued}
    answers = await records.write([*due.values()], patience_seconds=REVISION_PATIENCE_SECONDS)
    errors = {result.key: result.error for _, result in answers}
    why = {kind: errors.get(one.result.key, WriteInFlight(_UNANSWERED)) for kind, one in due.items()}
    refused = {kind: str(error) for kind, error in why.items() if error}
    return replace(
        archive.with_stored(obj for obj, _ in answers if obj), write_errors={**archive.write_errors, **refused}
    )


def _revision_update(new_revision: NewRevision, numbers: _Numbers | None) -> RecordUpdate:
    """Return the write of a revision's record. It has its number first, and is known by the one that it would have otherwise."""
    proposed = record_update(definition_body(new_revision))
    if numbers is None:
        return proposed

    async def write(cluster: Cluster) -> Object | None:
        number = await numbers.of(new_revision.kind)
        return await record_update(definition_body(replace(new_revision, number=number))).write(cluster)

    return RecordUpdate(proposed.result, write)


async def store_rollouts(
    records: RecordWriter, rollouts: Rollouts, states: Mapping[str, RolloutState], *, is_told: bool = True
) -> tuple[Rollouts, dict[str, ClusterError]]:
    """Store what rollouts decided, and where it `is_told` now how far they are: the records as they are now, and why some are not stored, or not
    yet. Raises StaleWrite where somebody else has written there.
    """
    names = {rollout_key(name): name for name in rollouts.changed_names(states, includes_report=is_told)}
    answers = await records.write(
        [
            RecordUpdate(Result(key, key, "stored"), partial(rollouts.write, name=name, state=states[name]))
            for key, name in names.items()
        ]
    )
    errors = {result.key: result.error for _, result in answers}
    if stale := next((error for error in errors.values() if isinstance(error, StaleWrite)), None):
        raise stale
    why = {name: errors.get(key, WriteInFlight(_UNANSWERED)) for key, name in names.items()}
    return rollouts.with_stored(obj for obj, _ in answers if obj), {name: error for name, error in why.items() if error}


async def store_decision(
    records: RecordWriter, known: Context, states: Mapping[str, RolloutState], *, is_told: bool
) -> tuple[Context, bool]:
    """Store what was decided of rollouts, before it is acted on, and at the end how far they are. False where that did not succeed: where somebody
    wrote there meanwhile nothing of this pass's decisions stands, and what is not on record may not be acted on.
    """
    states = {name: one for name, one in states.items() if name not in known.conditions.unrecorded}
    try:
        rollouts, failed = await store_rollouts(records, known.rollouts, states, is_told=is_told)
    except StaleWrite:
        known, failed = known.with_rollouts(await Rollouts.observe(records.cluster)), {}
    else:
        needed = rollouts.changed_names(states, includes_report=False)
        failed = {name: why for name, why in failed.items() if name in needed}
        if not failed:
            return known if rollouts == known.rollouts else known.with_rollouts(rollouts), True
        known = known.with_rollouts(rollouts)
    unrecorded = {**known.conditions.unrecorded, **failed}
    begun = initial_placements(known.observed, known.archive.stored_revisions)
    return replace(known, propagation=begun, conditions=replace(known.conditions, unrecorded=unrecorded)), False


async def store_overrides(
    records: RecordWriter, known: Context, commits: Mapping[str, str]
) -> tuple[Context, bool, tuple[Transition, ...]]:
    """Store what is done to plain objects past a window, in the history of their source, before it is done; and what is to be told of that.

    False where that did not succeed: no break-glass counts there then. A source without a record has nothing that could be named.
    """
    due: dict[str, RecordUpdate] = {}
    for name, requests in known.propagation.source_requests.items():
        parent = known.observed.objects.get(source_parent(name))
        if parent is None or not requests.overrides:
            continue
        before = SourceRecord.from_object(parent)
        state = {name: RolloutState(decisions=requests.overrides)}
        happened = pass_history.PassActivity((), (), (), states=state)
        passes = pass_history.append_pass(
            before.passes,
            happened,
            commit=commits.get(name, ""),
            state=before.state,
            now=known.now,
            max_bytes=before.passes_budget_bytes,
        )
        words = pass_history.parse_passes(passes)[-1].words if passes else ()
        if passes == before.passes or not words:
            continue
        metadata = {field: parent["metadata"][field] for field in ("name", "namespace", "uid")}
        body = {"apiVersion": parent["apiVersion"], "kind": parent["kind"], "metadata": metadata}
        about = TransitionSubject(parent, name, commits.get(name, ""), before.state)
        news = source_transitions(about, before, replace(before, passes=passes), ())
        due[name] = status_update({**body, "data": {**(parent.get("data") or {}), "passes": passes}}, news)
    if not due:
        return known, True, ()
    answers = await records.write([*due.values()])
    errors = {result.key: result.error for _, result in answers}
    unanswered = WriteInFlight(_UNANSWERED)
    failed = {name: why for name, one in due.items() if (why := errors.get(one.result.key, unanswered))}
    told = tuple(transition for name, one in due.items() if name not in failed for transition in one.transitions)
    known = replace(known, observed=known.observed.with_objects([obj for obj, _ in answers if obj]))
    if not failed:
        return known, True, told
    conditions = replace(known.conditions, unrecorded_sources={**known.conditions.unrecorded_sources, **failed})
    before_requests = {
        name: replace(one, overrides=()) if name in failed else one
        for name, one in known.propagation.source_requests.items()
    }
    propagation = replace(known.propagation, source_requests=before_requests)
    return replace(known, conditions=conditions, propagation=propagation), False, told
