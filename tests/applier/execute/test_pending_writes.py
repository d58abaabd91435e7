"""Writes that take long or are put off: who waits for them, how long, and what becomes of them. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial

import pytest

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.errors import ClusterError, Denied, Unavailable, WriteInFlight
from applier.execute.pending_writes import (
    FAILED_AFTER_SECONDS,
    FIRST_RETRY_SECONDS,
    MAX_RETRY_SECONDS,
    PendingAction,
    PendingWrites,
    WriteBatch,
)
from applier.execute.results import Answer, Result
from renderer.identity import ObjectKey
from tests.support.clock import VirtualLoop

SET = ObjectKey("", "ConfigMap", "default", "set")


def key(name: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "default", name)


@dataclass
class WritingProcess:
    """One process; `tries` are the times at which each object was written, `heard` (`worth` another look or not) and `again` what it was told."""

    tries: dict[str, list[float]] = field(default_factory=dict)
    worth: bool = True
    heard: list[str] = field(default_factory=list)
    again: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = VirtualLoop()
        self.underway = PendingWrites(self._heard, lambda _, seconds: self.again.append(seconds))

    def _heard(self, answer: Answer) -> bool:
        self.heard.append(answer[1].key.name)
        return self.worth

    def run(self, story: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            self.loop.run_until_complete(story())
        finally:
            self.loop.close()

    def batch(self, *, insists: bool = False) -> WriteBatch:
        return WriteBatch(self.underway, asyncio.sleep, insists)

    def act(self, batch: WriteBatch, name: str, takes: float = 0.0, *errors: Exception) -> PendingAction:
        """A write that takes so long, and fails with these at first."""
        pending = list(errors)

        async def write() -> Object | None:
            self.tries.setdefault(name, []).append(round(self.loop.time(), 3))
            await asyncio.sleep(takes)
            if pending:
                raise pending.pop(0)
            return {"metadata": {"name": name}}

        return PendingAction(key(name), partial(batch.attempt, Result(SET, key(name), "created"), write))

    async def put_off(self, error: Unavailable) -> ClusterError:
        """What a pass tells of a write that is answered so."""
        batch = self.batch()
        (refused,) = [
            *await batch.start_and_collect([self.act(batch, "one", 0.0, error)]),
            *await batch.collect_remaining(),
        ]
        batch.abandon()
        assert refused[1].error is not None
        return refused[1].error


def names(answers: list[Answer]) -> list[str]:
    return sorted(result.key.name for _, result in answers)


def busy(seconds: float | None = None) -> Unavailable:
    return Unavailable("too many", status=429, retry_after=seconds, is_transient=True)


def test_a_round_does_not_wait_for_a_write_that_takes_long() -> None:
    """I9: what is answered is taken, the rest is being written, and nothing is begun for it again."""
    lab = WritingProcess()

    async def story() -> None:
        batch = lab.batch()
        acts = [lab.act(batch, "slow", 20), *(lab.act(batch, f"quick{number}", 0.02) for number in range(3))]
        assert names(await batch.start_and_collect(acts)) == ["quick0", "quick1", "quick2"]
        assert lab.loop.time() < 0.2
        assert [type(error) for error in lab.underway.unanswered_writes.values()] == [WriteInFlight]
        assert await batch.collect_remaining() == []
        batch.abandon()
        assert lab.underway.blocked_objects().keys() == {key("slow")}
        await asyncio.sleep(30)
        assert (lab.heard, lab.again) == (["slow"], [0.0])
        assert lab.underway.blocked_objects() == {}

    lab.run(story)


def test_who_insists_waits_for_all() -> None:
    lab = WritingProcess()

    async def story() -> None:
        batch = lab.batch(insists=True)
        acts = [lab.act(batch, "slow", 20), lab.act(batch, "put-off", 0.02, *[busy()] * 3), lab.act(batch, "quick")]
        assert names(await batch.start_and_collect(acts)) == ["quick"]
        assert names(await batch.collect_remaining()) == ["put-off"]
        assert lab.tries["put-off"] == [0.0, 0.52, 1.54, 3.56]
        assert names(await batch.collect_remaining()) == ["slow"]
        assert await batch.collect_remaining() == []

    lab.run(story)


@pytest.mark.parametrize(("takes", "found"), [(3, ["second"]), (5, []), (60, [])])
def test_who_takes_long_to_decide_waits_longer_before_he_decides_again(takes: float, found: list[str]) -> None:
    """I9: ten thousand objects are not decided on anew whenever a busy server says nothing for a moment; what hangs is left."""
    lab = WritingProcess()

    async def story() -> None:
        batch = lab.batch()
        assert names(await batch.start_and_collect([lab.act(batch, "first")])) == ["first"]
        await asyncio.sleep(2)  # as it takes to decide
        begun = lab.loop.time()
        assert names(await batch.start_and_collect([lab.act(batch, "second", takes)])) == found
        assert lab.loop.time() - begun == pytest.approx(min(takes, 4), abs=0.01)
        await lab.underway.wait_until_idle()

    lab.run(story)


@pytest.mark.parametrize(("late", "waited"), [(1, 0.4), (5, 2), (9, 3.6)])
def test_the_fewer_are_late_the_shorter_the_others_wait_for_them(late: int, waited: float) -> None:
    """I9: where a thousand take two seconds to decide on, nobody wants to hear of the last five for four."""
    lab = WritingProcess()

    async def story() -> None:
        batch = lab.batch()
        await batch.start_and_collect()
        await asyncio.sleep(2)  # as it takes to decide
        begun = lab.loop.time()
        acts = [lab.act(batch, f"c{number}", 60 if number < late else 0) for number in range(10)]
        assert len(await batch.start_and_collect(acts)) == 10 - late
        assert lab.loop.time() - begun == pytest.approx(waited, abs=0.01)
        await lab.underway.wait_until_idle()

    lab.run(story)


def test_answers_that_come_one_after_the_other_are_all_waited_for() -> None:
    """A server that takes 0.25 s for each is slow, and nobody is late: who has waited for some of them knows."""
    lab = WritingProcess()

    async def story() -> None:
        lock = asyncio.Lock()

        async def one(act: PendingAction) -> Answer:
            async with lock:
                return await act.run()

        async def taken(batch: WriteBatch) -> list[str]:
            acts = [lab.act(batch, f"c{number}", 0.25) for number in range(5)]
            return names(await batch.start_and_collect(PendingAction(act.key, partial(one, act)) for act in acts))

        before = lab.batch(insists=True)
        assert await taken(before) == []
        while await before.collect_remaining():
            pass
        assert await taken(lab.batch()) == [f"c{number}" for number in range(5)]

    lab.run(story)


def test_what_is_put_off_is_left_to_a_later_pass_which_does_not_come_before_the_time() -> None:
    """I11: the server's word counts, and ours grows each time; a pass that is over sends nothing."""
    lab, waits = WritingProcess(), [busy(7), *[busy()] * 12]

    async def story() -> None:
        for error in waits:
            told = await lab.put_off(error)
            seconds = lab.again[-1]
            await asyncio.sleep(seconds - 0.01)
            assert lab.underway.blocked_objects() == {key("one"): told}
            await asyncio.sleep(0.02)
            assert lab.underway.blocked_objects() == {}
        assert lab.again == [7, *(min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2**times) for times in range(1, 13))]
        assert len(lab.tries["one"]) == len(waits)
        batch = lab.batch()
        assert names(await batch.start_and_collect([lab.act(batch, "one")])) == ["one"]
        assert lab.underway.count_tries(key("one")) == 0

    lab.run(story)


@pytest.mark.parametrize("again", [True, False])
def test_what_is_put_off_for_minutes_is_a_failure_and_is_still_tried(again: bool) -> None:
    """A webhook that nobody answers, for one: time alone will not help, and somebody has to be told."""
    lab, silent = WritingProcess(), Unavailable("failed calling webhook", status=500, is_transient=again)

    async def story() -> None:
        told = dict[float, Cause]()
        while (now := lab.loop.time()) < FAILED_AFTER_SECONDS + 2 * MAX_RETRY_SECONDS:
            told[now] = Cause.from_error(await lab.put_off(silent))
            await asyncio.sleep(lab.again[-1])
        assert {one.reason for at, one in told.items() if at < FAILED_AFTER_SECONDS} == {Reason.PROGRESSING}
        assert {one.reason for at, one in told.items() if at >= FAILED_AFTER_SECONDS} == {Reason.APPLY_FAILED}
        assert all(one.message.startswith("failed calling webhook") for one in told.values())
        assert max(lab.again) == MAX_RETRY_SECONDS
        batch = lab.batch()
        assert names(await batch.start_and_collect([lab.act(batch, "one")])) == ["one"]
        assert await lab.put_off(silent) is silent

    lab.run(story)


def test_who_is_in_a_hurry_waits_for_no_time_to_come() -> None:
    """`levelgate reconcile`; what is put off once more waits as long as before, and longer."""
    lab = WritingProcess()

    async def story() -> None:
        for _ in range(3):
            await lab.put_off(busy())
            lab.underway.retry_now()
            assert lab.underway.blocked_objects() == {}
        assert lab.again == [FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS, 4 * FIRST_RETRY_SECONDS]

    lab.run(story)


def test_a_failure_that_nobody_waited_for_is_told_once_to_who_looks_at_its_set() -> None:
    """I12: the next pass says what went wrong."""
    lab = WritingProcess()

    async def story() -> None:
        batch = lab.batch()
        await batch.start_and_collect([lab.act(batch, "slow", 20, Denied("no"))])
        await batch.collect_remaining()
        batch.abandon()
        await asyncio.sleep(30)
        assert lab.underway.blocked_objects({key("other")}) == {}
        assert [str(error) for error in lab.underway.blocked_objects({SET}).values()] == ["no"]
        assert lab.underway.blocked_objects() == {}

    lab.run(story)


@pytest.mark.parametrize("takes", [0.0, 20.0])
def test_what_is_no_failure_of_a_write_ends_the_pass_or_the_next_one(takes: float) -> None:
    lab = WritingProcess()

    async def story() -> None:
        batch = lab.batch()
        act = lab.act(batch, "one", takes, RuntimeError("the lead is lost"))
        if takes:
            await batch.start_and_collect([act])
            batch.abandon()
            await asyncio.sleep(30)
            with pytest.raises(RuntimeError):
                lab.underway.blocked_objects()
            assert lab.underway.blocked_objects() == {}
            return
        with pytest.raises(RuntimeError):
            await batch.start_and_collect([act])

    lab.run(story)


def test_the_end_of_a_process_waits_for_what_was_sent_and_not_for_ever() -> None:
    lab = WritingProcess()

    async def story() -> None:
        batch = lab.batch()
        await batch.start_and_collect([lab.act(batch, "slow", 3), lab.act(batch, "hangs", 300)])
        batch.abandon()
        await lab.underway.close(5)
        assert lab.heard == ["slow"]
        assert lab.loop.time() < 6
        assert lab.underway.unanswered_writes == {}

    lab.run(story)
