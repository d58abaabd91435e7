"""The end of a pass: the status of every instance, the record of every source, applied pairs. Written only where something differs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from applier.cluster import Object
from applier.errors import ClusterError
from applier.execute.results import Answer, Result
from applier.plan.model import Plan
from applier.state.observed import Observed, annotation
from gitops.decisions.decision import Decision
from gitops.reconcile.set_summaries import SetSummaries
from gitops.reconcile.sources import SourceState, revisions_of
from gitops.reconcile.statuses import passes_with, source_record, statuses, unowned_instances, vanished
from gitops.reconcile.write_records import (
    RecordUpdate,
    RecordWriter,
    is_too_late,
    record_deletion,
    record_update,
    status_update,
)
from gitops.records import window_calendar
from gitops.records.applied_packs import KIND
from gitops.records.installation import INSTALLATION, installation_body, is_recorded
from gitops.records.instance_status import not_in_git_status
from gitops.records.left_behind import LeftBehind
from gitops.records.pack_store import AppliedPacks
from gitops.records.revisions import RevisionArchive
from gitops.records.source_record import SourceRecord
from gitops.records.transitions import (
    Transition,
    TransitionSubject,
    instance_transitions,
    limit_transitions,
    source_transitions,
)
from gitops.timestamps import timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, ObjectKey, source_parent
from renderer.render.model import Rendering


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What was written at the end of a pass, what could not be, the objects as they are stored now, and what is to be told of them."""

    results: tuple[Result, ...] = ()
    errors: tuple[ClusterError, ...] = ()
    objects: tuple[Object, ...] = ()
    transitions: tuple[Transition, ...] = ()

    @property
    def live(self) -> Iterator[Object]:
        """The objects without the archived revisions, which no pass looks at."""
        return (obj for obj in self.objects if obj["kind"] != KIND.kind)

    @classmethod
    def of(
        cls, answers: Sequence[Answer], due: Sequence[RecordUpdate] = (), known: Iterable[Transition] = ()
    ) -> Conclusion:
        """`known` are transitions that the records say already."""
        done = {result.key for _, result in answers if result.error is None}
        news = [one for record in due if record.result.key in done for one in record.transitions]
        return cls(
            tuple(result for _, result in answers if result.error is None),
            tuple(error for _, result in answers if (error := result.error) and not is_too_late(error)),
            tuple(obj for obj, _ in answers if obj is not None),
            limit_transitions([*known, *news]),
        )


async def conclude(
    records: RecordWriter,
    bundle: Rendering,
    plan: Plan,
    ledger: SetSummaries,
    sources: Sequence[SourceState],
    observed: Observed,
    archive: RevisionArchive,
    packs: AppliedPacks,
    propagation: Decision,
    windows: Object | None = None,
    *,
    version: str,
    cluster_name: str,
    now: datetime,
    results: Sequence[Result] = (),
    earlier: Sequence[Result] = (),
    follows: Collection[str] | None = None,
    left_behind: Mapping[str, LeftBehind],
) -> Conclusion:
    """Write what differs. `windows` is the calendar as it was published last, `results` is what the pass did, and `earlier` what was done before it
    and is not in the records yet. `follows`: see `installation`.
    """
    due, known = _statuses(plan, sources, propagation, results, now)
    for stray in unowned_instances(bundle, observed):
        status = not_in_git_status(stray, now=timestamp(now))
        news = instance_transitions(TransitionSubject(stray, "", ""), stray.get("status") or {}, status, ())
        due.append(status_update(_body(stray, status=status), news))
    installed = observed.objects.get(INSTALLATION)
    install = installation_body(version, cluster_name, follows, installed)
    if not is_recorded(install, installed):
        due.append(status_update(install))
    if published := window_calendar.updated_configmap(propagation.rules, windows):
        due.append(record_update(published, force=True))
    due += map(record_update, archive.new_rules(propagation.rules))
    gone = vanished(plan, sources, observed, archive)
    packs.note(plan.sets)
    packs.note_gone(gone, {one.rendered.parent for one in plan.sets})
    due += await _pair_updates(records, packs, sources)
    answers = await records.write(due)
    # After the instances: whoever reads in the record that a commit is there finds them saying so. What a newer record replaces goes after that.
    archive = archive.with_stored(Conclusion.of(answers).objects)
    last = [*_source_records(ledger, sources, observed, propagation, [*earlier, *results], now, left_behind)]
    last += map(record_deletion, archive.obsolete_records(plan, gone))
    return Conclusion.of([*answers, *await _write_last(records, packs, answers, last)], [*due, *last], known)


async def conclude_roots(
    records: RecordWriter,
    plan: Plan,
    sources: Sequence[SourceState],
    packs: AppliedPacks,
    propagation: Decision,
    now: datetime,
    *,
    results: Sequence[Result] = (),
) -> Conclusion:
    """The same of some instances: their status and their applied pairs; what is told of everything is left to `tell`."""
    due, known = _statuses(plan, sources, propagation, results, now)
    packs.note(plan.sets)
    due += await _pair_updates(records, packs, sources)
    answers = await records.write(due)
    return Conclusion.of([*answers, *await _write_last(records, packs, answers, [])], due, known)


async def _pair_updates(
    records: RecordWriter, packs: AppliedPacks, sources: Sequence[SourceState]
) -> Iterable[RecordUpdate]:
    """The applied pairs that are to be stored, with copies of what still counts in packs that hold little else."""
    sparse = packs.take_sparse(revisions_of(sources))
    try:
        keys = [ObjectKey(*KIND, OWN_NAMESPACE, pack.name) for pack in sparse if not pack.is_read]
        found = await asyncio.gather(*map(records.cluster.get, keys))
    except ClusterError:  # They stay as they are, until another pass.
        packs.release(sparse)
        sparse = []
    else:
        packs.keep_contents(obj for obj in found if obj)
    unwritable = {key.name for key in records.underway.unwritable_objects if key.group_kind == KIND}
    return map(record_update, packs.compose(sparse, unwritable))


async def _write_last(
    records: RecordWriter, packs: AppliedPacks, stored: Sequence[Answer], last: Sequence[RecordUpdate]
) -> list[Answer]:
    """Write this, and drop the packs that nothing needs any more, now that others are `stored`."""
    for obj, _ in stored:
        if obj is not None and obj["kind"] == KIND.kind:
            packs.add(obj)
    answers: list[Answer] = []
    due = [*last, *map(record_deletion, packs.take_dead())]
    while due:
        given = await records.write(due)
        answers += given
        packs.remove(
            result.key.name
            for _, result in given
            if result.action == "dropped" and (result.error is None or is_too_late(result.error))
        )
        # What said that an instance is gone goes after the pairs that it spoke of.
        due = [*map(record_deletion, packs.take_dead())]
    return answers


async def conclude_reports(
    records: RecordWriter,
    ledger: SetSummaries,
    sources: Sequence[SourceState],
    observed: Observed,
    propagation: Decision,
    results: Sequence[Result],
    now: datetime,
    *,
    left_behind: Mapping[str, LeftBehind],
) -> Conclusion:
    """Write the records of sources where they differ."""
    due = [*_source_records(ledger, sources, observed, propagation, results, now, left_behind)]
    return Conclusion.of(await records.write(due), due)


def _by_set(results: Sequence[Result]) -> Mapping[ObjectKey, list[Result]]:
    found: dict[ObjectKey, list[Result]] = {}
    for one in results:
        found.setdefault(one.set, []).append(one)
    return found


def _statuses(
    plan: Plan,
    sources: Sequence[SourceState],
    propagation: Decision,
    results: Sequence[Result],
    now: datetime,
) -> tuple[list[RecordUpdate], list[Transition]]:
    """Statuses that have to say something else; and what is told of instances that were worked on and say the same."""
    revisions = revisions_of(sources)
    done = _by_set(results)
    due: list[RecordUpdate] = []
    known: list[Transition] = []
    for rendered, parent, status in statuses(plan, sources, propagation, now):
        before, own = parent.get("status") or {}, done.get(rendered.parent)
        if status != before or own is not None:
            about = TransitionSubject(parent, rendered.source, revisions.get(rendered.source, ""))
            news = instance_transitions(about, before, status, own or ())
            if status != before:
                due.append(status_update(_body(parent, status=status), news))
            else:
                known += news
    return due, known


def _source_records(
    ledger: SetSummaries,
    sources: Sequence[SourceState],
    observed: Observed,
    propagation: Decision,
    results: Sequence[Result],
    now: datetime,
    left_behind: Mapping[str, LeftBehind],
) -> Iterator[RecordUpdate]:
    done = _by_set(results)
    for state in sources:
        if (parent := observed.objects.get(source_parent(state.catalog.source))) is not None:
            before = SourceRecord.from_object(parent)
            left = left_behind[state.catalog.source]
            record = source_record(state, ledger, before, propagation, left, now=timestamp(now))
            record = replace(
                record, passes=passes_with(state, ledger, parent, before, record, propagation, results, now)
            )
            if (data := record.data()) != (parent.get("data") or {}):
                about = TransitionSubject(parent, state.catalog.source, record.target, record.state)
                news = source_transitions(about, before, record, done.get(ObjectKey.from_manifest(parent), ()))
                is_other = record.path != before.path or (before.is_prune_disabled and not record.is_prune_disabled)
                lapsed = (
                    [well_known.APPROVED_COMMIT] if annotation(parent, well_known.APPROVED_COMMIT) and is_other else []
                )
                yield status_update(_body(parent, data=data), news, lapsed=lapsed)


def _body(parent: Object, **fields: Any) -> Object:
    metadata = {name: parent["metadata"][name] for name in ("name", "namespace", "uid") if name in parent["metadata"]}
    return {"apiVersion": parent["apiVersion"], "kind": parent["kind"], "metadata": metadata, **fields}
