"""The end of a pass: the status of every instance, the record of every source, applied pairs. Written only where something differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from applier.cluster import PARENT, STATUS, Cluster, Object
from applier.errors import ClusterError, NotFound, StaleWrite
from applier.execute import Result
from applier.inventory import Scope
from applier.observed import Observed, annotation, label
from applier.plan import Plan, SetPlan
from applier.prune import Fate
from applier.reasons import Blocked, Reason
from gitops.passes.sources import SourceState
from gitops.passes.tally import Tally
from gitops.propagation.people import asked_by
from gitops.propagation.propagation import Propagation
from gitops.propagation.state import Entry
from gitops.records import calendar, causes, passes
from gitops.records.causes import Row, blocked_rows, timestamp
from gitops.records.installation import INSTALLATION, installation
from gitops.records.instance_status import instance_status, is_told, not_in_git
from gitops.records.record import SourceRecord, is_approval
from gitops.records.revisions import Archive
from gitops.records.transitions import About, Transition, bounded, of_instance, of_source
from renderer import keys
from renderer.errors import Problem
from renderer.identity import ObjectKey
from renderer.render import source_parent


@dataclass(frozen=True, slots=True)
class Concluded:
    """What was written at the end of a pass, what could not be, the objects as they are stored now, and what is to be told of them."""

    results: tuple[Result, ...] = ()
    errors: tuple[ClusterError, ...] = ()
    objects: tuple[Object, ...] = ()
    transitions: tuple[Transition, ...] = ()

    @classmethod
    def of(cls, answers: Sequence[_Answer], transitions: Iterable[Transition] = ()) -> Concluded:
        done = [one for one in answers if isinstance(one, tuple)]
        return cls(
            tuple(result for result, _ in done),
            tuple(one for one in answers if isinstance(one, ClusterError)),
            tuple(obj for _, obj in done if obj is not None),
            tuple(transitions),
        )


async def conclude(
    cluster: Cluster,
    plan: Plan,
    sources: Sequence[SourceState],
    observed: Observed,
    archive: Archive,
    propagation: Propagation,
    windows: Object | None = None,
    *,
    version: str,
    now: datetime,
    results: Sequence[Result] = (),
    earlier: Sequence[Result] = (),
) -> Concluded:
    """Write what differs. `windows` is the calendar as it was published last, `results` is what the pass did, and `earlier` what was done before it
    and is not in the records yet.
    """
    bodies = [*_statuses(plan, sources, propagation, results, now)]
    for stray in _strays(plan, observed):
        status = not_in_git(stray, now=timestamp(now))
        told = of_instance(About(stray, "", ""), stray.get("status") or {}, status, ())
        bodies.append((_body(stray, status=status), [*told]))
    install = installation(version)
    if install["data"] != (observed.objects.get(INSTALLATION) or {}).get("data"):
        bodies.append((install, []))
    answers = await _write_all(cluster, bodies)
    # After the instances: whoever reads in the record that a commit is there finds them saying so.
    records = [*_source_bodies(plan, sources, observed, propagation, [*earlier, *results], now)]
    answers += await _write_all(cluster, records)
    transitions = _told([*bodies, *records], answers)
    answers += await _keep_records(
        cluster,
        archive,
        archive.due(plan, propagation.rules),
        lambda stored: stored.superfluous(plan, _vanished(plan, sources, observed, stored)),
    )
    if published := calendar.due(propagation.rules, windows):
        answers.append(await _store(cluster, published, force=True))
    return Concluded.of(answers, transitions)


async def conclude_part(
    cluster: Cluster,
    plan: Plan,
    sources: Sequence[SourceState],
    archive: Archive,
    propagation: Propagation,
    now: datetime,
    *,
    results: Sequence[Result] = (),
) -> Concluded:
    """The same of some instances: their status and their applied pairs; what is told of everything is left to `tell`."""
    bodies = [*_statuses(plan, sources, propagation, results, now)]
    answers = await _write_all(cluster, bodies)
    transitions = _told(bodies, answers)
    answers += await _keep_records(cluster, archive, archive.due(plan, {}), Archive.replaced)
    return Concluded.of(answers, transitions)


async def tell(
    cluster: Cluster,
    plan: Plan,
    sources: Sequence[SourceState],
    observed: Observed,
    propagation: Propagation,
    results: Sequence[Result],
    now: datetime,
) -> Concluded:
    """Write the records of sources where they differ."""
    bodies = [*_source_bodies(plan, sources, observed, propagation, results, now)]
    answers = await _write_all(cluster, bodies)
    return Concluded.of(answers, _told(bodies, answers))


_Due = tuple[Object | None, list[Transition]]
"""What is to be written of a record (None: nothing), and what is to be told once that is done."""


async def _write_all(cluster: Cluster, due: Sequence[_Due]) -> list[_Answer]:
    return [*await asyncio.gather(*(_write(cluster, body) for body, _ in due))]


def _told(due: Sequence[_Due], answers: Sequence[_Answer]) -> tuple[Transition, ...]:
    """Of what is in the records now."""
    written = zip(due, answers, strict=True)
    return bounded(
        one for (body, known), answer in written if body is None or isinstance(answer, tuple) for one in known
    )


def _by_set(results: Sequence[Result]) -> Mapping[ObjectKey, list[Result]]:
    found: dict[ObjectKey, list[Result]] = {}
    for one in results:
        found.setdefault(one.set, []).append(one)
    return found


def _statuses(
    plan: Plan,
    sources: Sequence[SourceState],
    propagation: Propagation,
    results: Sequence[Result],
    now: datetime,
) -> Iterator[_Due]:
    """Of instances whose status has to say something else, or that were worked on."""
    revisions = {state.catalog.source: state.catalog.revision for state in sources}
    synced = {key: value for state in sources for key, value in state.synced.items()}
    done = _by_set(results)
    for one in plan.sets:
        if one.parent is not None and not one.rendered.is_source and not one.untouched:
            key, source = one.rendered.parent, one.rendered.source
            remembered, commit = propagation.remembered.get(key, {}), revisions.get(source, "")
            asked = synced.get(key, "")
            status = instance_status(one, revision=commit, now=timestamp(now), remembered=remembered, synced=asked)
            before = one.parent.get("status") or {}
            if status != before or key in done:
                told = of_instance(About(one.parent, source, commit), before, status, done.get(key, ()))
                yield _body(one.parent, status=status) if status != before else None, [*told]


def _source_bodies(
    plan: Plan,
    sources: Sequence[SourceState],
    observed: Observed,
    propagation: Propagation,
    results: Sequence[Result],
    now: datetime,
) -> Iterator[_Due]:
    done = _by_set(results)
    for state in sources:
        if (parent := observed.objects.get(source_parent(state.catalog.source))) is not None:
            before = SourceRecord.read(parent)
            record = source_record(state, plan, before, now=timestamp(now))
            record = replace(record, passes=_passes(state, plan, parent, before, record, propagation, results, now))
            if (data := record.data()) != (parent.get("data") or {}):
                about = About(parent, state.catalog.source, record.target)
                told = of_source(about, before, record, done.get(ObjectKey.of(parent), ()))
                yield _body(parent, data=data), [*told]


async def _keep_records(
    cluster: Cluster, archive: Archive, due: Iterable[Object], dropped: Callable[[Archive], Iterable[Object]]
) -> list[_Answer]:
    """Store what is due, then drop what it replaces: after a crash in between the newer ones count."""
    answers = await asyncio.gather(*(_store(cluster, body) for body in due))
    archive = archive.storing(Concluded.of(answers).objects)
    return [*answers, *await asyncio.gather(*(_drop(cluster, obj) for obj in dropped(archive)))]


def _vanished(plan: Plan, sources: Sequence[SourceState], observed: Observed, archive: Archive) -> frozenset[ObjectKey]:
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


def _strays(plan: Plan, observed: Observed) -> list[Object]:
    """Instances of our kinds that no source and no parent wants and that never were ours; those told so already are left out."""
    wanted = {one.rendered.parent for one in plan.sets}
    return [
        obj
        for key, obj in observed.objects.items()
        if key.group_kind in observed.whole and key not in wanted and not label(obj, keys.PART_OF) and not is_told(obj)
    ]


def source_record(state: SourceState, plan: Plan, before: SourceRecord, *, now: str) -> SourceRecord:
    """What the source's ConfigMap is to say after this pass."""
    mine = [one for one in plan.sets if one.rendered.source == state.catalog.source]
    instances = [one for one in mine if not one.rendered.is_source]
    existing = Tally.of(instances)
    target = state.catalog.revision
    scopes = {one.rendered.parent: one.current or Scope() for one in instances if one.current.kinds}
    kept = {key: scope for key, scope in before.scopes.items() if any(one.rendered.parent == key for one in instances)}
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
        state="Failed" if problems else Tally.of(mine).state(held=bool(state.offer or state.pin)),
        counts={"instances": len(instances), "failed": existing.failed, "held": existing.held},
        causes=_source_causes(state, problems, mine, before.causes, now),
        scopes={**kept, **scopes},
        passes=before.passes,
        unpinned=state.unpinned,
        synced=state.synced.get(source_parent(state.catalog.source), before.synced),
    )


def _passes(
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


def _body(parent: Object, **fields: Any) -> Object:
    metadata = {name: parent["metadata"][name] for name in ("name", "namespace", "uid") if name in parent["metadata"]}
    return {"apiVersion": parent["apiVersion"], "kind": parent["kind"], "metadata": metadata, **fields}


_Answer = tuple[Result, Object | None] | ClusterError | None
"""What was done, with the object as it is stored now; why it could not be; or nothing, where it was too late."""


async def _store(cluster: Cluster, body: Object, *, force: bool = False) -> _Answer:
    key = ObjectKey.of(body)
    try:
        stored = await cluster.apply(body, manager=PARENT, force=force)
    except ClusterError as error:
        return error
    return Result(key, key, "stored"), stored


async def _drop(cluster: Cluster, obj: Object) -> _Answer:
    key, metadata = ObjectKey.of(obj), obj["metadata"]
    try:
        await cluster.delete(key, uid=metadata["uid"], resource_version=None)
    except ClusterError as error:
        return error
    return Result(key, key, "dropped"), None


async def _write(cluster: Cluster, body: Object | None) -> _Answer:
    if body is None:
        return None
    key = ObjectKey.of(body)
    try:
        subresource = "status" if "status" in body else ""
        stored = await cluster.apply(body, manager=STATUS, force=True, subresource=subresource)
    except (NotFound, StaleWrite):
        return None
    except ClusterError as error:
        return error
    return Result(key, key, "status"), stored
