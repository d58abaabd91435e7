"""Following sources with a clock of its own: how long `once` waits, when `forever` wakes, what a source that fails costs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest

from applier.causes import Cause, Reason
from applier.cluster import parse_cluster_name
from applier.errors import Unavailable
from applier.execute.results import Result
from gitops.daemon.fleet import Fleet
from gitops.daemon.follower import Follower
from gitops.daemon.git_servers import MAX_THREADS_PER_REPOSITORY
from gitops.daemon.workers import ALONE, QueueKey, Workers, WorkKind
from gitops.daemon.workqueue import WorkQueue
from gitops.decisions.decision import Decision
from gitops.errors import Unreachable
from gitops.fleet.fleet_recorder import FleetRecorder
from gitops.fleet.projections import FleetProjections
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.requeue import FIRST_LOOK, LAST_LOOK
from gitops.reconcile.sources import SourceState
from gitops.reconcile.tally import StateCounts
from gitops.records.installation import INSTALLATION
from gitops.rollouts.source_rules import StoredRules
from gitops.source import SourceTarget, Tip
from renderer.catalog.catalog import Catalog
from renderer.identity import ObjectKey, source_parent
from tests.support.cluster.waiting import until
from tests.support.follower import KEY, IdleReconciler, ListedMirror, found


class VirtualClock:
    """Sleeping takes no time; `slept` says how long it would have."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 11, 20, tzinfo=UTC)

    def elapsed(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@dataclass
class Script(IdleReconciler):
    """Answers passes one after the other, the last one for ever."""

    answers: list[ReconcileResult | Exception]
    asked: list[Sequence[SourceState]] = field(default_factory=list)

    async def reconcile(self, sources: Sequence[SourceState]) -> ReconcileResult:
        self.asked.append(list(sources))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def has_run(self, passes: int) -> bool:
        return len(self.asked) == passes

    def is_at(self, commit: str) -> bool:
        return self.asked[-1][-1].catalog.commit == commit


class Silent:
    """A mirror that cannot be reached, and says so a little differently each time."""

    server, ref_names, target = "https://x", ("HEAD",), SourceTarget("https://x.example.com/x.git")
    repository = server
    credential_states: tuple[object, ...] = ()
    asked = 0

    def list_refs(self, *_names: str) -> dict[str, str]:
        self.asked += 1
        raise Unreachable("https://x", f"no answer for {self.asked} ms")


def follower(
    *answers: ReconcileResult | Exception, mirrors: dict[str, Any] | None = None
) -> tuple[Follower, Script, VirtualClock]:
    script, clock = Script(list(answers)), VirtualClock()
    return Follower(mirrors or {}, cast(Reconciler, script), clock, elapsed=clock.elapsed), script, clock


def and_then(before: ReconcileResult, result: Result) -> ReconcileResult:
    return replace(before, results=(*before.results, result))


async def test_once_ends_at_the_first_pass_that_changes_nothing_with_nothing_in_flight() -> None:
    """Templates may read the status of an instance, which is written at the end of a pass; what has failed is tried again."""
    told = and_then(found(changed=True), Result(KEY, KEY, "status"))
    refused = and_then(found(changed=True), Result(KEY, KEY, "created", error=Unavailable("no answer")))
    following, script, clock = follower(told, refused, found())
    await following.run_once(wait=timedelta(0))
    assert len(script.asked) == 3
    assert clock.slept == [FIRST_LOOK, FIRST_LOOK]


async def test_once_does_not_look_again_at_what_a_pass_has_just_read_of_its_own_writes() -> None:
    """Nothing that is decided rests on what the record of a source says of this pass."""
    record, source = source_parent("platform"), SourceState(Catalog(source="platform"))
    last = and_then(replace(found(changed=True), sources=(source,)), Result(record, record, "status"))
    following, script, _ = follower(last)
    await following.run_once(wait=timedelta(seconds=30))
    assert len(script.asked) == 1


async def test_once_looks_again_after_a_pass_that_held_its_deletions() -> None:
    """The pass that finds the members of a lost record again deletes none; the next one does."""
    following, script, _ = follower(replace(found(changed=True), holds_pruning=True), found())
    await following.run_once(wait=timedelta(0))
    assert len(script.asked) == 2


async def test_once_waits_for_what_is_in_flight_ever_longer_and_then_gives_up() -> None:
    """`--wait`: so long without any change."""
    following, _, clock = follower(found(moving=True))
    last = await following.run_once(wait=timedelta(seconds=30))
    assert last.plan.sets[0].nodes[0].healthy is False
    assert clock.slept[:4] == [FIRST_LOOK, 0.1, 0.2, 0.4]
    assert max(clock.slept) == LAST_LOOK
    assert 30 <= sum(clock.slept) < 30 + LAST_LOOK


async def test_once_without_waiting_ends_at_once() -> None:
    following, script, clock = follower(found(moving=True))
    await following.run_once(wait=timedelta(0))
    assert (len(script.asked), clock.slept) == (1, [])


async def test_a_change_starts_the_waiting_anew() -> None:
    following, _, clock = follower(*[found(moving=True)] * 5, found(changed=True, moving=True), found())
    await following.run_once(wait=timedelta(seconds=2))
    assert clock.slept[5] == FIRST_LOOK


async def test_a_source_that_cannot_be_read_is_told_once_and_left_out() -> None:
    """ "Cannot read" is never "empty"."""
    following, script, _ = follower(found(), mirrors={"platform": Silent()})
    told: list[str] = []
    following.notice = lambda name, text: told.append(f"{name}: {text}")
    await following.run_once(wait=timedelta(0))
    await following.run_once(wait=timedelta(0))
    assert script.asked == [[], []]
    assert told == ["platform: cannot be read: https://x: no answer for 1 ms"]
    assert len(following.errors) == 1


async def test_one_server_is_asked_once_for_all_of_its_sources_that_are_due() -> None:
    log: list[str] = []
    mirrors = {name: ListedMirror(name, log, server) for name, server in (("a", "s"), ("b", "s"), ("c", "t"))}
    following, script, _ = follower(found(), mirrors=mirrors)
    await following.run_once(wait=timedelta(0))
    assert sorted(log) == ["fetch a", "fetch b", "fetch c", "s a b", "t c"]
    assert [state.catalog.source for state in script.asked[0]] == ["a", "b", "c"]
    log.clear()
    following.poll("b")
    assert [state.catalog.source for state in await following.fetch()] == ["a", "b", "c"]
    assert log == ["s b"]


async def test_a_pass_that_only_looks_at_the_cluster_asks_no_server() -> None:
    log: list[str] = []
    following, script, _ = follower(*[found(moving=True)] * 5, found(), mirrors={"a": ListedMirror("a", log)})
    running = asyncio.ensure_future(following.run_forever())
    await until(lambda: len(script.asked) == 6)
    assert log == ["https://x a", "fetch a"]
    following.poll("a")
    await until(lambda: log == ["https://x a", "fetch a", "https://x a"])
    assert len(script.asked) == 6
    await _stopped(following, running)


async def test_a_server_that_hangs_keeps_no_other_source_waiting() -> None:
    """I9, rule 8: commits of the others are read meanwhile, and who hangs is not asked twice at once."""
    log: list[str] = []
    hangs, release = threading.Event(), threading.Event()

    class Hanging(ListedMirror):
        def list_refs(self, *names: str) -> dict[str, str]:
            found = super().list_refs(*names)
            if hangs.is_set():
                release.wait(600)
            return found

    good = ListedMirror("good", log, "t")
    following, script, _ = follower(found(), mirrors={"bad": Hanging("bad", log, "s"), "good": good})
    running = asyncio.ensure_future(following.run_forever())
    await until(lambda: len(script.asked) == 1)
    hangs.set()
    try:
        following.poll("bad", "good")
        await until(lambda: log.count("t good") == 2)
        for commit in ("2" * 40, "3" * 40):
            good.commit = commit
            following.poll("bad", "good")
            await until(partial(script.is_at, commit))
        assert log.count("s bad") == 2
    finally:
        release.set()
    await until(lambda: log.count("s bad") == 3)  # what became due meanwhile
    await _stopped(following, running)


async def test_servers_that_hang_from_the_start_keep_no_other_source_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """I9, S4-14: the first pass goes on without them, and what they say at last is taken up; they do not take all threads."""
    release, loop, passed = threading.Event(), asyncio.get_running_loop(), 0.0
    seconds = loop.time
    monkeypatch.setattr(loop, "time", lambda: seconds() + passed)
    monkeypatch.setattr("gitops.daemon.follower.FIRST_FETCH_TIMEOUT_SECONDS", 3600.0)

    class Hanging(ListedMirror):
        def fetch(self, tip: Tip) -> str:
            release.wait(600)
            return super().fetch(tip)

    log: list[str] = []
    hanging = {f"bad{number}": Hanging(f"bad{number}", log, "s") for number in range(MAX_THREADS_PER_REPOSITORY + 1)}
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MAX_THREADS_PER_REPOSITORY + 1))
    following, script, _ = follower(found(), mirrors={**hanging, "good": ListedMirror("good", log, "t")})
    told: list[str] = []
    following.notice = lambda name, text: told.append(f"{name}: {text}")
    running = asyncio.ensure_future(following.run_forever())
    try:
        await until(lambda: [state.catalog.source for state in following._fetcher.states] == ["good"])
        assert script.asked == []
        passed = 3600.0
        await until(lambda: len(script.asked) == 1)
        assert [state.catalog.source for state in script.asked[0]] == ["good"]
        assert "bad0: not read yet, because its server has not answered; continuing with the other sources" in told
    finally:
        release.set()
    await until(lambda: len(script.asked[-1]) == len(following.mirrors))
    await _stopped(following, running)


async def test_forever_sleeps_until_it_is_woken() -> None:
    following, script, clock = follower(found())
    running = asyncio.ensure_future(following.run_forever())
    for passes in (1, 2, 3):
        await until(partial(script.has_run, passes))
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(script.asked) == passes
        following.reconcile_all()
    await _stopped(following, running)
    assert clock.slept == []


async def test_forever_looks_again_while_something_is_in_flight() -> None:
    begun = and_then(found(changed=True), Result(KEY, KEY, "status"))
    following, script, clock = follower(begun, *[found(moving=True)] * 9, found())
    running = asyncio.ensure_future(following.run_forever())
    await until(lambda: len(script.asked) == 11)
    await _stopped(following, running)
    assert clock.slept[:4] == pytest.approx([FIRST_LOOK, 0.1, 0.2, 0.4])
    assert max(clock.slept) == pytest.approx(LAST_LOOK)


@pytest.mark.parametrize(
    "last",
    [found(changed=True), and_then(found(), Result(INSTALLATION, INSTALLATION, "status"))],
    ids=["content", "the record of the installation"],
)
async def test_a_pass_that_knows_the_outcome_of_its_writes_is_followed_by_none(last: ReconcileResult) -> None:
    following, script, _ = follower(last)
    running = asyncio.ensure_future(following.run_forever())
    await until(lambda: bool(script.asked))
    await following.wait_until_idle()
    assert following.queue.next_due_at is None
    await _stopped(following, running)
    assert len(script.asked) == 1


async def test_forever_outlives_a_cluster_that_does_not_answer() -> None:
    following, script, clock = follower(*[Unavailable("down")] * 8, found())
    told: list[str] = []
    following.notice = lambda name, text: told.append(f"{name}: {text}")
    running = asyncio.ensure_future(following.run_forever())
    await until(lambda: len(script.asked) == 9)
    await _stopped(following, running)
    assert told == ["cluster: down; trying again"] * 8
    assert clock.slept == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0])


@pytest.mark.parametrize("state", [found(), found(moving=True)])
async def test_forever_ends_when_it_is_told_to_stop(state: ReconcileResult) -> None:
    following, script, _ = follower(state)
    running = asyncio.ensure_future(following.run_forever())
    await until(lambda: bool(script.asked))
    await _stopped(following, running)


@pytest.mark.parametrize("alone", sorted(ALONE))
async def test_nothing_is_worked_on_beside_what_is_done_alone(alone: WorkKind) -> None:
    queue = WorkQueue[QueueKey](lambda key: key.cluster, lambda: None, asyncio.get_running_loop().time)
    begun, may_end = list[WorkKind](), asyncio.Event()

    async def work(keys: Sequence[QueueKey]) -> None:
        begun.append(keys[0].work)
        await may_end.wait()

    workers = Workers(queue, work, lambda: None, limit=4)
    for key in (QueueKey(parse_cluster_name("c"), alone), QueueKey(parse_cluster_name("c"), WorkKind.PART, KEY)):
        queue.add(key)
        workers.start()
        await asyncio.sleep(0)
    assert begun == [alone]
    may_end.set()
    for _ in range(2):
        await workers.idle()
        workers.start()
    await workers.idle()
    assert begun == [alone, WorkKind.PART]


def test_a_tally_counts_sets_by_where_they_are() -> None:
    assert str(StateCounts.of_all(found().ledger)).startswith("settled 1, progressing 0, waiting 0, held 0, failed 0")
    assert str(StateCounts.of_all(found(moving=True).ledger)).startswith(
        "settled 0, progressing 1, waiting 0, held 0, failed 0"
    )


async def _stopped(following: Follower, running: asyncio.Future[None]) -> None:
    following.stop.set()
    await asyncio.wait_for(running, 60)


async def test_a_pass_says_when_the_next_one_is_due() -> None:
    """W30: a closed window opens although nothing else happens; whoever follows sets a timer for that."""
    due = datetime(2026, 11, 23, 8, tzinfo=UTC)
    following, _, _ = follower(replace(found(), propagation=Decision(wake_at=due)))
    moments: list[datetime | None] = []

    def told(moment: datetime | None) -> None:
        moments.append(moment)
        following.stop.set()

    following.set_timer = told
    await following.run_forever()
    assert moments == [due]


@pytest.mark.parametrize(
    ("late", "works"),
    [(frozenset({KEY}), WorkKind.PART), (frozenset(), WorkKind.EVERYTHING), (None, WorkKind.EVERYTHING)],
)
def test_whom_alone_a_moment_concerns_is_looked_at_alone(late: frozenset[ObjectKey] | None, works: WorkKind) -> None:
    """As at the end of a bake; everything, where it is nobody in particular."""
    following, script, _ = follower(found())
    script.late = late
    following.on_timer()
    key = following.queue.get()
    assert key
    assert (key.work, key.root) == (works, KEY if late else None)
    assert following.queue.get() is None


async def test_it_tells_once_that_everything_is_suspended_and_once_that_it_goes_on() -> None:
    why = Cause(Reason.SUSPENDED, "everything is suspended: INC-7")
    stopped = replace(found(), propagation=Decision(stopped=why))
    following, _, _ = follower(stopped, stopped, found())
    told: list[tuple[str, str]] = []
    following.notice = lambda source, text: told.append((source, text))
    for _ in range(3):
        await following.run_once(wait=timedelta(0))
    assert told == [("cluster", "everything is suspended: INC-7"), ("cluster", "no longer suspended")]


def test_a_fleet_learns_which_sources_are_not_read_yet() -> None:
    """What the hub has accepted of them stays stored: a restart finds one server silent."""
    following, _, clock = follower(found())
    environment, absent = cast(Any, Recording(FleetRecorder(cast(Any, None), clock, lambda *_: None))), cast(Any, dict)
    accepted: dict[str, StoredRules] = {"apps": {"rules": {}}}
    following.fleet = Fleet(
        environment, FleetProjections("platform", dict(accepted)), observe=absent, served_kinds=dict
    )
    following.configure({"apps": cast(Any, Silent())}, {})
    assert following.fleet.projections.accepted == accepted


@dataclass
class Recording:
    """An environment with nothing but records."""

    recorder: FleetRecorder
