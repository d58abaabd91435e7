"""The end of a pass: the status of every instance, the record of every source, applied pairs. Written only where something differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from applier.cluster import PARENT, STATUS, Cluster, Object
from applier.errors import ClusterError, NotFound, StaleWrite
from applier.observed import Observed, annotation
from applier.plan import Plan
from applier.results import Result
from gitops.passes.accounts import Ledger
from gitops.passes.share import COMMON, Mine
from gitops.passes.sources import SourceState, revisions_of
from gitops.passes.statements import passes_with, source_record, statuses, strays, vanished
from gitops.propagation.propagation import Propagation
from gitops.records import calendar
from gitops.records.causes import timestamp
from gitops.records.installation import INSTALLATION, installation
from gitops.records.instance_status import not_in_git
from gitops.records.record import SourceRecord
from gitops.records.revisions import KIND, Archive
from gitops.records.transitions import About, Transition, bounded, of_instance, of_source
from renderer import keys
from renderer.identity import ObjectKey, source_parent
from renderer.model import Bundle


@dataclass(frozen=True, slots=True)
class Concluded:
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
    bundle: Bundle,
    plan: Plan,
    ledger: Ledger,
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
    mine: Mine = lambda _: True,
) -> Concluded:
    """Write what differs, of sources that are `mine`; the `plan` is that of their sets alone, the `ledger` is of all. `windows` is the calendar as it
    was published last, `results` is what the pass did, and `earlier` what was done before it and is not in the records yet.
    """
    sources = [state for state in sources if mine(state.catalog.source)]
    bodies = [*_statuses(plan, sources, propagation, results, now)]
    for stray in strays(bundle, observed) if mine(COMMON) else ():
        status = not_in_git(stray, now=timestamp(now))
        told = of_instance(About(stray, "", ""), stray.get("status") or {}, status, ())
        bodies.append((_body(stray, status=status), [*told]))
    install = installation(version)
    if mine(COMMON) and install["data"] != (observed.objects.get(INSTALLATION) or {}).get("data"):
        bodies.append((install, []))
    answers = await _write_all(cluster, bodies)
    # After the instances: whoever reads in the record that a commit is there finds them saying so.
    records = [*_source_bodies(ledger, sources, observed, propagation, [*earlier, *results], now)]
    answers += await _write_all(cluster, records)
    transitions = _told([*bodies, *records], answers)
    answers += await _keep_records(
        cluster,
        archive,
        archive.due(plan, {source: rules for source, rules in propagation.rules.items() if mine(source)}),
        lambda stored: [
            obj
            for obj in stored.superfluous(plan, vanished(plan, sources, observed, stored))
            if mine(annotation(obj, keys.RECORD_SOURCE))
        ],
    )
    if mine(COMMON) and (published := calendar.due(propagation.rules, windows)):
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
    ledger: Ledger,
    sources: Sequence[SourceState],
    observed: Observed,
    propagation: Propagation,
    results: Sequence[Result],
    now: datetime,
) -> Concluded:
    """Write the records of sources where they differ."""
    bodies = [*_source_bodies(ledger, sources, observed, propagation, results, now)]
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
    revisions = revisions_of(sources)
    done = _by_set(results)
    for rendered, parent, status in statuses(plan, sources, propagation, now):
        before, own = parent.get("status") or {}, done.get(rendered.parent)
        if status != before or own is not None:
            told = of_instance(
                About(parent, rendered.source, revisions.get(rendered.source, "")), before, status, own or ()
            )
            yield _body(parent, status=status) if status != before else None, [*told]


def _source_bodies(
    ledger: Ledger,
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
            record = source_record(state, ledger, before, now=timestamp(now))
            record = replace(
                record, passes=passes_with(state, ledger, parent, before, record, propagation, results, now)
            )
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
