"""Writes that are under way: begun, and not answered yet.

Nobody waits long for one. A pass takes the answers as they come; what is still open when none has come for a while stays open, and others go on.
Of its object it is known only that it is being written: nothing writes it a second time, and nothing starts that depends on it.

What the server puts off (429, 503, no connection) is tried again by the pass that began it, ever more rarely. A pass that ends leaves that to a
later one, which does not try before the time; so only what was sent outlives a pass, and nothing is sent on a decision that no longer stands. A
webhook that does not answer is left to later passes at once. What was put off for minutes is told as failed, and goes on being tried.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import field, replace
from itertools import islice
from typing import NamedTuple

from applier.backoff import AdaptiveTimeout
from applier.cluster import Object
from applier.errors import ClusterError, PostponedTooLong, Unavailable, WriteInFlight
from applier.execute.results import Answer, Result
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

BEGUN = 256
"""So many actions are begun at once; how many requests are in flight is for the cluster to say."""

SHORTEST, LONGEST = 0.1, 1.0
"""Seconds without any answer after which what is still open is left open, by those between answers lately."""

LONGEST_PAUSE = 10.0
"""Seconds without any answer that are waited for at most because it takes long to decide anew."""

FIRST_WAIT, LONGEST_WAIT, BUDGET = 0.5, 60.0, 30.0
"""Seconds: before an object that was put off is tried again, most between two tries, and after which a pass gives it up."""

FAILED_AFTER = 300.0
"""Seconds in which an object was put off at every try; then somebody has to look why. What comes back by itself, a webhook whose Pods are replaced
say, is back sooner.
"""


class PendingAction(NamedTuple):
    """One action on an object, to be begun."""

    key: ObjectKey
    run: Callable[[], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class PostponedWrite:
    """What the server said of an object, since when at every try, and how often; it is not written before `until`. Times are of the event loop."""

    result: Result
    error: ClusterError
    since: float
    until: float
    times: int


@dataclass(eq=False)
class PendingWrites:
    """Of one process and one cluster, for all its passes. `heard` is told of answers that come when no pass waits for them any more, and says whether
    that is worth another look; `again` hears what is, in how many seconds.
    """

    heard: Callable[[Answer], bool] = lambda _: True
    again: Callable[[Result, float], None] = lambda _result, _seconds: None
    _open: Counter[ObjectKey] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _put_off: dict[ObjectKey, PostponedWrite] = field(default_factory=dict)
    _late: dict[ObjectKey, Result] = field(default_factory=dict)
    _written: dict[GroupKind, float] = field(default_factory=dict)
    _broken: BaseException | None = None
    patience: AdaptiveTimeout = field(default_factory=lambda: AdaptiveTimeout(SHORTEST, LONGEST))

    @property
    def unanswered(self) -> dict[ObjectKey, ClusterError]:
        """What is being written."""
        return {key: WriteInFlight(f"{key} is being written; the server has not answered yet") for key in self._open}

    def blocked_objects(self, part: Collection[ObjectKey] | None = None) -> dict[ObjectKey, ClusterError]:
        """What a pass that begins may not write, and why: it is being written, it was put off, or the answer that came late was a failure, which is
        told once. A pass over a `part` tells those of its sets and objects. Raises what ended a late write for good.
        """
        told = [key for key, one in self._late.items() if part is None or one.set in part or key in part]
        late = {key: error for key in told if (error := self._late.pop(key).error)}
        return late | self.waiting

    @property
    def waiting(self) -> dict[ObjectKey, ClusterError]:
        """What is being written or was put off. Raises what ended a late write for good."""
        if broken := self._broken:
            self._broken = None
            raise broken
        now = _now()
        self._put_off = {key: one for key, one in self._put_off.items() if now < one.until + LONGEST_WAIT}
        return {key: one.error for key, one in self._put_off.items() if now < one.until} | self.unanswered

    @property
    def pending(self) -> list[tuple[Result, float]]:
        """What was put off, and in how many seconds it is worth another look."""
        now = _now()
        return [(one.result, one.until - now) for one in self._put_off.values() if now < one.until]

    def tries(self, key: ObjectKey) -> int:
        """How often it was put off."""
        return self._put_off[key].times if key in self._put_off else 0

    def forget(self, key: ObjectKey) -> None:
        """It was answered, whatever the answer is."""
        self._put_off.pop(key, None)

    def put_off(self, result: Result, error: ClusterError, seconds: float, times: int) -> Result:
        """Not to be tried again before so many seconds: what is told of it."""
        now, before = _now(), self._put_off.get(result.key)
        since = before.since if before else now
        if now - since >= FAILED_AFTER:
            error = PostponedTooLong(
                f"{error}; tried in vain for more than {FAILED_AFTER / 60:.0f} minutes", status=error.status
            )
        self._put_off[result.key] = PostponedWrite(result, error, since, now + seconds, times)
        self.again(result, seconds)
        return replace(result, error=error)

    def retry_now(self) -> None:
        """What was put off may be tried at once."""
        self._put_off = {key: replace(one, until=_now()) for key, one in self._put_off.items()}

    def begin(self, work: Awaitable[None]) -> None:
        """Hold on to this task until it ends."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_open(self, key: ObjectKey) -> bool:
        """Is it being written?"""
        return key in self._open

    def opened(self, key: ObjectKey) -> None:
        self._open[key] += 1

    def closed(self, key: ObjectKey) -> None:
        if key.namespace != OWN_NAMESPACE:
            self._written[key.group_kind] = _now()
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]

    def has_written(self, kind: GroupKind, since: float) -> bool:
        """May anything of this kind, our own records aside, be otherwise than it was then (seconds of the event loop) by what was begun here?"""
        return self._written.get(kind, 0.0) >= since or any(
            key.group_kind == kind and key.namespace != OWN_NAMESPACE for key in self._open
        )

    def deliver(self, answer: Answer) -> None:
        """It came when nobody waited any more. What was put off is looked at in its time."""
        result = answer[1]
        is_worth_a_look = self.heard(answer)
        if result.key not in self._put_off:
            if result.error is not None:
                self._late[result.key] = result
            if is_worth_a_look:
                self.again(result, 0.0)

    def broke(self, error: BaseException) -> None:
        """A late write ended in something that ends the process."""
        self._broken = error

    async def idle(self) -> None:
        """Until what is open now is answered."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def end(self, seconds: float) -> None:
        """Wait for what is open, at most so long; then break it off."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        left = set(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@dataclass(eq=False)
class WriteBatch:
    """What one pass begins. One that `insists` waits at its end until all is answered, and tries again until then what was put off."""

    underway: PendingWrites
    sleep: Callable[[float], Awaitable[None]]
    insists: bool
    _acts: Iterator[PendingAction] = field(default_factory=lambda: iter(()))
    _answers: list[Answer] = field(default_factory=list)
    _open: int = 0
    _moved: float = 0.0
    _returned: float | None = None
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _pausing: set[asyncio.Task[None]] = field(default_factory=set)
    _is_taking: bool = False
    _is_left: bool = False
    _broken: BaseException | None = None

    async def take(self, acts: Iterable[PendingAction] = ()) -> list[Answer]:
        """Begin these; the answers that come until nothing is open or none has come for a while. What the server has put off
        is waited for by who insists. No act is made long before it can be sent.

        While nothing is answered, a while is at least twice as long as it took to decide what to begin: where a server, or this machine, is
        slow, deciding anew all the time would make it slower. It is shorter by the share that is answered: the fewer are late, the more wait.

        Raises what an act raised that is no failure of its own.
        """
        self._acts, self._moved, self._is_taking = iter(acts), _now(), True
        pause = 0.0 if self._returned is None else min(LONGEST_PAUSE, 2 * (self._moved - self._returned))
        for act in islice(self._acts, BEGUN):
            self._begin(act)
        while self._awaited and not self._broken and (left := self._until(pause) - _now()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, SHORTEST)):  # the end comes nearer with each answer
                    await self._idle.wait()
        self._acts, self._is_taking, self._returned = iter(()), False, _now()
        if self._broken:
            raise self._broken
        answers, self._answers = self._answers, []
        return answers

    def _until(self, pause: float) -> float:
        """The time at which nobody waits any more, if nothing is answered until then."""
        share = self._awaited / (self._awaited + len(self._answers))
        return self._moved + max(pause * share, self.underway.patience.seconds)

    @property
    def _awaited(self) -> int:
        return self._open if self.insists else self._open - len(self._pausing)

    async def rest(self) -> list[Answer]:
        """Nothing more is to be begun: the next answers. Where one does not insist these are the last ones: what was put off is given up, and what
        was sent stays open.
        """
        while self.insists and self._open:
            if answers := await self.take():
                return answers
        self._over.set()
        if self._pausing:
            await asyncio.wait(set(self._pausing))
        return await self.take() if self._answers else []

    def leave(self) -> None:
        """The pass is over; what is still open is nobody's any more."""
        self._is_left = True
        self._over.set()

    async def attempt(self, result: Result, act: Callable[[], Awaitable[Object | None]]) -> Answer:
        """Carry it out; what the server puts off is tried again as long as the pass lasts."""
        spent, times = 0.0, self.underway.tries(result.key)
        while True:
            try:
                found = await act()
            except Unavailable as error:
                backoff = min(LONGEST_WAIT, FIRST_WAIT * 2.0**times)
                seconds, times = max(error.retry_after or 0.0, backoff), times + 1
                spent += seconds
                if error.again and spent <= BUDGET and await self._pause(seconds):
                    continue
                if self.insists:
                    return None, replace(result, error=error)
                return None, self.underway.put_off(result, error, seconds, times)
            except ClusterError as error:
                self.underway.forget(result.key)
                return None, replace(result, error=error)
            else:
                self.underway.forget(result.key)
                return found, result

    def _begin(self, act: PendingAction) -> None:
        self._open += 1
        self._idle.clear()
        self.underway.opened(act.key)
        self.underway.begin(self._work(act))

    async def _work(self, act: PendingAction | None) -> None:
        """One after the other, as long as there are any."""
        while act is not None:
            try:
                answer = await act.run()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._break(error)
                return
            finally:
                self._open -= 1
                self.underway.closed(act.key)
            self._hear()
            if self._is_left:
                self.underway.deliver(answer)
            else:
                self._answers.append(answer)
            if (act := next(self._acts, None)) is not None:
                self._open += 1
                self.underway.opened(act.key)
        if not self._awaited:
            self._idle.set()

    def _hear(self) -> None:
        before, self._moved = self._moved, _now()
        if self._is_taking:
            self.underway.patience.waited(self._moved - before)

    def _break(self, error: BaseException) -> None:
        """What is no failure of an act ends the pass, or, where that is over, the next one."""
        if self._is_left:
            self.underway.broke(error)
        self._broken = error
        self._idle.set()

    async def _pause(self, seconds: float) -> bool:
        """Sleep; False where the pass is over before."""
        task = asyncio.current_task()
        assert task is not None
        self._pausing.add(task)
        if not self._awaited:
            self._idle.set()
        waits = [asyncio.ensure_future(one) for one in (self.sleep(seconds), self._over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            self._pausing.discard(task)
            self._idle.clear()
        return not self._over.is_set()


def _now() -> float:
    return asyncio.get_running_loop().time()
