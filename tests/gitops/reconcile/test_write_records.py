"""Writes of statuses, records and Events that take long or fail: who waits for them, and what becomes of them. In virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from applier.causes import EventReason
from applier.cluster import Cluster, Object
from applier.errors import ClusterError, Invalid, StaleWrite, Unavailable
from applier.execute.results import Answer, Result
from gitops.leadership import NotLeading
from gitops.reconcile import write_records
from gitops.reconcile.write_records import MOST_EVENTS, RecordUpdate, RecordWriter, record_deletion, record_update
from gitops.records.transitions import Transition
from renderer import well_known
from renderer.identity import OWN_NAMESPACE, ObjectKey
from tests.support.clock import START, LoopClock, VirtualLoop


def key(name: str) -> ObjectKey:
    return ObjectKey("g.test", "Link", "default", name)


def transition(name: str) -> Transition:
    return Transition(EventReason.SETTLED, name, key(name), "g.test/v1", "u", "platform", "c")


@dataclass
class Server:
    """Takes `events` seconds for an Event, or ends the process by it."""

    events: float = 0.0
    ends: Exception | None = None
    inside: int = 0
    most: int = 0
    told: int = 0

    def without_retries(self) -> Server:
        return self

    async def apply(self, body: Object, **_: object) -> Object:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(self.events)
        if self.ends:
            raise self.ends
        self.inside, self.told = self.inside - 1, self.told + 1
        return body


@dataclass
class RecordingProcess:
    """One process; `sent` are the times at which each record was written, `announced` and `stored` what it heard, and whether the latter is `worth`
    another look.
    """

    server: Server = field(default_factory=Server)
    insists: bool = False
    worth: bool = True
    sent: dict[str, list[float]] = field(default_factory=dict)
    announced: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    again: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = VirtualLoop()
        self.records = RecordWriter(
            cast(Cluster, self.server),
            LoopClock(self.loop, START),
            lambda: self.insists,
            lambda some: self.announced.extend(one.message for one in some),
            self._stored,
        )
        self.records.underway.on_postponed = lambda result, seconds: self.again.append((result.key.name, seconds))

    def _stored(self, obj: Object) -> bool:
        self.stored.append(obj["metadata"]["name"])
        return self.worth

    def run(self, story: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            self.loop.run_until_complete(story())
        finally:
            self.loop.run_until_complete(self.records.underway.close(0.0))
            self.loop.close()

    def due(self, name: str, takes: float = 0.01, *errors: ClusterError) -> RecordUpdate:
        """A record that takes so long to be written, and fails with these at first."""
        pending = list(errors)

        async def write(_: Cluster) -> Object:
            self.sent.setdefault(name, []).append(round(self.loop.time(), 2))
            await asyncio.sleep(takes)
            if pending:
                raise pending.pop(0)
            return {"kind": "Link", "metadata": {"name": name}}

        return RecordUpdate(Result(key(name), key(name), "status"), write, (transition(name),))


def names(answers: Sequence[Answer]) -> list[str]:
    return sorted(result.key.name for _, result in answers if result.error is None)


@pytest.mark.parametrize("worth", [True, False])
def test_a_record_that_takes_long_is_waited_for_by_nobody_and_never_written_twice_at_a_time(worth: bool) -> None:
    """I9: once it is answered it is told, and, where that is worth it, looked at again."""
    lab, again = RecordingProcess(worth=worth), [("slow", 0.0)] if worth else []

    async def story() -> None:
        assert names(await lab.records.write([lab.due("slow", 20), lab.due("a"), lab.due("b")])) == ["a", "b"]
        assert lab.loop.time() < 0.2
        assert names(await lab.records.write([lab.due("slow"), lab.due("a")])) == ["a"]
        assert (lab.announced, lab.again) == ([], [])
        await asyncio.sleep(21)
        assert (lab.announced, lab.stored, lab.again) == (["slow"], ["slow"], again)
        assert names(await lab.records.write([lab.due("slow")])) == ["slow"]
        assert len(lab.sent["slow"]) == 2

    lab.run(story)


@pytest.mark.parametrize("takes", [0.01, 5.0], ids=["at once", "late"])
@pytest.mark.parametrize("error", [Invalid("too large"), Unavailable("busy", is_transient=True)], ids=str)
def test_what_cannot_be_recorded_is_tried_ever_more_rarely(error: ClusterError, takes: float) -> None:
    """I11: not again before its time, and then by who looks."""
    lab = RecordingProcess()

    async def story() -> None:
        for wait in (0.5, 1, 2, 4, 8, 16, 32, 60, 60):
            lab.again.clear()
            await lab.records.write([lab.due("one", takes, error)])
            await asyncio.sleep(takes)
            assert lab.again == [("one", wait)]
            await asyncio.sleep(wait - takes - 0.1 if wait > takes else 0)
            if wait > takes:
                assert await lab.records.write([lab.due("one")]) == []
            await asyncio.sleep(takes + 0.2)
        assert names(await lab.records.write([lab.due("one")])) == ["one"]
        assert lab.announced == []

    lab.run(story)


def test_a_record_that_is_gone_is_not_tried_again() -> None:
    lab = RecordingProcess()

    async def story() -> None:
        ((_, result),) = await lab.records.write([lab.due("one", 0.01, StaleWrite("another uid"))])
        assert isinstance(result.error, StaleWrite)
        assert lab.again == []

    lab.run(story)


def test_who_insists_waits_for_all() -> None:
    lab = RecordingProcess(insists=True)

    async def story() -> None:
        found = await lab.records.write(
            [lab.due("slow", 20), lab.due("busy", 0.01, Unavailable("", is_transient=True))]
        )
        assert names(found) == ["busy", "slow"]
        await lab.records.announce([transition("a")], START)
        assert lab.server.told == 1

    lab.run(story)


def test_events_keep_nobody_waiting_and_are_few_at_a_time() -> None:
    """I9, I11: a server that does not take Events takes everything else, and what it never takes does not pile up."""
    lab = RecordingProcess(Server(events=1e6))

    async def story() -> None:
        for _ in range(2 * MOST_EVENTS):
            await lab.records.announce([transition("a")], START)
        assert len(lab.announced) == 2 * MOST_EVENTS
        assert lab.loop.time() == 0
        await asyncio.sleep(1)
        assert lab.server.most == write_records.EVENTS_AT_ONCE
        assert len(asyncio.all_tasks()) == 1 + 2 * MOST_EVENTS

    lab.run(story)


def test_a_server_that_is_slow_with_events_gets_as_many_as_fit_and_later_more() -> None:
    """What a pass tells is not left out whole because some of it does not fit; and what is written makes room."""
    lab = RecordingProcess(Server(events=1))

    async def story() -> None:
        for _ in range(3):
            await lab.records.announce([transition("a")] * (MOST_EVENTS - 50), START)
        await asyncio.sleep(MOST_EVENTS)
        assert lab.server.told == MOST_EVENTS
        await lab.records.announce([transition("a")], START)
        await asyncio.sleep(2)
        assert lab.server.told == MOST_EVENTS + 1

    lab.run(story)


def test_who_does_not_lead_any_more_learns_it_from_an_event_as_well() -> None:
    """I6: whatever is refused by the fence ends the process."""
    lab = RecordingProcess(Server(ends=NotLeading("another one leads")))

    async def story() -> None:
        await lab.records.announce([transition("a")], START)
        await asyncio.sleep(1)
        with pytest.raises(NotLeading):
            await lab.records.write([])

    lab.run(story)


def test_a_record_of_an_instance_is_about_that_instance() -> None:
    """Who looks again at what was answered late looks at the instance; at a record itself only a pass over everything could."""
    metadata = {"name": "applied-x-1", "namespace": OWN_NAMESPACE, "uid": "u"}
    record = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata}
    of_instance = {**record, "metadata": {**metadata, "annotations": {well_known.RECORD_OF: "g.test/Link/default/a"}}}
    index = {f"g.test/Link/default/{name}": [1, 1, "", 2] for name in "ba"}
    annotations, labels = {well_known.PACK_INDEX: json.dumps(index)}, {well_known.RECORD: "applied"}
    of_several = {**record, "metadata": {**metadata, "annotations": annotations, "labels": labels}}
    for due in (record_update, record_deletion):
        for one in (of_instance, of_several):
            assert due(one).result.set == ObjectKey("g.test", "Link", "default", "a")
        assert due(record).result.set == ObjectKey.from_manifest(record)


@pytest.mark.parametrize(("patience_seconds", "answered"), [(0.1, []), (10.0, ["slow"])])
def test_a_record_that_all_else_waits_for_is_waited_for_longer(patience_seconds: float, answered: list[str]) -> None:
    lab = RecordingProcess()

    async def story() -> None:
        answers = await lab.records.write([lab.due("slow", takes=9.0)], patience_seconds=patience_seconds)
        assert names(answers) == answered

    lab.run(story)
