"""Writes of what passes tell and record: statuses, records of sources, rollouts and revisions, Events.

Nobody waits long for one, as for every write (`applier.execute.pending_writes`), but with places of its own: an
instance whose status is being written is worked on
all the same. While a record is being written, or was put off, nothing else is written there; who looks afterwards says what holds then. So the newest
word wins, and there are never two at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import field
from datetime import datetime
from functools import partial
from typing import Final

from applier.cluster import PARENT_MANAGER, STATUS_MANAGER, Cluster, Object
from applier.errors import ClusterError, NotFound, StaleWrite
from applier.execute.pending_writes import (
    FIRST_RETRY_SECONDS,
    MAX_RETRY_SECONDS,
    MIN_ANSWER_TIMEOUT_SECONDS,
    PendingAction,
    PendingWrites,
    WriteBatch,
)
from applier.execute.results import Answer, Result
from applier.state.observed import annotation
from gitops.clock import Clock
from gitops.reconcile import events
from gitops.records.applied_packs import pack_entries
from gitops.records.transitions import MAX_TRANSITIONS, Transition
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

MOST_EVENTS: Final = 2 * MAX_TRANSITIONS
"""So many Events wait to be written at most; the rest is left out."""

EVENTS_AT_ONCE: Final = 2
"""Of the requests in flight; they are the least important ones."""


@dataclass(frozen=True, slots=True)
class RecordUpdate:
    """A record that is to say something else: who writes it, with what result, and what is to be told once that is done."""

    result: Result
    write: Callable[[Cluster], Awaitable[Object | None]]
    transitions: tuple[Transition, ...] = ()


def status_update(body: Object, transitions: Iterable[Transition] = (), *, lapsed: Iterable[str] = ()) -> RecordUpdate:
    """A status, or what a record tells; no other manager may say otherwise. Annotations that have `lapsed` with it are taken off before."""
    key, subresource = ObjectKey.from_manifest(body), "status" if "status" in body else ""

    async def write(cluster: Cluster) -> Object:
        if gone := dict.fromkeys(lapsed):
            await cluster.merge(key, {"metadata": {"annotations": gone}}, manager=STATUS_MANAGER)
        return await cluster.apply(body, manager=STATUS_MANAGER, force=True, subresource=subresource)

    return RecordUpdate(Result(key, key, "status"), write, tuple(transitions))


def record_update(body: Object, *, force: bool = False) -> RecordUpdate:
    """A record of its own, perhaps of an instance."""
    key = ObjectKey.from_manifest(body)

    async def write(cluster: Cluster) -> Object:
        return await cluster.apply(body, manager=PARENT_MANAGER, force=force)

    return RecordUpdate(Result(subject_of(body), key, "stored"), write)


def record_deletion(obj: Object) -> RecordUpdate:
    """A record that nothing needs any more."""
    key = ObjectKey.from_manifest(obj)

    async def write(cluster: Cluster) -> None:
        await cluster.delete(key, uid=obj["metadata"]["uid"], resource_version=None)

    return RecordUpdate(Result(subject_of(obj), key, "dropped"), write)


def subject_of(record: Object) -> ObjectKey:
    """The instance that a record is of, of a pack of applied pairs the first one; the record itself where it is of none."""
    if instances := pack_entries(record):
        return min(instances)
    key, of = ObjectKey.from_manifest(record), annotation(record, well_known.RECORD_OF).split("/")
    return ObjectKey(*of) if len(of) == len(key) else key


@dataclass(eq=False)
class RecordWriter:
    """Of one process and one cluster, for all its passes. `announced` hears of what has changed, `stored` of what was written when no pass waited for
    it any more, and says whether that is worth another look. One that `insists` waits until all is answered.
    """

    cluster: Cluster
    clock: Clock
    insists: Callable[[], bool]
    announced: Callable[[Sequence[Transition]], None]
    record_update: Callable[[Object], bool]
    underway: PendingWrites = field(default_factory=PendingWrites)
    _untold: dict[ObjectKey, tuple[Transition, ...]] = field(default_factory=dict)
    _events: int = 0
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(EVENTS_AT_ONCE))

    def __post_init__(self) -> None:
        self.underway.on_late_answer = self._heard

    async def write(
        self, due: Sequence[RecordUpdate], *, patience_seconds: float = MIN_ANSWER_TIMEOUT_SECONDS
    ) -> list[Answer]:
        """Return the answers that came while it was worth to wait, at least `patience_seconds` after the last one.

        What is missing there is being written, or waits for its time.
        """
        waiting = self.underway.unwritable_objects
        batch = WriteBatch(self.underway, self.clock.sleep, self.insists(), patience_seconds)
        begun = [one for one in due if one.result.key not in waiting]
        try:
            answers = await batch.start_and_collect(
                PendingAction(one.result.key, partial(self._attempt, batch, one)) for one in begun
            )
            while more := await batch.collect_remaining():
                answers += more
        finally:
            batch.abandon()
        answered = {result.key for _, result in answers}
        self._untold |= {one.result.key: one.transitions for one in begun if one.result.key not in answered}
        return answers

    async def announce(self, transitions: Sequence[Transition], now: datetime) -> None:
        """Tell what has changed, now that the records say it."""
        self.announced(transitions)
        if self.insists():
            await events.send_events(self.cluster, transitions, now, asyncio.Semaphore(EVENTS_AT_ONCE))
        else:
            self._begin_events(transitions, now)

    def _begin_events(self, transitions: Sequence[Transition], now: datetime) -> None:
        if fitting := transitions[: max(0, MOST_EVENTS - self._events)]:
            self._events += len(fitting)
            self.underway.keep_task(self._tell(fitting, now))

    async def _tell(self, transitions: Sequence[Transition], now: datetime) -> None:
        try:
            await events.send_events(self.cluster, transitions, now, self._limit)
        except Exception as error:
            self.underway.set_fatal_error(error)
        finally:
            self._events -= len(transitions)

    async def _attempt(self, batch: WriteBatch, one: RecordUpdate) -> Answer:
        """Write it; what fails is put off, ever longer."""
        times = self.underway.count_tries(one.result.key)
        answer = await batch.attempt(one.result, partial(one.write, self.cluster.without_retries()))
        error = answer[1].error
        if (
            error
            and not is_too_late(error)
            and not (batch.waits_for_responses or self.underway.count_tries(one.result.key))
        ):
            self.underway.postpone(
                answer[1], error, min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0**times), times + 1
            )
        return answer

    def _heard(self, answer: Answer) -> bool:
        obj, result = answer
        untold = self._untold.pop(result.key, ())
        if result.error is None:
            self.announced(untold)
            self._begin_events(untold, self.clock.now())
        return obj is None or self.record_update(obj)


def is_too_late(error: ClusterError) -> bool:
    """The object is gone, or another one by now: there is nothing to be told of it."""
    return isinstance(error, NotFound | StaleWrite)
