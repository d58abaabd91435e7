"""What is recorded before it is acted on: new revisions of definitions, and what rollouts decide.

Who rests on a record waits for it, and nobody else does: a revision that is not stored, or not yet, is not used; a rollout whose decision is not
stored decides nothing in this pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from applier.errors import ClusterError, StaleWrite, Unanswered
from applier.execute.results import Result
from gitops.decisions import decide as governor
from gitops.reconcile.context import Known
from gitops.reconcile.write_records import Due, RecordWriter, stored
from gitops.records.revisions import Archive, definition_body
from gitops.records.rollout_records import Rollouts, rollout_key
from gitops.rollouts.state import State
from renderer.render.model import Issued

_UNANSWERED: Final = "its record is being written; the server has not answered yet"


async def issue(
    records: RecordWriter, issued: Sequence[Issued], archive: Archive, commits: Mapping[str, str]
) -> Archive:
    """Store new revisions; of a kind of which that does not succeed the revision before serves on."""
    due = {one.kind: stored(definition_body(one, commits.get(one.source, ""))) for one in issued}
    answers = await records.write([*due.values()])
    errors = {result.key: result.error for _, result in answers}
    why = {kind: errors.get(one.result.key, Unanswered(_UNANSWERED)) for kind, one in due.items()}
    refused = {kind: str(error) for kind, error in why.items() if error}
    return replace(archive.storing(obj for obj, _ in answers if obj), refused={**archive.refused, **refused})


async def decide(
    records: RecordWriter, rollouts: Rollouts, states: Mapping[str, State], *, is_told: bool = True
) -> tuple[Rollouts, dict[str, ClusterError]]:
    """Store what rollouts decided, and where it `is_told` now how far they are: the records as they are now, and why some are not stored, or not
    yet. Raises StaleWrite where somebody else has written there.
    """
    names = {rollout_key(name): name for name in rollouts.due(states, is_told=is_told)}
    answers = await records.write(
        [
            Due(Result(key, key, "stored"), partial(rollouts.write, name=name, state=states[name]))
            for key, name in names.items()
        ]
    )
    errors = {result.key: result.error for _, result in answers}
    if stale := next((error for error in errors.values() if isinstance(error, StaleWrite)), None):
        raise stale
    why = {name: errors.get(key, Unanswered(_UNANSWERED)) for key, name in names.items()}
    return rollouts.storing(obj for obj, _ in answers if obj), {name: error for name, error in why.items() if error}


async def keep(
    records: RecordWriter, known: Known, states: Mapping[str, State], *, is_told: bool
) -> tuple[Known, bool]:
    """Store what was decided of rollouts, before it is acted on, and at the end how far they are. False where that did not succeed: where somebody
    wrote there meanwhile nothing of this pass's decisions stands, and what is not on record may not be acted on.
    """
    states = {name: one for name, one in states.items() if name not in known.conditions.unrecorded}
    try:
        rollouts, failed = await decide(records, known.rollouts, states, is_told=is_told)
    except StaleWrite:
        known, failed = known.hearing(await Rollouts.observe(records.cluster)), {}
    else:
        needed = rollouts.due(states, is_told=False)
        failed = {name: why for name, why in failed.items() if name in needed}
        if not failed:
            return known if rollouts == known.rollouts else known.hearing(rollouts), True
        known = known.hearing(rollouts)
    unrecorded = {**known.conditions.unrecorded, **failed}
    begun = governor.begin(known.observed, known.archive.stored)
    return replace(known, propagation=begun, conditions=replace(known.conditions, unrecorded=unrecorded)), False
