"""Reads that take long: who waits for them, how long, and what becomes of them. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import pytest

from applier.cluster import Object
from applier.errors import Denied, Unavailable
from applier.read.pending_reads import (
    MAX_ANSWER_TIMEOUT_SECONDS,
    MAX_SILENT_REQUESTS,
    MIN_ANSWER_TIMEOUT_SECONDS,
    PendingReads,
)
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey
from tests.support.clock import VirtualLoop
from tests.support.properties.cluster import WitnessedCluster

WIDGET, CONFIG_MAP = GroupKind("example.com", "Widget"), GroupKind("", "ConfigMap")


@dataclass
class Slow(WitnessedCluster):
    """`takes` are the seconds until questions about a kind are answered, one after the other, and `says` what its server says then."""

    takes: dict[GroupKind, list[float]] = field(default_factory=dict)
    says: list[Exception] = field(default_factory=list)
    asked: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        await self._answered(key.group_kind)
        return None

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> list[Object]:
        await self._answered(kind)
        return [{"kind": kind.kind, "number": len(self.asked)}]

    async def _answered(self, kind: GroupKind) -> None:
        self.asked.append((round(asyncio.get_running_loop().time(), 3), kind.kind))
        left = self.takes.get(kind, [])
        await asyncio.sleep(left.pop(0) if left else 0.01)
        if kind == WIDGET and self.says:
            raise self.says.pop(0)


@dataclass
class ReadingProcess:
    """`heard` are the times at which a kind answered again; since `written` something was written of every kind."""

    cluster: Slow = field(default_factory=Slow)
    heard: list[float] = field(default_factory=list)
    written: float | None = None

    def __post_init__(self) -> None:
        self.loop = VirtualLoop()
        self.reads = PendingReads(
            self.cluster,
            lambda: False,
            lambda _, since: self.written is not None and self.written >= since,
            lambda _: self.heard.append(round(self.loop.time(), 2)),
        )

    def run(self, story: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            self.loop.run_until_complete(story())
            self.loop.run_until_complete(self.reads.close())
        finally:
            self.loop.close()

    async def silent(self, kind: GroupKind = WIDGET) -> float:
        """Seconds until it was told that the kind cannot be read."""
        begun = self.loop.time()
        with pytest.raises(Unavailable):
            await self.reads.list(kind)
        return round(self.loop.time() - begun, 2)

    def lists(self, kind: GroupKind = WIDGET) -> list[float]:
        return [at for at, name in self.cluster.asked if name == kind.kind]


def test_a_kind_that_never_answers_keeps_nobody_waiting_but_once() -> None:
    """I9: the others are read, later questions about the kind cost nothing, and it is asked no second time meanwhile."""
    lab = ReadingProcess(Slow(takes={WIDGET: [1e6]}))

    async def story() -> None:
        others = asyncio.gather(*(lab.reads.list(CONFIG_MAP) for _ in range(5)))
        silent, found = await asyncio.gather(lab.silent(), others)
        assert silent < MIN_ANSWER_TIMEOUT_SECONDS + 0.1
        assert len(found) == 5
        assert await lab.silent() == 0
        with pytest.raises(Unavailable, match=r"list Widget\.example\.com: the server has not answered yet"):
            await lab.reads.get(ObjectKey(*WIDGET, "default", "w"))
        assert len(lab.lists()) == 1

    lab.run(story)


def test_a_kind_that_is_overtaken_is_waited_for_no_longer() -> None:
    """I9: passes over parts go on reading meanwhile, and are no sign that it will answer."""
    lab = ReadingProcess(Slow(takes={WIDGET: [1e6]}))

    async def parts() -> None:
        while True:
            await lab.reads.list(CONFIG_MAP)
            await asyncio.sleep(0.5)

    async def story() -> None:
        others = asyncio.ensure_future(parts())
        assert await lab.silent() < 3 * MIN_ANSWER_TIMEOUT_SECONDS
        others.cancel()

    lab.run(story)


def test_the_last_of_many_that_are_answered_one_after_the_other_is_waited_for() -> None:
    """A start with many kinds, or a server that is slow: nobody is late."""
    lab, lock = ReadingProcess(), asyncio.Lock()

    async def in_turn(_: GroupKind) -> None:
        async with lock:
            await asyncio.sleep(1)

    async def story() -> None:
        lab.cluster._answered = in_turn  # type: ignore[method-assign, assignment]
        await asyncio.gather(*(lab.reads.list(GroupKind("", f"Kind{number}")) for number in range(30)))
        assert lab.loop.time() == 30

    lab.run(story)


def test_an_answer_that_comes_late_is_told_to_who_asks_next_and_the_one_after_asks_anew() -> None:
    """I9: so a kind that always takes long is read all the same."""
    lab = ReadingProcess(Slow(takes={WIDGET: [25, 25, 0.01]}))

    async def story() -> None:
        await lab.silent()
        await asyncio.sleep(30)
        assert lab.heard == [25]
        assert await lab.reads.list(WIDGET) == [{"kind": "Widget", "number": 1}]
        assert await lab.silent() == MIN_ANSWER_TIMEOUT_SECONDS
        await asyncio.sleep(30)
        assert await lab.reads.list(WIDGET) == [{"kind": "Widget", "number": 2}]
        assert await lab.reads.list(WIDGET) == [{"kind": "Widget", "number": 3}]

    lab.run(story)


@pytest.mark.parametrize("selector", ["", "other"])
def test_a_late_answer_to_another_question_or_from_before_a_write_counts_for_nothing(selector: str) -> None:
    """I2, I4: stale reads never decide a deletion."""
    lab = ReadingProcess(Slow(takes={WIDGET: [25]}))

    async def story() -> None:
        await lab.silent()
        lab.written = None if selector else 0.0
        await asyncio.sleep(30)
        assert await lab.reads.list(WIDGET, selector=selector) == [{"kind": "Widget", "number": 2}]

    lab.run(story)


def test_what_fails_while_nobody_waits_is_asked_again_ever_more_rarely() -> None:
    """I11; and it is said why it cannot be read."""
    lab = ReadingProcess(Slow(takes={WIDGET: [5]}, says=[Unavailable("the service is down")] * 3))

    async def story() -> None:
        await lab.silent()
        await asyncio.sleep(5)
        with pytest.raises(Unavailable, match="the service is down"):
            await lab.reads.list(WIDGET)
        assert lab.heard == []
        await asyncio.sleep(30)
        assert lab.lists() == [0, 6, 8.01, 12.02]
        assert lab.heard == [12.03]
        assert await lab.reads.list(WIDGET) == [{"kind": "Widget", "number": 4}]

    lab.run(story)


def test_a_refusal_that_comes_late_is_an_answer() -> None:
    lab = ReadingProcess(Slow(takes={WIDGET: [5]}, says=[Denied("no right to list")]))

    async def story() -> None:
        await lab.silent()
        await asyncio.sleep(5)
        with pytest.raises(Denied):
            await lab.reads.list(WIDGET)
        assert await lab.reads.list(WIDGET)

    lab.run(story)


def test_what_lately_took_long_is_waited_for() -> None:
    """A large kind that takes seconds each time is read by every pass; one that takes longer than that teaches nothing."""
    lab = ReadingProcess(Slow(takes={WIDGET: [4, 4, 30], CONFIG_MAP: [1e6]}))

    async def story() -> None:
        await lab.silent()
        await asyncio.sleep(3)
        assert await lab.reads.list(WIDGET)
        assert await lab.reads.list(WIDGET) == [{"kind": "Widget", "number": 2}]
        assert await lab.silent() == MAX_ANSWER_TIMEOUT_SECONDS
        await asyncio.sleep(30)
        for _ in range(50):
            await lab.reads.list(GroupKind("", "Secret"))
        assert await lab.silent(CONFIG_MAP) == MIN_ANSWER_TIMEOUT_SECONDS

    lab.run(story)


def test_our_own_records_are_waited_for() -> None:
    """Without them nothing can be decided; and other objects of their kind may be as slow as they like."""
    lab = ReadingProcess(Slow(takes={CONFIG_MAP: [1e6, 40, 40]}))

    async def story() -> None:
        await lab.silent(CONFIG_MAP)
        assert await lab.reads.list(CONFIG_MAP, OWN_NAMESPACE)
        assert await lab.reads.get(ObjectKey(*CONFIG_MAP, OWN_NAMESPACE, "source-platform")) is None
        assert lab.loop.time() > 80

    lab.run(story)


def test_who_insists_waits_for_all() -> None:
    lab = ReadingProcess(Slow(takes={WIDGET: [40]}))
    lab.reads.waits_for_responses = lambda: True

    async def story() -> None:
        assert await lab.reads.list(WIDGET)

    lab.run(story)
    assert lab.lists() == [0]


def test_many_kinds_that_do_not_answer_are_asked_a_few_at_a_time() -> None:
    """I9: all those of an API server of their own, say, do not take the places of what answers; each has its turn, and is heard."""
    kinds = [GroupKind("example.com", f"Widget{number}") for number in range(10)]
    lab = ReadingProcess(Slow(takes={kind: [30, 0.1] for kind in kinds}))

    def in_flight() -> int:
        coroutines = [task.get_coro() for task in asyncio.all_tasks()]
        return sum(getattr(one, "__name__", "") == "list" for one in coroutines)

    async def story() -> None:
        await asyncio.gather(*map(lab.silent, kinds))
        await asyncio.sleep(1)
        assert in_flight() == MAX_SILENT_REQUESTS
        await asyncio.sleep(30)
        assert len(lab.heard) == len(kinds)

    lab.run(story)


def test_a_pass_that_is_broken_off_asks_no_more() -> None:
    lab = ReadingProcess(Slow(takes={WIDGET: [1e6, 1e6]}))

    async def story() -> None:
        asking = asyncio.ensure_future(lab.reads.list(WIDGET))
        await asyncio.sleep(0.1)
        asking.cancel()
        await asyncio.wait([asking])
        await lab.silent()
        await lab.reads.close()
        assert [one for one in asyncio.all_tasks() if one is not asyncio.current_task()] == []
        assert lab.heard == []

    lab.run(story)
