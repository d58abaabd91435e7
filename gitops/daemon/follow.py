"""Follow sources: fetch what moved, run passes while they change something, wait for what is in flight, wake by timer and by hint.

A source that cannot be fetched keeps its last good catalog; one that was never fetched is left out, which touches nothing of it. Servers are
asked for the sources that are due, each server once for all of these.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from applier.errors import ClusterError, StaleWrite
from applier.plan import SetPlan
from applier.reasons import Reason
from applier.results import Result
from gitops.clock import Clock, any_of
from gitops.compose import SourceConfig
from gitops.daemon.attention import Attention
from gitops.daemon.fetching import Fetcher
from gitops.daemon.work import Key, Work, Workers
from gitops.daemon.workqueue import CHANGE, RESYNC, WorkQueue
from gitops.errors import SourceError
from gitops.passes.accounts import Account
from gitops.passes.interests import Roots, root_in
from gitops.passes.known import Pass
from gitops.passes.parts import Wider, admitted
from gitops.passes.reconcile import Reconciler
from gitops.passes.sources import SourceState, revisions_of
from gitops.source import Mirror
from gitops.stages import Stage, untold
from renderer.identity import ObjectKey, source_parent

T = TypeVar("T")

FIRST_LOOK = 0.05
"""Seconds before the first look at what is in flight; each look without a change waits twice as long, up to `LAST_LOOK`."""

LAST_LOOK = 5.0
LAST_LOOK_WATCHED = 60.0
"""The same where a watch tells when something has come further."""

LONGEST_REST = 5.0
"""Seconds between two passes that change nothing, however long they take."""

FIRST_ANSWERS = 5.0
"""Seconds that the first pass waits for all servers; what comes later is taken up by another one."""

SHORTEST_SLEEP = 0.001
"""Seconds; a clock may be coarser than what is due."""

TOLD_AFTER = 1.0
"""Seconds after which the records of sources and rollouts follow passes over parts, so that many are told at once."""

SURVEYED_AFTER = 5.0
"""Seconds after which those that wait in a rollout hear how far it has come, where passes over some instances moved it on: by a whole pass, at least
`SURVEY_SHARE` times as long as one takes after the last one.
"""

SURVEY_SHARE = 10

LAST_ANSWERS = 5.0
"""Seconds that the end of the process waits for writes that the server has not answered."""

MAX_PASSES = 500
"""`once` gives up after so many passes: somebody else changes back what it writes."""


@dataclass
class Follower:
    """The sources of one cluster; `configs` is what the configuration says of them, where it says more than where they are.

    `notice` hears of commits and of what cannot be read, `passed` of every pass, and `wake_at` of when the next one is due although nothing else
    happens (None: never). `attention` watches what passes rest on, `stage` hears of what is asked of Git. At most `max_concurrent` passes over
    instances run side by side; `queue` is what they take their work from, `workers` who does it. `elapsed` gives the seconds of a clock that never
    goes back. Once `stop` is set the rounds under way are finished and no other begins.
    """

    mirrors: Mapping[str, Mirror]
    reconciler: Reconciler
    clock: Clock
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    notice: Callable[[str, str], None] = lambda _source, _text: None
    passed: Callable[[Pass], None] = lambda _: None
    wake_at: Callable[[datetime | None], None] = lambda _: None
    configs: Mapping[str, SourceConfig] = field(default_factory=dict)
    attention: Attention | None = None
    stage: Stage = untold
    max_concurrent: int = 1
    elapsed: Callable[[], float] = time.monotonic
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _polling: set[asyncio.Task[None]] = field(default_factory=set)
    _looks: dict[Key, float] = field(default_factory=dict)
    _trouble: float = 0.0
    _rests_until: float = 0.0
    _surveyed_after: float = SURVEYED_AFTER
    _stopped: str = ""
    _stays: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def notice(source: str, text: str) -> None:
            self.notice(source, text)

        self._everything = Key(self.reconciler.cluster.name, Work.EVERYTHING)
        self._rollouts = Key(self.reconciler.cluster.name, Work.ROLLOUTS)
        self._records = Key(self.reconciler.cluster.name, Work.RECORDS)
        self.queue = WorkQueue[Key](lambda key: key.cluster, self._wake.set, self.elapsed)
        self.workers = Workers(self.queue, self._work, self._wake.set, limit=self.max_concurrent)
        self._fetcher = Fetcher(self.mirrors, self.configs, self.reconciler.cluster, self.clock, notice, self.stage)

    def configure(self, mirrors: Mapping[str, Mirror], configs: Mapping[str, SourceConfig]) -> None:
        """Follow these from the next pass on. A source that is not among them is left out, which touches nothing of it; one with another mirror
        than before is read anew, and keeps what was read of it until that succeeds.
        """
        self.poll(*self._fetcher.configure(mirrors, configs))
        self.mirrors, self.configs = mirrors, configs
        self.reconciler.follows = mirrors.keys()

    def poll(self, *names: str) -> None:
        """Ask the servers soon where these sources stand. What cannot be watched is looked at, too."""
        self._fetcher.ask(names)
        if self.attention is not None and self.attention.is_blind:
            self.hint()
        self._wake.set()

    async def fetch(self) -> list[SourceState]:
        """The newest readable state of every source, in the order of their names; who is not due is not asked for."""
        return await self._fetcher.fetch()

    @property
    def errors(self) -> Mapping[str, SourceError]:
        """Why sources could not be read at the last fetch, by their names."""
        return dict(self._fetcher.errors)

    @property
    def unread(self) -> list[str]:
        """Sources of which nothing has been read since the start."""
        return self._fetcher.unread

    async def once(
        self, *, wait: timedelta, insist: Callable[[SourceState], Coroutine[None, None, None]] | None = None
    ) -> Pass:
        """Passes until another would find nothing more and nothing is in flight, or until that has lasted for `wait`. All sources are asked, once.

        `insist` raises where a source may not be worked on as it is now.
        """
        self.poll(*self.mirrors)
        states = await self.fetch()
        if insist:
            for state in states:
                await insist(state)
        waited, delay = 0.0, FIRST_LOOK
        for _ in range(MAX_PASSES):
            found = self._told(await self.reconciler.reconcile(states))
            is_final = found.is_conclusive or not found.changed
            if is_final and not any(map(in_flight, found.plan.sets)):
                return found
            if found.changed:
                waited, delay = 0.0, FIRST_LOOK
            elif waited >= wait.total_seconds():
                return found
            if self.stop.is_set():
                return found
            delay = min(delay, self._seconds_until(found.plan.turns_at))
            await any_of(self.clock.sleep(delay), self.stop.wait())
            waited += delay
            delay = min(delay * 2, LAST_LOOK, max(FIRST_LOOK, wait.total_seconds() - waited))
        return found

    def hint(self) -> None:
        """Look at everything soon: something has changed, or may have."""
        self.wake(None)

    def wake(self, roots: Roots, priority: int = CHANGE) -> None:
        """Look at these objects of sources, or (None) at everything: at most half of the time goes into whole passes that change nothing."""
        if roots is None:
            self.queue.add_after(self._everything, self._rests_until - self.elapsed(), priority)
        for root in sorted(roots or ()):
            self.queue.add(self._key(root), priority)

    async def forever(self) -> None:
        """A whole pass at the start and at every hint; passes over the objects that an event or a commit touches, and over those that are on
        their way, until `stop` is set. All sources are asked at the start, after that those that `poll` names.
        """
        self.reconciler.leave_open(self._again, lambda _: self.wake(None))
        self.reconciler.follows = self.mirrors.keys()
        try:
            await any_of(self._first_answers(), self.stop.wait())
            if self.attention is not None:
                await any_of(self.attention.expect(self._fetcher.states), self.stop.wait())
            self._fetcher.has_moved = False
            self.wake(None, RESYNC)
            while not self.stop.is_set():
                self._wake.clear()
                self._look_at_sources()
                self.workers.start()
                if not self._wake.is_set():
                    due = self.queue.next_due
                    timer = () if due is None else (self.clock.sleep(max(SHORTEST_SLEEP, due - self.elapsed())),)
                    await any_of(self._wake.wait(), self.stop.wait(), *timer)
            self._ask_no_more()
            await self.workers.end()
            await self.reconciler.end(LAST_ANSWERS)
        finally:
            self._ask_no_more()
            await self.workers.cancel()
            await self.reconciler.end(0.0)

    async def _first_answers(self) -> None:
        """All servers are asked; who does not answer soon keeps the others waiting no longer."""
        self.poll(*self.mirrors)
        self._look_at_sources()
        if self._polling:
            await asyncio.wait(self._polling, timeout=FIRST_ANSWERS)
            await asyncio.wait([self._begin(self._fetcher.go_on())], timeout=FIRST_ANSWERS)

    def _ask_no_more(self) -> None:
        for asking in self._polling:
            asking.cancel()

    async def idle(self) -> None:
        """Until what is under way now is over, passes and writes; others may have begun meanwhile."""
        await self.workers.idle()
        await self.reconciler.idle()

    def _look_at_sources(self) -> None:
        """Servers are asked while passes go on; what has moved is taken up as soon as its server has answered."""
        for asking in [one for one in self._polling if one.done()]:
            self._polling.remove(asking)
            asking.result()
        if self._fetcher.has_moved:
            self._fetcher.has_moved = False
            self._moved()
        for due in self._fetcher.begin():
            self._begin(due)

    def _begin(self, asking: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(asking, name="ask for sources")
        task.add_done_callback(lambda _: self._wake.set())
        self._polling.add(task)
        return task

    def _moved(self) -> None:
        touched = self.reconciler.accept(self._fetcher.states)
        if isinstance(touched, Wider):
            self.wake(None)
        else:
            self.wake(touched)
            self._tell_soon()

    async def _work(self, keys: Sequence[Key]) -> None:
        """Whatever goes wrong with the cluster is tried again; only what ends the process is raised."""
        try:
            match keys[0].work:
                case Work.EVERYTHING:
                    await self._whole()
                case Work.ROLLOUTS:
                    await self._grant()
                case Work.RECORDS:
                    await self._tell()
                case Work.PART:
                    await self._part(keys)
        except ClusterError as error:
            self.notice("cluster", f"{error}; trying again")
            for key in keys:
                self.queue.add_rate_limited(key)
        for result, seconds in self.reconciler.pending:  # an earlier look has taken the place of the one in its time
            self._again(result, seconds)

    async def _whole(self) -> None:
        begun = self.elapsed()
        try:
            found = await self._watched(self.reconciler.reconcile(self._fetcher.states), None)
        except ClusterError as error:
            self.notice("cluster", f"{error}; trying again")
            self._trouble = min(max(self._trouble * 2, 1.0), 60.0)
            self.queue.add_after(self._everything, self._trouble)
            return
        self._trouble = 0.0
        lasted = self.elapsed() - begun
        self._surveyed_after = max(SURVEYED_AFTER, SURVEY_SHARE * lasted)
        if not found.changed:
            self._rests_until = self.elapsed() + min(lasted, LONGEST_REST)
        share = self.reconciler.share
        due = [one.plan for one in found.ledger.restless() if share.has(one.plan.source)]
        on_its_way = in_flight if self._is_blind else of_itself(found.bundle.instances)
        refused = self.reconciler.refused
        waiting = {
            self._key_of(found, one)
            for one in due
            if on_its_way(one) or failing(one) - refused.get(one.rendered.parent, {}).keys()
        }
        for key in self._looks.keys() - waiting:
            del self._looks[key]
        self._look_again(self._everything, changed=bool(found.changed), waiting=self._everything in waiting)
        if not found.changed:
            for key in sorted(waiting - {self._everything}):
                self._look_again(key, changed=False, waiting=True)
        for one in due:
            if moment := _later(one, refused):
                self.queue.add_after(self._key_of(found, one), self._seconds_until(moment))
        self._tell_soon()

    async def _part(self, keys: Sequence[Key]) -> None:
        roots = [key.root for key in keys if key.root]
        found = await self._watched(self.reconciler.part(roots), roots)
        if isinstance(found, Wider):
            self.wake(None)
            return
        refused = self.reconciler.refused
        failed = {
            key
            for one in found.sets
            if failing(one) - refused.get(one.rendered.parent, {}).keys()
            for key in self._keys_in(found, one, keys)
        }
        waiting = {key for one in found.sets if in_flight(one) for key in self._keys_in(found, one, keys)}
        for key in keys:
            if key in failed and not found.changed:
                self.queue.add_rate_limited(key)
                continue
            self.queue.forget(key)
            self._look_again(key, changed=bool(found.changed), waiting=key in waiting)
        for one in found.sets:
            if moment := _later(one, refused):
                for key in self._keys_in(found, one, keys):
                    self.queue.add_after(key, self._seconds_until(moment))
        if self.reconciler.whole and self.reconciler.whole.moved:
            self.queue.add(self._rollouts)
        self._tell_soon()

    async def _grant(self) -> None:
        """Who may move is worked on at once."""
        found = await self._attended(self.reconciler.grant(), None)
        self.wake(None if isinstance(found, Wider) else found)
        if self.reconciler.whole and self.reconciler.whole.is_outdated:
            self.queue.add_after(self._everything, self._surveyed_after, RESYNC)

    async def _tell(self) -> None:
        """What a person wrote meanwhile is for a whole pass to hear."""
        try:
            await self._attended(self.reconciler.tell(), None)
        except StaleWrite:
            self.wake(None)

    async def _attended(self, work: Coroutine[None, None, T], roots: Roots) -> T:
        """Do it, while attention is paid to what is its own doing."""
        found: T | None = None
        if self.attention is not None:
            self.attention.before(roots)
        try:
            found = await work
        finally:
            if self.attention is not None:
                await self.attention.after(found if isinstance(found, Pass) else None, roots)
        return found

    async def _watched(self, work: Coroutine[None, None, T], roots: Roots) -> T:
        """A pass, and what is told of it."""
        found = await self._attended(work, roots)
        if isinstance(found, Pass):
            self._told(found)
            self.wake_at(min(filter(None, (found.propagation.wake_at, self._fetcher.wake_at)), default=None))
        return found

    def _look_again(self, key: Key, *, changed: bool, waiting: bool) -> None:
        """At what changed soon, at what is on its way more and more rarely, at nothing else."""
        if changed or waiting:
            before = self._looks.get(key, FIRST_LOOK)
            self._looks[key] = FIRST_LOOK if changed else min(before * 2, self._last_look)
            self.queue.add_after(key, self._looks[key])
        else:
            self._looks.pop(key, None)

    def _seconds_until(self, moment: datetime | None) -> float:
        return max(SHORTEST_SLEEP, (moment - self.clock.now()).total_seconds()) if moment else math.inf

    def _tell_soon(self) -> None:
        whole = self.reconciler.whole
        if whole is not None and whole.is_untold and not whole.due:
            self.queue.add_after(self._records, TOLD_AFTER)

    def _again(self, result: Result, seconds: float) -> None:
        """A write was answered after its pass was over, or may be tried again then; a pass over everything is asked for that at its end."""
        whole = self.reconciler.whole
        if seconds and whole is None and self._everything in self.queue.held:
            return
        if whole and result.is_concluding and result.key in map(source_parent, revisions_of(whole.sources)):
            whole.is_untold = True
            self.queue.add_after(self._records, max(seconds, TOLD_AFTER))
            return
        key = self._key(whole.root_of(result.set) or result.key) if whole else self._everything
        self.queue.add_after(key, seconds)

    def _key(self, root: ObjectKey) -> Key:
        return Key(self.reconciler.cluster.name, Work.PART, root)

    def _keys_in(self, found: Pass, one: SetPlan, keys: Sequence[Key]) -> Sequence[Key]:
        """Whose keys a set is that a part has looked at: that of its instance; of a source, those of its plain objects."""
        if one.rendered.is_source:
            return [key for key in keys if key.root not in found.bundle.instances]
        return [self._key_of(found, one)]

    def _key_of(self, found: Pass, one: SetPlan) -> Key:
        """Who looks at a set of a whole pass again: its instance, if a pass over that may be enough."""
        root, whole = root_in(found.bundle, one.rendered.parent), self.reconciler.whole
        if root is None or whole is None or isinstance(admitted(whole, [root]), Wider):
            return self._everything
        return self._key(root)

    @property
    def _last_look(self) -> float:
        """What is watched tells itself when it has come further."""
        return LAST_LOOK if self._is_blind else LAST_LOOK_WATCHED

    @property
    def _is_blind(self) -> bool:
        return self.attention is None or self.attention.is_blind

    def _told(self, found: Pass) -> Pass:
        """Tell how a pass ended, when a person has stopped everything or lets it go on, and why nothing of a source is written."""
        stopped = found.propagation.stopped.message if found.propagation.stopped else ""
        if stopped != self._stopped:
            self.notice("cluster", stopped or "no longer suspended")
        self._stopped = stopped
        sources = [one.rendered.source for one in found.sets if one.rendered.is_source]
        stays = {
            one.rendered.source: one.error.message
            for one in found.sets
            if one.rendered.is_source and one.error and not (stopped or one.error.reason.is_hold)
        }
        if found.touched is not None:
            stays |= {source: why for source, why in self._stays.items() if source not in sources}
        for source, why in stays.items():
            if self._stays.get(source) != why:
                self.notice(source, why)
        self._stays = stays
        for name in found.miscounted:
            self.notice("cluster", f"rollout {name} was counted wrong and has been counted anew; please report this")
        if due := self._fetcher.heard(found):
            self._fetcher.ask(due)
            self._wake.set()
        self.passed(found)
        return found


def failing(one: SetPlan) -> frozenset[ObjectKey]:
    """What the cluster has refused and may accept later, such as a write beyond a quota."""
    causes = [
        (one.rendered.parent, one.stuck),
        *((plan.node.key, plan.blocked) for plan in one.nodes),
        *((orphan.member.key, orphan.blocked) for orphan in one.orphans),
    ]
    return frozenset(key for key, cause in causes if key and cause and cause.reason is Reason.APPLY_FAILED)


def _later(one: SetPlan, refused: Mapping[ObjectKey, Mapping[ObjectKey, datetime]]) -> datetime | None:
    """When an age makes a difference to a set, or what was refused of it is tried again; None: never."""
    tries = refused.get(one.rendered.parent, {}).values()
    return min(filter(None, (one.turns_at, *tries)), default=None)


def of_itself(instances: Collection[ObjectKey]) -> Callable[[SetPlan], bool]:
    """Is a set in flight whoever else is? Then it is to be looked at again. Who waits for its turn in a rollout goes on when others have come
    further, and of an instance its own set tells more than that of its source.
    """

    def found(one: SetPlan) -> bool:
        nodes = one.nodes
        if one.rendered.is_source and one.parent:
            nodes = tuple(node for node in nodes if node.node.key not in instances)
        return in_flight(replace(one, nodes=nodes, stays=None))

    return found


def in_flight(one: SetPlan) -> bool:
    """Is something on its way that time alone will bring, or that only a fresh look can tell?"""
    return Account.of(one).is_on_its_way or any(orphan.allowed or orphan.member.terminating for orphan in one.orphans)
