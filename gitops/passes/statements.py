"""What a pass is to say at its end: the status of each instance, the record of each source. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from applier.cluster import Object
from applier.inventory import Scope
from applier.observed import Observed, annotation, label
from applier.plan import Plan, SetPlan
from applier.prune import Fate
from applier.reasons import Blocked, Reason
from applier.results import Result
from gitops.passes.sources import SourceState, revisions_of
from gitops.passes.tally import Tally
from gitops.propagation.people import asked_by
from gitops.propagation.propagation import Propagation
from gitops.propagation.state import Entry
from gitops.records import causes, passes
from gitops.records.causes import Row, blocked_rows, timestamp
from gitops.records.instance_status import instance_status, is_told
from gitops.records.record import SourceRecord, is_approval
from gitops.records.revisions import Archive
from gitops.records.standing import State
from renderer import keys
from renderer.errors import Problem
from renderer.identity import ObjectKey, source_parent
from renderer.model import Bundle, RenderedSet


def statuses(
    plan: Plan, sources: Sequence[SourceState], propagation: Propagation, now: datetime
) -> Iterator[tuple[RenderedSet, Object, dict[str, Any]]]:
    """Each instance that exists and was looked at, as it is stored, with what its status is to be."""
    revisions = revisions_of(sources)
    synced = {key: value for state in sources for key, value in state.synced.items()}
    for one in plan.sets:
        if one.parent is not None and not one.rendered.is_source and not one.untouched:
            key, commit = one.rendered.parent, revisions.get(one.rendered.source, "")
            remembered, asked = propagation.remembered.get(key, {}), synced.get(key, "")
            status = instance_status(one, revision=commit, now=timestamp(now), remembered=remembered, synced=asked)
            yield one.rendered, one.parent, status


def source_record(state: SourceState, plan: Plan, before: SourceRecord, *, now: str) -> SourceRecord:
    """What the source's ConfigMap is to say after this pass."""
    mine = [one for one in plan.sets if one.rendered.source == state.catalog.source]
    instances = [one for one in mine if not one.rendered.is_source]
    existing, missing = Tally.of(instances), _missing(mine)
    target = state.catalog.revision
    scopes = {one.rendered.parent: one.current or Scope() for one in instances if one.current.kinds}
    wanted = {one.rendered.parent for one in instances}
    kept = {key: scope for key, scope in before.scopes.items() if key in wanted}
    problems = [*state.catalog.problems, *(problem for one in mine for problem in one.rendered.problems)]
    return SourceRecord(
        url=state.url,
        path=state.path,
        ref=state.ref,
        target=target,
        offered=state.offer.commit if state.offer else "",
        applied=target if all(map(_is_brought_about, mine)) else before.applied,
        own=target if all(_is_brought_about(one) for one in mine if one.rendered.is_source) else before.own,
        since=before.since if before.target == target and before.since else now,
        state=_state(mine, problems, held=bool(state.offer or state.pin)),
        counts={
            "instances": len(instances),
            "missing": missing.total(),
            "failed": existing.failed + missing["failed"],
            "held": existing.held + missing["held"],
        },
        causes=_source_causes(state, problems, mine, before.causes, now),
        scopes={**kept, **scopes},
        passes=before.passes,
        unpinned=state.unpinned,
        version=state.version,
        synced=state.synced.get(source_parent(state.catalog.source), before.synced),
    )


def passes_with(
    state: SourceState,
    plan: Plan,
    parent: Object,
    before: SourceRecord,
    record: SourceRecord,
    propagation: Propagation,
    results: Sequence[Result],
    now: datetime,
) -> str:
    """The passes of the source with this one. Decisions are those of the rollouts that its instances are in."""
    sets = [one for one in plan.sets if one.rendered.source == state.catalog.source]
    definitions = {one.rendered.definition for one in sets} - {""}
    states = {
        name: rollout
        for name, rollout in propagation.states.items()
        if any(name == one or name.startswith(f"{one}.") for one in definitions)
    }
    words = []
    if is_approval(annotation(parent, keys.APPROVED), record.target):
        by = asked_by(parent, keys.APPROVED)
        words.append(Entry(now, "approved", f"commit {record.target[:12]}", by))
    if state.pin:
        words.append(Entry(now, "pinned", f"commit {record.target[:12]}", state.pin.by, state.pin.why))
    happened = passes.Happened(
        results,
        frozenset({one.rendered.parent for one in sets} | before.scopes.keys()),
        [
            (one.rendered.parent, node, cause)
            for one in sets
            for node, cause, _ in blocked_rows(one)
            if cause.reason.is_hold
        ],
        words,
        states,
    )
    return passes.noted(before.passes, happened, commit=record.target, state=record.state, now=now)


def _is_brought_about(one: SetPlan) -> bool:
    """Is all of the set as Git says, and nothing left that Git no longer wants?"""
    leaves = any(orphan.fate is Fate.DELETE for orphan in one.orphans)
    waits = one.error or one.stays or leaves
    return not waits and all(node.is_current for node in one.nodes if not node.node.external)


def _state(mine: Sequence[SetPlan], problems: Sequence[Problem], *, held: bool) -> str:
    if problems:
        return State.FAILED
    if any(one.error and one.error.reason is Reason.SUSPENDED for one in mine if one.rendered.is_source):
        return State.SUSPENDED
    return Tally.of(mine).state(held=held)


def _missing(mine: Sequence[SetPlan]) -> Counter[str]:
    """Instances that do not exist yet, by how that is: what they are rendered to has failed, or whoever is to write them says so."""
    missing = {one.rendered.parent: one for one in mine if one.parent is None and not one.rendered.is_source}
    said = {node.node.key: node for one in mine for node in one.nodes if node.node.key in missing}
    found = Counter[str]()
    for key, one in missing.items():
        blocked = one.error or (said[key].blocked if key in said else None)
        found[
            "failed" if blocked and blocked.reason.is_failure else "held" if blocked and blocked.reason.is_hold else ""
        ] += 1
    return found


def _source_causes(
    state: SourceState,
    problems: Sequence[Problem],
    mine: Sequence[SetPlan],
    before: Sequence[Mapping[str, Any]],
    now: str,
) -> tuple[Mapping[str, Any], ...]:
    """The problems of its commit, and what keeps the source's own set from being settled, beside its instances."""
    own = [one for one in mine if one.rendered.is_source]
    rows: list[Row] = [("", Blocked(Reason.RENDER_FAILED, str(problem)), ()) for problem in problems]
    rows += [("", Blocked(state.offer.reason, state.offer.why), ())] if state.offer else []
    rows += [("", state.pin.blocked, ())] if state.pin else []
    rows += [row for one in own for row in blocked_rows(one)]
    objects = {node.node.id: node.node.key for one in own for node in one.nodes}
    return tuple(causes.as_json(rows, objects, before, now))


def vanished(plan: Plan, sources: Sequence[SourceState], observed: Observed, archive: Archive) -> frozenset[ObjectKey]:
    """Instances with an applied pair that are certainly gone and that no source may want: not while one has files that cannot be read."""
    wanted = {one.rendered.parent for one in plan.sets}
    read = {state.catalog.source for state in sources if not state.catalog.unreadable and not state.hold}
    return frozenset(
        key
        for key, pair in archive.stored.applied.items()
        if key not in wanted
        and pair.source in read
        and key not in observed.objects
        and (observed.is_known(key) or observed.is_unserved(key.group_kind))
    )


def strays(bundle: Bundle, observed: Observed) -> list[Object]:
    """Instances of our kinds that no source and no parent wants and that never were ours; those told so already are left out."""
    return [
        obj
        for key, obj in observed.objects.items()
        if key.group_kind in observed.whole
        and key not in bundle.instances
        and not label(obj, keys.PART_OF)
        and not is_told(obj)
    ]
